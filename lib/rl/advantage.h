/* advantage.h - how much better a rollout is than what was to be expected. Rewards are finite, or NaN: "abstained", which gets
 * 0 and takes no part in the others' figures (B19). What is all equal gives exact zeros, tested before any arithmetic (B22).
 *
 *	spar_advantage_group(&rules, reward, n, adv);           // each group, as soon as it is whole
 *	if (spar_advantage_spans_batch(&rules))                 // then, for some rules, all of a batch together
 *		spar_advantage_batch(&rules, members, n);
 */
#ifndef SPAR_RL_ADVANTAGE_H
#define SPAR_RL_ADVANTAGE_H

#include <stdbool.h>
#include <stddef.h>

enum spar_scale { SPAR_SCALE_GROUP, SPAR_SCALE_BATCH, SPAR_SCALE_NONE };
extern const char *const spar_scale_names[];

/* With R the reward, and mean, std over the group:
 *	grpo                          (R - mean) / (std + epsilon)
 *	rloo                          R - mean of the others; divided as --scale-rewards says (none)
 *	leave_one_out                 (R - mean of the others) / (std of the others + epsilon); not divided where that std is 0
 *	reinforce_plus_plus           R, whitened over the tokens of the batch: (R - mean) / sqrt(variance + 1e-8)
 *	reinforce_plus_plus_baseline  R - mean, whitened likewise
 *	max_rl                        (R - mean) / mean; rewards are not negative
 *	rae                           R - a running mean of its role (role_baseline.h): stays R here
 * DeepSeekMath 2402.03300, RLOO 2402.14740, REINFORCE++ 2501.03262, SPIRAL 2506.24119. */
enum spar_estimator {
	SPAR_EST_GRPO,
	SPAR_EST_RLOO,
	SPAR_EST_LEAVE_ONE_OUT,
	SPAR_EST_REINFORCE_PLUS_PLUS,
	SPAR_EST_REINFORCE_PLUS_PLUS_BASELINE,
	SPAR_EST_MAX_RL,
	SPAR_EST_RAE
};
extern const char *const spar_estimator_names[];

/* What TRL's and verl's code agree on but for these. */
enum spar_convention { SPAR_CONVENTION_TRL, SPAR_CONVENTION_VERL };
extern const char *const spar_convention_names[];

struct spar_advantage_rules {
	int estimator; /* enum spar_estimator */
	int scale; /* enum spar_scale: grpo, rloo and leave_one_out divide by the std of the group, of the batch, or not */
	bool population;   /* variances over n, not over n-1 */
	double epsilon;    /* added to a std */
	bool lone;         /* verl: a group of one has mean 0 and std 1; else it gets 0 */
	bool whiten_batch; /* GDPO's last step: (A - mean) / (std + epsilon) over the batch */
};

/*! The estimator's own scale, and epsilon 1e-4 (TRL) or 1e-6 and `lone` (verl). */
void spar_advantage_rules_init(struct spar_advantage_rules *r, enum spar_estimator estimator,
			       enum spar_convention convention);

/*! The part that a group decides. reward and adv (n) may be one array. NaN rewards get 0. Returns true if all counted rewards
 *  are equal, or fewer than 2 count. */
bool spar_advantage_group(const struct spar_advantage_rules *r, const double *reward, size_t n, double *adv);

/*! True if advantages are not final before all of the batch is known. */
bool spar_advantage_spans_batch(const struct spar_advantage_rules *r);

struct spar_advantage_member {
	double reward;
	double tokens; /* of its completions */
	double *adv;   /* in: of its group; out: final */
};
/*! The part that the batch decides, whatever the order of members. Returns the std that they were divided by, 0 if that
 *  was all equal (adv is 0 then). `members` is sorted. */
double spar_advantage_batch(const struct spar_advantage_rules *r, struct spar_advantage_member *members, size_t n);

/*! Two-pass standard deviation of the rewards that are not NaN; 0 if they are all equal or fewer than 2. */
double spar_reward_std(const double *reward, size_t n, bool population);

#endif
