/* The tensor layer's manners: errors that stick, scopes, gradients; and tree attention against plain loops. */
#include "base/philox.h"
#include "tensor/tensor.h"
#include "unit.h"
#include <math.h>
#include <stdlib.h>

static const struct spar_device cpu;

static void check_errors(void)
{
	struct spar_scope *s = spar_scope_new(cpu, true), *inner;
	struct spar_err err = {0};
	float six[6] = {1, 2, 3, 4, 5, 6}, out[6] = {0};
	struct spar_tensor *a = spar_tensor_from_f32(s, six, 2, (size_t[]){2, 3});
	CHECK(spar_tensor_size(a, 0) == 2 && spar_tensor_size(a, 1) == 3 && spar_tensor_size(a, 2) == 0);
	CHECK(spar_scope_status(s, &err) == 0);

	/* a failure inside reaches the outer scope, is one line, and stops what comes after it */
	inner = spar_scope_open(s, false);
	CHECK(spar_scope_close(inner, spar_tensor_matmul(inner, a, a)) == NULL);
	CHECK(spar_scope_status(s, &err) == -SPAR_FAIL && !strchr(err.msg, '\n') &&
	      !strncmp(err.msg, "libtorch: ", 10));
	CHECK(spar_tensor_add(s, a, a) == NULL);
	spar_tensor_read(s, a, out, 6);
	CHECK(out[0] == 0);
	spar_scope_free(s);

	s = spar_scope_new(cpu, false);
	CHECK(spar_tensor_exp(s, NULL) == NULL);
	CHECK(spar_scope_status(s, &err) == -SPAR_FAIL);
	spar_scope_free(s);
	spar_scope_free(NULL);
	CHECK(spar_tensor_elements(NULL) == 0);
}

static void check_devices(void)
{
	static const char *const bad[] = {"", "gpu", "cuda:", "cuda:x", "cuda1", "cuda:1000", "cpu:0", "acud"};
	struct spar_err err = {0};
	struct spar_device d;
	CHECK(spar_device_parse(&d, "cpu", &err) == 0 && !d.cuda);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK(spar_device_parse(&d, bad[i], &err) == -SPAR_USAGE);
}

/* d/dx of sum of (2 x)^2 is 8 x; gradients add up; what is detached or made without recording gets none. */
static void check_gradients(void)
{
	struct spar_err err = {0};
	float x_values[3] = {1, -2, 3}, d[3];
	struct spar_scope *own = spar_scope_new(cpu, false), *s = spar_scope_new(cpu, true);
	struct spar_tensor *x = spar_tensor_from_f32(own, x_values, 1, (size_t[]){3});
	spar_tensor_require_grad(own, x);
	for (int round = 1; round <= 2; round++) {
		struct spar_tensor *twice = spar_tensor_scale(s, x, 2),
				   *one = spar_tensor_exp(s, spar_tensor_zeros(s, SPAR_TENSOR_F32, 0, NULL));
		spar_tensor_backward(s, spar_tensor_sum_last(s, spar_tensor_mul(s, twice, twice)), one);
		spar_tensor_read(s, spar_tensor_grad(s, x), d, 3);
		for (int i = 0; i < 3; i++)
			CHECK_NEAR(d[i], round * 8 * x_values[i], 1e-5);
	}
	spar_tensor_drop_grad(s, x);
	spar_tensor_read(s, spar_tensor_grad(s, x), d, 3);
	CHECK(d[0] == 0 && d[1] == 0 && d[2] == 0);
	CHECK(spar_scope_status(s, &err) == 0);
	spar_tensor_backward(s, spar_tensor_detach(s, x), x);
	CHECK(spar_scope_status(s, &err) < 0);
	spar_scope_free(s);
	spar_scope_free(own);
}

enum { HEADS = 4, KV = 2, D = 4, NODES = 640 };

/* Node i's parent: a forest of two trees with short, long and one-node branches. */
static size_t lay_out(struct spar_branch *b, int32_t *parent)
{
	static const struct {
		int32_t parent;
		size_t n;
	} shape[] = {{-1, 3}, {0, 300}, {1, 1}, {1, 40}, {3, 5}, {3, 7}, {0, 20}, {-1, 9}, {7, 30}, {7, 225}};
	size_t n = sizeof shape / sizeof *shape, at = 0;
	for (size_t i = 0; i < n; at += shape[i++].n) {
		b[i] = (struct spar_branch){shape[i].parent, at, shape[i].n, at + shape[i].n};
		for (int32_t a = shape[i].parent; a >= 0; a = shape[a].parent)
			b[a].end = at + shape[i].n;
		for (size_t k = 0; k < shape[i].n; k++)
			parent[at + k] = (int32_t)(at + k) - 1;
		int32_t p = shape[i].parent;
		parent[at] = p < 0 ? -1 : (int32_t)(b[p].begin + b[p].n) - 1;
	}
	CHECK(at == NODES);
	return n;
}

/* softmax(scale q k) v over the path to the root, in double. q, k are (heads, nodes, d), v is (nodes, heads, d). */
static void attend_plainly(const float *q, const float *k, const float *v, const int32_t *parent, size_t window,
			   double scale, double cap, double *out)
{
	for (int h = 0; h < HEADS; h++)
		for (int i = 0; i < NODES; i++) {
			int kv = h / (HEADS / KV);
			double sum = 0, mixed[D] = {0};
			size_t distance = 0;
			for (int32_t j = i; j >= 0 && (!window || distance < window); j = parent[j], distance++) {
				double dot = 0;
				for (int c = 0; c < D; c++)
					dot += (double)q[(h * NODES + i) * D + c] * k[(kv * NODES + j) * D + c];
				dot = cap > 0 ? cap * tanh(dot * scale / cap) : dot * scale;
				double w = exp(dot);
				sum += w;
				for (int c = 0; c < D; c++)
					mixed[c] += w * v[(j * KV + kv) * D + c];
			}
			for (int c = 0; c < D; c++)
				out[(i * HEADS + h) * D + c] = mixed[c] / sum;
		}
}

static void check_attention(void)
{
	enum { Q = HEADS * NODES * D, K = KV * NODES * D };
	static float q[Q], k[K], v[K], got[Q];
	static double want[Q];
	struct spar_branch branches[16];
	struct spar_err err = {0};
	int32_t parent[NODES];
	struct spar_rng rng;
	size_t n = lay_out(branches, parent);
	spar_rng_init(&rng, 3, "attention", 9);
	for (uint32_t i = 0; i < Q; i++)
		q[i] = (float)spar_rng_normal(&rng, 0, i, 0, 0);
	for (uint32_t i = 0; i < K; i++) {
		k[i] = (float)spar_rng_normal(&rng, 1, i, 0, 0);
		v[i] = (float)spar_rng_normal(&rng, 2, i, 0, 0);
	}
	static const struct {
		size_t window;
		double scale, cap;
	} rows[] = {{0, 0.25, 0}, {1, 0.25, 0}, {7, 0.3, 0}, {300, 0.25, 0}, {0, 1, 0.8}, {20, 0.5, 2}};
	for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
		attend_plainly(q, k, v, parent, rows[r].window, rows[r].scale, rows[r].cap, want);
		struct spar_scope *s = spar_scope_new(cpu, false);
		struct spar_tensor *out = spar_tensor_attend(
		    s, spar_tensor_from_f32(s, q, 3, (size_t[]){HEADS, NODES, D}),
		    spar_tensor_from_f32(s, k, 3, (size_t[]){KV, NODES, D}),
		    spar_tensor_from_f32(s, v, 2, (size_t[]){NODES, KV * D}),
		    spar_tree_new(s, branches, n, rows[r].window), rows[r].scale, rows[r].cap, false);
		spar_tensor_read(s, out, got, Q);
		CHECK(spar_scope_status(s, &err) == 0);
		double worst = 0;
		for (int i = 0; i < Q; i++)
			worst = fmax(worst, fabs(got[i] - want[i]));
		CHECK_NEAR(worst, 0, 1e-5);
		spar_scope_free(s);
	}
}

/* With w the identity and x ones: what is left is 1 / (1 - p), and both gradients see the same elements. */
static void check_dropout(void)
{
	enum { ROWS = 501, COLS = 6 }; /* no multiple of what is drawn at a time */
	struct spar_err err = {0};
	static float ones[ROWS * COLS], y[ROWS * COLS], other[ROWS * COLS], dx[ROWS * COLS];
	float identity[COLS * COLS] = {0}, dw[COLS * COLS];
	for (int i = 0; i < ROWS * COLS; i++)
		ones[i] = 1;
	for (int i = 0; i < COLS; i++)
		identity[i * COLS + i] = 1;
	struct spar_scope *s = spar_scope_new(cpu, true);
	struct spar_tensor *x = spar_tensor_from_f32(s, ones, 2, (size_t[]){ROWS, COLS});
	struct spar_tensor *w = spar_tensor_from_f32(s, identity, 2, (size_t[]){COLS, COLS});
	spar_tensor_require_grad(s, x);
	spar_tensor_require_grad(s, w);
	struct spar_tensor *out = spar_tensor_dropped_linear(s, x, w, 0.25, 7);
	spar_tensor_read(s, out, y, ROWS * COLS);
	spar_tensor_read(s, spar_tensor_dropped_linear(s, x, w, 0.25, 8), other, ROWS * COLS);
	spar_tensor_backward(s, out, spar_tensor_detach(s, x));
	spar_tensor_read(s, spar_tensor_grad(s, x), dx, ROWS * COLS);
	spar_tensor_read(s, spar_tensor_grad(s, w), dw, COLS * COLS);
	CHECK(spar_scope_status(s, &err) == 0);
	int dropped = 0, moved = 0;
	for (int i = 0; i < ROWS * COLS; i++) {
		CHECK(y[i] == 0 || fabsf(y[i] - 4 / 3.0f) < 1e-6f);
		CHECK(fabsf(dx[i] - y[i]) < 1e-6f);
		dropped += y[i] == 0;
		moved += (y[i] == 0) != (other[i] == 0);
	}
	CHECK(abs(dropped - ROWS * COLS / 4) < 100 && moved > 800); /* four deviations are 95 */
	for (int column = 0; column < COLS; column++) {
		float sum = 0;
		for (int row = 0; row < ROWS; row++)
			sum += y[row * COLS + column];
		for (int i = 0; i < COLS; i++)
			CHECK_NEAR(dw[i * COLS + column], sum, 1e-2);
	}
	spar_scope_free(s);
}

int main(void)
{
	struct spar_err err = {0};
	CHECK(spar_tensor_start(2, &err) == 0);
	CHECK(spar_tensor_threads() == 2);
	check_errors();
	check_devices();
	check_gradients();
	check_dropout();
	check_attention();
	return unit_done();
}
