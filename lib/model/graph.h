/* graph.h - the same transformer for training, over tensor/tensor.h (libtorch). One forward and backward over a prefix
 * tree (model/pack.h). On a CPU the forward is the engine's (model/engine.h) and what it leaves is the value of the
 * tensors that the backward goes by: so sampler and trainer give a token the same probability, to the bit. On a GPU, and
 * where dropout is on, tensors do both. The loss is not in here: the trainer computes dL/dlogprob of every target in plain C
 * (rl/objective.h) and hands it back, so an objective is a function of numbers and needs no tensors.
 *
 *	spar_graph_new(&g, &model, &opt, &err);
 *	spar_graph_forward(g, pack, temperature, SPAR_GRAPH_TRAIN, logprobs, entropies, &err);  // keeps activations
 *	... dlogprobs from the objective ...
 *	spar_graph_backward(g, dlogprobs, NULL, &err);        // adds to the gradients; frees the activations
 *	spar_graph_step(g, &step, &err);                      // clip, AdamW, zero the gradients
 * Logits exist only for a chunk of targets at a time, forward and backward.
 */
#ifndef SPAR_MODEL_GRAPH_H
#define SPAR_MODEL_GRAPH_H

#include "base/err.h"
#include "model/engine.h"
#include "model/model.h"
#include "model/pack.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spar_graph; /* opaque; one thread calls */

struct spar_graph_opt {
	const char *device;    /* "cpu", "cuda", "cuda:1" */
	enum spar_dtype dtype; /* of matrix products: SPAR_F32 or SPAR_BF16; master weights and moments are float32 */
	int threads;           /* 0: all cores */
	const struct spar_lora_config
	    *lora;     /* NULL: train every parameter; else only new (or, if the model is an adapter, its) A and B */
	uint64_t seed; /* of LoRA's A (Kaiming uniform as PEFT; B is 0) and of dropout */
	size_t vocab_limit; /* as the engine's: logits of ids at or above are left out of the softmax; 0: none */
	bool frozen;        /* no gradients at all: a reference model */
	bool checkpointing; /* keep only the layers' inputs and run each layer again in the backward */
	bool tensors;       /* the forward by tensors on a CPU too, as on a GPU: the twin that tests compare with */
};

/*! `m` is borrowed and must outlive the graph (saving reads the base weights again). */
int spar_graph_new(struct spar_graph **out, const struct spar_model *m, const struct spar_graph_opt *opt,
		   struct spar_err *err);
void spar_graph_free(struct spar_graph *g);

enum spar_graph_mode {
	SPAR_GRAPH_INFER,     /* no activations kept, dropout off */
	SPAR_GRAPH_TRAIN,     /* activations kept for one backward; LoRA dropout on */
	SPAR_GRAPH_REFERENCE, /* as INFER with the adapter switched off (LoRA's reference policy) */
};
/*! Dropout from here on is a function of opt.seed and `step`. The trainer calls this before each optimizer step, so that a
 *  resumed run draws what the unbroken one drew. */
void spar_graph_reseed(struct spar_graph *g, uint64_t step);

/*! logprobs (n_targets): log-softmax(logits / temperature)[target], nats. Of the same distribution entropies (n_targets) and
 *  best (n_targets), the highest log-probability of any token; both may be NULL. */
int spar_graph_forward(struct spar_graph *g, const struct spar_pack *p, double temperature, enum spar_graph_mode mode,
		       float *logprobs, float *entropies, float *best, struct spar_err *err);

/*! dlogprobs (n_targets) = dL/dlogprob, and dentropies = dL/dentropy or NULL, for the last TRAIN forward. Targets whose
 *  values are 0 cost no head backward. */
int spar_graph_backward(struct spar_graph *g, const float *dlogprobs, const float *dentropies, struct spar_err *err);

struct spar_adamw {
	double learning_rate, beta1, beta2, eps,
	    weight_decay;     /* decoupled; decay on matrices only (not norms, biases) */
	double max_grad_norm; /* 0: no clipping */
	uint64_t step;        /* 1-based, for bias correction */
};
struct spar_step_report {
	double grad_norm;   /* before clipping */
	bool finite;        /* false: nothing was changed, gradients were dropped */
	uint64_t n_changed; /* master weights whose value differs after the step */
	uint64_t n_trained; /* elements that could have changed */
};
int spar_graph_step(struct spar_graph *g, const struct spar_adamw *how, struct spar_step_report *report,
		    struct spar_err *err);

/*! Drop gathered gradients without a step. */
void spar_graph_zero(struct spar_graph *g);

/* What is trained, for saving: copies to float32 on the host.
 * Names are parameter names, or "<module>.lora_A" / "<module>.lora_B" under LoRA. */
size_t spar_graph_count(const struct spar_graph *g);
const char *spar_graph_name(const struct spar_graph *g, size_t i); /* borrowed */
size_t spar_graph_elements(const struct spar_graph *g, size_t i);
enum spar_graph_what { SPAR_GRAPH_WEIGHT, SPAR_GRAPH_GRAD, SPAR_GRAPH_MOMENT1, SPAR_GRAPH_MOMENT2 };
int spar_graph_get(const struct spar_graph *g, size_t i, enum spar_graph_what what, float *out, struct spar_err *err);
int spar_graph_set(struct spar_graph *g, size_t i, enum spar_graph_what what, const float *in, struct spar_err *err);

/*! Write the present weights: an adapter folder under LoRA, a full checkpoint (with the base's side files) without, or with
 *  `merge` (W + scale * B A in float32, rounded once to `dtype`). `dir` exists. base_name: what adapter_config names as base. */
int spar_graph_save(const struct spar_graph *g, const char *dir, bool merge, enum spar_dtype dtype,
		    const char *base_name, struct spar_err *err);

/*! The rows of an engine, by tensors on opt->device (spar_engine_opt.new_device). */
int spar_graph_device(struct spar_device_rows **out, const struct spar_model *m, const struct spar_engine_opt *opt,
		      struct spar_err *err);

const struct spar_lora_config *
spar_graph_lora(const struct spar_graph *g); /* after fallback to all-linear; NULL: none */

#endif
