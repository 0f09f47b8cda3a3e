/* osint_score_sound.c - the rewards of profile sound, see osint_score.h */
#include "env/action.h"
#include "rl/osint_score_parts.h"

#include <math.h>
#include <stdlib.h>

/* ---- the judge ---- */

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

/* ---- generator ---- */

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
		spar_osint_each_judged(rollout, try_answer, &out->trial);
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
	spar_osint_put_reasons(&verdict, x->verdict.reasons, spar_osint_reason);
	spar_osint_put_number(&verdict, "validity", v);
	spar_osint_put_number(&verdict, "hardness", h);
	spar_osint_put_number(&verdict, "diversity", d);
	spar_osint_put_number(&verdict, "consistency", x->consistency);
	spar_osint_put_number(&verdict, "solve_rate", x->trial.n ? (double)x->trial.n_right / x->trial.n : NAN);
	spar_osint_put_number(&verdict, "workers", valid ? bonus : 0);
	spar_str_addc(&verdict, '}');
	spar_osint_put_reward(s, rec, reward, &verdict);
	spar_str_release(&verdict);
}

int spar_osint_score_tasks(struct spar_osint_scorer *s, const struct spar_osint_graph *g, jv task,
			   struct spar_record **rollouts, size_t n, struct spar_err *err)
{
	struct sample *all = spar_calloc(n + 1, sizeof *all);
	uint64_t graph = spar_osint_graph_hash(task);
	double bonus = spar_osint_worker_bonus(task);
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = read_sample(s, g, graph, rollouts[i]->value, &all[i], err);
	for (size_t i = 0; rc == 0 && i < n; i++)
		score_sample(s, all, n, i, bonus, rollouts[i]);
	free(all);
	return rc;
}

/* ---- answerer ---- */

int spar_osint_score_answer(const struct spar_osint_scorer *s, const struct spar_osint_graph *g,
			    const struct spar_osint_truth *t, double bonus, struct spar_record *rec,
			    struct spar_err *err)
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
	spar_osint_put_number(&verdict, "graph_f1", f1);
	spar_osint_put_number(&verdict, "workers", right ? bonus : 0);
	spar_str_addc(&verdict, '}');
	spar_osint_put_reward(s, rec, reward, &verdict);
	spar_str_release(&verdict);
	spar_osint_claim_release(&claim);
	return 0;
}
