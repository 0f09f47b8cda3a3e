/* metric.h - the figures of a `metric` record, under TRL's names. Each function appends ,"name":value members. */
#ifndef SPAR_RL_METRIC_H
#define SPAR_RL_METRIC_H

#include "base/str.h"
#include "rl/episode.h"
#include "rl/step.h"
#include <jv.h>

void spar_metric_int(struct spar_str *m, const char *name, uint64_t value);
void spar_metric_double(struct spar_str *m, const char *name, double value);

/*! sequences, loss_tokens, tokens, tokens_distinct, micro_batches. */
void spar_metric_counts(struct spar_str *m, const struct spar_step_counts *c);

/*! loss, entropy (if known), policy_loss and entropy_coef (with a bonus); for rollouts kl (with a reference), clip_ratio/...
 *  or cispo_clip_ratio or vespo/phi_seq_mean, off_policy_mask_ratio (with the mask), bounded_tokens, sampling/... */
void spar_metric_sums(struct spar_str *m, const struct spar_objective_sums *s, const struct spar_objective *o);

/*! The members step_time/... of a batch record (borrowed): seconds that stages before the training took for the batch. */
void spar_metric_step_times(struct spar_str *m, jv batch);

/*! Of the rollouts as they came, masked ones included: reward, reward_std (over n-1, of the whole batch),
 *  frac_reward_zero_std (share of rollouts in groups of equal rewards), rewards/NAME/{mean,std}, and of whole episodes, in
 *  trained tokens, completions/{mean,min,max}_length, completions/clipped_ratio, and
 *  completions/{mean,min,max}_terminated_length of those not cut off (0 if all were). Nothing if n is 0. */
void spar_metric_rollouts(struct spar_str *m, struct spar_episode *const *episodes, size_t n);

#endif
