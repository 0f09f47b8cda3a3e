/* Losses and gradients against the reference vectors (TRL and verl in float64, 9 digits), against finite differences, and
 * at the edges where exponentials overflow. */
#include "rl/objective.h"
#include "unit.h"
#include <string.h>

enum { B = 4, T = 4 };
static const size_t length[B] = {4, 3, 2, 4};
static const double adv[B] = {1, -0.5, 0.25, -0.75};
static double now[B][T] = {
    {-0.5, -1.2, -0.3, -2.0}, {-0.9, -0.1, -1.5, -0.7}, {-2.5, -0.4, -0.8, -0.2}, {-0.6, -1.1, -0.05, -3.0}};
static double before[B][T] = {
    {-0.6, -1.0, -0.9, -2.0}, {-0.8, -0.6, -1.4, -0.7}, {-2.2, -0.5, -0.8, -0.9}, {-0.6, -1.9, -0.30, -3.0}};
static const double reference[B][T] = {
    {-0.7, -1.1, -0.35, -1.8}, {-0.85, -0.2, -1.3, -0.9}, {-2.4, -0.3, -1.0, -0.25}, {-0.5, -1.3, -0.10, -2.8}};

static struct spar_objective objective(enum spar_loss loss)
{
	return (struct spar_objective){.loss = loss,
				       .epsilon = 0.2,
				       .epsilon_high = 0.2,
				       .max_completion_length = 8,
				       .step_sequences = B,
				       .step_tokens = 13};
}

/* The loss of the four sequences, taken in the given order. */
static struct spar_objective_sums run(const struct spar_objective *o, double l[B][T], double old[B][T],
				      const size_t *order, double grad[B][T])
{
	struct spar_objective_sums sums = {0};
	for (size_t k = 0; k < B; k++) {
		size_t i = order ? order[k] : k;
		struct spar_sequence s = {.n = length[i],
					  .logp = l[i],
					  .old = old[i],
					  .ref = o->beta ? reference[i] : NULL,
					  .advantage = adv[i]};
		CHECK(spar_objective_eval(o, &s, grad[i], &sums) == 0);
	}
	return sums;
}

static void check_gradient(const struct spar_objective *o, const double *want)
{
	double grad[B][T] = {{0}}, unused[B][T], moved[B][T];
	run(o, now, before, NULL, grad);
	for (size_t i = 0; i < B; i++)
		for (size_t t = 0; t < length[i]; t++) {
			if (want)
				CHECK_NEAR(grad[i][t], want[i * T + t], 1e-8);
			double up, down, h = 1e-6;
			memcpy(moved, now, sizeof moved);
			moved[i][t] = now[i][t] + h;
			up = run(o, moved, before, NULL, unused).loss;
			moved[i][t] = now[i][t] - h;
			down = run(o, moved, before, NULL, unused).loss;
			CHECK_NEAR(grad[i][t], (up - down) / (2 * h), 1e-8);
		}
}

static void check_loss(const struct spar_objective *o, double want)
{
	static const size_t orders[][B] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}};
	double grad[B][T];
	for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
		CHECK_NEAR(run(o, now, before, orders[i], grad).loss, want, 1e-8);
}

static void vectors(void)
{
	static const double g_grpo[] = {
	    -0.069073182, -0.051170672, 0, -0.0625, 0.037701559, 0.06869672,  0.037701559, 0,
	    -0.023150569, -0.034536591, 0, 0,       0.046875,    0.104322231, 0.060188691, 0.046875};
	static const double g_dapo[] = {-0.085013148, -0.062979289, 0,           -0.076923077,
					0.034801439,  0.063412357,  0.034801439, 0,
					-0.014246504, -0.021253287, 0,           0,
					0.057692308,  0.128396592,  0.074078389, 0.057692308};
	static const double g_dr[] = {
	    -0.034536591, -0.025585336, 0, -0.03125, 0.014138085, 0.02576127,  0.014138085, 0,
	    -0.005787642, -0.008634148, 0, 0,        0.0234375,   0.052161116, 0.030094346, 0.0234375};
	static const double g_delta[] = {-0.085013148,
					 -0.062979289,
					 0,
					 -0.076923077,
					 0.034801439,
					 0,
					 0.034801439,
					 0,
					 -0.014246504,
					 -0.021253287,
					 0,
					 0,
					 0.057692308,
					 0,
					 0.074078389,
					 0.057692308};
	static const double g_beta[] = {-0.084455396, -0.063302892, 0.000150063, -0.077604316,
					0.034643682,  0.063705165,  0.0341202,   0,
					-0.014570107, -0.02157689,  0,           0,
					0.057368705,  0.128954344,  0.074228453, 0.057011068};
	static const double g_gspo[] = {-0.070821778,
					-0.070821778,
					-0.070821778,
					-0.070821778,
					0.046048788,
					0.046048788,
					0.046048788,
					0,
					-0.028276169,
					-0.028276169,
					0,
					0,
					0.060945772,
					0.060945772,
					0.060945772,
					0.060945772};
	struct spar_objective o = objective(SPAR_LOSS_GRPO);
	check_loss(&o, 0.086929745);
	check_gradient(&o, g_grpo);
	o.beta = 0.04;
	check_loss(&o, 0.087305828);
	check_gradient(&o, NULL);

	o = objective(SPAR_LOSS_BNPO);
	check_loss(&o, 0.098151835);
	check_gradient(&o, g_dapo);
	o.beta = 0.04;
	check_loss(&o, 0.098554668);

	o = objective(SPAR_LOSS_DR_GRPO);
	check_loss(&o, 0.039874183);
	check_gradient(&o, g_dr);
	o.beta = 0.04;
	check_loss(&o, 0.040037834);

	o = objective(SPAR_LOSS_DAPO);
	check_loss(&o, 0.098151835);
	check_gradient(&o, g_dapo);
	o.epsilon_high = 0.28;
	check_loss(&o, 0.091997989);
	check_gradient(&o, g_dapo);
	o = objective(SPAR_LOSS_DAPO);
	o.delta = 1.5;
	check_loss(&o, 0.050573656);
	check_gradient(&o, g_delta);
	o.delta = 1.1;
	check_loss(&o, 0.025069393);
	o = objective(SPAR_LOSS_DAPO);
	o.beta = 0.04;
	check_loss(&o, 0.098554668);
	check_gradient(&o, g_beta);

	o = objective(SPAR_LOSS_GRPO);
	o.importance = SPAR_IS_SEQUENCE;
	check_loss(&o, 0.042090001);
	check_gradient(&o, g_gspo);
	o.epsilon = o.epsilon_high = 0.3;
	check_loss(&o, 0.042090001);
	o.epsilon = o.epsilon_high = 0.1;
	check_loss(&o, 0.050377114);
}

static void metrics(void)
{
	double grad[B][T];
	struct spar_objective o = objective(SPAR_LOSS_DAPO);
	struct spar_objective_sums s = run(&o, now, before, NULL, grad);
	CHECK(s.tokens == 13 && s.sequences == 4 && s.units == 13 && s.clip_high == 1 && s.clip_low == 0);
	o.beta = 0.04;
	s = run(&o, now, before, NULL, grad);
	CHECK_NEAR(s.kl / s.tokens, 0.010070832, 1e-8);
	o.beta = 0;
	s = run(&o, before, now, NULL, grad); /* exchanged */
	CHECK_NEAR(s.loss, 0.001947116, 1e-8);
	CHECK(s.clip_low == 3 && s.clip_high == 2);
	o.delta = 1.1; /* the cap comes after the count */
	CHECK(run(&o, now, before, NULL, grad).clip_high == 1);
	o = objective(SPAR_LOSS_GRPO);
	o.importance = SPAR_IS_SEQUENCE;
	o.epsilon = o.epsilon_high = 0.1;
	s = run(&o, now, before, NULL, grad);
	CHECK(s.units == 4 && s.clip_high == 1);
}

/* B24: what the loss is divided by. */
static void divisors(void)
{
	static const double two[] = {-2}, one[] = {-1, -1, -1};
	double grad[3];
	struct spar_objective o = {.loss = SPAR_LOSS_SFT, .step_tokens = 4, .step_sequences = 2};
	struct spar_sequence a = {.n = 1, .logp = two, .advantage = 1}, b = {.n = 3, .logp = one, .advantage = -1};
	static const enum spar_loss kinds[] = {SPAR_LOSS_SFT, SPAR_LOSS_GRPO, SPAR_LOSS_DAPO, SPAR_LOSS_DR_GRPO};
	static const double want[] = {1.25, 0, 0.5, 0.25};
	o.max_completion_length = 4;
	o.epsilon = o.epsilon_high = 0.2;
	for (size_t k = 0; k < 4; k++) {
		struct spar_objective_sums sums = {0};
		o.loss = kinds[k];
		CHECK(spar_objective_eval(&o, &a, grad, &sums) == 0);
		CHECK(spar_objective_eval(&o, &b, grad, &sums) == 0);
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
	CHECK(spar_objective_eval(&o, &s, grad, &sums) == 0);
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
	o.is_cap = 2;
	CHECK(spar_objective_eval(&o, &s, grad, &sums) == 0);
	CHECK_NEAR(grad[0], -1.0 / 3, 1e-12);
	CHECK_NEAR(grad[1], -2.0 / 3, 1e-12);
	CHECK_NEAR(grad[2], -exp(-0.5) / 6, 1e-12);
	CHECK_NEAR(sums.is_max, 2, 0);
	CHECK_NEAR(sums.is_min, exp(-0.5) / 2, 1e-12);
	CHECK_NEAR(sums.diff_max, 2, 1e-12);
	CHECK_NEAR(sums.diff_sum, 2.5, 1e-12);
	o.is_cap = 0;
	CHECK(spar_objective_eval(&o, &s, grad, &off) == 0);
	CHECK(grad[1] == grad[0] && off.is_tokens == 0 && off.diff_max == 2);
}

static void not_finite(void)
{
	double bad[] = {-1, -INFINITY}, good[] = {-1, -1}, grad[2] = {7, 7};
	struct spar_objective o = objective(SPAR_LOSS_GRPO);
	struct spar_objective_sums sums = {0}, zero = {0};
	struct spar_sequence s = {.n = 2, .logp = bad, .advantage = 1};
	CHECK(spar_objective_eval(&o, &s, grad, &sums) == -1);
	bad[1] = NAN;
	CHECK(spar_objective_eval(&o, &s, grad, &sums) == -1);
	s = (struct spar_sequence){.n = 2, .logp = good, .sampled = bad, .advantage = 1};
	CHECK(spar_objective_eval(&o, &s, grad, &sums) == -1);
	s = (struct spar_sequence){.n = 2, .logp = good, .advantage = INFINITY};
	CHECK(spar_objective_eval(&o, &s, grad, &sums) == -1);
	CHECK(grad[0] == 7 && !memcmp(&sums, &zero, sizeof sums));
	s.advantage = 1;
	s.n = 0;
	CHECK(spar_objective_eval(&o, &s, grad, &sums) == 0 && sums.sequences == 0);
}

int main(void)
{
	vectors();
	metrics();
	divisors();
	exponentials();
	importance_weights();
	not_finite();
	return unit_done();
}
