/* queue.c - see queue.h */
#include "rl/queue.h"
#include "rl/play.h"
#include <inttypes.h>
#include <stdlib.h>

#define FAILURES_SHOWN 10

/* A task under way, or (size 0) a record that only waits for its place in the order. */
struct spar_queued {
	struct spar_queued *next;
	struct spar_task task;
	struct spar_str line; /* the record as it came */
	struct spar_str into; /* what was sampled so far, with --into */
	int64_t size, n_taken;
};

void spar_queue_init(struct spar_queue *q)
{
	q->last = &q->first;
	spar_str_init(&q->how);
	spar_str_init(&q->out);
}

static struct spar_queued *queued_new(const struct spar_record *rec, const struct spar_task *task, int64_t size)
{
	struct spar_queued *g = spar_calloc(1, sizeof *g);
	*g = (struct spar_queued){.task = *task, .line = SPAR_STR_INIT, .into = SPAR_STR_INIT, .size = size};
	spar_str_add(&g->line, rec->text.data, rec->text.len);
	return g;
}

static void queued_free(struct spar_queued *g)
{
	spar_task_release(&g->task);
	spar_str_release(&g->line);
	spar_str_release(&g->into);
	free(g);
}

static void drop_first(struct spar_queue *q)
{
	struct spar_queued *g = q->first;
	q->first = g->next;
	if (!q->first)
		q->last = &q->first;
	queued_free(g);
}

void spar_queue_release(struct spar_queue *q)
{
	while (q->first)
		drop_first(q);
	spar_str_release(&q->how);
	spar_str_release(&q->out);
}

/* ---- in ---- */

static void put_last(struct spar_queue *q, struct spar_queued *g)
{
	*q->last = g;
	q->last = &g->next;
}

int spar_queue_add(struct spar_queue *q, const struct spar_record *rec, struct spar_task *task, int64_t group_size)
{
	struct spar_queued *g = queued_new(rec, task, group_size);
	int rc = 0;
	for (int64_t i = 0; rc == 0 && i < group_size; i++)
		rc = spar_sampler_add(q->sampler, &g->task, i, &q->f->err);
	if (rc == 0)
		put_last(q, g);
	else
		queued_free(g); /* refused at its first sample, so none was added */
	return rc;
}

int spar_queue_pass(struct spar_queue *q, const struct spar_record *rec)
{
	const struct spar_task none = {.prompt = jv_invalid(), .reset = jv_invalid()};
	if (!q->first)
		return spar_filter_put(q->f, rec);
	put_last(q, queued_new(rec, &none, 0));
	return 0;
}

/* ---- out ---- */

static void count(struct spar_queue *q, const struct spar_play *p)
{
	q->n_done++;
	q->n_batch++;
	if (!p->error)
		return;
	if (q->n_failed++ < FAILURES_SHOWN)
		spar_listener_warn(&q->on, "task %s sample %" PRId64 ": %s", p->task->id, p->sample, p->error);
	if (q->code != SPAR_FAIL)
		q->code = p->code;
}

/* What --into puts into the record: the last completion's text first, as that is what is mostly wanted. */
static void add_sampled(const struct spar_queue *q, const struct spar_play *p, struct spar_str *out)
{
	const struct spar_str *text = spar_play_text(p);
	spar_str_adds(out, "{\"completion\":");
	spar_str_add_json(out, text->data, text->len);
	spar_str_addc(out, ',');
	spar_str_add(out, q->how.data, q->how.len);
	spar_play_json(p, out);
	spar_str_addc(out, '}');
}

static int put_play(struct spar_queue *q, struct spar_queued *g, const struct spar_play *p)
{
	count(q, p);
	g->n_taken++;
	if (q->into) {
		if (g->n_taken > 1)
			spar_str_addc(&g->into, ',');
		add_sampled(q, p, &g->into);
		return 0;
	}
	spar_str_clear(&q->out);
	spar_play_record(p, g->size, q->step, &g->line, &q->how, &q->out);
	return spar_filter_put_line(q->f, q->out.data, q->out.len);
}

/* The record with its new key: an object, or for several samples an array of them. */
static int put_into(struct spar_queue *q, const struct spar_queued *g)
{
	struct spar_record rec;
	spar_record_init(&rec);
	int rc = spar_record_parse(&rec, g->line.data, g->line.len, &q->f->err);
	if (rc == 0) {
		spar_str_clear(&q->out);
		spar_str_addf(&q->out, g->size > 1 ? "[%s]" : "%s", g->into.data);
		spar_record_set(&rec, q->into, q->out.data, q->out.len);
		rc = spar_filter_put(q->f, &rec);
	}
	spar_record_release(&rec);
	return rc;
}

static int end_first(struct spar_queue *q)
{
	struct spar_queued *g = q->first;
	int rc = 0;
	if (!g->size)
		rc = spar_filter_put_line(q->f, g->line.data, g->line.len);
	else if (q->into)
		rc = put_into(q, g);
	drop_first(q);
	return rc < 0 ? rc : spar_filter_flush(q->f);
}

int spar_queue_write(struct spar_queue *q)
{
	int rc = 0;
	while (rc == 0 && q->first) {
		if (q->first->n_taken == q->first->size) {
			rc = end_first(q);
			continue;
		}
		struct spar_play *p = spar_sampler_take(q->sampler);
		if (!p)
			break;
		rc = put_play(q, q->first, p);
		spar_play_free(p);
	}
	return rc;
}
