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
extern const char *const spar_importance_names[];

struct spar_objective {
	enum spar_loss loss;
	enum spar_importance importance;
	double epsilon, epsilon_high; /* clip to [1 - epsilon, 1 + epsilon_high] */
	double delta;                 /* cap of the unclipped ratio; 0: none */
	double beta;                  /* weight of the k3 KL to the reference; 0: none */
	double is_cap;                /* cap of the importance weight of the sampler's distribution; 0: no weight */
	double max_completion_length; /* dr_grpo's constant */
	/* Divisors of the WHOLE optimizer step, known before its first backward (B24): */
	double step_sequences; /* sequences that carry at least one loss token */
	double step_tokens;    /* loss tokens */
};

/* One sequence: an episode's loss tokens, all turns one after the other. */
struct spar_sequence {
	size_t n;
	const double *logp;    /* (n) current policy */
	const double *old;     /* (n) at sampling (or first pass) time; NULL: equal to logp (ratio 1) */
	const double *sampled; /* (n) reported by the sampler, of the whole tempered distribution; NULL: same as old */
	const double *kept;    /* (n) in (0,1]: share of the distribution that the sampler drew from; NULL: all of it */
	const double *ref;     /* (n) reference policy; NULL when beta is 0 */
	double advantage;
};

struct spar_objective_sums {                /* added up over sequences; who reports divides. Start from {0} */
	double loss;                        /* the sum over the step's sequences is the loss */
	double tokens, sequences;           /* those counted here */
	double kl;                          /* k3, over tokens */
	double ratio, ratio_min, ratio_max; /* c = pi / pi_old, over units */
	double clip_low, clip_high;    /* units with c < 1 - epsilon and A < 0, with c > 1 + epsilon_high and A > 0 */
	double units;                  /* tokens, or sequences when the ratio is the sequence's */
	double bounded;                /* tokens whose exponent had to be bounded (B25) */
	double diff_max, diff_sum;     /* |logp - sampled|, over tokens: sampler against trainer */
	double is_min, is_max, is_sum; /* importance weights, over tokens */
	double is_tokens;              /* how many were weighted */
};

/* Above this an exponential goes on as its tangent: value and gradient stay finite and agree. */
#define SPAR_EXPONENT_MAX 30.0

/*! Loss share and grad (n) = d loss / d logp. Returns 0, or -1 if an input is not finite (grad and sums untouched).
 *
 *  d = logp - old; c = exp(d), or exp(mean d) for the whole sequence. Per token
 *      x = -w min(min(c, delta) A, clip(c, 1 - epsilon, 1 + epsilon_high) A) + beta k3,   SFT: x = -logp
 *      k3 = exp(ref - logp) - (ref - logp) - 1
 *      w = min(exp(old - sampled) kept, is_cap), a constant; 1 when is_cap is 0
 *  The share is sum x over: step_tokens (SFT, BNPO, DAPO); n step_sequences (GRPO); max_completion_length
 *  step_sequences (Dr. GRPO). */
int spar_objective_eval(const struct spar_objective *o, const struct spar_sequence *s, double *grad,
			struct spar_objective_sums *sums);

#endif
