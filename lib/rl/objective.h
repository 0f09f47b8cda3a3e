/* objective.h - policy-gradient losses as functions of numbers: value, gradient d loss / d logprob, metrics. float64.
 * Formulas: spec of objectives (TRL's grpo_trainer, DeepSeekMath 2402.03300, DAPO 2503.14476, Dr. GRPO 2503.20783,
 * GSPO 2507.18071). Everything here is pure; nothing allocates but the documented. */
#ifndef SPAR_RL_OBJECTIVE_H
#define SPAR_RL_OBJECTIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum spar_loss { SPAR_LOSS_SFT, SPAR_LOSS_GRPO, SPAR_LOSS_BNPO, SPAR_LOSS_DR_GRPO, SPAR_LOSS_DAPO };
extern const char *const spar_loss_names[]; /* NULL-terminated, index = enum */
enum spar_importance { SPAR_IS_TOKEN, SPAR_IS_SEQUENCE };

struct spar_objective {
	enum spar_loss loss;
	enum spar_importance importance;
	double epsilon, epsilon_high; /* clip to [1 - epsilon, 1 + epsilon_high] */
	double delta;                 /* cap of the unclipped ratio; 0: none */
	double beta;                  /* weight of the k3 KL to the reference; 0: none */
	double is_cap;                /* truncated importance weight min(exp(old - sampled), cap) when old and sampled differ; 0: off */
	double max_completion_length; /* dr_grpo's constant */
	/* Divisors of the WHOLE optimizer step, known before its first backward (B24): */
	double step_sequences;        /* sequences that carry at least one loss token */
	double step_tokens;           /* loss tokens */
};

/* One sequence: an episode's loss tokens, all turns one after the other. */
struct spar_sequence {
	size_t n;
	const float *logp;     /* (n) current policy */
	const float *old;      /* (n) at sampling (or first pass) time; NULL: equal to logp (ratio 1) */
	const float *sampled;  /* (n) reported by the sampler; NULL: same as old */
	const float *ref;      /* (n) reference policy; NULL when beta is 0 */
	double advantage;
};

struct spar_objective_sums { /* to be added over sequences, then divided by who reports; start from {0} */
	double loss;              /* this sequence's share of the step's loss: the sum over sequences is the loss */
	double tokens, sequences;
	double kl, ratio, ratio_min, ratio_max;
	double clip_low, clip_high, clip_region; /* tokens (token level) or sequences */
	double bounded;           /* tokens whose exponent had to be bounded (B25) */
	double diff_max, diff_sum;/* |logp - sampled|: sampler against trainer */
	double is_min, is_max, is_sum;
};

/*! Loss share and grad (n) = d loss / d logp. Returns 0, or -1 if an input is not finite (grad untouched). */
int spar_objective_eval(const struct spar_objective *o, const struct spar_sequence *s, double *grad, struct spar_objective_sums *sums);

#endif
