/* Outcomes: what is read from a rollout, and the figures of small sets that can be checked by hand. */
#include "rl/outcome.h"
#include "record/jq.h"
#include "unit.h"
#include <stdlib.h>

static struct spar_jq *judge;
static struct spar_rng rng;

static int add(struct spar_outcomes *o, const char *json, struct spar_err *err)
{
	jv v = jv_parse(json);
	*err = (struct spar_err){0};
	int rc = spar_outcomes_add(o, v, judge, err);
	jv_free(v);
	return rc;
}

static void add_reward(struct spar_outcomes *o, const char *task, int sample, const char *reward)
{
	struct spar_err err;
	char json[128];
	snprintf(json, sizeof json, "{\"group\":\"%s\",\"sample\":%d,\"turns\":[],\"reward\":%s}", task, sample,
		 reward);
	CHECK(add(o, json, &err) == 0);
}

static void reading(void)
{
	struct spar_outcomes o = {0};
	struct spar_err err;
	struct spar_str row = SPAR_STR_INIT;
	const char *rollout =
	    "{\"group\":\"t\",\"sample\":2,\"task\":{\"difficulty\":\"mixed\",\"seed\":\"7\"},\"turns\":["
	    "{\"completion\":\"a\",\"env\":{\"info\":{\"valid\":true}}},"
	    "{\"completion\":\"b\",\"env\":{\"info\":{\"valid\":false}}}],"
	    "\"env\":{\"return\":0.25,\"success\":false,\"end\":\"claim\",\"info\":{\"difficulty\":\"easy\"}},"
	    "\"reward\":9}";
	CHECK(add(&o, rollout, &err) == 0);
	const struct spar_outcome *x = &o.items[0];
	CHECK(x->judged && !x->success && !x->failed && x->result == 0.25); /* the environment before the reward */
	CHECK(x->n_turns == 2 && x->n_valid == 1 && x->n_invalid == 1);
	CHECK_STR(x->difficulty, "easy");
	jv v = jv_parse(rollout);
	spar_outcome_json(x, v, "finetuned", &row);
	CHECK_STR(row.data, "{\"type\":\"eval\",\"model\":\"finetuned\",\"id\":\"t\",\"sample\":2,\"success\":false,"
			    "\"return\":0.25,\"difficulty\":\"easy\",\"seed\":\"7\",\"turns\":2,\"invalid_actions\":1,"
			    "\"end\":\"claim\",\"completions\":[\"a\",\"b\"]}");
	jv_free(v);
	CHECK(add(&o, "{\"group\":\"t\",\"sample\":3,\"error\":\"late\",\"turns\":[],\"env\":null}", &err) == 0);
	CHECK(o.items[1].failed && !o.items[1].judged && isnan(o.items[1].result));
	CHECK(add(&o, "{\"group\":\"t\",\"sample\":4,\"turns\":[],\"env\":null,\"reward\":null}", &err) == 0);
	CHECK(!o.items[2].failed && !o.items[2].judged);
	CHECK(add(&o, "{\"sample\":4}", &err) == -SPAR_INPUT && strstr(err.msg, ".group"));
	CHECK(o.n == 3);
	spar_str_release(&row);
	spar_outcomes_release(&o);
}

static void figures(void)
{
	struct spar_outcomes o = {0};
	struct spar_figures f;
	size_t n_tasks;
	/* Task a: 1 of 4 right; b: 2 of 2, and one without a reward; lines in any order. */
	add_reward(&o, "b", 0, "1");
	for (int i = 3; i >= 0; i--)
		add_reward(&o, "a", i, i == 2 ? "1" : "0");
	add_reward(&o, "b", 1, "null");
	add_reward(&o, "b", 2, "1.5");
	spar_outcomes_sort(&o);
	spar_figures(&f, &o, NULL, &rng);
	CHECK(f.tasks == 2 && f.episodes == 7 && f.unjudged == 1 && f.failed == 0);
	CHECK_NEAR(f.success_rate, (0.25 + 1) / 2, 1e-12);
	CHECK_NEAR(f.mean_return, (0.25 + 1.25) / 2, 1e-12);
	CHECK(f.success_ci.lo == 0.25 && f.success_ci.hi == 1); /* two tasks: both, or one of them twice */
	CHECK(isnan(f.invalid_share));
	CHECK_NEAR(spar_outcomes_pass_at(&o, 1, &n_tasks), (0.25 + 1) / 2, 1e-12);
	CHECK(n_tasks == 2);
	CHECK_NEAR(spar_outcomes_pass_at(&o, 4, &n_tasks), 1, 1e-12);
	CHECK(n_tasks == 1); /* b has two judged samples */
	CHECK(isnan(spar_outcomes_pass_at(&o, 5, &n_tasks)) && n_tasks == 0);
	spar_figures(&f, &o, "easy", &rng);
	CHECK(f.tasks == 0 && isnan(f.success_rate));
	spar_outcomes_release(&o);
}

static void pairs(void)
{
	struct spar_outcomes a = {0}, b = {0};
	struct spar_delta d;
	char task[8];
	for (int i = 0; i < 20; i++) { /* a solves 15, b 10 of the same; two of b's tasks are not a's */
		snprintf(task, sizeof task, "t%02d", i);
		add_reward(&a, task, 0, i < 15 ? "1" : "0");
		snprintf(task, sizeof task, "t%02d", i + 2);
		add_reward(&b, task, 0, i + 2 < 10 ? "1" : "0");
	}
	spar_outcomes_sort(&a);
	spar_outcomes_sort(&b);
	spar_outcomes_compare(&d, &a, &b, &rng);
	CHECK(d.tasks == 18);
	CHECK_NEAR(d.success_rate, 5 / 18.0, 1e-12);
	CHECK_NEAR(d.mean_return, 5 / 18.0, 1e-12);
	CHECK(d.success_ci.lo > 0 && d.success_ci.lo < d.success_rate && d.success_ci.hi > d.success_rate &&
	      d.success_ci.hi < 0.6);
	spar_outcomes_release(&a);
	spar_outcomes_release(&b);
}

int main(void)
{
	struct spar_err err = {0};
	CHECK(spar_jq_new(&judge, SPAR_OUTCOME_JUDGE, &err) == 0);
	spar_rng_init(&rng, 0, "bootstrap", 9);
	reading();
	figures();
	pairs();
	spar_jq_free(judge);
	return unit_done();
}
