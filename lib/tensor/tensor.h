/* tensor.h - a C11 tensor algebra over libtorch: what a transformer and its training need, and no more.
 *
 * Conventions
 *  1. Scopes. Every tensor an operation makes belongs to the scope it was made in and dies with it; handles are never
 *     freed one by one. spar_tensor_keep() gives a tensor a life of its own (parameters), ended by spar_tensor_free().
 *  2. Errors stick to the scope. An operation that fails, or gets a NULL operand, returns NULL and does nothing; the first
 *     message stays. So a computation is written as a formula and checked once, with spar_scope_check().
 *  3. Shapes are row-major, sizes int64_t, given outermost first. An operation never changes its operands unless its name
 *     ends in _into.
 *  4. Gradients are recorded for what depends on a tensor made with spar_tensor_param, unless the scope was opened with
 *     record = false.
 *  5. No exception leaves this layer. One thread calls it; libtorch's own threads work below.
 *  6. float32 everywhere but where a dtype is named; ids are int64.
 *
 *	struct spar_scope *s = spar_scope_new("cpu", true);
 *	struct spar_tensor *y = spar_linear(s, x, w, false);
 *	spar_backward(s, y, dy);
 *	rc = spar_scope_check(s, &err);
 *	spar_scope_free(s);
 */
#ifndef SPAR_TENSOR_TENSOR_H
#define SPAR_TENSOR_TENSOR_H

#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SPAR_API __attribute__((visibility("default")))
#else
#define SPAR_API
#endif

struct spar_tensor;
struct spar_scope;

/*! Once per process, before anything else: number of threads (0: all cores), and large malloc thresholds, without which
 *  glibc gives every large tensor back to the kernel and page faults dominate. SPAR_USAGE if `device` is not usable. */
SPAR_API int spar_tensor_setup(const char *device, int threads, struct spar_err *err);

/*! True if the BLAS in use is OpenBLAS built with its own threads, which fight with OpenMP (a step takes 7 times as long). */
SPAR_API bool spar_tensor_blas_fights(void);

/*! "1.13.1", "2.13.0": the libtorch this was built against. */
SPAR_API const char *spar_tensor_version(void);

/* ---- scopes ---- */
SPAR_API struct spar_scope *spar_scope_new(const char *device, bool record);
SPAR_API void spar_scope_free(struct spar_scope *s);
/*! 0, or SPAR_FAIL with the scope's first error in `err`. */
SPAR_API int spar_scope_check(const struct spar_scope *s, struct spar_err *err);

/* ---- host and back; the arrays are copied ---- */
SPAR_API struct spar_tensor *spar_tensor_f32(struct spar_scope *s, const float *data, int n_dims, const int64_t *shape);
SPAR_API struct spar_tensor *spar_tensor_ids(struct spar_scope *s, const int32_t *data, int64_t n);
SPAR_API struct spar_tensor *spar_tensor_zeros(struct spar_scope *s, int n_dims, const int64_t *shape);
/*! Copies all elements, row-major, converted to float32. */
SPAR_API void spar_tensor_read(struct spar_scope *s, const struct spar_tensor *t, float *out);
/*! Overwrites t with host floats (as many as it has elements), without recording. */
SPAR_API void spar_tensor_write_into(struct spar_scope *s, struct spar_tensor *t, const float *data);
SPAR_API int64_t spar_tensor_size(const struct spar_tensor *t, int dim);
SPAR_API int64_t spar_tensor_elements(const struct spar_tensor *t);

/* ---- lives of their own ---- */
SPAR_API struct spar_tensor *spar_tensor_keep(struct spar_tensor *t); /* shares storage; NULL gives NULL */
SPAR_API void spar_tensor_free(struct spar_tensor *t);
/*! A kept leaf, a copy of t, that gathers gradients. */
SPAR_API struct spar_tensor *spar_tensor_param(struct spar_scope *s, struct spar_tensor *t);
/*! A kept bfloat16 copy, for frozen weights. */
SPAR_API struct spar_tensor *spar_tensor_keep_bf16(struct spar_scope *s, struct spar_tensor *t);

/* ---- shapes ---- */
SPAR_API struct spar_tensor *spar_reshape(struct spar_scope *s, struct spar_tensor *t, int n_dims,
					  const int64_t *shape);
SPAR_API struct spar_tensor *spar_cat(struct spar_scope *s, struct spar_tensor *const *parts, size_t n, int dim);
/*! Cut dimension 0 into n parts of the given sizes (their sum is its size); one backward for all. */
SPAR_API void spar_split(struct spar_scope *s, struct spar_tensor *t, const int64_t *sizes, size_t n,
			 struct spar_tensor **parts);
/*! Rows t[index[i]] (n, ...). */
SPAR_API struct spar_tensor *spar_rows(struct spar_scope *s, struct spar_tensor *t, struct spar_tensor *index);
/*! t[from, from + n) along dimension 0, sharing storage. */
SPAR_API struct spar_tensor *spar_narrow(struct spar_scope *s, struct spar_tensor *t, int64_t from, int64_t n);

/* ---- arithmetic ---- */
SPAR_API struct spar_tensor *spar_add(struct spar_scope *s, struct spar_tensor *a, struct spar_tensor *b);
SPAR_API struct spar_tensor *spar_mul(struct spar_scope *s, struct spar_tensor *a, struct spar_tensor *b);
SPAR_API struct spar_tensor *spar_scale(struct spar_scope *s, struct spar_tensor *a, double factor);
SPAR_API void spar_add_into(struct spar_scope *s, struct spar_tensor *a, struct spar_tensor *b); /* a += b */
/*! x (n, in) times the transpose of w (out, in); with bf16 the product is taken in bfloat16 and given in float32. */
SPAR_API struct spar_tensor *spar_linear(struct spar_scope *s, struct spar_tensor *x, struct spar_tensor *w, bool bf16);
/*! (m, k) times (k, n); trans_a: a is (k, m). */
SPAR_API struct spar_tensor *spar_matmul(struct spar_scope *s, struct spar_tensor *a, struct spar_tensor *b,
					 bool trans_a, bool bf16);
SPAR_API struct spar_tensor *spar_silu(struct spar_scope *s, struct spar_tensor *a);
/*! x (n, h) over its root mean square, times weight (h). Zhang & Sennrich 2019. */
SPAR_API struct spar_tensor *spar_rms_norm(struct spar_scope *s, struct spar_tensor *x, struct spar_tensor *weight,
					   double eps);
/*! Rotary embedding of x (n, heads, d), half-split: cos and sin (n, 1, d/2). Su et al. 2021. */
SPAR_API struct spar_tensor *spar_rotary(struct spar_scope *s, struct spar_tensor *x, struct spar_tensor *cos,
					 struct spar_tensor *sin);
/*! Attention of a segment: q (n, heads, d) at the end of a path whose keys and values are k, v (len, kv_heads, d); query i
 *  sees keys 0 .. len - n + i. Gives (n, heads * d). */
SPAR_API struct spar_tensor *spar_attention(struct spar_scope *s, struct spar_tensor *q, struct spar_tensor *k,
					    struct spar_tensor *v);
/*! Each element is dropped with probability p, the others are divided by 1 - p; the same seed gives the same mask. */
SPAR_API struct spar_tensor *spar_dropout(struct spar_scope *s, struct spar_tensor *x, double p, uint64_t seed);

/* ---- the head: logits (n, vocabulary) of a chunk of targets; never recorded ---- */
/*! In place: logits / temperature, columns from `limit` on left out (limit 0: none), then softmax. log p of ids (n) goes
 *  into logp (n), nats, and the entropy into entropy (n) if that is not NULL. */
SPAR_API void spar_head_into(struct spar_scope *s, struct spar_tensor *logits, struct spar_tensor *ids,
			     double temperature, int64_t limit, float *logp, float *entropy);
/*! In place: probabilities p -> d loss / d logits, for d loss / d logp = g (n): g (onehot - p) / temperature. */
SPAR_API void spar_head_grad_into(struct spar_scope *s, struct spar_tensor *p, struct spar_tensor *ids, const float *g,
				  double temperature);

/* ---- gradients and the optimizer ---- */
/*! Backward from y with d loss / d y = dy; gradients of parameters are added up. Frees what was recorded. */
SPAR_API void spar_backward(struct spar_scope *s, struct spar_tensor *y, struct spar_tensor *dy);
/*! The gradient gathered so far, belonging to the scope; NULL if there is none (not an error). */
SPAR_API struct spar_tensor *spar_grad(struct spar_scope *s, struct spar_tensor *param);
/*! Add g to the parameter's gradient (for the parts worked out by hand). */
SPAR_API void spar_grad_add(struct spar_scope *s, struct spar_tensor *param, struct spar_tensor *g);
SPAR_API void spar_grad_clear(struct spar_tensor *param);
/*! Sum of squares, in float64. */
SPAR_API double spar_sum_squares(struct spar_scope *s, struct spar_tensor *t);

struct spar_adamw_rates {
	double learning_rate, beta1, beta2, eps, weight_decay;
	double grad_scale; /* the gradient is multiplied by this first (clipping) */
	uint64_t step;     /* 1-based */
};
/*! One AdamW step in place (Loshchilov & Hutter 2019, as torch.optim.AdamW computes it). Returns how many elements of the
 *  parameter changed. */
SPAR_API int64_t spar_adamw_into(struct spar_scope *s, struct spar_tensor *param, struct spar_tensor *m,
				 struct spar_tensor *v, const struct spar_adamw_rates *rates);

#ifdef __cplusplus
}
#endif
#endif
