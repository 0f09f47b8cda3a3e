/* params.c - the list of a model's weights; see config.h */
#include "model/config.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARTS_OF_A_LAYER 13
#define PARTS_OUTSIDE 4

static const char *const llama_names[SPAR_N_PARTS] = {
    [SPAR_PART_EMBED] = "model.embed_tokens",
    [SPAR_PART_Q] = "self_attn.q_proj",
    [SPAR_PART_K] = "self_attn.k_proj",
    [SPAR_PART_V] = "self_attn.v_proj",
    [SPAR_PART_O] = "self_attn.o_proj",
    [SPAR_PART_GATE] = "mlp.gate_proj",
    [SPAR_PART_UP] = "mlp.up_proj",
    [SPAR_PART_DOWN] = "mlp.down_proj",
    [SPAR_PART_Q_NORM] = "self_attn.q_norm",
    [SPAR_PART_K_NORM] = "self_attn.k_norm",
    [SPAR_PART_ATTENTION_NORM] = "input_layernorm",
    [SPAR_PART_MLP_NORM] = "post_attention_layernorm", /* where there are no post norms */
    [SPAR_PART_NORM] = "model.norm",
    [SPAR_PART_HEAD] = "lm_head",
};

/* With post norms "post_attention_layernorm" is what it says. */
static const char *const post_norm_names[SPAR_N_PARTS] = {
    [SPAR_PART_ATTENTION_POST_NORM] = "post_attention_layernorm",
    [SPAR_PART_MLP_NORM] = "pre_feedforward_layernorm",
    [SPAR_PART_MLP_POST_NORM] = "post_feedforward_layernorm",
};

static const char *const gpt2_names[SPAR_N_PARTS] = {
    [SPAR_PART_EMBED] = "transformer.wte", [SPAR_PART_POSITIONS] = "transformer.wpe",
    [SPAR_PART_QKV] = "attn.c_attn",       [SPAR_PART_O] = "attn.c_proj",
    [SPAR_PART_UP] = "mlp.c_fc",           [SPAR_PART_DOWN] = "mlp.c_proj",
    [SPAR_PART_ATTENTION_NORM] = "ln_1",   [SPAR_PART_MLP_NORM] = "ln_2",
    [SPAR_PART_NORM] = "transformer.ln_f", [SPAR_PART_HEAD] = "lm_head",
};

struct list {
	const struct spar_config *c;
	struct spar_param *params;
	size_t n;
	int layer;
};

static void add(struct list *l, enum spar_part part, enum spar_param_kind kind, size_t rows, size_t cols)
{
	bool gpt2 = l->c->naming == SPAR_NAMING_GPT2;
	const char *name = gpt2 ? gpt2_names[part] : llama_names[part];
	if (l->c->post_norms && post_norm_names[part])
		name = post_norm_names[part];
	struct spar_param *p = &l->params[l->n];
	*p = (struct spar_param){
	    .kind = kind, .part = part, .rows = rows, .cols = cols, .layer = l->layer, .index = l->n++};
	p->transposed = gpt2 && kind == SPAR_PARAM_LINEAR;
	int at = 0;
	if (l->layer >= 0)
		at = snprintf(p->name, sizeof p->name, gpt2 ? "transformer.h.%d." : "model.layers.%d.", l->layer);
	snprintf(p->name + at, sizeof p->name - (size_t)at, "%s.%s", name, kind == SPAR_PARAM_BIAS ? "bias" : "weight");
}

static void add_linear(struct list *l, enum spar_part part, size_t out, size_t in, bool bias)
{
	add(l, part, SPAR_PARAM_LINEAR, out, in);
	if (bias)
		add(l, part, SPAR_PARAM_BIAS, out, 0);
}

static void add_norm(struct list *l, enum spar_part part, size_t size)
{
	add(l, part, SPAR_PARAM_NORM, size, 0);
	if (l->c->norm == SPAR_NORM_LAYER)
		add(l, part, SPAR_PARAM_BIAS, size, 0);
}

static void add_layer(struct list *l)
{
	const struct spar_config *c = l->c;
	size_t hidden = c->hidden_size, inner = c->intermediate_size;
	size_t q = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;
	if (c->naming == SPAR_NAMING_GPT2) {
		add_linear(l, SPAR_PART_QKV, q + 2 * kv, hidden, c->qkv_bias);
	} else {
		add_linear(l, SPAR_PART_Q, q, hidden, c->qkv_bias);
		add_linear(l, SPAR_PART_K, kv, hidden, c->qkv_bias);
		add_linear(l, SPAR_PART_V, kv, hidden, c->qkv_bias);
	}
	add_linear(l, SPAR_PART_O, hidden, q, c->o_bias);
	if (!c->plain_mlp)
		add_linear(l, SPAR_PART_GATE, inner, hidden, c->mlp_bias);
	add_linear(l, SPAR_PART_UP, inner, hidden, c->mlp_bias);
	add_linear(l, SPAR_PART_DOWN, hidden, inner, c->mlp_bias);
	if (c->qk_norm) {
		add_norm(l, SPAR_PART_Q_NORM, c->head_dim);
		add_norm(l, SPAR_PART_K_NORM, c->head_dim);
	}
	add_norm(l, SPAR_PART_ATTENTION_NORM, hidden);
	if (c->post_norms)
		add_norm(l, SPAR_PART_ATTENTION_POST_NORM, hidden);
	add_norm(l, SPAR_PART_MLP_NORM, hidden);
	if (c->post_norms)
		add_norm(l, SPAR_PART_MLP_POST_NORM, hidden);
}

struct spar_param *spar_config_params(const struct spar_config *c, size_t *n)
{
	size_t most = 2 * (PARTS_OUTSIDE + PARTS_OF_A_LAYER * c->n_layers); /* each with a bias */
	struct list l = {.c = c, .params = spar_calloc(most, sizeof *l.params), .layer = -1};
	add(&l, SPAR_PART_EMBED, SPAR_PARAM_EMBED, c->vocab_size, c->hidden_size);
	if (c->learned_positions)
		add(&l, SPAR_PART_POSITIONS, SPAR_PARAM_EMBED, c->max_position, c->hidden_size);
	for (l.layer = 0; l.layer < (int)c->n_layers; l.layer++)
		add_layer(&l);
	l.layer = -1;
	add_norm(&l, SPAR_PART_NORM, c->hidden_size);
	if (!c->tie_word_embeddings)
		add(&l, SPAR_PART_HEAD, SPAR_PARAM_HEAD, c->vocab_size, c->hidden_size);
	*n = l.n;
	return l.params;
}

size_t spar_param_module_length(const struct spar_param *p)
{
	const char *dot = strrchr(p->name, '.');
	return dot ? (size_t)(dot - p->name) : strlen(p->name);
}

void spar_transpose(const float *from, size_t rows, size_t cols, float *to)
{
	for (size_t i = 0; i < rows; i++)
		for (size_t j = 0; j < cols; j++)
			to[j * rows + i] = from[i * cols + j];
}
