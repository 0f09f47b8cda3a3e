/* outcome.c - see outcome.h */
#include "rl/outcome.h"
#include "record/record.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- one rollout ---- */

/* The first of two objects that has the key; a NEW reference, invalid if neither has. */
static jv first_of(jv a, jv b, const char *key)
{
	if (spar_has(a, key))
		return jv_object_get(jv_copy(a), jv_string(key));
	return spar_has(b, key) ? jv_object_get(jv_copy(b), jv_string(key)) : jv_invalid();
}

/* Member of a member; a NEW reference. */
static jv inner(jv object, const char *outer, const char *key)
{
	jv o = spar_has(object, outer) ? jv_object_get(jv_copy(object), jv_string(outer)) : jv_invalid();
	jv v = spar_has(o, key) ? jv_object_get(jv_copy(o), jv_string(key)) : jv_invalid();
	jv_free(o);
	return v;
}

static void count_turns(struct spar_outcome *o, jv rollout)
{
	jv turns;
	if (spar_get_kind(rollout, "", "turns", JV_KIND_ARRAY, &turns, NULL) < 0)
		return;
	o->n_turns = (size_t)jv_array_length(jv_copy(turns));
	for (size_t i = 0; i < o->n_turns; i++) {
		jv turn = jv_array_get(jv_copy(turns), (int)i), info = inner(turn, "env", "info");
		bool valid;
		if (spar_get_bool(info, "", "valid", &valid, NULL) == 0) {
			o->n_valid += valid;
			o->n_invalid += !valid;
		}
		jv_free(info);
		jv_free(turn);
	}
	jv_free(turns);
}

/* The environment's words come first: it knows what "mixed" became. */
static jv about(jv rollout, const char *key)
{
	jv info = inner(rollout, "env", "info"), task = jv_object_get(jv_copy(rollout), jv_string("task"));
	jv v = first_of(info, task, key);
	jv_free(info);
	jv_free(task);
	return v;
}

static void read_result(struct spar_outcome *o, jv rollout)
{
	jv of_env = inner(rollout, "env", "return");
	o->result = NAN;
	if (jv_get_kind(of_env) == JV_KIND_NUMBER)
		o->result = jv_number_value(of_env);
	else if (spar_get_double(rollout, "", "reward", &o->result, NULL) < 0)
		o->result = NAN;
	jv_free(of_env);
}

static int read_verdict(struct spar_outcome *o, jv rollout, struct spar_jq *judge, struct spar_err *err)
{
	jv verdict = jv_invalid();
	if (o->failed)
		return 0;
	int rc = spar_jq_run(judge, jv_copy(rollout), &verdict, err);
	jv_kind kind = jv_get_kind(verdict);
	if (rc < 0)
		rc = spar_fail_at(err, "success");
	else if (rc != 1 || (kind != JV_KIND_TRUE && kind != JV_KIND_FALSE && kind != JV_KIND_NULL))
		rc = spar_fail(err, SPAR_INPUT, "success: expected true, false or null, got %s",
			       rc > 1 ? "more than one value" : spar_kind_name(verdict));
	else
		rc = 0;
	o->judged = rc == 0 && kind != JV_KIND_NULL;
	o->success = kind == JV_KIND_TRUE;
	jv_free(verdict);
	return rc;
}

int spar_outcomes_add(struct spar_outcomes *all, jv rollout, struct spar_jq *judge, struct spar_err *err)
{
	struct spar_outcome o = {.failed = spar_has(rollout, "error")};
	const char *task;
	size_t len;
	int rc;
	if ((rc = spar_get_str(rollout, "", "group", &task, &len, err)) < 0 ||
	    (rc = spar_get_i64(rollout, "", "sample", &o.sample, err)) < 0 ||
	    (rc = read_verdict(&o, rollout, judge, err)) < 0)
		return rc;
	jv difficulty = about(rollout, "difficulty");
	o.task = spar_strdup(task);
	if (jv_get_kind(difficulty) == JV_KIND_STRING)
		o.difficulty = spar_strdup(jv_string_value(difficulty));
	jv_free(difficulty);
	count_turns(&o, rollout);
	read_result(&o, rollout);
	all->items = spar_realloc(all->items, (all->n + 1) * sizeof *all->items);
	all->items[all->n++] = o;
	return 0;
}

void spar_outcomes_release(struct spar_outcomes *o)
{
	for (size_t i = 0; i < o->n; i++) {
		free(o->items[i].task);
		free(o->items[i].difficulty);
	}
	free(o->items);
	*o = (struct spar_outcomes){0};
}

/* `v` is consumed; nothing is added if it is not there. */
static void add_value(struct spar_str *out, const char *key, jv v)
{
	if (!jv_is_valid(v)) {
		jv_free(v);
		return;
	}
	jv text = jv_dump_string(v, 0);
	spar_str_addf(out, ",\"%s\":", key);
	spar_str_adds(out, jv_string_value(text));
	jv_free(text);
}

static void add_completions(struct spar_str *out, jv rollout)
{
	jv turns = jv_object_get(jv_copy(rollout), jv_string("turns"));
	int n = jv_get_kind(turns) == JV_KIND_ARRAY ? jv_array_length(jv_copy(turns)) : 0;
	spar_str_adds(out, ",\"completions\":[");
	for (int i = 0; i < n; i++) {
		jv turn = jv_array_get(jv_copy(turns), i);
		const char *text = "";
		size_t len = 0;
		spar_get_str(turn, "", "completion", &text, &len, NULL);
		if (i)
			spar_str_addc(out, ',');
		spar_str_add_json(out, text, len);
		jv_free(turn);
	}
	spar_str_addc(out, ']');
	jv_free(turns);
}

void spar_outcome_json(const struct spar_outcome *o, jv rollout, const char *model, struct spar_str *out)
{
	spar_str_adds(out, "{\"type\":\"eval\",\"model\":");
	spar_str_add_json(out, model, strlen(model));
	spar_str_adds(out, ",\"id\":");
	spar_str_add_json(out, o->task, strlen(o->task));
	spar_str_addf(out, ",\"sample\":%" PRId64 ",\"success\":%s,\"return\":", o->sample,
		      !o->judged   ? "null"
		      : o->success ? "true"
				   : "false");
	spar_str_add_double(out, o->result);
	add_value(out, "difficulty", about(rollout, "difficulty"));
	add_value(out, "seed", about(rollout, "seed"));
	spar_str_addf(out, ",\"turns\":%zu,\"invalid_actions\":%zu", o->n_turns, o->n_invalid);
	add_value(out, "end", inner(rollout, "env", "end"));
	add_completions(out, rollout);
	add_value(out, "error", first_of(rollout, jv_invalid(), "error"));
	spar_str_addc(out, '}');
}

/* ---- many, task by task ---- */

static int by_task(const void *a, const void *b)
{
	const struct spar_outcome *x = a, *y = b;
	int order = strcmp(x->task, y->task);
	return order ? order : (x->sample > y->sample) - (x->sample < y->sample);
}

void spar_outcomes_sort(struct spar_outcomes *o)
{
	if (o->n)
		qsort(o->items, o->n, sizeof *o->items, by_task);
}

/* What the samples of one task come to. */
struct tally {
	const char *task;
	size_t n, judged, successes, n_results;
	double results;
};

static double share(const struct tally *t)
{
	return (double)t->successes / (double)t->judged;
}

static double mean_result(const struct tally *t)
{
	return t->results / (double)t->n_results;
}

/* The next task's tally, from item *at on; false at the end. */
static bool next_task(const struct spar_outcomes *all, size_t *at, struct tally *t)
{
	if (*at == all->n)
		return false;
	*t = (struct tally){.task = all->items[*at].task};
	for (; *at < all->n && !strcmp(all->items[*at].task, t->task); ++*at) {
		const struct spar_outcome *o = &all->items[*at];
		t->n++;
		t->judged += o->judged;
		t->successes += o->judged && o->success;
		if (!o->failed && !isnan(o->result)) {
			t->results += o->result;
			t->n_results++;
		}
	}
	return true;
}

static double mean_of(const double *v, size_t n)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += v[i];
	return n ? sum / (double)n : NAN;
}

/* The outcomes of one difficulty: a view whose items are the caller's to free. */
static struct spar_outcomes select_difficulty(const struct spar_outcomes *all, const char *difficulty)
{
	struct spar_outcomes some = {.items = spar_malloc((all->n + 1) * sizeof *all->items)};
	for (size_t i = 0; i < all->n; i++)
		if (!difficulty || (all->items[i].difficulty && !strcmp(all->items[i].difficulty, difficulty)))
			some.items[some.n++] = all->items[i];
	return some;
}

static void count_episodes(struct spar_figures *f, const struct spar_outcomes *o)
{
	size_t turns = 0, valid = 0, invalid = 0;
	for (size_t i = 0; i < o->n; i++) {
		f->failed += o->items[i].failed;
		f->unjudged += !o->items[i].failed && !o->items[i].judged;
		turns += o->items[i].n_turns;
		valid += o->items[i].n_valid;
		invalid += o->items[i].n_invalid;
	}
	f->episodes = o->n;
	f->mean_turns = o->n ? (double)turns / (double)o->n : NAN;
	f->invalid_share = valid + invalid ? (double)invalid / (double)(valid + invalid) : NAN;
}

void spar_figures(struct spar_figures *f, const struct spar_outcomes *all, const char *difficulty,
		  const struct spar_rng *rng)
{
	struct spar_outcomes some = select_difficulty(all, difficulty);
	double *shares = spar_malloc((some.n + 1) * sizeof *shares);
	double *results = spar_malloc((some.n + 1) * sizeof *results);
	size_t at = 0, n_shares = 0, n_results = 0, judged = 0, successes = 0;
	struct tally t;
	*f = (struct spar_figures){0};
	count_episodes(f, &some);
	while (next_task(&some, &at, &t)) {
		f->tasks++;
		judged += t.judged;
		successes += t.successes;
		if (t.judged)
			shares[n_shares++] = share(&t);
		if (t.n_results)
			results[n_results++] = mean_result(&t);
	}
	f->success_rate = mean_of(shares, n_shares);
	f->success_ci =
	    judged == n_shares ? spar_wilson(successes, judged) : spar_bootstrap_mean(shares, n_shares, rng);
	f->mean_return = mean_of(results, n_results);
	f->return_ci = spar_bootstrap_mean(results, n_results, rng);
	free(shares);
	free(results);
	free(some.items);
}

double spar_outcomes_pass_at(const struct spar_outcomes *o, size_t k, size_t *n_tasks)
{
	size_t at = 0;
	double sum = 0;
	struct tally t;
	*n_tasks = 0;
	while (next_task(o, &at, &t)) {
		double p = spar_pass_at_k(t.judged, t.successes, k);
		if (isnan(p))
			continue;
		sum += p;
		++*n_tasks;
	}
	return *n_tasks ? sum / (double)*n_tasks : NAN;
}

void spar_outcomes_compare(struct spar_delta *d, const struct spar_outcomes *a, const struct spar_outcomes *b,
			   const struct spar_rng *rng)
{
	double *shares = spar_malloc((a->n + 1) * sizeof *shares), *results = spar_malloc((a->n + 1) * sizeof *results);
	size_t at_a = 0, at_b = 0, n_shares = 0, n_results = 0;
	struct tally x, y;
	bool more = next_task(a, &at_a, &x) && next_task(b, &at_b, &y);
	while (more) {
		int order = strcmp(x.task, y.task);
		if (order == 0 && x.judged && y.judged)
			shares[n_shares++] = share(&x) - share(&y);
		if (order == 0 && x.n_results && y.n_results)
			results[n_results++] = mean_result(&x) - mean_result(&y);
		more = (order > 0 || next_task(a, &at_a, &x)) && (order < 0 || next_task(b, &at_b, &y));
	}
	d->tasks = n_shares;
	d->success_rate = mean_of(shares, n_shares);
	d->success_ci = spar_bootstrap_mean(shares, n_shares, rng);
	d->mean_return = mean_of(results, n_results);
	d->return_ci = spar_bootstrap_mean(results, n_results, rng);
	free(shares);
	free(results);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char **spar_outcomes_difficulties(const struct spar_outcomes *o, size_t *n)
{
	const char **names = spar_malloc((o->n + 1) * sizeof *names);
	size_t all = 0;
	for (size_t i = 0; i < o->n; i++)
		if (o->items[i].difficulty)
			names[all++] = o->items[i].difficulty;
	qsort(names, all, sizeof *names, by_name);
	*n = 0;
	for (size_t i = 0; i < all; i++)
		if (!*n || strcmp(names[*n - 1], names[i]) != 0)
			names[(*n)++] = names[i];
	return names;
}

/* ---- JSON ---- */

static void add_number(struct spar_str *out, const char *key, double v)
{
	spar_str_addf(out, ",\"%s\":", key);
	spar_str_add_double(out, v);
}

static void add_interval(struct spar_str *out, const char *key, struct spar_interval ci)
{
	spar_str_addf(out, ",\"%s\":[", key);
	spar_str_add_double(out, ci.lo);
	spar_str_addc(out, ',');
	spar_str_add_double(out, ci.hi);
	spar_str_addc(out, ']');
}

void spar_figures_json(const struct spar_figures *f, struct spar_str *out)
{
	spar_str_addf(out, "\"tasks\":%zu,\"episodes\":%zu,\"failed\":%zu,\"unjudged\":%zu", f->tasks, f->episodes,
		      f->failed, f->unjudged);
	add_number(out, "success_rate", f->success_rate);
	add_interval(out, "success_rate_ci", f->success_ci);
	add_number(out, "mean_return", f->mean_return);
	add_interval(out, "mean_return_ci", f->return_ci);
	add_number(out, "mean_turns", f->mean_turns);
	add_number(out, "invalid_action_share", f->invalid_share);
}

void spar_delta_json(const struct spar_delta *d, struct spar_str *out)
{
	spar_str_addf(out, "\"tasks\":%zu", d->tasks);
	add_number(out, "success_rate", d->success_rate);
	add_interval(out, "success_rate_ci", d->success_ci);
	add_number(out, "mean_return", d->mean_return);
	add_interval(out, "mean_return_ci", d->return_ci);
}
