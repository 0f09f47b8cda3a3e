#include "model/engine/weights.h"
#include "base/pages.h"
#include "base/half.h"
#include <stdlib.h>

/* ---- memory: sizes come from a file, so running out is an error and no reason to die ---- */

static void *take(struct spar_weights *w, size_t size, struct spar_err *err)
{
	void *p = spar_pages_alloc(size);
	if (!p) {
		spar_fail(err, SPAR_FAIL, "no memory for %zu bytes of weights", size);
		return NULL;
	}
	memset(p, 0, size);
	w->size_bytes += size;
	return p;
}

/* A part of the memory that all matrices share; while there is none, what they will need is added up. */
static void *take_part(struct spar_weights *w, size_t size)
{
	void *p = w->matrices ? (char *)w->matrices + w->matrices_size : NULL;
	w->matrices_size += spar_round_up(size, 64);
	return p;
}

static void take_linear(struct spar_weights *w, struct spar_linear *l, size_t n, size_t k)
{
	l->n = n;
	l->k = k;
	l->panels = take_part(w, spar_round_up(n, SPAR_PANEL) * spar_round_up(k, 2) * spar_dtype_size(w->dtype));
}

/* In the order in which a pass reads them. */
static void take_matrices(struct spar_weights *w, const struct spar_config *c)
{
	size_t hidden = c->hidden_size, inner = c->intermediate_size, size = spar_dtype_size(w->dtype);
	size_t q = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;
	w->matrices_size = 0;
	for (size_t i = 0; i < c->n_layers; i++) {
		struct spar_layer *l = &w->layers[i];
		take_linear(w, &l->qkv, q + 2 * kv, hidden);
		take_linear(w, &l->o, hidden, q);
		if (!c->plain_mlp)
			take_linear(w, &l->gate, inner, hidden);
		take_linear(w, &l->up, inner, hidden);
		take_linear(w, &l->down, hidden, inner);
	}
	take_linear(w, &w->head, c->vocab_size, hidden);
	if (!c->tie_word_embeddings)
		w->embedding = take_part(w, c->vocab_size * hidden * size);
	if (c->learned_positions)
		w->positions = take_part(w, c->max_position * hidden * size);
}

static int take_all(struct spar_weights *w, const struct spar_config *c, struct spar_err *err)
{
	w->n_layers = c->n_layers;
	w->layers = spar_calloc(c->n_layers, sizeof *w->layers);
	take_matrices(w, c);
	if (!(w->matrices = take(w, w->matrices_size, err)))
		return -SPAR_FAIL;
	take_matrices(w, c);
	return 0;
}

/* ---- packing ---- */

static size_t panel_offset(const struct spar_linear *l, enum spar_dtype dtype, size_t column, size_t k)
{
	size_t panel = column / SPAR_PANEL * spar_round_up(l->k, 2) * SPAR_PANEL, lane = column % SPAR_PANEL;
	return panel + (dtype == SPAR_BF16 ? (k / 2 * SPAR_PANEL + lane) * 2 + k % 2 : k * SPAR_PANEL + lane);
}

/* One row of a weight becomes a column of the packed matrix. */
static void pack_row(const struct spar_weights *w, struct spar_linear *l, size_t column, const float *row)
{
	size_t at = panel_offset(l, w->dtype, column, 0);
	uint16_t *half = (uint16_t *)l->panels + at;
	float *whole = (float *)l->panels + at;
	for (size_t k = 0; w->dtype == SPAR_BF16 && k < l->k; k++)
		half[k / 2 * SPAR_PANEL * 2 + k % 2] = spar_f32_to_bf16(row[k]);
	for (size_t k = 0; w->dtype != SPAR_BF16 && k < l->k; k++)
		whole[k * SPAR_PANEL] = row[k];
}

/* Rows of a weight become columns `first`, first + 1, ... */
static void pack(const struct spar_weights *w, struct spar_linear *l, size_t first, const float *weight, size_t rows)
{
#pragma omp parallel for num_threads(w->threads)
	for (size_t row = 0; row < rows; row++)
		pack_row(w, l, first + row, weight + row * l->k);
}

static void fill(const struct spar_weights *w, void *to, const float *values, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (w->dtype == SPAR_BF16)
			((uint16_t *)to)[i] = spar_f32_to_bf16(values[i]);
		else
			((float *)to)[i] = values[i];
}

static float number_at(const struct spar_weights *w, const void *from, size_t i)
{
	return w->dtype == SPAR_BF16 ? spar_bf16_to_f32(((const uint16_t *)from)[i]) : ((const float *)from)[i];
}

void spar_weights_embed(const struct spar_weights *w, int32_t id, size_t hidden, float *out)
{
	for (size_t k = 0; k < hidden; k++)
		out[k] = w->embedding ? number_at(w, w->embedding, (size_t)id * hidden + k)
				      : number_at(w, w->head.panels, panel_offset(&w->head, w->dtype, (size_t)id, k));
}

void spar_weights_add_position(const struct spar_weights *w, size_t pos, size_t hidden, float *x)
{
	for (size_t k = 0; w->positions && k < hidden; k++)
		x[k] += number_at(w, w->positions, pos * hidden + k);
}

/* ---- which parameter goes where ---- */

/* The linear layer that a part belongs to, and its first column there. */
static struct spar_linear *find_linear(struct spar_weights *w, const struct spar_config *c, const struct spar_param *p,
				       size_t *first)
{
	struct spar_layer *l = p->layer < 0 ? NULL : &w->layers[p->layer];
	size_t q = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;
	*first = p->part == SPAR_PART_K ? q : p->part == SPAR_PART_V ? q + kv : 0;
	switch (p->part) {
	case SPAR_PART_Q:
	case SPAR_PART_K:
	case SPAR_PART_V:
	case SPAR_PART_QKV:
		return &l->qkv;
	case SPAR_PART_O:
		return &l->o;
	case SPAR_PART_GATE:
		return &l->gate;
	case SPAR_PART_UP:
		return &l->up;
	case SPAR_PART_DOWN:
		return &l->down;
	case SPAR_PART_HEAD:
		return &w->head;
	default:
		return NULL;
	}
}

static struct spar_norm_weights *find_norm(struct spar_weights *w, const struct spar_param *p)
{
	struct spar_layer *l = p->layer < 0 ? NULL : &w->layers[p->layer];
	switch (p->part) {
	case SPAR_PART_ATTENTION_NORM:
		return &l->attention_norm;
	case SPAR_PART_ATTENTION_POST_NORM:
		return &l->attention_post_norm;
	case SPAR_PART_MLP_NORM:
		return &l->mlp_norm;
	case SPAR_PART_MLP_POST_NORM:
		return &l->mlp_post_norm;
	case SPAR_PART_Q_NORM:
		return &l->q_norm;
	case SPAR_PART_K_NORM:
		return &l->k_norm;
	default:
		return &w->norm;
	}
}

/* Numbers first, first + 1, ... of a vector of `size`, which is made with its first ones. */
static int place_vector(struct spar_weights *w, float **vector, size_t size, size_t first, const float *values,
			size_t n, struct spar_err *err)
{
	if (!*vector && !(*vector = take(w, spar_round_up(size, SPAR_PANEL) * sizeof **vector, err)))
		return -SPAR_FAIL;
	memcpy(*vector + first, values, n * sizeof *values);
	return 0;
}

static int place_norm(struct spar_weights *w, const struct spar_config *c, const struct spar_param *p, float *values,
		      struct spar_err *err)
{
	struct spar_norm_weights *norm = find_norm(w, p);
	bool is_bias = p->kind == SPAR_PARAM_BIAS;
	for (size_t i = 0; i < p->rows && c->norm == SPAR_NORM_RMS_PLUS_ONE; i++)
		values[i] += 1;
	return place_vector(w, is_bias ? &norm->bias : &norm->weight, p->rows, 0, values, p->rows, err);
}

/* `values` may be changed. */
static int place(struct spar_weights *w, const struct spar_config *c, const struct spar_param *p, float *values,
		 struct spar_err *err)
{
	size_t first;
	struct spar_linear *l = find_linear(w, c, p, &first);
	if (l && p->kind == SPAR_PARAM_BIAS)
		return place_vector(w, &l->bias, l->n, first, values, p->rows, err);
	if (l)
		pack(w, l, first, values, p->rows);
	else if (p->part == SPAR_PART_POSITIONS)
		fill(w, w->positions, values, p->rows * p->cols);
	else if (p->part == SPAR_PART_EMBED && w->embedding)
		fill(w, w->embedding, values, p->rows * p->cols);
	else if (p->part == SPAR_PART_EMBED)
		pack(w, &w->head, 0, values, p->rows);
	else
		return place_norm(w, c, p, values, err);
	return 0;
}

int spar_weights_refill(struct spar_weights *w, const struct spar_config *c, spar_model_make *make, const void *from,
			struct spar_err *err)
{
	size_t n = 0, largest = 0;
	struct spar_param *params = spar_config_params(c, &n);
	for (size_t i = 0; i < n; i++) {
		size_t elements = spar_param_elements(&params[i]);
		largest = elements > largest ? elements : largest;
	}
	float *values = malloc(largest * sizeof *values);
	int rc = values ? 0 : spar_fail(err, SPAR_FAIL, "no memory for weights");
	for (size_t i = 0; rc >= 0 && i < n; i++) {
		rc = make(from, &params[i], values, err);
		if (rc == 0)
			rc = place(w, c, &params[i], values, err);
	}
	free(values);
	free(params);
	return rc < 0 ? rc : 0;
}

/* What a reload goes by: a parameter that neither adapter changes is there already, if the base is the same. */
struct reload {
	const struct spar_model *m;
	bool same_base, *adapted; /* (n_params) by the load before, then by this one */
};

static int fetch(const void *from, const struct spar_param *p, float *out, struct spar_err *err)
{
	const struct reload *r = from;
	bool *before = &r->adapted[p->index], adapted = r->m->has_adapter && spar_lora_hits(&r->m->lora, p),
	     same = r->same_base && !*before && !adapted;
	*before = adapted;
	return same ? 1 : spar_model_fetch(r->m, p, false, out, err);
}

int spar_weights_reload(struct spar_weights *w, const struct spar_model *m, struct spar_err *err)
{
	struct reload r = {m, m->base_hash && m->base_hash == w->base_hash, w->adapted};
	w->base_hash = 0; /* until all of them are there */
	int rc = spar_weights_refill(w, &m->config, fetch, &r, err);
	if (rc == 0)
		w->base_hash = m->base_hash;
	return rc;
}

int spar_weights_load(struct spar_weights *w, const struct spar_model *m, enum spar_dtype dtype, int threads,
		      struct spar_err *err)
{
	*w = (struct spar_weights){.dtype = dtype, .threads = threads};
	size_t n = 0;
	free(spar_config_params(&m->config, &n));
	w->adapted = spar_calloc(n, sizeof *w->adapted);
	int rc = take_all(w, &m->config, err);
	if (rc == 0)
		rc = spar_weights_reload(w, m, err);
	if (rc < 0)
		spar_weights_release(w);
	return rc;
}

static void release_norm(struct spar_norm_weights *n)
{
	free(n->weight);
	free(n->bias);
}

void spar_weights_release(struct spar_weights *w)
{
	for (size_t i = 0; i < w->n_layers; i++) {
		struct spar_layer *l = &w->layers[i];
		release_norm(&l->attention_norm);
		release_norm(&l->attention_post_norm);
		release_norm(&l->mlp_norm);
		release_norm(&l->mlp_post_norm);
		release_norm(&l->q_norm);
		release_norm(&l->k_norm);
		free(l->qkv.bias);
		free(l->o.bias);
		free(l->gate.bias);
		free(l->up.bias);
		free(l->down.bias);
	}
	free(w->layers);
	release_norm(&w->norm);
	free(w->head.bias);
	free(w->adapted);
	free(w->matrices);
	*w = (struct spar_weights){0};
}
