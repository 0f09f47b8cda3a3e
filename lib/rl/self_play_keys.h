/* self_play_keys.h - the keys of a self-play configuration: what there is, what a value may be, which values go together.
 * Shared by the files behind self_play.h only. */
#ifndef SPAR_RL_SELF_PLAY_KEYS_H
#define SPAR_RL_SELF_PLAY_KEYS_H

#include "base/err.h"
#include <jv.h>
#include <stdbool.h>
#include <stddef.h>

enum spar_play_kind {
	SPAR_PLAY_INT,
	SPAR_PLAY_NUM,
	SPAR_PLAY_BOOL,
	SPAR_PLAY_STR,  /* free text */
	SPAR_PLAY_NAME, /* a word that goes into file names and command lines */
	SPAR_PLAY_LIST, /* of such words */
};

/* One key. */
struct spar_play_key {
	const char *path;
	enum spar_play_kind kind;
	double min, max;      /* of numbers */
	const char *fallback; /* the default, as JSON */
	const char *choices;  /* of a NAME: " a b "; NULL: any */
	const char *idle;     /* why it has no effect here; NULL: it has one */
};

extern const struct spar_play_key spar_play_keys[];
extern const size_t spar_play_n_keys;

/*! "a.b" as libjq's path: a NEW reference. */
jv spar_play_path(const char *path);

/*! The value at `path`, whose key is there: a NEW reference, a number, whether it is that word. `config` is borrowed. */
jv spar_play_get(jv config, const char *path);
double spar_play_number(jv config, const char *path);
bool spar_play_is_word(jv config, const char *path, const char *word);

/*! Whether `v` (borrowed) may be the value of the key. SPAR_INPUT names it. */
int spar_play_check_value(const struct spar_play_key *key, jv v, struct spar_err *err);

/*! Whether the whole configuration (borrowed) can be meant. SPAR_INPUT names a key. */
int spar_play_check(jv config, struct spar_err *err);

#endif
