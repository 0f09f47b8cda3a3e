/* Each kernel that this processor has, against plain loops in double. */
#include "base/philox.h"
#include "model/engine/kernel.h"
#include "base/half.h"
#include "unit.h"

#define MAX_K 140 /* more than two chains */
#define MAX_ROWS 27
#define MAX_COLS 96

static struct spar_rng rng;
static uint32_t n_drawn;

static float draw(void)
{
	return (float)(2 * spar_rng_uniform(&rng, n_drawn++, 0, 0, 0) - 1);
}

static void put_act(const struct spar_kernel *k, void *acts, size_t i, float *value)
{
	uint16_t half = spar_f32_to_bf16(*value);
	if (k->act_size == sizeof half) {
		memcpy((uint16_t *)acts + i, &half, sizeof half);
		*value = spar_bf16_to_f32(half);
	} else {
		memcpy((float *)acts + i, value, sizeof *value);
	}
}

static float get_act(const struct spar_kernel *k, const void *acts, size_t i)
{
	return k->act_size == 2 ? spar_bf16_to_f32(((const uint16_t *)acts)[i]) : ((const float *)acts)[i];
}

/* Products of every shape of tile; and each row alone, which must give the same bits. */
static void products(const struct spar_kernel *k, enum spar_dtype dtype)
{
	static float a[MAX_ROWS][MAX_K], w[MAX_K][MAX_COLS], acts[MAX_ROWS * MAX_K], panel[MAX_K * MAX_COLS];
	static float c[MAX_ROWS][MAX_COLS], before[MAX_ROWS][MAX_COLS], one[MAX_COLS];
	spar_gemm_fn *gemm = spar_kernel_products(k, dtype)->gemm;
	for (size_t r = 0; r < MAX_ROWS; r++)
		for (size_t i = 0; i < MAX_K; i++) {
			a[r][i] = draw();
			put_act(k, acts, r * MAX_K + i, &a[r][i]);
		}
	double worst = 0;
	size_t n_other = 0;
	for (size_t cols = SPAR_LANES; cols <= MAX_COLS; cols += SPAR_LANES) {
		for (size_t i = 0; i < MAX_K; i++)
			for (size_t j = 0; j < cols; j++) {
				w[i][j] = draw();
				uint16_t half = spar_f32_to_bf16(w[i][j]);
				if (dtype == SPAR_BF16) {
					w[i][j] = spar_bf16_to_f32(half);
					memcpy((char *)panel + ((i / 2 * cols + j) * 2 + i % 2) * sizeof half, &half,
					       sizeof half);
				} else {
					panel[i * cols + j] = w[i][j];
				}
			}
		for (size_t rows = 1; rows <= MAX_ROWS; rows++)
			for (enum spar_gemm_mode mode = SPAR_GEMM_SET; mode <= SPAR_GEMM_ADD; mode++) {
				size_t n_k = dtype == SPAR_BF16 ? 2 + 4 * rows : 1 + 5 * rows;
				for (size_t r = 0; r < rows; r++)
					for (size_t j = 0; j < cols; j++)
						c[r][j] = before[r][j] = draw();
				struct spar_ahead ahead = {
				    .at = (char *)panel, .end = (char *)(panel + 100), .rate = 1};
				gemm(acts, MAX_K, panel, cols, n_k, c[0], MAX_COLS, rows, cols, mode, &ahead);
				for (size_t r = 0; r < rows; r++) {
					memcpy(one, before[r], sizeof one);
					gemm((char *)acts + r * MAX_K * k->act_size, MAX_K, panel, cols, n_k, one,
					     MAX_COLS, 1, cols, mode, NULL);
					n_other += memcmp(one, c[r], cols * sizeof *one) != 0;
					for (size_t j = 0; j < cols; j++) {
						double want = mode == SPAR_GEMM_SET ? 0 : before[r][j];
						for (size_t i = 0; i < n_k; i++)
							want += (double)a[r][i] * w[i][j];
						worst = fmax(worst, fabs(c[r][j] - want));
					}
				}
			}
	}
	CHECK_NEAR(worst, 0, 1e-5);
	CHECK(n_other == 0);
}

/* Scores and weighted sums over a list of blocks; and each row alone, which must give the same bits. */
static void blocks(const struct spar_kernel *k, enum spar_dtype dtype)
{
	enum { MAX_WIDTH = 144, MAX_BLOCKS = 7, MAX_QUERIES = 13, MAX_POSITIONS = MAX_BLOCKS * SPAR_LANES };
	static float memory[MAX_BLOCKS][2 * MAX_WIDTH * SPAR_LANES], q_acts[MAX_QUERIES * MAX_WIDTH],
	    w_acts[MAX_QUERIES * MAX_POSITIONS], q[MAX_QUERIES][MAX_WIDTH], w[MAX_QUERIES][MAX_POSITIONS],
	    keys[MAX_POSITIONS][MAX_WIDTH], values[MAX_POSITIONS][MAX_WIDTH], scores[MAX_QUERIES][MAX_POSITIONS],
	    result[MAX_QUERIES][MAX_WIDTH], one[MAX_POSITIONS + MAX_WIDTH];
	const struct spar_products *p = spar_kernel_products(k, dtype);
	const void *list[MAX_BLOCKS];
	double worst = 0;
	size_t n_other = 0;
	for (size_t i = 0; i < MAX_BLOCKS; i++)
		list[i] = memory[i * 3 % MAX_BLOCKS];
	for (size_t width = SPAR_LANES; width <= MAX_WIDTH; width += 2 * SPAR_LANES) {
		size_t size = spar_dtype_size(dtype), offset = width * SPAR_LANES * size;
		for (size_t pos = 0; pos < MAX_POSITIONS; pos++)
			for (size_t d = 0; d < width; d++) {
				size_t lane = pos % SPAR_LANES;
				char *block = (char *)memory[pos / SPAR_LANES * 3 % MAX_BLOCKS];
				uint16_t key = spar_f32_to_bf16(draw()), value = spar_f32_to_bf16(draw());
				keys[pos][d] = spar_bf16_to_f32(key);
				values[pos][d] = spar_bf16_to_f32(value);
				if (dtype == SPAR_BF16) {
					memcpy(block + ((d / 2 * SPAR_LANES + lane) * 2 + d % 2) * size, &key, size);
					memcpy(block + offset + ((lane / 2 * width + d) * 2 + lane % 2) * size, &value,
					       size);
				} else {
					memcpy(block + (d * SPAR_LANES + lane) * size, &keys[pos][d], size);
					memcpy(block + offset + (lane * width + d) * size, &values[pos][d], size);
				}
			}
		for (size_t r = 0; r < MAX_QUERIES; r++) {
			for (size_t d = 0; d < width; d++) {
				q[r][d] = draw();
				put_act(k, q_acts, r * MAX_WIDTH + d, &q[r][d]);
			}
			for (size_t pos = 0; pos < MAX_POSITIONS; pos++) {
				w[r][pos] = draw();
				put_act(k, w_acts, r * MAX_POSITIONS + pos, &w[r][pos]);
			}
		}
		for (size_t n = 0; n <= MAX_BLOCKS; n++)
			for (size_t rows = 1; rows <= MAX_QUERIES; rows++) {
				struct spar_blocks at = {list, n, 0, width};
				p->score(q_acts, MAX_WIDTH, &at, scores[0], MAX_POSITIONS, rows);
				at.offset = offset;
				for (size_t r = 0; r < rows; r++)
					for (size_t d = 0; d < width; d++)
						result[r][d] = 1;
				p->mix(w_acts, MAX_POSITIONS, &at, result[0], MAX_WIDTH, rows);
				for (size_t r = 0; r < rows; r++) {
					at.offset = 0;
					p->score((char *)q_acts + r * MAX_WIDTH * k->act_size, MAX_WIDTH, &at, one,
						 MAX_POSITIONS, 1);
					n_other += memcmp(one, scores[r], n * SPAR_LANES * sizeof *one) != 0;
					at.offset = offset;
					for (size_t d = 0; d < width; d++)
						one[d] = 1;
					p->mix((char *)w_acts + r * MAX_POSITIONS * k->act_size, MAX_POSITIONS, &at,
					       one, MAX_WIDTH, 1);
					n_other += memcmp(one, result[r], width * sizeof *one) != 0;
					for (size_t pos = 0; pos < n * SPAR_LANES; pos++) {
						double want = 0;
						for (size_t d = 0; d < width; d++)
							want += (double)q[r][d] * keys[pos][d];
						worst = fmax(worst, fabs(scores[r][pos] - want));
					}
					for (size_t d = 0; d < width; d++) {
						double want = 1;
						for (size_t pos = 0; pos < n * SPAR_LANES; pos++)
							want += (double)w[r][pos] * values[pos][d];
						worst = fmax(worst, fabs(result[r][d] - want));
					}
				}
			}
	}
	CHECK_NEAR(worst, 0, 1e-5);
	CHECK(worst > 0);
	CHECK(n_other == 0);
}

/* A long sum of positive products: in one chain it would be off by some 3e-4. */
static void long_products(const struct spar_kernel *k, enum spar_dtype dtype)
{
	enum { K = 1536 };
	static float acts[K], panel[K * SPAR_LANES], c[SPAR_LANES];
	double want[SPAR_LANES] = {0}, worst = 0;
	for (size_t i = 0; i < K; i++) {
		float a = draw() / 2 + 0.5f;
		put_act(k, acts, i, &a);
		for (size_t j = 0; j < SPAR_LANES; j++) {
			uint16_t half = spar_f32_to_bf16(draw() / 2 + 0.5f);
			float w = spar_bf16_to_f32(half);
			if (dtype == SPAR_BF16)
				memcpy((char *)panel + ((i / 2 * SPAR_LANES + j) * 2 + i % 2) * sizeof half, &half,
				       sizeof half);
			else
				panel[i * SPAR_LANES + j] = w;
			want[j] += (double)a * w;
		}
	}
	spar_kernel_products(k, dtype)->gemm(acts, K, panel, SPAR_LANES, K, c, SPAR_LANES, 1, SPAR_LANES, SPAR_GEMM_SET,
					     NULL);
	for (size_t j = 0; j < SPAR_LANES; j++)
		worst = fmax(worst, fabs(c[j] - want[j]));
	CHECK_NEAR(worst, 0, 1e-4);
}

/* A bfloat16 act is off by up to 2^-8 of its size. */
static void check_act(const struct spar_kernel *k, const void *acts, size_t i, double want)
{
	CHECK_NEAR(get_act(k, acts, i), want, fabs(want) * (k->act_size == 2 ? 0x1.01p-8 : 1e-6) + 1e-30);
}

static void rows(const struct spar_kernel *k)
{
	enum { N = 96 };
	float x[N + 1], y[N], weight[N], acts[N];
	for (size_t i = 0; i < N; i++) {
		x[i] = i < 90 ? 5 * draw() : 0;
		weight[i] = draw();
	}
	double square = 0;
	for (size_t i = 0; i < N; i++)
		square += (double)x[i] * x[i];
	k->norm(x, weight, N, 90, 1e-5f, acts);
	for (size_t i = 0; i < N; i++)
		check_act(k, acts, i, x[i] / sqrt(square / 90 + 1e-5f) * weight[i]);

	for (size_t i = 0; i < N; i++)
		x[i] = (float)i * 4 - 190;
	k->swiglu(x, weight, N, acts);
	for (size_t i = 0; i < N; i++)
		if (x[i] > -80) /* below, 1 / (1 + exp(-x)) is held at exp(-88) */
			check_act(k, acts, i, x[i] / (1 + exp(-x[i])) * weight[i]);
		else
			CHECK_NEAR(get_act(k, acts, i), 0, 1e-30);
	k->scale(x, 0.3f, N, acts);
	for (size_t i = 0; i < N; i++)
		check_act(k, acts, i, x[i] * 0.3f);

	for (size_t half = 1; half <= N / 2; half++) {
		float in[N];
		memcpy(in, x, sizeof in);
		k->rotate(in, weight, weight + half, half, y);
		for (size_t i = 0; i < half; i++) {
			CHECK_NEAR(y[i], (double)x[i] * weight[i] - (double)x[half + i] * weight[half + i], 5e-5);
			CHECK_NEAR(y[half + i], (double)x[half + i] * weight[i] + (double)x[i] * weight[half + i],
				   5e-5);
		}
		k->rotate(in, weight, weight + half, half, in); /* in place */
		CHECK(!memcmp(in, y, 2 * half * sizeof *in));
	}
}

static void exponentials(const struct spar_kernel *k)
{
	enum { N = 2000 };
	static float x[N + SPAR_LANES], y[N + SPAR_LANES];
	for (size_t n = 1; n <= N; n += 1 + n / 3) {
		double want = 0;
		float top = -INFINITY;
		for (size_t i = 0; i < n; i++) {
			x[i] = i % 17 == 3 && i ? -INFINITY : 30 * draw();
			top = fmaxf(top, x[i]);
		}
		CHECK(k->max(x, n) == top);
		float sum = k->exps(x, n, top, 1.5f, y);
		for (size_t i = 0; i < n; i++) {
			double e = exp((x[i] - top) * 1.5f);
			want += e;
			CHECK_NEAR(y[i], e,
				   (e < 2e-38 ? 2e-38 : 1e-6 * e)); /* what is below the normal numbers may be 0 */
			CHECK(x[i] < top || y[i] == 1);
		}
		CHECK_NEAR(sum, want, 1e-5 * want);
		for (size_t i = n; i < spar_round_up(n, SPAR_LANES); i++)
			x[i] = -INFINITY;
		CHECK(k->exps(x, spar_round_up(n, SPAR_LANES), top, 1.5f, y) == sum);
		x[n / 2] = NAN;
		CHECK(isnan(k->exps(x, n, top, 1.5f, y)));
	}
}

int main(void)
{
	spar_rng_init(&rng, 1, "kernel", 6);
	const struct spar_kernel *k;
	size_t n_tested = 0;
	for (size_t i = 0; (k = spar_kernel_at(i)); i++) {
		if (!spar_kernel_usable(k)) {
			printf("%s: this processor does not have it\n", k->name);
			continue;
		}
		n_tested++;
		products(k, SPAR_BF16);
		long_products(k, SPAR_BF16);
		blocks(k, SPAR_BF16);
		if (k->f32.gemm) {
			products(k, SPAR_F32);
			long_products(k, SPAR_F32);
			blocks(k, SPAR_F32);
		}
		rows(k);
		exponentials(k);
	}
	CHECK(n_tested > 0);
	CHECK(spar_kernel_find("portable", SPAR_F32) != NULL);
	CHECK(spar_kernel_find("avx512bf16", SPAR_F32) == NULL);
	return unit_done();
}
