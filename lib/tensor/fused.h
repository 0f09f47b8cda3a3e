/* fused.h - elementwise work of a training step in one pass over memory, where libtorch would take four to ten. Plain loops
 * in C that the compiler makes vectors of, for the instruction set found at run time; a caller shares a range out. */
#ifndef SPAR_TENSOR_FUSED_H
#define SPAR_TENSOR_FUSED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of numbers: float32, or bfloat16 (half). */
struct spar_fused {
	bool half;
	bool gelu; /* the activation: gelu by tanh, else silu */
};

/*! out[i] = activation(gate[i]) * up[i] */
void spar_fused_gated(struct spar_fused how, size_t n, const void *gate, const void *up, void *out);
/*! dgate[i] = dy[i] up[i] activation'(gate[i]), dup[i] = dy[i] activation(gate[i]) */
void spar_fused_gated_backward(struct spar_fused how, size_t n, const void *gate, const void *up, const void *dy,
			       void *dgate, void *dup);

/* What an AdamW step is (tensor.h) with the powers worked out: step_size = lr / c1, root = 1 / sqrt(c2), keep = 1 - lr decay. */
struct spar_fused_adamw {
	float b1, b2, eps, keep, grad_scale, step_size, root;
};
/*! In place; returns how many elements of w changed. */
size_t spar_fused_adamw_step(const struct spar_fused_adamw *a, size_t n, float *w, float *m, float *v,
			     const float *grad);

#ifdef __cplusplus
}
#endif
#endif
