#include "base/philox.h"

#include <math.h>

void spar_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4])
{
	uint32_t k0 = key[0], k1 = key[1];
	uint32_t x0 = counter[0], x1 = counter[1], x2 = counter[2], x3 = counter[3];
	for (int round = 0; round < 10; round++) {
		uint64_t a = (uint64_t)0xD2511F53u * x0;
		uint64_t b = (uint64_t)0xCD9E8D57u * x2;
		x0 = (uint32_t)(b >> 32) ^ x1 ^ k0;
		x1 = (uint32_t)b;
		x2 = (uint32_t)(a >> 32) ^ x3 ^ k1;
		x3 = (uint32_t)a;
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
	out[0] = x0;
	out[1] = x1;
	out[2] = x2;
	out[3] = x3;
}

/* 53 bits of two words, as a fraction. */
static double uniform(uint32_t hi, uint32_t lo)
{
	return ((double)(hi >> 5) * 67108864.0 + (double)(lo >> 6)) / 9007199254740992.0;
}

void spar_philox_uniform(const uint32_t x[4], double u[2])
{
	u[0] = uniform(x[0], x[1]);
	u[1] = uniform(x[2], x[3]);
}

/* The text goes in as its 64-bit FNV-1a hash and length; one block keyed by the seed mixes them into the stream's key.
 */
void spar_rng_init(struct spar_rng *r, uint64_t seed, const void *text, size_t n)
{
	const uint8_t *p = text;
	uint64_t hash = 0xCBF29CE484222325u;
	for (size_t i = 0; i < n; i++)
		hash = (hash ^ p[i]) * 0x100000001B3u;
	const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
	const uint32_t counter[4] = {(uint32_t)hash, (uint32_t)(hash >> 32), (uint32_t)n,
				     (uint32_t)((uint64_t)n >> 32)};
	uint32_t out[4];
	spar_philox(key, counter, out);
	r->key[0] = out[0];
	r->key[1] = out[1];
}

static void draw(const struct spar_rng *r, uint32_t a, uint32_t b, uint32_t c, uint32_t d, double u[2])
{
	uint32_t x[4];
	spar_philox(r->key, (const uint32_t[4]){a, b, c, d}, x);
	spar_philox_uniform(x, u);
}

double spar_rng_uniform(const struct spar_rng *r, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
	double u[2];
	draw(r, a, b, c, d, u);
	return u[0];
}

double spar_rng_normal(const struct spar_rng *r, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
	static const double two_pi = 6.28318530717958647692;
	double u[2];
	draw(r, a, b, c, d, u);
	return sqrt(-2.0 * log1p(-u[0])) * cos(two_pi * u[1]); /* 1 - u lies in (0,1]: the logarithm is finite */
}

void spar_rng_permutation(const struct spar_rng *r, uint32_t a, size_t *out, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = i;
	for (size_t i = n; i > 1; i--) {
		uint64_t at = i - 1;
		double u = spar_rng_uniform(r, (uint32_t)at, (uint32_t)(at >> 32), a, UINT32_MAX);
		size_t j = (size_t)(u * (double)i); /* u < 1 and i < 2^53, so j < i */
		size_t swap = out[at];
		out[at] = out[j];
		out[j] = swap;
	}
}
