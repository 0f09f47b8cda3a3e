#include "model/engine/engine_parts.h"
#include "model/sample.h"
#include <stdlib.h>

#define HEAD_ROWS 16 /* rows of logits that spar_engine_logprobs holds at a time */

/* ---- teacher forcing ---- */

/* out[i]: of targets[i] given heads row i. */
static int head_logprobs(struct spar_engine *e, const int32_t *targets, double temperature, float *out,
			 struct spar_err *err)
{
	size_t vocab = e->config.vocab_size;
	float *logits = malloc(3 * HEAD_ROWS * vocab * sizeof *logits);
	if (!logits)
		return spar_fail(err, SPAR_FAIL, "no memory for %d rows of logits", HEAD_ROWS);
	float *scratch = logits + HEAD_ROWS * vocab;
	int rc = 0;
	for (size_t first = 0; rc == 0 && first < e->n_heads; first += HEAD_ROWS) {
		size_t n = e->n_heads - first < HEAD_ROWS ? e->n_heads - first : HEAD_ROWS;
		if ((rc = spar_engine_logits(e, e->heads + first * e->width, n, logits, err)) < 0)
			break;
#pragma omp parallel for num_threads(e->threads)
		for (size_t r = 0; r < n; r++)
			out[first + r] = (float)spar_logprob(logits + r * vocab, vocab, temperature, targets[first + r],
							     scratch + r * 2 * vocab);
	}
	free(logits);
	return rc;
}

int spar_engine_logprobs(struct spar_engine *e, const int32_t *ids, size_t n, double temperature, float *out,
			 struct spar_err *err)
{
	if (n < 2)
		return 0;
	struct spar_seq *s = spar_seq_new(e);
	spar_seq_append(s, ids, n);
	int rc = spar_engine_check(e, s, err);
	if (rc == 0) {
		s->n--; /* nothing follows the last token */
		e->n_plans = 0;
		rc = spar_engine_enter(e, s, err);
		size_t n_cached = s->cursor.n - e->n_plans;
		for (size_t pos = 0; pos < n_cached && rc == 0; pos++)
			spar_engine_plan(e, s, pos, false);
		for (size_t i = 0; i < e->n_plans; i++)
			e->plans[i].head = e->plans[i].pos;
		e->n_heads = s->cursor.n;
		rc = spar_engine_compute(e, NULL, err);
	}
	if (rc == 0)
		rc = head_logprobs(e, ids + 1, temperature, out, err);
	spar_seq_free(s);
	return rc;
}

/* ---- traces ---- */

/* A sequence for each segment: its ids are the path to the segment's end. What the one before it has entered already is
 * computed again, but not stored. */
static int plan_segment(struct spar_engine *e, const struct spar_pack *p, const struct spar_segment *segment,
			struct spar_seq *s, struct spar_err *err)
{
	size_t n = segment->depth + segment->n, first = e->n_plans;
	int32_t *path = spar_malloc(n * sizeof *path);
	for (const struct spar_segment *at = segment; at; at = at->parent < 0 ? NULL : &p->segments[at->parent])
		memcpy(path + at->depth, p->tokens + at->begin, at->n * sizeof *path);
	spar_seq_append(s, path, n);
	free(path);
	int rc = spar_engine_check(e, s, err);
	if (rc == 0)
		rc = spar_engine_enter(e, s, err);
	for (size_t pos = segment->depth, end = n - (e->n_plans - first); rc == 0 && pos < end; pos++)
		spar_engine_plan(e, s, pos, false);
	for (size_t i = first; i < e->n_plans; i++)
		e->plans[i].node_of_trace = segment->begin + e->plans[i].pos - segment->depth;
	return rc;
}

int spar_engine_trace(struct spar_engine *e, const struct spar_pack *p, const struct spar_trace *t,
		      struct spar_err *err)
{
	struct spar_seq **seqs = spar_calloc(p->n_segments + 1, sizeof(struct spar_seq *));
	int rc = 0;
	spar_tree_clear(&e->tree);
	e->n_plans = e->n_heads = 0;
	for (size_t i = 0; rc == 0 && i < p->n_segments; i++)
		rc = plan_segment(e, p, &p->segments[i], seqs[i] = spar_seq_new(e), err);
	if (rc == 0)
		rc = spar_engine_compute(e, t, err);
	for (size_t i = 0; i < p->n_segments; i++)
		spar_seq_free(seqs[i]);
	free(seqs);
	spar_tree_clear(&e->tree);
	return rc;
}

void spar_engine_head(struct spar_engine *e, const float *x, size_t n, float *logits)
{
	size_t width = e->config.hidden_size;
	float *heads = spar_calloc(n * e->width, sizeof *heads);
	for (size_t r = 0; r < n; r++)
		memcpy(heads + r * e->width, x + r * width, width * sizeof *heads);
	spar_engine_logits(e, heads, n, logits, NULL);
	free(heads);
}
