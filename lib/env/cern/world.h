/* world.h - what the collider is and what it hides: channels, triggers, beams and difficulties as tables; the hidden
 * particle as a function of (seed, difficulty); counts for a given luminosity. All numbers are of the project's own
 * making and are measured together: changing one changes every rate in spar-env-cern(1). */
#ifndef SPAR_ENV_CERN_WORLD_H
#define SPAR_ENV_CERN_WORLD_H

#include "env/cern/draw.h"
#include "env/cern/spectrum.h"
#include <stdint.h>

enum { SPAR_CERN_CHANNELS = 6, SPAR_CERN_TRIGGERS = 5, SPAR_CERN_BEAMS = 4, SPAR_CERN_DIFFICULTIES = 3 };

#define SPAR_CERN_LUMINOSITY 300.0 /* fb^-1 in all */

struct spar_cern_channel {
	const char *name;
	double resolution; /* relative, of the mass */
	double background; /* events per bin at 100 GeV, full luminosity */
	double slope;      /* the background falls as (m / 100 GeV)^-slope */
	int trigger;       /* the dedicated one */
};

struct spar_cern_beam {
	const char *name;
	double signal, background; /* relative to 13 TeV */
	double smear;              /* factor on the resolution */
	double cost;
};

struct spar_cern_difficulty {
	const char *name;
	double z[2];      /* range of the design significance */
	double second[2]; /* range of the secondary channel's weight relative to the primary's */
	double window;    /* width of the search window in ln m */
	double bias;      /* energy-scale bias, in resolutions */
	double tolerance; /* of a claimed mass, in resolutions */
	double budget;
};

enum { SPAR_CERN_HIGH_PT, SPAR_CERN_LOW_PT, SPAR_CERN_DIPHOTON_HLT, SPAR_CERN_DILEPTON_HLT, SPAR_CERN_JET_HLT };

extern const struct spar_cern_channel spar_cern_channels[SPAR_CERN_CHANNELS];
extern const struct spar_cern_beam spar_cern_beams[SPAR_CERN_BEAMS];
extern const struct spar_cern_difficulty spar_cern_difficulties[SPAR_CERN_DIFFICULTIES];
extern const char *const spar_cern_triggers[SPAR_CERN_TRIGGERS];

struct spar_cern_truth {
	double mass;                          /* GeV */
	double width;                         /* relative, full width at half maximum */
	double z;                             /* design significance of the primary channel at full luminosity */
	int channel;                          /* the primary one */
	double branching[SPAR_CERN_CHANNELS]; /* sums to 1 */
	double signal[SPAR_CERN_CHANNELS];    /* events at full luminosity, 13TeV, no trigger loss */
	double bias[SPAR_CERN_CHANNELS];      /* a peak of mass m appears at m (1 + bias) */
	double cross_section_fb;              /* for show */
	double window[2];                     /* GeV; public */
};

/*! The hidden truth of an episode. */
void spar_cern_truth_init(struct spar_cern_truth *t, const struct spar_cern_dice *d);

/*! Take data number `k` (from 0): add the events of `luminosity` fb^-1 through `trigger` to `counts`. */
void spar_cern_take_data(const struct spar_cern_truth *t, const struct spar_cern_dice *d, int beam, int trigger,
			 double luminosity, int k, uint32_t counts[SPAR_CERN_CHANNELS][SPAR_SPECTRUM_BINS]);

#endif
