/* spar score - give every rollout its rewards. One line out for each line in. */
#include "base/opt.h"
#include "record/record.h"
#include "rl/reward.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const struct spar_usage usage = {
    "score", "[options] [FILE]",
    "Run reward programs on each rollout record and add `rewards` (each value) and `reward` (their weighted sum). A "
    "program "
    "is jq and sees the whole record; it gives one finite number, true (1) or false (0), or null to abstain. Without "
    "--reward the reward is the environment's episode return."};

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
	struct spar_record *rec;
	const struct spar_opt table[] = {
	    SPAR_OPT_LIST("reward", 'r', &specs, "SPEC",
			  "NAME[:WEIGHT]=JQ, NAME[:WEIGHT]=@FILE or env[:WEIGHT]; any number of them (env)"),
	    SPAR_FILTER_OPTIONS(f), SPAR_OPT_END};
	int rest = spar_opt_parse(&usage, table, argc, argv), rc = 0;
	if (rest < 0) {
		free(specs.items);
		return -1 - rest;
	}
	if (rest + 1 < argc)
		rc = spar_fail(&f.err, SPAR_USAGE, "one input file at most, got '%s' too", argv[rest + 1]);
	for (size_t i = 0; rc == 0 && i < specs.n; i++)
		rc = spar_rewards_add(&rewards, specs.items[i], &f.err);
	if (rc == 0)
		rc = spar_filter_open(&f, argv[rest]);
	while (rc >= 0 && (rc = spar_filter_next(&f, &rec)) > 0)
		rc = score_one(&f, &rewards, rec);
	rc = spar_filter_finish(&f, rc);
	if (rc == SPAR_OK && !f.quiet)
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
