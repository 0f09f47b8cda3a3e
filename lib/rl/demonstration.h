/* demonstration.h - a played episode as sft records: the prompt of each step, and what was answered; and which episodes of
 * many are kept. */
#ifndef SPAR_RL_DEMONSTRATION_H
#define SPAR_RL_DEMONSTRATION_H

#include "base/err.h"
#include "base/str.h"
#include "rl/play.h"
#include "text/chat.h"
#include <stdbool.h>
#include <stddef.h>

struct spar_demonstration {
	struct spar_str lines; /* one record a step */
	size_t n_steps;
	double total; /* sum of rewards */
	bool success; /* the environment ended the episode and says so */
};

/*! Of an episode in an environment that did not fail. Records are called "NAME-DIFFICULTY/STEP", with the difficulty that the
 *  environment resolved (`difficulty` if it says none); `chat` also renders the prompts (NULL: not). */
int spar_demonstration_make(struct spar_demonstration *d, const struct spar_play *p, const char *name,
			    const char *difficulty, const char *seed, const struct spar_chat *chat,
			    struct spar_err *err);
void spar_demonstration_release(struct spar_demonstration *d);

/* Of many episodes those that succeeded are kept; all of them if `all` is asked for, or if none did. Starts from {.all = ...,
 * .held = SPAR_STR_INIT}; memory: the records until the first success. */
struct spar_collection {
	bool all;
	size_t n_episodes, n_success, n_steps, n_success_steps;
	double total;
	bool fallback; /* none succeeded: all were kept */
	struct spar_str held;
};
/*! Count an episode and append the lines that are to be written by now. */
void spar_collection_add(struct spar_collection *c, const struct spar_demonstration *d, struct spar_str *out);
/*! The last lines. */
void spar_collection_end(struct spar_collection *c, struct spar_str *out);
/*! Append the figures as a JSON text; rates and rewards rounded to four decimals. */
void spar_collection_json(const struct spar_collection *c, struct spar_str *out);

#endif
