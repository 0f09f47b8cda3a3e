/* kernel_avx2.c - 8 floats at a time with fused multiply-add; bfloat16 panels are widened. */
#ifdef __x86_64__
#pragma GCC target("avx2,fma")
#include "model/engine/kernels.h"
#include <immintrin.h>
#include <math.h>

typedef float V __attribute__((vector_size(32)));
typedef int32_t VI __attribute__((vector_size(32)));
#define LENGTH 8
#define FMA(a, b, c) ((V)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define MAX(a, b) ((V)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define ACT float
#define STORE_ACT(p, v) STORE(p, v)
#include "model/engine/rows_body.h"

#define TILE_VECTORS 2
#define TILE_ROWS(vectors) ((size_t)6)
#define TILES(X) TILES_6(X, 1) TILES_6(X, 2)
#define BLOCK_TILES(X) TILES(X)
#define PANEL_FLOAT
#include "model/engine/gemm_body.h"
#define PANEL_WIDENED
#include "model/engine/gemm_body.h"

const struct spar_kernel spar_kernel_avx2 = SPAR_KERNEL("avx2", SPAR_PRODUCTS(f32), SPAR_PRODUCTS(bf16));
#endif
