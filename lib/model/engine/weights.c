#include "model/engine/weights.h"
#include "model/half.h"
#include <stdlib.h>

/* ---- memory: sizes come from a file, so running out is an error and no reason to die ---- */

static void *take(struct spar_weights *w, size_t size, struct spar_err *err)
{
	void *p = aligned_alloc(64, spar_round_up(size ? size : 1, 64));
	if (!p) {
		spar_fail(err, SPAR_FAIL, "no memory for %zu bytes of weights", size);
		return NULL;
	}
	memset(p, 0, size);
	w->size_bytes += size;
	return p;
}

static int take_linear(struct spar_weights *w, struct spar_linear *l, size_t n, size_t k, struct spar_err *err)
{
	l->n = n;
	l->k = k;
	l->panels = take(w, spar_round_up(n, SPAR_PANEL) * spar_round_up(k, 2) * spar_dtype_size(w->dtype), err);
	return l->panels ? 0 : -SPAR_FAIL;
}

static int take_all(struct spar_weights *w, const struct spar_config *c, struct spar_err *err)
{
	size_t hidden = c->hidden_size, inner = c->intermediate_size, padded = spar_round_up(hidden, SPAR_PANEL);
	size_t q = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;
	w->n_layers = c->n_layers;
	w->layers = spar_calloc(c->n_layers, sizeof *w->layers);
	for (size_t i = 0; i < c->n_layers; i++) {
		struct spar_layer *l = &w->layers[i];
		if (take_linear(w, &l->qkv, q + 2 * kv, hidden, err) < 0 || take_linear(w, &l->o, hidden, q, err) < 0 ||
		    take_linear(w, &l->gate, inner, hidden, err) < 0 ||
		    take_linear(w, &l->up, inner, hidden, err) < 0 ||
		    take_linear(w, &l->down, hidden, inner, err) < 0 ||
		    !(l->attention_norm = take(w, padded * sizeof(float), err)) ||
		    !(l->mlp_norm = take(w, padded * sizeof(float), err)))
			return -SPAR_FAIL;
	}
	if (take_linear(w, &w->head, c->vocab_size, hidden, err) < 0 ||
	    !(w->norm = take(w, padded * sizeof(float), err)))
		return -SPAR_FAIL;
	if (!c->tie_word_embeddings &&
	    !(w->embedding = take(w, c->vocab_size * hidden * spar_dtype_size(w->dtype), err)))
		return -SPAR_FAIL;
	return 0;
}

/* ---- packing ---- */

static size_t panel_offset(const struct spar_linear *l, enum spar_dtype dtype, size_t column, size_t k)
{
	size_t panel = column / SPAR_PANEL * spar_round_up(l->k, 2) * SPAR_PANEL, lane = column % SPAR_PANEL;
	return panel + (dtype == SPAR_BF16 ? (k / 2 * SPAR_PANEL + lane) * 2 + k % 2 : k * SPAR_PANEL + lane);
}

/* Rows of a weight become columns `first`, first + 1, ... of the packed matrix. */
static void pack(const struct spar_weights *w, struct spar_linear *l, size_t first, const float *weight, size_t rows)
{
#pragma omp parallel for num_threads(w->threads)
	for (size_t row = 0; row < rows; row++)
		for (size_t k = 0; k < l->k; k++) {
			size_t at = panel_offset(l, w->dtype, first + row, k);
			if (w->dtype == SPAR_BF16)
				((uint16_t *)l->panels)[at] = spar_f32_to_bf16(weight[row * l->k + k]);
			else
				((float *)l->panels)[at] = weight[row * l->k + k];
		}
}

static void fill_embedding(struct spar_weights *w, const float *values, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (w->dtype == SPAR_BF16)
			((uint16_t *)w->embedding)[i] = spar_f32_to_bf16(values[i]);
		else
			((float *)w->embedding)[i] = values[i];
}

void spar_weights_embed(const struct spar_weights *w, int32_t id, size_t hidden, float *out)
{
	const void *from = w->embedding ? w->embedding : w->head.panels;
	for (size_t k = 0; k < hidden; k++) {
		size_t at = w->embedding ? (size_t)id * hidden + k : panel_offset(&w->head, w->dtype, (size_t)id, k);
		out[k] =
		    w->dtype == SPAR_BF16 ? spar_bf16_to_f32(((const uint16_t *)from)[at]) : ((const float *)from)[at];
	}
}

/* ---- which parameter goes where ---- */

/* The part of a layer that a name means, and its first column there; false if the name is not known. */
static bool find_linear(struct spar_layer *layer, const struct spar_config *c, const char *name, struct spar_linear **l,
			size_t *first)
{
	size_t q = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;
	const struct {
		const char *name;
		struct spar_linear *l;
		size_t first;
	} parts[] = {
	    {"self_attn.q_proj.", &layer->qkv, 0},      {"self_attn.k_proj.", &layer->qkv, q},
	    {"self_attn.v_proj.", &layer->qkv, q + kv}, {"self_attn.o_proj.", &layer->o, 0},
	    {"mlp.gate_proj.", &layer->gate, 0},        {"mlp.up_proj.", &layer->up, 0},
	    {"mlp.down_proj.", &layer->down, 0},
	};
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		if (strstr(name, parts[i].name)) {
			*l = parts[i].l;
			*first = parts[i].first;
			return true;
		}
	return false;
}

static float *find_norm(struct spar_weights *w, const struct spar_param *p)
{
	if (p->layer < 0)
		return w->norm;
	struct spar_layer *layer = &w->layers[p->layer];
	if (strstr(p->name, ".input_layernorm."))
		return layer->attention_norm;
	return strstr(p->name, ".post_attention_layernorm.") ? layer->mlp_norm : NULL;
}

static int place(struct spar_weights *w, const struct spar_config *c, const struct spar_param *p, const float *values,
		 struct spar_err *err)
{
	struct spar_linear *l = NULL;
	size_t first = 0;
	float *norm = NULL;
	switch (p->kind) {
	case SPAR_PARAM_EMBED:
		if (w->embedding)
			fill_embedding(w, values, p->rows * p->cols);
		else
			pack(w, &w->head, 0, values, p->rows);
		return 0;
	case SPAR_PARAM_HEAD:
		pack(w, &w->head, 0, values, p->rows);
		return 0;
	case SPAR_PARAM_NORM:
		if (!(norm = find_norm(w, p)))
			break;
		memcpy(norm, values, p->rows * sizeof *values);
		return 0;
	case SPAR_PARAM_LINEAR:
		if (p->layer < 0 || !find_linear(&w->layers[p->layer], c, p->name, &l, &first))
			break;
		pack(w, l, first, values, p->rows);
		return 0;
	case SPAR_PARAM_BIAS: /* no family that is supported has one */
		break;
	}
	return spar_fail(err, SPAR_FAIL, "%s: the engine has no place for this parameter", p->name);
}

int spar_weights_load(struct spar_weights *w, const struct spar_model *m, enum spar_dtype dtype, int threads,
		      struct spar_err *err)
{
	*w = (struct spar_weights){.dtype = dtype, .threads = threads};
	size_t n = 0, largest = 0;
	struct spar_param *params = spar_config_params(&m->config, &n);
	for (size_t i = 0; i < n; i++) {
		size_t elements = spar_param_elements(&params[i]);
		largest = elements > largest ? elements : largest;
	}
	float *values = malloc(largest * sizeof *values);
	int rc = values ? take_all(w, &m->config, err) : spar_fail(err, SPAR_FAIL, "no memory for weights");
	for (size_t i = 0; rc == 0 && i < n; i++) {
		rc = spar_model_fetch(m, &params[i], false, values, err);
		if (rc == 0)
			rc = place(w, &m->config, &params[i], values, err);
	}
	free(values);
	free(params);
	if (rc < 0)
		spar_weights_release(w);
	return rc;
}

void spar_weights_release(struct spar_weights *w)
{
	for (size_t i = 0; i < w->n_layers; i++) {
		struct spar_layer *l = &w->layers[i];
		free(l->attention_norm);
		free(l->mlp_norm);
		free(l->qkv.panels);
		free(l->o.panels);
		free(l->gate.panels);
		free(l->up.panels);
		free(l->down.panels);
	}
	free(w->layers);
	free(w->norm);
	free(w->head.panels);
	free(w->embedding);
	*w = (struct spar_weights){0};
}
