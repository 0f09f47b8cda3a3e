/* parts.h - what a training graph is made of; for lib/model/graph.c (its weights), graph/layer.c, graph/head.c,
 * graph/pass.c (forward and backward through all of them) and graph/trace.c (the engine's forward); and graph/device.c, which
 * samples with it. */
#ifndef SPAR_MODEL_GRAPH_PARTS_H
#define SPAR_MODEL_GRAPH_PARTS_H

#include "model/engine.h"
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

/* Keys and values of all positions that a sampler's tree holds (graph/device.c), and which of them a pass reads. */
struct cache {
	struct spar_tensor **k, **v;          /* (n_layers) tables (numbers, n_kv_heads * head_dim) */
	struct spar_tensor *fresh, *fresh_at; /* rows whose keys and values are new, and their numbers */
	struct spar_tensor *paths, *n_keys;   /* of each row, as spar_tensor_attend_paths wants them */
};

/* What the layers of one forward share. */
struct batch {
	const struct spar_graph *g;
	struct spar_tensor *cos[2], *sin[2]; /* of each of the config's ropes, (n_nodes, head_dim / 2) */
	struct spar_tensor *target_rows;     /* (n_targets) nodes; NULL: all */
	const struct cache *cache;           /* sampling: rows read it; NULL: rows are nodes of the trees */
	const struct spar_tree *tree, *windowed;
	struct spar_tensor *(*values)[SPAR_N_TRACE_POINTS]; /* (n_layers) what the engine left; NULL: layers compute */
	bool adapt, drop;
	struct draw draw;
};

struct spar_graph {
	const struct spar_model *model;
	struct spar_device device;
	enum spar_tensor_type type; /* of matrix products */
	bool frozen, tensors, checkpointing;
	int threads;
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

	struct spar_engine *engine, *base; /* base: with the adapter off; NULL: not needed so far */
	bool stale;                        /* the engine's weights are those before the last step */

	/* the last TRAIN forward */
	struct spar_scope *run;
	struct batch batch;
	struct spar_tensor *output; /* (n_targets, hidden size) of the last layer */
	/* Where the layers' backward is made one by one (values or checkpoints): */
	bool by_layers;
	struct spar_tensor **inputs; /* (n_layers) of each */
	struct spar_tensor *(*values)[SPAR_N_TRACE_POINTS];
	struct spar_tensor *embedded; /* what the first input is a copy of */
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

/*! Ids and positions of n rows -> x (n, hidden). */
struct spar_tensor *spar_graph_embed(const struct spar_graph *g, struct spar_scope *s, const int32_t *ids,
				     const int32_t *positions, size_t n);
/*! The angles of n rows, for every rope that a layer turns by. */
void spar_graph_angles(struct batch *b, struct spar_scope *s, const int32_t *positions, size_t n);
/*! x (n, hidden), the last layer's output -> logits (n, vocab). */
struct spar_tensor *spar_graph_logits(const struct spar_graph *g, struct spar_scope *s, struct spar_tensor *x);

/*! x as a leaf: what is made of it gives its gradient there, and goes no further back. */
struct spar_tensor *spar_graph_leaf(struct spar_scope *s, const struct spar_tensor *x);

/*! Whether the engine makes this graph's forwards, where dropout does not forbid it. */
static inline bool spar_graph_has_engine(const struct spar_graph *g)
{
	return !g->device.cuda && !g->tensors;
}

/*! The engine that makes this forward, with the present weights; NULL: tensors make it, or err is set. */
int spar_graph_engine(struct spar_graph *g, enum spar_graph_mode mode, bool drop, struct spar_engine **out,
		      struct spar_err *err);
/*! The engine's forward: the last layer's output (n_targets, hidden); with `grad` a leaf, and inputs and values are left. */
struct spar_tensor *spar_graph_trace(struct spar_graph *g, struct spar_scope *s, struct spar_engine *e,
				     const struct spar_pack *p, bool grad, struct spar_err *err);
/*! A parameter as it is now, adapter added, in float32. */
int spar_graph_present(const struct spar_graph *g, const struct spar_param *p, float *out, struct spar_err *err);
bool spar_graph_adapts(const struct spar_graph *g, const struct spar_param *p);

/* What the loss asks of each target: dL/dlogprob and dL/dentropy (NULL: of no target). */
struct pull {
	int32_t *ids;
	float *logprobs, *entropies;
};
/*! x (n_targets, hidden), the last layer's output -> what spar_graph_forward gives. e: the engine, or NULL. */
void spar_graph_head(const struct spar_graph *g, struct spar_scope *s, struct spar_engine *e, struct spar_tensor *x,
		     const int32_t *ids, double temperature, float *logprobs, float *entropies, float *best);
/*! The backward from the head to x, some of those rows; the head's gradient is added on the way. */
void spar_graph_head_backward(const struct spar_graph *g, struct spar_scope *s, struct spar_engine *e,
			      struct spar_tensor *x, const struct pull *pull);

/*! Let go of the last TRAIN forward. */
void spar_graph_forget(struct spar_graph *g);

#endif
