#include "model/sample.h"
#include "model/engine/kernel.h"
#include <math.h>

#define CHUNK SPAR_EXPONENTIALS_CHUNK

double spar_exponentials(const float *logits, size_t n, double temperature, float *p, float *sums, float *max)
{
	const struct spar_kernel *k = spar_kernel_find(NULL, SPAR_F32);
	double sum = 0;
	*max = k->max(logits, n);
	for (size_t i = 0; i < n; i += CHUNK)
		sum += sums[i / CHUNK] =
		    k->exps(logits + i, n - i < CHUNK ? n - i : CHUNK, *max, (float)(1 / temperature), p + i);
	return sum;
}

double spar_logprob(const float *logits, size_t n, double temperature, int32_t id, float *scratch)
{
	float max;
	double sum = spar_exponentials(logits, n, temperature, scratch, scratch + n, &max);
	return spar_logprob_of(logits[id], max, sum, temperature);
}

/* What is kept: values above `least`, and of those equal to it the `n_equal` with the smallest ids. */
struct cut {
	float least;
	size_t n_equal;
};

/* The cut that keeps the fewest of the largest values whose total reaches `want`; the total is their number if `count`, or
 * else their sum. Selection by halves, as in quicksort, going into the half where the total is reached; p is permuted. */
static struct cut select_largest(float *p, size_t n, double want, bool count)
{
	double total = 0; /* of what lies above p[0..n) */
	for (;;) {
		float pivot = p[n / 2];
		size_t above = 0, equal = 0;
		double mass_above = 0;
		for (size_t i = 0; i < n; i++) {
			float v = p[i];
			if (v > pivot) { /* p: above, equal, below */
				p[i] = p[above + equal];
				p[above + equal] = p[above];
				p[above++] = v;
				mass_above += count ? 1 : v;
			} else if (v == pivot) {
				p[i] = p[above + equal];
				p[above + equal++] = v;
			}
		}
		double each = count ? 1 : pivot;
		if (above && total + mass_above >= want) {
			n = above;
			continue;
		}
		total += mass_above;
		if (total + each * (double)equal >= want || above + equal == n) {
			double more = each > 0 ? ceil((want - total) / each) : (double)equal;
			return (struct cut){pivot, more < 1 ? 1 : more > (double)equal ? equal : (size_t)more};
		}
		total += each * (double)equal;
		p += above + equal;
		n -= above + equal;
	}
}

/* Zero what the cut drops, and sum up again; returns what is left, which is `whole` if nothing was dropped. */
static double apply(struct cut cut, float *p, size_t n, float *sums, double whole)
{
	double left = 0;
	size_t n_dropped = 0;
	for (size_t i = 0; i < n; i++) {
		bool equal = p[i] == cut.least, drop = p[i] < cut.least || (equal && !cut.n_equal);
		n_dropped += drop;
		if (drop)
			p[i] = 0;
		else
			cut.n_equal -= equal;
		sums[i / CHUNK] = p[i] + (i % CHUNK ? sums[i / CHUNK] : 0);
		left += p[i];
	}
	return n_dropped ? left : whole;
}

/* The first id whose running sum exceeds `want`; where rounding leaves none, the last one that is possible. */
static size_t draw(const float *p, size_t n, const float *sums, double want)
{
	double sum = 0;
	for (size_t first = 0; first < n; first += CHUNK) {
		if (sum + sums[first / CHUNK] <= want) {
			sum += sums[first / CHUNK];
			continue;
		}
		for (size_t i = first; i < n && i < first + CHUNK; i++)
			if ((sum += p[i]) > want)
				return i;
	}
	while (n > 1 && !(p[n - 1] > 0))
		n--;
	return n - 1;
}

int spar_sample(const float *logits, size_t n, const struct spar_sampling *how, double u, float *scratch,
		struct spar_sampled *out)
{
	float *p = scratch, *work = scratch + n, max;
	double temperature = how->temperature > 0 ? how->temperature : 1;
	double sum = spar_exponentials(logits, n, temperature, p, work, &max), kept = sum;
	if (!(sum > 0) || isinf(max))
		return -1;
	size_t id = 0;
	if (how->temperature <= 0) {
		while (logits[id] != max)
			id++;
	} else {
		if (how->top_k > 0 && (size_t)how->top_k < n) {
			memcpy(work, p, n * sizeof *work);
			kept = apply(select_largest(work, n, (double)how->top_k, true), p, n, work, kept);
		}
		if (how->top_p < 1) {
			memcpy(work, p, n * sizeof *work);
			kept = apply(select_largest(work, n, how->top_p * kept, false), p, n, work, kept);
		}
		if (how->min_p > 0)
			kept = apply((struct cut){(float)how->min_p, SIZE_MAX}, p, n, work, kept);
		id = draw(p, n, work, u * kept);
	}
	out->id = (int32_t)id;
	out->logprob = (float)spar_logprob_of(logits[id], max, sum, temperature);
	out->kept_mass = (float)(kept / sum);
	return 0;
}
