/* Gradients against finite differences, for every objective and with every option that touches them; divisors; and the
 * edges where exponentials overflow. The reference vectors are in tests/golden/objectives.jsonl. */
#include "rl/objective.h"
#include "unit.h"
#include <string.h>

enum { B = 4, T = 4 };
static const size_t length[B] = {4, 3, 2, 4};
static const double adv[B] = {1, -0.5, 0.25, -0.75};

/* The arrays of a step, to be moved one number at a time. */
struct step {
	double now[B][T], before[B][T], sampled[B][T], kept[B][T], reference[B][T], entropy[B][T];
};
static const struct step start = {
    .now = {{-0.5, -1.2, -0.3, -2.0}, {-0.9, -0.1, -1.5, -0.7}, {-2.5, -0.4}, {-0.6, -1.1, -0.05, -3.0}},
    .before = {{-0.6, -1.0, -0.9, -2.0}, {-0.8, -0.6, -1.4, -0.7}, {-2.2, -0.5}, {-0.6, -1.9, -0.30, -3.0}},
    .sampled = {{-0.65, -1.0, -0.5, -2.1}, {-0.8, -0.2, -1.4, 0}, {-2.1, -0.6}, {-0.5, -1.1, -0.35, -2.6}},
    .kept = {{1, 0.9, 0.8, 1}, {1, 1, 0.7, 1}, {0.6, 1}, {0.9, 0.9, 1, 1}},
    .reference = {{-0.7, -1.1, -0.35, -1.8}, {-0.85, -0.2, -1.3, -0.9}, {-2.4, -0.3}, {-0.5, -1.3, -0.10, -2.8}},
    .entropy = {{0.1, 0.9, 0.3, 1.4}, {0.6, 0.2, 1.1, 0.5}, {1.6, 0.4}, {0.55, 0.8, 0.05, 2.0}}};

static struct spar_objective objective(int loss)
{
	struct spar_objective o;
	spar_objective_init(&o);
	o.loss = loss;
	o.max_completion_length = 8;
	o.step_sequences = B;
	o.step_tokens = o.step_entropy_tokens = 13;
	return o;
}

static struct spar_objective_sums run(const struct spar_objective *o, const struct step *s, double grad[B][T],
				      double entropy_grad[B][T])
{
	struct spar_objective_sums sums = {0};
	for (size_t i = 0; i < B; i++) {
		struct spar_sequence q = {.n = length[i],
					  .logp = s->now[i],
					  .old = s->before[i],
					  .sampled = s->sampled[i],
					  .kept = s->kept[i],
					  .ref = o->beta > 0 ? s->reference[i] : NULL,
					  .entropy = s->entropy[i],
					  .advantage = adv[i]};
		CHECK(spar_objective_eval(o, &q, grad[i], entropy_grad[i], &sums) == 0);
	}
	return sums;
}

/* What the gradient takes for constants (cispo's ratio, vespo's phi) stays so if the old log-probabilities move along. */
static double slope(const struct spar_objective *o, size_t i, size_t t, bool along)
{
	double unused[B][T], h = 1e-6, loss[2];
	for (int up = 0; up < 2; up++) {
		struct step moved = start;
		double by = up ? h : -h;
		moved.now[i][t] += by;
		if (along) {
			moved.before[i][t] += by;
			moved.sampled[i][t] += by;
		}
		loss[up] = run(o, &moved, unused, unused).loss;
	}
	return (loss[1] - loss[0]) / (2 * h);
}

static double entropy_slope(const struct spar_objective *o, size_t i, size_t t)
{
	double unused[B][T], h = 1e-6;
	struct step up = start, down = start;
	up.entropy[i][t] += h;
	down.entropy[i][t] -= h;
	return (run(o, &up, unused, unused).loss - run(o, &down, unused, unused).loss) / (2 * h);
}

static void check_gradient(const struct spar_objective *o)
{
	double grad[B][T], entropy_grad[B][T], size = 0;
	run(o, &start, grad, entropy_grad);
	bool along = o->loss == SPAR_LOSS_CISPO || o->loss == SPAR_LOSS_VESPO;
	for (size_t i = 0; i < B; i++)
		for (size_t t = 0; t < length[i]; t++) {
			CHECK_NEAR(grad[i][t], slope(o, i, t, along), 1e-8);
			CHECK_NEAR(entropy_grad[i][t], entropy_slope(o, i, t), 1e-8);
			size += fabs(grad[i][t]);
		}
	CHECK(size > 0.01);
}

static void set_kl_k1(struct spar_objective *o)
{
	o->kl = SPAR_KL_K1;
}
static void set_kl_k2(struct spar_objective *o)
{
	o->kl = SPAR_KL_K2;
}
static void set_kl_abs(struct spar_objective *o)
{
	o->kl = SPAR_KL_ABS;
}
static void set_kl_unbiased(struct spar_objective *o)
{
	o->use_bias_correction_kl = true;
}
static void set_delta(struct spar_objective *o)
{
	o->delta = 1.5;
}
static void set_token_mask(struct spar_objective *o)
{
	o->correction = SPAR_CORRECT_TOKEN_MASK;
	o->is_max = 1.05;
	o->is_min = 0.5;
}
static void set_sequence_truncate(struct spar_objective *o)
{
	o->correction = SPAR_CORRECT_SEQUENCE_TRUNCATE;
	o->is_max = 0.6;
}
static void set_sequence_mask(struct spar_objective *o)
{
	o->correction = SPAR_CORRECT_SEQUENCE_MASK;
	o->is_max = 0.6;
}
static void set_off_policy(struct spar_objective *o)
{
	o->off_policy_mask = 0.04;
}
static void set_entropy(struct spar_objective *o)
{
	o->entropy_coef = 0.1;
	o->top_entropy_quantile = 0.4;
	o->entropy_threshold = 0.7;
	o->step_entropy_tokens = 6;
}
static void set_nothing(struct spar_objective *o)
{
	(void)o;
}

static void gradients(void)
{
	static void (*const settings[])(struct spar_objective *) = {
	    set_nothing,       set_kl_k1,      set_kl_k2,      set_kl_abs,
	    set_kl_unbiased,   set_delta,      set_token_mask, set_sequence_truncate,
	    set_sequence_mask, set_off_policy, set_entropy};
	for (int loss = SPAR_LOSS_GRPO; spar_loss_names[loss]; loss++)
		for (int level = SPAR_IS_TOKEN; level <= SPAR_IS_SEQUENCE; level++)
			for (size_t k = 0; k < sizeof settings / sizeof *settings; k++) {
				struct spar_objective o = objective(loss);
				o.importance = level;
				o.beta = 0.1;
				settings[k](&o);
				/* The ratio that corrects the KL is no constant: it cannot move along. */
				if (o.use_bias_correction_kl && (loss == SPAR_LOSS_CISPO || loss == SPAR_LOSS_VESPO))
					continue;
				check_gradient(&o);
			}
	struct spar_objective o = objective(SPAR_LOSS_SFT);
	check_gradient(&o);
}

/* The probability that weighs dft's terms is a constant: the slope in each token is its value over its log-probability. */
static void dft(void)
{
	double grad[B][T], unused[B][T], loss = 0;
	struct spar_objective o = objective(SPAR_LOSS_DFT);
	struct spar_objective_sums sums = run(&o, &start, grad, unused);
	for (size_t i = 0; i < B; i++)
		for (size_t t = 0; t < length[i]; t++) {
			CHECK_NEAR(grad[i][t], -exp(start.now[i][t]) / 13, 1e-15);
			loss += grad[i][t] * start.now[i][t];
		}
	CHECK_NEAR(sums.loss, loss, 1e-15);
}

/* Options that leave something out do so: the tokens and sequences that go have no gradient. */
static void masks(void)
{
	double grad[B][T], unused[B][T];
	struct spar_objective o = objective(SPAR_LOSS_DAPO);
	set_off_policy(&o);
	struct spar_objective_sums s = run(&o, &start, grad, unused);
	/* mean (sampled - now) is 0.033 in the second sequence and 0.05 in the last */
	CHECK(s.off_policy == 1 && grad[1][0] != 0 && grad[3][0] == 0);
	o.off_policy_mask = 0.02;
	s = run(&o, &start, grad, unused);
	CHECK(s.off_policy == 2 && grad[1][0] == 0 && grad[3][3] == 0 && grad[0][0] != 0);

	o = objective(SPAR_LOSS_DAPO);
	set_entropy(&o);
	run(&o, &start, grad, unused);
	CHECK(grad[0][0] == 0 && grad[0][1] != 0 && grad[1][0] == 0 && grad[3][3] != 0);
	CHECK(unused[0][0] == 0 && unused[0][1] == -0.1 / 6);

	static const double some[] = {4, 1, 3, 2};
	static const struct {
		double top, threshold, above;
	} want[] = {{0.5, 2.5, 2}, {0.75, 1.75, 3}, {0.001, 3.997, 1}};
	for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
		o.top_entropy_quantile = want[i].top;
		spar_objective_settle(&o, 2, 4, some);
		CHECK_NEAR(o.entropy_threshold, want[i].threshold, 1e-6);
		CHECK(o.step_entropy_tokens == want[i].above && o.step_tokens == 4 && o.step_sequences == 2);
	}
}

/* vespo: W is the product of all ratios and weights. */
static void phi(void)
{
	double grad[B][T], unused[B][T], want = 0;
	struct spar_objective o = objective(SPAR_LOSS_VESPO);
	for (size_t i = 0; i < B; i++) {
		double log_w = 0, k = adv[i] >= 0 ? 2 : 3, lambda = adv[i] >= 0 ? 3 : 2;
		for (size_t t = 0; t < length[i]; t++)
			log_w += start.now[i][t] - start.sampled[i][t] + log(start.kept[i][t]);
		want += exp(lambda + k * log_w - lambda * exp(log_w));
	}
	CHECK_NEAR(run(&o, &start, grad, unused).phi, want, 1e-12);
	o.correction = SPAR_CORRECT_SEQUENCE_TRUNCATE;
	CHECK_NEAR(run(&o, &start, grad, unused).phi, want, 1e-12);
}

/* The extremes of the clip shares are those of sequences, in whatever order they come. */
static void clip_shares(void)
{
	static const double now[] = {-1.5, -1, -1.5, -1.5}, old[] = {-1, -1, -1, -1};
	struct spar_objective o = objective(SPAR_LOSS_DAPO);
	struct spar_sequence half = {.n = 2, .logp = now, .old = old, .advantage = -1}, all = half;
	double grad[2];
	all.logp = now + 2;
	for (int order = 0; order < 2; order++) {
		struct spar_objective_sums sums = {0};
		CHECK(spar_objective_eval(&o, order ? &half : &all, grad, NULL, &sums) == 0);
		CHECK(spar_objective_eval(&o, order ? &all : &half, grad, NULL, &sums) == 0);
		CHECK(sums.clip_low == 3 && sums.clip_low_min == 0.5 && sums.clip_high_max == 0 && sums.units == 4);
		CHECK_NEAR(sums.old_kl, 1.5, 1e-15);
	}
}

/* B24: what the loss is divided by. */
static void divisors(void)
{
	static const double two[] = {-2}, one[] = {-1, -1, -1};
	double grad[3];
	struct spar_objective o = objective(SPAR_LOSS_SFT);
	struct spar_sequence a = {.n = 1, .logp = two, .advantage = 1}, b = {.n = 3, .logp = one, .advantage = -1};
	static const int kinds[] = {SPAR_LOSS_SFT, SPAR_LOSS_GRPO, SPAR_LOSS_DAPO, SPAR_LOSS_DR_GRPO, SPAR_LOSS_LUSPO};
	static const double want[] = {1.25, 0, 0.5, 0.25, 1};
	o.max_completion_length = 4;
	o.step_tokens = 4;
	o.step_sequences = 2;
	for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
		struct spar_objective_sums sums = {0};
		o.loss = kinds[k];
		CHECK(spar_objective_eval(&o, &a, grad, NULL, &sums) == 0);
		CHECK(spar_objective_eval(&o, &b, grad, NULL, &sums) == 0);
		CHECK_NEAR(sums.loss, want[k], 1e-12);
	}
}

/* One token with log-ratio d, or with ref - logp = q. */
static struct spar_objective_sums one_token(double d, double advantage, double q, double beta, double *grad)
{
	struct spar_objective o = objective(SPAR_LOSS_DAPO);
	struct spar_objective_sums sums = {0};
	double logp = -1, old = -1 - d, ref = -1 + q;
	struct spar_sequence s = {
	    .n = 1, .logp = &logp, .old = &old, .ref = beta ? &ref : NULL, .advantage = advantage};
	o.step_tokens = 1;
	o.beta = beta;
	CHECK(spar_objective_eval(&o, &s, grad, NULL, &sums) == 0);
	CHECK(isfinite(sums.loss) && isfinite(*grad));
	return sums;
}

/* B25: exponentials. */
static void exponentials(void)
{
	static const double q[] = {0, 1, -1, 5, -20, -100}, kl[] = {0, 0.718282, 0.367879, 142.413159, 19, 99};
	double g;
	for (size_t i = 0; i < 6; i++)
		CHECK_NEAR(one_token(0, 0, q[i], 1, &g).loss, kl[i], 1e-6);
	CHECK_NEAR(one_token(0, 0, 20, 1, &g).loss, 485165174.41, 1e-2);
	CHECK_NEAR(one_token(0, 0, 1e-4, 1, &g).loss, 5.0002e-9, 1e-13);
	CHECK(one_token(0, 0, 800, 1, &g).bounded == 1 && g < -1e12);

	CHECK_NEAR(one_token(0.5, 1, 0, 0, &g).loss, -1.2, 1e-12);
	CHECK(g == 0);
	CHECK_NEAR(one_token(0.5, -1, 0, 0, &g).loss, 1.648721, 1e-6);
	CHECK_NEAR(g, 1.648721, 1e-6);
	CHECK(one_token(100, 0, 0, 0, &g).loss == 0 && g == 0);
	CHECK(one_token(1000, -1, 0, 0, &g).bounded == 1);

	/* Beyond the bound value and gradient still agree. */
	double up = one_token(40.5, -1, 0, 0, &g).loss, down = one_token(39.5, -1, 0, 0, &g).loss;
	CHECK_NEAR(g / (up - down), 1, 1e-9);
	up = one_token(0, 0, 40.5, 1, &g).loss;
	down = one_token(0, 0, 39.5, 1, &g).loss;
	CHECK_NEAR(-g / (up - down), 1, 1e-9);
}

/* The weight of the sampler's distribution: capped, and reduced by what top-p left out. */
static void importance_weights(void)
{
	static const double logp[] = {-1, -1, -1}, sampled[] = {-1, -3, -0.5}, kept[] = {1, 1, 0.5};
	double grad[3];
	struct spar_objective o = objective(SPAR_LOSS_DAPO);
	struct spar_sequence s = {.n = 3, .logp = logp, .sampled = sampled, .kept = kept, .advantage = 1};
	struct spar_objective_sums sums = {0}, off = {0};
	o.step_tokens = 3;
	o.is_max = 2;
	CHECK(spar_objective_eval(&o, &s, grad, NULL, &sums) == 0);
	CHECK_NEAR(grad[0], -1.0 / 3, 1e-12);
	CHECK_NEAR(grad[1], -2.0 / 3, 1e-12);
	CHECK_NEAR(grad[2], -exp(-0.5) / 6, 1e-12);
	CHECK_NEAR(sums.is_max, 2, 0);
	CHECK_NEAR(sums.is_min, exp(-0.5) / 2, 1e-12);
	CHECK_NEAR(sums.diff_max, 2, 1e-12);
	CHECK_NEAR(sums.diff_sum, 2.5, 1e-12);
	o.is_max = 0;
	CHECK(spar_objective_eval(&o, &s, grad, NULL, &off) == 0);
	CHECK(grad[1] == grad[0] && off.is_units == 0 && off.diff_max == 2);
}

static void not_finite(void)
{
	double bad[] = {-1, -INFINITY}, good[] = {-1, -1}, grad[2] = {7, 7};
	struct spar_objective o = objective(SPAR_LOSS_GRPO);
	struct spar_objective_sums sums = {0}, zero = {0};
	struct spar_sequence s = {.n = 2, .logp = bad, .advantage = 1};
	CHECK(spar_objective_eval(&o, &s, grad, NULL, &sums) == -1);
	bad[1] = NAN;
	CHECK(spar_objective_eval(&o, &s, grad, NULL, &sums) == -1);
	s = (struct spar_sequence){.n = 2, .logp = good, .sampled = bad, .advantage = 1};
	CHECK(spar_objective_eval(&o, &s, grad, NULL, &sums) == -1);
	s = (struct spar_sequence){.n = 2, .logp = good, .advantage = INFINITY};
	CHECK(spar_objective_eval(&o, &s, grad, NULL, &sums) == -1);
	CHECK(grad[0] == 7 && !memcmp(&sums, &zero, sizeof sums));
	s.advantage = 1;
	s.n = 0;
	CHECK(spar_objective_eval(&o, &s, grad, NULL, &sums) == 0 && sums.sequences == 0);
}

int main(void)
{
	gradients();
	dft();
	masks();
	phi();
	clip_shares();
	divisors();
	exponentials();
	importance_weights();
	not_finite();
	return unit_done();
}
