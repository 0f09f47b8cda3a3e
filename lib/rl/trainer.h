/* trainer.h - records in, optimizer steps, a trained model out.
 *
 *	spar_trainer_new(&t, &opt, &on, put, ctx, &err);       // opens the model, claims the policy or loads a checkpoint
 *	while (!spar_trainer_done(t) && next record)
 *		spar_trainer_take(t, record, &err);             // rollouts: a step whenever a batch is complete
 *	spar_trainer_finish(t, &err);                           // sft: all the training; then the model is written
 *	spar_trainer_free(t);
 *
 * SFT keeps the data set in memory, as token ids: memory grows with its tokens, five bytes each. Rollouts are kept for the
 * batch that is being gathered only. Every step gives one metric record; a resumed run gives those of the earlier steps
 * again first, so its output is that of an unbroken run but for step_time. */
#ifndef SPAR_RL_TRAINER_H
#define SPAR_RL_TRAINER_H

#include "base/err.h"
#include "base/listener.h"
#include "model/graph.h"
#include "record/record.h"
#include "rl/episode.h"
#include "rl/objective.h"
#include <stdbool.h>
#include <stdint.h>

enum spar_schedule { SPAR_SCHEDULE_LINEAR, SPAR_SCHEDULE_COSINE, SPAR_SCHEDULE_CONSTANT, SPAR_SCHEDULE_AUTO };
extern const char *const spar_schedule_names[]; /* "auto": linear when the number of steps is known, else constant */

struct spar_trainer_opt {
	/* where: NULL is none */
	const char *model, *out, *policy, *checkpoint;
	const char *reference; /* what the KL is taken to; NULL: `model` */
	bool resume, dry_run;
	/* what is trained */
	const char *lora; /* spar_lora_parse's text; NULL: every weight */
	bool merge;       /* of `out`: adapter added in */
	/* objective: the step's divisors are set by the trainer */
	struct spar_objective objective;
	int64_t num_iterations;
	bool mask_truncated, completion_only;
	/* batches; 0: the default that trainer_open.c names, or no limit */
	int64_t batch_size, accumulation, micro_tokens, max_length, max_steps;
	double num_epochs;
	int truncation; /* enum spar_truncation, of sft records */
	bool shuffle;
	/* optimizer */
	double learning_rate; /* < 0: 2e-5 for SFT, 1e-6 for rollouts */
	double beta1, beta2, adam_eps, weight_decay, max_grad_norm;
	int schedule; /* enum spar_schedule */
	int64_t warmup_steps;
	double warmup_ratio;
	int64_t save_steps; /* 0: see trainer_save.c */
	/* machine */
	const char *device;
	int dtype; /* enum spar_dtype: of matrix products, and of the weights that are written */
	int64_t threads;
	bool checkpointing; /* of activations */
	uint64_t seed;
};

/*! Defaults; the strings are NULL but for the device. */
void spar_trainer_opt_init(struct spar_trainer_opt *opt);

/* A metric record to be written, without a newline; < 0 ends the training with what it has filled `err` with. */
typedef int (*spar_metric_fn)(void *ctx, const char *line, size_t n, struct spar_err *err);

struct spar_trainer; /* opaque */

/*! `opt` is copied, its strings are borrowed until spar_trainer_free. Metric records go to `metric` with `ctx`. SPAR_USAGE if
 *  options contradict each other. */
int spar_trainer_new(struct spar_trainer **out, const struct spar_trainer_opt *opt, const struct spar_listener *on,
		     spar_metric_fn metric, void *ctx, struct spar_err *err);

/*! A record of any type. 0: taken; 1: left out, err says why (it is counted); SPAR_INPUT: the record is bad;
 *  another error: training failed, and nothing was written. */
int spar_trainer_take(struct spar_trainer *t, const struct spar_record *rec, struct spar_err *err);

/*! max_steps is reached. */
bool spar_trainer_done(const struct spar_trainer *t);

/*! The input has ended: train what is left, end the policy's session, write `out`. */
int spar_trainer_finish(struct spar_trainer *t, struct spar_err *err);

void spar_trainer_free(struct spar_trainer *t);

#endif
