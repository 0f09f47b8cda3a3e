/* device.c - a training graph that samples: an engine's rows by tensors, on a GPU. The engine's tree holds a number for each
 * position (engine/device.h); here are the tables that the numbers are rows of. Number 0 is nobody's. */
#include "model/engine/forward.h"
#include "model/graph/parts.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct device {
	struct spar_device_rows rows; /* first: what the engine knows */
	struct spar_graph_opt opt;
	struct spar_graph *graph;
	size_t vocab_size;
	struct spar_scope *own; /* the tables */
	struct spar_tensor **k, **v;
	size_t room, n_used; /* numbers that the tables have rows for, and those that were given out once */
	int32_t *free;       /* (n_free) given back */
	size_t n_free, free_room;
};

static struct device *device_of(struct spar_device_rows *rows)
{
	return (struct device *)rows;
}

/* ---- numbers ---- */

static int32_t take_number(struct device *d)
{
	return d->n_free ? d->free[--d->n_free] : (int32_t)++d->n_used;
}

/* Into every block that holds the row's position, as spar_attention_store does. */
static void write_number(const struct spar_node *node, int32_t *block, size_t pos, int32_t number)
{
	block[pos % SPAR_LANES] = number;
	for (const struct spar_node *child = node->children; child; child = child->next)
		if (spar_node_child_shares(child, pos))
			write_number(child, child->blocks[0], pos, number);
}

static void forget(struct spar_device_rows *rows, const struct spar_node *node)
{
	struct device *d = device_of(rows);
	if (d->n_free + node->n > d->free_room) {
		d->free_room = 2 * (d->n_free + node->n);
		d->free = spar_realloc(d->free, d->free_room * sizeof *d->free);
	}
	for (size_t pos = node->start; pos < node->start + node->n; pos++) {
		int32_t number = ((const int32_t *)spar_node_block(node, pos))[pos % SPAR_LANES];
		if (number)
			d->free[d->n_free++] = number;
	}
}

/* ---- tables ---- */

/* `table` with rows for `room` numbers; the old ones are kept. */
static struct spar_tensor *grow_table(struct device *d, struct spar_tensor *table, size_t room)
{
	const struct spar_config *c = &d->graph->model->config;
	struct spar_tensor *larger =
	    spar_tensor_zeros(d->own, d->graph->type, 2, (size_t[]){room, c->n_kv_heads * c->head_dim});
	if (table) {
		spar_tensor_assign(d->own, spar_tensor_slice(d->own, larger, 0, d->room), table);
		spar_tensor_drop(table);
	}
	return larger;
}

static void make_room(struct device *d)
{
	size_t room = 2 * (d->n_used + 1);
	if (d->n_used < d->room)
		return;
	for (size_t i = 0; i < d->graph->model->config.n_layers; i++) {
		d->k[i] = grow_table(d, d->k[i], room);
		d->v[i] = grow_table(d, d->v[i], room);
	}
	d->room = room;
}

/* ---- a pass ---- */

/* Fresh rows get numbers. */
static void number_rows(struct device *d, struct spar_scope *s, const struct spar_row *rows, size_t n, struct cache *c)
{
	int32_t *which = spar_malloc(n * sizeof *which), *at = spar_malloc(n * sizeof *at);
	size_t n_fresh = 0;
	for (size_t r = 0; r < n; r++)
		if (rows[r].fresh) {
			which[n_fresh] = (int32_t)r;
			at[n_fresh++] = take_number(d);
			write_number(rows[r].node, spar_node_block(rows[r].node, rows[r].pos), rows[r].pos,
				     at[n_fresh - 1]);
		}
	c->fresh = spar_tensor_from_i32(s, which, n_fresh);
	c->fresh_at = spar_tensor_from_i32(s, at, n_fresh);
	free(which);
	free(at);
}

/* Each row's path as numbers, in a line as long as the longest needs. */
static void list_paths(struct spar_scope *s, const struct spar_row *rows, size_t n, struct cache *c)
{
	size_t longest = 1;
	for (size_t r = 0; r < n; r++)
		longest = rows[r].pos + 1 > longest ? rows[r].pos + 1 : longest;
	int32_t *paths = spar_calloc(n * longest, sizeof *paths), *n_keys = spar_malloc(n * sizeof *n_keys);
	const void **blocks = spar_malloc((longest / SPAR_LANES + 1) * sizeof *blocks);
	for (size_t r = 0; r < n; r++) {
		size_t n_path = rows[r].pos + 1;
		n_keys[r] = (int32_t)n_path;
		spar_node_path(rows[r].node, n_path, blocks);
		for (size_t pos = 0; pos < n_path; pos++)
			paths[r * longest + pos] = ((const int32_t *)blocks[pos / SPAR_LANES])[pos % SPAR_LANES];
	}
	c->paths = spar_tensor_from_i32(s, paths, n * longest);
	c->n_keys = spar_tensor_from_i32(s, n_keys, n);
	free(paths);
	free(n_keys);
	free(blocks);
}

static struct spar_tensor *layers(struct device *d, struct spar_scope *s, const struct spar_row *rows, size_t n,
				  const struct cache *c)
{
	struct spar_graph *g = d->graph;
	struct batch b = {.g = g, .cache = c};
	int32_t ids[SPAR_FORWARD_ROWS], positions[SPAR_FORWARD_ROWS];
	for (size_t r = 0; r < n; r++) {
		ids[r] = rows[r].id;
		positions[r] = (int32_t)rows[r].pos;
	}
	spar_graph_angles(&b, s, positions, n);
	struct spar_tensor *x = spar_graph_embed(g, s, ids, positions, n);
	for (size_t i = 0; i < g->model->config.n_layers; i++) {
		struct spar_scope *inner = spar_scope_open(s, false);
		struct spar_tensor *y = spar_scope_close(inner, spar_graph_layer(&b, inner, i, x));
		spar_tensor_drop(x);
		x = y;
	}
	return x;
}

static int run(struct spar_device_rows *rows_of, const struct spar_row *rows, size_t n, float *x, struct spar_err *err)
{
	struct device *d = device_of(rows_of);
	struct cache c = {.k = d->k, .v = d->v};
	struct spar_scope *s = spar_scope_new(d->graph->device, false);
	number_rows(d, s, rows, n, &c);
	make_room(d);
	list_paths(s, rows, n, &c);
	spar_tensor_read(s, layers(d, s, rows, n, &c), x, n * d->graph->model->config.hidden_size);
	int rc = spar_scope_status(d->own, err);
	if (rc == 0)
		rc = spar_scope_status(s, err);
	spar_scope_free(s);
	return rc;
}

static int head(struct spar_device_rows *rows, const float *x, size_t n, float *logits, struct spar_err *err)
{
	struct device *d = device_of(rows);
	const struct spar_graph *g = d->graph;
	struct spar_scope *s = spar_scope_new(g->device, false);
	struct spar_tensor *all =
	    spar_graph_logits(g, s, spar_tensor_from_f32(s, x, 2, (size_t[]){n, g->model->config.hidden_size}));
	float *below_limit = spar_malloc(n * g->vocab * sizeof *below_limit);
	spar_tensor_read(s, all, below_limit, n * g->vocab);
	for (size_t r = 0; r < n; r++) {
		memcpy(logits + r * d->vocab_size, below_limit + r * g->vocab, g->vocab * sizeof *logits);
		for (size_t i = g->vocab; i < d->vocab_size; i++)
			logits[r * d->vocab_size + i] = -INFINITY;
	}
	free(below_limit);
	int rc = spar_scope_status(s, err);
	spar_scope_free(s);
	return rc;
}

/* ---- life ---- */

static int reload(struct spar_device_rows *rows, const struct spar_model *m, struct spar_err *err)
{
	struct device *d = device_of(rows);
	spar_graph_free(d->graph); /* first: a GPU may not have room for two */
	d->graph = NULL;
	return spar_graph_new(&d->graph, m, &d->opt, err);
}

static void free_device(struct spar_device_rows *rows)
{
	struct device *d = device_of(rows);
	spar_graph_free(d->graph);
	spar_scope_free(d->own);
	free(d->k);
	free(d->v);
	free(d->free);
	free((char *)d->opt.device);
	free(d);
}

int spar_graph_device(struct spar_device_rows **out, const struct spar_model *m, const struct spar_engine_opt *opt,
		      struct spar_err *err)
{
	const struct spar_config *c = &m->config;
	struct device *d = spar_calloc(1, sizeof *d);
	d->rows = (struct spar_device_rows){
	    run,         head,
	    reload,      forget,
	    free_device, .position_size = 2 * c->n_layers * c->n_kv_heads * c->head_dim * spar_dtype_size(opt->dtype)};
	d->vocab_size = c->vocab_size;
	d->opt = (struct spar_graph_opt){.device = spar_strdup(opt->device ? opt->device : "cpu"),
					 .dtype = opt->dtype,
					 .threads = opt->threads,
					 .vocab_limit = opt->vocab_limit,
					 .frozen = true,
					 .tensors = true};
	d->k = spar_calloc(c->n_layers, sizeof(struct spar_tensor *));
	d->v = spar_calloc(c->n_layers, sizeof(struct spar_tensor *));
	int rc = spar_graph_new(&d->graph, m, &d->opt, err);
	if (rc < 0) {
		free_device(&d->rows);
		return rc;
	}
	d->own = spar_scope_new(d->graph->device, false);
	*out = &d->rows;
	return 0;
}
