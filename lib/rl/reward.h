/* reward.h - the rewards of a rollout: named, weighted jq programs over the record, and their sum.
 *
 *	struct spar_rewards rewards = {0};
 *	spar_rewards_add(&rewards, "length:0.1=.turns|length", &err);
 *	if (spar_rewards_score(&rewards, rec, &err) < 0) ...    // the record has its keys all the same
 *	spar_rewards_release(&rewards);
 *
 * A program gives exactly one value: a finite number, true (1), false (0), or null, which abstains. The reward is the sum of
 * weight * value over those that did not abstain, null if all did (TRL's sum_then_normalize). */
#ifndef SPAR_RL_REWARD_H
#define SPAR_RL_REWARD_H

#include "base/err.h"
#include "record/jq.h"
#include "record/record.h"
#include <stddef.h>
#include <stdint.h>

struct spar_reward {
	char *name;
	double weight;
	struct spar_jq *program; /* NULL: the environment's episode return, .env.return; null without an environment */
	double sum;              /* of the values given so far */
	uint64_t n;              /* how many those are */
};

struct spar_rewards {
	struct spar_reward *items;
	size_t n;
	double sum; /* of the totals given so far */
	uint64_t n_total, n_null, n_failed;
};

/*! Add one, from "NAME[:WEIGHT]=JQ", "NAME[:WEIGHT]=@FILE" or "env[:WEIGHT]". SPAR_USAGE if it cannot be. */
int spar_rewards_add(struct spar_rewards *r, const char *spec, struct spar_err *err);

/*! Set the record's `rewards` and `reward`. When a program fails or gives something else than a reward: `reward` is null,
 *  `reward_error` says "NAME: what", and so does err (SPAR_INPUT). */
int spar_rewards_score(struct spar_rewards *r, struct spar_record *rec, struct spar_err *err);

void spar_rewards_release(struct spar_rewards *r);

#endif
