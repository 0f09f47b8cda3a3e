/* config.h - a model's shape, read from config.json, and the list of its weights. One table-driven transformer: a family
 * differs by what stands here, not by code. Engine and graph both read this description. What a config.json may ask for and
 * is not here (model_type, rope type, activation, any key that is on) is an error naming it. */
#ifndef SPAR_MODEL_CONFIG_H
#define SPAR_MODEL_CONFIG_H

#include "base/err.h"
#include "model/rope.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPAR_MAX_END 16
#define SPAR_MAX_LAYERS 512

enum spar_norm {
	SPAR_NORM_RMS,          /* x / sqrt(mean(x^2) + eps) * weight */
	SPAR_NORM_RMS_PLUS_ONE, /* ... * (1 + weight): Gemma */
	SPAR_NORM_LAYER,        /* (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias */
};
enum spar_activation {
	SPAR_ACTIVATION_SILU,      /* x / (1 + e^-x) */
	SPAR_ACTIVATION_GELU_TANH, /* x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) */
};
enum spar_naming {
	SPAR_NAMING_LLAMA, /* model.layers.0.self_attn.q_proj ... */
	SPAR_NAMING_GPT2,  /* transformer.h.0.attn.c_attn ...; q, k and v in one; matrices stored (in, out) */
};

/* A layer is
 *	x += post_norm(o(attention(norm(x))))
 *	x += post_norm(down(activation(gate(h)) * up(h))), h = norm(x)
 * Zero, false and 0 below are what Llama has. */
struct spar_config {
	char model_type[32];
	enum spar_naming naming;
	size_t n_layers, hidden_size, intermediate_size, vocab_size;
	size_t n_heads, n_kv_heads, head_dim; /* grouped-query attention: n_heads % n_kv_heads == 0 */
	size_t max_position;                  /* the context limit */
	enum spar_norm norm;
	float norm_eps;
	enum spar_activation activation;
	bool plain_mlp;                  /* no gate: down(activation(up(x))) */
	bool qkv_bias, o_bias, mlp_bias; /* which linear layers have one */
	bool qk_norm;                    /* each head's query and key normed before it is turned */
	bool post_norms;                 /* a norm behind attention and behind the MLP as well */
	bool tie_word_embeddings;        /* the head is the embedding */
	bool learned_positions;          /* an embedding of the position is added to the token's */
	double embedding_scale;          /* 0: 1 */
	double query_scalar;             /* scores are q k / sqrt(query_scalar); 0: head_dim */
	double attention_cap, logit_cap; /* scores and logits become cap * tanh(x / cap); 0: they stay */
	size_t window;                   /* a windowed layer sees this many positions, its own included */
	struct spar_rope ropes[2];
	struct spar_layer_shape {
		int8_t rope; /* index into ropes; -1: nothing is turned */
		bool windowed;
	} layers[SPAR_MAX_LAYERS];
	double initializer_range;
	int32_t end_ids[SPAR_MAX_END]; /* union of generation_config, config and tokenizer (B10) */
	size_t n_end;
	int32_t eos; /* ends a trained completion: the tokenizer's, else the first of end_ids; -1: none */
};

/*! Read config.json and generation_config.json in `dir`. */
int spar_config_load(struct spar_config *c, const char *dir, struct spar_err *err);

/*! The tokenizer's end token (-1: it has none) comes before those of the files. SPAR_INPUT if it is beyond the vocabulary. */
int spar_config_add_eos(struct spar_config *c, int32_t id, struct spar_err *err);
bool spar_config_is_end(const struct spar_config *c, int32_t id);

/*! What scores are multiplied by. */
double spar_config_score_scale(const struct spar_config *c);
/*! How many positions a layer sees at most; 0: all before it. */
static inline size_t spar_config_window(const struct spar_config *c, size_t layer)
{
	return c->layers[layer].windowed ? c->window : 0;
}

/* The weights a config wants, in file order. Names are Hugging Face's. */
enum spar_param_kind { SPAR_PARAM_EMBED, SPAR_PARAM_LINEAR, SPAR_PARAM_NORM, SPAR_PARAM_BIAS, SPAR_PARAM_HEAD };
/* Where a weight or its bias belongs. */
enum spar_part {
	SPAR_PART_EMBED,
	SPAR_PART_POSITIONS,
	SPAR_PART_Q,
	SPAR_PART_K,
	SPAR_PART_V,
	SPAR_PART_QKV, /* all rows of q, of k, of v */
	SPAR_PART_O,
	SPAR_PART_GATE,
	SPAR_PART_UP,
	SPAR_PART_DOWN,
	SPAR_PART_Q_NORM,
	SPAR_PART_K_NORM,
	SPAR_PART_ATTENTION_NORM,
	SPAR_PART_ATTENTION_POST_NORM,
	SPAR_PART_MLP_NORM,
	SPAR_PART_MLP_POST_NORM,
	SPAR_PART_NORM,
	SPAR_PART_HEAD,
	SPAR_N_PARTS
};
struct spar_param {
	char name[96]; /* "model.layers.3.self_attn.q_proj.weight" */
	enum spar_param_kind kind;
	enum spar_part part;
	size_t rows, cols; /* (out, in) of a matrix; a vector has rows = its length, cols = 0 */
	bool transposed;   /* files hold (cols, rows); in memory it is (rows, cols) all the same */
	int layer;         /* -1 outside layers */
	size_t index;      /* in the list of spar_config_params */
};
static inline size_t spar_param_elements(const struct spar_param *p)
{
	return p->rows * (p->cols ? p->cols : 1);
}
/*! All parameters (a tied head is not listed); malloc'ed, caller frees. */
struct spar_param *spar_config_params(const struct spar_config *c, size_t *n);
/*! Length of the module's name in a parameter's: all before ".weight" or ".bias". */
size_t spar_param_module_length(const struct spar_param *p);
/*! from (rows, cols) -> to (cols, rows) */
void spar_transpose(const float *from, size_t rows, size_t cols, float *to);

#endif
