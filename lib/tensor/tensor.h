/* tensor.h - a small tensor algebra in C11 over libtorch (1.13 and 2.x): what training a transformer needs, no more.
 *
 *	struct spar_scope *s = spar_scope_new(device, true);
 *	struct spar_tensor *x = spar_tensor_from_f32(s, data, 2, (size_t[]){n_rows, n_in});
 *	struct spar_tensor *y = spar_tensor_linear(s, spar_tensor_rms_norm(s, x, gain, 1e-5, SPAR_TENSOR_F32), w, NULL);
 *	spar_tensor_backward(s, y, dy);
 *	rc = spar_scope_status(s, &err);                // one look at the end: did anything above fail?
 *	spar_scope_free(s);                             // x, y and what they kept for the backward are gone
 *
 * Conventions
 *  1. Scopes own. A result belongs to the scope it was made in and dies with it. An operand may come from another scope
 *     that is still open. A loop may let go of a value early with spar_tensor_drop.
 *  2. Errors stick to the scope. The first failure is remembered; from then on every function given that scope does
 *     nothing and returns NULL (or 0). So a formula may be written as a formula and its scope asked once. No exception leaves.
 *  3. A scope is made with or without gradients: operations in it are recorded for spar_tensor_backward, or not.
 *  4. Shapes are row-major; "(rows, cols)" names them. Results are new tensors, except where a comment says view (shares
 *     memory) or in place.
 *  5. Types: F32, BF16, and INDEX (64-bit row or column numbers). Products are made in the type of their operands;
 *     normalisation, rotation, attention, softmax and sums are F32 inside.
 *  6. A promised result has its shape, and takes part in the backward, but is not computed: spar_tensor_settle says what
 *     its value is, where that is known from elsewhere (the engine's forward).
 *  7. One thread calls. Results are the same from run to run for the same number of threads (on a CPU).
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

struct spar_tensor; /* opaque, owned by a scope */
struct spar_scope;  /* opaque */
struct spar_tree;   /* opaque: the plan of a tree attention, owned by a scope */

enum spar_tensor_type { SPAR_TENSOR_F32, SPAR_TENSOR_BF16, SPAR_TENSOR_INDEX };

/* ---- the process ---- */

/*! Before anything else (again is fine): number of threads (0: all cores) and an allocator that keeps large blocks instead of giving
 *  them back to the kernel after each operation (page faults took more than half of a step). */
int spar_tensor_start(int n_threads, struct spar_err *err);
int spar_tensor_threads(void);

/*! True if the BLAS in use is OpenBLAS built with its own threads, which fight OpenMP's (a step takes 7 times as long). */
bool spar_tensor_blas_fights(void);

struct spar_device {
	bool cuda;
	int index;
};
/*! "cpu", "cuda", "cuda:1". SPAR_USAGE for another word, SPAR_FAIL when there is no such device. */
int spar_device_parse(struct spar_device *d, const char *text, struct spar_err *err);

/* ---- scopes ---- */

struct spar_scope *spar_scope_new(struct spar_device device, bool grad);
void spar_scope_free(struct spar_scope *s);

/*! A scope inside another one, for a layer's or a chunk's intermediates: `outer` must stay open meanwhile. Closing it
 *  frees all but `result` (NULL: nothing is wanted), which becomes the outer scope's, as does a failure. */
struct spar_scope *spar_scope_open(struct spar_scope *outer, bool grad);
struct spar_tensor *spar_scope_close(struct spar_scope *inner, struct spar_tensor *result);

/*! 0, or the first failure since the scope was made. */
int spar_scope_status(const struct spar_scope *s, struct spar_err *err);

/* ---- make, convert, copy to and from the host ---- */

struct spar_tensor *spar_tensor_zeros(struct spar_scope *s, enum spar_tensor_type type, int n_dims,
				      const size_t *shape);
struct spar_tensor *spar_tensor_unset(struct spar_scope *s, enum spar_tensor_type type, int n_dims,
				      const size_t *shape); /* to be written by spar_tensor_data */
struct spar_tensor *spar_tensor_from_f32(struct spar_scope *s, const float *data, int n_dims,
					 const size_t *shape);                                 /* copied */
struct spar_tensor *spar_tensor_from_i32(struct spar_scope *s, const int32_t *data, size_t n); /* copied, as INDEX */
struct spar_tensor *spar_tensor_to(struct spar_scope *s, const struct spar_tensor *t,
				   enum spar_tensor_type type); /* t itself if it has that type */
struct spar_tensor *spar_tensor_detach(struct spar_scope *s,
				       const struct spar_tensor *t); /* view outside the recorded graph */
/*! Its elements in place, row-major in its type, as long as it lives; NULL: not in the host's memory, or a view with gaps. */
void *spar_tensor_data(struct spar_tensor *t);
void spar_tensor_read(struct spar_scope *s, const struct spar_tensor *t, float *out, size_t n); /* n: elements of t */
void spar_tensor_write(struct spar_scope *s, struct spar_tensor *t, const float *in, size_t n); /* in place */

void spar_tensor_assign(struct spar_scope *s, struct spar_tensor *t,
			const struct spar_tensor *from); /* in place, equal shapes */
void spar_tensor_drop(struct spar_tensor *t);            /* its memory, now; the handle must not be used again */

/* ---- shape ---- */

size_t spar_tensor_size(const struct spar_tensor *t, int dim);
size_t spar_tensor_elements(const struct spar_tensor *t);
struct spar_tensor *spar_tensor_slice(struct spar_scope *s, const struct spar_tensor *t, size_t begin,
				      size_t n); /* rows, a view */
struct spar_tensor *spar_tensor_columns(struct spar_scope *s, const struct spar_tensor *t, size_t begin,
					size_t n); /* of a matrix, a view */
struct spar_tensor *spar_tensor_reshape(struct spar_scope *s, const struct spar_tensor *t, size_t rows,
					size_t cols); /* the same elements in the same order */
struct spar_tensor *spar_tensor_rows(struct spar_scope *s, const struct spar_tensor *t,
				     const struct spar_tensor *index);

/* ---- algebra ---- */

struct spar_tensor *spar_tensor_add(struct spar_scope *s, const struct spar_tensor *a, const struct spar_tensor *b);
struct spar_tensor *spar_tensor_mul(struct spar_scope *s, const struct spar_tensor *a, const struct spar_tensor *b);
struct spar_tensor *spar_tensor_scale(struct spar_scope *s, const struct spar_tensor *a, double c);
struct spar_tensor *spar_tensor_add_number(struct spar_scope *s, const struct spar_tensor *a, double c);
struct spar_tensor *spar_tensor_exp(struct spar_scope *s, const struct spar_tensor *a);
struct spar_tensor *spar_tensor_sum_last(struct spar_scope *s,
					 const struct spar_tensor *a); /* (rows, cols) -> (rows) */
struct spar_tensor *spar_tensor_max_last(struct spar_scope *s, const struct spar_tensor *a); /* likewise */
/*! (n, k) (k, m) -> (n, m) */
struct spar_tensor *spar_tensor_matmul(struct spar_scope *s, const struct spar_tensor *a, const struct spar_tensor *b);
/*! x (rows, in), w (out, in), bias (out) or NULL -> x w^T + bias (rows, out) */
struct spar_tensor *spar_tensor_linear(struct spar_scope *s, const struct spar_tensor *x, const struct spar_tensor *w,
				       const struct spar_tensor *bias, bool promised);
/*! a + b (NULL: nothing), of which the value is known: either may be a promise. In value's type; a and b get the gradient
 *  in theirs. */
struct spar_tensor *spar_tensor_settle(struct spar_scope *s, const struct spar_tensor *value,
				       const struct spar_tensor *a, const struct spar_tensor *b);
double spar_tensor_norm(struct spar_scope *s, const struct spar_tensor *a); /* sqrt of the sum of squares */

/* In place: */
void spar_tensor_scale_rows(struct spar_scope *s, struct spar_tensor *t,
			    const struct spar_tensor *by); /* t[i,:] *= by[i] */
/*! t[i, column[i]] += by[i] */
void spar_tensor_add_at(struct spar_scope *s, struct spar_tensor *t, const struct spar_tensor *column,
			const struct spar_tensor *by);
/*! The first rows of t (as many as a has columns) += a^T b; a (k, n), b (k, m) of one type, t (>= n, m). */
void spar_tensor_add_product(struct spar_scope *s, struct spar_tensor *t, const struct spar_tensor *a,
			     const struct spar_tensor *b);

/* ---- pieces of a transformer ---- */

/*! table (vocabulary, width), ids (n) -> (n, width) */
struct spar_tensor *spar_tensor_embed(struct spar_scope *s, const struct spar_tensor *table,
				      const struct spar_tensor *ids);
/*! x / sqrt(mean(x^2) + eps) * gain over the last dimension; result in `type`. */
struct spar_tensor *spar_tensor_rms_norm(struct spar_scope *s, const struct spar_tensor *x,
					 const struct spar_tensor *gain, double eps, enum spar_tensor_type type);
/*! (x - mean(x)) / sqrt(variance(x) + eps) * gain + bias over the last dimension; result in `type`. */
struct spar_tensor *spar_tensor_layer_norm(struct spar_scope *s, const struct spar_tensor *x,
					   const struct spar_tensor *gain, const struct spar_tensor *bias, double eps,
					   enum spar_tensor_type type);
/* silu(z) = z / (1 + e^-z); gelu(z) = z / 2 (1 + tanh(sqrt(2 / pi) (z + 0.044715 z^3))) */
enum spar_tensor_activation { SPAR_TENSOR_SILU, SPAR_TENSOR_GELU_TANH };
struct spar_tensor *spar_tensor_activate(struct spar_scope *s, const struct spar_tensor *x,
					 enum spar_tensor_activation kind);
/*! activation(gate) * up */
struct spar_tensor *spar_tensor_gated(struct spar_scope *s, const struct spar_tensor *gate,
				      const struct spar_tensor *up, enum spar_tensor_activation kind);
/*! cap * tanh(x / cap); and, in place, t *= its slope, where y is its result. */
struct spar_tensor *spar_tensor_cap(struct spar_scope *s, const struct spar_tensor *x, double cap);
void spar_tensor_scale_by_cap_slope(struct spar_scope *s, struct spar_tensor *t, const struct spar_tensor *y,
				    double cap);
/*! x (n, n_heads * d) -> (n_heads, n, d) F32 */
struct spar_tensor *spar_tensor_heads(struct spar_scope *s, const struct spar_tensor *x, size_t n_heads);
/*! x (n, n_heads * d) -> (n_heads, n, d) F32, each head's halves rotated by its row's angles: cos, sin (n, d / 2). */
struct spar_tensor *spar_tensor_rotary(struct spar_scope *s, const struct spar_tensor *x, const struct spar_tensor *cos,
				       const struct spar_tensor *sin, size_t n_heads);
/*! log of the softmax over the last dimension */
struct spar_tensor *spar_tensor_log_softmax(struct spar_scope *s, const struct spar_tensor *x);
struct spar_tensor *spar_tensor_softmax(struct spar_scope *s, const struct spar_tensor *x);
/*! t (rows, cols), column (rows) -> (rows): t[i, column[i]] */
struct spar_tensor *spar_tensor_pick(struct spar_scope *s, const struct spar_tensor *t,
				     const struct spar_tensor *column);

/*! dropout(x) w^T: elements of x are zeroed with probability p (in steps of 2^-16), the others divided by 1 - p. Which ones
 *  is a function of `seed`, so what was dropped is not kept for the backward but made again. */
struct spar_tensor *spar_tensor_dropped_linear(struct spar_scope *s, const struct spar_tensor *x,
					       const struct spar_tensor *w, double p, uint64_t seed);

/* Attention over a forest: a node sees its ancestors and itself. Spans are runs of nodes without a branch, in depth-first
 * order without gaps, so what hangs below a span is one range of nodes. */
struct spar_branch {
	int32_t parent;       /* an earlier span, or -1: a root */
	size_t begin, n, end; /* its nodes [begin, begin + n); with all below it [begin, end) */
};
/*! With `window` a node sees only ancestors of less than so many positions before it (a root is at position 0); 0: all. */
struct spar_tree *spar_tree_new(struct spar_scope *s, const struct spar_branch *spans, size_t n_spans, size_t window);
/*! softmax(scale * q k^T, over the nodes seen) v. q (n_heads, n, d) and k (n_kv_heads, n, d) from spar_tensor_rotary,
 *  v (n, n_kv_heads * d) -> (n, n_heads * d) in v's type. Query head h reads key head h / (n_heads / n_kv_heads). With a
 *  cap, scores become cap * tanh(score / cap) before the softmax; 0: none. `tree` must live until the backward is done. */
struct spar_tensor *spar_tensor_attend(struct spar_scope *s, const struct spar_tensor *q, const struct spar_tensor *k,
				       const struct spar_tensor *v, const struct spar_tree *tree, double scale,
				       double cap, bool promised);

/*! The same without gradients over a cache: k and v (positions, n_kv_heads * d) are tables of what came before, of which a
 *  row sees the positions that stand in its line of paths (n * longest), the first n_keys[row] of them, or of those the last
 *  `window`. q (n_heads, n, d) -> (n, n_heads * d) in v's type. */
struct spar_tensor *spar_tensor_attend_paths(struct spar_scope *s, const struct spar_tensor *q,
					     const struct spar_tensor *k, const struct spar_tensor *v,
					     const struct spar_tensor *paths, const struct spar_tensor *n_keys,
					     size_t n_kv_heads, size_t window, double scale, double cap);
/*! table[at[i], :] = rows[i, :], in place and in the table's type. */
void spar_tensor_put_rows(struct spar_scope *s, struct spar_tensor *table, const struct spar_tensor *at,
			  const struct spar_tensor *rows);
/*! The reverse of spar_tensor_heads: (n_heads, n, d) -> (n, n_heads * d) */
struct spar_tensor *spar_tensor_side_by_side(struct spar_scope *s, const struct spar_tensor *heads);

/* ---- gradients and the optimizer ---- */

/*! Make t a leaf whose gradient is gathered by spar_tensor_backward (added to what is there). */
void spar_tensor_require_grad(struct spar_scope *s, struct spar_tensor *t);
/*! The gradient of a leaf (shares memory with it); zeros are made when none has been gathered. */
struct spar_tensor *spar_tensor_grad(struct spar_scope *s, const struct spar_tensor *t);
void spar_tensor_drop_grad(struct spar_scope *s, struct spar_tensor *t);
/*! Add dy^T dy/dleaf to the gradient of every leaf y was made of; frees what was kept for it. */
void spar_tensor_backward(struct spar_scope *s, const struct spar_tensor *y, const struct spar_tensor *dy);

/*! One AdamW step (Loshchilov, Hutter 2019; bias-corrected moments) on w with its gradient times grad_scale:
 *    w -= lr * decay * w;  m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2;  w -= lr * (m/c1) / (sqrt(v/c2) + eps)
 *  with c = 1 - b^step. Returns how many elements of w changed. */
struct spar_tensor_adamw {
	double lr, b1, b2, eps, decay, grad_scale;
	uint64_t step; /* from 1 */
};
size_t spar_tensor_adamw_step(struct spar_scope *s, struct spar_tensor *w, struct spar_tensor *m, struct spar_tensor *v,
			      const struct spar_tensor *grad, const struct spar_tensor_adamw *how);

#ifdef __cplusplus
}
#endif
#endif
