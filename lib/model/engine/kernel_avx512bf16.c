/* kernel_avx512bf16.c - 16 lanes, each the sum of a pair of bfloat16 products; acts are rounded to bfloat16. */
#ifdef __x86_64__
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma")
#include "model/engine/kernels.h"
#include <immintrin.h>
#include <math.h>

typedef float V __attribute__((vector_size(64)));
typedef int32_t VI __attribute__((vector_size(64)));
#define LENGTH 16
#define FMA(a, b, c) ((V)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define MAX(a, b) ((V)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define ACT uint16_t
#define STORE_ACT(p, v) _mm256_storeu_si256((void *)(p), (__m256i)_mm512_cvtneps_pbh((__m512)(v)))
#include "model/engine/rows_body.h"

#define DOT(acc, panel, pair) ((V)_mm512_dpbf16_ps((__m512)(acc), (__m512bh)(panel), (__m512bh)_mm512_set1_epi32(pair)))
#define TILE_VECTORS 4
#define TILE_ROWS(vectors) ((size_t)((vectors) == 4 ? 6 : (vectors) == 3 ? 8 : 12))
#define TILES(X) TILES_12(X, 1) TILES_12(X, 2) TILES_8(X, 3) TILES_6(X, 4)
#define BLOCK_TILES(X) TILES_6(X, 1) TILES_6(X, 2) TILES_6(X, 3) TILES_6(X, 4)
#define PANEL_DOT
#include "model/engine/gemm_body.h"

const struct spar_kernel spar_kernel_avx512bf16 = SPAR_KERNEL("avx512bf16", SPAR_NO_PRODUCTS, SPAR_PRODUCTS(dot));
#endif
