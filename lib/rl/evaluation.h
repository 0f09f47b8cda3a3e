/* evaluation.h - tasks played by one contestant after the other, each episode judged; a row for each, figures of all.
 *
 *	struct spar_evaluation_opt opt = SPAR_EVALUATION_DEFAULTS;
 *	spar_evaluation_new(&e, &opt, &filter, &on, &filter.err);
 *	spar_evaluation_read(e);                        // tasks are kept; rollout records become rows at once
 *	spar_evaluation_play(e);                        // rows
 *	spar_evaluation_sum(e, &json, &table);
 *	spar_evaluation_free(e);
 * Memory: the tasks, and some 100 bytes for each episode. */
#ifndef SPAR_RL_EVALUATION_H
#define SPAR_RL_EVALUATION_H

#include "base/err.h"
#include "base/listener.h"
#include "base/opt.h"
#include "base/str.h"
#include "record/record.h"
#include "rl/sampler.h"
#include <stdbool.h>
#include <stdint.h>

struct spar_evaluation_opt {
	struct spar_sampler_opt sampler; /* greedy by default */
	const char *model, *original;    /* folders or policy directories; NULL: none */
	const char *original_records;    /* file of rollouts that those in the input are compared with; NULL: none */
	struct spar_opt_list policies;   /* built-in ones of the environment */
	const char *messages, *judge;    /* jq programs; NULL: SPAR_TASK_PROMPT, SPAR_OUTCOME_JUDGE */
	const char *pass_at;             /* "1,2,4": also pass@k for these; NULL: none */
	int64_t samples;                 /* of each task */
};
/* clang-format off */
#define SPAR_EVALUATION_DEFAULTS {.sampler = SPAR_SAMPLER_DEFAULTS, .samples = 1}
/* clang-format on */

struct spar_evaluation; /* opaque */

/*! SPAR_USAGE if options contradict each other. `opt` and `on` are copied, their strings borrowed, `f` is borrowed. */
int spar_evaluation_new(struct spar_evaluation **out, const struct spar_evaluation_opt *opt, struct spar_filter *f,
			const struct spar_listener *on, struct spar_err *err);

/*! All of the input. SPAR_INPUT if there is nothing to evaluate in it. */
int spar_evaluation_read(struct spar_evaluation *e);
int spar_evaluation_play(struct spar_evaluation *e);

/*! Append the summary's object to `json`, a table to `table`. */
void spar_evaluation_sum(struct spar_evaluation *e, struct spar_str *json, struct spar_str *table);

/*! Whether what was compared is worse than the original: the interval of the success rate's difference lies below 0. After
 *  spar_evaluation_sum. */
bool spar_evaluation_regressed(const struct spar_evaluation *e);

/*! Episodes that failed, of how many; returns what kind of failure that is. */
enum spar_exit spar_evaluation_failures(const struct spar_evaluation *e, uint64_t *n_failed, uint64_t *n);

void spar_evaluation_free(struct spar_evaluation *e);

#endif
