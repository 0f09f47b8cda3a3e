/* pass.c - forward and backward over a prefix tree; see model/graph.h */
#include "model/graph/parts.h"
#include <stdlib.h>
#include <string.h>

void spar_graph_forget(struct spar_graph *g)
{
	spar_scope_free(g->run);
	free(g->target_ids);
	free(g->inputs);
	free(g->values);
	g->run = NULL;
	g->output = NULL;
	g->target_ids = NULL;
	g->inputs = NULL;
	g->values = NULL;
	g->by_layers = false;
	g->n_targets = 0;
}

struct spar_tensor *spar_graph_embed(const struct spar_graph *g, struct spar_scope *s, const int32_t *ids,
				     const int32_t *positions, size_t n)
{
	const struct spar_config *c = &g->model->config;
	const struct module *part = g->outside.part;
	struct spar_tensor *x = spar_tensor_embed(s, part[SPAR_PART_EMBED].w, spar_tensor_from_i32(s, ids, n));
	if (c->embedding_scale > 0)
		x = spar_tensor_scale(s, x, c->embedding_scale);
	if (!c->learned_positions)
		return x;
	struct spar_tensor *at = spar_tensor_from_i32(s, positions, n);
	return spar_tensor_add(s, x, spar_tensor_embed(s, part[SPAR_PART_POSITIONS].w, at));
}

static struct spar_tensor *embed(const struct spar_graph *g, struct spar_scope *s, const struct spar_pack *p)
{
	return spar_graph_embed(g, s, p->tokens, p->positions, p->n_nodes);
}

struct spar_tensor *spar_graph_leaf(struct spar_scope *s, const struct spar_tensor *x)
{
	struct spar_tensor *l = spar_tensor_detach(s, x);
	spar_tensor_require_grad(s, l);
	return l;
}

/* Tokens to the last layer's output at the targets (n_targets, hidden size). With checkpointing nothing of a layer is kept
 * but what it was given. */
static struct spar_tensor *forward_tensors(struct spar_graph *g, struct spar_scope *s, const struct spar_pack *p,
					   bool grad)
{
	size_t n = g->model->config.n_layers;
	struct spar_tensor *x = embed(g, s, p);
	g->by_layers = grad && g->checkpointing;
	if (g->by_layers)
		g->inputs = spar_calloc(n, sizeof(struct spar_tensor *));
	for (size_t i = 0; i < n; i++) {
		struct spar_scope *inner = spar_scope_open(s, grad && !g->by_layers);
		struct spar_tensor *y = spar_scope_close(inner, spar_graph_layer(&g->batch, inner, i, x));
		if (g->by_layers)
			g->inputs[i] = x;
		else
			spar_tensor_drop(x);
		x = y;
	}
	return g->by_layers ? spar_graph_leaf(s, x) : x;
}

void spar_graph_angles(struct batch *b, struct spar_scope *s, const int32_t *positions, size_t n)
{
	const struct spar_config *c = &b->g->model->config;
	size_t half = c->head_dim / 2, n_positions = 1;
	for (size_t i = 0; i < n; i++)
		if ((size_t)positions[i] >= n_positions)
			n_positions = (size_t)positions[i] + 1;
	size_t shape[] = {n_positions, half};
	float *cosines = spar_malloc(n_positions * half * sizeof *cosines);
	float *sines = spar_malloc(n_positions * half * sizeof *sines);
	struct spar_tensor *rows = spar_tensor_from_i32(s, positions, n);
	for (size_t i = 0; i < c->n_layers; i++) {
		int rope = c->layers[i].rope;
		if (rope < 0 || b->cos[rope])
			continue;
		spar_rope_angles(&c->ropes[rope], c->head_dim, 0, n_positions, cosines, sines);
		b->cos[rope] = spar_tensor_rows(s, spar_tensor_from_f32(s, cosines, 2, shape), rows);
		b->sin[rope] = spar_tensor_rows(s, spar_tensor_from_f32(s, sines, 2, shape), rows);
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

/* What the layers need to know of the pack. */
static void lay_out(struct spar_graph *g, struct spar_scope *s, const struct spar_pack *p)
{
	spar_graph_angles(&g->batch, s, p->positions, p->n_nodes);
	plan(&g->batch, s, p);
	g->batch.target_rows = spar_tensor_from_i32(s, p->target_node, p->n_targets);
}

/* Keep what the backward needs of this forward. */
static void keep(struct spar_graph *g, struct spar_scope *s, const struct spar_pack *p, struct spar_tensor *output,
		 double temperature)
{
	g->run = s;
	g->output = output;
	if (g->by_layers && !g->lora)
		g->embedded = g->values ? embed(g, s, p) : g->inputs[0];
	g->temperature = temperature;
	g->n_targets = p->n_targets;
	g->target_ids = spar_malloc(p->n_targets * sizeof *g->target_ids);
	memcpy(g->target_ids, p->target_id, p->n_targets * sizeof *g->target_ids);
}

int spar_graph_forward(struct spar_graph *g, const struct spar_pack *p, double temperature, enum spar_graph_mode mode,
		       float *logprobs, float *entropies, float *best, struct spar_err *err)
{
	spar_graph_forget(g);
	bool grad = mode == SPAR_GRAPH_TRAIN && !g->frozen, drop = g->lora && grad && g->lora->dropout > 0;
	struct spar_engine *e = NULL;
	int rc = check_ids(g, p, err);
	if (rc < 0 || p->n_targets == 0 || (rc = spar_graph_engine(g, mode, drop, &e, err)) < 0)
		return rc;
	struct spar_scope *s = spar_scope_new(g->device, grad);
	g->batch =
	    (struct batch){.g = g, .adapt = g->lora && mode != SPAR_GRAPH_REFERENCE, .drop = drop, .draw = g->draw};
	g->draw.forwards += drop;
	if (grad || !e)
		lay_out(g, s, p);
	struct spar_tensor *output = e ? spar_graph_trace(g, s, e, p, grad, err) : forward_tensors(g, s, p, grad);
	if (output)
		spar_graph_head(g, s, e, output, p->target_id, temperature, logprobs, entropies, best);
	rc = output ? spar_scope_status(s, err) : -(int)err->code;
	if (rc == 0 && grad)
		keep(g, s, p, output, temperature);
	else
		spar_scope_free(s);
	return rc;
}

void spar_graph_reseed(struct spar_graph *g, uint64_t step)
{
	g->draw.step = step;
	g->draw.forwards = 0;
}

/* ---- backward ---- */

/* The layers' tensors are made now, from the last layer, each with its own backward. */
static void backward_layers(struct spar_graph *g, struct spar_scope *s)
{
	struct spar_tensor *d = spar_tensor_grad(s, g->output);
	for (size_t i = g->model->config.n_layers; i-- > 0;) {
		struct spar_scope *inner = spar_scope_open(s, true);
		struct spar_tensor *x = spar_graph_leaf(inner, g->inputs[i]);
		spar_tensor_backward(inner, spar_graph_layer(&g->batch, inner, i, x), d);
		struct spar_tensor *dx = spar_scope_close(inner, spar_tensor_grad(inner, x));
		spar_tensor_drop(d);
		if (g->inputs[i] != g->embedded)
			spar_tensor_drop(g->inputs[i]);
		for (size_t point = 0; g->values && point < SPAR_N_TRACE_POINTS; point++)
			if (point != SPAR_TRACE_INPUT)
				spar_tensor_drop(g->values[i][point]);
		d = dx;
	}
	if (!g->lora)
		spar_tensor_backward(s, g->embedded, d);
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
		struct spar_tensor *output = g->output;
		if (n < g->n_targets)
			output = spar_tensor_rows(s, output, spar_tensor_from_i32(s, active, n));
		spar_graph_head_backward(g, s, g->values ? g->engine : NULL, output, &pull);
		if (g->by_layers)
			backward_layers(g, s);
	}
	free(active);
	free(pull.ids);
	free(pull.logprobs);
	free(pull.entropies);
	int rc = spar_scope_status(s, err);
	spar_graph_forget(g);
	return rc;
}
