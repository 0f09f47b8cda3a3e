#include "rl/objective.h"
#include <math.h>

const char *const spar_loss_names[] = {"sft", "grpo", "bnpo", "dr_grpo", "dapo", NULL};
const char *const spar_importance_names[] = {"token", "sequence", NULL};

/* exp(x), its tangent above the bound; *slope is the derivative. */
static double bounded_exp(double x, double *slope)
{
	*slope = exp(fmin(x, SPAR_EXPONENT_MAX));
	return x > SPAR_EXPONENT_MAX ? *slope * (1 + x - SPAR_EXPONENT_MAX) : *slope;
}

/* exp(q) - q - 1 without cancellation near 0. *slope is the derivative in q. */
static double k3(double q, double *slope)
{
	if (q <= SPAR_EXPONENT_MAX) {
		*slope = expm1(q);
		return *slope - q;
	}
	double e = bounded_exp(q, slope);
	*slope -= 1;
	return e - q - 1;
}

static int all_finite(const double *v, size_t n)
{
	for (size_t i = 0; v && i < n; i++)
		if (!isfinite(v[i]))
			return 0;
	return 1;
}

/* What one token's policy term weighs in the loss. */
static double token_weight(const struct spar_objective *o, size_t n)
{
	switch (o->loss) {
	case SPAR_LOSS_GRPO:
		return 1 / ((double)n * o->step_sequences);
	case SPAR_LOSS_DR_GRPO:
		return 1 / (o->max_completion_length * o->step_sequences);
	default:
		return 1 / o->step_tokens;
	}
}

/* The clipped surrogate -min(min(c, delta) A, clip(c) A) at c = exp(d); *slope is its derivative in d. Counts one unit. */
static double surrogate(const struct spar_objective *o, double d, double adv, double *slope,
			struct spar_objective_sums *sums)
{
	double dc, c = bounded_exp(d, &dc), low = 1 - o->epsilon, high = 1 + o->epsilon_high;
	double capped = o->delta > 0 ? fmin(c, o->delta) : c, clipped = fmin(fmax(c, low), high);
	sums->clip_low += c < low && adv < 0;
	sums->clip_high += c > high && adv > 0;
	sums->ratio += c;
	sums->ratio_min = sums->units == 0 || c < sums->ratio_min ? c : sums->ratio_min;
	sums->ratio_max = fmax(sums->ratio_max, c);
	sums->units++;
	*slope = 0;
	if (adv == 0) /* before any product: a huge ratio times 0 */
		return 0;
	if (capped * adv <= clipped * adv) {
		if (c == capped)
			*slope = -adv * dc;
		return -capped * adv;
	}
	if (c == clipped)
		*slope = -adv * dc;
	return -clipped * adv;
}

/* Importance weight of token i for the distribution that it was drawn from: a constant in the gradient. */
static double sampler_weight(const struct spar_objective *o, const struct spar_sequence *s, size_t i,
			     struct spar_objective_sums *sums)
{
	if (o->is_cap <= 0 || !s->sampled)
		return 1;
	double slope, old = s->old ? s->old[i] : s->logp[i];
	double w = fmin(bounded_exp(old - s->sampled[i], &slope) * (s->kept ? s->kept[i] : 1), o->is_cap);
	sums->is_min = sums->is_tokens == 0 || w < sums->is_min ? w : sums->is_min;
	sums->is_max = fmax(sums->is_max, w);
	sums->is_sum += w;
	sums->is_tokens++;
	return w;
}

static void likelihood(double weight, const struct spar_sequence *s, double *grad, struct spar_objective_sums *sums)
{
	for (size_t i = 0; i < s->n; i++) {
		sums->loss -= weight * s->logp[i];
		grad[i] = -weight;
	}
}

/* Each token has its own ratio. */
static void by_token(const struct spar_objective *o, double weight, const struct spar_sequence *s, double *grad,
		     struct spar_objective_sums *sums)
{
	for (size_t i = 0; i < s->n; i++) {
		double slope, d = s->old ? s->logp[i] - s->old[i] : 0, w = weight * sampler_weight(o, s, i, sums);
		sums->bounded += d > SPAR_EXPONENT_MAX;
		sums->loss += w * surrogate(o, d, s->advantage, &slope, sums);
		grad[i] = w * slope;
	}
}

/* One ratio for the sequence, the geometric mean of the tokens' (GSPO): each token moves it by 1/n. */
static void by_sequence(const struct spar_objective *o, double weight, const struct spar_sequence *s, double *grad,
			struct spar_objective_sums *sums)
{
	double slope, d = 0, w = 0;
	for (size_t i = 0; i < s->n; i++) {
		d += s->old ? s->logp[i] - s->old[i] : 0;
		w += weight * sampler_weight(o, s, i, sums);
	}
	d /= (double)s->n;
	sums->bounded += d > SPAR_EXPONENT_MAX ? (double)s->n : 0;
	sums->loss += w * surrogate(o, d, s->advantage, &slope, sums);
	for (size_t i = 0; i < s->n; i++)
		grad[i] = w * slope / (double)s->n;
}

/* Counted in every case; part of the loss when beta is not 0. */
static void add_kl(double weight, const struct spar_sequence *s, double *grad, struct spar_objective_sums *sums)
{
	for (size_t i = 0; i < s->n; i++) {
		double slope, q = s->ref[i] - s->logp[i], kl = k3(q, &slope);
		sums->bounded += q > SPAR_EXPONENT_MAX;
		sums->kl += kl;
		sums->loss += weight * kl;
		grad[i] -= weight * slope;
	}
}

int spar_objective_eval(const struct spar_objective *o, const struct spar_sequence *s, double *grad,
			struct spar_objective_sums *sums)
{
	if (!all_finite(s->logp, s->n) || !all_finite(s->old, s->n) || !all_finite(s->sampled, s->n) ||
	    !all_finite(s->kept, s->n) || !all_finite(s->ref, s->n) || !isfinite(s->advantage))
		return -1;
	if (!s->n)
		return 0;
	double weight = token_weight(o, s->n);
	if (o->loss == SPAR_LOSS_SFT)
		likelihood(weight, s, grad, sums);
	else if (o->importance == SPAR_IS_SEQUENCE)
		by_sequence(o, weight, s, grad, sums);
	else
		by_token(o, weight, s, grad, sums);
	if (s->ref)
		add_kl(o->beta * weight, s, grad, sums);
	for (size_t i = 0; s->sampled && i < s->n; i++) {
		double diff = fabs(s->logp[i] - s->sampled[i]);
		sums->diff_max = fmax(sums->diff_max, diff);
		sums->diff_sum += diff;
	}
	sums->tokens += (double)s->n;
	sums->sequences++;
	return 0;
}
