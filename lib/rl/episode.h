/* episode.h - what one record gives the trainer: token paths, which of their tokens are trained, and the numbers that go
 * with them. An sft record is one path; a rollout is one path for each turn, and all of them are one sequence in the sense
 * of the objectives. Ids are taken as they are recorded: nothing is decoded and encoded again (B18). */
#ifndef SPAR_RL_EPISODE_H
#define SPAR_RL_EPISODE_H

#include "base/err.h"
#include "record/rollout.h"
#include "text/chat.h"
#include "text/tokenizer.h"
#include <jv.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spar_token_path {
	int32_t *ids;  /* (n) from position 0 */
	uint8_t *mask; /* (n) 1 on tokens that are trained; never on the first */
	size_t n;
};

struct spar_episode {
	char *name; /* "group cern-7 sample 3", for messages; NULL if the record has no id */
	struct spar_token_path *paths;
	size_t n_paths;
	size_t n_tokens; /* of all paths */
	size_t n_loss;   /* trained ones */
	/* rollouts only */
	char *group;
	double *sampled; /* (n_loss) nats, as the sampler recorded them */
	double *kept;    /* (n_loss) in (0,1], or NULL: the sampler drew from whole distributions */
	double reward, advantage, temperature;
	int64_t version;             /* of the policy, -1: not known */
	bool truncated;              /* a turn was cut off by its length limit */
	struct spar_reward *rewards; /* (n_rewards) */
	size_t n_rewards;
	/* sft records only */
	bool other_prompt; /* its `prompt` is not what `messages` are rendered to, which is what counts */
	bool cut;          /* to the length limit */
};

/* What becomes of an sft record that is too long. Its prompt's end is always kept, and it never loses all of its loss. */
enum spar_truncation {
	SPAR_TRUNCATION_REFUSE,
	SPAR_TRUNCATION_KEEP_START, /* the completion loses its end */
	SPAR_TRUNCATION_KEEP_END    /* the prompt loses its beginning */
};
extern const char *const spar_truncation_names[];

struct spar_episode_rules {
	size_t max_length; /* tokens of a path; a longer one is refused (B14), or cut if `truncation` says so */
	size_t vocab_size; /* ids at or above are refused (B05) */
	/* sft records only */
	const struct spar_tokenizer *tokenizer;
	const struct spar_chat *chat;
	int32_t end_id;  /* stands behind every completion and is trained */
	bool whole_text; /* train the prompt too */
	enum spar_truncation truncation;
};

/*! An sft record (borrowed): the prompt is what spar_chat_encode makes of `messages`, else the text `prompt` with its
 *  markers; then `completion` as plain text, and the end token unless `finish_reason` is "length" (B33).
 *  Returns 1, or SPAR_INPUT: the message names the field. */
int spar_episode_from_sft(struct spar_episode **out, const struct spar_episode_rules *rules, jv record,
			  struct spar_err *err);

/*! A rollout record with an advantage. Returns 1; 0 if there is nothing to train on (no reward, a failed episode, no
 *  completion): *out is NULL and err's message says why; or SPAR_INPUT. */
int spar_episode_from_rollout(struct spar_episode **out, const struct spar_episode_rules *rules, jv record,
			      struct spar_err *err);

void spar_episode_free(struct spar_episode *e);

#endif
