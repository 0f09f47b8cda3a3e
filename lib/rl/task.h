/* task.h - what a record asks of a model: a name for it, and a prompt or an environment's episode.
 *
 * Any record can be a task. Its id is `.id` (a string, or a number as it is written); without one a rollout is called
 * "GROUP/SAMPLE" and any other record by a hash of its line, so that the id, and with it the random draws that it keys,
 * never depends on what else is in the stream. */
#ifndef SPAR_RL_TASK_H
#define SPAR_RL_TASK_H

#include "base/err.h"
#include "record/jq.h"
#include "record/record.h"
#include <jv.h>
#include <stdint.h>

/* Where a prompt is taken from unless the user says otherwise. */
#define SPAR_TASK_PROMPT ".messages // .prompt"

struct spar_task {
	char *id;
	jv prompt; /* array: chat messages; string: raw text; invalid: an environment makes the prompts */
	jv reset;  /* object: the environment's reset request without its session; invalid: no environment */
	char *env; /* the environment's name, NULL: not said */
};

/*! Read the task in `rec`. A record with `env`, or with `seed` and neither `messages` nor `prompt`, is an episode: its
 *  seed, difficulty, max_steps and options go to the environment. Any other gives its prompt by the jq program `prompt`.
 *  1: read; 0: the program gave null or nothing, so the record asks for nothing; SPAR_INPUT otherwise. */
int spar_task_read(struct spar_task *t, const struct spar_record *rec, struct spar_jq *prompt, struct spar_err *err);
/*! An episode of whatever environment there is, called by its seed. */
void spar_task_episode(struct spar_task *t, uint64_t seed, const char *difficulty, int64_t max_steps);
void spar_task_release(struct spar_task *t);

/* The ids met so far, as 64-bit hashes: two ids that collide (one chance in 10^7 for a million of them) pass for equal. */
struct spar_task_ids {
	uint64_t *slots; /* (cap) 0: empty */
	size_t n, cap;
};
/*! False if the id was there already. */
bool spar_task_ids_add(struct spar_task_ids *ids, const char *id);
void spar_task_ids_clear(struct spar_task_ids *ids);

#endif
