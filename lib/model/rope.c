#include "model/rope.h"
#include "base/err.h"
#include <math.h>
#include <stdlib.h>

static const double two_pi = 6.283185307179586;

/* By wavelength: beyond original / low_freq_factor divided, within original / high_freq_factor kept. */
static float llama3(const struct spar_rope *r, float frequency)
{
	float wavelength = (float)two_pi / frequency, original = (float)r->original_context;
	if (wavelength > (float)(r->original_context / r->low_freq_factor))
		return frequency / (float)r->factor;
	if (wavelength < (float)(r->original_context / r->high_freq_factor))
		return frequency;
	float kept =
	    (original / wavelength - (float)r->low_freq_factor) / (float)(r->high_freq_factor - r->low_freq_factor);
	return (1 - kept) * frequency / (float)r->factor + kept * frequency;
}

/* The pair that turns `turns` times within the original context (not a whole number). */
static double yarn_pair(const struct spar_rope *r, double head_dim, double turns)
{
	return head_dim * log(r->original_context / (turns * two_pi)) / (2 * log(r->theta));
}

static float yarn(const struct spar_rope *r, size_t head_dim, size_t i, float power)
{
	double low = yarn_pair(r, (double)head_dim, r->beta_fast), high = yarn_pair(r, (double)head_dim, r->beta_slow);
	low = fmax(r->truncate ? floor(low) : low, 0);
	high = fmin(r->truncate ? ceil(high) : high, (double)head_dim - 1);
	if (low == high)
		high += 0.001;
	float ramp = ((float)i - (float)low) / (float)(high - low);
	float kept = 1 - fminf(fmaxf(ramp, 0), 1);
	return 1 / ((float)r->factor * power) * (1 - kept) + 1 / power * kept;
}

void spar_rope_frequencies(const struct spar_rope *r, size_t head_dim, float *out)
{
	for (size_t i = 0; i < head_dim / 2; i++) {
		float power = powf((float)r->theta, (float)(2 * i) / (float)head_dim), plain = 1 / power;
		switch (r->type) {
		case SPAR_ROPE_DEFAULT:
			out[i] = plain;
			break;
		case SPAR_ROPE_LINEAR:
			out[i] = plain / (float)r->factor;
			break;
		case SPAR_ROPE_LLAMA3:
			out[i] = llama3(r, plain);
			break;
		case SPAR_ROPE_YARN:
			out[i] = yarn(r, head_dim, i, power);
			break;
		}
	}
}

void spar_rope_angles(const struct spar_rope *r, size_t head_dim, size_t first, size_t n, float *cosine, float *sine)
{
	size_t half = head_dim / 2;
	float *frequencies = spar_malloc(half * sizeof *frequencies);
	float scale = r->type == SPAR_ROPE_YARN ? (float)r->attention_factor : 1;
	spar_rope_frequencies(r, head_dim, frequencies);
	for (size_t pos = 0; pos < n; pos++)
		for (size_t i = 0; i < half; i++) {
			float angle = (float)(first + pos) * frequencies[i];
			cosine[pos * half + i] = cosf(angle) * scale;
			sine[pos * half + i] = sinf(angle) * scale;
		}
	free(frequencies);
}
