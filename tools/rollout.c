/* spar rollout - sample completions and whole episodes. Tasks in, rollouts out. */
#include "base/file.h"
#include "base/opt.h"
#include "base/progress.h"
#include "record/jq.h"
#include "record/record.h"
#include "rl/policy.h"
#include "rl/sampler.h"
#include "rl/task.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct spar_usage usage = {
    "rollout", "--model=DIR | --policy=DIR [options] [FILE] <tasks >rollouts",
    "Let a model answer each task several times: one completion, or an episode of an environment. Rollouts are written "
    "in the order of tasks and samples. With --policy the model is the newest version that a running update has "
    "published, and a batch waits for the version it needs."};

#define GROUP_SIZE 8
#define LIVE_BATCH 8
#define FAILURES_SHOWN 10
#define ATTACH_MAX_S 120

/* A task under way, or (size 0) a record that only waits for its place in the order. */
struct group {
	struct group *next;
	struct spar_task task;
	struct spar_str line; /* the record as it came */
	struct spar_str into; /* what was sampled so far, with --into */
	int64_t size, n_taken;
};

struct work {
	struct spar_filter f;
	struct spar_sampler_opt opt;
	const char *messages, *into, *policy_dir, *force_ids;
	int64_t size, lag, batch, max_steps;
	double policy_timeout_s;
	bool dry_run;
	/* state */
	struct spar_sampler *sampler;
	struct spar_jq *prompt;
	struct spar_policy *policy;
	struct spar_progress progress;
	struct spar_task_ids seen;
	struct group *first, **last;
	struct spar_str out, how;
	int32_t *forced;
	int64_t step, version;        /* batches so far; version -1: a plain model */
	int64_t n_groups, n_rollouts; /* of this batch */
	uint64_t n_done, n_failed;
	double start_s;
	enum spar_exit worst;
};

/* ---- groups ---- */

static struct group *new_group(const struct spar_record *rec, const struct spar_task *task, int64_t size)
{
	struct group *g = spar_calloc(1, sizeof *g);
	*g = (struct group){.task = *task, .line = SPAR_STR_INIT, .into = SPAR_STR_INIT, .size = size};
	spar_str_add(&g->line, rec->text.data, rec->text.len);
	return g;
}

static void free_group(struct group *g)
{
	spar_task_release(&g->task);
	spar_str_release(&g->line);
	spar_str_release(&g->into);
	free(g);
}

static void drop_first_group(struct work *w)
{
	struct group *g = w->first;
	w->first = g->next;
	if (!w->first)
		w->last = &w->first;
	free_group(g);
}

/* ---- writing ---- */

/* Where samples come from and how they are drawn: the same for a whole batch. */
static void describe(struct work *w)
{
	const char *path = w->policy_dir ? w->policy_dir : w->opt.model;
	struct spar_str *out = &w->how;
	spar_str_clear(out);
	spar_str_adds(out, "\"policy\":{\"path\":");
	spar_str_add_json(out, path, strlen(path));
	if (w->version >= 0)
		spar_str_addf(out, ",\"version\":%" PRId64, w->version);
	spar_str_addf(out, ",\"hash\":\"%s\"},", spar_sampler_hash(w->sampler));
	spar_sampler_json(w->sampler, out);
	spar_str_addc(out, ',');
}

/* What --into puts into the record: the last completion's text first, as that is what is mostly wanted. */
static void add_sampled(struct work *w, const struct spar_play *p, struct spar_str *out)
{
	const struct spar_str *text = spar_play_text(p);
	spar_str_adds(out, "{\"completion\":");
	spar_str_add_json(out, text->data, text->len);
	spar_str_addc(out, ',');
	spar_str_add(out, w->how.data, w->how.len);
	spar_play_json(p, out);
	spar_str_addc(out, '}');
}

static void count_play(struct work *w, const struct spar_play *p)
{
	w->n_done++;
	w->n_rollouts++;
	if (!p->error)
		return;
	if (w->n_failed++ < FAILURES_SHOWN)
		spar_warn("rollout", "task %s sample %" PRId64 ": %s", p->task->id, p->sample, p->error);
	if (w->worst != SPAR_FAIL)
		w->worst = p->code;
}

static int put_play(struct work *w, struct group *g, const struct spar_play *p)
{
	count_play(w, p);
	g->n_taken++;
	if (w->into) {
		if (g->n_taken > 1)
			spar_str_addc(&g->into, ',');
		add_sampled(w, p, &g->into);
		return 0;
	}
	spar_str_clear(&w->out);
	spar_play_record(p, g->size, w->batch ? w->step : -1, &g->line, &w->how, &w->out);
	return spar_filter_put_line(&w->f, w->out.data, w->out.len);
}

/* The record with its new key: an object, or for several samples an array of them. */
static int put_into(struct work *w, const struct group *g)
{
	struct spar_record rec;
	spar_record_init(&rec);
	int rc = spar_record_parse(&rec, g->line.data, g->line.len, &w->f.err);
	if (rc == 0) {
		spar_str_clear(&w->out);
		spar_str_addf(&w->out, g->size > 1 ? "[%s]" : "%s", g->into.data);
		spar_record_set(&rec, w->into, w->out.data, w->out.len);
		rc = spar_filter_put(&w->f, &rec);
	}
	spar_record_release(&rec);
	return rc;
}

static int end_group(struct work *w)
{
	struct group *g = w->first;
	int rc = 0;
	if (!g->size)
		rc = spar_filter_put_line(&w->f, g->line.data, g->line.len);
	else if (w->into)
		rc = put_into(w, g);
	drop_first_group(w);
	return rc < 0 ? rc : spar_writer_flush(w->f.out, &w->f.err);
}

/* Write what is whole, in order. */
static int write_done(struct work *w)
{
	struct spar_play *p;
	int rc = 0;
	while (rc == 0 && w->first) {
		if (w->first->n_taken == w->first->size) {
			rc = end_group(w);
			continue;
		}
		if (!(p = spar_sampler_take(w->sampler)))
			break;
		rc = put_play(w, w->first, p);
		spar_play_free(p);
	}
	return rc;
}

/* ---- reading ---- */

/* With a prompt program of the user's any record is a task, else those that say so. */
static bool may_be_task(const struct work *w, const struct spar_record *rec)
{
	return !*rec->type || spar_record_is(rec, "task") || w->messages;
}

static int queue(struct work *w, const struct spar_record *rec, const struct spar_task *task, int64_t size)
{
	struct group *g = new_group(rec, task, size);
	int rc = 0;
	for (int64_t i = 0; rc == 0 && i < size; i++)
		rc = spar_sampler_add(w->sampler, &g->task, i, &w->f.err);
	if (rc < 0) { /* refused at its first sample, so none was added */
		free_group(g);
		return rc;
	}
	*w->last = g;
	w->last = &g->next;
	w->n_groups += size > 0;
	return 0;
}

/* Queue what the record asks for; or pass it, in its place. SPAR_INPUT: it is bad; SPAR_FAIL: the sampler cannot go on. */
static int take(struct work *w, const struct spar_record *rec)
{
	struct spar_task task = {.prompt = jv_invalid(), .reset = jv_invalid()};
	int rc = may_be_task(w, rec) ? spar_task_read(&task, rec, w->prompt, &w->f.err) : 0;
	if (rc < 0)
		return rc;
	if (rc > 0 && spar_task_ids_add(&w->seen, task.id))
		return queue(w, rec, &task, w->size);
	if (rc > 0) {
		rc = spar_fail(&w->f.err, SPAR_INPUT, ".id: '%s' is there twice", task.id);
		spar_task_release(&task);
		return rc;
	}
	if (may_be_task(w, rec) && !w->messages)
		return spar_fail(&w->f.err, SPAR_INPUT, "not a task: it has neither messages nor prompt nor env");
	return w->first ? queue(w, rec, &task, 0) : spar_filter_put(&w->f, rec);
}

/* Whether to read on before the next token: only while reading does not keep episodes waiting. In bfloat16 it may: there
 * the rows of a step must not depend on when lines arrive. */
static bool may_read(struct work *w)
{
	return !spar_sampler_full(w->sampler) &&
	       (!spar_sampler_held(w->sampler) || w->opt.dtype != 0 || spar_reader_ready(w->f.in, 0));
}

enum stop { STOP_NOT, STOP_FULL, STOP_END, STOP_BATCH, STOP_BAD, STOP_FAILED };

static enum stop read_tasks(struct work *w, struct spar_record **rec)
{
	while (may_read(w)) {
		int rc = spar_filter_next(&w->f, rec);
		if (rc <= 0)
			return rc < 0 ? STOP_FAILED : STOP_END;
		if (spar_record_is(*rec, "batch"))
			return STOP_BATCH;
		if ((rc = take(w, *rec)) < 0)
			return rc == -(int)SPAR_INPUT ? STOP_BAD : STOP_FAILED;
		if (w->batch && w->n_groups == w->batch)
			return STOP_FULL;
	}
	return STOP_NOT;
}

/* ---- playing ---- */

static void show(struct work *w)
{
	double s = spar_clock_s() - w->start_s;
	char step[40] = "";
	if (w->batch)
		snprintf(step, sizeof step, "step %" PRId64 ", ", w->step);
	spar_progress_tick(&w->progress, w->n_done, "%s%.0f tok/s", step,
			   s > 0 ? (double)spar_sampler_tokens(w->sampler) / s : 0);
}

static int advance(struct work *w)
{
	int rc = spar_sampler_step(w->sampler, &w->f.err);
	if (rc >= 0 && write_done(w) < 0)
		rc = -(int)w->f.err.code;
	show(w);
	return rc;
}

/* Play a batch, or all there is. What a batch record or a bad record follows is finished and written before it is looked
 * at: so no stage after this one waits for what stands behind a batch record, and a bad record loses nothing.
 * 1: the batch is full, 0: the input has ended. */
static int play_batch(struct work *w)
{
	struct spar_record *rec = NULL;
	for (;;) {
		enum stop stop = read_tasks(w, &rec);
		struct spar_err why = w->f.err;
		int rc = advance(w);
		while (rc > 0 && stop != STOP_NOT)
			rc = advance(w);
		if (rc < 0)
			return rc;
		w->f.err = why;
		if (stop == STOP_FULL || stop == STOP_END)
			return stop == STOP_FULL;
		if (stop == STOP_FAILED)
			return -(int)why.code;
		if (stop == STOP_BATCH)
			rc = spar_filter_put(&w->f, rec);
		else if (stop == STOP_BAD)
			rc = spar_filter_reject(&w->f, rec);
		if (rc < 0)
			return rc;
	}
}

/* ---- batches ---- */

static int open_model(struct work *w, const char *dir)
{
	int rc = spar_sampler_load(w->sampler, dir, &w->f.err);
	if (rc == 0 && spar_sampler_no_template(w->sampler) && !w->f.quiet && !w->step)
		spar_warn("rollout", "%s: no chat template: messages are written as 'role: content' lines", dir);
	return rc;
}

/* Wait for the version that the batch needs. 1: it is there; 0: no more batches are wanted. */
static int begin_batch(struct work *w)
{
	char *path;
	int64_t version;
	if (w->max_steps && w->step >= w->max_steps)
		return 0;
	if (!w->policy) {
		describe(w);
		return 1;
	}
	int rc = spar_policy_wait(w->policy, w->step - w->lag, w->policy_timeout_s, &version, &path, &w->f.err);
	if (rc > 0 && version != w->version && open_model(w, path) < 0)
		rc = -(int)w->f.err.code;
	w->version = version;
	describe(w);
	free(path);
	return rc;
}

static int end_batch(struct work *w)
{
	int rc = 0;
	if (w->batch && w->n_groups) {
		spar_str_clear(&w->out);
		spar_str_addf(&w->out, "{\"type\":\"batch\",\"step\":%" PRId64 ",\"groups\":%" PRId64, w->step,
			      w->n_groups);
		spar_str_addf(&w->out, ",\"rollouts\":%" PRId64 "}", w->n_rollouts);
		if ((rc = spar_filter_put_line(&w->f, w->out.data, w->out.len)) == 0)
			rc = spar_writer_flush(w->f.out, &w->f.err);
		spar_task_ids_clear(&w->seen);
	}
	w->step++;
	w->n_groups = w->n_rollouts = 0;
	return rc;
}

/* A run that goes on has seen the tasks of its first steps already. */
static int skip_tasks(struct work *w, int64_t n)
{
	struct spar_record *rec;
	int rc = 1;
	while (n > 0 && (rc = spar_filter_next(&w->f, &rec)) > 0) {
		struct spar_task task;
		int is_task = may_be_task(w, rec) ? spar_task_read(&task, rec, w->prompt, &w->f.err) : 0;
		if (is_task < 0 && (rc = spar_filter_reject(&w->f, rec)) < 0)
			break;
		if (is_task > 0) {
			spar_task_release(&task);
			n--;
		}
	}
	return rc < 0 ? rc : 0;
}

/* An update is there within seconds or was never started: no need to wait for it as long as for a step. */
static int follow_policy(struct work *w)
{
	double timeout_s = w->policy_timeout_s < ATTACH_MAX_S ? w->policy_timeout_s : ATTACH_MAX_S;
	int rc = spar_policy_attach(&w->policy, w->policy_dir, timeout_s, &w->step, &w->f.err);
	return rc < 0 ? rc : skip_tasks(w, w->step * w->batch);
}

static int sample_all(struct work *w)
{
	int rc = w->policy_dir ? follow_policy(w) : open_model(w, w->opt.model);
	uint64_t n_steps = w->max_steps > w->step ? (uint64_t)(w->max_steps - w->step) : 0;
	if (rc < 0)
		return rc;
	w->start_s = spar_clock_s();
	spar_progress_begin(&w->progress, "rollout", "episodes", n_steps * (uint64_t)(w->batch * w->size), w->f.quiet);
	while ((rc = begin_batch(w)) > 0) {
		int more = play_batch(w);
		rc = more < 0 ? more : end_batch(w);
		if (rc < 0 || !more)
			break;
	}
	spar_progress_end(&w->progress);
	return rc;
}

/* ---- --dry-run ---- */

static int encode_one(struct work *w, struct spar_record *rec)
{
	struct spar_task task;
	struct spar_ids ids = {0};
	struct spar_str text = SPAR_STR_INIT;
	int rc = may_be_task(w, rec) ? spar_task_read(&task, rec, w->prompt, &w->f.err) : 0;
	if (rc == 0)
		return spar_filter_put(&w->f, rec);
	if (rc > 0) {
		rc = spar_sampler_encode(w->sampler, &task, &text, &ids, &w->f.err);
		spar_task_release(&task);
	}
	if (rc == 0) {
		spar_str_clear(&w->out);
		spar_str_add_json(&w->out, text.data, text.len);
		spar_record_set(rec, "prompt", w->out.data, w->out.len);
		spar_str_clear(&w->out);
		for (size_t i = 0; i < ids.n; i++)
			spar_str_addf(&w->out, "%c%" PRId32, i ? ',' : '[', ids.data[i]);
		spar_str_addc(&w->out, ']');
		spar_record_set(rec, "prompt_ids", w->out.data, w->out.len);
		rc = spar_filter_put(&w->f, rec);
	} else if (rc == -(int)SPAR_INPUT) {
		rc = spar_filter_reject(&w->f, rec);
	}
	free(ids.data);
	spar_str_release(&text);
	return rc;
}

static int encode_all(struct work *w)
{
	struct spar_record *rec;
	int rc;
	while ((rc = spar_filter_next(&w->f, &rec)) > 0)
		if ((rc = encode_one(w, rec)) < 0)
			break;
	return rc;
}

/* ---- main ---- */

/* "[7,8,2]" */
static int read_forced(struct work *w)
{
	if (!w->force_ids)
		return 0;
	jv list = jv_object_set(jv_object(), jv_string("force-ids"), jv_parse(w->force_ids));
	int rc = spar_get_ids(list, "", "force-ids", &w->forced, &w->opt.n_forced, &w->f.err);
	w->opt.forced = w->forced;
	jv_free(list);
	return rc < 0 ? spar_fail(&w->f.err, SPAR_USAGE, "--force-ids: expected a JSON array of ids") : 0;
}

static int prepare(struct work *w)
{
	struct spar_sampler_opt opt;
	int rc = read_forced(w);
	if (rc == 0)
		rc = spar_jq_new(&w->prompt, w->messages ? w->messages : SPAR_TASK_PROMPT, &w->f.err);
	if (rc < 0)
		return rc;
	if (!w->size)
		w->size = w->into ? 1 : GROUP_SIZE;
	if (!w->batch && w->policy_dir)
		w->batch = LIVE_BATCH;
	w->last = &w->first;
	w->version = -1;
	w->opt.encode_only = w->dry_run;
	opt = w->opt;
	if (!w->dry_run)
		opt.model = NULL; /* loaded when the batch begins */
	return spar_sampler_new(&w->sampler, &opt, &w->f.err);
}

static int finish(struct work *w, int rc)
{
	spar_sampler_free(w->sampler);
	while (w->first)
		drop_first_group(w);
	spar_jq_free(w->prompt);
	spar_policy_close(w->policy);
	spar_task_ids_clear(&w->seen);
	spar_str_release(&w->out);
	spar_str_release(&w->how);
	free(w->forced);
	rc = spar_filter_finish(&w->f, rc);
	if (w->n_failed)
		fprintf(stderr, "rollout: %" PRIu64 " of %" PRIu64 " episodes failed (error)\n", w->n_failed,
			w->n_done);
	return rc == SPAR_OK && w->n_failed && !w->f.skip_bad ? (int)w->worst : rc;
}

int main(int argc, char **argv)
{
	struct work w = {.f = SPAR_FILTER_INIT("rollout"),
			 .opt = SPAR_SAMPLER_DEFAULTS,
			 .policy_timeout_s = 3600,
			 .out = SPAR_STR_INIT,
			 .how = SPAR_STR_INIT};
	const struct spar_opt table[] = {
	    SPAR_OPT_GROUP("what is sampled"),
	    SPAR_OPT_STR("model", 'm', &w.opt.model, "DIR", "model folder, also a PEFT adapter"),
	    SPAR_OPT_STR("policy", 'p', &w.policy_dir, "DIR", "follow the policy that a running update publishes here"),
	    SPAR_OPT_INT("lag", 0, &w.lag, 0, 1e9, "N", "versions that a batch may be behind (0)"),
	    SPAR_OPT_DOUBLE("policy-timeout", 0, &w.policy_timeout_s, 0, 1e9, "S",
			    "seconds to wait for a version (3600)"),
	    SPAR_OPT_INT("batch", 'b', &w.batch, 0, 1e9, "N",
			 "tasks of a batch, with a batch record after each; 0: none (0; with --policy 8)"),
	    SPAR_OPT_INT("max-steps", 0, &w.max_steps, 0, 1e15, "N", "stop before batch N; 0: at the end of input (0)"),
	    SPAR_OPT_INT("num-generations", 'n', &w.size, 0, 1e6, "N",
			 "samples of each task; 0: 8, or 1 with --into (0)"),
	    SPAR_OPT_STR("messages", 0, &w.messages, "JQ",
			 "prompt of a record: messages or a text (" SPAR_TASK_PROMPT ")"),
	    SPAR_OPT_STR("into", 0, &w.into, "KEY", "pass the record on with what was sampled in KEY"),
	    SPAR_OPT_DOUBLE("temperature", 0, &w.opt.sampling.temperature, 0, 1e6, "X", "0 is greedy (1)"),
	    SPAR_OPT_STR("force-ids", 0, &w.force_ids, "IDS", "begin every completion with these ids, a JSON array"),
	    SPAR_OPT_FLAG("dry-run", 0, &w.dry_run, "only add prompt and prompt_ids to each task"),
	    SPAR_SAMPLER_OPTIONS(w.opt),
	    SPAR_OPT_GROUP("records"),
	    SPAR_FILTER_OPTIONS(w.f),
	    SPAR_OPT_END};
	int rest = spar_opt_parse(&usage, table, argc, argv), rc;
	if (rest < 0)
		return -1 - rest;
	if (!w.opt.model == !w.policy_dir || (w.dry_run && !w.opt.model))
		return spar_usage_error(&usage, "give --model=DIR or --policy=DIR%s",
					w.dry_run ? " (--dry-run: a model)" : "");
	if (rest + 1 < argc)
		return spar_usage_error(&usage, "one input file at most, got '%s' too", argv[rest + 1]);
	rc = prepare(&w);
	if (rc == 0)
		rc = spar_filter_open(&w.f, argv[rest]);
	if (rc == 0)
		rc = w.dry_run ? encode_all(&w) : sample_all(&w);
	return finish(&w, rc);
}
