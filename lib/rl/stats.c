/* stats.c - see stats.h */
#include "rl/stats.h"
#include "base/err.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#define Z95 1.959963984540054 /* 0.975 quantile of the standard normal */

struct spar_interval spar_wilson(size_t successes, size_t n)
{
	if (!n)
		return (struct spar_interval){0, 1};
	double m = (double)n, p = (double)successes / m, zz = Z95 * Z95;
	double centre = p + zz / (2 * m), half = Z95 * sqrt(p * (1 - p) / m + zz / (4 * m * m));
	/* Exact at the ends, where rounding would leave a residue. */
	return (struct spar_interval){successes ? (centre - half) / (1 + zz / m) : 0,
				      successes < n ? (centre + half) / (1 + zz / m) : 1};
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Linear between order statistics; v is sorted. */
static double quantile(const double *v, size_t n, double q)
{
	double at = q * (double)(n - 1);
	size_t i = (size_t)at;
	return i + 1 < n ? v[i] + (at - (double)i) * (v[i + 1] - v[i]) : v[n - 1];
}

struct spar_interval spar_bootstrap_mean(const double *v, size_t n, const struct spar_rng *rng)
{
	if (!n)
		return (struct spar_interval){NAN, NAN};
	double *mean = spar_malloc(SPAR_RESAMPLES * sizeof *mean);
	for (uint32_t r = 0; r < SPAR_RESAMPLES; r++) {
		double sum = 0;
		for (size_t i = 0; i < n; i++)
			sum += v[(size_t)(spar_rng_uniform(rng, r, (uint32_t)i, 0, 0) * (double)n)];
		mean[r] = sum / (double)n;
	}
	qsort(mean, SPAR_RESAMPLES, sizeof *mean, by_value);
	struct spar_interval ci = {quantile(mean, SPAR_RESAMPLES, 0.025), quantile(mean, SPAR_RESAMPLES, 0.975)};
	free(mean);
	return ci;
}

double spar_pass_at_k(size_t n, size_t c, size_t k)
{
	double none = 1;
	if (!k || k > n)
		return NAN;
	if (n - c < k)
		return 1;
	for (size_t i = 0; i < k; i++)
		none *= (double)(n - c - i) / (double)(n - i);
	return 1 - none;
}
