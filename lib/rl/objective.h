/* objective.h - policy-gradient losses as functions of numbers: value, gradient d loss / d logprob, metrics. float64.
 * The only place where an objective's formula stands: `spar loss` and `spar update` both evaluate it here. Formulas, in the
 * conventions of TRL's trainers: DeepSeekMath 2402.03300, DAPO 2503.14476, Dr. GRPO 2503.20783, GSPO 2507.18071, CISPO
 * 2506.13585, SAPO 2511.20347, DFT 2508.05629. Everything here is pure. */
#ifndef SPAR_RL_OBJECTIVE_H
#define SPAR_RL_OBJECTIVE_H

#include "base/opt.h"
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum spar_loss {
	SPAR_LOSS_SFT,
	SPAR_LOSS_DFT,
	SPAR_LOSS_GRPO,
	SPAR_LOSS_BNPO,
	SPAR_LOSS_DR_GRPO,
	SPAR_LOSS_DAPO,
	SPAR_LOSS_CISPO,
	SPAR_LOSS_SAPO,
	SPAR_LOSS_LUSPO,
	SPAR_LOSS_VESPO
};
extern const char *const spar_loss_names[]; /* NULL-terminated, index = enum */
enum spar_importance { SPAR_IS_TOKEN, SPAR_IS_SEQUENCE };
extern const char *const spar_importance_names[];
enum spar_kl { SPAR_KL_K1, SPAR_KL_K2, SPAR_KL_K3, SPAR_KL_ABS };
extern const char *const spar_kl_names[];
enum spar_correction {
	SPAR_CORRECT_TOKEN_TRUNCATE,
	SPAR_CORRECT_TOKEN_MASK,
	SPAR_CORRECT_SEQUENCE_TRUNCATE,
	SPAR_CORRECT_SEQUENCE_MASK
};
extern const char *const spar_correction_names[];

/* The settings; 0 switches off what is optional. The enums are int for the option tables. */
struct spar_objective {
	int loss;                     /* enum spar_loss */
	int importance;               /* enum spar_importance: one ratio for each token or for the sequence */
	double epsilon, epsilon_high; /* clip to [1 - epsilon, 1 + epsilon_high]; cispo: cap; < 0: see below */
	double delta; /* cap of the unclipped ratio (two-sided clip; dual clip if above 1 + epsilon_high) */
	double sapo_positive, sapo_negative; /* temperatures, by the sign of the advantage */
	double vespo_k_positive, vespo_lambda_positive, vespo_k_negative, vespo_lambda_negative;
	double beta; /* weight of the KL to the reference */
	int kl;      /* enum spar_kl: how it is estimated */
	bool use_bias_correction_kl;
	int correction;         /* enum spar_correction: how the sampler's distribution is corrected for ... */
	double is_max, is_min;  /* ... within these bounds; is_max 0: not at all */
	double off_policy_mask; /* drop sequences with A < 0 and mean (sampled - logp) above this */
	double entropy_coef;    /* weight of the entropy bonus */
	double
	    top_entropy_quantile; /* the policy term only on this share of tokens, the most uncertain; 0 and 1: all */
	double max_completion_length; /* dr_grpo's constant */

	/* Of the WHOLE optimizer step, known before its first backward (B24); set by spar_objective_settle: */
	double step_sequences;      /* sequences that carry at least one loss token */
	double step_tokens;         /* loss tokens */
	double entropy_threshold;   /* with top_entropy_quantile */
	double step_entropy_tokens; /* loss tokens at or above it */
};

/*! TRL's defaults (epsilon_high: epsilon, or 5 for cispo, as in its paper), no KL, token ratios, weights up to 3. */
void spar_objective_init(struct spar_objective *o);

/* The rows of an option table that set `o`. TRL's names; its vllm_importance_sampling_* without the prefix. */
/* clang-format off */
#define SPAR_OBJECTIVE_OPTIONS(o) \
	SPAR_OPT_CHOICE("loss-type", 'l', &(o).loss, spar_loss_names, "TYPE", "what is minimized (dapo)"), \
	SPAR_OPT_CHOICE("importance-sampling-level", 0, &(o).importance, spar_importance_names, "LEVEL", \
			"a ratio for each token or sequence (token)"), \
	SPAR_OPT_DOUBLE("epsilon", 0, &(o).epsilon, 0, 1, "X", "clip the ratio below 1 - X (0.2)"), \
	SPAR_OPT_DOUBLE("epsilon-high", 0, &(o).epsilon_high, 0, 1e6, "X", \
			"clip the ratio above 1 + X (epsilon); cispo: cap of the ratio (5)"), \
	SPAR_OPT_DOUBLE("delta", 0, &(o).delta, 0, 1e6, "X", "cap of the ratio that is not clipped; 0: none (0)"), \
	SPAR_OPT_DOUBLE("sapo-temperature-pos", 0, &(o).sapo_positive, 1e-6, 1e6, "X", \
			"sapo: of the gate for positive advantages (1)"), \
	SPAR_OPT_DOUBLE("sapo-temperature-neg", 0, &(o).sapo_negative, 1e-6, 1e6, "X", "for negative ones (1.05)"), \
	SPAR_OPT_DOUBLE("vespo-k-pos", 0, &(o).vespo_k_positive, 0, 20, "X", \
			"vespo: power of the sequence's ratio, A not negative (2)"), \
	SPAR_OPT_DOUBLE("vespo-lambda-pos", 0, &(o).vespo_lambda_positive, 1e-4, 100, "X", "its decay (3)"), \
	SPAR_OPT_DOUBLE("vespo-k-neg", 0, &(o).vespo_k_negative, 0, 20, "X", "the power, A negative (3)"), \
	SPAR_OPT_DOUBLE("vespo-lambda-neg", 0, &(o).vespo_lambda_negative, 1e-4, 100, "X", "its decay (2)"), \
	SPAR_OPT_DOUBLE("beta", 0, &(o).beta, 0, 1e6, "X", "weight of the KL to the reference (0)"), \
	SPAR_OPT_CHOICE("kl-estimator", 0, &(o).kl, spar_kl_names, "KIND", "of the KL (k3)"), \
	SPAR_OPT_FLAG("use-bias-correction-kl", 0, &(o).use_bias_correction_kl, "multiply the KL by the ratio"), \
	SPAR_OPT_CHOICE("importance-sampling-mode", 0, &(o).correction, spar_correction_names, "MODE", \
			"weight of what another policy or a cut distribution sampled (token_truncate)"), \
	SPAR_OPT_DOUBLE("importance-sampling-clip-max", 0, &(o).is_max, 0, 1e6, "X", \
			"upper bound of that weight; 0: no weight (3)"), \
	SPAR_OPT_DOUBLE("importance-sampling-clip-min", 0, &(o).is_min, 0, 1e6, "X", "lower bound of that weight (0)"), \
	SPAR_OPT_DOUBLE("off-policy-mask-threshold", 0, &(o).off_policy_mask, 0, 1e6, "X", \
			"no policy term for negative advantages this far from the sampler; 0: none (0)"), \
	SPAR_OPT_DOUBLE("entropy-coef", 0, &(o).entropy_coef, 0, 1e6, "X", "weight of the entropy bonus (0)"), \
	SPAR_OPT_DOUBLE("top-entropy-quantile", 0, &(o).top_entropy_quantile, 0, 1, "X", \
			"policy term only on this share of tokens, the most uncertain (1)"), \
	SPAR_OPT_DOUBLE("max-completion-length", 0, &(o).max_completion_length, 1, 1e9, "N", \
			"the constant of dr_grpo (512)")
/* clang-format on */

/*! Likelihood of given tokens: no ratio, no advantage. */
static inline bool spar_loss_is_sft(int loss)
{
	return loss == SPAR_LOSS_SFT || loss == SPAR_LOSS_DFT;
}

/*! Entropies are part of the loss. */
static inline bool spar_objective_masks_entropy(const struct spar_objective *o)
{
	return o->top_entropy_quantile > 0 && o->top_entropy_quantile < 1;
}

/*! Set what depends on the whole step: its divisors and, with a top-entropy mask, the threshold over `entropies`
 *  (n_tokens), which may be NULL without one. The threshold is the quantile 1 - top_entropy_quantile, interpolated, and
 *  rounded to float32 as in TRL. */
void spar_objective_settle(struct spar_objective *o, size_t n_sequences, size_t n_tokens, const double *entropies);

/* One sequence: an episode's loss tokens, all turns one after the other. */
struct spar_sequence {
	size_t n;
	const double *logp;    /* (n) current policy */
	const double *old;     /* (n) at sampling (or first pass) time; NULL: equal to logp (ratio 1) */
	const double *sampled; /* (n) reported by the sampler, of the whole tempered distribution; NULL: same as old */
	const double *kept;    /* (n) in (0,1]: share of the distribution that the sampler drew from; NULL: all of it */
	const double *ref;     /* (n) reference policy; NULL when beta is 0 */
	const double *entropy; /* (n) of the current policy; NULL when it takes no part and is not measured */
	double advantage;
};

struct spar_objective_sums {            /* added up over sequences; who reports divides. Start from {0} */
	double loss;                    /* the sum over the step's sequences is the loss */
	double last;                    /* the share of the sequence counted last */
	double bonus;                   /* the entropy bonus in the loss (negative) */
	double tokens, sequences;       /* those counted here */
	double entropy, entropy_tokens; /* over tokens whose entropy is known */
	double kl;                      /* as it enters the loss before beta, over tokens */
	double old_kl;                  /* old - logp, over tokens */
	double clip_low, clip_high;     /* units with c < 1 - epsilon and A < 0, with c > 1 + epsilon_high and A > 0 */
	double clip_low_min;            /* smallest share of the first in a sequence */
	double clip_high_max;           /* largest share of the second in a sequence */
	double capped;                  /* cispo: units with c > epsilon_high and A > 0 */
	double units;                   /* tokens, or sequences when the ratio is the sequence's */
	double phi;                     /* vespo: over sequences */
	double off_policy;              /* sequences dropped by off_policy_mask */
	double bounded;                 /* tokens whose exponent had to be bounded (B25) */
	double diff_max, diff_sum;      /* |old - sampled|: sampler against trainer ... */
	double diff_tokens;             /* ... over the tokens whose sampler's is known */
	double is_min, is_max, is_sum;  /* importance weights, over units of the correction */
	double is_units;                /* how many were weighted: tokens or sequences */
};

/* Above this an exponential goes on as its tangent: value and gradient stay finite and agree. */
#define SPAR_EXPONENT_MAX 30.0

/*! Loss share and grad (n) = d loss / d logp. entropy_grad (n) = d loss / d entropy; NULL if not wanted. Returns 0, or -1
 *  if an input is not finite (grads and sums untouched).
 *
 *  d = logp - old; c = exp(d), or exp(mean d) for the whole sequence. A constant in the gradient: [x]. Per token
 *	sft                            x = -logp
 *	dft                            x = -[exp(logp)] logp
 *	grpo bnpo dr_grpo dapo luspo   x = -min(min(c, delta) A, clip(c, 1 - epsilon, 1 + epsilon_high) A)
 *	cispo                          x = -[min(c, epsilon_high)] A logp
 *	sapo                           x = -A 4 / tau sigmoid(tau (c - 1)), tau by the sign of A
 *	vespo                          x = -[phi] A logp, phi = exp(lambda + k log W - lambda W), k and lambda by the sign of A,
 *	                               log W = sum of d, each within 20, and of log w, within [log 1e-8, 20]
 *  and the loss of a token is  [u w] x + beta KL  (vespo: [u] x + beta KL), where
 *	w = exp(old - sampled) kept, of the token or over the sequence, truncated to [is_min, is_max] or 0 outside; 1 without
 *	u = 0 for sequences with A < 0 and mean (sampled - logp) > off_policy_mask, and for tokens with an entropy below
 *	    entropy_threshold; else 1
 *	KL = k3: exp(ref - logp) - (ref - logp) - 1, k1: logp - ref, k2: k1 k1 / 2, abs: |k1|; times c if bias-corrected.
 *  The share is the sum over: step_tokens (sft dft bnpo dapo cispo vespo); n step_sequences (grpo sapo);
 *  max_completion_length step_sequences (dr_grpo); step_sequences (luspo).
 *  Less entropy_coef times the entropies of its tokens at or above the threshold over step_entropy_tokens. */
int spar_objective_eval(const struct spar_objective *o, const struct spar_sequence *s, double *grad,
			double *entropy_grad, struct spar_objective_sums *sums);

#endif
