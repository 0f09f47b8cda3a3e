/* cern.h - one episode of the collider search: state, rules, rewards, how it is shown, and the built-in policies.
 * No I/O and no pointers: a session is plain data, and equal (seed, difficulty, max_steps, actions) give equal bytes.
 *
 *	struct spar_cern s;
 *	spar_cern_reset(&s, 4242, SPAR_CERN_EASY, 8);
 *	while (!s.end) spar_cern_step(&s, spar_action_find(text, n));
 */
#ifndef SPAR_ENV_CERN_CERN_H
#define SPAR_ENV_CERN_CERN_H

#include "base/str.h"
#include "env/cern/action.h"
#include "env/cern/world.h"
#include <jv.h>
#include <stdbool.h>
#include <stdint.h>

enum { SPAR_CERN_STEPS_MAX = 64, SPAR_CERN_STEPS = 8, SPAR_CERN_EVENTS_MIN = 20 };
#define SPAR_CERN_SEED 4242

enum { SPAR_CERN_EASY, SPAR_CERN_MEDIUM, SPAR_CERN_HARD, SPAR_CERN_MIXED };
enum spar_cern_end { SPAR_CERN_RUNNING, SPAR_CERN_CLAIMED, SPAR_CERN_OUT_OF_STEPS };

struct spar_cern_scale {
	bool done, refined; /* calibrated; with systematics */
	double value, err;  /* measured scale bias and its error, relative */
};

struct spar_cern_fit {
	bool valid;
	int order; /* a later fit has a larger one */
	struct spar_peak peak;
	double mass, err, stat_err, scale_err; /* GeV */
	double z_global;
};

struct spar_cern_bump {
	int channel;
	double mass, z, z_global;
};

struct spar_cern_scores {
	double mass, channel, significance, confidence, budget; /* M, C, G, K, B of the reward */
	bool correct_mass, correct_channel;
};

struct spar_cern {
	struct spar_cern_dice dice;
	struct spar_cern_truth truth;
	uint64_t seed;
	int difficulty, max_steps, step; /* step: used so far */
	enum spar_cern_end end;
	/* what was done */
	int beam; /* -1: not set */
	int n_takings;
	struct {
		int trigger;
		double luminosity;
	} takings[SPAR_CERN_STEPS_MAX];
	double luminosity_left, budget_left;
	uint32_t counts[SPAR_CERN_CHANNELS][SPAR_SPECTRUM_BINS];
	/* what was found */
	bool scanned;
	int n_bumps; /* strongest first */
	struct spar_cern_bump bumps[SPAR_CERN_CHANNELS];
	struct spar_cern_scale scales[SPAR_CERN_CHANNELS];
	struct spar_cern_fit fits[SPAR_CERN_CHANNELS];
	struct spar_cern_bump estimate; /* channel -1: none */
	bool calibrated_once, fitted_once;
	/* the last step */
	int last_verb; /* -1: none, or not known */
	char last[64]; /* "ok", a result, or why it was rejected */
	enum spar_cern_invalid invalid;
	struct spar_cern_action action; /* when valid, or rejected by a precondition */
	double reward, total;
	struct {
		double step, shaping, invalid, terminal;
	} parts;
	struct spar_cern_scores scores; /* once claimed */
};

/*! MIXED is resolved by seed mod 3. 1 <= max_steps <= SPAR_CERN_STEPS_MAX. */
void spar_cern_reset(struct spar_cern *s, uint64_t seed, int difficulty, int max_steps);

/*! One step; `object` is the action (consumed), invalid when the text held none. Requires !s->end. */
void spar_cern_step(struct spar_cern *s, jv object);

bool spar_cern_success(const struct spar_cern *s);

/*! Events in a channel. */
uint32_t spar_cern_events(const struct spar_cern *s, int channel);

/*! The fit made last among those still valid: its channel, or -1. */
int spar_cern_latest_fit(const struct spar_cern *s);

/* ---- built-in policies: functions of the present state ---- */

/*! Takes nothing from the truth but the channel; all numbers are copied from what is shown. */
struct spar_cern_action spar_cern_oracle(const struct spar_cern *s);
/*! The same without the truth: a survey, then the strongest channel of the scan. */
struct spar_cern_action spar_cern_heuristic(const struct spar_cern *s);
/*! Uniform over actions and parameters, whether they make sense or not. */
struct spar_cern_action spar_cern_random(const struct spar_cern *s);

/* ---- how it is shown ---- */

extern const char spar_cern_system[];

/*! Append the user message: eight lines. */
void spar_cern_prompt(const struct spar_cern *s, struct spar_str *out);

/*! Append the members of a protocol reply: observation, messages, reward, done, info. Hidden truth is shown only with
 *  `oracle`, and only after the end. */
void spar_cern_view(const struct spar_cern *s, bool oracle, struct spar_str *out);

#endif
