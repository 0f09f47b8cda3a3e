/* rows_body.h - what is done row by row between the matrix products; a template without a guard, included once per
 * instruction set. The includer defines
 *	V, VI, LENGTH        a vector of floats, of int32, and how many it holds
 *	FMA(a, b, c)         a * b + c, rounded once where the processor can
 *	MAX(a, b)            b where either is NaN
 *	ACT, STORE_ACT(p, v) the act type, and a vector stored as acts
 * and gets LOAD, LOAD_INT, STORE and SPLAT as well.
 */

typedef V V_any __attribute__((aligned(4), may_alias));
typedef VI VI_any __attribute__((aligned(2), may_alias));
typedef int32_t int32_any __attribute__((aligned(2), may_alias));
#define LOAD(p) ((V) * (const V_any *)(p))
#define LOAD_INT(p) ((VI) * (const VI_any *)(p))
#define STORE(p, v) (*(V_any *)(p) = (v))
#define SPLAT(x) ((float)(x) - (V){0})

/* Lanes summed from both ends to the middle: always in this order. */
static inline float lane_sum(V v)
{
	float s[LENGTH];
	memcpy(s, &v, sizeof s);
	for (size_t n = LENGTH / 2; n > 0; n /= 2)
		for (size_t i = 0; i < n; i++)
			s[i] += s[i + n];
	return s[0];
}

/* exp(x) = 2^n exp(f), n = round(x / ln 2), |f| <= ln 2 / 2, exp(f) by its series to f^7 (relative error below 1e-8,
 * hidden by rounding). Below -87 the result is 0, above 88 it is exp(88); NaN stays NaN. */
static inline V exp_vector(V x)
{
	const float shift = 0x1.8p23f; /* adding it leaves round(x) in the low bits */
	V clamped = -MAX(SPLAT(-88), -MAX(SPLAT(-88), x));
	V shifted = FMA(clamped, SPLAT(0x1.715476p0f), SPLAT(shift));
	V n = shifted - shift;
	V f = FMA(n, SPLAT(-0x1.62e4p-1f), clamped); /* ln 2 in two parts: the first has few bits, so n * it is exact */
	f = FMA(n, SPLAT(-0x1.7f7d1cp-20f), f);
	V e = SPLAT(1.0f / 5040);
	e = FMA(e, f, SPLAT(1.0f / 720));
	e = FMA(e, f, SPLAT(1.0f / 120));
	e = FMA(e, f, SPLAT(1.0f / 24));
	e = FMA(e, f, SPLAT(1.0f / 6));
	e = FMA(e, f, SPLAT(0.5f));
	e = FMA(e, f, SPLAT(1));
	e = FMA(e, f, SPLAT(1));
	V scaled = (V)((VI)e + ((VI)shifted << 23));
	return (V)((VI)scaled & ~(VI)(x < -87));
}

/* Where the weights lie that a chain of so many steps fetches, `stride` bytes with each; `none` if there are none, no more, or
 * too many for that. */
static inline const char *next_weights(struct spar_ahead *ahead, size_t n_steps, size_t *stride, const void *none)
{
	*stride = 0;
	if (!ahead || ahead->at >= ahead->end || ahead->rate > n_steps)
		return none;
	const char *at = ahead->at;
	ahead->at += ahead->rate * 64;
	*stride = ahead->rate * 64 / n_steps;
	return at;
}

/* Those that are too many: behind the chain, at once. */
static inline void fetch_rest(struct spar_ahead *ahead, size_t n_steps)
{
	for (size_t i = 0; ahead && ahead->rate > n_steps && i < ahead->rate && ahead->at < ahead->end;
	     i++, ahead->at += 64)
		__builtin_prefetch(ahead->at, 0, 2);
}

/* Where the next `size` bytes of the cache lie; `none` if there are none. */
static inline const char *next_piece(struct spar_ahead *ahead, size_t size, const void *none)
{
	struct spar_fetch *fetch = ahead ? ahead->cache : NULL;
	if (!fetch || fetch->block == fetch->end)
		return none;
	const char *piece = (const char *)*fetch->block + fetch->offset + fetch->done;
	fetch->done += size;
	if (fetch->done >= fetch->size) {
		fetch->done = 0;
		fetch->block++;
	}
	return piece;
}

static void norm(const float *x, const float *weight, size_t n, size_t n_true, float eps, void *act)
{
	V sum = SPLAT(0);
	for (size_t i = 0; i < n; i += LENGTH)
		sum = FMA(LOAD(x + i), LOAD(x + i), sum);
	V factor = SPLAT(1.0f / sqrtf(lane_sum(sum) / (float)n_true + eps));
	for (size_t i = 0; i < n; i += LENGTH)
		STORE_ACT((ACT *)act + i, LOAD(weight + i) * (LOAD(x + i) * factor));
}

static void swiglu(const float *gate, const float *up, size_t n, void *act)
{
	for (size_t i = 0; i < n; i += LENGTH) {
		V g = LOAD(gate + i);
		STORE_ACT((ACT *)act + i, g / (exp_vector(-g) + 1) * LOAD(up + i));
	}
}

/* gelu(g) = g / 2 (1 + tanh(u)) = g / (1 + e^-2u), u = sqrt(2 / pi) (g + 0.044715 g^3) */
static void geglu(const float *gate, const float *up, size_t n, void *act)
{
	for (size_t i = 0; i < n; i += LENGTH) {
		V g = LOAD(gate + i), u = g * FMA(g * g, SPLAT(-0.0713548162726f), SPLAT(-1.5957691216057f));
		STORE_ACT((ACT *)act + i, g / (exp_vector(u) + 1) * LOAD(up + i));
	}
}

static void scale(const float *x, float factor, size_t n, void *act)
{
	for (size_t i = 0; i < n; i += LENGTH)
		STORE_ACT((ACT *)act + i, LOAD(x + i) * factor);
}

static void rotate(const float *x, const float *cosine, const float *sine, size_t half, float *y)
{
	size_t i = 0;
	for (; i + LENGTH <= half; i += LENGTH) {
		V a = LOAD(x + i), b = LOAD(x + half + i), c = LOAD(cosine + i), s = LOAD(sine + i);
		STORE(y + i, FMA(-b, s, a * c));
		STORE(y + half + i, FMA(a, s, b * c));
	}
	for (; i < half; i++) {
		float a = x[i], b = x[half + i];
		y[i] = a * cosine[i] - b * sine[i];
		y[half + i] = b * cosine[i] + a * sine[i];
	}
}

static float max(const float *x, size_t n)
{
	float top = -INFINITY;
	size_t i = 0;
	if (n >= LENGTH) {
		V m = SPLAT(-INFINITY);
		for (; i + LENGTH <= n; i += LENGTH)
			m = MAX(LOAD(x + i), m);
		for (size_t lane = 0; lane < LENGTH; lane++)
			top = m[lane] > top ? m[lane] : top;
	}
	for (; i < n; i++)
		top = x[i] > top ? x[i] : top;
	return top;
}

static float exps(const float *x, size_t n, float max, float scale, float *y)
{
	V sum = SPLAT(0);
	size_t i = 0;
	for (; i + LENGTH <= n; i += LENGTH) {
		V e = exp_vector((LOAD(x + i) - max) * scale);
		sum += e;
		STORE(y + i, e);
	}
	if (i < n) {
		float rest[LENGTH];
		for (size_t lane = 0; lane < LENGTH; lane++)
			rest[lane] = i + lane < n ? x[i + lane] : -INFINITY;
		V e = exp_vector((LOAD(rest) - max) * scale);
		sum += e;
		STORE(rest, e);
		memcpy(y + i, rest, (n - i) * sizeof *y);
	}
	return lane_sum(sum);
}
