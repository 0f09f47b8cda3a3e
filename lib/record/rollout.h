/* rollout.h - the `rollout` record as a C struct: what sampler, scorers and trainer exchange.
 *
 * On the line (spar-records(5) has every key):
 *  {"type":"rollout","group":"cern-4242","sample":0,"group_size":8,"step":3,
 *   "task":{...the task record as it came...},
 *   "policy":{"path":"runs/x/policy","version":3,"hash":"8f0c..."},
 *   "sampling":{"temperature":1,"top_p":1,"top_k":0,"min_p":0,"seed":"7","max_completion_length":96,"dtype":"float32"},
 *   "turns":[{"prompt_ids":[..],"completion_ids":[..],"logprobs":[..],"kept_mass":[..],"completion":"..",
 *             "finish_reason":"stop","env":{"reward":0.01,"done":false,"info":{..}}}],
 *   "env":{"return":0.97,"success":true,"end":"claim","info":{..}},
 *   "rewards":{"env":0.97},"reward":0.97,"advantage":0.5}
 * "step" and "policy.version" are there when sampling followed a live policy; "env" is null without an environment;
 * "kept_mass" only when top-k, top-p or min-p cut the distribution; a failed episode has "error":"..." and no usable turns.
 * A punctuation line is {"type":"batch","step":3,"groups":8,"rollouts":64}.
 */
#ifndef SPAR_RECORD_ROLLOUT_H
#define SPAR_RECORD_ROLLOUT_H

#include "base/err.h"
#include <jv.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum spar_finish { SPAR_FINISH_STOP, SPAR_FINISH_LENGTH, SPAR_FINISH_ENV, SPAR_FINISH_ERROR };
const char *spar_finish_name(enum spar_finish f);

struct spar_turn {
	int32_t *prompt_ids; /* (n_prompt) the whole prompt of this turn, from position 0 */
	size_t n_prompt;
	int32_t *completion_ids; /* (n_completion) the end token included when one was sampled */
	float *logprobs;         /* (n_completion) nats, log-softmax(logits / temperature) of the sampled token */
	float *kept_mass;        /* (n_completion) in (0,1], or NULL: the whole distribution was kept */
	size_t n_completion;
	enum spar_finish finish;
};

struct spar_reward { /* one of "rewards" */
	char *name;
	double value; /* NaN: null, it abstained */
};

struct spar_rollout {
	char *group; /* task id */
	int64_t sample, group_size;
	int64_t version;    /* policy version, -1 if not known */
	double temperature; /* of sampling; 0 is greedy and not usable for a ratio */
	struct spar_turn *turns;
	size_t n_turns;
	bool failed;                    /* the record carries "error" */
	bool has_reward, has_advantage; /* false also for null */
	double reward, advantage;
	struct spar_reward *rewards; /* (n_rewards) in order of name */
	size_t n_rewards;
};

/*! Read a `rollout` record's object (borrowed). Lengths of completion_ids and logprobs (and kept_mass) must agree, ids be
 *  in range, logprobs <= 0 and finite (null is refused by name). The message names the field. */
int spar_rollout_read(struct spar_rollout *r, jv object, struct spar_err *err);
void spar_rollout_release(struct spar_rollout *r);

/*! For who has taken the rewards over. */
void spar_rewards_free(struct spar_reward *r, size_t n);

/*! Free the arrays of one turn (for who builds turns itself). */
void spar_turn_release(struct spar_turn *t);

#endif
