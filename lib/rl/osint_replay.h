/* osint_replay.h - a completion as the studied original reads it: a task, and whether it can be replayed on the graph. For
 * osint_original.c. */
#ifndef SPAR_RL_OSINT_REPLAY_H
#define SPAR_RL_OSINT_REPLAY_H

#include "rl/osint_original.h"
#include <jv.h>

struct spar_osint_original_task {
	jv object; /* invalid: none was found; what is below points into it */
	struct spar_str question, answer;
	jv support_rows, trace, outputs;
	struct spar_osint_triple *support; /* (n_support) */
	size_t n_support, n_calls;
	bool has_graph;
};

/*! Read a completion; never fails. At most `most` edges of its support are looked at. */
void spar_osint_original_read(struct spar_osint_original_task *t, const char *text, size_t n, size_t most);
void spar_osint_original_task_release(struct spar_osint_original_task *t);

/*! The reasons of osint_original.h; 0: it is valid. */
unsigned spar_osint_original_validate(const struct spar_osint_original *o, const struct spar_osint_original_task *t);

/*! The highest likeness to a question that was seen, by their words alone or by what they ask. */
double spar_osint_original_nearest(const struct spar_osint_original *o, const char *question, bool by_words);

/*! Distinct nodes of the support. */
size_t spar_osint_original_nodes(const struct spar_osint_original_task *t);

/*! The ids of an edge; -1 for what the graph does not know. */
struct spar_osint_edge spar_osint_original_ids(const struct spar_osint_graph *g, const struct spar_osint_triple *e);

/*! Whether `part` occurs in the text, in any case. */
bool spar_osint_original_occurs(const char *text, const char *part);

#endif
