#include "rl/objective.h"

#define CISPO_CAP 5.0
#define VESPO_MAX 20.0
#define VESPO_MIN -18.420680743952367 /* log 1e-8 */

/* ---- exponentials ---- */

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

/* The estimate of the KL from k = logp - ref. *slope is the derivative in k. */
static double kl_of(int kind, double k, double *slope)
{
	double value;
	switch (kind) {
	case SPAR_KL_K1:
		*slope = 1;
		return k;
	case SPAR_KL_K2:
		*slope = k;
		return k * k / 2;
	case SPAR_KL_ABS:
		*slope = (k > 0) - (k < 0);
		return fabs(k);
	default:
		value = k3(-k, slope);
		*slope = -*slope;
		return value;
	}
}

/* ---- a token's policy term ---- */

struct ratio {
	double c, dc; /* pi / pi_old of the token or of the sequence, and its slope in the log ratio */
	double phi;   /* vespo's weight of the sequence */
};

struct term {
	double x;        /* value */
	double by_ratio; /* slope in the log ratio */
	double by_logp;  /* slope in the token's own log-probability, the ratio held fixed */
};

static double high(const struct spar_objective *o)
{
	if (o->epsilon_high >= 0)
		return o->epsilon_high;
	return o->loss == SPAR_LOSS_CISPO ? CISPO_CAP : o->epsilon;
}

static struct term likelihood(const struct spar_objective *o, double logp, double adv, const struct ratio *r)
{
	(void)o, (void)adv, (void)r;
	return (struct term){-logp, 0, -1};
}

static struct term weighted_likelihood(double weight, double logp)
{
	return (struct term){-weight * logp, 0, -weight};
}

static struct term dft(const struct spar_objective *o, double logp, double adv, const struct ratio *r)
{
	(void)o, (void)adv, (void)r;
	return weighted_likelihood(exp(logp), logp);
}

static struct term surrogate(const struct spar_objective *o, double logp, double adv, const struct ratio *r)
{
	(void)logp;
	double c = r->c, capped = o->delta > 0 ? fmin(c, o->delta) : c;
	double clipped = fmin(fmax(c, 1 - o->epsilon), 1 + high(o));
	double used = capped * adv <= clipped * adv ? capped : clipped;
	return (struct term){-used * adv, used == c ? -adv * r->dc : 0, 0};
}

static struct term cispo(const struct spar_objective *o, double logp, double adv, const struct ratio *r)
{
	return weighted_likelihood(fmin(r->c, high(o)) * adv, logp);
}

static struct term sapo(const struct spar_objective *o, double logp, double adv, const struct ratio *r)
{
	(void)logp;
	double tau = adv > 0 ? o->sapo_positive : o->sapo_negative, gate = 1 / (1 + exp(-tau * (r->c - 1)));
	return (struct term){-adv * gate * 4 / tau, -adv * 4 * gate * (1 - gate) * r->dc, 0};
}

static struct term vespo(const struct spar_objective *o, double logp, double adv, const struct ratio *r)
{
	(void)o;
	return weighted_likelihood(r->phi * adv, logp);
}

/* ---- what a token's term is divided by ---- */

static double by_tokens(const struct spar_objective *o, size_t n)
{
	(void)n;
	return 1 / o->step_tokens;
}

static double by_mean_of_means(const struct spar_objective *o, size_t n)
{
	return 1 / ((double)n * o->step_sequences);
}

static double by_constant(const struct spar_objective *o, size_t n)
{
	(void)n;
	return 1 / (o->max_completion_length * o->step_sequences);
}

static double by_sequences(const struct spar_objective *o, size_t n)
{
	(void)n;
	return 1 / o->step_sequences;
}

static const struct kind {
	struct term (*term)(const struct spar_objective *o, double logp, double adv, const struct ratio *r);
	double (*weight)(const struct spar_objective *o, size_t n);
} kinds[] = {
    [SPAR_LOSS_SFT] = {likelihood, by_tokens},        [SPAR_LOSS_DFT] = {dft, by_tokens},
    [SPAR_LOSS_GRPO] = {surrogate, by_mean_of_means}, [SPAR_LOSS_BNPO] = {surrogate, by_tokens},
    [SPAR_LOSS_DR_GRPO] = {surrogate, by_constant},   [SPAR_LOSS_DAPO] = {surrogate, by_tokens},
    [SPAR_LOSS_CISPO] = {cispo, by_tokens},           [SPAR_LOSS_SAPO] = {sapo, by_mean_of_means},
    [SPAR_LOSS_LUSPO] = {surrogate, by_sequences},    [SPAR_LOSS_VESPO] = {vespo, by_tokens},
};

/* ---- constants of the gradient: masks and importance weights ---- */

static double old_of(const struct spar_sequence *s, size_t i)
{
	return s->old ? s->old[i] : s->logp[i];
}

static bool corrects(const struct spar_objective *o, const struct spar_sequence *s)
{
	return o->is_max > 0 && s->sampled && !spar_loss_is_sft(o->loss);
}

static bool corrects_sequence(const struct spar_objective *o)
{
	return o->correction == SPAR_CORRECT_SEQUENCE_TRUNCATE || o->correction == SPAR_CORRECT_SEQUENCE_MASK;
}

static double log_weight(const struct spar_sequence *s, size_t i)
{
	return old_of(s, i) - s->sampled[i] + (s->kept ? log(s->kept[i]) : 0);
}

/* The weight within its bounds, counted. */
static double bounded_weight(const struct spar_objective *o, double log_w, struct spar_objective_sums *sums)
{
	double slope, w = bounded_exp(log_w, &slope);
	bool truncate = o->correction == SPAR_CORRECT_TOKEN_TRUNCATE || o->correction == SPAR_CORRECT_SEQUENCE_TRUNCATE;
	if (truncate)
		w = fmax(fmin(w, o->is_max), o->is_min);
	else if (w > o->is_max || w < o->is_min)
		w = 0;
	sums->is_min = sums->is_units == 0 || w < sums->is_min ? w : sums->is_min;
	sums->is_max = fmax(sums->is_max, w);
	sums->is_sum += w;
	sums->is_units++;
	return w;
}

static double sequence_weight(const struct spar_objective *o, const struct spar_sequence *s,
			      struct spar_objective_sums *sums)
{
	double log_w = 0;
	if (!corrects(o, s) || !corrects_sequence(o))
		return 1;
	for (size_t i = 0; i < s->n; i++)
		log_w += log_weight(s, i);
	return bounded_weight(o, log_w, sums);
}

static double token_weight(const struct spar_objective *o, const struct spar_sequence *s, size_t i,
			   struct spar_objective_sums *sums)
{
	return corrects(o, s) && !corrects_sequence(o) ? bounded_weight(o, log_weight(s, i), sums) : 1;
}

/* The policy has moved away from a sequence that it is to make rarer: nothing to learn from it. */
static bool is_off_policy(const struct spar_objective *o, const struct spar_sequence *s)
{
	double sum = 0;
	if (o->off_policy_mask <= 0 || s->advantage >= 0)
		return false;
	for (size_t i = 0; i < s->n; i++)
		sum += (s->sampled ? s->sampled[i] : old_of(s, i)) - s->logp[i];
	return sum / (double)s->n > o->off_policy_mask;
}

static bool is_uncertain(const struct spar_objective *o, const struct spar_sequence *s, size_t i)
{
	return !spar_objective_masks_entropy(o) || !s->entropy || s->entropy[i] >= o->entropy_threshold;
}

/* ---- a sequence ---- */

static double log_ratio(const struct spar_objective *o, const struct spar_sequence *s, size_t i)
{
	double sum = 0;
	if (!s->old)
		return 0;
	if (o->importance == SPAR_IS_TOKEN)
		return s->logp[i] - s->old[i];
	for (size_t k = 0; k < s->n; k++)
		sum += s->logp[k] - s->old[k];
	return sum / (double)s->n;
}

/* vespo's phi. The sampler's weight is part of W and so not of the terms. */
static double phi_of(const struct spar_objective *o, const struct spar_sequence *s, struct spar_objective_sums *sums)
{
	bool up = s->advantage >= 0;
	double k = up ? o->vespo_k_positive : o->vespo_k_negative, log_w = log(sequence_weight(o, s, sums));
	double lambda = up ? o->vespo_lambda_positive : o->vespo_lambda_negative;
	log_w = fmin(fmax(log_w, VESPO_MIN), VESPO_MAX);
	for (size_t i = 0; i < s->n; i++) {
		double d = s->old ? s->logp[i] - s->old[i] : 0, log_is = log(token_weight(o, s, i, sums));
		log_w += fmin(fmax(d, -VESPO_MAX), VESPO_MAX) + fmin(fmax(log_is, VESPO_MIN), VESPO_MAX);
	}
	log_w = fmin(fmax(log_w, VESPO_MIN), VESPO_MAX);
	double phi = exp(lambda + k * log_w - lambda * exp(log_w));
	sums->phi += phi;
	return phi;
}

static void count_ratio(const struct spar_objective *o, double c, double adv, struct spar_objective_sums *sums)
{
	sums->clip_low += c < 1 - o->epsilon && adv < 0;
	sums->clip_high += c > 1 + high(o) && adv > 0;
	sums->capped += c > high(o) && adv > 0;
	sums->units++;
}

/* The shares of the sequence that came since `before`. */
static void note_shares(struct spar_objective_sums *sums, const struct spar_objective_sums *before)
{
	double units = sums->units - before->units, low = (sums->clip_low - before->clip_low) / units;
	sums->clip_low_min = before->units == 0 || low < sums->clip_low_min ? low : sums->clip_low_min;
	sums->clip_high_max = fmax(sums->clip_high_max, (sums->clip_high - before->clip_high) / units);
}

/* What is added for one token: its term and its share of the KL. Returns the slope in the log ratio, not yet in grad. */
static double add_token(const struct spar_objective *o, const struct spar_sequence *s, size_t i, double term_weight,
			double kl_weight, const struct ratio *r, double *grad, struct spar_objective_sums *sums)
{
	struct term t = {0};
	if (s->advantage != 0 || spar_loss_is_sft(o->loss)) /* a huge ratio times 0 */
		t = kinds[o->loss].term(o, s->logp[i], s->advantage, r);
	double by_ratio = term_weight * t.by_ratio;
	sums->loss += term_weight * t.x;
	*grad = term_weight * t.by_logp;
	if (s->ref) {
		double slope, kl = kl_of(o->kl, s->logp[i] - s->ref[i], &slope);
		double c = o->use_bias_correction_kl ? r->c : 1, dc = o->use_bias_correction_kl ? r->dc : 0;
		sums->bounded += s->ref[i] - s->logp[i] > SPAR_EXPONENT_MAX && o->kl == SPAR_KL_K3;
		sums->kl += c * kl;
		sums->loss += kl_weight * c * kl;
		*grad += kl_weight * c * slope;
		by_ratio += kl_weight * kl * dc;
	}
	return by_ratio;
}

/* All terms. A token's ratio moves with its own log-probability, a sequence's by 1/n with each (GSPO). */
static void add_terms(const struct spar_objective *o, const struct spar_sequence *s, double *grad,
		      struct spar_objective_sums *sums)
{
	bool whole = o->importance == SPAR_IS_SEQUENCE, is_vespo = o->loss == SPAR_LOSS_VESPO;
	double weight = kinds[o->loss].weight(o, s->n), by_sequence = 0;
	bool dropped = is_off_policy(o, s);
	double alive = (dropped ? 0 : weight) * (is_vespo ? 1 : sequence_weight(o, s, sums));
	struct ratio r = {.phi = is_vespo ? phi_of(o, s, sums) : 1};
	struct spar_objective_sums before = *sums;
	double d = whole ? log_ratio(o, s, 0) : 0;
	sums->off_policy += dropped;
	for (size_t i = 0; i < s->n; i++) {
		if (!whole)
			d = log_ratio(o, s, i);
		r.c = bounded_exp(d, &r.dc);
		sums->bounded += d > SPAR_EXPONENT_MAX;
		sums->old_kl -= d; /* the mean d of a whole sequence has the same sum */
		if (!whole || i == 0)
			count_ratio(o, r.c, s->advantage, sums);
		double u = is_uncertain(o, s, i) ? alive : 0, w = is_vespo ? 1 : token_weight(o, s, i, sums);
		double by_ratio = add_token(o, s, i, u * w, o->beta * weight, &r, &grad[i], sums);
		if (whole)
			by_sequence += by_ratio;
		else
			grad[i] += by_ratio;
	}
	for (size_t i = 0; whole && i < s->n; i++)
		grad[i] += by_sequence / (double)s->n;
	note_shares(sums, &before);
}

/* The bonus counts tokens as the top-entropy mask does. */
static void add_entropy(const struct spar_objective *o, const struct spar_sequence *s, double *grad,
			struct spar_objective_sums *sums)
{
	for (size_t i = 0; i < s->n; i++) {
		double weight =
		    is_uncertain(o, s, i) && o->entropy_coef > 0 ? o->entropy_coef / o->step_entropy_tokens : 0;
		if (grad)
			grad[i] = -weight;
		sums->bonus -= weight * s->entropy[i];
		sums->loss -= weight * s->entropy[i];
		sums->entropy += s->entropy[i];
	}
	sums->entropy_tokens += (double)s->n;
}

static bool all_finite(const double *v, size_t n)
{
	for (size_t i = 0; v && i < n; i++)
		if (!isfinite(v[i]))
			return false;
	return true;
}

int spar_objective_eval(const struct spar_objective *o, const struct spar_sequence *s, double *grad,
			double *entropy_grad, struct spar_objective_sums *sums)
{
	if (!all_finite(s->logp, s->n) || !all_finite(s->old, s->n) || !all_finite(s->sampled, s->n) ||
	    !all_finite(s->kept, s->n) || !all_finite(s->ref, s->n) || !all_finite(s->entropy, s->n) ||
	    !isfinite(s->advantage))
		return -1;
	if (!s->n)
		return 0;
	double before = sums->loss;
	sums->loss = 0; /* the share is summed on its own: it does not depend on what came before */
	add_terms(o, s, grad, sums);
	if (s->entropy)
		add_entropy(o, s, entropy_grad, sums);
	sums->last = sums->loss;
	sums->loss += before;
	for (size_t i = 0; s->sampled && i < s->n; i++) {
		double diff = fabs(old_of(s, i) - s->sampled[i]);
		sums->diff_max = fmax(sums->diff_max, diff);
		sums->diff_sum += diff;
		sums->diff_tokens++;
	}
	sums->tokens += (double)s->n;
	sums->sequences++;
	return 0;
}
