/* kernel_avx512.c - 16 floats at a time; bfloat16 panels are widened. */
#ifdef __x86_64__
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma")
#include "model/engine/kernels.h"
#include <immintrin.h>
#include <math.h>

typedef float V __attribute__((vector_size(64)));
typedef int32_t VI __attribute__((vector_size(64)));
#define LENGTH 16
#define FMA(a, b, c) ((V)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define MAX(a, b) ((V)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define ACT float
#define STORE_ACT(p, v) STORE(p, v)
#include "model/engine/rows_body.h"

#define TILE_VECTORS 4
#define TILE_ROWS(vectors) ((size_t)((vectors) == 4 ? 6 : (vectors) == 3 ? 8 : 12))
#define TILES(X) TILES_12(X, 1) TILES_12(X, 2) TILES_8(X, 3) TILES_6(X, 4)
#define BLOCK_TILES(X) TILES_6(X, 1) TILES_6(X, 2) TILES_6(X, 3) TILES_6(X, 4)
#define PANEL_FLOAT
#include "model/engine/gemm_body.h"
#define PANEL_WIDENED
#include "model/engine/gemm_body.h"

const struct spar_kernel spar_kernel_avx512 = SPAR_KERNEL("avx512", SPAR_PRODUCTS(f32), SPAR_PRODUCTS(bf16));
#endif
