/* policy.c - the built-in policies of env-cern: each is a function of the present state, so it can be asked anywhere,
 * also off its own path. See cern.h. */
#include "env/cern/cern.h"
#include <math.h>

#define BUDGET_KEPT 8 /* for a calibration, two fits and a scan */
#define COST_PER_FB 0.2

static double tenths(double v)
{
	return round(v * 10) / 10;
}

static struct spar_cern_action on_channel(enum spar_cern_verb verb, int channel)
{
	struct spar_cern_action a = spar_cern_action(verb);
	a.channel = channel;
	return a;
}

static struct spar_cern_action allocate(int trigger, double fb)
{
	struct spar_cern_action a = spar_cern_action(SPAR_CERN_ALLOCATE);
	a.trigger = trigger;
	a.fb = fmax(fb, 1);
	return a;
}

static struct spar_cern_action claim(const struct spar_cern *s, int channel)
{
	struct spar_cern_action a = on_channel(SPAR_CERN_CLAIM, channel);
	a.mass = tenths(s->fits[channel].mass);
	a.significance = tenths(s->fits[channel].peak.z);
	return a;
}

/* Whole fb^-1 that can be taken with enough budget kept to finish. */
static double room(const struct spar_cern *s)
{
	return floor(fmin(s->luminosity_left, (s->budget_left - BUDGET_KEPT) / COST_PER_FB) + 1e-9);
}

static bool trigger_used(const struct spar_cern *s, int trigger)
{
	for (int i = 0; i < s->n_takings; i++)
		if (s->takings[i].trigger == trigger)
			return true;
	return false;
}

/* The list of rules that oracle and heuristic share. `channel` is the one to go for, -1 if that is not known yet;
 * `survey` is how much broad data to begin with. `spare` counts the steps beyond those that a claim still needs. */
static struct spar_cern_action pipeline(const struct spar_cern *s, int channel, double survey)
{
	int left = s->max_steps - s->step;
	bool fitted = channel >= 0 && s->fits[channel].valid, calibrated = channel >= 0 && s->scales[channel].done;
	int spare = left - ((s->beam < 0) + !s->n_takings + !fitted + 1);
	if (s->beam < 0) {
		struct spar_cern_action a = spar_cern_action(SPAR_CERN_CONFIGURE);
		a.beam = 2; /* 13TeV */
		return a;
	}
	if (!s->n_takings && (spare >= 3 || channel < 0))
		return allocate(SPAR_CERN_HIGH_PT, fmin(survey, room(s)));
	if (channel < 0)
		return spar_cern_action(SPAR_CERN_SCAN);
	int dedicated = spar_cern_channels[channel].trigger;
	if (!s->n_takings)
		return allocate(dedicated, room(s));
	if (fitted && !calibrated && left >= 3 && s->budget_left >= 6)
		return on_channel(SPAR_CERN_CALIBRATE, channel);
	if (fitted)
		return claim(s, channel);
	if (!s->scanned && spare >= 3 && s->budget_left >= 1)
		return spar_cern_action(SPAR_CERN_SCAN);
	if (!trigger_used(s, dedicated) && spare >= 1 && room(s) >= 1)
		return allocate(dedicated, room(s));
	if (!calibrated && spare >= 1 && s->budget_left >= 6)
		return on_channel(SPAR_CERN_CALIBRATE, channel);
	return on_channel(SPAR_CERN_FIT, channel);
}

struct spar_cern_action spar_cern_oracle(const struct spar_cern *s)
{
	return pipeline(s, s->truth.channel, 200);
}

struct spar_cern_action spar_cern_heuristic(const struct spar_cern *s)
{
	int strongest = s->n_bumps ? s->bumps[0].channel : -1;
	if (strongest < 0 &&
	    (s->scanned || s->budget_left < 1)) /* nothing to choose by: any channel ends the episode */
		strongest = 0;
	return pipeline(s, strongest, 100);
}

struct spar_cern_action spar_cern_random(const struct spar_cern *s)
{
	double u[6];
	for (uint32_t i = 0; i < 6; i++)
		u[i] = spar_cern_uniform(&s->dice, SPAR_CERN_RANDOM, (uint32_t)s->step, i, 0);
	struct spar_cern_action a = spar_cern_action((enum spar_cern_verb)(int)(SPAR_CERN_VERBS * u[0]));
	a.channel = (int)(SPAR_CERN_CHANNELS * u[1]);
	if (a.verb != SPAR_CERN_FIT)
		a.mass = tenths(100 * pow(10, u[2]));
	a.beam = (int)(SPAR_CERN_BEAMS * u[3]);
	a.trigger = (int)(SPAR_CERN_TRIGGERS * u[3]);
	a.fb = floor(1 + 300 * u[4]);
	a.significance = tenths(8 * u[5]);
	return a;
}
