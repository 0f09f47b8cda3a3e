/* gemm_body.h - the matrix kernel; a template without a guard, included once per instruction set and panel type, after
 * rows_body.h. The includer defines
 *	TILE_VECTORS             width of the widest tile; every width from 1 is there
 *	TILE_ROWS(vectors)       height of the tallest tile of that width which fits the registers
 *	TILES(X)                 X(rows, vectors) for each of them
 *	PANEL_FLOAT              to get gemm_f32: float32 panels, float32 acts
 *	PANEL_WIDENED            to get gemm_bf16: bfloat16 panels, widened to float32 acts
 *	PANEL_DOT                to get gemm_dot: both bfloat16; needs DOT(acc, panel, pair) for a pair of acts as int32
 */

#if defined(PANEL_FLOAT)
#define NAME(x) x##_f32
#define A float
#define W float
#define STEP 1 /* values of k multiplied at once */
#define PANEL V
#define LOAD_PANEL(p) LOAD(p)
#define MULTIPLY(acc, a, panel) FMA(SPLAT((a)[0]), panel, acc)
#elif defined(PANEL_WIDENED)
#define NAME(x) x##_bf16
#define A float
#define W uint16_t
#define STEP 2
#define PANEL VI
#define LOAD_PANEL(p) LOAD_INT(p)
#define MULTIPLY(acc, a, panel) \
	FMA(SPLAT((a)[1]), (V)((panel) & (int32_t)0xffff0000), FMA(SPLAT((a)[0]), (V)((panel) << 16), acc))
#elif defined(PANEL_DOT)
#define NAME(x) x##_dot
#define A uint16_t
#define W uint16_t
#define STEP 2
#define PANEL VI
#define LOAD_PANEL(p) LOAD_INT(p)
#define MULTIPLY(acc, a, panel) DOT(acc, panel, *(const int32_any *)(a))
#endif

#define TILE_ARGUMENTS \
	const A *a, size_t lda, const W *w, size_t ldw, size_t k, float *c, size_t ldc, enum spar_gemm_mode mode

/* All vectors of a tile, unrolled: R and NV are constants at every call. */
#define FOR_TILE(r, v) \
	_Pragma("GCC unroll 12") for (size_t r = 0; r < R; r++) _Pragma("GCC unroll 4") for (size_t v = 0; v < NV; v++)

/* c (R, NV vectors): a chain at a time in registers. (Address checks stay; those of arithmetic, unrolled a thousand times,
 * would take the compiler a minute.) */
static inline __attribute__((always_inline, no_sanitize("undefined"))) void NAME(tile)(size_t R, size_t NV,
										       TILE_ARGUMENTS)
{
	V sum[12][TILE_VECTORS];
	FOR_TILE (r, v)
		sum[r][v] = SPLAT(0);
	for (size_t i = 0; i < k;) {
		size_t end = k - i < SPAR_CHAIN ? k : i + SPAR_CHAIN;
		bool goes_on = i == 0 && mode == SPAR_GEMM_CONTINUE;
		V chain[12][TILE_VECTORS];
		FOR_TILE (r, v)
			chain[r][v] = goes_on ? LOAD(c + r * ldc + v * LENGTH) : SPLAT(0);
		for (; i < end; i += STEP, w += ldw * STEP) {
			PANEL panel[TILE_VECTORS];
#pragma GCC unroll 4
			for (size_t v = 0; v < NV; v++)
				panel[v] = LOAD_PANEL(w + v * LENGTH * STEP);
			FOR_TILE (r, v)
				chain[r][v] = MULTIPLY(chain[r][v], a + r * lda + i, panel[v]);
		}
		FOR_TILE (r, v)
			sum[r][v] += chain[r][v];
	}
	FOR_TILE (r, v) {
		float *to = c + r * ldc + v * LENGTH;
		STORE(to, mode == SPAR_GEMM_ADD ? LOAD(to) + sum[r][v] : sum[r][v]);
	}
}

#define TILE_FUNCTION(R, NV) \
	static __attribute__((noinline, no_sanitize("undefined"))) void NAME(tile_##R##x##NV)(TILE_ARGUMENTS) \
	{ \
		NAME(tile)(R, NV, a, lda, w, ldw, k, c, ldc, mode); \
	}
TILES(TILE_FUNCTION)

static void NAME(dispatch)(size_t rows, size_t vectors, TILE_ARGUMENTS)
{
	switch (vectors * 16 + rows) {
#define TILE_CASE(R, NV) \
	case NV * 16 + R: \
		NAME(tile_##R##x##NV)(a, lda, w, ldw, k, c, ldc, mode); \
		break;
		TILES(TILE_CASE)
	}
}

static void NAME(gemm)(const void *a, size_t lda, const void *w, size_t ldw, size_t k, float *c, size_t ldc,
		       size_t rows, size_t cols, enum spar_gemm_mode mode)
{
	for (size_t col = 0; col < cols;) {
		size_t left = (cols - col) / LENGTH, vectors = left < TILE_VECTORS ? left : TILE_VECTORS;
		for (size_t row = 0; row < rows; row += TILE_ROWS(vectors)) {
			size_t n = rows - row < TILE_ROWS(vectors) ? rows - row : TILE_ROWS(vectors);
			const A *from = (const A *)a + row * lda;
			const W *panel = (const W *)w + col * STEP;
			NAME(dispatch)(n, vectors, from, lda, panel, ldw, k, c + row * ldc + col, ldc, mode);
		}
		col += vectors * LENGTH;
	}
}

#undef PANEL_FLOAT
#undef PANEL_WIDENED
#undef PANEL_DOT
#undef NAME
#undef TILE_ARGUMENTS
#undef FOR_TILE
#undef TILE_FUNCTION
#undef TILE_CASE
#undef A
#undef W
#undef STEP
#undef PANEL
#undef LOAD_PANEL
#undef MULTIPLY
