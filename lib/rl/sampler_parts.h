/* sampler_parts.h - what the files of the sampler share; nobody else includes it. sampler.c: plays and tokens;
 * sampler_env.c: the conversation with the environment. */
#ifndef SPAR_RL_SAMPLER_PARTS_H
#define SPAR_RL_SAMPLER_PARTS_H

#include "base/philox.h"
#include "env/client.h"
#include "model/engine.h"
#include "model/model.h"
#include "rl/prompt.h"
#include "rl/sampler.h"

enum spar_slot_state {
	SPAR_SLOT_FREE,
	SPAR_SLOT_SAMPLE,
	SPAR_SLOT_RESET,
	SPAR_SLOT_ASK,
	SPAR_SLOT_STEP
}; /* the last three wait for a reply */

/* A place for an episode under way. Its number names its session in the environment. */
struct spar_slot {
	enum spar_slot_state state;
	struct spar_play *play;
	struct spar_rng rng;
	struct spar_seq *seq; /* while sampling */
	size_t most;          /* tokens this completion may have */
};

struct spar_drawn { /* a sequence that gets a token in this step */
	struct spar_slot *slot;
	const float *logits;
	struct spar_sampled got;
	int failed;
};

struct spar_sampler {
	struct spar_sampler_opt opt;
	bool has_model, cut;
	struct spar_model model;
	struct spar_prompter prompter;
	struct spar_engine *engine;
	struct spar_env *env;
	int losses;
	int64_t max_sessions;    /* slots beyond are not for the environment */
	struct spar_slot *slots; /* (n_slots) */
	size_t n_slots, n_live, n_held, n_queued;
	struct spar_slot **waiting; /* (n_waiting) in the order of their requests */
	size_t n_waiting;
	struct spar_play *first, *last, *next; /* all plays that are held; the first that has no slot yet */
	struct spar_drawn *rows;               /* (n_slots) */
	struct spar_seq **seqs;                /* (n_slots) */
	float *logits;                         /* (n_slots, vocab_size) */
	float *scratch;                        /* (threads, 2 * vocab_size) */
	int threads;
	uint64_t n_tokens;
};

/* ---- sampler.c ---- */

/*! The episode is over: its slot is free. */
void spar_slot_leave(struct spar_sampler *s, struct spar_slot *slot);

/*! The episode cannot go on; `err` says why and is used up. */
void spar_slot_fail(struct spar_sampler *s, struct spar_slot *slot, struct spar_err *err);

/*! Have the model answer `prompt` (borrowed); the episode fails if that cannot be. */
void spar_slot_begin_turn(struct spar_sampler *s, struct spar_slot *slot, jv prompt);

/* ---- sampler_env.c ---- */

/*! Start the environment, if it is not there; `task` is for messages. */
int spar_sampler_open_env(struct spar_sampler *s, const struct spar_task *task, struct spar_err *err);

/*! SPAR_INPUT if the task is for another one. */
int spar_sampler_check_env(const struct spar_sampler *s, const struct spar_task *task, struct spar_err *err);
int spar_slot_send_reset(struct spar_sampler *s, struct spar_slot *slot, struct spar_err *err);

/*! The last turn's text. */
int spar_slot_send_step(struct spar_sampler *s, struct spar_slot *slot, struct spar_err *err);

/*! Take the replies that are there, and what follows from them. A request that the environment refuses ends its episode only.
 *  `wait`: for the first, if none is there. */
int spar_sampler_hear(struct spar_sampler *s, bool wait, struct spar_err *err);

/*! The first messages an environment shows; *prompt is a NEW reference. */
int spar_sampler_first_messages(struct spar_sampler *s, const struct spar_task *task, jv *prompt, struct spar_err *err);

#endif
