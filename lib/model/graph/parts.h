/* parts.h - what a training graph is made of; for lib/model/graph.c (its weights), graph/layer.c and
 * graph/pass.c (forward and backward). */
#ifndef SPAR_MODEL_GRAPH_PARTS_H
#define SPAR_MODEL_GRAPH_PARTS_H

#include "model/graph.h"
#include "tensor/tensor.h"

/* A weight with what belongs to it: y = x w^T + bias (+ scale * dropout(x) a^T b^T), a norm, or a table. */
struct module {
	struct spar_tensor *w, *bias, *a, *b; /* bias, a, b: may be NULL */
	double scale;                         /* of the adapter */
};

/* Parts that a family has not are empty. */
struct layer {
	struct module part[SPAR_N_PARTS];
};

struct trained {
	char name[128];
	struct spar_tensor *w, *moment1, *moment2;
	bool decays;
};

/* What dropout is a function of, with the graph's seed, the layer and the module. */
struct draw {
	uint64_t step, forwards;
};

/* What the layers of one forward share. */
struct batch {
	const struct spar_graph *g;
	struct spar_tensor *cos[2], *sin[2]; /* of each of the config's ropes, (n_nodes, head_dim / 2) */
	struct spar_tensor *target_rows;     /* (n_targets) nodes */
	const struct spar_tree *tree, *windowed;
	bool adapt, drop;
	struct draw draw;
};

struct spar_graph {
	const struct spar_model *model;
	struct spar_device device;
	enum spar_tensor_type type; /* of matrix products */
	bool frozen;
	size_t vocab; /* logits there are: below the vocabulary limit */
	uint64_t seed;
	struct draw draw;
	struct spar_lora_config *lora; /* NULL: none */

	struct spar_scope *own; /* weights and moments */
	struct spar_param *params;
	size_t n_params;
	struct layer outside; /* embedding, last norm, head */
	struct layer *layers;
	struct trained *trained;
	size_t n_trained;

	/* the last TRAIN forward */
	struct spar_scope *run;
	struct batch batch;
	struct spar_tensor *hidden; /* (n_targets, hidden size) */
	struct spar_tensor *
	    *checkpoints;             /* (n_layers + 1) the input of each layer, and the last one's output; NULL: off */
	struct spar_tensor *embedded; /* what the first checkpoint is a copy of */
	int32_t *target_ids;
	size_t n_targets;
	double temperature;
};

/*! x (n_nodes, hidden) -> the same, or (n_targets, hidden) behind the last layer: nothing else is needed after its
 *  attention. */
struct spar_tensor *spar_graph_layer(const struct batch *b, struct spar_scope *s, size_t layer, struct spar_tensor *x);

/*! x normed, in `type`; x itself where the family has no such norm. */
struct spar_tensor *spar_graph_norm(const struct spar_graph *g, struct spar_scope *s, const struct module *m,
				    struct spar_tensor *x, enum spar_tensor_type type);

/*! Let go of the last TRAIN forward. */
void spar_graph_forget(struct spar_graph *g);

#endif
