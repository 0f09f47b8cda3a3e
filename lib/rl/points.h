/* points.h - the figures of a run as points of curves, read from the run's files: what `spar report` shows.
 *
 *	spar_points_read("runs/x", see, ctx, &err);             // see() is called for each, file by file in order of names
 *
 * What is read in a folder and all below it, except symbolic links and policy directories:
 *	metrics.jsonl, NAME.metrics.jsonl     metric records: every number
 *	rollouts-NAME.jsonl                   of each batch the means of the numbers and truth values in `verdict` and `env`
 *	round.json, evaluation.json, post_training_evaluation.json
 *	                                      summaries: every number and list of numbers
 * Records may be compressed (.zst), or still be written (.tmp, .tmp.PID): then they are read as far as they are whole. */
#ifndef SPAR_RL_POINTS_H
#define SPAR_RL_POINTS_H

#include "base/err.h"
#include <stdint.h>

/* All strings are borrowed for the call. */
struct spar_point {
	const char
	    *curve; /* whose: where the file lies, from the run's own name on: "x/round_001/answerer", "x/sft", "x" */
	const char *tag; /* "loss", "verdict/graph_f1", "evaluation/grpo/success_rate" */
	int64_t step;    /* of the optimizer, from 1; of a summary its round, or 0 */
	double wall_s;   /* since 1970: the file's time; for a metric less the time of the steps after it */
	double value;    /* finite */
};

/* < 0 ends the reading; it has filled `err` then. */
typedef int (*spar_point_fn)(void *ctx, const struct spar_point *p, struct spar_err *err);

/*! `path` is the folder of a run, or one of the files above. 1, or 0 if there was no point; SPAR_FAIL: it cannot be read; SPAR_INPUT: file and line of what is
 *  no record are named. */
int spar_points_read(const char *path, spar_point_fn see, void *ctx, struct spar_err *err);

#endif
