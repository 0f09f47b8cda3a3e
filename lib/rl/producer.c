/* producer.c - see producer.h */
#include "rl/producer.h"
#include "base/file.h"
#include "record/jq.h"
#include "rl/policy.h"
#include "rl/queue.h"
#include "rl/task.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define GROUP_SIZE 8
#define LIVE_BATCH 8
#define ATTACH_MAX_S 120

struct spar_producer {
	struct spar_producer_opt opt;
	struct spar_filter *f;
	struct spar_listener on;
	struct spar_sampler *sampler;
	struct spar_jq *prompt;
	struct spar_policy *policy;
	struct spar_queue queue;
	struct spar_task_ids seen; /* of this batch */
	struct spar_str line;
	char *model; /* the folder behind opt.sampler.model */
	int32_t *forced;
	int64_t step, first; /* batches so far, and when this run began */
	int64_t version;     /* -1: a plain model */
	int64_t n_groups;    /* of this batch */
	double busy_s;       /* spent on sampling, not on waiting for weights or tasks */
	double told_s;       /* of these, what batch records have told */
};

static int open_sampler(struct spar_producer *p, struct spar_err *err)
{
	struct spar_sampler_opt opt = p->opt.sampler;
	p->version = -1;
	if (opt.model && !(p->model = spar_policy_resolve(opt.model, &p->version, err)))
		return -(int)SPAR_FAIL;
	opt.on = p->on;
	opt.encode_only = p->opt.encode_only;
	opt.model = opt.encode_only ? p->model : NULL; /* else loaded when the first batch begins */
	return spar_sampler_new(&p->sampler, &opt, err);
}

static int read_forced(struct spar_producer *p, struct spar_err *err)
{
	struct spar_sampler_opt *o = &p->opt.sampler;
	if (!p->opt.force_ids)
		return 0;
	jv list = jv_object_set(jv_object(), jv_string("force-ids"), jv_parse(p->opt.force_ids));
	int rc = spar_get_ids(list, "", "force-ids", &p->forced, &o->n_forced, err);
	o->forced = p->forced;
	jv_free(list);
	return rc < 0 ? spar_fail(err, SPAR_USAGE, "--force-ids: expected a JSON array of ids") : 0;
}

int spar_producer_new(struct spar_producer **out, const struct spar_producer_opt *opt, struct spar_filter *f,
		      const struct spar_listener *on, struct spar_err *err)
{
	struct spar_producer *p = *out = spar_calloc(1, sizeof *p);
	p->opt = *opt;
	p->f = f;
	p->on = *on;
	spar_str_init(&p->line);
	spar_queue_init(&p->queue);
	if (!p->opt.group_size)
		p->opt.group_size = opt->into ? 1 : GROUP_SIZE;
	if (!p->opt.batch && opt->policy)
		p->opt.batch = LIVE_BATCH;
	int rc = read_forced(p, err);
	if (rc == 0)
		rc = spar_jq_new(&p->prompt, opt->messages ? opt->messages : SPAR_TASK_PROMPT, err);
	if (rc == 0)
		rc = open_sampler(p, err);
	if (rc < 0) {
		spar_producer_free(p);
		*out = NULL;
		return rc;
	}
	p->queue.f = f;
	p->queue.on = *on;
	p->queue.into = opt->into;
	p->queue.sampler = p->sampler;
	return 0;
}

void spar_producer_free(struct spar_producer *p)
{
	if (!p)
		return;
	spar_sampler_free(p->sampler);
	spar_queue_release(&p->queue);
	spar_jq_free(p->prompt);
	spar_policy_close(p->policy);
	spar_task_ids_clear(&p->seen);
	spar_str_release(&p->line);
	free(p->forced);
	free(p->model);
	free(p);
}

enum spar_exit spar_producer_failures(const struct spar_producer *p, uint64_t *n_failed, uint64_t *n)
{
	*n_failed = p->queue.n_failed;
	*n = p->queue.n_done;
	return p->queue.code;
}

/* ---- reading ---- */

/* With a prompt program of the user's any record is a task, else those that say so. */
static bool may_be_task(const struct spar_producer *p, const struct spar_record *rec)
{
	return !*rec->type || spar_record_is(rec, "task") || p->opt.messages;
}

/* 1: a task, the caller's to release; 0: none; < 0: bad. */
static int read_task(struct spar_producer *p, const struct spar_record *rec, struct spar_task *task)
{
	*task = (struct spar_task){.prompt = jv_invalid(), .reset = jv_invalid()};
	return may_be_task(p, rec) ? spar_task_read(task, rec, p->prompt, &p->f->err) : 0;
}

/* Queue what the record asks for; or pass it, in its place. SPAR_INPUT: it is bad; SPAR_FAIL: the sampler cannot go on. */
static int take(struct spar_producer *p, const struct spar_record *rec)
{
	struct spar_task task;
	int rc = read_task(p, rec, &task);
	if (rc < 0)
		return rc;
	if (rc == 0 && may_be_task(p, rec) && !p->opt.messages)
		return spar_fail(&p->f->err, SPAR_INPUT, "not a task: it has neither messages nor prompt nor env");
	if (rc == 0)
		return spar_queue_pass(&p->queue, rec);
	if (!spar_task_ids_add(&p->seen, task.id)) {
		rc = spar_fail(&p->f->err, SPAR_INPUT, ".id: '%s' is there twice", task.id);
		spar_task_release(&task);
		return rc;
	}
	if ((rc = spar_queue_add(&p->queue, rec, &task, p->opt.group_size)) == 0)
		p->n_groups++;
	return rc;
}

/* Whether to read on before the next token: only while reading does not keep episodes waiting. In bfloat16 it may: there
 * the rows of a step must not depend on when lines arrive. */
static bool may_read(const struct spar_producer *p)
{
	return !spar_sampler_full(p->sampler) &&
	       (!spar_sampler_held(p->sampler) || p->opt.sampler.dtype != 0 || spar_reader_ready(p->f->in, 0));
}

enum stop { STOP_NOT, STOP_FULL, STOP_END, STOP_BATCH, STOP_BAD, STOP_FAILED };

static enum stop read_tasks(struct spar_producer *p, struct spar_record **rec)
{
	while (may_read(p)) {
		int rc = spar_filter_next(p->f, rec);
		if (rc <= 0)
			return rc < 0 ? STOP_FAILED : STOP_END;
		if (spar_record_is(*rec, "batch"))
			return STOP_BATCH;
		if ((rc = take(p, *rec)) < 0)
			return rc == -(int)SPAR_INPUT ? STOP_BAD : STOP_FAILED;
		if (p->opt.batch && p->n_groups == p->opt.batch)
			return STOP_FULL;
	}
	return STOP_NOT;
}

/* ---- playing ---- */

static void show(const struct spar_producer *p)
{
	char step[40] = "";
	uint64_t steps = p->opt.max_steps > p->first ? (uint64_t)(p->opt.max_steps - p->first) : 0;
	if (p->opt.batch)
		snprintf(step, sizeof step, "step %" PRId64 ", ", p->step);
	spar_listener_progress(&p->on, p->queue.n_done, steps * (uint64_t)(p->opt.batch * p->opt.group_size),
			       "%s%.0f tok/s", step, (double)spar_sampler_tokens(p->sampler) / (p->busy_s + 1e-9));
}

static int advance(struct spar_producer *p)
{
	double start_s = spar_clock_s();
	int rc = spar_sampler_step(p->sampler, &p->f->err);
	p->busy_s += spar_clock_s() - start_s;
	if (rc >= 0 && spar_queue_write(&p->queue) < 0)
		rc = -(int)p->f->err.code;
	show(p);
	return rc;
}

/* With what sampling took since the last one, if that is asked for. */
static int put_batch(struct spar_producer *p, struct spar_record *batch)
{
	if (p->opt.step_time) {
		spar_str_clear(&p->line);
		spar_str_addf(&p->line, "step_time/%s", p->opt.into ? p->opt.into : "rollout");
		spar_record_set_double(batch, p->line.data, p->busy_s - p->told_s);
		p->told_s = p->busy_s;
	}
	return spar_filter_put(p->f, batch);
}

/* Play a batch, or all there is. What a batch record or a bad record follows is finished and written before it is looked
 * at: so no stage after this one waits for what stands behind a batch record, and a bad record loses nothing.
 * 1: the batch is full, 0: the input has ended. */
static int play_batch(struct spar_producer *p)
{
	struct spar_record *rec = NULL;
	for (;;) {
		enum stop stop = read_tasks(p, &rec);
		struct spar_err why = p->f->err;
		int rc = advance(p);
		while (rc > 0 && stop != STOP_NOT)
			rc = advance(p);
		if (rc < 0)
			return rc;
		p->f->err = why;
		if (stop == STOP_FULL || stop == STOP_END)
			return stop == STOP_FULL;
		if (stop == STOP_FAILED)
			return -(int)why.code;
		if (stop == STOP_BATCH)
			rc = put_batch(p, rec);
		else if (stop == STOP_BAD)
			rc = spar_filter_reject(p->f, rec);
		if (rc < 0)
			return rc;
	}
}

/* ---- batches ---- */

/* Where samples come from and how they are drawn: the same for a whole batch. */
static void describe(struct spar_producer *p)
{
	const char *path = p->opt.policy ? p->opt.policy : p->opt.sampler.model;
	struct spar_str *how = &p->queue.how;
	spar_str_clear(how);
	spar_str_adds(how, "\"policy\":{\"path\":");
	spar_str_add_json(how, path, strlen(path));
	if (p->version >= 0)
		spar_str_addf(how, ",\"version\":%" PRId64, p->version);
	spar_str_addf(how, ",\"hash\":\"%s\"},", spar_sampler_hash(p->sampler));
	spar_sampler_json(p->sampler, how);
	spar_str_addc(how, ',');
}

/* Wait for the version that the batch needs. 1: it is there; 0: no more batches are wanted. */
static int begin_batch(struct spar_producer *p)
{
	char *path = NULL;
	int64_t version = p->version;
	int rc = 1;
	if (p->opt.max_steps && p->step >= p->opt.max_steps)
		return 0;
	if (p->policy)
		rc = spar_policy_wait(p->policy, p->step - p->opt.lag, p->opt.policy_timeout_s, &version, &path,
				      &p->f->err);
	if (rc > 0 && path && version != p->version && spar_sampler_load(p->sampler, path, &p->f->err) < 0)
		rc = -(int)p->f->err.code;
	free(path);
	p->version = version;
	p->queue.step = p->opt.batch ? p->step : -1;
	describe(p);
	return rc;
}

static int end_batch(struct spar_producer *p)
{
	struct spar_record batch;
	int rc = 0;
	if (p->opt.batch && p->n_groups) {
		spar_str_clear(&p->line);
		spar_str_addf(&p->line, "{\"type\":\"batch\",\"step\":%" PRId64 ",\"groups\":%" PRId64, p->step,
			      p->n_groups);
		spar_str_addf(&p->line, ",\"rollouts\":%" PRId64 "}", p->queue.n_batch);
		spar_record_init(&batch);
		rc = spar_record_parse(&batch, p->line.data, p->line.len, &p->f->err);
		if (rc == 0)
			rc = put_batch(p, &batch);
		spar_record_release(&batch);
		spar_task_ids_clear(&p->seen);
	}
	p->step++;
	p->n_groups = p->queue.n_batch = 0;
	return rc;
}

/* A run that goes on has seen the tasks of its first steps already. */
static int skip_tasks(struct spar_producer *p, int64_t n)
{
	struct spar_record *rec;
	int rc = 1;
	while (n > 0 && (rc = spar_filter_next(p->f, &rec)) > 0) {
		struct spar_task task;
		int is_task = read_task(p, rec, &task);
		if (is_task < 0 && (rc = spar_filter_reject(p->f, rec)) < 0)
			break;
		if (is_task > 0) {
			spar_task_release(&task);
			n--;
		}
	}
	return rc < 0 ? rc : 0;
}

/* An update is there within seconds or was never started: no need to wait for it as long as for a step. */
static int follow_policy(struct spar_producer *p)
{
	double timeout_s = p->opt.policy_timeout_s < ATTACH_MAX_S ? p->opt.policy_timeout_s : ATTACH_MAX_S;
	int rc = spar_policy_attach(&p->policy, p->opt.policy, timeout_s, &p->step, &p->f->err);
	p->first = p->step;
	return rc < 0 ? rc : skip_tasks(p, p->step * p->opt.batch);
}

int spar_producer_run(struct spar_producer *p)
{
	int rc = p->opt.policy ? follow_policy(p) : spar_sampler_load(p->sampler, p->model, &p->f->err);
	if (rc < 0)
		return rc;
	while ((rc = begin_batch(p)) > 0) {
		int more = play_batch(p);
		rc = more < 0 ? more : end_batch(p);
		if (rc < 0 || !more)
			break;
	}
	return rc;
}

/* ---- prompts only ---- */

static void set_prompt(struct spar_producer *p, struct spar_record *rec, const struct spar_str *text,
		       const struct spar_ids *ids)
{
	spar_str_clear(&p->line);
	spar_str_add_json(&p->line, text->data, text->len);
	spar_record_set(rec, "prompt", p->line.data, p->line.len);
	spar_str_clear(&p->line);
	for (size_t i = 0; i < ids->n; i++)
		spar_str_addf(&p->line, "%c%" PRId32, i ? ',' : '[', ids->data[i]);
	spar_str_addc(&p->line, ']');
	spar_record_set(rec, "prompt_ids", p->line.data, p->line.len);
}

static int encode_one(struct spar_producer *p, struct spar_record *rec)
{
	struct spar_task task;
	struct spar_ids ids = {0};
	struct spar_str text = SPAR_STR_INIT;
	int rc = read_task(p, rec, &task);
	if (rc == 0)
		return spar_filter_put(p->f, rec);
	if (rc > 0) {
		rc = spar_sampler_encode(p->sampler, &task, &text, &ids, &p->f->err);
		spar_task_release(&task);
	}
	if (rc == 0) {
		set_prompt(p, rec, &text, &ids);
		rc = spar_filter_put(p->f, rec);
	} else if (rc == -(int)SPAR_INPUT) {
		rc = spar_filter_reject(p->f, rec);
	}
	free(ids.data);
	spar_str_release(&text);
	return rc;
}

int spar_producer_encode(struct spar_producer *p)
{
	struct spar_record *rec;
	int rc;
	while ((rc = spar_filter_next(p->f, &rec)) > 0)
		if ((rc = encode_one(p, rec)) < 0)
			break;
	return rc;
}
