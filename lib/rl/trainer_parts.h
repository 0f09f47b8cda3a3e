/* trainer_parts.h - what the files of the trainer share; nobody else includes it. trainer.c: records in, steps in their
 * order; trainer_open.c: options, models and the state to go on from; trainer_step.c: one optimizer step and its metric
 * record; trainer_save.c: what is written. */
#ifndef SPAR_RL_TRAINER_PARTS_H
#define SPAR_RL_TRAINER_PARTS_H

#include "base/str.h"
#include "model/model.h"
#include "rl/policy.h"
#include "rl/train_state.h"
#include "rl/trainer.h"

struct spar_trainer {
	struct spar_trainer_opt opt;
	struct spar_listener on;
	spar_metric_fn metric;
	void *metric_ctx;
	struct spar_model model, reference_model; /* reference_model: only with opt.reference */
	struct spar_tokenizer *tokenizer;
	struct spar_chat *chat;
	struct spar_lora_config lora;
	struct spar_graph *graph, *reference; /* graph NULL: dry run; reference NULL: beta is 0, or LoRA */
	struct spar_policy *policy;
	struct spar_episode_rules rules;
	struct spar_train_state at;
	/* records: of the batch that is being gathered; with SFT all of them */
	struct spar_episode **episodes;
	size_t n, cap;
	struct spar_str step_times; /* what earlier stages took for the batch: members of its first metric */
	uint64_t to_skip;           /* batches of the input that a resumed run has behind it */
	uint64_t total;             /* steps, 0: not known */
	uint64_t per_epoch;         /* SFT: steps */
	uint64_t n_taken, n_other, n_cut, n_other_prompt;
	bool has_batches; /* the input has batch records */
};

static inline bool is_sft(const struct spar_trainer *t)
{
	return spar_loss_is_sft(t->opt.objective.loss);
}

/* ---- trainer_step.c ---- */

/*! num_iterations optimizer steps on these episodes (borrowed), each with its metric record. */
int spar_trainer_step(struct spar_trainer *t, struct spar_episode *const *e, size_t n, struct spar_err *err);

/* ---- trainer_save.c: what it writes appears under its name only when whole ---- */

/*! The policy's version after the batches so far, with the trainer's state when that is due. */
int spar_trainer_publish(const struct spar_trainer *t, struct spar_err *err);

/*! After `n` batches, or steps of SFT: the next version of the policy, or a checkpoint if one is due. */
int spar_trainer_save(const struct spar_trainer *t, uint64_t n, struct spar_err *err);

/*! At the end: the last checkpoint, the policy's closing, the model in `out`. */
int spar_trainer_save_end(const struct spar_trainer *t, struct spar_err *err);

#endif
