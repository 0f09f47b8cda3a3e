/* engine_twin.h - the slow, plain counterpart of the engine for its tests: one sequence, double precision, no cache; and
 * small models whose weights are a function of their names, so that no files are needed. */
#ifndef SPAR_TESTS_UNIT_ENGINE_TWIN_H
#define SPAR_TESTS_UNIT_ENGINE_TWIN_H

#include "base/half.h"
#include "model/model.h"
#include <math.h>
#include <stdlib.h>

static inline struct spar_model twin_model(size_t layers, size_t hidden, size_t inner, size_t vocab, size_t heads,
					   size_t kv_heads, size_t head_dim, bool tied)
{
	return (struct spar_model){
	    .dir = "twin",
	    .config =
		{
		    .n_layers = layers,
		    .hidden_size = hidden,
		    .intermediate_size = inner,
		    .vocab_size = vocab,
		    .n_heads = heads,
		    .n_kv_heads = kv_heads,
		    .head_dim = head_dim,
		    .max_position = 512,
		    .norm_eps = 1e-5f,
		    .ropes = {{.theta = 10000}, {.theta = 10000}},
		    .tie_word_embeddings = tied,
		},
	};
}

/* In place of lib/model/model.c, which reads folders. Matrices keep the scale of what passes through them. */
int spar_model_fetch(const struct spar_model *m, const struct spar_param *p, bool base_only, float *out,
		     struct spar_err *err)
{
	(void)base_only;
	(void)err;
	/* has_adapter: another set of weights; with base_hash only of what the adapter hits */
	uint64_t state = 2 * (m->has_adapter && (!m->base_hash || spar_lora_hits(&m->lora, p)));
	for (const char *name = p->name; *name; name++)
		state = (state ^ (unsigned char)*name) * 0x100000001b3;
	size_t n = spar_param_elements(p);
	double scale = p->kind == SPAR_PARAM_EMBED ? 1 : 1.7 / sqrt((double)p->cols);
	for (size_t i = 0; i < n; i++) {
		state = state * 6364136223846793005 + 1442695040888963407; /* Knuth's MMIX generator */
		double u = (double)(state >> 11) * 0x1p-52 - 1;
		out[i] = (float)(p->cols ? u * scale : 1 + u / 4);
	}
	return 0;
}

struct twin {
	const struct spar_config *c;
	struct spar_param *params;
	float **values;
	size_t n_params;
};

static inline void twin_init(struct twin *t, const struct spar_model *m, bool bf16)
{
	t->c = &m->config;
	t->params = spar_config_params(t->c, &t->n_params);
	t->values = spar_calloc(t->n_params, sizeof *t->values);
	for (size_t i = 0; i < t->n_params; i++) {
		const struct spar_param *p = &t->params[i];
		size_t n = spar_param_elements(p);
		t->values[i] = spar_malloc(n * sizeof **t->values);
		spar_model_fetch(m, p, false, t->values[i], NULL);
		for (size_t j = 0; bf16 && p->cols && j < n; j++)
			t->values[i][j] = spar_bf16_to_f32(spar_f32_to_bf16(t->values[i][j]));
	}
}

static inline void twin_release(struct twin *t)
{
	for (size_t i = 0; i < t->n_params; i++)
		free(t->values[i]);
	free(t->values);
	free(t->params);
}

static inline const float *twin_weight(const struct twin *t, int layer, const char *part)
{
	for (size_t i = 0; i < t->n_params; i++)
		if (t->params[i].layer == layer && strstr(t->params[i].name, part))
			return t->values[i];
	return NULL;
}

static inline void twin_norm(const double *x, const float *weight, size_t n, double eps, double *y)
{
	double square = 0;
	for (size_t i = 0; i < n; i++)
		square += x[i] * x[i];
	for (size_t i = 0; i < n; i++)
		y[i] = x[i] / sqrt(square / (double)n + eps) * weight[i];
}

static inline void twin_linear(const double *x, size_t k, const float *weight, size_t rows, double *y)
{
	for (size_t r = 0; r < rows; r++) {
		y[r] = 0;
		for (size_t i = 0; i < k; i++)
			y[r] += x[i] * weight[r * k + i];
	}
}

static inline void twin_rotate(const struct spar_config *c, double *x, size_t heads, size_t pos)
{
	size_t half = c->head_dim / 2;
	for (size_t h = 0; h < heads; h++, x += c->head_dim)
		for (size_t i = 0; i < half; i++) {
			double angle = (double)pos * pow(c->ropes[0].theta, -2.0 * (double)i / (double)c->head_dim);
			double a = x[i], b = x[half + i];
			x[i] = a * cos(angle) - b * sin(angle);
			x[half + i] = b * cos(angle) + a * sin(angle);
		}
}

/* q (heads, dim) against keys and values (n, kv_heads, dim) of all positions so far. */
static inline void twin_attend(const struct spar_config *c, const double *q, const double *keys, const double *values,
			       size_t n, double *out)
{
	size_t d = c->head_dim, stride = c->n_kv_heads * d;
	double *w = spar_malloc(n * sizeof *w);
	for (size_t h = 0; h < c->n_heads; h++) {
		size_t from = h / (c->n_heads / c->n_kv_heads) * d;
		double top = -INFINITY, sum = 0;
		for (size_t j = 0; j < n; j++) {
			w[j] = 0;
			for (size_t i = 0; i < d; i++)
				w[j] += q[h * d + i] * keys[j * stride + from + i] / sqrt((double)d);
			top = fmax(top, w[j]);
		}
		for (size_t j = 0; j < n; j++)
			sum += w[j] = exp(w[j] - top);
		for (size_t i = 0; i < d; i++) {
			out[h * d + i] = 0;
			for (size_t j = 0; j < n; j++)
				out[h * d + i] += w[j] / sum * values[j * stride + from + i];
		}
	}
	free(w);
}

/* logits (n, vocab) of all positions. */
static inline void twin_logits(const struct twin *t, const int32_t *ids, size_t n, double *logits)
{
	const struct spar_config *c = t->c;
	size_t hidden = c->hidden_size, inner = c->intermediate_size;
	size_t q = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;
	double *x = spar_calloc(n * hidden, sizeof *x), *normed = spar_calloc(hidden, sizeof *x);
	double *query = spar_calloc(q, sizeof *x), *mixed = spar_calloc(q, sizeof *x),
	       *added = spar_calloc(hidden, sizeof *x);
	double *keys = spar_calloc(n * kv, sizeof *x), *values = spar_calloc(n * kv, sizeof *x);
	double *gate = spar_calloc(inner, sizeof *x), *up = spar_calloc(inner, sizeof *x);
	const float *embedding = twin_weight(t, -1, "embed_tokens");
	for (size_t i = 0; i < n * hidden; i++)
		x[i] = embedding[(size_t)ids[i / hidden] * hidden + i % hidden];
	for (int l = 0; l < (int)c->n_layers; l++)
		for (size_t pos = 0; pos < n; pos++) {
			double *row = x + pos * hidden;
			twin_norm(row, twin_weight(t, l, "input_layernorm"), hidden, c->norm_eps, normed);
			twin_linear(normed, hidden, twin_weight(t, l, "q_proj"), q, query);
			twin_linear(normed, hidden, twin_weight(t, l, "k_proj"), kv, keys + pos * kv);
			twin_linear(normed, hidden, twin_weight(t, l, "v_proj"), kv, values + pos * kv);
			twin_rotate(c, query, c->n_heads, pos);
			twin_rotate(c, keys + pos * kv, c->n_kv_heads, pos);
			twin_attend(c, query, keys, values, pos + 1, mixed);
			twin_linear(mixed, q, twin_weight(t, l, "o_proj"), hidden, added);
			for (size_t i = 0; i < hidden; i++)
				row[i] += added[i];
			twin_norm(row, twin_weight(t, l, "post_attention_layernorm"), hidden, c->norm_eps, normed);
			twin_linear(normed, hidden, twin_weight(t, l, "gate_proj"), inner, gate);
			twin_linear(normed, hidden, twin_weight(t, l, "up_proj"), inner, up);
			for (size_t i = 0; i < inner; i++)
				gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i];
			twin_linear(gate, inner, twin_weight(t, l, "down_proj"), hidden, added);
			for (size_t i = 0; i < hidden; i++)
				row[i] += added[i];
		}
	const float *head = c->tie_word_embeddings ? embedding : twin_weight(t, -1, "lm_head");
	for (size_t pos = 0; pos < n; pos++) {
		twin_norm(x + pos * hidden, twin_weight(t, -1, "model.norm"), hidden, c->norm_eps, normed);
		twin_linear(normed, hidden, head, c->vocab_size, logits + pos * c->vocab_size);
	}
	free(x), free(normed), free(query), free(mixed), free(added), free(keys), free(values), free(gate), free(up);
}

#endif
