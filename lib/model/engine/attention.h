/* attention.h - attention of a batch of rows over the prefix tree.
 *
 * A row's path is a list of cache blocks. Rows that follow each other in a batch and begin with the same blocks form units.
 * The blocks that a unit's rows have in common are read once for all of them, as packed matrices: scores = q (rows x heads of
 * a group) times keys, result += weights times values. Then each row goes on with the rest of its own path. The scores of a
 * row stand in one array by position, and sums over it are made in order of position: how the path is cut into nodes, and
 * which rows share a unit, changes no bit of a result. In a windowed layer the blocks before the window are not read; what
 * is read beside what a row sees (before its window, for the sake of another row; behind its own position) weighs 0.
 *
 * A cache block holds, for each layer and each head of keys, SPAR_LANES keys as a panel (k: dimension, columns: positions)
 * and SPAR_LANES values as a panel (k: position, columns: dimensions). Dimensions are padded with zeros to SPAR_LANES.
 */
#ifndef SPAR_MODEL_ENGINE_ATTENTION_H
#define SPAR_MODEL_ENGINE_ATTENTION_H

#include "model/config.h"
#include "model/engine/kernel.h"
#include "model/engine/team.h"
#include "model/engine/tree.h"

/* A token to compute: `node` holds its position. */
struct spar_row {
	const struct spar_node *node;
	size_t pos;
	int32_t id;
	bool fresh;           /* its keys and values are not in the cache yet */
	size_t node_of_trace; /* whose values it leaves in a trace (trace.h), if there is one */
};

struct spar_attention {
	const struct spar_kernel *kernel;
	const struct spar_products *products;
	enum spar_dtype dtype;
	int threads;
	const struct spar_config *config;             /* borrowed */
	size_t n_layers, n_kv_heads, head_dim, group; /* group: query heads per head of keys */
	size_t width;                                 /* head_dim padded */
	size_t unit_rows;                             /* most rows of a unit of the present plan */
	struct spar_unit *units;
	const void **blocks; /* of all rows, one list after the other */
	size_t n_units, units_room, n_blocks, blocks_room;
	const void **
	    distinct; /* (n_distinct) the blocks of all rows, each once, as far as rows that follow each other share it */
	size_t n_distinct;
	float *scratch; /* (threads, scratch_floats) */
	size_t scratch_floats;
};

void spar_attention_init(struct spar_attention *a, const struct spar_config *c, const struct spar_kernel *kernel,
			 enum spar_dtype dtype, int threads);
void spar_attention_release(struct spar_attention *a);

/*! Bytes of a cache block. */
size_t spar_attention_block_size(const struct spar_attention *a);

/*! Form the units of a batch, best in the order of the tree; the nodes are borrowed until the next plan. */
void spar_attention_plan(struct spar_attention *a, const struct spar_row *rows, size_t n);

/*! What a layer's attention will read in one of n_shares shares of the planned rows. */
struct spar_fetch spar_attention_fetch(const struct spar_attention *a, size_t layer, size_t share, size_t n_shares);

/*! Put a row's rotated keys and its values, (n_kv_heads, head_dim) each, into the blocks of its position. */
void spar_attention_store(const struct spar_attention *a, const struct spar_row *row, size_t layer, const float *keys,
			  const float *values);

/*! The index in acts of query `head` of a row in q, (n_kv_heads, n_rows, group, width): a unit's queries lie together. */
size_t spar_attention_query(const struct spar_attention *a, size_t n_rows, size_t row, size_t head);

/*! Attention of the planned rows: q as above, out (n_rows, ld) acts, heads side by side. A phase of the team's. */
void spar_attention_run(const struct spar_attention *a, struct spar_worker *worker, size_t layer, const void *q,
			size_t n_rows, void *out, size_t ld);

#endif
