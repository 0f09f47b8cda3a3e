/* philox.h - counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011). A draw is a pure function of
 * key and counter, so it does not depend on what was drawn before, on the batch or on the host.
 * Known answers are in tests (spec of env-cern, section 2). */
#ifndef SPAR_BASE_PHILOX_H
#define SPAR_BASE_PHILOX_H

#include <stddef.h>
#include <stdint.h>

/*! One block of four 32-bit words. */
void spar_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);

/*! The two uniforms in [0,1) of a block: ((x0>>5)*2^26 + (x1>>6)) / 2^53, and the same from x2, x3. */
void spar_philox_uniform(const uint32_t x[4], double u[2]);

/* Keyed streams for sampling and training. The key mixes a seed with a text (a task's id; "" is allowed), so that
 * equal ids give equal draws in any order, batch or shard. */
struct spar_rng {
	uint32_t key[2];
};
void spar_rng_init(struct spar_rng *r, uint64_t seed, const void *text, size_t n);

/*! Uniform in [0,1) number `d` of (a, b, c): for sampling a token a = sample, b = turn, c = position. */
double spar_rng_uniform(const struct spar_rng *r, uint32_t a, uint32_t b, uint32_t c, uint32_t d);

/*! Standard normal from the same counters (Box-Muller, cosine branch). */
double spar_rng_normal(const struct spar_rng *r, uint32_t a, uint32_t b, uint32_t c, uint32_t d);

/*! A permutation of 0..n-1 (Fisher-Yates), a function of the key and `a` (an epoch number, say). */
void spar_rng_permutation(const struct spar_rng *r, uint32_t a, size_t *out, size_t n);

#endif
