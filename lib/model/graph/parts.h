/* parts.h - what a training graph is made of; for lib/model/graph.c (its weights) and graph/pass.c (forward and backward). */
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

struct spar_graph {
	const struct spar_model *model;
	struct spar_device device;
	enum spar_tensor_type type; /* of matrix products */
	bool frozen;
	size_t vocab; /* logits there are: below the vocabulary limit */
	uint64_t seed;
	struct {
		uint64_t step, forwards;
	} draw;                        /* what dropout is a function of, with the seed */
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
	struct spar_tensor *hidden; /* (n_targets, hidden size) */
	int32_t *target_ids;
	size_t n_targets;
	double temperature;
};

/*! Let go of the last TRAIN forward. */
void spar_graph_forget(struct spar_graph *g);

#endif
