/* evaluation.c - see evaluation.h */
#include "rl/evaluation.h"
#include "base/file.h"
#include "record/jq.h"
#include "rl/play.h"
#include "rl/policy.h"
#include "rl/summary.h"
#include "rl/task.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PASS_MAX 16
#define FAILURES_SHOWN 10

struct item {
	struct spar_task task;
	struct spar_str line;
};

struct spar_evaluation {
	struct spar_evaluation_opt opt;
	struct spar_filter *f;
	struct spar_listener on;
	struct spar_jq *prompt, *success;
	struct item *items;
	size_t n_items;
	struct spar_task_ids seen;
	struct spar_arm *arms; /* (n_arms); arms[records] gets the rollouts of the input */
	size_t n_arms, records;
	size_t ks[PASS_MAX], n_ks;
	struct spar_str out;
	uint64_t n_failed, n_episodes;
	enum spar_exit code; /* of the failed ones */
};

/* ---- opening ---- */

static void add_arm(struct spar_evaluation *e, const char *prefix, const char *name, const char *model,
		    const char *policy)
{
	struct spar_str s = SPAR_STR_INIT;
	spar_str_addf(&s, "%s%s", prefix, name);
	e->arms = spar_realloc(e->arms, (e->n_arms + 1) * sizeof *e->arms);
	e->arms[e->n_arms++] =
	    (struct spar_arm){.name = spar_str_detach(&s), .model = model, .policy = policy, .version = -1};
}

/* "1,2,4" */
static int read_ks(struct spar_evaluation *e, struct spar_err *err)
{
	struct spar_str one = SPAR_STR_INIT;
	int rc = 0;
	for (const char *at = e->opt.pass_at; rc == 0 && at && *at;) {
		size_t n = strcspn(at, ",");
		int64_t k;
		spar_str_clear(&one);
		spar_str_add(&one, at, n);
		if (e->n_ks == PASS_MAX || spar_parse_i64(one.data, 1, 1000000, &k) < 0)
			rc = spar_fail(err, SPAR_USAGE, "--pass-at: expected up to %d numbers like 1,2,4, got '%s'",
				       PASS_MAX, e->opt.pass_at);
		else
			e->ks[e->n_ks++] = (size_t)k;
		at += n + (at[n] == ',');
	}
	spar_str_release(&one);
	return rc;
}

static int check_options(const struct spar_evaluation_opt *o, struct spar_err *err)
{
	if (o->original && !o->model)
		return spar_fail(err, SPAR_USAGE, "--original is compared with --model: give both");
	if (o->original_records && (o->model || o->policies.n))
		return spar_fail(err, SPAR_USAGE,
				 "--original-records is compared with records: no --model, no --policy");
	if (o->samples > 1 && o->model && o->sampler.sampling.temperature == 0)
		return spar_fail(err, SPAR_USAGE, "several greedy samples are all equal: give --temperature=1");
	return 0;
}

int spar_evaluation_new(struct spar_evaluation **out, const struct spar_evaluation_opt *opt, struct spar_filter *f,
			const struct spar_listener *on, struct spar_err *err)
{
	struct spar_evaluation *e = *out = spar_calloc(1, sizeof *e);
	e->opt = *opt;
	e->f = f;
	e->on = *on;
	spar_str_init(&e->out);
	if (opt->model)
		add_arm(e, "", "finetuned", opt->model, NULL);
	if (opt->original)
		add_arm(e, "", "original", opt->original, NULL);
	for (size_t i = 0; i < opt->policies.n; i++)
		add_arm(e, "policy:", opt->policies.items[i], NULL, opt->policies.items[i]);
	e->records = e->n_arms;
	add_arm(e, "", opt->original_records ? "finetuned" : "records", NULL, NULL);
	if (opt->original_records)
		add_arm(e, "", "original", NULL, NULL);
	int rc = check_options(opt, err);
	if (rc == 0)
		rc = read_ks(e, err);
	if (rc == 0)
		rc = spar_jq_new(&e->prompt, opt->messages ? opt->messages : SPAR_TASK_PROMPT, err);
	if (rc == 0)
		rc = spar_jq_new(&e->success, opt->judge ? opt->judge : SPAR_OUTCOME_JUDGE, err);
	if (rc < 0) {
		spar_evaluation_free(e);
		*out = NULL;
	}
	return rc;
}

void spar_evaluation_free(struct spar_evaluation *e)
{
	if (!e)
		return;
	for (size_t i = 0; i < e->n_arms; i++) {
		spar_outcomes_release(&e->arms[i].outcomes);
		free(e->arms[i].name);
	}
	for (size_t i = 0; i < e->n_items; i++) {
		spar_task_release(&e->items[i].task);
		spar_str_release(&e->items[i].line);
	}
	free(e->arms);
	free(e->items);
	spar_task_ids_clear(&e->seen);
	spar_jq_free(e->prompt);
	spar_jq_free(e->success);
	spar_str_release(&e->out);
	free(e);
}

enum spar_exit spar_evaluation_failures(const struct spar_evaluation *e, uint64_t *n_failed, uint64_t *n)
{
	*n_failed = e->n_failed;
	*n = e->n_episodes;
	return e->code;
}

/* ---- rows ---- */

/* `rollout` is borrowed. */
static int add_row(struct spar_evaluation *e, struct spar_arm *arm, jv rollout)
{
	struct spar_outcomes *o = &arm->outcomes;
	int rc = spar_outcomes_add(o, rollout, e->success, &e->f->err);
	if (rc < 0)
		return rc;
	e->n_episodes++;
	spar_str_clear(&e->out);
	spar_outcome_json(&o->items[o->n - 1], rollout, arm->name, &e->out);
	return spar_filter_put_line(e->f, e->out.data, e->out.len);
}

static void complain(struct spar_evaluation *e, const struct spar_arm *arm, const struct spar_play *p)
{
	if (e->n_failed++ < FAILURES_SHOWN)
		spar_listener_warn(&e->on, "%s: task %s sample %" PRId64 ": %s", arm->name, p->task->id, p->sample,
				   p->error);
	if (e->code != SPAR_FAIL)
		e->code = p->code;
}

/* An episode is judged as the rollout record it would make. */
static int add_play(struct spar_evaluation *e, struct spar_arm *arm, const struct item *item, const struct spar_play *p)
{
	const struct spar_str no_how = SPAR_STR_INIT;
	spar_str_clear(&e->out);
	spar_play_record(p, e->opt.samples, -1, &item->line, &no_how, &e->out);
	if (p->error)
		complain(e, arm, p);
	jv rollout = jv_parse_sized(e->out.data, (int)e->out.len);
	int rc = add_row(e, arm, rollout);
	jv_free(rollout);
	return rc < 0 ? spar_fail_at(&e->f->err, "task %s", item->task.id) : 0;
}

/* ---- reading ---- */

static void keep(struct spar_evaluation *e, const struct spar_record *rec, const struct spar_task *task)
{
	e->items = spar_realloc(e->items, (e->n_items + 1) * sizeof *e->items);
	struct item *item = &e->items[e->n_items++];
	*item = (struct item){.task = *task, .line = SPAR_STR_INIT};
	spar_str_add(&item->line, rec->text.data, rec->text.len);
}

static int take_task(struct spar_evaluation *e, const struct spar_record *rec)
{
	struct spar_err *err = &e->f->err;
	struct spar_task task;
	int rc = spar_task_read(&task, rec, e->prompt, err);
	if (rc < 0)
		return rc;
	if (rc == 0)
		return spar_fail(err, SPAR_INPUT, "not a task: it has neither messages nor prompt nor env");
	rc = 0;
	if (!e->records)
		rc = spar_fail(err, SPAR_USAGE, "a task needs --model or --policy to play it");
	else if (jv_is_valid(task.reset) && !e->opt.sampler.env)
		rc = spar_fail(err, SPAR_INPUT, "the task needs an environment (--env)");
	else if (!spar_task_ids_add(&e->seen, task.id))
		rc = spar_fail(err, SPAR_INPUT, ".id: '%s' is there twice", task.id);
	if (rc == 0)
		keep(e, rec, &task);
	else
		spar_task_release(&task);
	return rc;
}

static int read_original(struct spar_evaluation *e)
{
	const char *path = e->opt.original_records, *line;
	struct spar_reader *in;
	struct spar_record rec;
	size_t n;
	int rc = spar_reader_open(&in, path, &e->f->err);
	if (rc < 0)
		return rc;
	spar_record_init(&rec);
	while (rc == 0 && (rc = spar_reader_next(in, &line, &n, &e->f->err)) > 0) {
		rc = spar_record_parse(&rec, line, n, &e->f->err);
		if (rc == 0 && spar_record_is(&rec, "rollout"))
			rc = add_row(e, &e->arms[e->records + 1], rec.value);
		if (rc < 0)
			spar_fail_at(&e->f->err, "%s:%zu", path, spar_reader_line(in));
	}
	spar_record_release(&rec);
	spar_reader_close(in);
	return rc;
}

int spar_evaluation_read(struct spar_evaluation *e)
{
	struct spar_record *rec;
	int rc;
	while ((rc = spar_filter_next(e->f, &rec)) > 0) {
		if (spar_record_is(rec, "rollout"))
			rc = add_row(e, &e->arms[e->records], rec->value);
		else if (!*rec->type || spar_record_is(rec, "task"))
			rc = take_task(e, rec);
		else
			rc = spar_filter_put(e->f, rec);
		if (rc == -(int)SPAR_INPUT)
			rc = spar_filter_reject(e->f, rec);
		if (rc < 0)
			return rc;
	}
	if (rc == 0 && e->opt.original_records)
		rc = read_original(e);
	if (rc == 0 && !e->n_items && !e->n_episodes)
		rc = spar_fail(&e->f->err, SPAR_INPUT, "no tasks and no rollouts in the input");
	return rc;
}

/* ---- playing ---- */

static int open_arm(struct spar_evaluation *e, struct spar_arm *arm, struct spar_sampler **out)
{
	struct spar_sampler_opt opt = e->opt.sampler;
	char *folder = arm->model ? spar_policy_resolve(arm->model, &arm->version, &e->f->err) : NULL;
	if (arm->model && !folder)
		return -(int)e->f->err.code;
	opt.model = folder;
	opt.actor = arm->policy;
	opt.on = e->on;
	int rc = spar_sampler_new(out, &opt, &e->f->err);
	free(folder);
	if (rc == 0)
		memcpy(arm->hash, spar_sampler_hash(*out), strlen(spar_sampler_hash(*out)) + 1);
	return rc;
}

/* Give the sampler what it has room for; *added counts episodes: sample by sample, task by task. */
static int feed(const struct spar_evaluation *e, struct spar_sampler *s, size_t total, size_t *added)
{
	size_t per_task = (size_t)e->opt.samples;
	int rc = 0;
	for (; rc == 0 && *added < total && !spar_sampler_full(s); ++*added)
		rc = spar_sampler_add(s, &e->items[*added / per_task].task, (int64_t)(*added % per_task), &e->f->err);
	return rc;
}

static int play_arm(struct spar_evaluation *e, struct spar_arm *arm)
{
	struct spar_sampler *s;
	size_t added = 0, taken = 0, per_task = (size_t)e->opt.samples, total = e->n_items * per_task;
	double start_s = spar_clock_s();
	int rc = open_arm(e, arm, &s);
	if (rc < 0)
		return rc;
	while (rc == 0 && taken < total) {
		if ((rc = feed(e, s, total, &added)) < 0 || (rc = spar_sampler_step(s, &e->f->err)) < 0)
			break;
		rc = 0;
		for (struct spar_play *p; rc == 0 && (p = spar_sampler_take(s)); taken++) {
			rc = add_play(e, arm, &e->items[taken / per_task], p);
			spar_play_free(p);
		}
		spar_listener_progress(&e->on, taken, total, "%s, %.0f tok/s", arm->name,
				       (double)spar_sampler_tokens(s) / (spar_clock_s() - start_s + 1e-9));
	}
	spar_sampler_free(s);
	return rc;
}

int spar_evaluation_play(struct spar_evaluation *e)
{
	int rc = 0;
	for (size_t i = 0; rc == 0 && e->n_items && i < e->records; i++)
		rc = play_arm(e, &e->arms[i]);
	return rc;
}

static bool compares(const struct spar_evaluation *e)
{
	return e->opt.original_records || (e->opt.original && e->n_items);
}

bool spar_evaluation_regressed(const struct spar_evaluation *e)
{
	struct spar_delta d;
	struct spar_rng rng;
	if (!compares(e))
		return false;
	spar_rng_init(&rng, e->opt.sampler.seed, "bootstrap", 9);
	spar_outcomes_compare(&d, &e->arms[0].outcomes, &e->arms[1].outcomes, &rng);
	return d.tasks && d.success_ci.hi < 0;
}

void spar_evaluation_sum(struct spar_evaluation *e, struct spar_str *json, struct spar_str *table)
{
	const struct spar_summary s = {.arms = e->arms,
				       .n_arms = e->n_arms,
				       .compare = compares(e),
				       .ks = e->ks,
				       .n_ks = e->n_ks,
				       .samples = e->opt.samples,
				       .temperature = e->opt.sampler.sampling.temperature,
				       .seed = e->opt.sampler.seed};
	spar_summarize(&s, json, table);
}
