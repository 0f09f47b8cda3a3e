/* episode.h - one episode of env-osint: a question and the tools to answer it (role answerer), or a graph to make a task
 * from (role generator). Equal (game, seed, difficulty, options, actions) give equal bytes.
 *
 *	struct spar_osint_episode e = {0};
 *	spar_osint_episode_reset(&e, &game, &how, &err);
 *	while (!e.end) spar_osint_episode_step(&e, spar_action_find(text, n));
 *	spar_osint_episode_release(&e);
 * An episode holds its own graph and views, and pointers into itself: it must not be moved. */
#ifndef SPAR_ENV_OSINT_EPISODE_H
#define SPAR_ENV_OSINT_EPISODE_H

#include "env/osint/metaqa.h"
#include "env/osint/osint.h"
#include "env/osint/tools.h"
#include "env/proto.h"

#define SPAR_OSINT_SEED 7 /* when none is given */
enum { SPAR_OSINT_STEPS = 8, SPAR_OSINT_STEPS_MAX = 64, SPAR_OSINT_PARTS = 16 };

/* What all episodes of a process share, unless a reset's options say otherwise. */
struct spar_osint_game {
	enum spar_osint_profile profile;
	enum spar_osint_role role;
	struct spar_osint_source source;        /* its seed counts only with one_graph */
	bool one_graph;                         /* all tasks come from one graph; else each task has its own */
	bool hidden;                            /* the context is not shown: the tools must find it */
	int max_edges;                          /* of a context */
	struct spar_osint_noise noise;          /* of the views */
	const struct spar_osint_metaqa *metaqa; /* borrowed: its questions in place of ours; NULL: none */
};
#define SPAR_OSINT_GAME \
	((struct spar_osint_game){ \
	    .source = SPAR_OSINT_SOURCE(0, SPAR_OSINT_TRAIN), .max_edges = SPAR_OSINT_CONTEXT, .noise = {0.15, 0.1}})

enum spar_osint_end { SPAR_OSINT_RUNNING, SPAR_OSINT_ANSWERED, SPAR_OSINT_PROPOSED, SPAR_OSINT_OUT_OF_STEPS };

/* Why an action was refused, from the cheapest mistake to find to the dearest. */
enum spar_osint_invalid {
	SPAR_OSINT_OK,
	SPAR_OSINT_PARSE,        /* no JSON object */
	SPAR_OSINT_ACTION,       /* no such action or tool */
	SPAR_OSINT_PARAMETER,    /* a field is missing or of the wrong kind */
	SPAR_OSINT_PRECONDITION, /* the edge is there already */
};

enum spar_osint_verb { SPAR_OSINT_CALL, SPAR_OSINT_ADD, SPAR_OSINT_ANSWER, SPAR_OSINT_PROPOSE, SPAR_OSINT_VERBS };

/* A step that was taken, as the observation repeats it. */
struct spar_osint_deed {
	int verb;                /* enum spar_osint_verb, -1: none was recognised */
	struct spar_str payload; /* JSON, "null" for what could not be read */
	double reward;
};

struct spar_osint_part {
	const char *name;
	double value;
};

struct spar_osint_episode {
	struct spar_osint_game how; /* with the options of the reset */
	uint64_t seed;
	int max_steps, step; /* step: used so far */
	struct spar_osint_graph own;
	const struct spar_osint_graph *graph; /* the episode's own, or MetaQA's */
	struct spar_osint_task task;          /* of a generator: what the oracle would propose */
	struct spar_osint_views views;
	bool views_made;
	/* what was done */
	struct spar_osint_graph working; /* edges that were added; its names may be unknown to the graph */
	struct spar_osint_call calls[SPAR_OSINT_STEPS_MAX];
	size_t n_calls, n_redundant;
	struct spar_osint_deed deeds[SPAR_OSINT_STEPS_MAX]; /* (step) */
	/* the last step */
	enum spar_osint_invalid invalid;
	char last[64]; /* "ok", or why it was refused: fixed words, never the model's */
	double reward, total;
	struct spar_osint_part parts[SPAR_OSINT_PARTS];
	int n_parts;
	/* the end */
	enum spar_osint_end end;
	bool success;
	double f1;                         /* answerer: of all edges stated or added */
	struct spar_osint_verdict verdict; /* generator */
};

/*! Begin an episode in place of the present one; a zeroed struct has none. < 0: an option is wrong (SPAR_INPUT, the field
 *  is named), and the episode is as it was; or there is no such task (SPAR_FAIL). */
int spar_osint_episode_reset(struct spar_osint_episode *e, const struct spar_osint_game *game,
			     const struct spar_proto_reset *how, struct spar_err *err);

/*! One step; `object` is the action (consumed), invalid when the text held none. Requires !e->end. */
void spar_osint_episode_step(struct spar_osint_episode *e, jv object);
void spar_osint_episode_release(struct spar_osint_episode *e);

/* ---- built-in policies: functions of the present state; each appends an action as JSON ---- */

/*! Knows the task: with the context hidden it first looks for what it needs. */
void spar_osint_oracle(const struct spar_osint_episode *e, struct spar_str *out);
/*! Knows only what a model is shown: follows the question through the edges it can see, and searches for more. As a
 *  generator it proposes a path without side branches. */
void spar_osint_solver(const struct spar_osint_episode *e, struct spar_str *out);

/* ---- how it is shown ---- */

/*! Append a JSON Schema of an action. */
void spar_osint_action_schema(struct spar_str *out);

/*! Append the chat that asks for the next action. */
void spar_osint_episode_prompt(const struct spar_osint_episode *e, struct spar_str *out);

/*! Append the members of a protocol reply: observation, messages, reward, done, info. Hidden truth is shown only with
 *  `oracle`, and only after the end. */
void spar_osint_episode_view(const struct spar_osint_episode *e, bool oracle, struct spar_str *out);

extern const char *const spar_osint_verbs[]; /* "CALL_TOOL", ... */

/* An environment of the line protocol; its `world` is a struct spar_osint_game. */
extern const struct spar_proto_env spar_osint_protocol;

#endif
