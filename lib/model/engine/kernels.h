/* kernels.h - what the files of one instruction set each share: the lists of tiles and the table's initialiser. */
#ifndef SPAR_MODEL_ENGINE_KERNELS_H
#define SPAR_MODEL_ENGINE_KERNELS_H

#include "model/engine/kernel.h"

#define TILES_2(X, vectors) X(1, vectors) X(2, vectors)
#define TILES_6(X, vectors) TILES_2(X, vectors) X(3, vectors) X(4, vectors) X(5, vectors) X(6, vectors)
#define TILES_8(X, vectors) TILES_6(X, vectors) X(7, vectors) X(8, vectors)
#define TILES_12(X, vectors) TILES_8(X, vectors) X(9, vectors) X(10, vectors) X(11, vectors) X(12, vectors)

#define SPAR_KERNEL(name, f32, bf16) \
	{ \
		name, sizeof(ACT), f32, bf16, norm, swiglu, geglu, scale, rotate, max, exps \
	}
#define SPAR_PRODUCTS(suffix) \
	{ \
		gemm_##suffix, score_##suffix, mix_##suffix \
	}
#define SPAR_NO_PRODUCTS \
	{ \
		NULL, NULL, NULL \
	}

extern const struct spar_kernel spar_kernel_avx512bf16, spar_kernel_avx512, spar_kernel_avx2, spar_kernel_portable;

#endif
