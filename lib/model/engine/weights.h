/* weights.h - a model's parameters, packed for the kernels (kernel.h) in panels of SPAR_PANEL columns. */
#ifndef SPAR_MODEL_ENGINE_WEIGHTS_H
#define SPAR_MODEL_ENGINE_WEIGHTS_H

#include "model/engine/kernel.h"
#include "model/model.h"

struct spar_linear {
	size_t n, k; /* columns (outputs) and inputs */
	void *
	    panels; /* (n / SPAR_PANEL, rounded up) panels of k (rounded up to even) by SPAR_PANEL; columns past n are 0 */
	float *bias; /* (n rounded up to SPAR_PANEL), 0 past n; NULL: none */
};

struct spar_norm_weights {
	float *weight, *bias; /* (size rounded up to SPAR_PANEL), 0 past it; Gemma's 1 is added; NULL: none */
};

struct spar_layer {
	struct spar_norm_weights attention_norm, attention_post_norm, mlp_norm, mlp_post_norm, q_norm, k_norm;
	struct spar_linear qkv;               /* columns: all q heads, all k heads, all v heads */
	struct spar_linear o, gate, up, down; /* gate: no panels in a plain MLP */
};

struct spar_weights {
	enum spar_dtype dtype;
	struct spar_layer *layers;
	size_t n_layers;
	struct spar_norm_weights norm;
	struct spar_linear head; /* of a tied model the embedding is read from here */
	void *embedding;         /* (vocab, hidden) row-major in dtype; NULL: tied */
	void *positions;         /* (max_position, hidden) the same way; NULL: not learned */
	void *matrices;          /* where all matrices lie */
	size_t matrices_size;
	size_t size_bytes;  /* of all the above */
	int threads;        /* for packing */
	uint64_t base_hash; /* of the model they are of, and which of its parameters an adapter changed */
	bool *adapted;      /* (n_params) */
};

/*! Pack every parameter, on `threads` threads. A failure leaves nothing allocated. */
int spar_weights_load(struct spar_weights *w, const struct spar_model *m, enum spar_dtype dtype, int threads,
		      struct spar_err *err);

/*! The parameters of another model of the same shape, in place; on the same base only those that its adapter or the one before
 *  changes. After a failure some are the old ones. */
int spar_weights_reload(struct spar_weights *w, const struct spar_model *m, struct spar_err *err);
/*! New values, in place: `make` fills `out`, or returns 1 where they are what they were. */
int spar_weights_refill(struct spar_weights *w, const struct spar_config *c, spar_model_make *make, const void *from,
			struct spar_err *err);
void spar_weights_release(struct spar_weights *w);

/*! The embedding of `id` in float32, (hidden). */
void spar_weights_embed(const struct spar_weights *w, int32_t id, size_t hidden, float *out);

/*! x (hidden) += the learned embedding of a position, if the model has them. */
void spar_weights_add_position(const struct spar_weights *w, size_t pos, size_t hidden, float *x);

static inline size_t spar_linear_panels(const struct spar_linear *l)
{
	return spar_round_up(l->n, SPAR_PANEL) / SPAR_PANEL;
}

/* In bytes. */
static inline size_t spar_linear_panel_size(const struct spar_linear *l, enum spar_dtype dtype)
{
	return spar_round_up(l->k, 2) * SPAR_PANEL * (dtype == SPAR_BF16 ? 2 : 4);
}

static inline const void *spar_linear_panel(const struct spar_linear *l, enum spar_dtype dtype, size_t panel)
{
	return (const char *)l->panels + panel * spar_linear_panel_size(l, dtype);
}

#endif
