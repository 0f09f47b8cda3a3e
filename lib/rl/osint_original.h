/* osint_original.h - what the studied original pays generators and answerers (profile `reference`). Kept to be compared
 * with: every way to be paid for nothing is in here on purpose. lib/env/osint/reference.h holds the formulas below it.
 *
 *	struct spar_osint_original j = {.formulas = &ref, .opt = SPAR_OSINT_ORIGINAL};
 *	reward = spar_osint_original_generator(&j, text, n, judged, &verdict);   // in the order of the batch: it remembers
 *	reward = spar_osint_original_answerer(&j, text, n, &task);
 *	spar_osint_original_release(&j);
 */
#ifndef SPAR_RL_OSINT_ORIGINAL_H
#define SPAR_RL_OSINT_ORIGINAL_H

#include "env/osint/reference.h"

struct spar_osint_original_opt {
	double validity, hardness, diversity, consistency; /* weights */
	int max_support, max_hops;                         /* edges of a task */
	int max_nodes, max_edges, shared_nodes, shared_edges;
	double target_pressure, duplicate; /* similarity from which on a question is a duplicate */
	int agents;                        /* of the generator's swarm, or of the answerer's */
	bool legacy;
};
#define SPAR_OSINT_ORIGINAL \
	((struct spar_osint_original_opt){0.45, 0.20, 0.15, 0.20, 8, 4, 14, 8, 14, 8, 0.85, 0.8, 4, false})

struct spar_osint_original {
	const struct spar_osint_reference *formulas;
	struct spar_osint_original_opt opt;
	char **seen; /* (n_seen) questions of this phase so far */
	size_t n_seen;
};

/* Why a task is invalid, as bits in the order of their names. */
enum {
	SPAR_OSINT_O_MISSING = 1,
	SPAR_OSINT_O_MALFORMED = 2,
	SPAR_OSINT_O_OVERFLOW = 4,
	SPAR_OSINT_O_UNSEEN = 8,
	SPAR_OSINT_O_NOT_REPLAYABLE = 16,
	SPAR_OSINT_O_NOT_UNIQUE = 32,
	SPAR_OSINT_O_LEAKAGE = 64,
	SPAR_OSINT_O_DUPLICATE = 128,
};
const char *spar_osint_original_reason(unsigned bit);

/*! Reward of a generator's completion. `judge` is the frozen answerer's normalised answer to its question ("" if it gave none).
 *  *reasons: the bits above; 0 is valid (always in legacy mode, which does not look). */
double spar_osint_original_generator(struct spar_osint_original *o, const char *text, size_t n, const char *judge,
				     unsigned *reasons);

/*! Reward of an answerer's completion: `task` says question, truth, support and difficulty; its other members are filled
 *  in here. *f1: of the edges that count as predicted; *right: whether the answer is. */
double spar_osint_original_answerer(const struct spar_osint_original *o, const char *text, size_t n,
				    struct spar_osint_reply task, double *f1, bool *right);

/*! How alike two questions are: by start, relations and hops if both ask for a path, else by their words. */
double spar_osint_original_similarity(const struct spar_osint_graph *g, const char *a, const char *b);

void spar_osint_original_release(struct spar_osint_original *o);

#endif
