/* stats.h - estimates with their uncertainty, for evaluations. Everything is a function of its arguments; intervals are
 * 95 %. */
#ifndef SPAR_RL_STATS_H
#define SPAR_RL_STATS_H

#include "base/philox.h"
#include <stddef.h>

#define SPAR_RESAMPLES 10000

struct spar_interval {
	double lo, hi;
};

/*! Of a rate, from `successes` in n independent trials: Wilson's score interval (Wilson 1927), which also holds near 0 and
 *  1. n = 0 gives [0, 1]. */
struct spar_interval spar_wilson(size_t successes, size_t n);

/*! Of the mean of v[0..n): percentile bootstrap (Efron 1979), SPAR_RESAMPLES resamples drawn by `rng`. Values are one for
 *  each task, so that samples of one task are not taken for independent. For a paired comparison pass the differences.
 *  n = 0 gives NaN. */
struct spar_interval spar_bootstrap_mean(const double *v, size_t n, const struct spar_rng *rng);

/*! Chance that at least one of k samples drawn without replacement from n, of which c are right, is right:
 *  1 - C(n-c, k) / C(n, k), by products (Chen et al. 2021). NaN if k is 0 or above n: it cannot be known (B35). */
double spar_pass_at_k(size_t n, size_t c, size_t k);

#endif
