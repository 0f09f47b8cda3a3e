#include "model/graph.h"
#include "base/philox.h"
#include "model/graph/parts.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

bool spar_graph_adapts(const struct spar_graph *g, const struct spar_param *p)
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
		hits += spar_graph_adapts(g, &g->params[i]);
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
		if (rc == 0 && spar_graph_adapts(g, p))
			rc = add_adapter(g, p, err);
		free(values);
	}
	spar_model_leave(g->model);
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
	g->tensors = opt->tensors;
	g->checkpointing = opt->checkpointing;
	g->threads = opt->threads;
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
	bool engine_only = g->frozen && spar_graph_has_engine(g);
	if ((rc = engine_only ? 0 : load_weights(g, err)) < 0 || (rc = spar_scope_status(g->own, err)) < 0)
		goto fail;
	g->stale =
	    !g->frozen && !g->lora && g->type == SPAR_TENSOR_BF16; /* what a file has in float32 is saved rounded */
	if (c->tie_word_embeddings)
		g->outside.part[SPAR_PART_HEAD] = g->outside.part[SPAR_PART_EMBED];
	*out = g;
	return 0;
fail:
	spar_graph_free(g);
	return rc;
}

void spar_graph_free(struct spar_graph *g)
{
	if (!g)
		return;
	spar_graph_forget(g);
	spar_scope_free(g->own);
	free(g->params);
	free(g->layers);
	spar_engine_free(g->engine);
	spar_engine_free(g->base);
	free(g->trained);
	if (g->lora)
		spar_lora_release(g->lora);
	free(g->lora);
	free(g);
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
	g->stale = g->stale || report->finite;
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
	g->stale = g->stale || what == SPAR_GRAPH_WEIGHT;
	int rc = spar_scope_status(s, err);
	spar_scope_free(s);
	return rc;
}

const struct spar_lora_config *spar_graph_lora(const struct spar_graph *g)
{
	return g->lora;
}

static int add_present_adapter(struct spar_graph *g, const struct spar_param *p, float *out, struct spar_err *err)
{
	const struct module *l = home(g, p);
	size_t r = spar_lora_rank(g->lora, p);
	struct spar_scope *s = spar_scope_new(g->device, false);
	float *a = spar_malloc(r * p->cols * sizeof *a), *b = spar_malloc(p->rows * r * sizeof *b);
	spar_tensor_read(s, l->a, a, r * p->cols);
	spar_tensor_read(s, l->b, b, p->rows * r);
	int rc = spar_scope_status(s, err);
	if (rc == 0)
		spar_lora_add(out, b, a, p->rows, p->cols, r, (float)l->scale);
	free(a);
	free(b);
	spar_scope_free(s);
	return rc;
}

/* Frozen parameters may be here in bfloat16 only, so under LoRA they are taken from the model. */
int spar_graph_present(const struct spar_graph *g, const struct spar_param *p, float *out, struct spar_err *err)
{
	struct spar_graph *mine = (struct spar_graph *)g;
	if (g->lora || g->frozen) {
		int rc = spar_model_fetch(g->model, p, g->lora != NULL, out, err);
		return rc == 0 && spar_graph_adapts(g, p) ? add_present_adapter(mine, p, out, err) : rc;
	}
	struct spar_scope *s = spar_scope_new(g->device, false);
	spar_tensor_read(s, *slot(mine, p), out, spar_param_elements(p));
	int rc = spar_scope_status(s, err);
	spar_scope_free(s);
	return rc;
}

static int save_whole(const struct spar_graph *g, const char *dir, enum spar_dtype dtype, struct spar_err *err)
{
	float **values = spar_calloc(g->n_params, sizeof *values);
	int rc = spar_model_copy_side_files(g->model->base_dir, dir, err);
	for (size_t i = 0; i < g->n_params && rc == 0; i++) {
		values[i] = malloc(spar_param_elements(&g->params[i]) * sizeof **values);
		rc = values[i] ? spar_graph_present(g, &g->params[i], values[i], err)
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
		if (!spar_graph_adapts(g, &g->params[i]))
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
