/* head.c - from the last layer's output to log-probabilities and back, a chunk of targets at a time: logits exist only for
 * a chunk. With the engine they are its logits, and their sums are made as the sampler makes them. See model/graph.h */
#include "model/graph/parts.h"
#include "base/half.h"
#include "model/sample.h"
#include <math.h>
#include <stdlib.h>

static size_t chunk_size(const struct spar_graph *g)
{
	size_t n = ((size_t)1 << 24) / g->vocab; /* 64 MiB of logits; by tensors there are up to four kinds at once */
	return n < 32 ? 32 : n > 4096 ? 4096 : n;
}

/* The rows of the head whose logits there are. */
static struct spar_tensor *head(const struct spar_graph *g, struct spar_scope *s)
{
	return spar_tensor_slice(s, g->outside.part[SPAR_PART_HEAD].w, 0, g->vocab);
}

static struct spar_tensor *normed(const struct spar_graph *g, struct spar_scope *s, struct spar_tensor *x)
{
	return spar_graph_norm(g, s, &g->outside.part[SPAR_PART_NORM], x, SPAR_TENSOR_F32);
}

static float *from(float *v, size_t at)
{
	return v ? v + at : NULL;
}

/* ---- by tensors ---- */

/* hidden / temperature (n, hidden size) -> logits of the tempered distribution (n, vocab): a cap is tempered like them. */
static struct spar_tensor *logits(const struct spar_graph *g, struct spar_scope *s, struct spar_tensor *hidden,
				  double temperature)
{
	double cap = g->model->config.logit_cap / temperature;
	struct spar_tensor *raw = spar_tensor_linear(s, hidden, head(g, s), NULL, false);
	return cap > 0 ? spar_tensor_cap(s, raw, cap) : raw;
}

struct spar_tensor *spar_graph_logits(const struct spar_graph *g, struct spar_scope *s, struct spar_tensor *x)
{
	return logits(g, s, normed(g, s, x), 1);
}

static void chunk_by_tensors(const struct spar_graph *g, struct spar_scope *s, struct spar_tensor *x,
			     const int32_t *ids, double temperature, float *logprobs, float *entropies, float *best)
{
	size_t n = spar_tensor_size(x, 0);
	struct spar_tensor *rows = spar_tensor_scale(s, normed(g, s, x), 1 / temperature);
	struct spar_tensor *raw = logits(g, s, rows, temperature), *all = spar_tensor_log_softmax(s, raw);
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

/* dL/dlogits = a (onehot - p) - b p (log p + H), with p the softmax, H its entropy, a = dL/dlogprob and b = dL/dentropy.
 * Times the slope of the cap, if there is one. Of tempered logits; `rows` are hidden / temperature. */
static struct spar_tensor *gradient_by_tensors(const struct spar_graph *g, struct spar_scope *s,
					       struct spar_tensor *rows, const struct pull *pull)
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
	return d;
}

/* ---- by the engine ---- */

/* Scratch of a thread: the exponentials of a row, and their sums. */
static float *new_scratch(const struct spar_graph *g)
{
	return spar_malloc(2 * g->vocab * sizeof(float));
}

/* sum of p log p, for p = exponentials / sum. */
static double negative_entropy(const float *logits, size_t n, double temperature, const float *exponentials, double sum,
			       float max)
{
	double total = 0;
	for (size_t first = 0, end; first < n; first = end) {
		float part = 0;
		end = n - first < SPAR_EXPONENTIALS_CHUNK ? n : first + SPAR_EXPONENTIALS_CHUNK;
#pragma omp simd reduction(+ : part)
		for (size_t i = first; i < end; i++)
			part += exponentials[i] * (logits[i] - max);
		total += part;
	}
	return total / temperature / sum - log(sum);
}

static void chunk_by_engine(const struct spar_graph *g, struct spar_engine *e, const float *x, size_t n,
			    const int32_t *ids, double temperature, float *logprobs, float *entropies, float *best)
{
	size_t vocab = g->model->config.vocab_size;
	float *all = spar_malloc(n * vocab * sizeof *all);
	spar_engine_head(e, x, n, all);
#pragma omp parallel num_threads(spar_tensor_threads())
	{
		float *scratch = new_scratch(g), max;
#pragma omp for
		for (size_t i = 0; i < n; i++) {
			const float *row = all + i * vocab;
			double sum = spar_exponentials(row, g->vocab, temperature, scratch, scratch + g->vocab, &max);
			logprobs[i] = (float)spar_logprob_of(row[ids[i]], max, sum, temperature);
			if (best)
				best[i] = (float)-log(sum);
			if (entropies)
				entropies[i] = (float)-negative_entropy(row, g->vocab, temperature, scratch, sum, max);
		}
		free(scratch);
	}
	free(all);
}

/* One row of what gradient_by_tensors says, but of the logits themselves: divided by the temperature. In place. */
static void row_gradient(const struct spar_graph *g, float *row, int32_t id, double a, double b, float *scratch)
{
	size_t n = g->vocab;
	float max, cap = (float)g->model->config.logit_cap;
	double sum = spar_exponentials(row, n, g->temperature, scratch, scratch + n, &max);
	double minus_h = b != 0 ? negative_entropy(row, n, g->temperature, scratch, sum, max) : 0;
	/* -p (a + b (log p + H)), log p = (row - max) / temperature - log sum */
	float slope = (float)(-b / g->temperature),
	      level = (float)(-a - b * (-(double)max / g->temperature - log(sum) - minus_h)),
	      by = (float)(1 / (sum * g->temperature));
	float own = row[id], at_id = scratch[id] * by * (level + slope * own) + (float)(a / g->temperature);
#pragma omp simd
	for (size_t i = 0; i < n; i++) {
		float bend = cap > 0 ? 1 - row[i] / cap * (row[i] / cap) : 1;
		row[i] = scratch[i] * by * (level + slope * row[i]) * bend;
	}
	row[id] = at_id * (cap > 0 ? 1 - own / cap * (own / cap) : 1);
}

/* dL/dlogits (n, vocab) in the type of the products. */
static struct spar_tensor *gradient_by_engine(const struct spar_graph *g, struct spar_scope *s, struct spar_engine *e,
					      const float *x, size_t n, const struct pull *pull)
{
	size_t vocab = g->model->config.vocab_size;
	float *all = spar_malloc(n * vocab * sizeof *all);
	struct spar_tensor *d = spar_tensor_unset(s, g->type, 2, (size_t[]){n, g->vocab});
	struct spar_trace_slot to = {spar_tensor_data(d), g->vocab, g->type == SPAR_TENSOR_BF16 ? SPAR_BF16 : SPAR_F32};
	spar_engine_head(e, x, n, all);
#pragma omp parallel num_threads(spar_tensor_threads())
	{
		float *scratch = new_scratch(g);
#pragma omp for
		for (size_t i = 0; i < n; i++) {
			row_gradient(g, all + i * vocab, pull->ids[i], (double)pull->logprobs[i],
				     pull->entropies ? (double)pull->entropies[i] : 0, scratch);
			if (to.data)
				spar_trace_put(&to, i, 0, all + i * vocab, g->vocab);
		}
		free(scratch);
	}
	free(all);
	return d;
}

/* ---- both ---- */

void spar_graph_head(const struct spar_graph *g, struct spar_scope *outer, struct spar_engine *e, struct spar_tensor *x,
		     const int32_t *ids, double temperature, float *logprobs, float *entropies, float *best)
{
	const float *data = e ? spar_tensor_data(x) : NULL;
	size_t n_rows = spar_tensor_size(x, 0), width = g->model->config.hidden_size;
	for (size_t at = 0, n, size = chunk_size(g); at < n_rows; at += n) {
		n = n_rows - at < size ? n_rows - at : size;
		if (data) {
			chunk_by_engine(g, e, data + at * width, n, ids + at, temperature, logprobs + at,
					from(entropies, at), from(best, at));
			continue;
		}
		struct spar_scope *s = spar_scope_open(outer, false);
		chunk_by_tensors(g, s, spar_tensor_slice(s, x, at, n), ids + at, temperature, logprobs + at,
				 from(entropies, at), from(best, at));
		spar_scope_close(s, NULL);
	}
}

/* A chunk's dL/dhidden into `dhidden`, the head's gradient to where it is gathered. */
static void backward_chunk(const struct spar_graph *g, struct spar_scope *s, struct spar_engine *e,
			   struct spar_tensor *x, struct spar_tensor *hidden, struct spar_tensor *w,
			   const struct pull *pull, struct spar_tensor *dhidden)
{
	struct spar_tensor *d;
	if (e) {
		d = gradient_by_engine(g, s, e, spar_tensor_data(x), spar_tensor_size(x, 0), pull);
		hidden = spar_tensor_to(s, hidden, g->type);
	} else {
		hidden = spar_tensor_scale(s, hidden, 1 / g->temperature);
		d = gradient_by_tensors(g, s, hidden, pull);
	}
	spar_tensor_assign(s, dhidden, spar_tensor_matmul(s, d, w));
	if (!g->lora)
		spar_tensor_add_product(s, spar_tensor_grad(s, g->outside.part[SPAR_PART_HEAD].w), d, hidden);
}

void spar_graph_head_backward(const struct spar_graph *g, struct spar_scope *s, struct spar_engine *e,
			      struct spar_tensor *x, const struct pull *pull)
{
	size_t n_rows = spar_tensor_size(x, 0), shape[] = {n_rows, g->model->config.hidden_size};
	struct spar_tensor *hidden = normed(g, s, x), *dhidden = spar_tensor_zeros(s, SPAR_TENSOR_F32, 2, shape);
	struct spar_scope *outer = spar_scope_open(s, false);
	struct spar_tensor *w = e ? spar_tensor_to(outer, head(g, outer), g->type) : head(g, outer);
	for (size_t at = 0, n, size = chunk_size(g); at < n_rows; at += n) {
		n = n_rows - at < size ? n_rows - at : size;
		struct spar_scope *inner = spar_scope_open(outer, false);
		struct pull part = {pull->ids + at, pull->logprobs + at, from(pull->entropies, at)};
		backward_chunk(g, inner, e, spar_tensor_slice(inner, x, at, n), spar_tensor_slice(inner, hidden, at, n),
			       w, &part, spar_tensor_slice(inner, dhidden, at, n));
		spar_scope_close(inner, NULL);
	}
	spar_scope_close(outer, NULL);
	spar_tensor_backward(s, hidden, e ? dhidden : spar_tensor_scale(s, dhidden, 1 / g->temperature));
}
