/* layer.c - one layer of a training graph; see graph/parts.h */
#include "base/philox.h"
#include "model/graph/parts.h"

/* Of each forward, layer and module its own. */
static uint64_t dropout_seed(const struct batch *b, size_t layer, enum spar_part part)
{
	const uint64_t what[] = {b->draw.step, b->draw.forwards, layer, part};
	struct spar_rng rng;
	spar_rng_init(&rng, b->g->seed, what, sizeof what);
	return (uint64_t)rng.key[1] << 32 | rng.key[0];
}

/* What the engine left at a point, or NULL. Behind its attention the last layer has the targets' rows only. */
static struct spar_tensor *value(const struct batch *b, struct spar_scope *s, size_t layer, enum spar_trace_point point)
{
	struct spar_tensor *v = b->values ? b->values[layer][point] : NULL;
	bool rows = layer + 1 == b->g->model->config.n_layers && point > SPAR_TRACE_ATTENDED;
	return v && rows ? spar_tensor_rows(s, v, b->target_rows) : v;
}

/* a + b, or what is known to be their sum. */
static struct spar_tensor *sum(struct spar_scope *s, struct spar_tensor *a, struct spar_tensor *b,
			       struct spar_tensor *known)
{
	return known ? spar_tensor_settle(s, known, a, b) : spar_tensor_add(s, a, b);
}

/* The module's y; `known`: its value, or any stand-in of its shape for a product that is only added to something known. */
static struct spar_tensor *linear(const struct batch *b, struct spar_scope *s, size_t layer, enum spar_part part,
				  struct spar_tensor *x, struct spar_tensor *known)
{
	const struct spar_graph *g = b->g;
	const struct module *m = &g->layers[layer].part[part];
	struct spar_tensor *bias = m->bias ? spar_tensor_to(s, m->bias, g->type) : NULL;
	struct spar_tensor *y = spar_tensor_linear(s, x, spar_tensor_to(s, m->w, g->type), bias, known);
	if (!b->adapt || !m->a)
		return known ? spar_tensor_settle(s, known, y, NULL) : y;
	struct spar_tensor *low = spar_tensor_to(s, m->a, g->type);
	low = b->drop ? spar_tensor_dropped_linear(s, x, low, g->lora->dropout, dropout_seed(b, layer, part))
		      : spar_tensor_linear(s, x, low, NULL, false);
	low = spar_tensor_linear(s, spar_tensor_scale(s, low, m->scale), spar_tensor_to(s, m->b, g->type), NULL, known);
	return sum(s, y, low, known);
}

/* x normed, in `type`; x itself where the family has no such norm. */
struct spar_tensor *spar_graph_norm(const struct spar_graph *g, struct spar_scope *s, const struct module *m,
				    struct spar_tensor *x, enum spar_tensor_type type)
{
	const struct spar_config *c = &g->model->config;
	if (!m->w)
		return x;
	switch (c->norm) {
	case SPAR_NORM_RMS:
		return spar_tensor_rms_norm(s, x, m->w, c->norm_eps, type);
	case SPAR_NORM_RMS_PLUS_ONE:
		return spar_tensor_rms_norm(s, x, spar_tensor_add_number(s, m->w, 1), c->norm_eps, type);
	case SPAR_NORM_LAYER:
		return spar_tensor_layer_norm(s, x, m->w, m->bias, c->norm_eps, type);
	}
	return NULL;
}

/* Queries or keys (n_nodes, n_heads * head_dim) -> (n_heads, n_nodes, head_dim), normed and turned as the layer has it. */
static struct spar_tensor *heads(const struct batch *b, struct spar_scope *s, size_t layer, const struct module *m,
				 struct spar_tensor *x, size_t n_heads)
{
	const struct spar_config *c = &b->g->model->config;
	size_t n = spar_tensor_size(x, 0);
	int rope = c->layers[layer].rope;
	if (m->w) {
		x = spar_graph_norm(b->g, s, m, spar_tensor_reshape(s, x, n * n_heads, c->head_dim), b->g->type);
		x = spar_tensor_reshape(s, x, n, n_heads * c->head_dim);
	}
	return rope < 0 ? spar_tensor_heads(s, x, n_heads)
			: spar_tensor_rotary(s, x, b->cos[rope], b->sin[rope], n_heads);
}

/* Columns [first, first + n) of what is known, if it is. */
static struct spar_tensor *part_of(struct spar_scope *s, struct spar_tensor *known, size_t first, size_t n)
{
	return known ? spar_tensor_columns(s, known, first, n) : NULL;
}

/* The rows' keys and values join the cache, and each row reads its path's. */
static struct spar_tensor *attend_cache(const struct batch *b, struct spar_scope *s, size_t layer,
					struct spar_tensor *q, struct spar_tensor *k, struct spar_tensor *v)
{
	const struct spar_config *c = &b->g->model->config;
	const struct cache *cache = b->cache;
	k = spar_tensor_rows(s, spar_tensor_side_by_side(s, k), cache->fresh);
	spar_tensor_put_rows(s, cache->k[layer], cache->fresh_at, k);
	spar_tensor_put_rows(s, cache->v[layer], cache->fresh_at, spar_tensor_rows(s, v, cache->fresh));
	return spar_tensor_attend_paths(s, q, cache->k[layer], cache->v[layer], cache->paths, cache->n_keys,
					c->n_kv_heads, c->layers[layer].windowed ? c->window : 0,
					spar_config_score_scale(c), c->attention_cap);
}

/* h (n_nodes, hidden) -> (n_nodes, n_heads * head_dim) */
static struct spar_tensor *attention(const struct batch *b, struct spar_scope *s, size_t layer, struct spar_tensor *h)
{
	const struct spar_config *c = &b->g->model->config;
	const struct module *part = b->g->layers[layer].part;
	size_t n_q = c->n_heads * c->head_dim, n_kv = c->n_kv_heads * c->head_dim;
	struct spar_tensor *known = value(b, s, layer, SPAR_TRACE_QKV), *q, *k, *v;
	if (part[SPAR_PART_QKV].w) {
		struct spar_tensor *all = linear(b, s, layer, SPAR_PART_QKV, h, known);
		q = spar_tensor_columns(s, all, 0, n_q);
		k = spar_tensor_columns(s, all, n_q, n_kv);
		v = spar_tensor_columns(s, all, n_q + n_kv, n_kv);
	} else {
		q = linear(b, s, layer, SPAR_PART_Q, h, part_of(s, known, 0, n_q));
		k = linear(b, s, layer, SPAR_PART_K, h, part_of(s, known, n_q, n_kv));
		v = linear(b, s, layer, SPAR_PART_V, h, part_of(s, known, n_q + n_kv, n_kv));
	}
	q = heads(b, s, layer, &part[SPAR_PART_Q_NORM], q, c->n_heads);
	k = heads(b, s, layer, &part[SPAR_PART_K_NORM], k, c->n_kv_heads);
	if (b->cache)
		return attend_cache(b, s, layer, q, k, v);
	known = value(b, s, layer, SPAR_TRACE_ATTENDED);
	struct spar_tensor *y = spar_tensor_attend(s, q, k, v, c->layers[layer].windowed ? b->windowed : b->tree,
						   spar_config_score_scale(c), c->attention_cap, known);
	return known ? spar_tensor_settle(s, known, y, NULL) : y;
}

/* known: as linear's. */
static struct spar_tensor *mlp(const struct batch *b, struct spar_scope *s, size_t layer, struct spar_tensor *h,
			       struct spar_tensor *known)
{
	const struct module *part = b->g->layers[layer].part;
	enum spar_tensor_activation kind =
	    b->g->model->config.activation == SPAR_ACTIVATION_SILU ? SPAR_TENSOR_SILU : SPAR_TENSOR_GELU_TANH;
	struct spar_tensor *up = linear(b, s, layer, SPAR_PART_UP, h, value(b, s, layer, SPAR_TRACE_UP));
	if (part[SPAR_PART_GATE].w)
		h = spar_tensor_gated(s, linear(b, s, layer, SPAR_PART_GATE, h, value(b, s, layer, SPAR_TRACE_GATE)),
				      up, kind);
	else
		h = spar_tensor_activate(s, up, kind);
	return linear(b, s, layer, SPAR_PART_DOWN, h, known);
}

/* x + y, y normed before where the family has it so; `known` is the sum. */
static struct spar_tensor *add_branch(const struct batch *b, struct spar_scope *s, const struct module *post_norm,
				      struct spar_tensor *x, struct spar_tensor *y, struct spar_tensor *known)
{
	return sum(s, x, spar_graph_norm(b->g, s, post_norm, y, b->g->type), known);
}

struct spar_tensor *spar_graph_layer(const struct batch *b, struct spar_scope *s, size_t layer, struct spar_tensor *x)
{
	const struct spar_graph *g = b->g;
	const struct module *part = g->layers[layer].part;
	struct spar_tensor *h = spar_graph_norm(g, s, &part[SPAR_PART_ATTENTION_NORM], x, g->type);
	struct spar_tensor *y = attention(b, s, layer, h);
	if (layer + 1 == g->model->config.n_layers && b->target_rows) {
		x = spar_tensor_rows(s, x, b->target_rows);
		y = spar_tensor_rows(s, y, b->target_rows);
	}
	struct spar_tensor *middle = value(b, s, layer, SPAR_TRACE_MIDDLE), *o = value(b, s, layer, SPAR_TRACE_O);
	y = linear(b, s, layer, SPAR_PART_O, y, o ? o : middle);
	x = add_branch(b, s, &part[SPAR_PART_ATTENTION_POST_NORM], x, y, middle);
	h = spar_graph_norm(g, s, &part[SPAR_PART_MLP_NORM], x, g->type);
	/* The layer's own output is not needed for its backward: that of the middle stands in for it. */
	struct spar_tensor *down = value(b, s, layer, SPAR_TRACE_DOWN);
	y = mlp(b, s, layer, h, down ? down : middle);
	return add_branch(b, s, &part[SPAR_PART_MLP_POST_NORM], x, y, middle);
}
