/* spar score - give every rollout its rewards. One line out for each line in. */
#include "base/opt.h"
#include "record/record.h"
#include "rl/group.h"
#include "rl/osint_score.h"
#include "rl/reward.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const struct spar_usage usage = {
    "score", "[options] [FILE]",
    "Run reward programs on each rollout record and add `rewards` (each value) and `reward` (their weighted sum). A "
    "program "
    "is jq and sees the whole record; it gives one finite number, true (1) or false (0), or null to abstain. Without "
    "--reward the reward is the environment's episode return. A built-in scorer takes the place of the programs."};

/* ---- a built-in scorer: groups are scored whole, as novelty is a matter of the group ---- */

static const char *const scorers[] = {"osint-answerer", "osint-generator", NULL}; /* as enum spar_osint_role */
static const char *const graph_modes[] = {"generate", "fixed", NULL};
static const char *const pipelines[] = {"swarm_v2", "legacy", NULL};

struct builtin {
	int role, profile, graph_mode, pipeline; /* role -1: none */
	const char *weights;
	int64_t max_hops, max_nodes, max_agents;
	struct spar_osint_scorer_opt opt;
	struct spar_osint_scorer *scorer;
	struct spar_groups groups;
};

static int open_builtin(struct builtin *b, struct spar_err *err)
{
	struct spar_osint_scorer_opt *o = &b->opt;
	char rest;
	o->role = (enum spar_osint_role)b->role;
	o->profile = (enum spar_osint_profile)b->profile;
	o->fixed = b->graph_mode;
	o->legacy = b->pipeline;
	o->limits = (struct spar_osint_limits){(int)b->max_hops, (int)b->max_nodes};
	o->agents = (int)b->max_agents;
	if (b->weights && sscanf(b->weights, "%lf,%lf,%lf,%lf%c", &o->validity, &o->hardness, &o->diversity,
				 &o->consistency, &rest) != 4)
		return spar_fail(err, SPAR_USAGE, "--weights: expected four numbers V,H,D,C, got '%s'", b->weights);
	return spar_osint_scorer_new(&b->scorer, o, err);
}

/* The group's rollouts, scored and written; the group is gone afterwards. */
static int emit(struct spar_filter *f, struct builtin *b, struct spar_group *group)
{
	int rc = spar_osint_scorer_group(b->scorer, group, &f->err);
	struct spar_err why = f->err;
	bool bad = rc == -(int)SPAR_INPUT;
	for (size_t i = 0; (rc == 0 || bad) && i < group->n; i++) {
		f->err = why;
		rc = bad ? spar_filter_reject(f, &group->members[i].rec) : spar_filter_put(f, &group->members[i].rec);
		if (rc < 0)
			break;
	}
	spar_groups_drop(&b->groups, group);
	return rc;
}

static int emit_open(struct spar_filter *f, struct builtin *b)
{
	int rc = 0;
	while (rc >= 0 && b->groups.first)
		rc = emit(f, b, b->groups.first);
	return rc;
}

static int score_group(struct spar_filter *f, struct builtin *b, struct spar_record *rec)
{
	struct spar_group *complete;
	if (*rec->type && !spar_record_is(rec, "rollout")) {
		int rc = emit_open(f, b);
		return rc < 0 ? rc : spar_filter_put(f, rec);
	}
	if (spar_groups_add(&b->groups, rec, &complete, &f->err) < 0)
		return spar_filter_reject(f, rec);
	return complete ? emit(f, b, complete) : 0;
}

/* ---- programs ---- */

/* Without --reward: the environment's return, as long as there is an environment. */
static int default_reward(struct spar_rewards *rewards, const struct spar_record *rec, struct spar_err *err)
{
	if (!spar_has(rec->value, "env"))
		return spar_fail(err, SPAR_USAGE, "no --reward given, and the rollout has no env to take it from");
	return spar_rewards_add(rewards, "env", err);
}

static int score_one(struct spar_filter *f, struct spar_rewards *rewards, struct spar_record *rec)
{
	if (*rec->type && !spar_record_is(rec, "rollout"))
		return spar_filter_put(f, rec);
	if (spar_has(rec->value, "error")) { /* the episode failed: there is nothing to judge */
		spar_record_set(rec, "reward", "null", 4);
		rewards->n_null++;
		return spar_filter_put(f, rec);
	}
	if (!rewards->n && default_reward(rewards, rec, &f->err) < 0)
		return -f->err.code;
	if (spar_rewards_score(rewards, rec, &f->err) < 0)
		spar_filter_complain(f, rec);
	return spar_filter_put(f, rec);
}

static void summary(const struct spar_rewards *r)
{
	fprintf(stderr, "score: %" PRIu64 " rollouts", r->n_total + r->n_null + r->n_failed);
	if (r->n_total)
		fprintf(stderr, ", mean reward %.6g", r->sum / (double)r->n_total);
	for (size_t i = 0; i < r->n; i++)
		if (r->items[i].n)
			fprintf(stderr, ", %s %.6g", r->items[i].name, r->items[i].sum / (double)r->items[i].n);
	if (r->n_null)
		fprintf(stderr, ", %" PRIu64 " without reward", r->n_null);
	fputc('\n', stderr);
}

int main(int argc, char **argv)
{
	struct spar_filter f = SPAR_FILTER_INIT("score");
	struct spar_opt_list specs = {0};
	struct spar_rewards rewards = {0};
	struct builtin builtin = {.role = -1,
				  .groups = {.unscored = true},
				  .max_hops = 4,
				  .max_nodes = 14,
				  .max_agents = 4,
				  .opt = SPAR_OSINT_SCORER_DEFAULTS};
	struct spar_record *rec;
	const struct spar_opt table[] = {
	    SPAR_OPT_LIST("reward", 'r', &specs, "SPEC",
			  "NAME[:WEIGHT]=JQ, NAME[:WEIGHT]=@FILE or env[:WEIGHT]; any number of them (env)"),
	    SPAR_OPT_GROUP("built-in scorers, in the place of programs"),
	    SPAR_OPT_CHOICE("scorer", 's', &builtin.role, scorers, "NAME", "self-play over a knowledge graph (none)"),
	    SPAR_OPT_CHOICE("profile", 0, &builtin.profile, spar_osint_profiles, "NAME",
			    "sound, or reference: the studied original's formulas (sound)"),
	    SPAR_OPT_STR("weights", 'w', &builtin.weights, "V,H,D,C",
			 "generator: of validity, hardness, diversity, consistency (0.45,0.2,0.15,0.2)"),
	    SPAR_OPT_STR("frozen", 0, &builtin.opt.frozen, "FILE",
			 "generator: tasks that were asked before; novelty counts"),
	    SPAR_OPT_CHOICE("canonical-graph", 0, &builtin.graph_mode, graph_modes, "MODE",
			    "generator: may it propose edges, or is the context all there is (generate)"),
	    SPAR_OPT_INT("max-hops", 0, &builtin.max_hops, 1, SPAR_OSINT_HOPS_MAX, "N", "edges of a valid task (4)"),
	    SPAR_OPT_INT("max-nodes", 0, &builtin.max_nodes, 2, 1 << 20, "N", "nodes of a valid task (14)"),
	    SPAR_OPT_CHOICE("pipeline-mode", 0, &builtin.pipeline, pipelines, "NAME",
			    "reference: whose formulas (swarm_v2)"),
	    SPAR_OPT_INT("max-agents", 0, &builtin.max_agents, 1, 1 << 20, "N",
			 "reference: agents that may be claimed (4)"),
	    SPAR_OPT_GROUP("records"),
	    SPAR_FILTER_OPTIONS(f),
	    SPAR_OPT_END};
	int rest = spar_opt_parse(&usage, table, argc, argv), rc = 0;
	if (rest < 0) {
		free(specs.items);
		return -1 - rest;
	}
	if (rest + 1 < argc)
		rc = spar_fail(&f.err, SPAR_USAGE, "one input file at most, got '%s' too", argv[rest + 1]);
	if (rc == 0 && builtin.role >= 0)
		rc = specs.n ? spar_fail(&f.err, SPAR_USAGE, "--scorer takes the place of --reward: give one of them")
			     : open_builtin(&builtin, &f.err);
	for (size_t i = 0; rc == 0 && i < specs.n; i++)
		rc = spar_rewards_add(&rewards, specs.items[i], &f.err);
	if (rc == 0)
		rc = spar_filter_open(&f, argv[rest]);
	while (rc >= 0 && (rc = spar_filter_next(&f, &rec)) > 0)
		rc = builtin.scorer ? score_group(&f, &builtin, rec) : score_one(&f, &rewards, rec);
	if (rc == 0)
		rc = emit_open(&f, &builtin);
	spar_groups_release(&builtin.groups);
	spar_osint_scorer_free(builtin.scorer);
	rc = spar_filter_finish(&f, rc);
	if (rc == SPAR_OK && !f.quiet && builtin.role < 0)
		summary(&rewards);
	if (rewards.n_failed)
		fprintf(stderr, "score: %" PRIu64 " rollouts got no reward because of an error (reward_error)\n",
			rewards.n_failed);
	if (rc == SPAR_OK && rewards.n_failed && !f.skip_bad)
		rc = SPAR_INPUT;
	spar_rewards_release(&rewards);
	free(specs.items);
	return rc;
}
