/* producer.h - tasks in, rollouts out: a stream of records through a sampler, in order, in batches, with the weights that a
 * running update publishes if it is asked to follow them.
 *
 *	struct spar_producer_opt opt = SPAR_PRODUCER_DEFAULTS;
 *	spar_producer_new(&p, &opt, &filter, &on, &filter.err);
 *	rc = spar_producer_run(p);              // or _encode: only prompts
 *	code = spar_producer_failures(p, ...);
 *	spar_producer_free(p);
 */
#ifndef SPAR_RL_PRODUCER_H
#define SPAR_RL_PRODUCER_H

#include "base/err.h"
#include "base/listener.h"
#include "record/record.h"
#include "rl/sampler.h"
#include <stdbool.h>
#include <stdint.h>

struct spar_producer_opt {
	struct spar_sampler_opt sampler; /* .model: a model folder, or a policy directory: its latest version */
	const char *policy;              /* instead of a model: follow what is published here */
	const char *messages;            /* jq program of the prompt; NULL: SPAR_TASK_PROMPT, of tasks only */
	const char *into;                /* NULL: make rollout records; else put what was sampled under this key */
	const char *force_ids;           /* "[7,8,2]": what every completion begins with; NULL: nothing */
	int64_t group_size;              /* 0: 8, or 1 with `into` */
	int64_t batch;                   /* tasks between two batch records; 0: none, or 8 with `policy` */
	int64_t lag;                     /* versions that a batch may be behind */
	int64_t max_steps;               /* batches, counted from the policy's first; 0: to the end of input */
	double policy_timeout_s;
	bool step_time;   /* batch records say what their sampling took: step_time/INTO, or step_time/rollout */
	bool encode_only; /* spar_producer_encode will be called, not _run */
};
/* clang-format off */
#define SPAR_PRODUCER_DEFAULTS {.sampler = SPAR_SAMPLER_DEFAULTS, .policy_timeout_s = 3600}
/* clang-format on */

struct spar_producer; /* opaque */

/*! `opt` and `on` are copied, their strings borrowed; `f` is borrowed and opened by the caller before the run. */
int spar_producer_new(struct spar_producer **out, const struct spar_producer_opt *opt, struct spar_filter *f,
		      const struct spar_listener *on, struct spar_err *err);

/*! Answer all of the input. Bad records are rejected through the filter after what came before them was written. */
int spar_producer_run(struct spar_producer *p);

/*! Only add `prompt` and `prompt_ids` to each task. */
int spar_producer_encode(struct spar_producer *p);

/*! Episodes that failed, of how many; returns what kind of failure that is. */
enum spar_exit spar_producer_failures(const struct spar_producer *p, uint64_t *n_failed, uint64_t *n);

void spar_producer_free(struct spar_producer *p);

#endif
