/* reward_mix.h - several rewards made one: by weights before the group is looked at (TRL's sum_then_normalize), or each
 * normalised in its group first (normalize_then_sum: GDPO, 2601.05242). */
#ifndef SPAR_RL_REWARD_MIX_H
#define SPAR_RL_REWARD_MIX_H

#include "base/err.h"
#include "rl/advantage.h"
#include "rl/group.h"
#include <jv.h>

struct spar_reward_mix {
	char **names; /* NULL with n 0: all rewards that a group has, each with weight 1 */
	double *weights;
	size_t n;
};

/*! "NAME=WEIGHT,NAME=WEIGHT". SPAR_USAGE if it is not that. */
int spar_reward_mix_parse(struct spar_reward_mix *m, const char *text, struct spar_err *err);
void spar_reward_mix_release(struct spar_reward_mix *m);

/*! 0 if the record's `rewards` is an object of finite numbers and nulls that has all names of the mix, or the episode failed;
 *  SPAR_INPUT names the field. */
int spar_reward_mix_check(const struct spar_reward_mix *m, jv record, struct spar_err *err);

/*! The members' weighted sums of their rewards that are not null into member.reward; NaN if there is none. */
void spar_reward_mix_sum(const struct spar_reward_mix *m, struct spar_group *group);

/*! adv (group->n) = the weighted sum of the advantages that each reward alone would give under `r`. Returns true if each
 *  reward is equal in all of the group. */
bool spar_reward_mix_advantage(const struct spar_reward_mix *m, const struct spar_advantage_rules *r,
			       const struct spar_group *group, double *adv);

#endif
