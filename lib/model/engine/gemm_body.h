/* gemm_body.h - the matrix kernels; a template without a guard, included once per instruction set and panel type, after
 * rows_body.h. The includer defines
 *	TILE_VECTORS             width of the widest tile; every width from 1 is there
 *	TILE_ROWS(vectors)       height of the tallest tile of that width which fits the registers
 *	TILES(X)                 X(rows, vectors) for each of them
 *	BLOCK_TILES(X)           the same for cache blocks: of every width, but rows may be fewer
 *	PANEL_FLOAT              to get gemm_f32, score_f32 and mix_f32: float32 panels, float32 acts
 *	PANEL_WIDENED            to get gemm_bf16, ...: bfloat16 panels, widened to float32 acts
 *	PANEL_DOT                to get gemm_dot, ...: both bfloat16; needs DOT(acc, panel, pair) for a pair of acts as int32
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

#define BLOCK_VECTORS (SPAR_LANES / LENGTH)

/* What a tile works on: rows of acts, and weights or cache blocks of which it takes the vectors from `first` on. */
struct NAME(job) {
	const A *a;
	size_t lda, k;
	const W *w;
	size_t ldw;
	const struct spar_blocks *blocks;
	size_t first;
	float *c;
	size_t ldc;
	enum spar_gemm_mode mode;
	struct spar_ahead *ahead;
};

/* A block's panels lie in the order in which they are read: behind a head's keys its values, behind these the next head's
 * keys. So each line that is read fetches the one a panel further on. */
#define FETCH_PANEL(p, v) \
	do { \
		if ((v) * sizeof(PANEL) % 64 == 0) \
			__builtin_prefetch((p) + j->blocks->width * SPAR_LANES, 0, 2); \
	} while (0)

/* All vectors of a tile, unrolled: R and NV are constants at every call. */
#define FOR_VECTORS(v) _Pragma("GCC unroll 4") for (size_t v = 0; v < NV; v++)
#define FOR_TILE(r, v) _Pragma("GCC unroll 12") for (size_t r = 0; r < R; r++) FOR_VECTORS (v)
/* Address checks stay; those of arithmetic, unrolled a thousand times, would take the compiler a minute. */
#define TILE static inline __attribute__((always_inline, no_sanitize("undefined"))) void

static inline const W *NAME(block)(const struct spar_blocks *blocks, size_t i)
{
	return (const W *)(const void *)((const char *)blocks->at[i] + blocks->offset);
}

/* c (R, NV vectors): a chain at a time in registers. */
TILE NAME(gemm_tile)(size_t R, size_t NV, const struct NAME(job) * j)
{
	const A *a = j->a;
	const W *w = j->w + j->first * LENGTH * STEP;
	V sum[12][TILE_VECTORS];
	FOR_TILE (r, v)
		sum[r][v] = SPLAT(0);
	for (size_t i = 0; i < j->k;) {
		size_t end = j->k - i < SPAR_CHAIN ? j->k : i + SPAR_CHAIN;
		V chain[12][TILE_VECTORS];
		FOR_TILE (r, v)
			chain[r][v] = SPLAT(0);
		size_t stride;
		const char *line = next_weights(j->ahead, SPAR_CHAIN / STEP, &stride, a);
		const char *piece = next_piece(j->ahead, SPAR_CHAIN / STEP * SPAR_FETCH, a);
		for (; i < end; i += STEP, w += j->ldw * STEP, line += stride, piece += SPAR_FETCH) {
			PANEL panel[TILE_VECTORS];
			__builtin_prefetch(line, 0, 2);
			__builtin_prefetch(piece, 0, 2);
			FOR_VECTORS (v)
				panel[v] = LOAD_PANEL(w + v * LENGTH * STEP);
			FOR_TILE (r, v)
				chain[r][v] = MULTIPLY(chain[r][v], a + r * j->lda + i, panel[v]);
		}
		FOR_TILE (r, v)
			sum[r][v] += chain[r][v];
		fetch_rest(j->ahead, SPAR_CHAIN / STEP);
	}
	FOR_TILE (r, v) {
		float *to = j->c + r * j->ldc + (j->first + v) * LENGTH;
		STORE(to, j->mode == SPAR_GEMM_ADD ? LOAD(to) + sum[r][v] : sum[r][v]);
	}
}

/* The same with the keys of several blocks side by side: one panel, of which each vector lies elsewhere. */
TILE NAME(score_tile)(size_t R, size_t NV, const struct NAME(job) * j)
{
	const A *a = j->a;
	const W *keys[TILE_VECTORS];
	FOR_VECTORS (v)
		keys[v] = NAME(block)(j->blocks, (j->first + v) / BLOCK_VECTORS) +
			  (j->first + v) % BLOCK_VECTORS * LENGTH * STEP;
	for (size_t i = 0; i < j->k;) {
		size_t begin = i, end = j->k - i < SPAR_CHAIN ? j->k : i + SPAR_CHAIN;
		V chain[12][TILE_VECTORS];
		FOR_TILE (r, v)
			chain[r][v] = SPLAT(0);
		for (; i < end; i += STEP) {
			PANEL panel[TILE_VECTORS];
			FOR_VECTORS (v) {
				panel[v] = LOAD_PANEL(keys[v] + i * SPAR_LANES);
				FETCH_PANEL(keys[v] + i * SPAR_LANES, v);
			}
			FOR_TILE (r, v)
				chain[r][v] = MULTIPLY(chain[r][v], a + r * j->lda + i, panel[v]);
		}
		FOR_TILE (r, v) {
			float *to = j->c + r * j->ldc + (j->first + v) * LENGTH;
			STORE(to, begin ? LOAD(to) + chain[r][v] : chain[r][v]);
		}
	}
}

/* The values of all blocks, one under the other, in one chain. */
TILE NAME(mix_tile)(size_t R, size_t NV, const struct NAME(job) * j)
{
	V chain[12][TILE_VECTORS];
	FOR_TILE (r, v)
		chain[r][v] = LOAD(j->c + r * j->ldc + (j->first + v) * LENGTH);
	for (size_t b = 0; b < j->blocks->n; b++) {
		const A *a = j->a + b * SPAR_LANES;
		const W *values = NAME(block)(j->blocks, b) + j->first * LENGTH * STEP;
		for (size_t i = 0; i < SPAR_LANES; i += STEP, values += j->blocks->width * STEP) {
			PANEL panel[TILE_VECTORS];
			FOR_VECTORS (v) {
				panel[v] = LOAD_PANEL(values + v * LENGTH * STEP);
				FETCH_PANEL(values + v * LENGTH * STEP, v);
			}
			FOR_TILE (r, v)
				chain[r][v] = MULTIPLY(chain[r][v], a + r * j->lda + i, panel[v]);
		}
	}
	FOR_TILE (r, v)
		STORE(j->c + r * j->ldc + (j->first + v) * LENGTH, chain[r][v]);
}

/* ---- the tiles as functions, and rows and columns cut into tiles ---- */

typedef void NAME(tile_fn)(const struct NAME(job) *);
#define TILE_FUNCTION(kind, R, NV) \
	static __attribute__((noinline, no_sanitize("undefined"))) void NAME(kind##_##R##x##NV)( \
	    const struct NAME(job) * j) \
	{ \
		NAME(kind##_tile)(R, NV, j); \
	}
#define GEMM_FUNCTION(R, NV) TILE_FUNCTION(gemm, R, NV)
#define SCORE_FUNCTION(R, NV) TILE_FUNCTION(score, R, NV)
#define MIX_FUNCTION(R, NV) TILE_FUNCTION(mix, R, NV)
TILES(GEMM_FUNCTION)
BLOCK_TILES(SCORE_FUNCTION)
BLOCK_TILES(MIX_FUNCTION)

#define GEMM_ENTRY(R, NV) [NV][R] = NAME(gemm_##R##x##NV),
#define SCORE_ENTRY(R, NV) [NV][R] = NAME(score_##R##x##NV),
#define MIX_ENTRY(R, NV) [NV][R] = NAME(mix_##R##x##NV),
typedef NAME(tile_fn) * NAME(tiles)[TILE_VECTORS + 1][13];
static const NAME(tiles) NAME(gemm_tiles) = {TILES(GEMM_ENTRY)};
static const NAME(tiles) NAME(score_tiles) = {BLOCK_TILES(SCORE_ENTRY)};
static const NAME(tiles) NAME(mix_tiles) = {BLOCK_TILES(MIX_ENTRY)};

static void NAME(run)(const NAME(tiles) * tiles, struct NAME(job) j, size_t rows, size_t n_vectors)
{
	const A *a = j.a;
	float *c = j.c;
	for (size_t vectors; j.first < n_vectors; j.first += vectors) {
		vectors = n_vectors - j.first < TILE_VECTORS ? n_vectors - j.first : TILE_VECTORS;
		size_t tallest = TILE_ROWS(vectors);
		while (!(*tiles)[vectors][tallest])
			tallest--;
		for (size_t row = 0; row < rows; row += tallest) {
			j.a = a + row * j.lda;
			j.c = c + row * j.ldc;
			(*tiles)[vectors][rows - row < tallest ? rows - row : tallest](&j);
		}
	}
}

static void NAME(gemm)(const void *a, size_t lda, const void *w, size_t ldw, size_t k, float *c, size_t ldc,
		       size_t rows, size_t cols, enum spar_gemm_mode mode, struct spar_ahead *ahead)
{
	struct NAME(job)
	    j = {.a = a, .lda = lda, .k = k, .w = w, .ldw = ldw, .c = c, .ldc = ldc, .mode = mode, .ahead = ahead};
	NAME(run)(&NAME(gemm_tiles), j, rows, cols / LENGTH);
}

static void NAME(score)(const void *q, size_t ldq, const struct spar_blocks *keys, float *scores, size_t lds,
			size_t rows)
{
	struct NAME(job) j = {.a = q, .lda = ldq, .k = keys->width, .blocks = keys, .c = scores, .ldc = lds};
	NAME(run)(&NAME(score_tiles), j, rows, keys->n * BLOCK_VECTORS);
}

static void NAME(mix)(const void *weights, size_t ldw, const struct spar_blocks *values, float *result, size_t ldr,
		      size_t rows)
{
	struct NAME(job) j = {.a = weights, .lda = ldw, .blocks = values, .c = result, .ldc = ldr};
	NAME(run)(&NAME(mix_tiles), j, rows, values->width / LENGTH);
}

#undef PANEL_FLOAT
#undef PANEL_WIDENED
#undef PANEL_DOT
#undef NAME
#undef A
#undef W
#undef STEP
#undef PANEL
#undef LOAD_PANEL
#undef MULTIPLY
#undef BLOCK_VECTORS
#undef FETCH_PANEL
#undef FOR_VECTORS
#undef FOR_TILE
#undef TILE
#undef TILE_FUNCTION
#undef GEMM_FUNCTION
#undef SCORE_FUNCTION
#undef MIX_FUNCTION
#undef GEMM_ENTRY
#undef SCORE_ENTRY
#undef MIX_ENTRY
