/* sample.h - one token from logits. The recorded log-probability is of the whole tempered distribution; what top-k, top-p
 * and min-p kept of it is given too, so that a trainer can correct the ratio. */
#ifndef SPAR_MODEL_SAMPLE_H
#define SPAR_MODEL_SAMPLE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

struct spar_sampling {
	double temperature; /* 0: greedy (smallest id among equals) */
	double top_p;       /* 1: off. Smallest set of most probable tokens whose mass reaches top_p */
	int64_t top_k;      /* 0: off */
	double min_p;       /* 0: off. Tokens with p >= min_p * p_max */
};
struct spar_sampled {
	int32_t id;
	float logprob;   /* nats, log-softmax(logits / temperature)[id]; temperature 1 when greedy */
	float kept_mass; /* of the tempered distribution; 1 when nothing was cut */
};
/*! u is uniform in [0,1). -inf logits are never drawn. Order of cuts: temperature, top-k, top-p, min-p (transformers'). A
 *  function of its arguments only. `scratch` holds at least 2 * n floats. Returns -1 if no logit is finite or one is NaN. */
int spar_sample(const float *logits, size_t n, const struct spar_sampling *how, double u, float *scratch,
		struct spar_sampled *out);

/*! p[i] = exp((logits[i] - max) / temperature), -inf gives 0. sums: that of each chunk of p, n floats are enough. Returns the
 *  whole sum, or NaN. */
double spar_exponentials(const float *logits, size_t n, double temperature, float *p, float *sums, float *max);

#define SPAR_EXPONENTIALS_CHUNK 1024 /* exponentials summed in float32; their sums are added in double */

/*! log-softmax(logits / temperature), nats, of one of the logits, with what spar_exponentials gave. Sampler and trainer
 *  agree to the bit because both make it here. */
static inline double spar_logprob_of(float logit, float max, double sum, double temperature)
{
	return ((double)logit - max) / temperature - log(sum);
}

/*! log-softmax(logits / temperature)[id], nats; NaN if it is not defined. scratch: 2 * n floats. */
double spar_logprob(const float *logits, size_t n, double temperature, int32_t id, float *scratch);

#endif
