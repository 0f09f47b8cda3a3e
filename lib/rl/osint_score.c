#include "rl/osint_score.h"
#include "env/action.h"
#include "env/osint/record.h"
#include "rl/osint_novelty.h"
#include "rl/osint_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS_WORTH 0.05 /* what a reward gains from worker agents at most */
#define PARL_MOST 0.44     /* the largest bonus of spar_osint_reference_parl */

struct spar_osint_scorer {
	struct spar_osint_scorer_opt opt;
	struct spar_osint_graph_cache graphs;
	struct spar_osint_frozen frozen;
	/* profile reference */
	struct spar_osint_original original;
	struct spar_osint_reference formulas;
	jv formulas_of; /* the graph they were made for */
};

/* ---- writing down ---- */

static const char *const names[] = {
    [SPAR_OSINT_ANSWERER] = "osint-answerer", [SPAR_OSINT_GENERATOR] = "osint-generator"};

static void add_number(struct spar_str *out, const char *key, double v)
{
	spar_str_addf(out, ",\"%s\":", key);
	spar_str_add_double(out, v);
}

static void set_reward(const struct spar_osint_scorer *s, struct spar_record *rec, double reward,
		       const struct spar_str *verdict)
{
	struct spar_str rewards = SPAR_STR_INIT;
	spar_str_addf(&rewards, "{\"%s\":", names[s->opt.role]);
	spar_str_add_double(&rewards, reward);
	spar_str_addc(&rewards, '}');
	spar_record_set(rec, "rewards", rewards.data, rewards.len);
	spar_record_set_double(rec, "reward", reward);
	spar_record_set(rec, "verdict", verdict->data, verdict->len);
	spar_str_release(&rewards);
}

/* ---- worker agents: counted from what ran ---- */

/* An agent has finished that was not cut off and said something. */
static bool has_finished(jv agent)
{
	const char *text, *reason;
	size_t n;
	bool finished = false;
	jv turns = jv_object_get(jv_copy(agent), jv_string("turns"));
	if (spar_get_str(agent, "", "completion", &text, &n, NULL) == 0 && n && jv_get_kind(turns) == JV_KIND_ARRAY &&
	    jv_array_length(jv_copy(turns))) {
		jv last = jv_array_get(jv_copy(turns), jv_array_length(jv_copy(turns)) - 1);
		finished = spar_get_str(last, "", "finish_reason", &reason, &n, NULL) == 0 && !strcmp(reason, "stop");
		jv_free(last);
	}
	jv_free(turns);
	return finished;
}

static double worker_bonus(jv task)
{
	jv workers = jv_object_get(jv_copy(task), jv_string("workers"));
	struct spar_osint_telemetry t = SPAR_OSINT_TELEMETRY;
	jv list = jv_get_kind(workers) == JV_KIND_OBJECT ? jv_array_append(jv_array(), workers) : workers;
	int n = jv_get_kind(list) == JV_KIND_ARRAY ? jv_array_length(jv_copy(list)) : 0;
	for (int i = 0; i < n; i++) {
		jv one = jv_array_get(jv_copy(list), i);
		t.spawned++;
		t.finished += has_finished(one);
		jv_free(one);
	}
	jv_free(list);
	t.breadth = t.spawned;
	t.depth = t.spawned > 0;
	return t.spawned > 0 ? WORKERS_WORTH * spar_osint_reference_parl(&t, n).aux / PARL_MOST : 0;
}

/* ---- the judge ---- */

/* Call `see` on each completion of the frozen answerer. */
static void each_judged(jv rollout, void (*see)(void *ctx, const char *text, size_t n), void *ctx)
{
	jv judge = jv_object_get(jv_copy(rollout), jv_string("judge"));
	jv list = jv_get_kind(judge) == JV_KIND_OBJECT ? jv_array_append(jv_array(), judge) : judge;
	int n = jv_get_kind(list) == JV_KIND_ARRAY ? jv_array_length(jv_copy(list)) : 0;
	for (int i = 0; i < n; i++) {
		jv one = jv_array_get(jv_copy(list), i);
		const char *text;
		size_t len;
		if (jv_get_kind(one) == JV_KIND_OBJECT && !spar_has(one, "error") &&
		    spar_get_str(one, "", "completion", &text, &len, NULL) == 0)
			see(ctx, text, len);
		jv_free(one);
	}
	jv_free(list);
}

struct trial {
	const struct spar_osint_graph *graph;
	int32_t answer;
	int n, n_right;
};

static void try_answer(void *ctx, const char *text, size_t n)
{
	struct trial *t = ctx;
	struct spar_osint_claim claim;
	spar_osint_claim_read(&claim, t->graph, spar_action_find(text, n));
	t->n++;
	t->n_right += spar_osint_answered(t->graph, &claim, t->answer);
	spar_osint_claim_release(&claim);
}

/* ---- generator, sound ---- */

struct sample {
	struct spar_osint_verdict verdict;
	struct spar_osint_ask ask; /* of a valid task */
	struct trial trial;        /* the judge's */
	double consistency;
};

static int read_sample(struct spar_osint_scorer *s, const struct spar_osint_graph *g, uint64_t graph, jv rollout,
		       struct sample *out, struct spar_err *err)
{
	struct spar_osint_proposal p;
	int rc = spar_osint_propose(&p, g, rollout, s->opt.fixed, &s->opt.limits, err);
	*out = (struct sample){.verdict = p.verdict};
	if (rc == 0) {
		size_t n = p.claim.n_edges + p.claim.n_malformed;
		out->consistency = n ? (double)p.verdict.n_true_on_path / (double)n : 0;
	}
	if (rc == 0 && p.verdict.rung == SPAR_OSINT_VALID) {
		out->ask = spar_osint_ask_of(p.graph, &p.verdict.signature, graph);
		out->trial = (struct trial){p.graph, p.claim.edges[p.claim.n_edges - 1].dst, 0, 0};
		each_judged(rollout, try_answer, &out->trial);
		out->trial.graph = NULL; /* it ends with the proposal */
	}
	spar_osint_proposal_release(&p);
	return rc;
}

static double hardness(const struct trial *t)
{
	double p = t->n ? (double)t->n_right / t->n : 0;
	if (!t->n)
		return 0;
	return t->n_right ? 4 * p * (1 - p) : 0.5;
}

static double diversity(const struct spar_osint_scorer *s, const struct sample *all, size_t n, size_t self)
{
	double most = spar_osint_frozen_likeness(&s->frozen, &all[self].ask), sum = 0;
	size_t others = 0;
	for (size_t i = 0; i < n; i++) {
		if (i == self || all[i].verdict.rung != SPAR_OSINT_VALID)
			continue;
		sum += spar_osint_likeness(&all[self].ask, &all[i].ask);
		others++;
	}
	return (1 - most) * (others ? 1 - sum / (double)others : 1);
}

static void add_reasons(struct spar_str *out, unsigned reasons, const char *(*name)(unsigned bit))
{
	bool some = false;
	spar_str_adds(out, ",\"reasons\":[");
	for (unsigned bit = 1; bit && bit <= reasons; bit <<= 1) {
		if (reasons & bit)
			spar_str_addf(out, "%s\"%s\"", some ? "," : "", name(bit));
		some = some || reasons & bit;
	}
	spar_str_addc(out, ']');
}

static void score_sample(const struct spar_osint_scorer *s, const struct sample *all, size_t n, size_t self,
			 double bonus, struct spar_record *rec)
{
	const struct sample *x = &all[self];
	struct spar_str verdict = SPAR_STR_INIT;
	bool valid = x->verdict.rung == SPAR_OSINT_VALID;
	double v = valid ? 1 : (x->verdict.rung + x->consistency / 2) / SPAR_OSINT_VALID,
	       h = valid ? hardness(&x->trial) : 0, d = valid ? diversity(s, all, n, self) : 0,
	       reward = s->opt.validity * v;
	if (valid)
		reward += s->opt.hardness * h + s->opt.diversity * d + s->opt.consistency * x->consistency + bonus;
	spar_str_addf(&verdict, "{\"profile\":\"sound\",\"rung\":\"%s\"", spar_osint_rungs[x->verdict.rung]);
	add_reasons(&verdict, x->verdict.reasons, spar_osint_reason);
	add_number(&verdict, "validity", v);
	add_number(&verdict, "hardness", h);
	add_number(&verdict, "diversity", d);
	add_number(&verdict, "consistency", x->consistency);
	add_number(&verdict, "solve_rate", x->trial.n ? (double)x->trial.n_right / x->trial.n : NAN);
	add_number(&verdict, "workers", valid ? bonus : 0);
	spar_str_addc(&verdict, '}');
	set_reward(s, rec, reward, &verdict);
	spar_str_release(&verdict);
}

/* The members that did not fail; `rollouts` has room for all of them. */
static size_t played(struct spar_group *group, struct spar_record **rollouts)
{
	size_t n = 0;
	for (size_t i = 0; i < group->n; i++)
		if (!spar_has(group->members[i].rec.value, "error"))
			rollouts[n++] = &group->members[i].rec;
	return n;
}

static int score_tasks(struct spar_osint_scorer *s, const struct spar_osint_graph *g, jv task,
		       struct spar_record **rollouts, size_t n, struct spar_err *err)
{
	struct sample *all = spar_calloc(n + 1, sizeof *all);
	uint64_t graph = spar_osint_graph_hash(task);
	double bonus = worker_bonus(task);
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = read_sample(s, g, graph, rollouts[i]->value, &all[i], err);
	for (size_t i = 0; rc == 0 && i < n; i++)
		score_sample(s, all, n, i, bonus, rollouts[i]);
	free(all);
	return rc;
}

/* ---- answerer ---- */

struct truth {
	const char *question, *answer;
	int32_t node, support[SPAR_OSINT_SUPPORT_MAX];
	int n_support, difficulty;
	jv edges; /* the same as JSON */
};

static int read_truth(const struct spar_osint_graph *g, jv task, struct truth *t, struct spar_err *err)
{
	const char *difficulty;
	size_t n;
	*t = (struct truth){.edges = jv_invalid()};
	if (spar_get_str(task, "task", "question", &t->question, &n, err) < 0 ||
	    spar_get_str(task, "task", "difficulty", &difficulty, &n, err) < 0)
		return -(int)SPAR_INPUT;
	t->difficulty = spar_osint_choice(spar_osint_difficulties, difficulty, n);
	if (t->difficulty < 0 || t->difficulty > SPAR_OSINT_HARD)
		return spar_fail(err, SPAR_INPUT, ".task.difficulty: expected easy, medium or hard");
	if (spar_get_str(task, "task", "answer", &t->answer, &n, err) < 0)
		return -(int)SPAR_INPUT;
	if ((t->node = spar_osint_node(g, t->answer, n)) < 0)
		return spar_fail(err, SPAR_INPUT, ".task.answer: not a node of the graph");
	t->n_support = spar_osint_edges_of(g, task, "supporting_edges", SPAR_OSINT_SUPPORT_MAX, t->support, err);
	return t->n_support < 0 ? t->n_support : 0;
}

static int score_answer(const struct spar_osint_scorer *s, const struct spar_osint_graph *g, const struct truth *t,
			double bonus, struct spar_record *rec, struct spar_err *err)
{
	const char *text;
	size_t n;
	struct spar_osint_claim claim;
	struct spar_str verdict = SPAR_STR_INIT;
	int rc = spar_osint_completion(rec->value, &text, &n, err);
	if (rc < 0)
		return rc;
	spar_osint_claim_read(&claim, g, spar_action_find(text, n));
	bool answered = claim.answer.len > 0, right = spar_osint_answered(g, &claim, t->node);
	double f1 = answered ? spar_osint_f1(g, &claim, t->support, t->n_support) : 0,
	       reward = spar_osint_answer_reward(answered, right, f1, t->difficulty) + (right ? bonus : 0);
	spar_str_addf(&verdict, "{\"profile\":\"sound\",\"reasons\":[%s],\"answered\":%s,\"correct\":%s",
		      !claim.json ? "\"not_json\""
		      : !answered ? "\"no_answer\""
		      : !right    ? "\"wrong_answer\""
				  : "",
		      answered ? "true" : "false", right ? "true" : "false");
	add_number(&verdict, "graph_f1", f1);
	add_number(&verdict, "workers", right ? bonus : 0);
	spar_str_addc(&verdict, '}');
	set_reward(s, rec, reward, &verdict);
	spar_str_release(&verdict);
	spar_osint_claim_release(&claim);
	return 0;
}

/* ---- profile reference ---- */

static void first_answer(void *ctx, const char *text, size_t n)
{
	struct spar_str *out = ctx;
	if (!out->len)
		spar_osint_text_answer(text, n, out);
}

static void original_task(struct spar_osint_scorer *s, const char *text, size_t n, struct spar_record *rec)
{
	struct spar_str judge = SPAR_STR_INIT, verdict = SPAR_STR_INIT;
	unsigned reasons;
	each_judged(rec->value, first_answer, &judge);
	double reward = spar_osint_original_generator(&s->original, text, n, judge.data, &reasons);
	spar_str_addf(&verdict, "{\"profile\":\"reference\",\"rung\":\"%s\"", reasons ? "invalid" : "valid");
	add_reasons(&verdict, reasons, spar_osint_original_reason);
	spar_str_addc(&verdict, '}');
	set_reward(s, rec, reward, &verdict);
	spar_str_release(&verdict);
	spar_str_release(&judge);
}

static void original_answer(struct spar_osint_scorer *s, const struct truth *t, const char *text, size_t n,
			    struct spar_record *rec)
{
	struct spar_osint_triple *support;
	struct spar_str verdict = SPAR_STR_INIT;
	struct spar_osint_reply task = {.question = t->question, .truth = t->answer, .difficulty = t->difficulty};
	double f1;
	bool right;
	task.n_support = spar_osint_text_edges(t->edges, SPAR_OSINT_SUPPORT_MAX, &support);
	task.support = support;
	double reward = spar_osint_original_answerer(&s->original, text, n, task, &f1, &right);
	spar_str_addf(&verdict, "{\"profile\":\"reference\",\"reasons\":[%s],\"correct\":%s",
		      right ? "" : "\"wrong_answer\"", right ? "true" : "false");
	add_number(&verdict, "graph_f1", f1);
	spar_str_addc(&verdict, '}');
	set_reward(s, rec, reward, &verdict);
	spar_str_release(&verdict);
	free(support);
}

/* The formulas belong to a graph; what was seen stays. */
static void follow_graph(struct spar_osint_scorer *s, const struct spar_osint_graph *g)
{
	if (jv_is_valid(s->formulas_of) && jv_equal(jv_copy(s->formulas_of), jv_copy(s->graphs.key)))
		return;
	if (jv_is_valid(s->formulas_of))
		spar_osint_reference_release(&s->formulas);
	jv_free(s->formulas_of);
	s->formulas_of = jv_copy(s->graphs.key);
	spar_osint_reference_init(&s->formulas, g);
	s->original.formulas = &s->formulas;
}

/* ---- a group ---- */

static int score_one(struct spar_osint_scorer *s, const struct spar_osint_graph *g, const struct truth *t, double bonus,
		     struct spar_record *rec, struct spar_err *err)
{
	const char *text;
	size_t n;
	if (s->opt.profile == SPAR_OSINT_SOUND)
		return score_answer(s, g, t, bonus, rec, err);
	int rc = spar_osint_completion(rec->value, &text, &n, err);
	if (rc == 0 && s->opt.role == SPAR_OSINT_GENERATOR)
		original_task(s, text, n, rec);
	else if (rc == 0)
		original_answer(s, t, text, n, rec);
	return rc;
}

static int score_all(struct spar_osint_scorer *s, jv task, struct spar_record **rollouts, size_t n,
		     struct spar_err *err)
{
	const struct spar_osint_graph *g;
	struct truth truth = {.edges = jv_invalid()};
	int rc = spar_osint_graph_of(&s->graphs, task, &g, err);
	if (rc < 0)
		return rc;
	if (s->opt.role == SPAR_OSINT_GENERATOR && s->opt.profile == SPAR_OSINT_SOUND)
		return score_tasks(s, g, task, rollouts, n, err);
	if (s->opt.role == SPAR_OSINT_ANSWERER)
		rc = read_truth(g, task, &truth, err);
	if (rc == 0 && s->opt.profile == SPAR_OSINT_REFERENCE) {
		follow_graph(s, g);
		truth.edges = jv_object_get(jv_copy(task), jv_string("supporting_edges"));
	}
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = score_one(s, g, &truth, worker_bonus(task), rollouts[i], err);
	jv_free(truth.edges);
	return rc;
}

int spar_osint_scorer_group(struct spar_osint_scorer *s, struct spar_group *group, struct spar_err *err)
{
	struct spar_record **rollouts = spar_malloc((group->n + 1) * sizeof *rollouts);
	size_t n = played(group, rollouts);
	jv task;
	int rc = n ? spar_get_kind(rollouts[0]->value, "", "task", JV_KIND_OBJECT, &task, err) : 0;
	if (rc == 0 && n) {
		rc = score_all(s, task, rollouts, n, err);
		jv_free(task);
	}
	for (size_t i = 0; rc == 0 && i < group->n; i++)
		if (spar_has(group->members[i].rec.value, "error"))
			spar_record_set(&group->members[i].rec, "reward", "null", 4);
	free(rollouts);
	return rc;
}

int spar_osint_scorer_new(struct spar_osint_scorer **out, const struct spar_osint_scorer_opt *opt, struct spar_err *err)
{
	struct spar_osint_scorer *s = spar_calloc(1, sizeof *s);
	s->opt = *opt;
	s->formulas_of = jv_invalid();
	s->original.opt = SPAR_OSINT_ORIGINAL;
	s->original.opt.validity = opt->validity;
	s->original.opt.hardness = opt->hardness;
	s->original.opt.diversity = opt->diversity;
	s->original.opt.consistency = opt->consistency;
	s->original.opt.max_hops = opt->limits.max_hops;
	s->original.opt.max_nodes = opt->limits.max_nodes;
	s->original.opt.agents = opt->agents;
	s->original.opt.legacy = opt->legacy;
	int rc = opt->frozen ? spar_osint_frozen_read(&s->frozen, opt->frozen, &s->graphs, err) : 0;
	if (rc < 0) {
		spar_osint_scorer_free(s);
		return rc;
	}
	*out = s;
	return 0;
}

void spar_osint_scorer_free(struct spar_osint_scorer *s)
{
	if (!s)
		return;
	if (jv_is_valid(s->formulas_of))
		spar_osint_reference_release(&s->formulas);
	jv_free(s->formulas_of);
	spar_osint_original_release(&s->original);
	spar_osint_graph_cache_release(&s->graphs);
	free(s->frozen.asks);
	free(s);
}
