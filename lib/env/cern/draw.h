/* draw.h - the random numbers of one episode. Each is a function of seed, difficulty and place (stream, sub, index,
 * draw), never of what was drawn before: calibrating before or after a scan measures the same value, and repeating an
 * action reveals nothing new. */
#ifndef SPAR_ENV_CERN_DRAW_H
#define SPAR_ENV_CERN_DRAW_H

#include <stdint.h>

enum spar_cern_stream {
	SPAR_CERN_TRUTH,       /* index: item */
	SPAR_CERN_BACKGROUND,  /* index: channel; draw: 0 norm, 1 slope, 2 curvature */
	SPAR_CERN_SCALE,       /* index: channel */
	SPAR_CERN_DATA,        /* sub: 8 * (number of the data taking) + channel; index: bin; draw: attempt */
	SPAR_CERN_CALIBRATION, /* index: channel */
	SPAR_CERN_SYSTEMATICS, /* index: channel */
	SPAR_CERN_RANDOM,      /* the random policy; sub: step; index: item */
};

struct spar_cern_dice {
	uint32_t key[2]; /* seed, low word first */
	uint32_t difficulty;
};

/*! Uniform in [0,1). */
double spar_cern_uniform(const struct spar_cern_dice *d, enum spar_cern_stream stream, uint32_t sub, uint32_t index,
			 uint32_t draw);

/*! Standard normal: the cosine branch of Box and Muller. */
double spar_cern_normal(const struct spar_cern_dice *d, enum spar_cern_stream stream, uint32_t sub, uint32_t index,
			uint32_t draw);

/*! Poisson of mean `lambda` >= 0 for data bin `index`: inversion below 30, else transformed rejection (PTRS, Hormann
 *  1993), whose attempts are the draws 0, 1, ... */
uint32_t spar_cern_poisson(const struct spar_cern_dice *d, uint32_t sub, uint32_t index, double lambda);

#endif
