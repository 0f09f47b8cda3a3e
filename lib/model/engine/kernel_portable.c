/* kernel_portable.c - 4 floats at a time, whatever the processor makes of them. */
#include "model/engine/kernels.h"
#include <math.h>

typedef float V __attribute__((vector_size(16)));
typedef int32_t VI __attribute__((vector_size(16)));
#define LENGTH 4
#define FMA(a, b, c) ((a) * (b) + (c))
#define MAX(a, b) larger(a, b)
#define ACT float
#define STORE_ACT(p, v) STORE(p, v)

static inline V larger(V a, V b)
{
	VI first = a > b;
	return (V)(((VI)a & first) | ((VI)b & ~first));
}
#include "model/engine/rows_body.h"

#define TILE_VECTORS 4
#define TILE_ROWS(vectors) ((size_t)2)
#define TILES(X) TILES_2(X, 1) TILES_2(X, 2) TILES_2(X, 3) TILES_2(X, 4)
#define BLOCK_TILES(X) TILES(X)
#define PANEL_FLOAT
#include "model/engine/gemm_body.h"
#define PANEL_WIDENED
#include "model/engine/gemm_body.h"

const struct spar_kernel spar_kernel_portable = SPAR_KERNEL("portable", SPAR_PRODUCTS(f32), SPAR_PRODUCTS(bf16));
