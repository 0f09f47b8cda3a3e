/* config.h - a model's shape, read from config.json, and the list of its weights. One table-driven transformer: a family
 * differs by what stands here, not by code. Unsupported model_type, rope_scaling, activation or key: an error naming it. */
#ifndef SPAR_MODEL_CONFIG_H
#define SPAR_MODEL_CONFIG_H

#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPAR_MAX_END 16

struct spar_config {
	char model_type[32]; /* "llama" (Llama shape: RMSNorm, rotary, SiLU-gated MLP); others come later */
	size_t n_layers, hidden_size, intermediate_size, vocab_size;
	size_t n_heads, n_kv_heads, head_dim; /* grouped-query attention: n_heads % n_kv_heads == 0 */
	size_t max_position;                  /* max_position_embeddings: the context limit */
	float rms_norm_eps;
	double rope_theta;        /* rotary base; half-split layout (Hugging Face's rotate_half) */
	bool tie_word_embeddings; /* absent in config.json: the architecture's default */
	bool attention_bias, mlp_bias;
	double initializer_range;
	int32_t end_ids[SPAR_MAX_END]; /* union of generation_config, config and tokenizer (B10) */
	size_t n_end;
	int32_t
	    eos; /* the token that ends a trained completion: the tokenizer's, else the first of end_ids; -1: none */
};

/*! Read config.json and generation_config.json in `dir`. */
int spar_config_load(struct spar_config *c, const char *dir, struct spar_err *err);

/*! The tokenizer's end token (-1: it has none) comes before those of the files. SPAR_INPUT if it is beyond the vocabulary. */
int spar_config_add_eos(struct spar_config *c, int32_t id, struct spar_err *err);
bool spar_config_is_end(const struct spar_config *c, int32_t id);

/*! cos and sin of the rotary angles position * theta^(-2i / head_dim) at positions [first, end), into (end - first,
 *  head_dim / 2) each. Steps are rounded to float32 where transformers rounds them, as models were trained so: an angle at
 *  position 1500 is off by up to 1e-4 of a radian, and a model that shares the error agrees better. */
void spar_config_rotary(const struct spar_config *c, size_t first, size_t end, float *cosines, float *sines);

/* The weights a config wants, in file order. Names are Hugging Face's. */
enum spar_param_kind { SPAR_PARAM_EMBED, SPAR_PARAM_LINEAR, SPAR_PARAM_NORM, SPAR_PARAM_BIAS, SPAR_PARAM_HEAD };
struct spar_param {
	char name[96]; /* "model.layers.3.self_attn.q_proj.weight" */
	enum spar_param_kind kind;
	size_t rows, cols; /* (out, in) of a matrix; a vector has rows = its length, cols = 0 */
	int layer;         /* -1 outside layers */
};
static inline size_t spar_param_elements(const struct spar_param *p)
{
	return p->rows * (p->cols ? p->cols : 1);
}
/*! All parameters (a tied head is not listed); malloc'ed, caller frees. */
struct spar_param *spar_config_params(const struct spar_config *c, size_t *n);

#endif
