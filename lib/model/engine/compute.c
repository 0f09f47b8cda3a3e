#include "model/engine/engine_parts.h"
#include <stdlib.h>

int spar_engine_check(const struct spar_engine *e, const struct spar_seq *s, struct spar_err *err)
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

void spar_engine_plan(struct spar_engine *e, const struct spar_seq *s, size_t pos, bool fresh)
{
	if (e->n_plans == e->plans_room) {
		e->plans_room = e->plans_room ? 2 * e->plans_room : SPAR_FORWARD_ROWS;
		e->plans = spar_realloc(e->plans, e->plans_room * sizeof *e->plans);
	}
	e->plans[e->n_plans++] = (struct spar_plan){.seq = s, .pos = pos, .fresh = fresh, .head = SPAR_NONE};
}

int spar_engine_enter(struct spar_engine *e, struct spar_seq *s, struct spar_err *err)
{
	struct spar_cursor *c = &s->cursor;
	e->tokens_reused += spar_cursor_follow(&e->tree, c, s->ids + c->n, s->n - c->n);
	size_t first = c->n;
	if (first < s->n)
		spar_cursor_grow(&e->tree, c, s->ids + first, s->n - first);
	for (size_t pos = first; pos < c->n; pos++)
		spar_engine_plan(e, s, pos, true);
	s->last_plan = first < c->n ? e->n_plans - 1 : SPAR_NONE;
	if (c->n < s->n)
		return spar_fail(err, SPAR_FAIL, "a cache of %zu bytes cannot hold the live sequences",
				 e->kv_block_size * e->tree.max_blocks);
	return 0;
}

/* In the order of the tree: what comes before first, and paths that begin alike side by side. */
static int by_path(const void *one, const void *other)
{
	const struct spar_plan *a = one, *b = other;
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

/* x (n, width): the last layer's output of some rows. */
static int compute_rows(struct spar_engine *e, const struct spar_row *rows, size_t n, const struct spar_trace *trace,
			const float **x, struct spar_err *err)
{
	if (e->device) {
		*x = e->device_x = spar_realloc(e->device_x, n * e->width * sizeof **x);
		return e->device->run(e->device, rows, n, e->device_x, err);
	}
	spar_forward_run(&e->forward, rows, n, trace);
	*x = e->forward.x;
	return 0;
}

int spar_engine_compute(struct spar_engine *e, const struct spar_trace *trace, struct spar_err *err)
{
	struct spar_row rows[SPAR_FORWARD_ROWS];
	int rc = 0;
	if (e->n_heads > e->heads_room) {
		e->heads_room = 2 * e->n_heads;
		e->heads = spar_realloc(e->heads, e->heads_room * e->width * sizeof *e->heads);
	}
	sort_plans(e);
	for (size_t first = 0; rc == 0 && first < e->n_plans; first += SPAR_FORWARD_ROWS) {
		const struct spar_plan *plans = e->plans + first;
		size_t n = e->n_plans - first < SPAR_FORWARD_ROWS ? e->n_plans - first : SPAR_FORWARD_ROWS;
		const float *x = NULL;
		for (size_t r = 0; r < n; r++)
			rows[r] = (struct spar_row){
			    .node = plans[r].node,
			    .pos = plans[r].pos,
			    .id = plans[r].seq->ids[plans[r].pos],
			    .fresh = plans[r].fresh,
			    .node_of_trace = plans[r].node_of_trace,
			};
		rc = compute_rows(e, rows, n, trace, &x, err);
		for (size_t r = 0; rc == 0 && r < n; r++)
			if (plans[r].head != SPAR_NONE)
				memcpy(e->heads + plans[r].head * e->width, x + r * e->width,
				       e->width * sizeof *e->heads);
	}
	e->tokens_computed += e->n_plans;
	e->runs++;
	return rc;
}

int spar_engine_logits(struct spar_engine *e, const float *heads, size_t n, float *logits, struct spar_err *err)
{
	int rc = 0;
	for (size_t first = 0, some; rc == 0 && first < n; first += some) {
		const float *x = heads + first * e->width;
		float *out = logits + first * e->config.vocab_size;
		some = n - first < SPAR_FORWARD_ROWS ? n - first : SPAR_FORWARD_ROWS;
		if (e->device)
			rc = e->device->head(e->device, x, some, out, err);
		else
			spar_forward_head(&e->forward, x, some, e->vocab_limit, out);
	}
	return rc;
}
