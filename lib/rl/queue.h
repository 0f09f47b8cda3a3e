/* queue.h - records under way through a sampler, written in the order they came.
 *
 *	struct spar_queue q = {.f = &filter, .sampler = sampler, .step = -1};
 *	spar_queue_init(&q);
 *	spar_queue_add(&q, rec, &task, 8);      // a task's samples
 *	spar_queue_pass(&q, rec);               // a record that only keeps its place
 *	... spar_sampler_step ...
 *	spar_queue_write(&q);                   // what is whole by now
 *	spar_queue_release(&q);
 */
#ifndef SPAR_RL_QUEUE_H
#define SPAR_RL_QUEUE_H

#include "base/err.h"
#include "base/listener.h"
#include "base/str.h"
#include "record/record.h"
#include "rl/sampler.h"
#include "rl/task.h"
#include <stdint.h>

struct spar_queue {
	struct spar_filter *f; /* writes, and holds the error */
	struct spar_sampler *sampler;
	struct spar_listener on; /* warned of the first failed episodes */
	const char *into;        /* NULL: rollout records; else the record with what was sampled under this key */
	int64_t step;            /* of the batch, -1: there are no batches */
	struct spar_str how;     /* the members "policy" and "sampling", each with a comma behind it */
	uint64_t n_done, n_failed;
	int64_t n_batch;     /* rollouts since the caller last set it to 0 */
	enum spar_exit code; /* of the failed ones: SPAR_FAIL if any was no fault of the input */
	/* internal */
	struct spar_queued *first, **last;
	struct spar_str out;
};

void spar_queue_init(struct spar_queue *q);
void spar_queue_release(struct spar_queue *q);

/*! The record is copied; `task` is consumed, also on failure. */
int spar_queue_add(struct spar_queue *q, const struct spar_record *rec, struct spar_task *task, int64_t group_size);
int spar_queue_pass(struct spar_queue *q, const struct spar_record *rec);
int spar_queue_write(struct spar_queue *q);

#endif
