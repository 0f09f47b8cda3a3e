/* spar eval - how well do models, and the environment's own policies, solve tasks. */
#include "base/file.h"
#include "base/opt.h"
#include "base/progress.h"
#include "record/record.h"
#include "rl/outcome.h"
#include "rl/sampler.h"
#include "rl/task.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct spar_usage usage = {
    "eval", "[--model=DIR [--original=DIR]] [--policy=NAME]... [options] [FILE] <tasks >rows",
    "Play every task with each model and policy, one after the other, and compare. Rollout records in the input are "
    "judged as they are. One row for each episode, then a record with the summary; a table goes to standard error."};

#define PASS_MAX 16
#define FAILURES_SHOWN 10

/* One contestant. */
struct arm {
	char *name;                 /* "finetuned", "original", "policy:NAME", "records" */
	const char *model, *policy; /* a folder, or the name of a built-in policy; both NULL for "records" */
	char hash[17];
	struct spar_outcomes outcomes;
};

struct item {
	struct spar_task task;
	struct spar_str line;
};

struct work {
	struct spar_filter f;
	struct spar_sampler_opt opt;
	const char *model, *original, *messages, *judge, *pass_at, *summary;
	struct spar_opt_list policies;
	int64_t size;
	/* state */
	struct spar_jq *prompt, *success;
	struct item *items;
	size_t n_items;
	struct spar_task_ids seen;
	struct arm *arms; /* (n_arms): "records" is the last one */
	size_t n_arms;
	size_t ks[PASS_MAX], n_ks;
	struct spar_str out;
	uint64_t n_failed, n_episodes;
	enum spar_exit worst;
};

/* ---- rows ---- */

/* `rollout` is borrowed. */
static int add_row(struct work *w, struct arm *arm, jv rollout)
{
	struct spar_outcomes *o = &arm->outcomes;
	int rc = spar_outcomes_add(o, rollout, w->success, &w->f.err);
	if (rc < 0)
		return rc;
	w->n_episodes++;
	spar_str_clear(&w->out);
	spar_outcome_json(&o->items[o->n - 1], rollout, arm->name, &w->out);
	return spar_filter_put_line(&w->f, w->out.data, w->out.len);
}

static void complain(struct work *w, const struct arm *arm, const struct spar_play *p)
{
	if (w->n_failed++ < FAILURES_SHOWN)
		spar_warn("eval", "%s: task %s sample %" PRId64 ": %s", arm->name, p->task->id, p->sample, p->error);
	if (w->worst != SPAR_FAIL)
		w->worst = p->code;
}

/* An episode is judged as the rollout record it would make. */
static int add_play(struct work *w, struct arm *arm, const struct item *item, const struct spar_play *p)
{
	const struct spar_str no_how = SPAR_STR_INIT;
	spar_str_clear(&w->out);
	spar_play_record(p, w->size, -1, &item->line, &no_how, &w->out);
	if (p->error)
		complain(w, arm, p);
	jv rollout = jv_parse_sized(w->out.data, (int)w->out.len);
	int rc = add_row(w, arm, rollout);
	jv_free(rollout);
	return rc < 0 ? spar_fail_at(&w->f.err, "task %s", item->task.id) : 0;
}

/* ---- playing ---- */

static int open_arm(struct work *w, struct arm *arm, struct spar_sampler **out)
{
	struct spar_sampler_opt opt = w->opt;
	opt.model = arm->model;
	opt.actor = arm->policy;
	int rc = spar_sampler_new(out, &opt, &w->f.err);
	if (rc < 0)
		return rc;
	memcpy(arm->hash, spar_sampler_hash(*out), strlen(spar_sampler_hash(*out)) + 1);
	if (arm->model && spar_sampler_no_template(*out) && !w->f.quiet)
		spar_warn("eval", "%s: no chat template: messages are written as 'role: content' lines", arm->model);
	return 0;
}

static int play(struct work *w, struct arm *arm)
{
	struct spar_sampler *s;
	struct spar_progress progress;
	size_t added = 0, taken = 0, total = w->n_items * (size_t)w->size, per_task = (size_t)w->size;
	double start = spar_clock_s();
	int rc = open_arm(w, arm, &s), stepped = 1;
	if (rc < 0)
		return rc;
	spar_progress_begin(&progress, "eval", "episodes", total, w->f.quiet);
	while (rc == 0 && stepped > 0) {
		for (; rc == 0 && added < total && !spar_sampler_full(s); added++)
			rc = spar_sampler_add(s, &w->items[added / per_task].task, (int64_t)(added % per_task),
					      &w->f.err);
		stepped = rc == 0 ? spar_sampler_step(s, &w->f.err) : rc;
		for (struct spar_play *p; rc == 0 && (p = spar_sampler_take(s)); taken++) {
			rc = add_play(w, arm, &w->items[taken / per_task], p);
			spar_play_free(p);
		}
		spar_progress_tick(&progress, taken, "%s, %.0f tok/s", arm->name,
				   (double)spar_sampler_tokens(s) / (spar_clock_s() - start + 1e-9));
		if (stepped == 0 && added < total)
			stepped = 1;
	}
	spar_progress_end(&progress);
	spar_sampler_free(s);
	return rc < 0 ? rc : stepped;
}

/* ---- reading ---- */

static int keep(struct work *w, const struct spar_record *rec, const struct spar_task *task)
{
	w->items = spar_realloc(w->items, (w->n_items + 1) * sizeof *w->items);
	struct item *item = &w->items[w->n_items++];
	*item = (struct item){.task = *task, .line = SPAR_STR_INIT};
	spar_str_add(&item->line, rec->text.data, rec->text.len);
	return 0;
}

static int take_task(struct work *w, const struct spar_record *rec)
{
	struct spar_task task;
	int rc = spar_task_read(&task, rec, w->prompt, &w->f.err);
	if (rc < 0)
		return rc;
	if (rc == 0)
		return spar_fail(&w->f.err, SPAR_INPUT, "not a task: it has neither messages nor prompt nor env");
	if (w->n_arms == 1)
		rc = spar_fail(&w->f.err, SPAR_USAGE, "a task needs --model or --policy to play it");
	else if (jv_is_valid(task.reset) && !w->opt.env)
		rc = spar_fail(&w->f.err, SPAR_INPUT, "the task needs an environment (--env)");
	else if (!spar_task_ids_add(&w->seen, task.id))
		rc = spar_fail(&w->f.err, SPAR_INPUT, ".id: '%s' is there twice", task.id);
	if (rc > 0)
		return keep(w, rec, &task);
	spar_task_release(&task);
	return rc;
}

/* All tasks are kept, as each contestant plays them in turn; rollouts become rows at once. */
static int read_all(struct work *w)
{
	struct spar_record *rec;
	int rc;
	while ((rc = spar_filter_next(&w->f, &rec)) > 0) {
		if (spar_record_is(rec, "rollout"))
			rc = add_row(w, &w->arms[w->n_arms - 1], rec->value);
		else if (!*rec->type || spar_record_is(rec, "task"))
			rc = take_task(w, rec);
		else
			rc = spar_filter_put(&w->f, rec);
		if (rc == -(int)SPAR_INPUT)
			rc = spar_filter_reject(&w->f, rec);
		if (rc < 0)
			return rc;
	}
	if (rc == 0 && !w->n_items && !w->n_episodes)
		rc = spar_fail(&w->f.err, SPAR_INPUT, "no tasks and no rollouts in the input");
	return rc;
}

/* ---- summary ---- */

static void add_pass_at(struct spar_str *out, const struct work *w, const struct arm *arm)
{
	size_t n_tasks;
	spar_str_adds(out, ",\"pass_at\":{");
	for (size_t i = 0; i < w->n_ks; i++) {
		spar_str_addf(out, i ? ",\"%zu\":" : "\"%zu\":", w->ks[i]);
		spar_str_add_double(out, spar_outcomes_pass_at(&arm->outcomes, w->ks[i], &n_tasks));
	}
	spar_str_adds(out, "},\"pass_at_tasks\":{");
	for (size_t i = 0; i < w->n_ks; i++) {
		spar_outcomes_pass_at(&arm->outcomes, w->ks[i], &n_tasks);
		spar_str_addf(out, i ? ",\"%zu\":%zu" : "\"%zu\":%zu", w->ks[i], n_tasks);
	}
	spar_str_addc(out, '}');
}

static void show_title(void)
{
	fprintf(stderr, "%-20s %-10s %8s  %-28s %-30s %s\n", "", "", "episodes", "success rate (95 %)",
		"mean return (95 %)", "invalid actions");
}

static void show_figures(const char *name, const char *group, const struct spar_figures *f)
{
	fprintf(stderr, "%-20s %-10s %8zu  ", name, group, f->episodes);
	if (isnan(f->success_rate))
		fprintf(stderr, "%-28s ", "-");
	else
		fprintf(stderr, "%.3f  [%.3f, %.3f]%8s ", f->success_rate, f->success_ci.lo, f->success_ci.hi, "");
	if (isnan(f->mean_return))
		fprintf(stderr, "%-30s ", "-");
	else
		fprintf(stderr, "%+.3f  [%+.3f, %+.3f]%6s ", f->mean_return, f->return_ci.lo, f->return_ci.hi, "");
	fprintf(stderr, isnan(f->invalid_share) ? "-\n" : "%.3f\n", f->invalid_share);
}

static void add_difficulties(struct work *w, const struct arm *arm, const struct spar_rng *rng)
{
	size_t n;
	const char **names = spar_outcomes_difficulties(&arm->outcomes, &n);
	spar_str_adds(&w->out, ",\"difficulty\":{");
	for (size_t i = 0; i < n; i++) {
		struct spar_figures f;
		spar_figures(&f, &arm->outcomes, names[i], rng);
		if (i)
			spar_str_addc(&w->out, ',');
		spar_str_add_json(&w->out, names[i], strlen(names[i]));
		spar_str_adds(&w->out, ":{");
		spar_figures_json(&f, &w->out);
		spar_str_addc(&w->out, '}');
		if (!w->f.quiet)
			show_figures("", names[i], &f);
	}
	spar_str_addc(&w->out, '}');
	free(names);
}

static void add_arm(struct work *w, struct arm *arm, const struct spar_rng *rng)
{
	struct spar_figures f;
	spar_outcomes_sort(&arm->outcomes);
	spar_figures(&f, &arm->outcomes, NULL, rng);
	if (!w->f.quiet)
		show_figures(arm->name, "all", &f);
	spar_str_add_json(&w->out, arm->name, strlen(arm->name));
	spar_str_adds(&w->out, ":{");
	if (arm->model) {
		spar_str_adds(&w->out, "\"path\":");
		spar_str_add_json(&w->out, arm->model, strlen(arm->model));
		spar_str_addf(&w->out, ",\"hash\":\"%s\",", arm->hash);
	}
	spar_figures_json(&f, &w->out);
	if (w->n_ks)
		add_pass_at(&w->out, w, arm);
	add_difficulties(w, arm, rng);
	spar_str_addc(&w->out, '}');
}

static void add_delta(struct work *w, const struct spar_rng *rng)
{
	struct spar_delta d;
	spar_outcomes_compare(&d, &w->arms[0].outcomes, &w->arms[1].outcomes, rng);
	spar_str_adds(&w->out, ",\"delta_vs_original\":{");
	spar_delta_json(&d, &w->out);
	spar_str_addc(&w->out, '}');
	if (!w->f.quiet)
		fprintf(stderr, "%-20s %-10s %8zu  %+.3f [%+.3f, %+.3f]%6s %+.3f  [%+.3f, %+.3f]\n",
			"delta_vs_original", "paired", d.tasks, d.success_rate, d.success_ci.lo, d.success_ci.hi, "",
			d.mean_return, d.return_ci.lo, d.return_ci.hi);
}

/* The last record, and the same object without "type" in --summary. */
static int put_summary(struct work *w)
{
	static const char head[] = "{\"type\":\"eval\",\"summary\":";
	struct spar_rng rng;
	bool some = false;
	spar_rng_init(&rng, w->opt.seed, "bootstrap", 9);
	spar_str_clear(&w->out);
	spar_str_adds(&w->out, head);
	spar_str_adds(&w->out, "{\"models\":{");
	if (!w->f.quiet)
		show_title();
	for (size_t i = 0; i < w->n_arms; i++) {
		if (!w->arms[i].outcomes.n)
			continue;
		if (some)
			spar_str_addc(&w->out, ',');
		add_arm(w, &w->arms[i], &rng);
		some = true;
	}
	spar_str_addc(&w->out, '}');
	if (w->original && w->n_items)
		add_delta(w, &rng);
	spar_str_addf(&w->out, ",\"samples_per_task\":%" PRId64 ",\"temperature\":", w->size);
	spar_str_add_double(&w->out, w->opt.sampling.temperature);
	spar_str_addf(&w->out, ",\"seed\":\"%" PRIu64 "\",\"confidence\":0.95}}", w->opt.seed);
	int rc = spar_filter_put_line(&w->f, w->out.data, w->out.len);
	if (rc == 0 && w->summary) {
		w->out.data[w->out.len - 1] = '\n';
		rc = spar_file_write(w->summary, w->out.data + sizeof head - 1, w->out.len - (sizeof head - 1),
				     &w->f.err);
	}
	return rc;
}

/* ---- main ---- */

static void add_contestant(struct work *w, const char *prefix, const char *name, const char *model, const char *policy)
{
	struct spar_str s = SPAR_STR_INIT;
	spar_str_addf(&s, "%s%s", prefix, name);
	w->arms = spar_realloc(w->arms, (w->n_arms + 1) * sizeof *w->arms);
	w->arms[w->n_arms++] = (struct arm){.name = spar_str_detach(&s), .model = model, .policy = policy};
}

/* "1,2,4" */
static int read_ks(struct work *w)
{
	struct spar_str one = SPAR_STR_INIT;
	int rc = 0;
	for (const char *at = w->pass_at; rc == 0 && at && *at;) {
		size_t n = strcspn(at, ",");
		int64_t k;
		spar_str_clear(&one);
		spar_str_add(&one, at, n);
		if (w->n_ks == PASS_MAX || spar_parse_i64(one.data, 1, 1000000, &k) < 0)
			rc = spar_fail(&w->f.err, SPAR_USAGE,
				       "--pass-at: expected up to %d numbers like 1,2,4, got '%s'", PASS_MAX,
				       w->pass_at);
		else
			w->ks[w->n_ks++] = (size_t)k;
		at += n + (at[n] == ',');
	}
	spar_str_release(&one);
	return rc;
}

static int prepare(struct work *w)
{
	int rc = read_ks(w);
	if (w->model)
		add_contestant(w, "", "finetuned", w->model, NULL);
	if (w->original)
		add_contestant(w, "", "original", w->original, NULL);
	for (size_t i = 0; i < w->policies.n; i++)
		add_contestant(w, "policy:", w->policies.items[i], NULL, w->policies.items[i]);
	add_contestant(w, "", "records", NULL, NULL);
	if (rc == 0)
		rc = spar_jq_new(&w->prompt, w->messages ? w->messages : SPAR_TASK_PROMPT, &w->f.err);
	if (rc == 0)
		rc = spar_jq_new(&w->success, w->judge ? w->judge : SPAR_OUTCOME_JUDGE, &w->f.err);
	return rc;
}

static int finish(struct work *w, int rc)
{
	for (size_t i = 0; i < w->n_arms; i++) {
		spar_outcomes_release(&w->arms[i].outcomes);
		free(w->arms[i].name);
	}
	for (size_t i = 0; i < w->n_items; i++) {
		spar_task_release(&w->items[i].task);
		spar_str_release(&w->items[i].line);
	}
	free(w->arms);
	free(w->items);
	free(w->policies.items);
	spar_task_ids_clear(&w->seen);
	spar_jq_free(w->prompt);
	spar_jq_free(w->success);
	spar_str_release(&w->out);
	rc = spar_filter_finish(&w->f, rc);
	if (w->n_failed)
		fprintf(stderr, "eval: %" PRIu64 " of %" PRIu64 " episodes failed and are not counted\n", w->n_failed,
			w->n_episodes);
	return rc == SPAR_OK && w->n_failed && !w->f.skip_bad ? (int)w->worst : rc;
}

int main(int argc, char **argv)
{
	struct work w = {.f = SPAR_FILTER_INIT("eval"), .opt = SPAR_SAMPLER_DEFAULTS, .size = 1, .out = SPAR_STR_INIT};
	const struct spar_opt table[] = {
	    SPAR_OPT_GROUP("what is evaluated"),
	    SPAR_OPT_STR("model", 'm', &w.model, "DIR", "model folder, also a PEFT adapter: 'finetuned' in the rows"),
	    SPAR_OPT_STR("original", 'o', &w.original, "DIR", "the model to compare with: 'original' in the rows"),
	    SPAR_OPT_LIST("policy", 'p', &w.policies, "NAME",
			  "a built-in policy of the environment (random, heuristic, oracle); any number of them"),
	    SPAR_OPT_INT("num-generations", 'n', &w.size, 1, 1e6, "N", "samples of each task (1)"),
	    SPAR_OPT_STR("messages", 0, &w.messages, "JQ",
			 "prompt of a task: messages or a text (" SPAR_TASK_PROMPT ")"),
	    SPAR_OPT_STR("success", 0, &w.judge, "JQ",
			 "true, false or null of a rollout (what env.success says, else whether the reward reaches 1)"),
	    SPAR_OPT_STR("pass-at", 'k', &w.pass_at, "LIST", "also pass@k for these k, such as 1,2,4"),
	    SPAR_OPT_STR("summary", 0, &w.summary, "FILE", "write the summary here too"),
	    SPAR_OPT_DOUBLE("temperature", 0, &w.opt.sampling.temperature, 0, 1e6, "X", "0 is greedy (0)"),
	    SPAR_SAMPLER_OPTIONS(w.opt),
	    SPAR_OPT_GROUP("records"),
	    SPAR_FILTER_OPTIONS(w.f),
	    SPAR_OPT_END};
	w.opt.sampling.temperature = 0;
	int rest = spar_opt_parse(&usage, table, argc, argv), rc;
	if (rest < 0) {
		free(w.policies.items);
		return -1 - rest;
	}
	if (rest + 1 < argc)
		rc = spar_fail(&w.f.err, SPAR_USAGE, "one input file at most, got '%s' too", argv[rest + 1]);
	else if (w.original && !w.model)
		rc = spar_fail(&w.f.err, SPAR_USAGE, "--original is compared with --model: give both");
	else if (w.size > 1 && w.model && w.opt.sampling.temperature == 0)
		rc = spar_fail(&w.f.err, SPAR_USAGE, "several greedy samples are all equal: give --temperature=1");
	else
		rc = prepare(&w);
	if (rc == 0 && (rc = spar_filter_open(&w.f, argv[rest])) == 0)
		rc = read_all(&w);
	for (size_t i = 0; rc == 0 && w.n_items && i + 1 < w.n_arms; i++)
		rc = play(&w, &w.arms[i]);
	if (rc == 0)
		rc = put_summary(&w);
	return finish(&w, rc);
}
