/* record.h - tasks over a graph as records: what `rollout` is prompted with and what the scorers read back.
 *
 *	{"type":"task","id":"osint-7-train-3-hard","role":"answerer","messages":[...],
 *	 "graph":{"seed":"7","split":"train",...},           a source, or the edges themselves
 *	 "difficulty":"hard","family":"3_hop_trace","hops":3,
 *	 "context":[["alias_4","alias_of","user_9"],...],    the frozen context, as it stands in the prompt
 *	 "question":"...","answer":"org_2","supporting_edges":[[...],...],
 *	 "source":"environment"}                             or "generator"
 * A generator's task has the same members but its own prompt; its question, answer and path are the oracle's.
 */
#ifndef SPAR_ENV_OSINT_RECORD_H
#define SPAR_ENV_OSINT_RECORD_H

#include "env/osint/osint.h"

/* How a task is written down. Everything is borrowed. */
struct spar_osint_record {
	const struct spar_osint_graph *graph;
	const char *graph_json; /* the member "graph" */
	const struct spar_osint_task *task;
	enum spar_osint_role role;
	const char *id, *source;
	const char *const *avoid; /* generator: (n_avoid) questions that were asked before */
	size_t n_avoid;
	bool own_graph; /* generator: it may propose edges of its own */
};
/*! Append the record, without a newline. */
void spar_osint_record_write(const struct spar_osint_record *r, struct spar_str *out);

/* The graph that a task record names. Tasks of one graph mostly follow each other, so the last one is kept.
 *	struct spar_osint_graph_cache cache = {0};
 *	spar_osint_graph_of(&cache, task, &graph, &err);
 *	spar_osint_graph_cache_release(&cache); */
struct spar_osint_graph_cache {
	struct spar_osint_graph graph;
	jv key; /* what it was made of */
	bool full;
};
/*! *out is borrowed until the next call. SPAR_INPUT names the field. */
int spar_osint_graph_of(struct spar_osint_graph_cache *c, jv task, const struct spar_osint_graph **out,
			struct spar_err *err);
void spar_osint_graph_cache_release(struct spar_osint_graph_cache *c);

/*! Read a member that holds edges (borrowed object) as indices into the graph: at most `most`. Returns how many;
 *  SPAR_INPUT if one is no edge of the graph. */
int spar_osint_edges_of(const struct spar_osint_graph *g, jv task, const char *key, int most, int32_t *out,
			struct spar_err *err);

#endif
