/* Intervals and pass@k against known values. */
#include "rl/stats.h"
#include "unit.h"

static void wilson(void)
{
	/* By hand from the formula, z = 1.959964. */
	struct spar_interval ci = spar_wilson(8, 10);
	CHECK_NEAR(ci.lo, 0.490162, 1e-6);
	CHECK_NEAR(ci.hi, 0.943318, 1e-6);
	ci = spar_wilson(0, 10);
	CHECK(ci.lo == 0);
	CHECK_NEAR(ci.hi, 0.277533, 1e-6);
	ci = spar_wilson(10, 10);
	CHECK(ci.hi == 1);
	CHECK_NEAR(ci.lo, 0.722467, 1e-6);
	ci = spar_wilson(0, 0);
	CHECK(ci.lo == 0 && ci.hi == 1);
}

static void bootstrap(void)
{
	struct spar_rng rng;
	double v[400], sum = 0, squares = 0;
	spar_rng_init(&rng, 1, "values", 6);
	for (uint32_t i = 0; i < 400; i++) {
		v[i] = spar_rng_normal(&rng, i, 0, 0, 0);
		sum += v[i];
		squares += v[i] * v[i];
	}
	double mean = sum / 400, error = sqrt((squares / 400 - mean * mean) / 400);
	struct spar_interval ci = spar_bootstrap_mean(v, 400, &rng), again = spar_bootstrap_mean(v, 400, &rng);
	CHECK_NEAR(ci.lo, mean - 1.96 * error, 0.15 * error); /* normal theory, and the resampling's own noise */
	CHECK_NEAR(ci.hi, mean + 1.96 * error, 0.15 * error);
	CHECK(ci.lo == again.lo && ci.hi == again.hi);
	ci = spar_bootstrap_mean(v, 1, &rng);
	CHECK(ci.lo == v[0] && ci.hi == v[0]);
	CHECK(isnan(spar_bootstrap_mean(v, 0, &rng).lo));
}

static void pass_at_k(void)
{
	static const struct {
		size_t n, c, k;
		double want;
	} cases[] = {{4, 1, 1, 0.25},    {4, 1, 2, 0.5},     {4, 1, 4, 1}, {10, 3, 5, 0.916667},
		     {200, 1, 1, 0.005}, {200, 1, 100, 0.5}, {3, 0, 2, 0}, {3, 3, 2, 1}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		CHECK_NEAR(spar_pass_at_k(cases[i].n, cases[i].c, cases[i].k), cases[i].want, 5e-7);
	CHECK(isnan(spar_pass_at_k(2, 0, 5)));
	CHECK(isnan(spar_pass_at_k(2, 2, 5)));
	CHECK(isnan(spar_pass_at_k(0, 0, 1)));
	CHECK(isnan(spar_pass_at_k(2, 2, 0)));
}

int main(void)
{
	wilson();
	bootstrap();
	pass_at_k();
	return unit_done();
}
