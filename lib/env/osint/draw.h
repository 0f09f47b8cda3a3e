/* draw.h - whole numbers out of a keyed stream, for env-osint. */
#ifndef SPAR_ENV_OSINT_DRAW_H
#define SPAR_ENV_OSINT_DRAW_H

#include "base/philox.h"
#include <string.h>

/*! The stream of that name: "graph", "views", "task", "context", ... */
static inline struct spar_rng spar_osint_stream(uint64_t seed, const char *name)
{
	struct spar_rng r;
	spar_rng_init(&r, seed, name, strlen(name));
	return r;
}

/*! Uniform in 0..n-1, n >= 1: draw number b of a. */
static inline int32_t spar_osint_below(const struct spar_rng *r, uint32_t a, uint32_t b, int32_t n)
{
	return (int32_t)(spar_rng_uniform(r, a, b, 0, 0) * n);
}

#endif
