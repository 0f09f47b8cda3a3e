/* kernel.h - the arithmetic of the engine: one table of functions per instruction set, chosen at run time.
 *
 * Every product in the model is a block of rows times a packed panel of columns: weights, scores (columns are keys) and
 * the weighted sum of values (columns are a head's dimensions). Each element is made of chains of SPAR_CHAIN fused
 * multiply-adds in order of k, added up in that order, whatever the number of rows or the tiling; this is what makes a row
 * independent of its batch. (One chain over all of k loses more to rounding: the logits of a 135M model were 1.7e-4 from
 * those in double, with short chains 3e-5. And a lone row is faster, as the processor works on two chains at once.)
 *
 * Packed panels: element (k, column) of a panel with `ldw` columns lies at
 *	float32:  w[k * ldw + column]
 *	bfloat16: w[((k / 2) * ldw + column) * 2 + k % 2]     (pairs, as the dot-product instructions want them)
 * Left operands ("acts") are rows of float32, or of bfloat16 where the kernel multiplies bfloat16 itself (act_size 2).
 */
#ifndef SPAR_MODEL_ENGINE_KERNEL_H
#define SPAR_MODEL_ENGINE_KERNEL_H

#include "model/safetensors.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SPAR_PANEL 48 /* columns of a weight panel; rows of the engine's buffers are padded to a multiple */
#define SPAR_CHAIN 64 /* products of a chain; a multiple of SPAR_LANES */
#define SPAR_FETCH 32 /* bytes */
#define SPAR_LANES 16 /* keys of a cache block; every vector length divides it */

enum spar_gemm_mode {
	SPAR_GEMM_SET, /* c = a w */
	SPAR_GEMM_ADD, /* c = c + (a w) */
};

/* Cache blocks (attention.h) that will be read next: of each `size` bytes from `offset`, of which `done` have been fetched. */
struct spar_fetch {
	const void *const *block, *const *end;
	size_t offset, size, done;
};

/* What is fetched into the second-level cache while a product is computed: weights, `rate` lines with each chain, and
 * SPAR_FETCH bytes of the cache with each step of k (of twice as many, memory cannot keep up). Only a hint: the addresses
 * need not be there. */
struct spar_ahead {
	const char *at, *end;
	size_t rate;
	struct spar_fetch *cache; /* NULL: none */
};

/*! c (rows, cols) from a (rows, k) acts and a packed panel; cols is a multiple of SPAR_LANES, lda and ldc count elements;
 *  k is even for bfloat16 panels. ahead may be NULL. */
typedef void spar_gemm_fn(const void *a, size_t lda, const void *w, size_t ldw, size_t k, float *c, size_t ldc,
			  size_t rows, size_t cols, enum spar_gemm_mode mode, struct spar_ahead *ahead);

/* A list of cache blocks (attention.h). In each the wanted panel, of SPAR_LANES by `width`, begins `offset` bytes in. */
struct spar_blocks {
	const void *const *at; /* (n) */
	size_t n, offset, width;
};

/*! scores (rows, n * SPAR_LANES) = q (rows, width) acts times the blocks' keys. */
typedef void spar_score_fn(const void *q, size_t ldq, const struct spar_blocks *keys, float *scores, size_t lds,
			   size_t rows);

/*! result (rows, width) += weights (rows, n * SPAR_LANES) acts times the blocks' values: one chain that starts from result. */
typedef void spar_mix_fn(const void *weights, size_t ldw, const struct spar_blocks *values, float *result, size_t ldr,
			 size_t rows);

/* Products with panels of one type. */
struct spar_products {
	spar_gemm_fn *gemm; /* NULL: the kernel has none for this type */
	spar_score_fn *score;
	spar_mix_fn *mix;
};

struct spar_kernel {
	const char *name;
	size_t act_size; /* bytes of an act: 4 or 2 */
	struct spar_products f32, bf16;
	/* Rows of padded length: n is a multiple of SPAR_LANES. */
	void (*norm)(const float *x, const float *weight, size_t n, size_t n_true, float eps, void *act);
	void (*swiglu)(const float *gate, const float *up, size_t n, void *act); /* silu(gate) * up */
	void (*geglu)(const float *gate, const float *up, size_t n, void *act);  /* gelu(gate) * up, by tanh */
	void (*scale)(const float *x, float factor, size_t n, void *act);
	/* Rows of any length. */
	void (*rotate)(const float *x, const float *cosine, const float *sine, size_t half,
		       float *y); /* half-split rotary */
	float (*max)(const float *x, size_t n);
	/*! y[i] = exp(scale * (x[i] - max)); the sum is made in lanes, so that zeros at the end do not change it. y may be x. */
	float (*exps)(const float *x, size_t n, float max, float scale, float *y);
};

/*! The named kernel, or the best one for NULL. NULL if this processor or this dtype cannot use it. */
const struct spar_kernel *spar_kernel_find(const char *name, enum spar_dtype dtype);
/*! All kernels of this build, the best first; NULL past the end. For tests. */
const struct spar_kernel *spar_kernel_at(size_t i);
bool spar_kernel_usable(const struct spar_kernel *k);

static inline const struct spar_products *spar_kernel_products(const struct spar_kernel *k, enum spar_dtype dtype)
{
	return dtype == SPAR_BF16 ? &k->bf16 : &k->f32;
}

static inline size_t spar_round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

#endif
