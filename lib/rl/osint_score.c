/* osint_score.c - see osint_score.h */
#include "rl/osint_score_parts.h"

#include <stdlib.h>

/* ---- an answerer's task ---- */

static int read_truth(const struct spar_osint_graph *g, jv task, struct spar_osint_truth *t, struct spar_err *err)
{
	const char *difficulty;
	size_t n;
	*t = (struct spar_osint_truth){.edges = jv_invalid()};
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

/* ---- a group ---- */

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

/* The members that did not fail; `rollouts` has room for all of them. */
static size_t played(struct spar_group *group, struct spar_record **rollouts)
{
	size_t n = 0;
	for (size_t i = 0; i < group->n; i++)
		if (!spar_has(group->members[i].rec.value, "error"))
			rollouts[n++] = &group->members[i].rec;
	return n;
}

static int score_one(struct spar_osint_scorer *s, const struct spar_osint_graph *g, const struct spar_osint_truth *t,
		     double bonus, struct spar_record *rec, struct spar_err *err)
{
	const char *text;
	size_t n;
	if (s->opt.profile == SPAR_OSINT_SOUND)
		return spar_osint_score_answer(s, g, t, bonus, rec, err);
	int rc = spar_osint_completion(rec->value, &text, &n, err);
	if (rc == 0 && s->opt.role == SPAR_OSINT_GENERATOR)
		spar_osint_score_task_original(s, text, n, rec);
	else if (rc == 0)
		spar_osint_score_answer_original(s, t, text, n, rec);
	return rc;
}

static int score_all(struct spar_osint_scorer *s, jv task, struct spar_record **rollouts, size_t n,
		     struct spar_err *err)
{
	const struct spar_osint_graph *g;
	struct spar_osint_truth truth = {.edges = jv_invalid()};
	int rc = spar_osint_graph_of(&s->graphs, task, &g, err);
	if (rc < 0)
		return rc;
	if (s->opt.role == SPAR_OSINT_GENERATOR && s->opt.profile == SPAR_OSINT_SOUND)
		return spar_osint_score_tasks(s, g, task, rollouts, n, err);
	if (s->opt.role == SPAR_OSINT_ANSWERER)
		rc = read_truth(g, task, &truth, err);
	if (rc == 0 && s->opt.profile == SPAR_OSINT_REFERENCE) {
		follow_graph(s, g);
		truth.edges = jv_object_get(jv_copy(task), jv_string("supporting_edges"));
	}
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = score_one(s, g, &truth, spar_osint_worker_bonus(task), rollouts[i], err);
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
