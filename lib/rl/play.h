/* play.h - one episode as it is played: the turns so far and what the environment said. The sampler fills it, the tools
 * write it down. */
#ifndef SPAR_RL_PLAY_H
#define SPAR_RL_PLAY_H

#include "base/err.h"
#include "base/str.h"
#include "record/rollout.h"
#include "rl/task.h"
#include <jv.h>
#include <stddef.h>
#include <stdint.h>

struct spar_play_turn {
	struct spar_turn tokens; /* empty when a built-in policy of the environment acted */
	struct spar_str text;    /* the completion without special tokens; may hold bytes that are not UTF-8 */
	jv reply;                /* the environment's reply; invalid: none (yet) */
};

struct spar_play {
	const struct spar_task *task; /* borrowed */
	int64_t sample;
	struct spar_play_turn *turns;
	size_t n_turns;
	jv first;               /* the environment's reply to reset; invalid: no environment */
	char *error;            /* why the episode failed; NULL: it did not */
	enum spar_exit code;    /* with `error`: what kind of failure */
	struct spar_play *next; /* the sampler's */
};

struct spar_play *spar_play_new(const struct spar_task *task, int64_t sample);
void spar_play_free(struct spar_play *p);

/*! Forget what was played. */
void spar_play_rewind(struct spar_play *p);

/*! A new turn, at the end; valid until the next one. Its arrays hold `most` tokens; kept_mass is there if `cut`. */
struct spar_play_turn *spar_play_turn(struct spar_play *p, size_t most, bool cut);

/*! Text of the last completion, "" if there is none. */
const struct spar_str *spar_play_text(const struct spar_play *p);

/*! Append the whole `rollout` record. `line` is the task's record, `how` the members "policy" and "sampling" each with a comma
 *  behind it (or nothing); step -1: there are no batches. */
void spar_play_record(const struct spar_play *p, int64_t group_size, int64_t step, const struct spar_str *line,
		      const struct spar_str *how, struct spar_str *out);

/*! Append the members "turns", "env" and, of a failed episode, "error" (spar-records(5)), without braces around. */
void spar_play_json(const struct spar_play *p, struct spar_str *out);

#endif
