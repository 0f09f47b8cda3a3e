/* proto.h - the environment's end of the line protocol (spar-env(7)), shared by all environments: sessions, requests,
 * replies, errors. An environment is a table of functions over its own session struct. */
#ifndef SPAR_ENV_PROTO_H
#define SPAR_ENV_PROTO_H

#include "base/err.h"
#include "base/opt.h"
#include "base/str.h"
#include <jv.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spar_proto_policy {
	const char *name; /* NULL ends the list */
	bool needs_truth; /* answered only with --oracle */
	/* Append the action as compact JSON: what a model should have written. */
	void (*act)(const void *session, struct spar_str *out);
};

/* What an episode begins from. */
struct spar_proto_reset {
	uint64_t seed;
	int difficulty;
	int64_t max_steps;
	jv options; /* an object, borrowed: what only one environment knows; empty if the request has none */
};

struct spar_proto_env {
	const char *name, *version;
	const char *system;                       /* the fixed system message, or NULL */
	const char *const *difficulties;          /* names, NULL-terminated; their index is what reset gets */
	const struct spar_proto_policy *policies; /* or NULL */
	uint64_t default_seed;
	int64_t max_steps_limit;
	size_t session_size; /* of the struct that the functions get: zeros before its first reset */
	const void *world;   /* what all sessions share, handed to reset; or NULL */
	bool takes_options;  /* else a reset with any is refused */

	void (*schema)(struct spar_str *out); /* append a JSON Schema of an action */
	/* Begin an episode in place of the present one. < 0: refused, and the session is as it was. */
	int (*reset)(void *session, const void *world, const struct spar_proto_reset *how, struct spar_err *err);
	void (*release)(void *session);         /* free what a session holds besides its own bytes; NULL: nothing */
	void (*step)(void *session, jv action); /* consumed; invalid when the text held no object */
	bool (*done)(const void *session);
	/* Append the members "observation":...,"messages":...,"reward":...,"done":...,"info":...; truth only with `oracle`. */
	void (*view)(const void *session, bool oracle, struct spar_str *out);
};

struct spar_proto_options {
	bool oracle;
	int difficulty;    /* what a reset that names none gets */
	int64_t max_steps; /* the same */
	int64_t max_sessions;
};

/*! Answer requests from `in` on `out` until the end of input; each reply is written whole and at once. Returns 0, or
 *  < 0 when reading or writing failed (SPAR_FAIL). A bad request is answered and never ends the loop. */
int spar_proto_serve(const struct spar_proto_env *env, const struct spar_proto_options *opt, int in, int out,
		     struct spar_err *err);

/* The options of every environment; `opt` is a struct spar_proto_options, `names` the difficulties. */
#define SPAR_PROTO_OPTIONS(opt, names, steps_limit, steps_default) \
	SPAR_OPT_FLAG("oracle", 0, &(opt).oracle, "also answer policies that know the hidden truth"), \
	    SPAR_OPT_CHOICE("difficulty", 0, &(opt).difficulty, names, "NAME", \
			    "easy, medium, hard or mixed, for a reset that names none (mixed)"), \
	    SPAR_OPT_INT("max-steps", 0, &(opt).max_steps, 1, steps_limit, "N", \
			 "steps of an episode, likewise (" steps_default ")"), \
	    SPAR_OPT_INT("max-sessions", 0, &(opt).max_sessions, 1, 1 << 20, "N", "episodes open at once (4096)")

#endif
