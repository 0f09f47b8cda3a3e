/* graph.c - see graph.h. The formulas are the engine's; here they are recorded for the backward pass. */
#include "model/graph.h"

#include "base/philox.h"
#include "tensor/tensor.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD_CHUNK_BYTES ((size_t)64 << 20) /* of logits alive at a time */

/* What is trained: a parameter, or one half of an adapter. */
struct trained {
	char name[112];
	struct spar_tensor *w, *m, *v; /* kept; float32; m and v appear with the first step */
};

/* A parameter of the model. A linear one may carry an adapter: y = x W' + scale * (x A') B'. */
struct weight {
	struct spar_param param;
	struct spar_tensor *w;     /* kept; float32, or bfloat16 if it is frozen and the products are taken in it */
	struct spar_tensor *a, *b; /* borrowed from `trained`; NULL: no adapter here */
	bool is_trained;
};

struct layer {
	struct weight *norm1, *q, *k, *v, *o, *norm2, *gate, *up, *down;
};

struct spar_graph {
	const struct spar_model *model;
	struct spar_config config;
	char device[32];
	bool bf16, frozen, has_lora;
	struct spar_lora_config lora;
	uint64_t seed, dropout_key; /* the key counts up with every mask drawn */
	size_t vocab_limit;

	struct weight *weights;
	size_t n_weights;
	struct layer *layers;
	struct weight *embed, *norm, *head; /* head == embed when tied */
	struct trained *trained;
	size_t n_trained;

	/* of the last TRAIN forward */
	struct spar_scope *scope;
	struct spar_tensor *hidden; /* (n_targets, hidden_size), recorded */
	int32_t *target_id;
	size_t n_targets;
	double temperature;
};

/* ---- construction ---- */

static struct weight *find_weight(struct spar_graph *g, const char *name)
{
	for (size_t i = 0; i < g->n_weights; i++)
		if (!strcmp(g->weights[i].param.name, name))
			return &g->weights[i];
	return NULL;
}

static struct weight *layer_weight(struct spar_graph *g, size_t layer, const char *module)
{
	char name[96];
	snprintf(name, sizeof name, "model.layers.%zu.%s.weight", layer, module);
	return find_weight(g, name);
}

static void name_weights(struct spar_graph *g)
{
	g->embed = find_weight(g, "model.embed_tokens.weight");
	g->norm = find_weight(g, "model.norm.weight");
	g->head = g->config.tie_word_embeddings ? g->embed : find_weight(g, "lm_head.weight");
	for (size_t l = 0; l < g->config.n_layers; l++) {
		struct layer *y = &g->layers[l];
		y->norm1 = layer_weight(g, l, "input_layernorm");
		y->q = layer_weight(g, l, "self_attn.q_proj");
		y->k = layer_weight(g, l, "self_attn.k_proj");
		y->v = layer_weight(g, l, "self_attn.v_proj");
		y->o = layer_weight(g, l, "self_attn.o_proj");
		y->norm2 = layer_weight(g, l, "post_attention_layernorm");
		y->gate = layer_weight(g, l, "mlp.gate_proj");
		y->up = layer_weight(g, l, "mlp.up_proj");
		y->down = layer_weight(g, l, "mlp.down_proj");
	}
}

static size_t param_elements(const struct spar_param *p)
{
	return p->rows * (p->cols ? p->cols : 1);
}

static struct spar_tensor *host_matrix(struct spar_scope *s, const float *data, size_t rows, size_t cols)
{
	int64_t shape[2] = {(int64_t)rows, (int64_t)cols};
	return spar_tensor_f32(s, data, cols ? 2 : 1, shape);
}

static struct spar_tensor *add_trained(struct spar_graph *g, struct spar_scope *s, const char *name,
				       struct spar_tensor *value)
{
	struct trained *t = &g->trained[g->n_trained++];
	snprintf(t->name, sizeof t->name, "%s", name);
	t->w = spar_tensor_param(s, value);
	return t->w;
}

/* One parameter: trained, or frozen in the dtype it is used in. */
static int load_weight(struct spar_graph *g, struct weight *w, bool base_only, float *buffer, struct spar_err *err)
{
	int rc = spar_model_fetch(g->model, &w->param, base_only, buffer, err);
	if (rc < 0)
		return rc;
	struct spar_scope *s = spar_scope_new(g->device, false);
	struct spar_tensor *value = host_matrix(s, buffer, w->param.rows, w->param.cols);
	w->is_trained = !g->frozen && !g->has_lora;
	if (w->is_trained)
		w->w = add_trained(g, s, w->param.name, value);
	else if (g->bf16 && w->param.kind == SPAR_PARAM_LINEAR)
		w->w = spar_tensor_keep_bf16(s, value);
	else
		w->w = spar_tensor_keep(value);
	rc = spar_scope_check(s, err);
	spar_scope_free(s);
	return rc;
}

static void module_name(const struct spar_param *p, char *out, size_t size)
{
	snprintf(out, size, "%.*s", (int)(strlen(p->name) - strlen(".weight")), p->name);
}

/* A is Kaiming-uniform with a = sqrt(5), that is uniform in +-1/sqrt(in), and B is zero, as PEFT starts them; an adapter
 * that is continued brings its own. */
static int fill_adapter(const struct spar_graph *g, const struct spar_param *p, float *a, float *b,
			struct spar_err *err)
{
	char module[96], name[192];
	size_t r = (size_t)g->lora.r;
	module_name(p, module, sizeof module);
	if (g->model->has_adapter) {
		for (int half = 0; half < 2; half++) {
			snprintf(name, sizeof name, "base_model.model.%s.lora_%c.weight", module, half ? 'B' : 'A');
			const struct spar_tensor_view *view = spar_safetensors_find(g->model->adapter, name);
			if (!view || view->n_elements != (half ? p->rows * r : r * p->cols))
				return spar_fail(err, SPAR_INPUT, "%s: %s is missing or has another rank than --lora",
						 g->model->dir, name);
			int rc = spar_tensor_view_f32(view, half ? b : a, err);
			if (rc < 0)
				return rc;
		}
		return 0;
	}
	struct spar_rng rng;
	spar_rng_init(&rng, g->seed, p->name, strlen(p->name));
	double bound = 1 / sqrt((double)p->cols);
	for (size_t i = 0; i < r * p->cols; i++)
		a[i] = (float)((2 * spar_rng_uniform(&rng, (uint32_t)i, 0, 0, 0) - 1) * bound);
	memset(b, 0, p->rows * r * sizeof *b);
	return 0;
}

static int add_adapter(struct spar_graph *g, struct weight *w, struct spar_err *err)
{
	const struct spar_param *p = &w->param;
	size_t r = (size_t)g->lora.r;
	char module[96], name[112];
	float *a = spar_malloc(r * p->cols * sizeof *a), *b = spar_malloc(p->rows * r * sizeof *b);
	struct spar_scope *s = spar_scope_new(g->device, false);
	int rc = fill_adapter(g, p, a, b, err);
	if (rc == 0) {
		module_name(p, module, sizeof module);
		snprintf(name, sizeof name, "%s.lora_A", module);
		w->a = add_trained(g, s, name, host_matrix(s, a, r, p->cols));
		snprintf(name, sizeof name, "%s.lora_B", module);
		w->b = add_trained(g, s, name, host_matrix(s, b, p->rows, r));
		rc = spar_scope_check(s, err);
	}
	spar_scope_free(s);
	free(a);
	free(b);
	return rc;
}

/* If none of the targets exists in this model, all linear layers are adapted. */
static void settle_targets(struct spar_graph *g)
{
	for (size_t i = 0; i < g->n_weights; i++)
		if (g->weights[i].param.kind == SPAR_PARAM_LINEAR && spar_lora_hits(&g->lora, g->weights[i].param.name))
			return;
	g->lora.all_linear = true;
}

static int load_all(struct spar_graph *g, struct spar_err *err)
{
	size_t largest = 0;
	for (size_t i = 0; i < g->n_weights; i++)
		if (param_elements(&g->weights[i].param) > largest)
			largest = param_elements(&g->weights[i].param);
	float *buffer = spar_malloc(largest * sizeof *buffer);
	int rc = 0;
	for (size_t i = 0; i < g->n_weights && rc == 0; i++) {
		struct weight *w = &g->weights[i];
		rc = load_weight(g, w, g->has_lora, buffer, err);
		if (rc == 0 && g->has_lora && w->param.kind == SPAR_PARAM_LINEAR &&
		    spar_lora_hits(&g->lora, w->param.name))
			rc = add_adapter(g, w, err);
	}
	free(buffer);
	return rc;
}

int spar_graph_new(struct spar_graph **out, const struct spar_model *m, const struct spar_graph_opt *opt,
		   struct spar_err *err)
{
	*out = NULL;
	int rc = spar_tensor_setup(opt->device ? opt->device : "cpu", opt->threads, err);
	if (rc < 0)
		return rc;
	struct spar_graph *g = spar_calloc(1, sizeof *g);
	g->model = m;
	g->config = m->config;
	snprintf(g->device, sizeof g->device, "%s", opt->device ? opt->device : "cpu");
	g->bf16 = opt->dtype == SPAR_BF16;
	g->frozen = opt->frozen;
	g->seed = opt->seed;
	g->vocab_limit = opt->vocab_limit;
	struct spar_param *params = spar_config_params(&g->config, &g->n_weights);
	g->weights = spar_calloc(g->n_weights, sizeof *g->weights);
	for (size_t i = 0; i < g->n_weights; i++)
		g->weights[i].param = params[i];
	free(params);
	g->layers = spar_calloc(g->config.n_layers, sizeof *g->layers);
	g->trained = spar_calloc(2 * g->n_weights, sizeof *g->trained);
	name_weights(g);
	if (opt->lora && !opt->frozen) {
		g->has_lora = true;
		spar_lora_copy(&g->lora, opt->lora);
		settle_targets(g);
	}
	rc = load_all(g, err);
	if (rc < 0) {
		spar_graph_free(g);
		return rc;
	}
	*out = g;
	return 0;
}

static void drop_activations(struct spar_graph *g)
{
	spar_scope_free(g->scope);
	g->scope = NULL;
	g->hidden = NULL;
	free(g->target_id);
	g->target_id = NULL;
	g->n_targets = 0;
}

void spar_graph_free(struct spar_graph *g)
{
	if (!g)
		return;
	drop_activations(g);
	for (size_t i = 0; i < g->n_weights; i++)
		if (!g->weights[i].is_trained)
			spar_tensor_free(g->weights[i].w);
	for (size_t i = 0; i < g->n_trained; i++) {
		spar_tensor_free(g->trained[i].w);
		spar_tensor_free(g->trained[i].m);
		spar_tensor_free(g->trained[i].v);
	}
	if (g->has_lora)
		spar_lora_release(&g->lora);
	free(g->trained);
	free(g->layers);
	free(g->weights);
	free(g);
}

/* ---- forward ---- */

/* What the layers of one forward share. */
struct pass {
	struct spar_graph *g;
	struct spar_scope *s;
	const struct spar_pack *pack;
	struct spar_tensor *cos, *sin; /* (n_nodes, 1, head_dim / 2) */
	int64_t *sizes;                /* (n_segments) */
	bool adapter, dropout;
};

static void make_rotary(struct pass *p)
{
	size_t n = p->pack->n_nodes, half = p->g->config.head_dim / 2;
	float *cos_f = spar_malloc(n * half * sizeof *cos_f), *sin_f = spar_malloc(n * half * sizeof *sin_f);
	for (size_t j = 0; j < half; j++) {
		double step = pow(p->g->config.rope_theta, -2.0 * (double)j / (double)p->g->config.head_dim);
		for (size_t i = 0; i < n; i++) {
			double angle = (double)p->pack->positions[i] * step;
			cos_f[i * half + j] = (float)cos(angle);
			sin_f[i * half + j] = (float)sin(angle);
		}
	}
	int64_t shape[3] = {(int64_t)n, 1, (int64_t)half};
	p->cos = spar_tensor_f32(p->s, cos_f, 3, shape);
	p->sin = spar_tensor_f32(p->s, sin_f, 3, shape);
	free(cos_f);
	free(sin_f);
}

static struct spar_tensor *linear(struct pass *p, struct spar_tensor *x, const struct weight *w)
{
	struct spar_scope *s = p->s;
	struct spar_tensor *y = spar_linear(s, x, w->w, p->g->bf16);
	if (!w->a || !p->adapter)
		return y;
	if (p->dropout && p->g->lora.dropout > 0)
		x = spar_dropout(s, x, p->g->lora.dropout, p->g->dropout_key++);
	struct spar_tensor *low = spar_linear(s, x, w->a, p->g->bf16);
	return spar_add(s, y, spar_scale(s, spar_linear(s, low, w->b, p->g->bf16), spar_lora_scale(&p->g->lora)));
}

static struct spar_tensor *heads(struct pass *p, struct spar_tensor *x, size_t n_heads)
{
	int64_t shape[3] = {(int64_t)p->pack->n_nodes, (int64_t)n_heads, (int64_t)p->g->config.head_dim};
	return spar_reshape(p->s, x, 3, shape);
}

/* Every segment attends to the keys of the path it ends: its ancestors' and its own. */
static struct spar_tensor *tree_attention(struct pass *p, struct spar_tensor *q, struct spar_tensor *k,
					  struct spar_tensor *v)
{
	const struct spar_pack *pack = p->pack;
	size_t n = pack->n_segments;
	struct spar_tensor **parts = spar_calloc(4 * n, sizeof(struct spar_tensor *));
	struct spar_tensor **queries = parts, **keys = parts + n, **values = parts + 2 * n, **mixed = parts + 3 * n;
	spar_split(p->s, q, p->sizes, n, queries);
	spar_split(p->s, k, p->sizes, n, keys);
	spar_split(p->s, v, p->sizes, n, values);
	for (size_t i = 0; i < n; i++) {
		int32_t parent = pack->segments[i].parent; /* its path is whole already: parents come first */
		if (parent >= 0) {
			keys[i] = spar_cat(p->s, (struct spar_tensor *[]){keys[parent], keys[i]}, 2, 0);
			values[i] = spar_cat(p->s, (struct spar_tensor *[]){values[parent], values[i]}, 2, 0);
		}
		mixed[i] = spar_attention(p->s, queries[i], keys[i], values[i]);
	}
	struct spar_tensor *out = spar_cat(p->s, mixed, n, 0);
	free(parts);
	return out;
}

static struct spar_tensor *run_layer(struct pass *p, const struct layer *y, struct spar_tensor *x)
{
	struct spar_scope *s = p->s;
	const struct spar_config *c = &p->g->config;
	struct spar_tensor *h = spar_rms_norm(s, x, y->norm1->w, c->rms_norm_eps);
	struct spar_tensor *q = spar_rotary(s, heads(p, linear(p, h, y->q), c->n_heads), p->cos, p->sin);
	struct spar_tensor *k = spar_rotary(s, heads(p, linear(p, h, y->k), c->n_kv_heads), p->cos, p->sin);
	struct spar_tensor *v = heads(p, linear(p, h, y->v), c->n_kv_heads);
	x = spar_add(s, x, linear(p, tree_attention(p, q, k, v), y->o));
	h = spar_rms_norm(s, x, y->norm2->w, c->rms_norm_eps);
	struct spar_tensor *inner = spar_mul(s, spar_silu(s, linear(p, h, y->gate)), linear(p, h, y->up));
	return spar_add(s, x, linear(p, inner, y->down));
}

/* Hidden states at the targets, (n_targets, hidden_size). */
static struct spar_tensor *run_trunk(struct pass *p)
{
	struct spar_graph *g = p->g;
	const struct spar_pack *pack = p->pack;
	p->sizes = spar_malloc(pack->n_segments * sizeof *p->sizes);
	for (size_t i = 0; i < pack->n_segments; i++)
		p->sizes[i] = (int64_t)pack->segments[i].n;
	make_rotary(p);
	struct spar_tensor *x =
	    spar_rows(p->s, g->embed->w, spar_tensor_ids(p->s, pack->tokens, (int64_t)pack->n_nodes));
	for (size_t l = 0; l < g->config.n_layers; l++)
		x = run_layer(p, &g->layers[l], x);
	free(p->sizes);
	x = spar_rows(p->s, x, spar_tensor_ids(p->s, pack->target_node, (int64_t)pack->n_targets));
	return spar_rms_norm(p->s, x, g->norm->w, g->config.rms_norm_eps);
}

/* ---- the head, a chunk of targets at a time, so that no (targets, vocabulary) matrix exists ---- */

static size_t head_chunk(const struct spar_graph *g)
{
	size_t rows = HEAD_CHUNK_BYTES / (g->config.vocab_size * sizeof(float));
	return rows < 16 ? 16 : rows;
}

/* Log-probabilities of targets [from, from + n); returns the chunk's probabilities. */
static struct spar_tensor *head_forward(struct spar_graph *g, struct spar_scope *s, struct spar_tensor *hidden,
					struct spar_tensor *ids, double temperature, float *logp, float *entropy)
{
	struct spar_tensor *p = spar_linear(s, hidden, g->head->w, g->bf16);
	spar_head_into(s, p, ids, temperature, (int64_t)g->vocab_limit, logp, entropy);
	return p;
}

int spar_graph_forward(struct spar_graph *g, const struct spar_pack *pack, double temperature,
		       enum spar_graph_mode mode, float *logprobs, float *entropies, struct spar_err *err)
{
	bool train = mode == SPAR_GRAPH_TRAIN;
	drop_activations(g);
	if (pack->n_targets == 0)
		return 0;
	struct spar_scope *s = spar_scope_new(g->device, train && !g->frozen);
	struct pass p = {.g = g, .s = s, .pack = pack, .adapter = mode != SPAR_GRAPH_REFERENCE, .dropout = train};
	struct spar_tensor *hidden = run_trunk(&p);
	int rc = spar_scope_check(s, err);
	size_t step = head_chunk(g);
	for (size_t from = 0; from < pack->n_targets && rc == 0; from += step) {
		size_t n = pack->n_targets - from < step ? pack->n_targets - from : step;
		struct spar_scope *chunk = spar_scope_new(g->device, false);
		head_forward(g, chunk, spar_narrow(chunk, hidden, (int64_t)from, (int64_t)n),
			     spar_tensor_ids(chunk, pack->target_id + from, (int64_t)n), temperature, logprobs + from,
			     entropies ? entropies + from : NULL);
		rc = spar_scope_check(chunk, err);
		spar_scope_free(chunk);
	}
	if (rc < 0 || !train) {
		spar_scope_free(s);
		return rc;
	}
	g->scope = s;
	g->hidden = hidden;
	g->n_targets = pack->n_targets;
	g->temperature = temperature;
	g->target_id = spar_malloc(g->n_targets * sizeof *g->target_id);
	memcpy(g->target_id, pack->target_id, g->n_targets * sizeof *g->target_id);
	return 0;
}

static bool all_zero(const float *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (v[i] != 0)
			return false;
	return true;
}

/* d loss / d hidden of one chunk, made in the activations' scope `s`; adds the head's own gradient. */
static struct spar_tensor *head_backward(struct spar_graph *g, struct spar_scope *chunk, size_t from, size_t n,
					 const float *dlogprobs, float *scratch)
{
	struct spar_tensor *hidden = spar_narrow(chunk, g->hidden, (int64_t)from, (int64_t)n);
	struct spar_tensor *ids = spar_tensor_ids(chunk, g->target_id + from, (int64_t)n);
	struct spar_tensor *d = head_forward(g, chunk, hidden, ids, g->temperature, scratch, NULL);
	spar_head_grad_into(chunk, d, ids, dlogprobs + from, g->temperature);
	if (g->head->is_trained)
		spar_grad_add(chunk, g->head->w, spar_matmul(chunk, d, hidden, true, g->bf16));
	return spar_matmul(chunk, d, g->head->w, false, g->bf16);
}

int spar_graph_backward(struct spar_graph *g, const float *dlogprobs, struct spar_err *err)
{
	if (!g->scope)
		return spar_fail(err, SPAR_FAIL, "backward without a forward");
	size_t n = g->n_targets, step = head_chunk(g), n_chunks = (n + step - 1) / step;
	float *scratch = spar_malloc((step < n ? step : n) * sizeof *scratch);
	struct spar_tensor **parts = spar_calloc(n_chunks, sizeof(struct spar_tensor *));
	int rc = 0;
	for (size_t i = 0; i < n_chunks && rc == 0; i++) {
		size_t from = i * step, rows = n - from < step ? n - from : step;
		int64_t shape[2] = {(int64_t)rows, (int64_t)g->config.hidden_size};
		struct spar_scope *chunk = spar_scope_new(g->device, false);
		if (all_zero(dlogprobs + from, rows))
			parts[i] = spar_tensor_keep(spar_tensor_zeros(chunk, 2, shape));
		else
			parts[i] = spar_tensor_keep(head_backward(g, chunk, from, rows, dlogprobs, scratch));
		rc = spar_scope_check(chunk, err);
		spar_scope_free(chunk);
	}
	if (rc == 0) {
		spar_backward(g->scope, g->hidden, spar_cat(g->scope, parts, n_chunks, 0));
		rc = spar_scope_check(g->scope, err);
	}
	for (size_t i = 0; i < n_chunks; i++)
		spar_tensor_free(parts[i]);
	free(parts);
	free(scratch);
	drop_activations(g);
	return rc;
}

void spar_graph_reseed(struct spar_graph *g, uint64_t step)
{
	uint32_t key[2] = {(uint32_t)g->seed, (uint32_t)(g->seed >> 32)}, x[4];
	uint32_t counter[4] = {(uint32_t)step, (uint32_t)(step >> 32), 0, 0xd409u};
	spar_philox(key, counter, x);
	g->dropout_key = ((uint64_t)x[0] << 32) | x[1];
}

/* ---- the optimizer step ---- */

void spar_graph_zero(struct spar_graph *g)
{
	for (size_t i = 0; i < g->n_trained; i++)
		spar_grad_clear(g->trained[i].w);
}

static void need_moments(struct spar_scope *s, struct trained *t)
{
	int64_t n = spar_tensor_elements(t->w);
	int64_t shape[2] = {n, 1};
	bool matrix = spar_tensor_size(t->w, 0) != n;
	if (matrix) {
		shape[0] = spar_tensor_size(t->w, 0);
		shape[1] = n / shape[0];
	}
	if (!t->m)
		t->m = spar_tensor_keep(spar_tensor_zeros(s, matrix ? 2 : 1, shape));
	if (!t->v)
		t->v = spar_tensor_keep(spar_tensor_zeros(s, matrix ? 2 : 1, shape));
}

static bool decays(const struct trained *t)
{
	return spar_tensor_size(t->w, 0) != spar_tensor_elements(t->w);
}

int spar_graph_step(struct spar_graph *g, const struct spar_adamw *how, struct spar_step_report *report,
		    struct spar_err *err)
{
	memset(report, 0, sizeof *report);
	struct spar_scope *s = spar_scope_new(g->device, false);
	double sum = 0;
	for (size_t i = 0; i < g->n_trained; i++) {
		struct spar_tensor *grad = spar_grad(s, g->trained[i].w);
		report->n_trained += (uint64_t)spar_tensor_elements(g->trained[i].w);
		if (grad)
			sum += spar_sum_squares(s, grad);
	}
	report->grad_norm = sqrt(sum);
	report->finite = isfinite(report->grad_norm);
	if (report->finite) {
		struct spar_adamw_rates rates = {how->learning_rate, how->beta1, how->beta2, how->eps, 0, 1, how->step};
		if (how->max_grad_norm > 0 && report->grad_norm > how->max_grad_norm)
			rates.grad_scale = how->max_grad_norm / (report->grad_norm + 1e-6);
		for (size_t i = 0; i < g->n_trained; i++) {
			struct trained *t = &g->trained[i];
			if (!spar_grad(s, t->w))
				continue;
			need_moments(s, t);
			rates.weight_decay = decays(t) ? how->weight_decay : 0;
			report->n_changed += (uint64_t)spar_adamw_into(s, t->w, t->m, t->v, &rates);
		}
	}
	int rc = spar_scope_check(s, err);
	spar_scope_free(s);
	spar_graph_zero(g);
	return rc;
}

/* ---- what is trained, out and in ---- */

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
	return (size_t)spar_tensor_elements(g->trained[i].w);
}

static struct spar_tensor *pick(struct spar_scope *s, struct trained *t, enum spar_graph_what what)
{
	switch (what) {
	case SPAR_GRAPH_WEIGHT:
		return t->w;
	case SPAR_GRAPH_GRAD:
		return spar_grad(s, t->w);
	case SPAR_GRAPH_MOMENT1:
		return t->m;
	case SPAR_GRAPH_MOMENT2:
		return t->v;
	}
	return NULL;
}

int spar_graph_get(const struct spar_graph *g, size_t i, enum spar_graph_what what, float *out, struct spar_err *err)
{
	struct spar_scope *s = spar_scope_new(g->device, false);
	struct spar_tensor *t = pick(s, &g->trained[i], what);
	if (t)
		spar_tensor_read(s, t, out);
	else /* no gradient gathered, no step taken yet */
		memset(out, 0, spar_graph_elements(g, i) * sizeof *out);
	int rc = spar_scope_check(s, err);
	spar_scope_free(s);
	return rc;
}

int spar_graph_set(struct spar_graph *g, size_t i, enum spar_graph_what what, const float *in, struct spar_err *err)
{
	struct spar_scope *s = spar_scope_new(g->device, false);
	need_moments(s, &g->trained[i]);
	spar_tensor_write_into(s, pick(s, &g->trained[i], what), in);
	int rc = spar_scope_check(s, err);
	spar_scope_free(s);
	return rc;
}

const struct spar_lora_config *spar_graph_lora(const struct spar_graph *g)
{
	return g->has_lora ? &g->lora : NULL;
}

/* ---- saving ---- */

static int read_kept(const struct spar_graph *g, const struct spar_tensor *t, float **out, struct spar_err *err)
{
	struct spar_scope *s = spar_scope_new(g->device, false);
	*out = spar_malloc((size_t)spar_tensor_elements(t) * sizeof **out);
	spar_tensor_read(s, t, *out);
	int rc = spar_scope_check(s, err);
	spar_scope_free(s);
	return rc;
}

/* w += scale * B A, in float32: rows (out) x cols (in), B (out, r), A (r, in). */
static void add_low_rank(float *w, const float *b, const float *a, size_t rows, size_t cols, size_t r, double scale)
{
	for (size_t i = 0; i < rows; i++)
		for (size_t k = 0; k < r; k++) {
			float f = (float)scale * b[i * r + k];
			for (size_t j = 0; j < cols; j++)
				w[i * cols + j] += f * a[k * cols + j];
		}
}

/* The full matrix of a parameter as it is now. */
static int present_weight(const struct spar_graph *g, const struct weight *w, float **out, struct spar_err *err)
{
	if (w->is_trained)
		return read_kept(g, w->w, out, err);
	*out = spar_malloc(param_elements(&w->param) * sizeof **out);
	int rc = spar_model_fetch(g->model, &w->param, g->has_lora, *out, err);
	if (rc < 0 || !w->a)
		return rc;
	float *a = NULL, *b = NULL;
	rc = read_kept(g, w->a, &a, err);
	if (rc == 0)
		rc = read_kept(g, w->b, &b, err);
	if (rc == 0)
		add_low_rank(*out, b, a, w->param.rows, w->param.cols, (size_t)g->lora.r, spar_lora_scale(&g->lora));
	free(a);
	free(b);
	return rc;
}

static int save_full(const struct spar_graph *g, const char *dir, enum spar_dtype dtype, struct spar_err *err)
{
	float **params = spar_calloc(g->n_weights, sizeof *params);
	int rc = spar_model_copy_side_files(g->model->base_dir, dir, err);
	for (size_t i = 0; i < g->n_weights && rc == 0; i++)
		rc = present_weight(g, &g->weights[i], &params[i], err);
	if (rc == 0)
		rc = spar_model_write_weights(dir, &g->config, params, dtype, err);
	for (size_t i = 0; i < g->n_weights; i++)
		free(params[i]);
	free(params);
	return rc;
}

static int save_adapter(const struct spar_graph *g, const char *dir, const char *base_name, struct spar_err *err)
{
	size_t n = 0, max = g->n_weights;
	char(*modules)[96] = spar_calloc(max, sizeof *modules);
	const char **names = spar_calloc(max, sizeof *names);
	size_t *in = spar_calloc(max, sizeof *in), *out = spar_calloc(max, sizeof *out);
	float **a = spar_calloc(max, sizeof *a), **b = spar_calloc(max, sizeof *b);
	int rc = 0;
	for (size_t i = 0; i < max && rc == 0; i++) {
		const struct weight *w = &g->weights[i];
		if (!w->a)
			continue;
		module_name(&w->param, modules[n], sizeof modules[n]);
		names[n] = modules[n];
		in[n] = w->param.cols;
		out[n] = w->param.rows;
		rc = read_kept(g, w->a, &a[n], err);
		if (rc == 0)
			rc = read_kept(g, w->b, &b[n], err);
		n++;
	}
	if (rc == 0)
		rc = spar_lora_write(dir, base_name, &g->lora, names, in, out, a, b, n, err);
	for (size_t i = 0; i < n; i++) {
		free(a[i]);
		free(b[i]);
	}
	free(a);
	free(b);
	free(in);
	free(out);
	free(names);
	free(modules);
	return rc;
}

int spar_graph_save(const struct spar_graph *g, const char *dir, bool merge, enum spar_dtype dtype,
		    const char *base_name, struct spar_err *err)
{
	return g->has_lora && !merge ? save_adapter(g, dir, base_name, err) : save_full(g, dir, dtype, err);
}
