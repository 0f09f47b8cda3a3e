/* device.h - an engine's rows computed elsewhere than by the C kernels: on a GPU, by tensors (graph/device.c). The tree, what is
 * shared in it and what is dropped from it are the engine's all the same; a cache block then holds a number for each position,
 * and the keys and values that it stands for are the device's business.
 */
#ifndef SPAR_MODEL_ENGINE_DEVICE_H
#define SPAR_MODEL_ENGINE_DEVICE_H

#include "model/engine/kernel.h"
#include "model/model.h"

struct spar_engine_opt;
struct spar_row;  /* attention.h */
struct spar_node; /* tree.h */

struct spar_device_rows {
	/*! x (n, hidden_size) = the last layer's output of rows[0..n); numbers of fresh rows go into their blocks. */
	int (*run)(struct spar_device_rows *d, const struct spar_row *rows, size_t n, float *x, struct spar_err *err);
	/*! Logits (n, vocab_size) of rows of x's shape; those at or above the engine's vocab_limit are -inf. */
	int (*head)(struct spar_device_rows *d, const float *x, size_t n, float *logits, struct spar_err *err);
	/*! Another model of the same shape. */
	int (*reload)(struct spar_device_rows *d, const struct spar_model *m, struct spar_err *err);
	/*! Positions [start, start + n) of a node leave the tree. */
	void (*forget)(struct spar_device_rows *d, const struct spar_node *node);
	void (*free)(struct spar_device_rows *d);
	size_t position_size; /* bytes of a position's keys and values */
};

/*! `m` is borrowed and must outlive the device, or be given again by a reload. */
typedef int spar_device_new(struct spar_device_rows **out, const struct spar_model *m,
			    const struct spar_engine_opt *opt, struct spar_err *err);

#define SPAR_DEVICE_BLOCK (SPAR_LANES * sizeof(int32_t)) /* a cache block: the numbers of its positions, 0: none */

#endif
