/* osint_novelty.h - how unlike tasks over knowledge graphs are, by what they ask: for the generator's reward.
 *
 *	struct spar_osint_frozen frozen = {0};
 *	spar_osint_frozen_read(&frozen, "tasks.jsonl", &graphs, &err);
 *	most = spar_osint_frozen_likeness(&frozen, &ask);
 *	free(frozen.asks); */
#ifndef SPAR_RL_OSINT_NOVELTY_H
#define SPAR_RL_OSINT_NOVELTY_H

#include "env/osint/record.h"
#include <stdint.h>

/* What a task asks, by names, so that tasks of different records can be compared; of different graphs nothing is alike. */
struct spar_osint_ask {
	uint64_t graph, start, relations[SPAR_OSINT_HOPS_MAX];
	int hops;
};

/*! `graph` is spar_osint_graph_hash of the task. */
struct spar_osint_ask spar_osint_ask_of(const struct spar_osint_graph *g, const struct spar_osint_signature *q,
					uint64_t graph);
uint64_t spar_osint_graph_hash(jv task); /* borrows it */

/*! 0 to 1: the original's weights for start, relations and hops, but relations count by their place. */
double spar_osint_likeness(const struct spar_osint_ask *a, const struct spar_osint_ask *b);

/* Tasks that were asked before. */
struct spar_osint_frozen {
	struct spar_osint_ask *asks; /* (n) malloc'ed */
	size_t n;
};
/*! Append the tasks of a file of records. SPAR_INPUT names file, line and field. */
int spar_osint_frozen_read(struct spar_osint_frozen *f, const char *path, struct spar_osint_graph_cache *graphs,
			   struct spar_err *err);

/*! The highest likeness to one of them; 0: there are none. */
double spar_osint_frozen_likeness(const struct spar_osint_frozen *f, const struct spar_osint_ask *ask);

#endif
