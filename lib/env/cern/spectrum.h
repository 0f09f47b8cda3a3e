/* spectrum.h - a binned mass spectrum and what an analysis computes from its counts: background fit, bump scan, peak
 * fit, significances. Knows nothing of the hidden truth. Positions are x = ln(m / 100 GeV) in [0, ln 10], in equal
 * bins.
 *
 * Model: counts are Poisson with mean exp(p0 + p1 y + p2 y^2) + S g_i, y = x - ln(10)/2 at bin centres, g the part of a
 * Gaussian peak in bin i. The log-likelihood carries weak constraints on p1 (about -slope, 0.6) and p2 (about 0, 0.3).
 * All functions are pure and thread-safe. */
#ifndef SPAR_ENV_CERN_SPECTRUM_H
#define SPAR_ENV_CERN_SPECTRUM_H

#include <stdbool.h>
#include <stdint.h>

enum { SPAR_SPECTRUM_BINS = 240 };
#define SPAR_SPECTRUM_LENGTH 2.302585092994045684 /* ln 10: from 100 to 1000 GeV */
#define SPAR_SPECTRUM_STEP (SPAR_SPECTRUM_LENGTH / SPAR_SPECTRUM_BINS)

struct spar_spectrum {
	const uint32_t *counts; /* (BINS) */
	double slope;           /* expected fall of the background, > 0: p1 is near -slope */
	double width;           /* s of the peak template, in ln m */
};

/*! Part of a Gaussian peak at `mu` of width `s` in each bin; sums to at most 1. */
void spar_spectrum_template(double mu, double s, double g[SPAR_SPECTRUM_BINS]);

/*! Signal yield that gives median significance `z` over the expected background (Asimov: sqrt(2 sum((Sg+b) ln(1+Sg/b) -
 *  Sg)); Cowan, Cranmer, Gross, Vitells 2011), by bisection. b > 0. */
double spar_spectrum_yield(const double g[SPAR_SPECTRUM_BINS], const double b[SPAR_SPECTRUM_BINS], double z);

struct spar_bump {
	double mu, z; /* z 0: nothing above the background anywhere in the range */
};

/*! Largest local significance among the scan's centres (every half bin, 120 to 900 GeV) in [mu_lo, mu_hi], the
 *  background held at its own fit. A range that holds no centre gives the nearest one. */
struct spar_bump spar_spectrum_scan(const struct spar_spectrum *sp, double mu_lo, double mu_hi);

struct spar_peak {
	double mu, mu_err; /* statistical error; mu_err 0 when mu was given */
	double n, n_err;   /* signal yield and its error from the Fisher matrix */
	double z;          /* local significance against no signal */
};

/*! Fit yield, position (within a bin of `start`) and background. */
struct spar_peak spar_spectrum_fit(const struct spar_spectrum *sp, double start);

/*! The same with the position fixed. */
struct spar_peak spar_spectrum_fit_at(const struct spar_spectrum *sp, double mu);

/*! Significance after the look-elsewhere effect in one channel: `h` is the width of the searched range, `resolution`
 *  the peak's, both in ln m (upcrossings of a Gaussian process; Gross and Vitells 2010). 0 when the probability is
 *  over half. */
double spar_spectrum_global(double z, double h, double resolution);

#endif
