/* osint_score.h - the rewards of self-play over a knowledge graph, as scorers of `spar score`.
 *
 *	spar_osint_scorer_new(&s, &opt, &err);                  // reads the frozen tasks
 *	spar_osint_scorer_group(s, group, &err);                // all rollouts of one task: sets reward, rewards, verdict
 *	spar_osint_scorer_free(s);
 *
 * Profile `sound`: pure functions of record, graph, frozen tasks and, for novelty, the other rollouts of the group, so that
 * the order of a batch does not matter. Nothing reads what a completion says about itself.
 *
 *  generator   w.validity * validity, and if the task is valid + w.hardness * hardness + w.diversity * diversity
 *              + w.consistency * consistency
 *    validity     (rung + consistency / 2) / 8 of the ladder in lib/env/osint/osint.h; 1 if valid. So each rung is worth more
 *                 than the one before, and every invalid task less than every valid one
 *    hardness     with p the share of the judge's samples that are right: 4p(1 - p); 0.5 at p = 0, as the graph itself derives
 *                 the answer; 0 without a judge
 *    diversity    (1 - the highest likeness to a frozen task) * (1 - the mean likeness to the group's other valid tasks)
 *    consistency  share of the stated edges that are in the graph and go on from the one before
 *  answerer    spar_osint_answer_reward: right 1, wrong 0, none -0.1, and evidence by F1 of all stated edges
 *  Both gain at most 0.05 from worker agents that ran (`task.workers`), times validity or correctness.
 *
 * Profile `reference`: osint_original.h, in the order of the stream. */
#ifndef SPAR_RL_OSINT_SCORE_H
#define SPAR_RL_OSINT_SCORE_H

#include "env/osint/record.h"
#include "rl/group.h"
#include "rl/osint_original.h"

struct spar_osint_scorer_opt {
	enum spar_osint_role role;
	enum spar_osint_profile profile;
	double validity, hardness, diversity, consistency; /* weights */
	struct spar_osint_limits limits;
	bool fixed;         /* only edges of the task's context count: no graph of its own */
	const char *frozen; /* file of tasks that were asked before; NULL: none */
	bool legacy;        /* reference: the pipeline without agents */
	int agents;         /* reference: agents that were allowed */
};
#define SPAR_OSINT_SCORER_DEFAULTS \
	{ \
		.validity = 0.45, .hardness = 0.20, .diversity = 0.15, .consistency = 0.20, .limits = {4, 14}, \
		.agents = 4 \
	}

struct spar_osint_scorer; /* opaque */

/*! `opt` is copied. SPAR_INPUT names file, line and field of a frozen task that is none. */
int spar_osint_scorer_new(struct spar_osint_scorer **out, const struct spar_osint_scorer_opt *opt,
			  struct spar_err *err);

/*! Score the group's rollouts; those that carry an error get reward null. SPAR_INPUT if their task does not say what is
 *  needed: nothing is set then. */
int spar_osint_scorer_group(struct spar_osint_scorer *s, struct spar_group *group, struct spar_err *err);

void spar_osint_scorer_free(struct spar_osint_scorer *s);

/* ---- what a generator wrote, held beside its graph: shared with `spar pose` ---- */

struct spar_osint_proposal {
	struct spar_osint_claim claim;
	struct spar_osint_verdict verdict;
	struct spar_osint_graph own;          /* with edges of its own; else empty */
	const struct spar_osint_graph *graph; /* what it is checked against: `own` or the task's */
};
/*! Read the completion of a generator's rollout. With `fixed` the graph is the task's context and nothing else; otherwise
 *  edges that the completion proposes as canonical_graph, at most 8 between nodes and of relations that the graph knows,
 *  count as the graph's. Release it in any case. */
int spar_osint_propose(struct spar_osint_proposal *p, const struct spar_osint_graph *g, jv rollout, bool fixed,
		       const struct spar_osint_limits *limits, struct spar_err *err);
void spar_osint_proposal_release(struct spar_osint_proposal *p);

struct spar_osint_pose_opt {
	bool fixed; /* the context is the candidate's; otherwise a new one is drawn, with decoys */
	struct spar_osint_limits limits;
	int max_edges; /* of a new context; 0: SPAR_OSINT_CONTEXT */
};
/*! The task that a generator's rollout proposes, as the record an answerer is prompted with (lib/env/osint/record.h), appended to
 *  `out`. Its question is the graph's wording of what was asked, so that nothing else reaches the answerer; its context depends
 *  on graph and question alone. `graphs` is the caller's. 1: posed; 0: the proposal is not valid; SPAR_INPUT: the record
 *  does not say what is needed. */
int spar_osint_pose(const struct spar_osint_pose_opt *opt, struct spar_osint_graph_cache *graphs, jv rollout,
		    struct spar_str *out, struct spar_err *err);

/*! Text of the last completion (borrowed from `rollout`). SPAR_INPUT if there is none. */
int spar_osint_completion(jv rollout, const char **text, size_t *n, struct spar_err *err);

#endif
