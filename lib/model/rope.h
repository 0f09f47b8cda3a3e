/* rope.h - rotary positions: how fast each pair of a head's elements turns, and the angles at a position. Pairs are the two
 * halves of a head (i, i + head_dim / 2), as in Hugging Face's checkpoints. */
#ifndef SPAR_MODEL_ROPE_H
#define SPAR_MODEL_ROPE_H

#include <stdbool.h>
#include <stddef.h>

enum spar_rope_type {
	SPAR_ROPE_DEFAULT, /* theta^(-2i / head_dim) (Su et al. 2021) */
	SPAR_ROPE_LINEAR,  /* divided by factor */
	SPAR_ROPE_LLAMA3, /* slow turns divided by factor, fast ones kept, between them a ramp over wavelengths (Llama 3.1) */
	SPAR_ROPE_YARN, /* the same with a ramp over dimensions, and attention_factor (Peng et al. 2023) */
};

struct spar_rope {
	enum spar_rope_type type;
	double theta;
	double factor, original_context; /* all but default; all but linear */
	double low_freq_factor,
	    high_freq_factor;        /* llama3: turns within original_context where the ramp ends and begins */
	double beta_fast, beta_slow; /* yarn: the same in turns */
	double attention_factor;     /* yarn: cosine and sine are multiplied by it */
	bool truncate;               /* yarn: the ramp ends at whole dimensions */
};

/*! Cosine and sine (n, head_dim / 2) at positions first, first + 1, ... Steps are rounded to float32 where transformers
 *  rounds them, as models were trained so: an angle at position 1500 is off by up to 1e-4 of a radian, and a model that
 *  shares the error agrees better. */
void spar_rope_angles(const struct spar_rope *r, size_t head_dim, size_t first, size_t n, float *cosine, float *sine);

/*! What each pair turns by from one position to the next, in radians: out (head_dim / 2). */
void spar_rope_frequencies(const struct spar_rope *r, size_t head_dim, float *out);

#endif
