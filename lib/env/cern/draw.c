/* draw.c - see draw.h */
#include "env/cern/draw.h"
#include "base/philox.h"
#include <math.h>

#define INVERSION_BELOW 30.0
#define INVERSION_MAX 399

static void uniforms(const struct spar_cern_dice *d, enum spar_cern_stream stream, uint32_t sub, uint32_t index,
		     uint32_t draw, double u[2])
{
	const uint32_t counter[4] = {index, draw, sub, d->difficulty * 256 + (uint32_t)stream};
	uint32_t x[4];
	spar_philox(d->key, counter, x);
	spar_philox_uniform(x, u);
}

double spar_cern_uniform(const struct spar_cern_dice *d, enum spar_cern_stream stream, uint32_t sub, uint32_t index,
			 uint32_t draw)
{
	double u[2];
	uniforms(d, stream, sub, index, draw, u);
	return u[0];
}

double spar_cern_normal(const struct spar_cern_dice *d, enum spar_cern_stream stream, uint32_t sub, uint32_t index,
			uint32_t draw)
{
	const double two_pi = 6.283185307179586477;
	double u[2];
	uniforms(d, stream, sub, index, draw, u);
	return sqrt(-2 * log(1 - u[0])) * cos(two_pi * u[1]);
}

static uint32_t poisson_inversion(double u, double lambda)
{
	double p = exp(-lambda), sum = p;
	uint32_t k = 0;
	while (u >= sum && k < INVERSION_MAX) {
		k++;
		p *= lambda / k;
		sum += p;
	}
	return k;
}

uint32_t spar_cern_poisson(const struct spar_cern_dice *d, uint32_t sub, uint32_t index, double lambda)
{
	if (lambda < INVERSION_BELOW)
		return poisson_inversion(spar_cern_uniform(d, SPAR_CERN_DATA, sub, index, 0), lambda);
	/* Names of the paper. */
	double b = 0.931 + 2.53 * sqrt(lambda), a = -0.059 + 0.02483 * b;
	double inv_alpha = 1.1239 + 1.1328 / (b - 3.4), v_r = 0.9277 - 3.6224 / (b - 2);
	for (uint32_t attempt = 0;; attempt++) {
		double u[2];
		uniforms(d, SPAR_CERN_DATA, sub, index, attempt, u);
		double U = u[0] - 0.5, V = 1 - u[1], us = 0.5 - fabs(U);
		double k = floor((2 * a / us + b) * U + lambda + 0.43);
		if (us >= 0.07 && V <= v_r)
			return (uint32_t)k;
		if (k < 0 || (us < 0.013 && V > us))
			continue;
		if (log(V) + log(inv_alpha) - log(a / (us * us) + b) <= -lambda + k * log(lambda) - lgamma(k + 1))
			return (uint32_t)k;
	}
}
