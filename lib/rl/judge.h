/* judge.h - advantages of gathered groups: advantage.h's formulas over group.h's records, with several rewards
 * (reward_mix.h) and running means (role_baseline.h) where they are asked for.
 *
 *	spar_judge_init(&judge, &opt, &err);
 *	spar_judge_check(&judge, rec->value, &err);     // each record, before it goes into its group
 *	spar_judge_group(&judge, group, &err);          // each group that is whole: sets member.advantage, group.equal
 *	if (spar_judge_waits(&judge))                   // what the rest of the batch decides, at its end
 *		spar_judge_batch(&judge, &groups, &std, &err);
 *	spar_judge_release(&judge);
 */
#ifndef SPAR_RL_JUDGE_H
#define SPAR_RL_JUDGE_H

#include "base/err.h"
#include "rl/advantage.h"
#include "rl/group.h"
#include "rl/reward_mix.h"
#include "rl/role_baseline.h"
#include <jv.h>

enum spar_aggregation { SPAR_SUM_THEN_NORMALIZE, SPAR_NORMALIZE_THEN_SUM };
extern const char *const spar_aggregation_names[];

struct spar_judge_opt {
	int estimator, convention; /* enum spar_estimator, spar_convention */
	int scale;                 /* enum spar_scale; -1: the estimator's own */
	int aggregation;           /* enum spar_aggregation */
	bool population;           /* variances over n */
	double epsilon;            /* < 0: the convention's */
	double decay;              /* rae */
	const char *weights;       /* spar_reward_mix_parse's text; NULL: `reward` as it is */
	const char *state;         /* rae: file of the running means; NULL: none */
};

struct spar_judge {
	struct spar_advantage_rules rules;
	struct spar_reward_mix mix;
	struct spar_role_baselines roles;
	const char *state;
	bool mixes; /* rewards are made of `rewards` */
};

/*! Strings of `opt` are borrowed. SPAR_USAGE if options contradict each other. Release also after a failure. */
int spar_judge_init(struct spar_judge *j, const struct spar_judge_opt *opt, struct spar_err *err);
void spar_judge_release(struct spar_judge *j);

/*! 0 if the record has what is needed beside what spar_groups_add reads; else SPAR_INPUT names the field. */
int spar_judge_check(const struct spar_judge *j, jv record, struct spar_err *err);

/*! SPAR_INPUT if the group's rewards cannot be judged so. */
int spar_judge_group(const struct spar_judge *j, struct spar_group *group, struct spar_err *err);

/*! True if spar_judge_batch has to be called. */
bool spar_judge_waits(const struct spar_judge *j);

/*! All open groups, which spar_judge_group has seen; the order that they came in does not matter. *std: what they were
 *  divided by, 0 if all was equal; negative with rae, which does not divide. */
int spar_judge_batch(struct spar_judge *j, struct spar_groups *groups, double *std, struct spar_err *err);

#endif
