#include "model/engine.h"
#include "model/engine/forward.h"
#include "model/sample.h"
#include <omp.h>
#include <stdlib.h>
#include <unistd.h>

#define HEAD_ROWS 16 /* rows of logits that spar_engine_logprobs holds at a time */
#define NONE SIZE_MAX

struct spar_seq {
	struct spar_engine *engine;
	int32_t *ids;
	size_t n, room;
	size_t n_run; /* tokens that had their turn in a run; the others are pending */
	struct spar_cursor cursor;
	/* Of the present run: */
	size_t last_plan; /* the row of the last token; NONE: it was cached */
	size_t head;      /* which row of logits is this sequence's: equal sequences share one */
};

/* A row of a run. Its node is looked up when all sequences have entered the tree: till then nodes may be cut. */
struct plan {
	const struct spar_seq *seq;
	const struct spar_node *node;
	size_t pos;
	bool fresh;
	size_t head;          /* the row of logits it gives, or NONE */
	size_t node_of_trace; /* attention.h */
};

struct spar_engine {
	struct spar_config config;
	struct spar_weights weights;
	struct spar_forward forward;
	struct spar_tree tree;
	size_t vocab_limit; /* logits at or above are -inf */
	int threads;
	struct plan *plans; /* (n_plans) of the present run */
	size_t n_plans, plans_room;
	float *heads; /* (n_heads, forward.hidden): what becomes logits */
	size_t n_heads, heads_room;
	uint64_t tokens_computed, tokens_reused, runs;
};

/* ---- life ---- */

static size_t default_cache_size(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	size_t quarter = pages > 0 && page > 0 ? (size_t)pages * (size_t)page / 4 : SIZE_MAX, most = (size_t)4 << 30;
	return quarter < most ? quarter : most;
}

static int start(struct spar_engine *e, const struct spar_model *m, const struct spar_engine_opt *opt,
		 struct spar_err *err)
{
	const char *dtype = spar_dtype_name(opt->dtype);
	if (opt->dtype != SPAR_F32 && opt->dtype != SPAR_BF16)
		return spar_fail(err, SPAR_USAGE, "the engine computes in F32 or BF16, not %s", dtype);
	const struct spar_kernel *kernel = spar_kernel_find(opt->kernel, opt->dtype);
	if (!kernel)
		return spar_fail(err, SPAR_USAGE, "kernel \"%s\" is not known, or not for this processor or %s",
				 opt->kernel, dtype);
	e->config = m->config;
	e->vocab_limit = opt->vocab_limit ? opt->vocab_limit : m->config.vocab_size;
	e->threads = opt->threads > 0 ? opt->threads : omp_get_max_threads();
	if (spar_weights_load(&e->weights, m, opt->dtype, e->threads, err) < 0 ||
	    spar_forward_init(&e->forward, &e->config, &e->weights, kernel, e->threads, err) < 0)
		return -(int)err->code;
	size_t block_size = spar_attention_block_size(&e->forward.attention);
	spar_tree_init(&e->tree, block_size,
		       (opt->kv_cache_size ? opt->kv_cache_size : default_cache_size()) / block_size, e->threads);
	return 0;
}

int spar_engine_new(struct spar_engine **out, const struct spar_model *m, const struct spar_engine_opt *opt,
		    struct spar_err *err)
{
	struct spar_err local = {0};
	struct spar_engine *e = *out = spar_calloc(1, sizeof *e);
	spar_tree_init(&e->tree, 0, 0, 1);
	int rc = start(e, m, opt, err ? err : &local);
	if (rc < 0) {
		spar_engine_free(e);
		*out = NULL;
	}
	return rc;
}

void spar_engine_free(struct spar_engine *e)
{
	if (!e)
		return;
	spar_tree_release(&e->tree);
	spar_forward_release(&e->forward);
	spar_weights_release(&e->weights);
	free(e->plans);
	free(e->heads);
	free(e);
}

int spar_engine_reload(struct spar_engine *e, const struct spar_model *m, struct spar_err *err)
{
	const struct spar_config *a = &e->config, *b = &m->config;
	if (strcmp(a->model_type, b->model_type) != 0 || a->n_layers != b->n_layers ||
	    a->hidden_size != b->hidden_size || a->intermediate_size != b->intermediate_size ||
	    a->vocab_size != b->vocab_size || a->n_heads != b->n_heads || a->n_kv_heads != b->n_kv_heads ||
	    a->head_dim != b->head_dim || a->tie_word_embeddings != b->tie_word_embeddings)
		return spar_fail(err, SPAR_INPUT, "%s: the new weights have another shape", m->dir);
	if (e->tree.cursors.next != &e->tree.cursors)
		return spar_fail(err, SPAR_FAIL, "%s: weights cannot change while sequences are alive", m->dir);
	spar_tree_clear(&e->tree);
	return spar_weights_reload(&e->weights, m, err);
}

int spar_engine_refill(struct spar_engine *e, spar_model_make *make, const void *from, struct spar_err *err)
{
	spar_tree_clear(&e->tree);
	return spar_weights_refill(&e->weights, &e->config, make, from, err);
}

/* ---- sequences ---- */

struct spar_seq *spar_seq_new(struct spar_engine *e)
{
	struct spar_seq *s = spar_calloc(1, sizeof *s);
	s->engine = e;
	spar_cursor_open(&e->tree, &s->cursor);
	return s;
}

void spar_seq_free(struct spar_seq *s)
{
	if (!s)
		return;
	spar_cursor_close(&s->engine->tree, &s->cursor);
	free(s->ids);
	free(s);
}

void spar_seq_append(struct spar_seq *s, const int32_t *ids, size_t n)
{
	if (s->n + n > s->room) {
		s->room = s->n + n + (s->n + n) / 2 + 16;
		s->ids = spar_realloc(s->ids, s->room * sizeof *s->ids);
	}
	memcpy(s->ids + s->n, ids, n * sizeof *ids);
	s->n += n;
}

size_t spar_seq_len(const struct spar_seq *s)
{
	return s->n;
}

/* ---- a run ---- */

static int check(const struct spar_engine *e, const struct spar_seq *s, struct spar_err *err)
{
	if (s->n == s->n_run)
		return spar_fail(err, SPAR_FAIL, "a sequence of %zu tokens has nothing to compute", s->n);
	if (s->n > e->config.max_position)
		return spar_fail(err, SPAR_INPUT, "%zu tokens do not fit the model's context of %zu", s->n,
				 e->config.max_position);
	for (size_t i = s->n_run; i < s->n; i++)
		if (s->ids[i] < 0 || (size_t)s->ids[i] >= e->config.vocab_size)
			return spar_fail(err, SPAR_INPUT, "token id %ld is outside the vocabulary of %zu",
					 (long)s->ids[i], e->config.vocab_size);
	return 0;
}

static void plan(struct spar_engine *e, const struct spar_seq *s, size_t pos, bool fresh)
{
	if (e->n_plans == e->plans_room) {
		e->plans_room = e->plans_room ? 2 * e->plans_room : SPAR_FORWARD_ROWS;
		e->plans = spar_realloc(e->plans, e->plans_room * sizeof *e->plans);
	}
	e->plans[e->n_plans++] = (struct plan){.seq = s, .pos = pos, .fresh = fresh, .head = NONE};
}

/* Give the pending tokens their places in the tree, and rows to those that are new to it. */
static int enter(struct spar_engine *e, struct spar_seq *s, struct spar_err *err)
{
	struct spar_cursor *c = &s->cursor;
	e->tokens_reused += spar_cursor_follow(&e->tree, c, s->ids + c->n, s->n - c->n);
	size_t first = c->n;
	if (first < s->n)
		spar_cursor_grow(&e->tree, c, s->ids + first, s->n - first);
	for (size_t pos = first; pos < c->n; pos++)
		plan(e, s, pos, true);
	s->last_plan = first < c->n ? e->n_plans - 1 : NONE;
	if (c->n < s->n)
		return spar_fail(err, SPAR_FAIL, "a cache of %zu bytes cannot hold the live sequences",
				 e->tree.block_size * e->tree.max_blocks);
	return 0;
}

/* Decide which row of logits is seqs[i]'s: that of an equal sequence before it, or a new one. */
static void ask_for_head(struct spar_engine *e, struct spar_seq *const *seqs, size_t i)
{
	struct spar_seq *s = seqs[i];
	for (size_t j = 0; s->cursor.node->n_cursors > 1 && j < i; j++)
		if (seqs[j]->cursor.node == s->cursor.node && seqs[j]->cursor.n == s->cursor.n) {
			s->head = seqs[j]->head;
			return;
		}
	if (s->last_plan == NONE) {
		plan(e, s, s->n - 1, false);
		s->last_plan = e->n_plans - 1;
	}
	s->head = e->plans[s->last_plan].head = e->n_heads++;
}

/* In the order of the tree: what comes before first, and paths that begin alike side by side. */
static int by_path(const void *one, const void *other)
{
	const struct plan *a = one, *b = other;
	const struct spar_node *x = a->node, *y = b->node;
	if (x == y && a->pos == b->pos)
		return b->fresh - a->fresh;
	if (x == y)
		return a->pos > b->pos ? 1 : -1;
	const struct spar_node *below_x = NULL, *below_y = NULL;
	while (x != y)
		if (x->start > y->start || (x->start == y->start && x->parent)) {
			below_x = x;
			x = x->parent;
		} else {
			below_y = y;
			y = y->parent;
		}
	if (!below_x || !below_y)
		return below_x ? 1 : -1;
	return (below_x->ids[0] > below_y->ids[0]) - (below_x->ids[0] < below_y->ids[0]);
}

static void sort_plans(struct spar_engine *e)
{
	for (size_t i = 0; i < e->n_plans; i++)
		e->plans[i].node = spar_node_of(e->plans[i].seq->cursor.node, e->plans[i].pos);
	qsort(e->plans, e->n_plans, sizeof *e->plans, by_path);
}

/* Compute all planned rows and gather those that are to become logits. */
static void compute(struct spar_engine *e, const struct spar_trace *trace)
{
	size_t hidden = e->forward.hidden;
	struct spar_row rows[SPAR_FORWARD_ROWS];
	if (e->n_heads > e->heads_room) {
		e->heads_room = 2 * e->n_heads;
		e->heads = spar_realloc(e->heads, e->heads_room * hidden * sizeof *e->heads);
	}
	sort_plans(e);
	for (size_t first = 0; first < e->n_plans; first += SPAR_FORWARD_ROWS) {
		const struct plan *plans = e->plans + first;
		size_t n = e->n_plans - first < SPAR_FORWARD_ROWS ? e->n_plans - first : SPAR_FORWARD_ROWS;
		for (size_t r = 0; r < n; r++)
			rows[r] = (struct spar_row){
			    .node = plans[r].node,
			    .pos = plans[r].pos,
			    .id = plans[r].seq->ids[plans[r].pos],
			    .fresh = plans[r].fresh,
			    .node_of_trace = plans[r].node_of_trace,
			};
		spar_forward_traced(&e->forward, rows, n, trace);
		for (size_t r = 0; r < n; r++)
			if (plans[r].head != NONE)
				memcpy(e->heads + plans[r].head * hidden, e->forward.x + r * hidden,
				       hidden * sizeof *e->heads);
	}
	e->tokens_computed += e->n_plans;
	e->runs++;
}

int spar_engine_run(struct spar_engine *e, struct spar_seq *const *seqs, size_t n, float *logits, struct spar_err *err)
{
	size_t vocab = e->config.vocab_size;
	int rc = 0;
	for (size_t i = 0; i < n; i++)
		if ((rc = check(e, seqs[i], err)) < 0)
			return rc;
	e->n_plans = e->n_heads = 0;
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = enter(e, seqs[i], err);
	for (size_t i = 0; i < n && rc == 0; i++)
		ask_for_head(e, seqs, i);
	compute(e, NULL); /* after a failure too: what has entered the tree must be true */
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < e->n_heads; i += SPAR_FORWARD_ROWS)
		spar_forward_head(&e->forward, e->heads + i * e->forward.hidden,
				  e->n_heads - i < SPAR_FORWARD_ROWS ? e->n_heads - i : SPAR_FORWARD_ROWS,
				  e->vocab_limit, logits + i * vocab);
	for (size_t i = n; i-- > 0;) { /* head <= i, so no row is overwritten before it was copied */
		if (seqs[i]->head != i)
			memcpy(logits + i * vocab, logits + seqs[i]->head * vocab, vocab * sizeof *logits);
		seqs[i]->n_run = seqs[i]->n;
	}
	return 0;
}

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
	for (size_t first = 0; first < e->n_heads; first += HEAD_ROWS) {
		size_t n = e->n_heads - first < HEAD_ROWS ? e->n_heads - first : HEAD_ROWS;
		spar_forward_head(&e->forward, e->heads + first * e->forward.hidden, n, e->vocab_limit, logits);
#pragma omp parallel for num_threads(e->threads)
		for (size_t r = 0; r < n; r++)
			out[first + r] = (float)spar_logprob(logits + r * vocab, vocab, temperature, targets[first + r],
							     scratch + r * 2 * vocab);
	}
	free(logits);
	return 0;
}

int spar_engine_logprobs(struct spar_engine *e, const int32_t *ids, size_t n, double temperature, float *out,
			 struct spar_err *err)
{
	if (n < 2)
		return 0;
	struct spar_seq *s = spar_seq_new(e);
	spar_seq_append(s, ids, n);
	int rc = check(e, s, err);
	if (rc == 0) {
		s->n--; /* nothing follows the last token */
		e->n_plans = 0;
		rc = enter(e, s, err);
		size_t n_cached = s->cursor.n - e->n_plans;
		for (size_t pos = 0; pos < n_cached && rc == 0; pos++)
			plan(e, s, pos, false);
		for (size_t i = 0; i < e->n_plans; i++)
			e->plans[i].head = e->plans[i].pos;
		e->n_heads = s->cursor.n;
		compute(e, NULL);
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
	int rc = check(e, s, err);
	if (rc == 0)
		rc = enter(e, s, err);
	for (size_t pos = segment->depth, end = n - (e->n_plans - first); rc == 0 && pos < end; pos++)
		plan(e, s, pos, false);
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
		compute(e, t);
	for (size_t i = 0; i < p->n_segments; i++)
		spar_seq_free(seqs[i]);
	free(seqs);
	spar_tree_clear(&e->tree);
	return rc;
}

void spar_engine_head(struct spar_engine *e, const float *x, size_t n, float *logits)
{
	size_t width = e->config.hidden_size, ld = e->forward.hidden, vocab = e->config.vocab_size;
	float *rows = spar_calloc(SPAR_FORWARD_ROWS * ld, sizeof *rows);
	for (size_t first = 0, some; first < n; first += some) {
		some = n - first < SPAR_FORWARD_ROWS ? n - first : SPAR_FORWARD_ROWS;
		for (size_t r = 0; r < some; r++)
			memcpy(rows + r * ld, x + (first + r) * width, width * sizeof *rows);
		spar_forward_head(&e->forward, rows, some, e->vocab_limit, logits + first * vocab);
	}
	free(rows);
}

void spar_engine_stats(const struct spar_engine *e, struct spar_engine_stats *out)
{
	*out = (struct spar_engine_stats){
	    .tokens_computed = e->tokens_computed,
	    .tokens_reused = e->tokens_reused,
	    .runs = e->runs,
	    .kv_bytes = e->tree.n_blocks * e->tree.block_size,
	    .weight_bytes = e->weights.size_bytes,
	    .kernel = e->forward.kernel->name,
	};
}
