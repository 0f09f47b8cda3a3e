/* world.c - see world.h */
#include "env/cern/world.h"
#include <math.h>

enum { CHANNELS = SPAR_CERN_CHANNELS, BINS = SPAR_SPECTRUM_BINS };
#define ACCEPTANCE 0.4         /* of the cross section shown */
#define WIDTHS_PER_SIGMA 2.355 /* full width at half maximum of a Gaussian */

const struct spar_cern_channel spar_cern_channels[CHANNELS] = {
    {"diphoton", 0.015, 400, 2.2, SPAR_CERN_DIPHOTON_HLT},
    {"dilepton_ee", 0.015, 800, 2.6, SPAR_CERN_DILEPTON_HLT},
    {"dilepton_mumu", 0.020, 900, 2.6, SPAR_CERN_DILEPTON_HLT},
    {"four_lepton", 0.018, 40, 1.6, SPAR_CERN_DILEPTON_HLT},
    {"dijet", 0.045, 20000, 3.0, SPAR_CERN_JET_HLT},
    {"bb", 0.055, 8000, 2.8, SPAR_CERN_JET_HLT},
};

const char *const spar_cern_triggers[SPAR_CERN_TRIGGERS] = {"high_pt", "low_pt", "diphoton_hlt", "dilepton_hlt",
							    "jet_hlt"};

/* Part of the events, signal and background alike, that a trigger keeps in each channel. */
static const double efficiency[SPAR_CERN_TRIGGERS][CHANNELS] = {
    {0.35, 0.35, 0.35, 0.35, 0.35, 0.315}, {0.175, 0.175, 0.175, 0.175, 0.14, 0.14}, {1, 0.05, 0.02, 0.02, 0.02, 0.02},
    {0.02, 1, 1, 0.95, 0.02, 0.02},        {0.02, 0.02, 0.02, 0.02, 1, 0.95},
};

const struct spar_cern_beam spar_cern_beams[SPAR_CERN_BEAMS] = {
    {"7TeV", 0.45, 0.50, 1, 3},
    {"8TeV", 0.60, 0.65, 1, 4},
    {"13TeV", 1, 1, 1, 6},
    {"14TeV", 1.08, 1.10, 1.1, 10},
};

const struct spar_cern_difficulty spar_cern_difficulties[SPAR_CERN_DIFFICULTIES] = {
    {"easy", {10, 14}, {0.10, 0.30}, 0.6, 0.8, 1.0, 100},
    {"medium", {8, 10.5}, {0.20, 0.40}, 1.1, 1.0, 0.8, 95},
    {"hard", {6.5, 8.5}, {0.30, 0.50}, 1.8, 1.2, 0.65, 90},
};

enum item {
	MASS,
	PRIMARY,
	SIGNIFICANCE,
	WIDTH,
	SECONDARY,
	SECOND_WEIGHT,
	MINOR_WEIGHT,
	WINDOW = MINOR_WEIGHT + CHANNELS
};

static double between(const double range[2], double u)
{
	return range[0] + (range[1] - range[0]) * u;
}

static double clamp(double v, double lo, double hi)
{
	return fmin(fmax(v, lo), hi);
}

static double truth_uniform(const struct spar_cern_dice *d, enum item item)
{
	return spar_cern_uniform(d, SPAR_CERN_TRUTH, 0, (uint32_t)item, 0);
}

/* Expected background per bin at full luminosity, 13TeV, no trigger loss. */
static void background(const struct spar_cern_dice *d, int c, double b[BINS])
{
	const struct spar_cern_channel *ch = &spar_cern_channels[c];
	double norm = exp(0.2 * spar_cern_normal(d, SPAR_CERN_BACKGROUND, 0, (uint32_t)c, 0));
	double slope = ch->slope + 0.12 * spar_cern_normal(d, SPAR_CERN_BACKGROUND, 0, (uint32_t)c, 1);
	double curvature = 0.08 * spar_cern_normal(d, SPAR_CERN_BACKGROUND, 0, (uint32_t)c, 2);
	for (int i = 0; i < BINS; i++) {
		double x = (i + 0.5) * SPAR_SPECTRUM_STEP;
		b[i] = ch->background * norm * exp(-slope * x - curvature * x * x);
	}
}

/* The peak's width in ln m: resolution and natural width. */
static double peak_width(const struct spar_cern_truth *t, int c, double smear)
{
	return hypot(spar_cern_channels[c].resolution * smear, t->width / WIDTHS_PER_SIGMA);
}

static void branchings(struct spar_cern_truth *t, const struct spar_cern_dice *d, double weight[CHANNELS])
{
	const struct spar_cern_difficulty *diff = &spar_cern_difficulties[d->difficulty];
	int second = (int)(5 * truth_uniform(d, SECONDARY));
	second += second >= t->channel;
	double sum = 0;
	for (int c = 0; c < CHANNELS; c++) {
		weight[c] = 0.02 + 0.08 * truth_uniform(d, (enum item)(MINOR_WEIGHT + c));
		if (c == t->channel)
			weight[c] = 1;
		else if (c == second)
			weight[c] = between(diff->second, truth_uniform(d, SECOND_WEIGHT));
		sum += weight[c];
	}
	for (int c = 0; c < CHANNELS; c++)
		t->branching[c] = weight[c] / sum;
}

void spar_cern_truth_init(struct spar_cern_truth *t, const struct spar_cern_dice *d)
{
	const struct spar_cern_difficulty *diff = &spar_cern_difficulties[d->difficulty];
	t->mass = 160 * pow(4, truth_uniform(d, MASS));
	t->channel = (int)(CHANNELS * truth_uniform(d, PRIMARY));
	t->z = between(diff->z, truth_uniform(d, SIGNIFICANCE));
	t->width = 0.002 * pow(10, truth_uniform(d, WIDTH));
	double weight[CHANNELS];
	branchings(t, d, weight);
	for (int c = 0; c < CHANNELS; c++) {
		double b[BINS], g[BINS];
		background(d, c, b);
		spar_spectrum_template(log(t->mass / 100), peak_width(t, c, 1), g);
		/* Equal branchings mean equal expected significances. */
		t->signal[c] = spar_spectrum_yield(g, b, t->z) * weight[c];
		t->bias[c] = diff->bias * spar_cern_channels[c].resolution *
			     clamp(spar_cern_normal(d, SPAR_CERN_SCALE, 0, (uint32_t)c, 0), -2.5, 2.5);
	}
	t->cross_section_fb = t->signal[t->channel] / (SPAR_CERN_LUMINOSITY * ACCEPTANCE * t->branching[t->channel]);
	double lo = clamp(log(t->mass) - diff->window * (0.1 + 0.8 * truth_uniform(d, WINDOW)), log(120),
			  log(900) - diff->window);
	t->window[0] = exp(lo);
	t->window[1] = exp(lo + diff->window);
}

void spar_cern_take_data(const struct spar_cern_truth *t, const struct spar_cern_dice *d, int beam, int trigger,
			 double luminosity, int k, uint32_t counts[CHANNELS][BINS])
{
	const struct spar_cern_beam *bm = &spar_cern_beams[beam];
	for (int c = 0; c < CHANNELS; c++) {
		double b[BINS], g[BINS];
		background(d, c, b);
		spar_spectrum_template(log(t->mass * (1 + t->bias[c]) / 100), peak_width(t, c, bm->smear), g);
		for (int i = 0; i < BINS; i++) {
			double full = b[i] * bm->background + t->signal[c] * bm->signal * g[i];
			double lambda = full * (luminosity / SPAR_CERN_LUMINOSITY) * efficiency[trigger][c];
			counts[c][i] += spar_cern_poisson(d, (uint32_t)(8 * k + c), (uint32_t)i, lambda);
		}
	}
}
