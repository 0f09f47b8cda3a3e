/* step.h - the episodes of one optimizer step, laid out in micro-batches, and the gradient of their loss.
 *
 *	struct spar_step *s = spar_step_new(episodes, n, &how);
 *	spar_step_gradient(s, graph, NULL, &objective, temperature, &err);      // adds to the graph's gradients
 *	... spar_graph_step ...
 *	spar_step_free(s);
 * The divisors are those of the whole step and known when it is laid out, so the result does not depend on how the step is
 * cut into micro-batches (B24). Memory: the token trees and a few numbers for each loss token; activations of one
 * micro-batch. */
#ifndef SPAR_RL_STEP_H
#define SPAR_RL_STEP_H

#include "base/err.h"
#include "model/graph.h"
#include "rl/episode.h"
#include "rl/objective.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spar_step_rules {
	size_t micro_tokens;    /* a micro-batch is closed when it has this many distinct tokens ... */
	size_t micro_sequences; /* ... or this many sequences; 0: no limit */
	bool mask_truncated;    /* episodes cut off by the length limit carry no loss */
	bool accuracy;          /* count the loss tokens that were the most probable ones */
	bool share;             /* common prefixes once; false is the slow twin */
	int64_t version;        /* of the policy: samples of older ones are weighted; -1: not known */
};

struct spar_step; /* opaque */

/*! Lay out; the episodes are borrowed until spar_step_free. */
struct spar_step *spar_step_new(struct spar_episode *const *episodes, size_t n, const struct spar_step_rules *rules);
void spar_step_free(struct spar_step *s);

struct spar_step_counts {
	size_t sequences, loss_tokens; /* that carry loss: the divisors */
	size_t tokens, distinct;       /* to compute without and with sharing */
	size_t micro_batches;
};
struct spar_step_counts spar_step_counts(const struct spar_step *s);

struct spar_step_sums {
	struct spar_objective_sums objective;
	double n_best; /* with rules.accuracy: loss tokens than which none was more probable */
};

/*! Forward and backward of every micro-batch: adds d loss / d weights to the graph's gradients. The divisors of `o` are set
 *  here. The first call keeps the log-probabilities as the old ones of the calls after it (num_iterations > 1).
 *  A top-entropy mask takes one more forward pass, since its threshold is that of the whole step.
 *  o->beta > 0: `reference` gives the reference's log-probabilities, or, if it is NULL, the graph with its adapter off.
 *  o->is_max is applied to sequences of an older policy and to those drawn from cut distributions, else not.
 *  SPAR_FAIL with the episode named if its numbers are not finite; the graph's gradients are dropped then. */
int spar_step_gradient(struct spar_step *s, struct spar_graph *g, struct spar_graph *reference,
		       const struct spar_objective *o, double temperature, struct spar_step_sums *sums,
		       struct spar_err *err);

#endif
