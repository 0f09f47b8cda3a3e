/* trace.h - what a pass leaves behind for a backward: the values that a layer's gradients are made of, where the training
 * graph (model/graph.h) wants them. So the engine's forward is the trainer's, and both give a token the same probability.
 */
#ifndef SPAR_MODEL_ENGINE_TRACE_H
#define SPAR_MODEL_ENGINE_TRACE_H

#include "base/half.h"
#include "model/safetensors.h"
#include <stddef.h>

enum spar_trace_point {
	SPAR_TRACE_INPUT,    /* (hidden) the residual stream before the layer */
	SPAR_TRACE_QKV,      /* (all q heads, all k heads, all v heads) as projected: neither normed nor turned */
	SPAR_TRACE_ATTENDED, /* (n_heads * head_dim) */
	SPAR_TRACE_O,        /* (hidden) only where a norm stands behind it */
	SPAR_TRACE_MIDDLE,   /* (hidden) the residual stream between attention and MLP */
	SPAR_TRACE_GATE,     /* (inner) before the activation */
	SPAR_TRACE_UP,       /* (inner) */
	SPAR_TRACE_DOWN,     /* (hidden) only where a norm stands behind it */
	SPAR_N_TRACE_POINTS
};

/* Where a point's values go: (nodes, width) row-major in dtype, F32 or BF16. data NULL: not wanted. */
struct spar_trace_slot {
	void *data;
	size_t width;
	enum spar_dtype dtype;
};

struct spar_trace {
	struct spar_trace_slot (*layers)[SPAR_N_TRACE_POINTS]; /* (n_layers) NULL: only the output is wanted */
	struct spar_trace_slot output;                         /* (hidden) the residual stream behind the last layer */
};

/* n values of a node from `column` on; safe from several threads. */
static inline void spar_trace_put(const struct spar_trace_slot *s, size_t node, size_t column, const float *values,
				  size_t n)
{
	size_t at = node * s->width + column;
	if (s->dtype == SPAR_BF16)
		for (size_t i = 0; i < n; i++)
			((uint16_t *)s->data)[at + i] = spar_f32_to_bf16(values[i]);
	else
		memcpy((float *)s->data + at, values, n * sizeof *values);
}

/* The same from bfloat16. */
static inline void spar_trace_put_bf16(const struct spar_trace_slot *s, size_t node, size_t column,
				       const uint16_t *values, size_t n)
{
	size_t at = node * s->width + column;
	if (s->dtype == SPAR_BF16)
		memcpy((uint16_t *)s->data + at, values, n * sizeof *values);
	else
		for (size_t i = 0; i < n; i++)
			((float *)s->data)[at + i] = spar_bf16_to_f32(values[i]);
}

#endif
