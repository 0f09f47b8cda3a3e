/* pass.c - forward and backward over a prefix tree; see model/graph.h */
#include "base/philox.h"
#include "model/graph/parts.h"
#include <stdlib.h>
#include <string.h>

void spar_graph_forget(struct spar_graph *g)
{
	spar_scope_free(g->run);
	free(g->target_ids);
	g->run = NULL;
	g->hidden = NULL;
	g->target_ids = NULL;
	g->n_targets = 0;
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

/* x as a leaf: what is made of it gives its gradient there, and goes no further back. */
static struct spar_tensor *leaf(struct spar_scope *s, const struct spar_tensor *x)
{
	struct spar_tensor *l = spar_tensor_detach(s, x);
	spar_tensor_require_grad(s, l);
	return l;
}

/* Tokens to the normed hidden rows of the targets (n_targets, hidden size). With checkpoints nothing of a layer is kept but
 * what it was given. */
static struct spar_tensor *forward_trunk(struct spar_graph *g, struct spar_scope *s, const struct spar_pack *p,
					 bool grad)
{
	bool keep = grad && g->checkpoints;
	size_t n = g->model->config.n_layers;
	struct spar_tensor *x = embed(g, s, p);
	if (keep) {
		g->embedded = x;
		x = g->checkpoints[0] = leaf(s, x);
	}
	for (size_t i = 0; i < n; i++) {
		struct spar_scope *inner = spar_scope_open(s, grad && !keep);
		struct spar_tensor *y = spar_scope_close(inner, spar_graph_layer(&g->batch, inner, i, x));
		if (!keep)
			spar_tensor_drop(x);
		x = keep ? g->checkpoints[i + 1] = leaf(s, y) : y;
	}
	return spar_graph_norm(g, s, &g->outside.part[SPAR_PART_NORM], x, SPAR_TENSOR_F32);
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
	size_t n = ((size_t)1 << 23) / g->vocab; /* 32 MiB of logits, of which there are up to four kinds at once */
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
	spar_graph_forget(g);
	int rc = check_ids(g, p, err);
	if (rc < 0 || p->n_targets == 0)
		return rc;
	bool grad = mode == SPAR_GRAPH_TRAIN && !g->frozen;
	struct spar_scope *s = spar_scope_new(g->device, grad);
	struct batch *b = &g->batch;
	*b = (struct batch){.g = g,
			    .adapt = g->lora && mode != SPAR_GRAPH_REFERENCE,
			    .drop = g->lora && grad && g->lora->dropout > 0,
			    .draw = g->draw};
	g->draw.forwards += b->drop;
	rotary_tables(b, s, p);
	plan(b, s, p);
	b->target_rows = spar_tensor_from_i32(s, p->target_node, p->n_targets);
	struct spar_tensor *hidden = forward_trunk(g, s, p, grad);
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

/* The layers run again, from the last one, each with its own backward. */
static void backward_checkpoints(struct spar_graph *g, struct spar_scope *s)
{
	size_t n = g->model->config.n_layers;
	struct spar_tensor *d = spar_tensor_grad(s, g->checkpoints[n]);
	for (size_t i = n; i-- > 0;) {
		struct spar_scope *inner = spar_scope_open(s, true);
		struct spar_tensor *x = g->checkpoints[i];
		spar_tensor_backward(inner, spar_graph_layer(&g->batch, inner, i, x), d);
		struct spar_tensor *dx = spar_scope_close(inner, spar_tensor_grad(inner, x));
		spar_tensor_drop(d);
		spar_tensor_drop(x);
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
		struct spar_tensor *hidden = g->hidden;
		if (n < g->n_targets)
			hidden = spar_tensor_rows(s, hidden, spar_tensor_from_i32(s, active, n));
		struct spar_tensor *dhidden = backward_head(g, s, spar_tensor_detach(s, hidden), &pull);
		spar_tensor_backward(s, hidden, dhidden);
		if (g->checkpoints)
			backward_checkpoints(g, s);
	}
	free(active);
	free(pull.ids);
	free(pull.logprobs);
	free(pull.entropies);
	int rc = spar_scope_status(s, err);
	spar_graph_forget(g);
	return rc;
}
