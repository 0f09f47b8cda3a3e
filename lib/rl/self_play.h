/* self_play.h - the configuration of a self-play run: one JSON object with the keys of the field's adversarial self-play
 * trainer, and a few of spar's own. Strict: an unknown key, a wrong type, a value out of range or a pair of values that cannot
 * both be meant is an error that names the key.
 *
 *	jv config;
 *	spar_self_play_read(&config, "tiny.json", &sets, &err);   // defaults filled in, checked
 *	spar_self_play_warn(config, warn, ctx);                   // keys that have no effect here
 *	spar_self_play_variables(config, &text);                  // NAME='value', one line a key, for a shell
 *	jv_free(config);
 */
#ifndef SPAR_RL_SELF_PLAY_H
#define SPAR_RL_SELF_PLAY_H

#include "base/err.h"
#include "base/opt.h"
#include "base/str.h"
#include <jv.h>

/*! Read `path` and put `sets` ("KEY=JSON" or "KEY=text", KEY a path as generator_phase.max_steps) over it. *out is a NEW
 *  reference to the whole configuration: every key, given or default. SPAR_INPUT: "path: KEY: what"; SPAR_USAGE for what
 *  is wrong in `sets`. */
int spar_self_play_read(jv *out, const char *path, const struct spar_opt_list *sets, struct spar_err *err);

/*! Call `warn` for each key that was set to something else than its default although nothing here depends on it. */
void spar_self_play_warn(jv config, void (*warn)(void *ctx, const char *text), void *ctx);

/*! Append a shell variable for each key that a pipeline reads: GENERATOR_PHASE_MAX_STEPS='64'. Booleans are 1 or empty,
 *  lists joined by '+'; no value holds a quote. */
void spar_self_play_variables(jv config, struct spar_str *out);

#endif
