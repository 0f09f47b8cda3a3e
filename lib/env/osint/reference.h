/* reference.h - the formulas of the studied original (profile `reference`): what it pays for an edge, for an answer, and for
 * claims of team work. Kept to be compared with, not to be trained on: they pay for junk, for omissions and for stories.
 *
 *	struct spar_osint_reference ref;
 *	spar_osint_reference_init(&ref, &graph);                // the graph is borrowed, and indexed
 *	spar_osint_reference_answer(&ref, &reply, &parts);
 *	spar_osint_reference_release(&ref);
 * sig(x) = 1 / (1 + exp(-x)). Names that the graph does not know are compared by their text. Only read after init: any number of
 * threads. */
#ifndef SPAR_ENV_OSINT_REFERENCE_H
#define SPAR_ENV_OSINT_REFERENCE_H

#include "env/osint/osint.h"

/* An edge by its names, all borrowed. */
struct spar_osint_triple {
	const char *src, *rel, *dst;
};
bool spar_osint_triple_equal(const struct spar_osint_triple *a, const struct spar_osint_triple *b);

struct spar_osint_reference {
	const struct spar_osint_graph *graph;
	double *idf;      /* (relations.n) log((1 + edges) / (1 + frequency)) + 1 */
	double *hub;      /* (nodes.n) log(1 + degree) */
	int32_t *of_kind; /* (relations.n, KINDS, KINDS) edges of a relation between kinds */
	int32_t *count;   /* (relations.n) edges of a relation */
	double idf_max, hub_max;
};
void spar_osint_reference_init(struct spar_osint_reference *r, const struct spar_osint_graph *g);
void spar_osint_reference_release(struct spar_osint_reference *r);

/* What an answer is judged by. Everything is borrowed. */
struct spar_osint_reply {
	const char *question, *answer, *truth;     /* answer "": none */
	const struct spar_osint_triple *predicted; /* (n_predicted) */
	size_t n_predicted;
	const struct spar_osint_triple *support; /* (n_support) */
	size_t n_support;
	const char *tool_dump; /* JSON text of all tool outputs, "" if there are none */
	int step, difficulty;
};

/* Weighted, as they are summed. total = sig(sum / 2). */
struct spar_osint_reference_parts {
	double format, correctness, carrier, indexing, connectivity, graph_f1, efficiency, compactness, relation,
	    entity, repetition, total;
};
void spar_osint_reference_answer(const struct spar_osint_reference *r, const struct spar_osint_reply *reply,
				 struct spar_osint_reference_parts *out);

/*! F1 of two sets of edges; both empty: 1. */
double spar_osint_reference_f1(const struct spar_osint_triple *a, size_t n_a, const struct spar_osint_triple *b,
			       size_t n_b);

/*! What adding `edge` to `earlier` at `step` pays: always above 0. */
double spar_osint_reference_edge(const struct spar_osint_reference *r, const struct spar_osint_triple *edge, bool truth,
				 const struct spar_osint_triple *earlier, size_t n_earlier, int step, int difficulty);

/* What a completion says about its own team work. */
struct spar_osint_telemetry {
	double spawned, finished, critical, breadth, depth;
};
#define SPAR_OSINT_TELEMETRY ((struct spar_osint_telemetry){0, 0, 1, 0, 0})

/* The parts of the bonus; `aux` is all of it at the original's weights (0.15, 0.20). hint: agents that are allowed. */
struct spar_osint_parl {
	double parallel, finish, aux;
};
struct spar_osint_parl spar_osint_reference_parl(const struct spar_osint_telemetry *t, int hint);

/*! The next name of an entity in `text` from *at on: alias_, user_, org_, ... and word characters behind. Relations that
 *  look like one (alias_of) are found too, as in the original. Returns its length, 0 at the end. */
size_t spar_osint_reference_entity(const char *text, size_t *at);

#endif
