/* spectrum.c - see spectrum.h */
#include "env/cern/spectrum.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

enum { BINS = SPAR_SPECTRUM_BINS, PARAMS = 4 }; /* S, p0, p1, p2 */
enum { CENTRE_FIRST = 38, CENTRE_LAST = 458 };  /* of half bins: 120 and 900 GeV */
#define STEP SPAR_SPECTRUM_STEP
#define SLOPE_ERR 0.6
#define CURVATURE_ERR 0.3
#define CUT_WIDTHS 5.0
#define ERR_WIDTHS_MAX 3.0
#define GAIN_MIN 1e-8

static double normal_cdf(double t)
{
	return 0.5 * erfc(-t * 0.70710678118654752440);
}

static double bin_y(int i)
{
	return (i + 0.5) * STEP - SPAR_SPECTRUM_LENGTH / 2;
}

void spar_spectrum_template(double mu, double s, double g[BINS])
{
	double below = normal_cdf(-mu / s);
	for (int i = 0; i < BINS; i++) {
		double next = normal_cdf(((i + 1) * STEP - mu) / s);
		g[i] = next - below;
		below = next;
	}
}

static double asimov(const double *g, const double *b, double S)
{
	double q = 0;
	for (int i = 0; i < BINS; i++)
		if (g[i] > 0)
			q += (S * g[i] + b[i]) * log1p(S * g[i] / b[i]) - S * g[i];
	return sqrt(2 * fmax(q, 0));
}

double spar_spectrum_yield(const double g[BINS], const double b[BINS], double z)
{
	double lo = 0, hi = 1;
	while (asimov(g, b, hi) < z)
		hi *= 2;
	for (int i = 0; i < 60; i++) {
		double mid = (lo + hi) / 2;
		*(asimov(g, b, mid) < z ? &lo : &hi) = mid;
	}
	return (lo + hi) / 2;
}

/* ---- likelihood and its maximum by Fisher scoring ---- */

/* A point of the fit and what was computed there. */
struct point {
	double p[PARAMS];
	double log_l; /* constraints included, constants of the counts left out */
	double b[BINS], mean[BINS];
};

static void evaluate(const struct spar_spectrum *sp, const double *g, struct point *at)
{
	const double *p = at->p;
	double pull = (p[2] + sp->slope) / SLOPE_ERR, bend = p[3] / CURVATURE_ERR;
	double sum = -0.5 * (pull * pull + bend * bend);
	for (int i = 0; i < BINS; i++) {
		double y = bin_y(i);
		at->b[i] = exp(p[1] + y * (p[2] + y * p[3]));
		at->mean[i] = at->b[i] + (g ? p[0] * g[i] : 0);
		sum -= at->mean[i];
		if (sp->counts[i])
			sum += sp->counts[i] * log(at->mean[i]);
	}
	at->log_l = sum;
}

/* Gradient of the log-likelihood and the Fisher matrix at a point. */
static void slopes(const struct spar_spectrum *sp, const double *g, const struct point *at, double grad[PARAMS],
		   double fisher[PARAMS][PARAMS])
{
	memset(grad, 0, PARAMS * sizeof *grad);
	memset(fisher, 0, PARAMS * sizeof *fisher);
	for (int i = 0; i < BINS; i++) {
		double y = bin_y(i), excess = sp->counts[i] / at->mean[i] - 1;
		double d[PARAMS] = {g ? g[i] : 0, at->b[i], at->b[i] * y, at->b[i] * y * y};
		for (int j = 0; j < PARAMS; j++) {
			grad[j] += excess * d[j];
			for (int k = 0; k <= j; k++)
				fisher[j][k] += d[j] * d[k] / at->mean[i];
		}
	}
	grad[2] -= (at->p[2] + sp->slope) / (SLOPE_ERR * SLOPE_ERR);
	grad[3] -= at->p[3] / (CURVATURE_ERR * CURVATURE_ERR);
	fisher[2][2] += 1 / (SLOPE_ERR * SLOPE_ERR);
	fisher[3][3] += 1 / (CURVATURE_ERR * CURVATURE_ERR);
	for (int j = 0; j < PARAMS; j++)
		for (int k = j + 1; k < PARAMS; k++)
			fisher[j][k] = fisher[k][j];
}

/* Solve a positive definite system for parameters first..3 (Cholesky, with `a` overwritten). */
static void solve(double a[PARAMS][PARAMS], int first, const double rhs[PARAMS], double x[PARAMS])
{
	for (int j = first; j < PARAMS; j++) {
		for (int k = first; k <= j; k++) {
			double sum = a[j][k];
			for (int l = first; l < k; l++)
				sum -= a[j][l] * a[k][l];
			a[j][k] = j == k ? sqrt(fmax(sum, 1e-300)) : sum / a[k][k];
		}
	}
	for (int j = first; j < PARAMS; j++) {
		x[j] = rhs[j];
		for (int k = first; k < j; k++)
			x[j] -= a[j][k] * x[k];
		x[j] /= a[j][j];
	}
	for (int j = PARAMS - 1; j >= first; j--) {
		for (int k = j + 1; k < PARAMS; k++)
			x[j] -= a[k][j] * x[k];
		x[j] /= a[j][j];
	}
}

/* Climb to the maximum over p0, p1, p2 and, with a template, S >= 0. `best` comes in with p set and evaluated. */
static void maximise(const struct spar_spectrum *sp, const double *g, struct point *best)
{
	for (int step = 0; step < 50; step++) {
		double grad[PARAMS], fisher[PARAMS][PARAMS], move[PARAMS] = {0};
		slopes(sp, g, best, grad, fisher);
		bool background_only = !g || (best->p[0] <= 0 && grad[0] <= 0);
		solve(fisher, background_only, grad, move);
		struct point trial = *best;
		double gain = 0, size = 1;
		for (int half = 0; half < 30; half++, size /= 2) {
			for (int j = 0; j < PARAMS; j++)
				trial.p[j] = best->p[j] + size * move[j];
			trial.p[0] = fmax(trial.p[0], 0);
			evaluate(sp, g, &trial);
			gain = trial.log_l - best->log_l;
			if (gain >= 0)
				break;
		}
		if (!(gain >= 0))
			return;
		*best = trial;
		if (gain < GAIN_MIN)
			return;
	}
}

static void fit_background(const struct spar_spectrum *sp, struct point *out)
{
	double total = 0, shape = 0;
	for (int i = 0; i < BINS; i++) {
		total += sp->counts[i];
		shape += exp(-sp->slope * bin_y(i));
	}
	memcpy(out->p, (double[PARAMS]){0, log(fmax(total, 0.5) / shape), -sp->slope, 0}, sizeof out->p);
	evaluate(sp, NULL, out);
	maximise(sp, NULL, out);
}

/* ---- scan ---- */

/* The template of a peak at half bin k: g_i = cdf(2(i+1) - k) - cdf(2i - k), so one table serves every centre. */
struct half_bins {
	int reach; /* half bins that the cut leaves on each side */
	double cdf[4 * BINS + 3];
};

static void half_bins_init(struct half_bins *t, double s)
{
	t->reach = (int)fmin(CUT_WIDTHS * s / (STEP / 2), 2 * BINS);
	for (int h = -t->reach - 1; h <= t->reach + 1; h++)
		t->cdf[h + t->reach + 1] = normal_cdf(h * STEP / 2 / s);
}

/* Twice the gain of log-likelihood from the best S >= 0 at half bin k. */
static double scan_at(const struct spar_spectrum *sp, const double *b, const struct half_bins *t, int k)
{
	double g[BINS], n[BINS], base[BINS], sum_g = 0, slope = 0;
	int m = 0;
	for (int i = k > t->reach ? (k - t->reach) / 2 : 0; i < BINS && 2 * i + 1 - k <= t->reach; i++) {
		int h = 2 * i - k + t->reach + 1; /* the lower edge, in the table */
		g[m] = t->cdf[h + 2] - t->cdf[h];
		n[m] = sp->counts[i];
		base[m] = b[i];
		sum_g += g[m];
		slope += n[m] * g[m] / b[i];
		m++;
	}
	if (slope <= sum_g)
		return 0;
	/* The derivative falls and is convex: Newton from 0 approaches the root from below and cannot overshoot. */
	double S = 0;
	for (int step = 0; step < 25; step++) {
		double d1 = -sum_g, d2 = 0;
		for (int j = 0; j < m; j++) {
			double r = g[j] / (base[j] + S * g[j]);
			d1 += n[j] * r;
			d2 += n[j] * r * r;
		}
		if (d2 <= 0)
			break;
		S += d1 / d2;
		if (fabs(d1 / d2) <= 1e-4 * S)
			break;
	}
	double gain = -S * sum_g;
	for (int j = 0; j < m; j++)
		if (n[j] > 0)
			gain += n[j] * log1p(S * g[j] / base[j]);
	return 2 * fmax(gain, 0);
}

struct spar_bump spar_spectrum_scan(const struct spar_spectrum *sp, double mu_lo, double mu_hi)
{
	struct point background;
	struct half_bins table;
	fit_background(sp, &background);
	half_bins_init(&table, sp->width);
	int lo = (int)fmax(CENTRE_FIRST, ceil(mu_lo / (STEP / 2))),
	    hi = (int)fmin(CENTRE_LAST, floor(mu_hi / (STEP / 2)));
	if (lo > hi) {
		double nearest = round((mu_lo + mu_hi) / 2 / (STEP / 2));
		lo = hi = (int)fmin(fmax(nearest, CENTRE_FIRST), CENTRE_LAST);
	}
	double best = scan_at(sp, background.b, &table, lo);
	int at = lo;
	for (int k = lo + 1; k <= hi; k++) {
		double q = scan_at(sp, background.b, &table, k);
		if (q > best) {
			best = q;
			at = k;
		}
	}
	return (struct spar_bump){at * STEP / 2, sqrt(best)};
}

/* ---- peak fit ---- */

/* Profile log-likelihood at `mu`; `at` is the warm start and becomes the maximum there. */
static double profile(const struct spar_spectrum *sp, double mu, struct point *at)
{
	double g[BINS];
	spar_spectrum_template(mu, sp->width, g);
	evaluate(sp, g, at);
	maximise(sp, g, at);
	return at->log_l;
}

static struct spar_peak peak_of(const struct spar_spectrum *sp, double mu, const struct point *fit, double log_l_none)
{
	double g[BINS], grad[PARAMS], fisher[PARAMS][PARAMS], column[PARAMS];
	spar_spectrum_template(mu, sp->width, g);
	slopes(sp, g, fit, grad, fisher);
	solve(fisher, 0, (double[PARAMS]){1, 0, 0, 0}, column);
	return (struct spar_peak){.mu = mu,
				  .n = fit->p[0],
				  .n_err = sqrt(fmax(column[0], 0)),
				  .z = sqrt(2 * fmax(fit->log_l - log_l_none, 0))};
}

struct spar_peak spar_spectrum_fit_at(const struct spar_spectrum *sp, double mu)
{
	struct point background, fit;
	fit_background(sp, &background);
	fit = background;
	profile(sp, mu, &fit);
	return peak_of(sp, mu, &fit, background.log_l);
}

/* How far from the best mu, to one side, the profile has fallen by a half; at most `reach`. */
static double half_width(const struct spar_spectrum *sp, double mu, const struct point *fit, double reach, double side)
{
	double lo = 0, hi = reach;
	struct point at = *fit;
	if (profile(sp, mu + side * reach, &at) > fit->log_l - 0.5)
		return reach;
	for (int i = 0; i < 14; i++) {
		double mid = (lo + hi) / 2;
		at = *fit;
		*(profile(sp, mu + side * mid, &at) > fit->log_l - 0.5 ? &lo : &hi) = mid;
	}
	return (lo + hi) / 2;
}

struct spar_peak spar_spectrum_fit(const struct spar_spectrum *sp, double start)
{
	const double golden = 0.61803398874989484820;
	struct point background, left, right;
	fit_background(sp, &background);
	double lo = start - STEP, hi = start + STEP;
	double mu_left = hi - golden * (hi - lo), mu_right = lo + golden * (hi - lo);
	left = right = background;
	profile(sp, mu_left, &left);
	profile(sp, mu_right, &right);
	for (int step = 0; step < 14; step++) {
		if (left.log_l > right.log_l) {
			hi = mu_right;
			right = left;
			mu_right = mu_left;
			mu_left = hi - golden * (hi - lo);
			profile(sp, mu_left, &left);
		} else {
			lo = mu_left;
			left = right;
			mu_left = mu_right;
			mu_right = lo + golden * (hi - lo);
			profile(sp, mu_right, &right);
		}
	}
	bool is_left = left.log_l > right.log_l;
	const struct point *fit = is_left ? &left : &right;
	double mu = is_left ? mu_left : mu_right, reach = ERR_WIDTHS_MAX * sp->width;
	struct spar_peak peak = peak_of(sp, mu, fit, background.log_l);
	peak.mu_err = (half_width(sp, mu, fit, reach, -1) + half_width(sp, mu, fit, reach, 1)) / 2;
	return peak;
}

/* ---- look elsewhere ---- */

double spar_spectrum_global(double z, double h, double resolution)
{
	const double two_root2_pi = 8.885765876316732494; /* 2 sqrt(2) pi */
	double p = normal_cdf(-z) + h / (two_root2_pi * resolution) * exp(-z * z / 2);
	if (p >= 0.5)
		return 0;
	double lo = 0, hi = 40;
	for (int i = 0; i < 60; i++) {
		double mid = (lo + hi) / 2;
		*(normal_cdf(-mid) > p ? &lo : &hi) = mid;
	}
	return (lo + hi) / 2;
}
