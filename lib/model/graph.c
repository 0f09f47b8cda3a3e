#include "model/graph.h"
#include "base/philox.h"
#include "tensor/tensor.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- weights ---- */

static struct module *home(struct spar_graph *g, const struct spar_param *p)
{
	return &(p->layer >= 0 ? &g->layers[p->layer] : &g->outside)->part[p->part];
}

static struct spar_tensor **slot(struct spar_graph *g, const struct spar_param *p)
{
	struct module *m = home(g, p);
	return p->kind == SPAR_PARAM_BIAS ? &m->bias : &m->w;
}

/* From here on w is trained: it gathers a gradient and has moments. */
static void train(struct spar_graph *g, struct spar_tensor *w, bool decays, const char *name, size_t n_name,
		  const char *suffix)
{
	struct trained *t = &g->trained[g->n_trained++];
	size_t shape[] = {spar_tensor_elements(w)};
	*t = (struct trained){.w = w, .decays = decays};
	snprintf(t->name, sizeof t->name, "%.*s%s", (int)n_name, name, suffix);
	t->moment1 = spar_tensor_zeros(g->own, SPAR_TENSOR_F32, 1, shape);
	t->moment2 = spar_tensor_zeros(g->own, SPAR_TENSOR_F32, 1, shape);
	spar_tensor_require_grad(g->own, w);
}

/* A parameter of the model, `values` in float32. A frozen matrix is kept in the type of the products only. */
static void place(struct spar_graph *g, const struct spar_param *p, const float *values)
{
	size_t shape[] = {p->rows, p->cols};
	struct spar_tensor *w = spar_tensor_from_f32(g->own, values, p->cols ? 2 : 1, shape);
	if (!g->frozen && !g->lora) {
		train(g, w, p->cols > 0, p->name, strlen(p->name), "");
	} else if (g->type != SPAR_TENSOR_F32 && (p->kind == SPAR_PARAM_LINEAR || p->kind == SPAR_PARAM_BIAS)) {
		struct spar_tensor *whole = w;
		w = spar_tensor_to(g->own, whole, g->type);
		spar_tensor_drop(whole);
	}
	*slot(g, p) = w;
}

/* ---- LoRA ---- */

static bool has_adapter(const struct spar_graph *g, const struct spar_param *p)
{
	return g->lora && p->kind == SPAR_PARAM_LINEAR && spar_lora_hits(g->lora, p);
}

/* An adapter on an adapter goes on with what is there; targets that name nothing give way to all linear layers. */
static int choose_lora(struct spar_graph *g, const struct spar_graph_opt *opt, struct spar_err *err)
{
	g->lora = spar_calloc(1, sizeof *g->lora);
	spar_lora_copy(g->lora, g->model->has_adapter ? &g->model->lora : opt->lora);
	g->lora->dropout = opt->lora->dropout;
	size_t hits = 0;
	for (size_t i = 0; i < g->n_params; i++) {
		if (g->params[i].kind == SPAR_PARAM_HEAD && spar_lora_hits(g->lora, &g->params[i]))
			return spar_fail(err, SPAR_INPUT, "%s: an adapter of the head cannot be trained",
					 g->params[i].name);
		hits += has_adapter(g, &g->params[i]);
	}
	if (hits == 0)
		g->lora->all_linear = true;
	return 0;
}

/* A as PEFT starts it: Kaiming uniform with a = sqrt(5), that is U(-1/sqrt(in), 1/sqrt(in)). */
static void draw_a(const struct spar_graph *g, const struct spar_param *p, float *a, size_t n)
{
	struct spar_rng rng;
	spar_rng_init(&rng, g->seed, p->name, spar_param_module_length(p));
	for (size_t i = 0; i < n; i++)
		a[i] = (float)((2 * spar_rng_uniform(&rng, (uint32_t)i, 0, 0, 0) - 1) / sqrt((double)p->cols));
}

static int stored_factor(const struct spar_graph *g, const struct spar_param *p, const char *which, float *out,
			 struct spar_err *err)
{
	char name[160];
	snprintf(name, sizeof name, "base_model.model.%.*s.%s.weight", (int)spar_param_module_length(p), p->name,
		 which);
	const struct spar_tensor_view *view = spar_safetensors_find(g->model->adapter, name);
	if (!view)
		return spar_fail(err, SPAR_INPUT, "%s: the adapter has no %s", g->model->dir, name);
	return spar_tensor_view_f32(view, out, err);
}

static int add_adapter(struct spar_graph *g, const struct spar_param *p, struct spar_err *err)
{
	struct module *l = home(g, p);
	size_t r = spar_lora_rank(g->lora, p), a_shape[] = {r, p->cols}, b_shape[] = {p->rows, r},
	       n = spar_param_module_length(p);
	float *a = spar_calloc(r * p->cols, sizeof *a), *b = spar_calloc(p->rows * r, sizeof *b);
	int rc = 0;
	if (!g->model->has_adapter)
		draw_a(g, p, a, r * p->cols);
	else if ((rc = stored_factor(g, p, "lora_A", a, err)) == 0)
		rc = stored_factor(g, p, "lora_B", b, err);
	if (rc == 0) {
		l->a = spar_tensor_from_f32(g->own, a, 2, a_shape);
		l->b = spar_tensor_from_f32(g->own, b, 2, b_shape);
		l->scale = spar_lora_scale(g->lora, p);
		train(g, l->a, true, p->name, n, ".lora_A");
		train(g, l->b, true, p->name, n, ".lora_B");
	}
	free(a);
	free(b);
	return rc;
}

/* ---- making a graph ---- */

static int load_weights(struct spar_graph *g, struct spar_err *err)
{
	int rc = 0;
	for (size_t i = 0; i < g->n_params && rc == 0; i++) {
		const struct spar_param *p = &g->params[i];
		float *values = malloc(spar_param_elements(p) * sizeof *values);
		if (!values)
			return spar_fail(err, SPAR_FAIL, "%s: out of memory", p->name);
		rc = spar_model_fetch(g->model, p, g->lora != NULL, values, err);
		if (rc == 0)
			place(g, p, values);
		if (rc == 0 && has_adapter(g, p))
			rc = add_adapter(g, p, err);
		free(values);
	}
	return rc;
}

int spar_graph_new(struct spar_graph **out, const struct spar_model *m, const struct spar_graph_opt *opt,
		   struct spar_err *err)
{
	const struct spar_config *c = &m->config;
	struct spar_graph *g = spar_calloc(1, sizeof *g);
	*out = NULL;
	g->model = m;
	g->type = opt->dtype == SPAR_BF16 ? SPAR_TENSOR_BF16 : SPAR_TENSOR_F32;
	g->frozen = opt->frozen;
	g->seed = opt->seed;
	g->vocab = opt->vocab_limit && opt->vocab_limit < c->vocab_size ? opt->vocab_limit : c->vocab_size;
	int rc = spar_tensor_start(opt->threads, err);
	if (rc == 0)
		rc = spar_device_parse(&g->device, opt->device ? opt->device : "cpu", err);
	if (rc < 0)
		goto fail;
	g->own = spar_scope_new(g->device, false);
	g->layers = spar_calloc(c->n_layers, sizeof *g->layers);
	g->params = spar_config_params(c, &g->n_params);
	g->trained = spar_calloc(2 * g->n_params, sizeof *g->trained);
	if (opt->lora && !opt->frozen && (rc = choose_lora(g, opt, err)) < 0)
		goto fail;
	if ((rc = load_weights(g, err)) < 0 || (rc = spar_scope_status(g->own, err)) < 0)
		goto fail;
	if (c->tie_word_embeddings)
		g->outside.part[SPAR_PART_HEAD] = g->outside.part[SPAR_PART_EMBED];
	*out = g;
	return 0;
fail:
	spar_graph_free(g);
	return rc;
}

/* Let go of the last TRAIN forward. */
static void forget(struct spar_graph *g)
{
	spar_scope_free(g->run);
	free(g->target_ids);
	g->run = NULL;
	g->hidden = NULL;
	g->target_ids = NULL;
	g->n_targets = 0;
}

void spar_graph_free(struct spar_graph *g)
{
	if (!g)
		return;
	forget(g);
	spar_scope_free(g->own);
	free(g->params);
	free(g->layers);
	free(g->trained);
	if (g->lora)
		spar_lora_release(g->lora);
	free(g->lora);
	free(g);
}

/* ---- forward ---- */

/* What the layers of one forward share. */
struct batch {
	const struct spar_graph *g;
	struct spar_tensor *cos[2], *sin[2]; /* of each of the config's ropes, (n_nodes, head_dim / 2) */
	struct spar_tensor *target_rows;     /* (n_targets) nodes */
	const struct spar_tree *tree, *windowed;
	bool adapt, drop;
};

static struct spar_tensor *linear(const struct batch *b, struct spar_scope *s, const struct module *m,
				  struct spar_tensor *x)
{
	const struct spar_graph *g = b->g;
	struct spar_tensor *bias = m->bias ? spar_tensor_to(s, m->bias, g->type) : NULL;
	struct spar_tensor *y = spar_tensor_linear(s, x, spar_tensor_to(s, m->w, g->type), bias);
	if (!b->adapt || !m->a)
		return y;
	if (b->drop)
		x = spar_tensor_dropout(s, x, g->lora->dropout);
	struct spar_tensor *low = spar_tensor_linear(s, x, spar_tensor_to(s, m->a, g->type), NULL);
	low = spar_tensor_linear(s, low, spar_tensor_to(s, m->b, g->type), NULL);
	return spar_tensor_add_scaled(s, y, low, m->scale);
}

/* x normed, in `type`; x itself where the family has no such norm. */
static struct spar_tensor *norm(const struct spar_graph *g, struct spar_scope *s, const struct module *m,
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
		x = norm(b->g, s, m, spar_tensor_reshape(s, x, n * n_heads, c->head_dim), b->g->type);
		x = spar_tensor_reshape(s, x, n, n_heads * c->head_dim);
	}
	return rope < 0 ? spar_tensor_heads(s, x, n_heads)
			: spar_tensor_rotary(s, x, b->cos[rope], b->sin[rope], n_heads);
}

/* h (n_nodes, hidden) -> (n_nodes, n_heads * head_dim) */
static struct spar_tensor *attention(const struct batch *b, struct spar_scope *s, size_t layer, struct spar_tensor *h)
{
	const struct spar_config *c = &b->g->model->config;
	const struct module *part = b->g->layers[layer].part;
	size_t n_q = c->n_heads * c->head_dim, n_kv = c->n_kv_heads * c->head_dim;
	struct spar_tensor *q, *k, *v;
	if (part[SPAR_PART_QKV].w) {
		struct spar_tensor *all = linear(b, s, &part[SPAR_PART_QKV], h);
		q = spar_tensor_columns(s, all, 0, n_q);
		k = spar_tensor_columns(s, all, n_q, n_kv);
		v = spar_tensor_columns(s, all, n_q + n_kv, n_kv);
	} else {
		q = linear(b, s, &part[SPAR_PART_Q], h);
		k = linear(b, s, &part[SPAR_PART_K], h);
		v = linear(b, s, &part[SPAR_PART_V], h);
	}
	q = heads(b, s, layer, &part[SPAR_PART_Q_NORM], q, c->n_heads);
	k = heads(b, s, layer, &part[SPAR_PART_K_NORM], k, c->n_kv_heads);
	return spar_tensor_attend(s, q, k, v, c->layers[layer].windowed ? b->windowed : b->tree,
				  spar_config_score_scale(c), c->attention_cap);
}

static struct spar_tensor *mlp(const struct batch *b, struct spar_scope *s, size_t layer, struct spar_tensor *h)
{
	const struct module *part = b->g->layers[layer].part;
	enum spar_tensor_activation kind =
	    b->g->model->config.activation == SPAR_ACTIVATION_SILU ? SPAR_TENSOR_SILU : SPAR_TENSOR_GELU_TANH;
	struct spar_tensor *up = linear(b, s, &part[SPAR_PART_UP], h);
	if (part[SPAR_PART_GATE].w)
		h = spar_tensor_gated(s, linear(b, s, &part[SPAR_PART_GATE], h), up, kind);
	else
		h = spar_tensor_activate(s, up, kind);
	return linear(b, s, &part[SPAR_PART_DOWN], h);
}

/* x (n_nodes, hidden) -> the same, or (n_targets, hidden) behind the last layer: nothing else is needed after its attention. */
static struct spar_tensor *forward_layer(const struct batch *b, struct spar_scope *s, size_t layer,
					 struct spar_tensor *x)
{
	const struct spar_graph *g = b->g;
	const struct module *part = g->layers[layer].part;
	struct spar_tensor *h = norm(g, s, &part[SPAR_PART_ATTENTION_NORM], x, g->type);
	struct spar_tensor *y = attention(b, s, layer, h);
	if (layer + 1 == g->model->config.n_layers) {
		x = spar_tensor_rows(s, x, b->target_rows);
		y = spar_tensor_rows(s, y, b->target_rows);
	}
	y = linear(b, s, &part[SPAR_PART_O], y);
	x = spar_tensor_add(s, x, norm(g, s, &part[SPAR_PART_ATTENTION_POST_NORM], y, g->type));
	h = norm(g, s, &part[SPAR_PART_MLP_NORM], x, g->type);
	y = mlp(b, s, layer, h);
	return spar_tensor_add(s, x, norm(g, s, &part[SPAR_PART_MLP_POST_NORM], y, g->type));
}

static struct spar_tensor *embed(const struct spar_graph *g, struct spar_scope *s, const struct spar_pack *p)
{
	const struct spar_config *c = &g->model->config;
	const struct module *part = g->outside.part;
	struct spar_tensor *x =
	    spar_tensor_embed(s, part[SPAR_PART_EMBED].w, spar_tensor_from_i32(s, p->tokens, p->n_nodes));
	if (c->embedding_scale > 0)
		x = spar_tensor_scale(s, x, c->embedding_scale);
	if (!c->learned_positions)
		return x;
	struct spar_tensor *positions = spar_tensor_from_i32(s, p->positions, p->n_nodes);
	return spar_tensor_add(s, x, spar_tensor_embed(s, part[SPAR_PART_POSITIONS].w, positions));
}

/* Tokens to the normed hidden rows of the targets (n_targets, hidden size). */
static struct spar_tensor *forward_trunk(struct batch *b, struct spar_scope *s, const struct spar_pack *p, bool grad)
{
	const struct spar_graph *g = b->g;
	struct spar_tensor *x = embed(g, s, p);
	for (size_t i = 0; i < g->model->config.n_layers; i++) {
		struct spar_scope *inner = spar_scope_open(s, grad);
		struct spar_tensor *y = forward_layer(b, inner, i, x);
		y = spar_scope_close(inner, y);
		spar_tensor_drop(x);
		x = y;
	}
	return norm(g, s, &g->outside.part[SPAR_PART_NORM], x, SPAR_TENSOR_F32);
}

/* The angles of each node, for every rope that a layer turns by. */
static void rotary_tables(struct batch *b, struct spar_scope *s, const struct spar_pack *p)
{
	const struct spar_config *c = &b->g->model->config;
	size_t half = c->head_dim / 2, n_positions = 1;
	for (size_t i = 0; i < p->n_nodes; i++)
		if ((size_t)p->positions[i] >= n_positions)
			n_positions = (size_t)p->positions[i] + 1;
	size_t shape[] = {n_positions, half};
	float *cosines = spar_malloc(n_positions * half * sizeof *cosines);
	float *sines = spar_malloc(n_positions * half * sizeof *sines);
	struct spar_tensor *positions = spar_tensor_from_i32(s, p->positions, p->n_nodes);
	for (size_t i = 0; i < c->n_layers; i++) {
		int rope = c->layers[i].rope;
		if (rope < 0 || b->cos[rope])
			continue;
		spar_rope_angles(&c->ropes[rope], c->head_dim, 0, n_positions, cosines, sines);
		b->cos[rope] = spar_tensor_rows(s, spar_tensor_from_f32(s, cosines, 2, shape), positions);
		b->sin[rope] = spar_tensor_rows(s, spar_tensor_from_f32(s, sines, 2, shape), positions);
	}
	free(cosines);
	free(sines);
}

static void plan(struct batch *b, struct spar_scope *s, const struct spar_pack *p)
{
	struct spar_branch *spans = spar_malloc((p->n_segments + 1) * sizeof *spans);
	for (size_t i = 0; i < p->n_segments; i++) {
		const struct spar_segment *e = &p->segments[i];
		spans[i] = (struct spar_branch){e->parent, e->begin, e->n, e->subtree_end};
	}
	b->tree = spar_tree_new(s, spans, p->n_segments, 0);
	if (b->g->model->config.window)
		b->windowed = spar_tree_new(s, spans, p->n_segments, b->g->model->config.window);
	free(spans);
}

static int check_ids(const struct spar_graph *g, const struct spar_pack *p, struct spar_err *err)
{
	for (size_t i = 0; i < p->n_nodes; i++)
		if (p->tokens[i] < 0 || (size_t)p->tokens[i] >= g->model->config.vocab_size)
			return spar_fail(err, SPAR_INPUT, "token id %d: the model's vocabulary ends at %zu",
					 (int)p->tokens[i], g->model->config.vocab_size);
	for (size_t i = 0; i < p->n_targets; i++)
		if (p->target_id[i] < 0 || (size_t)p->target_id[i] >= g->vocab)
			return spar_fail(err, SPAR_INPUT, "target id %d: the vocabulary to predict ends at %zu",
					 (int)p->target_id[i], g->vocab);
	return 0;
}

/* ---- head: a chunk of targets at a time ---- */

static size_t chunk_size(const struct spar_graph *g)
{
	size_t n = ((size_t)1 << 24) / g->vocab; /* 64 MiB of logits */
	return n < 32 ? 32 : n > 4096 ? 4096 : n;
}

/* The rows of the head whose logits there are. */
static struct spar_tensor *head(const struct spar_graph *g, struct spar_scope *s)
{
	return spar_tensor_slice(s, g->outside.part[SPAR_PART_HEAD].w, 0, g->vocab);
}

/* hidden / temperature (n, hidden size) -> logits of the tempered distribution (n, vocab): a cap is tempered like them. */
static struct spar_tensor *logits(const struct spar_graph *g, struct spar_scope *s, struct spar_tensor *hidden,
				  double temperature)
{
	double cap = g->model->config.logit_cap / temperature;
	struct spar_tensor *raw = spar_tensor_linear(s, hidden, head(g, s), NULL);
	return cap > 0 ? spar_tensor_cap(s, raw, cap) : raw;
}

static void head_chunk(const struct spar_graph *g, struct spar_scope *s, struct spar_tensor *hidden, const int32_t *ids,
		       double temperature, float *logprobs, float *entropies, float *best)
{
	size_t n = spar_tensor_size(hidden, 0);
	struct spar_tensor *raw = logits(g, s, hidden, temperature), *all = spar_tensor_log_softmax(s, raw);
	spar_tensor_drop(raw);
	spar_tensor_read(s, spar_tensor_pick(s, all, spar_tensor_from_i32(s, ids, n)), logprobs, n);
	if (best)
		spar_tensor_read(s, spar_tensor_max_last(s, all), best, n);
	if (!entropies)
		return;
	spar_tensor_read(s, spar_tensor_sum_last(s, spar_tensor_mul(s, spar_tensor_exp(s, all), all)), entropies, n);
	for (size_t i = 0; i < n; i++)
		entropies[i] = -entropies[i];
}

static void forward_head(const struct spar_graph *g, struct spar_scope *outer, struct spar_tensor *hidden,
			 const struct spar_pack *p, double temperature, float *logprobs, float *entropies, float *best)
{
	for (size_t at = 0, n, size = chunk_size(g); at < p->n_targets; at += n) {
		n = p->n_targets - at < size ? p->n_targets - at : size;
		struct spar_scope *s = spar_scope_open(outer, false);
		struct spar_tensor *rows = spar_tensor_scale(s, spar_tensor_slice(s, hidden, at, n), 1 / temperature);
		head_chunk(g, s, rows, p->target_id + at, temperature, logprobs + at, entropies ? entropies + at : NULL,
			   best ? best + at : NULL);
		spar_scope_close(s, NULL);
	}
}

int spar_graph_forward(struct spar_graph *g, const struct spar_pack *p, double temperature, enum spar_graph_mode mode,
		       float *logprobs, float *entropies, float *best, struct spar_err *err)
{
	forget(g);
	int rc = check_ids(g, p, err);
	if (rc < 0 || p->n_targets == 0)
		return rc;
	bool grad = mode == SPAR_GRAPH_TRAIN && !g->frozen;
	struct spar_scope *s = spar_scope_new(g->device, grad);
	struct batch b = {
	    .g = g, .adapt = g->lora && mode != SPAR_GRAPH_REFERENCE, .drop = g->lora && grad && g->lora->dropout > 0};
	if (b.drop) {
		struct spar_rng rng;
		spar_rng_init(&rng, g->seed, &g->draw, sizeof g->draw);
		g->draw.forwards++;
		spar_tensor_seed(s, (uint64_t)rng.key[1] << 32 | rng.key[0]);
	}
	rotary_tables(&b, s, p);
	plan(&b, s, p);
	b.target_rows = spar_tensor_from_i32(s, p->target_node, p->n_targets);
	struct spar_tensor *hidden = forward_trunk(&b, s, p, grad);
	forward_head(g, s, hidden, p, temperature, logprobs, entropies, best);
	rc = spar_scope_status(s, err);
	if (rc < 0 || !grad) {
		spar_scope_free(s);
		return rc;
	}
	g->run = s;
	g->hidden = hidden;
	g->temperature = temperature;
	g->n_targets = p->n_targets;
	g->target_ids = spar_malloc(p->n_targets * sizeof *g->target_ids);
	memcpy(g->target_ids, p->target_id, p->n_targets * sizeof *g->target_ids);
	return 0;
}

void spar_graph_reseed(struct spar_graph *g, uint64_t step)
{
	g->draw.step = step;
	g->draw.forwards = 0;
}

/* ---- backward ---- */

/* What the loss asks of each target: dL/dlogprob and dL/dentropy (NULL: of no target). */
struct pull {
	int32_t *ids;
	float *logprobs, *entropies;
};

static float *from(float *v, size_t at)
{
	return v ? v + at : NULL;
}

/* dL/dlogits = a (onehot - p) - b p (log p + H), with p the softmax, H its entropy, a = dL/dlogprob and b = dL/dentropy.
 * Times the slope of the cap, if there is one. `rows` are hidden / temperature. Writes dL/drows into `drows`. */
static void backward_head_chunk(const struct spar_graph *g, struct spar_scope *s, struct spar_tensor *rows,
				const struct pull *pull, struct spar_tensor *drows)
{
	size_t n = spar_tensor_size(rows, 0);
	struct spar_tensor *raw = logits(g, s, rows, g->temperature), *p = spar_tensor_softmax(s, raw), *d = p;
	struct spar_tensor *a = spar_tensor_from_f32(s, pull->logprobs, 1, &n), *by_p = spar_tensor_scale(s, a, -1);
	if (pull->entropies) {
		struct spar_tensor *b = spar_tensor_from_f32(s, pull->entropies, 1, &n);
		struct spar_tensor *plogp = spar_tensor_mul(s, p, spar_tensor_log_softmax(s, raw));
		by_p = spar_tensor_add(s, by_p, spar_tensor_mul(s, b, spar_tensor_sum_last(s, plogp)));
		spar_tensor_scale_rows(s, plogp, spar_tensor_scale(s, b, -1));
		spar_tensor_scale_rows(s, p, by_p);
		d = spar_tensor_add(s, p, plogp);
	} else {
		spar_tensor_scale_rows(s, p, by_p);
	}
	spar_tensor_add_at(s, d, spar_tensor_from_i32(s, pull->ids, n), a);
	if (g->model->config.logit_cap > 0)
		spar_tensor_scale_by_cap_slope(s, d, raw, g->model->config.logit_cap / g->temperature);
	spar_tensor_drop(raw);
	spar_tensor_assign(s, drows, spar_tensor_matmul(s, d, head(g, s)));
	if (!g->lora)
		spar_tensor_add_product(s, spar_tensor_grad(s, g->outside.part[SPAR_PART_HEAD].w), d, rows);
}

/* hidden (n, hidden size) -> dL/dhidden; the head's gradient is added on the way. */
static struct spar_tensor *backward_head(const struct spar_graph *g, struct spar_scope *outer,
					 struct spar_tensor *hidden, const struct pull *pull)
{
	size_t n_rows = spar_tensor_size(hidden, 0), shape[] = {n_rows, g->model->config.hidden_size};
	struct spar_scope *s = spar_scope_open(outer, false);
	struct spar_tensor *dhidden = spar_tensor_zeros(s, SPAR_TENSOR_F32, 2, shape);
	for (size_t at = 0, n, size = chunk_size(g); at < n_rows; at += n) {
		n = n_rows - at < size ? n_rows - at : size;
		struct spar_scope *inner = spar_scope_open(s, false);
		struct spar_tensor *rows =
		    spar_tensor_scale(inner, spar_tensor_slice(inner, hidden, at, n), 1 / g->temperature);
		struct pull part = {pull->ids + at, pull->logprobs + at, from(pull->entropies, at)};
		backward_head_chunk(g, inner, rows, &part, spar_tensor_slice(inner, dhidden, at, n));
		spar_scope_close(inner, NULL);
	}
	return spar_scope_close(s, spar_tensor_scale(s, dhidden, 1 / g->temperature));
}

int spar_graph_backward(struct spar_graph *g, const float *dlogprobs, const float *dentropies, struct spar_err *err)
{
	if (!g->run)
		return 0; /* nothing to predict, or frozen */
	struct spar_scope *s = g->run;
	int32_t *active = spar_malloc(g->n_targets * sizeof *active);
	struct pull pull = {spar_malloc(g->n_targets * sizeof *pull.ids),
			    spar_malloc(g->n_targets * sizeof *pull.logprobs),
			    dentropies ? spar_malloc(g->n_targets * sizeof *pull.entropies) : NULL};
	size_t n = 0;
	for (size_t i = 0; i < g->n_targets; i++)
		if (dlogprobs[i] != 0 || (dentropies && dentropies[i] != 0)) {
			active[n] = (int32_t)i;
			pull.ids[n] = g->target_ids[i];
			pull.logprobs[n] = dlogprobs[i];
			if (dentropies)
				pull.entropies[n] = dentropies[i];
			n++;
		}
	if (n > 0) {
		struct spar_tensor *hidden = g->hidden;
		if (n < g->n_targets)
			hidden = spar_tensor_rows(s, hidden, spar_tensor_from_i32(s, active, n));
		struct spar_tensor *dhidden = backward_head(g, s, spar_tensor_detach(s, hidden), &pull);
		spar_tensor_backward(s, hidden, dhidden);
	}
	free(active);
	free(pull.ids);
	free(pull.logprobs);
	free(pull.entropies);
	int rc = spar_scope_status(s, err);
	forget(g);
	return rc;
}

/* ---- step ---- */

void spar_graph_zero(struct spar_graph *g)
{
	for (size_t i = 0; i < g->n_trained; i++)
		spar_tensor_drop_grad(g->own, g->trained[i].w);
}

int spar_graph_step(struct spar_graph *g, const struct spar_adamw *how, struct spar_step_report *report,
		    struct spar_err *err)
{
	struct spar_scope *s = spar_scope_new(g->device, false);
	double squares = 0;
	*report = (struct spar_step_report){0};
	for (size_t i = 0; i < g->n_trained; i++) {
		double norm = spar_tensor_norm(s, spar_tensor_grad(s, g->trained[i].w));
		squares += norm * norm;
		report->n_trained += spar_tensor_elements(g->trained[i].w);
	}
	report->grad_norm = sqrt(squares);
	report->finite = isfinite(report->grad_norm);
	double clip = how->max_grad_norm > 0 ? how->max_grad_norm / (report->grad_norm + 1e-6) : 1;
	for (size_t i = 0; i < g->n_trained && report->finite; i++) {
		struct trained *t = &g->trained[i];
		struct spar_tensor_adamw a = {.lr = how->learning_rate,
					      .b1 = how->beta1,
					      .b2 = how->beta2,
					      .eps = how->eps,
					      .decay = t->decays ? how->weight_decay : 0,
					      .grad_scale = clip < 1 ? clip : 1,
					      .step = how->step};
		report->n_changed +=
		    spar_tensor_adamw_step(s, t->w, t->moment1, t->moment2, spar_tensor_grad(s, t->w), &a);
	}
	int rc = spar_scope_status(s, err);
	spar_scope_free(s);
	spar_graph_zero(g);
	return rc;
}

/* ---- reading and writing what is trained ---- */

size_t spar_graph_count(const struct spar_graph *g)
{
	return g->n_trained;
}

const char *spar_graph_name(const struct spar_graph *g, size_t i)
{
	return g->trained[i].name;
}

size_t spar_graph_elements(const struct spar_graph *g, size_t i)
{
	return spar_tensor_elements(g->trained[i].w);
}

static struct spar_tensor *pick(const struct spar_graph *g, struct spar_scope *s, size_t i, enum spar_graph_what what)
{
	switch (what) {
	case SPAR_GRAPH_WEIGHT:
		return g->trained[i].w;
	case SPAR_GRAPH_GRAD:
		return spar_tensor_grad(s, g->trained[i].w);
	case SPAR_GRAPH_MOMENT1:
		return g->trained[i].moment1;
	case SPAR_GRAPH_MOMENT2:
		return g->trained[i].moment2;
	}
	return NULL;
}

int spar_graph_get(const struct spar_graph *g, size_t i, enum spar_graph_what what, float *out, struct spar_err *err)
{
	struct spar_scope *s = spar_scope_new(g->device, false);
	spar_tensor_read(s, pick(g, s, i, what), out, spar_graph_elements(g, i));
	int rc = spar_scope_status(s, err);
	spar_scope_free(s);
	return rc;
}

int spar_graph_set(struct spar_graph *g, size_t i, enum spar_graph_what what, const float *in, struct spar_err *err)
{
	struct spar_scope *s = spar_scope_new(g->device, false);
	spar_tensor_write(s, pick(g, s, i, what), in, spar_graph_elements(g, i));
	int rc = spar_scope_status(s, err);
	spar_scope_free(s);
	return rc;
}

const struct spar_lora_config *spar_graph_lora(const struct spar_graph *g)
{
	return g->lora;
}

/* The present value of a parameter, adapter added, in float32. Frozen ones may be here in bfloat16 only, so under LoRA
 * they are taken from the model. */
static int present(const struct spar_graph *g, const struct spar_param *p, float *out, struct spar_err *err)
{
	struct spar_graph *mine = (struct spar_graph *)g;
	struct spar_scope *s = spar_scope_new(g->device, false);
	int rc = 0;
	if (!g->lora && !g->frozen)
		spar_tensor_read(s, *slot(mine, p), out, spar_param_elements(p));
	else
		rc = spar_model_fetch(g->model, p, g->lora != NULL, out, err);
	if (rc == 0 && has_adapter(g, p)) {
		const struct module *l = home(mine, p);
		size_t shape[] = {p->rows, p->cols};
		struct spar_tensor *w = spar_tensor_from_f32(s, out, 2, shape);
		w = spar_tensor_add_scaled(s, w, spar_tensor_matmul(s, l->b, l->a), l->scale);
		spar_tensor_read(s, w, out, spar_param_elements(p));
	}
	if (rc == 0)
		rc = spar_scope_status(s, err);
	spar_scope_free(s);
	return rc;
}

static int save_whole(const struct spar_graph *g, const char *dir, enum spar_dtype dtype, struct spar_err *err)
{
	float **values = spar_calloc(g->n_params, sizeof *values);
	int rc = spar_model_copy_side_files(g->model->base_dir, dir, err);
	for (size_t i = 0; i < g->n_params && rc == 0; i++) {
		values[i] = malloc(spar_param_elements(&g->params[i]) * sizeof **values);
		rc = values[i] ? present(g, &g->params[i], values[i], err)
			       : spar_fail(err, SPAR_FAIL, "%s: out of memory", g->params[i].name);
	}
	if (rc == 0)
		rc = spar_model_write_weights(dir, &g->model->config, values, dtype, err);
	for (size_t i = 0; i < g->n_params; i++)
		free(values[i]);
	free(values);
	return rc;
}

static int save_adapter(const struct spar_graph *g, const char *dir, const char *base_name, struct spar_err *err)
{
	size_t n = 0;
	const struct spar_param **modules = spar_calloc(g->n_params, sizeof *modules);
	float **a = spar_calloc(g->n_params, sizeof *a), **b = spar_calloc(g->n_params, sizeof *b);
	int rc = 0;
	for (size_t i = 0; i < g->n_params && rc == 0; i++) { /* trained: A and B in turn, in the same order */
		if (!has_adapter(g, &g->params[i]))
			continue;
		modules[n] = &g->params[i];
		a[n] = spar_malloc(spar_graph_elements(g, 2 * n) * sizeof **a);
		b[n] = spar_malloc(spar_graph_elements(g, 2 * n + 1) * sizeof **b);
		rc = spar_graph_get(g, 2 * n, SPAR_GRAPH_WEIGHT, a[n], err);
		if (rc == 0)
			rc = spar_graph_get(g, 2 * n + 1, SPAR_GRAPH_WEIGHT, b[n], err);
		n++;
	}
	if (rc == 0)
		rc = spar_lora_write(dir, base_name, g->lora, modules, a, b, n, err);
	for (size_t i = 0; i < n; i++) {
		free(a[i]);
		free(b[i]);
	}
	free(modules);
	free(a);
	free(b);
	return rc;
}

int spar_graph_save(const struct spar_graph *g, const char *dir, bool merge, enum spar_dtype dtype,
		    const char *base_name, struct spar_err *err)
{
	return g->lora && !merge ? save_adapter(g, dir, base_name, err) : save_whole(g, dir, dtype, err);
}
