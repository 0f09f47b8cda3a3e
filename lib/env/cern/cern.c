/* cern.c - the rules and the rewards; see cern.h */
#include "env/cern/cern.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CHANNELS = SPAR_CERN_CHANNELS, BINS = SPAR_SPECTRUM_BINS };

#define COST_PER_FB 0.2
#define COST_SCAN 1
#define COST_FIT 1
#define COST_CALIBRATION 5
#define COST_SYSTEMATICS 6
#define TEMPLATE_WIDTH 0.004 /* natural width that the analysis assumes, relative */
#define SCALE_ERR 0.25       /* of a calibration, in resolutions */
#define SYSTEMATICS_ERR 0.12 /* the same after systematics */

/* Rewards and what is left are kept with the decimals that are shown, so sums come out even. */
static double six_decimals(double v)
{
	return round(v * 1e6) / 1e6;
}

void spar_cern_reset(struct spar_cern *s, uint64_t seed, int difficulty, int max_steps)
{
	memset(s, 0, sizeof *s);
	s->seed = seed;
	s->difficulty = difficulty == SPAR_CERN_MIXED ? (int)(seed % SPAR_CERN_DIFFICULTIES) : difficulty;
	s->max_steps = max_steps;
	s->dice = (struct spar_cern_dice){{(uint32_t)seed, (uint32_t)(seed >> 32)}, (uint32_t)s->difficulty};
	spar_cern_truth_init(&s->truth, &s->dice);
	s->luminosity_left = SPAR_CERN_LUMINOSITY;
	s->budget_left = spar_cern_difficulties[s->difficulty].budget;
	s->beam = s->last_verb = s->estimate.channel = -1;
	snprintf(s->last, sizeof s->last, "none");
}

bool spar_cern_success(const struct spar_cern *s)
{
	return s->end == SPAR_CERN_CLAIMED && s->scores.correct_mass && s->scores.correct_channel;
}

uint32_t spar_cern_events(const struct spar_cern *s, int channel)
{
	uint32_t sum = 0;
	for (int i = 0; i < BINS; i++)
		sum += s->counts[channel][i];
	return sum;
}

int spar_cern_latest_fit(const struct spar_cern *s)
{
	int latest = -1;
	for (int c = 0; c < CHANNELS; c++)
		if (s->fits[c].valid && (latest < 0 || s->fits[c].order > s->fits[latest].order))
			latest = c;
	return latest;
}

/* ---- what the analysis computes ---- */

/* Resolution of a channel at the beam in use, relative. */
static double resolution(const struct spar_cern *s, int c)
{
	return spar_cern_channels[c].resolution * spar_cern_beams[s->beam].smear;
}

static struct spar_spectrum spectrum(const struct spar_cern *s, int c)
{
	return (struct spar_spectrum){s->counts[c], spar_cern_channels[c].slope,
				      hypot(resolution(s, c), TEMPLATE_WIDTH)};
}

/* Masses as shown are corrected for the measured scale; positions in the spectrum are not. */
static double mass_at(const struct spar_cern *s, int c, double mu)
{
	return 100 * exp(mu) / (1 + s->scales[c].value);
}

static double position_of(const struct spar_cern *s, int c, double mass)
{
	return log(mass * (1 + s->scales[c].value) / 100);
}

static double global(const struct spar_cern *s, int c, double z)
{
	return spar_spectrum_global(z, spar_cern_difficulties[s->difficulty].window, resolution(s, c));
}

static struct spar_bump scan_window(const struct spar_cern *s, int c)
{
	struct spar_spectrum sp = spectrum(s, c);
	return spar_spectrum_scan(&sp, position_of(s, c, s->truth.window[0]), position_of(s, c, s->truth.window[1]));
}

static double z_at(const struct spar_cern *s, int c, double mass)
{
	struct spar_spectrum sp = spectrum(s, c);
	return spar_spectrum_fit_at(&sp, position_of(s, c, mass)).z;
}

/* ---- the actions; the caller has checked the preconditions ---- */

static void spend(struct spar_cern *s, double cost)
{
	s->budget_left = six_decimals(fmax(s->budget_left - cost, 0));
}

static void take_data(struct spar_cern *s, const struct spar_cern_action *a)
{
	double fb = fmin(a->fb, fmin(s->luminosity_left, s->budget_left / COST_PER_FB));
	if (fb < a->fb)
		snprintf(s->last, sizeof s->last, "ok, reduced to %g fb", fb);
	spar_cern_take_data(&s->truth, &s->dice, s->beam, a->trigger, fb, s->n_takings, s->counts);
	s->takings[s->n_takings].trigger = a->trigger;
	s->takings[s->n_takings++].luminosity = fb;
	s->luminosity_left = six_decimals(s->luminosity_left - fb);
	spend(s, COST_PER_FB * fb);
	for (int c = 0; c < CHANNELS; c++)
		s->fits[c].valid = false;
}

static void scan(struct spar_cern *s)
{
	s->scanned = true;
	s->n_bumps = 0;
	for (int c = 0; c < CHANNELS; c++) {
		if (spar_cern_events(s, c) < SPAR_CERN_EVENTS_MIN)
			continue;
		struct spar_bump bump = scan_window(s, c);
		int at = s->n_bumps++;
		for (; at > 0 && s->bumps[at - 1].z < bump.z; at--)
			s->bumps[at] = s->bumps[at - 1];
		s->bumps[at] = (struct spar_cern_bump){c, mass_at(s, c, bump.mu), bump.z, global(s, c, bump.z)};
	}
}

static void calibrate(struct spar_cern *s, int c)
{
	double err = SCALE_ERR * resolution(s, c);
	double noise = spar_cern_normal(&s->dice, SPAR_CERN_CALIBRATION, 0, (uint32_t)c, 0);
	s->scales[c] = (struct spar_cern_scale){true, false, s->truth.bias[c] + err * noise, err};
	s->fits[c].valid = false;
	s->calibrated_once = true;
}

/* A second measurement, of such an error that both together reach SYSTEMATICS_ERR. */
static void refine(struct spar_cern *s, int c)
{
	double weight1 = 1 / (SCALE_ERR * SCALE_ERR), weight = 1 / (SYSTEMATICS_ERR * SYSTEMATICS_ERR);
	double noise = spar_cern_normal(&s->dice, SPAR_CERN_SYSTEMATICS, 0, (uint32_t)c, 0);
	double second = s->truth.bias[c] + resolution(s, c) / sqrt(weight - weight1) * noise;
	s->scales[c].value = (s->scales[c].value * weight1 + second * (weight - weight1)) / weight;
	s->scales[c].err = SYSTEMATICS_ERR * resolution(s, c);
	s->scales[c].refined = true;
	s->fits[c].valid = false;
}

static void fit(struct spar_cern *s, const struct spar_cern_action *a)
{
	int c = a->channel;
	struct spar_spectrum sp = spectrum(s, c);
	struct spar_bump start;
	if (isnan(a->mass)) {
		start = scan_window(s, c);
	} else {
		double mu = position_of(s, c, a->mass), reach = fmax(3 * sp.width, 0.05);
		start = spar_spectrum_scan(&sp, mu - reach, mu + reach);
	}
	struct spar_peak peak = spar_spectrum_fit(&sp, start.mu);
	double uncalibrated = spar_cern_difficulties[s->difficulty].bias * resolution(s, c);
	double scale_err = s->scales[c].done ? s->scales[c].err : uncalibrated;
	double mass = mass_at(s, c, peak.mu);
	s->fits[c] = (struct spar_cern_fit){.valid = true,
					    .order = s->step,
					    .peak = peak,
					    .mass = mass,
					    .err = mass * hypot(peak.mu_err, scale_err),
					    .stat_err = mass * peak.mu_err,
					    .scale_err = mass * scale_err,
					    .z_global = global(s, c, peak.z)};
	s->fitted_once = true;
}

static void estimate(struct spar_cern *s, const struct spar_cern_action *a)
{
	s->estimate = (struct spar_cern_bump){a->channel, a->mass, z_at(s, a->channel, a->mass), 0};
	snprintf(s->last, sizeof s->last, "%s %.1f z %.1f", spar_cern_channels[a->channel].name, a->mass,
		 s->estimate.z);
}

/* Grade a claim and return the terminal part of the reward. A success has at least 0.45, anything else at most 0.392. */
static double claim(struct spar_cern *s, const struct spar_cern_action *a)
{
	const struct spar_cern_difficulty *diff = &spar_cern_difficulties[s->difficulty];
	struct spar_cern_scores *sc = &s->scores;
	double tolerance = diff->tolerance * spar_cern_channels[s->truth.channel].resolution * s->truth.mass;
	double off = fabs(a->mass - s->truth.mass);
	sc->correct_channel = a->channel == s->truth.channel;
	sc->correct_mass = off <= tolerance;
	bool success = sc->correct_channel && sc->correct_mass;
	sc->channel = sc->correct_channel;
	sc->mass = sc->correct_mass ? 1 : 0.5 * fmax(0, 1 - (off - tolerance) / (2 * tolerance));
	if (!isnan(a->significance)) {
		double above = a->significance - z_at(s, a->channel, a->mass);
		sc->significance = fmax(1 - (above > 0 ? above : -above / 2), -1);
	}
	if (!isnan(a->confidence))
		sc->confidence = (0.25 - (a->confidence - success) * (a->confidence - success)) / 0.75;
	sc->budget = s->budget_left / diff->budget;
	double terminal = 0.35 * sc->mass + 0.30 * sc->channel + 0.15 * sc->significance + 0.05 * sc->confidence;
	if (success)
		return terminal + 0.15 * sc->budget;
	return terminal - 0.25 - (sc->channel == 0 && sc->mass == 0 ? 0.30 : 0);
}

/* ---- a step ---- */

static double cost(const struct spar_cern_action *a)
{
	switch (a->verb) {
	case SPAR_CERN_CONFIGURE:
		return spar_cern_beams[a->beam].cost;
	case SPAR_CERN_ALLOCATE: /* more is reduced to what can be paid */
		return COST_PER_FB;
	case SPAR_CERN_SCAN:
		return COST_SCAN;
	case SPAR_CERN_FIT:
	case SPAR_CERN_ESTIMATE:
		return COST_FIT;
	case SPAR_CERN_CALIBRATE:
		return COST_CALIBRATION;
	case SPAR_CERN_REFINE:
		return COST_SYSTEMATICS;
	default:
		return 0;
	}
}

/* NULL, or why the action cannot be done now. */
static const char *refusal(const struct spar_cern *s, const struct spar_cern_action *a)
{
	const struct spar_cern_scale *scale = a->channel >= 0 ? &s->scales[a->channel] : NULL;
	bool few = a->channel >= 0 && s->n_takings && spar_cern_events(s, a->channel) < SPAR_CERN_EVENTS_MIN;
	switch (a->verb) {
	case SPAR_CERN_CONFIGURE:
		if (s->n_takings)
			return "data was already taken";
		break;
	case SPAR_CERN_ALLOCATE:
		if (s->beam < 0)
			return "configure_beam comes first";
		if (s->luminosity_left < 1)
			return "no luminosity left";
		break;
	case SPAR_CERN_CALIBRATE:
		if (scale->done)
			return "channel is already calibrated";
		break;
	case SPAR_CERN_REFINE:
		if (!scale->done)
			return "calibrate_detector comes first";
		if (scale->refined)
			return "systematics already done";
		break;
	default:
		break;
	}
	if (a->verb != SPAR_CERN_CONFIGURE && a->verb != SPAR_CERN_ALLOCATE && !s->n_takings)
		return "no data yet";
	if (few && (a->verb == SPAR_CERN_FIT || a->verb == SPAR_CERN_ESTIMATE || a->verb == SPAR_CERN_CLAIM))
		return "too few events in that channel";
	if (a->verb == SPAR_CERN_CLAIM && !s->fits[a->channel].valid)
		return "fit_resonance has not been run in that channel";
	return s->budget_left < cost(a) ? "budget is too low" : NULL;
}

/* What was reached, as flags that are set once: no cycle of actions changes it. */
static double potential(const struct spar_cern *s)
{
	return 0.02 * (s->beam >= 0) + 0.04 * (s->n_takings > 0) + 0.04 * s->scanned + 0.04 * s->calibrated_once +
	       0.06 * s->fitted_once;
}

/* Carry out an accepted action; returns the terminal part of a claim, else 0. */
static double perform(struct spar_cern *s, const struct spar_cern_action *a)
{
	snprintf(s->last, sizeof s->last, "ok");
	if (a->verb == SPAR_CERN_ALLOCATE)
		take_data(s, a);
	else
		spend(s, cost(a));
	switch (a->verb) {
	case SPAR_CERN_CONFIGURE:
		s->beam = a->beam;
		break;
	case SPAR_CERN_SCAN:
		scan(s);
		break;
	case SPAR_CERN_CALIBRATE:
		calibrate(s, a->channel);
		break;
	case SPAR_CERN_REFINE:
		refine(s, a->channel);
		break;
	case SPAR_CERN_FIT:
		fit(s, a);
		break;
	case SPAR_CERN_ESTIMATE:
		estimate(s, a);
		break;
	case SPAR_CERN_CLAIM:
		s->end = SPAR_CERN_CLAIMED;
		return claim(s, a);
	default:
		break;
	}
	return 0;
}

void spar_cern_step(struct spar_cern *s, jv object)
{
	static const double penalty[] = {[SPAR_CERN_PARSE] = 0.06,
					 [SPAR_CERN_ACTION] = 0.04,
					 [SPAR_CERN_PARAMETER] = 0.04,
					 [SPAR_CERN_PRECONDITION] = 0.03};
	double before = potential(s), terminal = 0;
	s->invalid = spar_cern_action_read(&s->action, object, &s->last_verb, s->last);
	const char *why = s->invalid ? NULL : refusal(s, &s->action);
	if (why) {
		s->invalid = SPAR_CERN_PRECONDITION;
		snprintf(s->last, sizeof s->last, "%s", why);
	} else if (!s->invalid) {
		terminal = perform(s, &s->action);
	}
	s->step++;
	if (!s->end && s->step == s->max_steps) {
		s->end = SPAR_CERN_OUT_OF_STEPS;
		terminal = -potential(s) - 0.30; /* takes all shaping back */
	}
	s->parts.step = -0.01;
	s->parts.shaping = six_decimals(potential(s) - before);
	s->parts.invalid = s->invalid ? -penalty[s->invalid] : 0;
	s->parts.terminal = six_decimals(terminal);
	s->reward = six_decimals(s->parts.step + s->parts.shaping + s->parts.invalid + s->parts.terminal);
	s->total = six_decimals(s->total + s->reward);
}
