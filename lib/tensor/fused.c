#pragma GCC optimize("no-math-errno") /* a root is an instruction, not a call */
#include "tensor/fused.h"
#include "base/half.h"
#include <math.h>

#ifdef __x86_64__
#define DISPATCHED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define DISPATCHED
#endif
#define EACH _Pragma("omp simd") for (size_t i = 0; i < n; i++)
#define BLOCK 512 /* numbers widened at a time */

/* 2^n e^f with n = round(x / ln 2) and e^f by its series, as the engine's (rows_body.h); x is clamped to +-88. */
static inline float exponential(float x)
{
	const float shift = 0x1.8p23f;
	float clamped = x < -88 ? -88 : x > 88 ? 88 : x;
	float shifted = clamped * 0x1.715476p0f + shift, n = shifted - shift;
	float f = clamped - n * 0x1.62e4p-1f - n * -0x1.7f7d1cp-20f;
	float e = 1.0f / 5040;
	e = e * f + 1.0f / 720;
	e = e * f + 1.0f / 120;
	e = e * f + 1.0f / 24;
	e = e * f + 1.0f / 6;
	e = e * f + 0.5f;
	e = e * f + 1;
	e = e * f + 1;
	return spar_f32_from_bits(spar_f32_bits(e) + (spar_f32_bits(shifted) << 23));
}

/* sigma(u) with activation(z) = z sigma(u(z)): u = z for silu, and for gelu 2 sqrt(2 / pi) (z + 0.044715 z^3). */
static inline float gate_of(float z, float linear, float cubic)
{
	return 1 / (1 + exponential(-z * (linear + cubic * z * z)));
}

struct curve {
	float linear, cubic;
};

static struct curve curve_of(struct spar_fused how)
{
	return how.gelu ? (struct curve){1.5957691216057f, 0.0713548162726f} : (struct curve){1, 0};
}

/* ---- blocks as float32 ---- */

/* Numbers [at, at + n) of x: where they are, or widened into `room`. */
static inline const float *load(bool half, const void *x, size_t at, size_t n, float *room)
{
	if (!half)
		return (const float *)x + at;
	const uint16_t *h = (const uint16_t *)x + at;
	EACH room[i] = spar_bf16_to_f32(h[i]);
	return room;
}

static inline float *place(bool half, void *x, size_t at, float *room)
{
	return half ? room : (float *)x + at;
}

/* What was written to place() goes to x. */
static inline void store(bool half, void *x, size_t at, size_t n, const float *room)
{
	uint16_t *h = (uint16_t *)x + at;
	if (!half)
		return;
	EACH h[i] = spar_f32_to_bf16(room[i]);
}

/* ---- the loops ---- */

DISPATCHED void spar_fused_gated(struct spar_fused how, size_t n_all, const void *gate, const void *up, void *out)
{
	struct curve c = curve_of(how);
	float room[3][BLOCK];
	for (size_t at = 0, n; at < n_all; at += n) {
		n = n_all - at < BLOCK ? n_all - at : BLOCK;
		const float *z = load(how.half, gate, at, n, room[0]), *u = load(how.half, up, at, n, room[1]);
		float *y = place(how.half, out, at, room[2]);
		EACH y[i] = z[i] * gate_of(z[i], c.linear, c.cubic) * u[i];
		store(how.half, out, at, n, y);
	}
}

DISPATCHED void spar_fused_gated_backward(struct spar_fused how, size_t n_all, const void *gate, const void *up,
					  const void *dy, void *dgate, void *dup)
{
	struct curve c = curve_of(how);
	float room[5][BLOCK];
	for (size_t at = 0, n; at < n_all; at += n) {
		n = n_all - at < BLOCK ? n_all - at : BLOCK;
		const float *z = load(how.half, gate, at, n, room[0]), *u = load(how.half, up, at, n, room[1]),
			    *d = load(how.half, dy, at, n, room[2]);
		float *dz = place(how.half, dgate, at, room[3]), *du = place(how.half, dup, at, room[4]);
		EACH
		{
			float s = gate_of(z[i], c.linear, c.cubic), slope = c.linear + 3 * c.cubic * z[i] * z[i];
			du[i] = d[i] * z[i] * s;
			dz[i] = d[i] * u[i] * (s + z[i] * s * (1 - s) * slope);
		}
		store(how.half, dgate, at, n, dz);
		store(how.half, dup, at, n, du);
	}
}

DISPATCHED size_t spar_fused_adamw_step(const struct spar_fused_adamw *given, size_t n, float *w, float *m, float *v,
					const float *grad)
{
	const struct spar_fused_adamw a = *given;
	size_t changed = 0;
#pragma omp simd reduction(+ : changed)
	for (size_t i = 0; i < n; i++) {
		float g = grad[i] * a.grad_scale, old = w[i];
		m[i] = m[i] * a.b1 + g * (1 - a.b1);
		v[i] = v[i] * a.b2 + g * g * (1 - a.b2);
		w[i] = old * a.keep - a.step_size * m[i] / (sqrtf(v[i]) * a.root + a.eps);
		changed += w[i] != old;
	}
	return changed;
}
