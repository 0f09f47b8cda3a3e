/* advantage.h - group-relative advantages. Equal rewards give exact zeros (tested before any arithmetic, B22); a NaN reward
 * means "abstained": it gets 0 and takes no part in the others' figures (B19). */
#ifndef SPAR_RL_ADVANTAGE_H
#define SPAR_RL_ADVANTAGE_H

#include <stdbool.h>
#include <stddef.h>

enum spar_scale { SPAR_SCALE_GROUP, SPAR_SCALE_BATCH, SPAR_SCALE_NONE };
extern const char *const spar_scale_names[];
enum spar_baseline { SPAR_BASELINE_MEAN, SPAR_BASELINE_RLOO };
extern const char *const spar_baseline_names[];

/*! A = (R - mean) / (std + eps) within a group; std over n-1 (TRL) or n if `population`. batch: `batch_std` is used for
 *  std (computed by spar_reward_std over all rewards of the batch). none: the divisor is 1. RLOO: the mean of the
 *  others' rewards takes the place of the mean. Rewards are finite or NaN.
 *  reward and adv may be the same array. Returns true if all counted rewards are equal (or fewer than 2 count). */
bool spar_advantage(const double *reward, size_t n, enum spar_scale scale, enum spar_baseline baseline,
		    double batch_std, bool population, double eps, double *adv);

/*! Two-pass standard deviation of the rewards that are not NaN; 0 if they are all equal or fewer than 2. */
double spar_reward_std(const double *reward, size_t n, bool population);

#endif
