/* seeding.h - what a user puts into the graphs: the `seeding` block of a seed file, as the studied original reads it. Its edges are
 * added to every graph that is generated; its questions are tasks of the training split, before those that are made.
 *
 *	spar_osint_seeding_read(&s, "seed.json", &err);
 *	game.source.seeded_edges = s.edges;                     // borrowed
 *	for (int i = 0; i < s.n_questions; i++)
 *		spar_osint_seeding_task(&task, &graph, &s, i, &want, &err);
 *	spar_osint_seeding_release(&s);
 *
 * {"seeding": {"seeded_nodes": [{"node_id","node_type"}], "seeded_edges": [{"src","rel","dst"}],
 *              "seeded_questions": [{"question","answer","supporting_edges","task_type","metadata":{"difficulty"}}]}}
 * or that object itself. What asks a language model for the rest (llm_...) has no effect: the rest follows from the seed, and a
 * generator that is trained proposes edges of its own. */
#ifndef SPAR_ENV_OSINT_SEEDING_H
#define SPAR_ENV_OSINT_SEEDING_H

#include "env/osint/osint.h"

struct spar_osint_seeding {
	jv edges;     /* array of [src, rel, dst] */
	jv questions; /* array of objects */
	int n_questions;
	bool idle;           /* there are keys without effect: llm_..., attrs of nodes */
	const char *example; /* the name of one, static */
};

/*! SPAR_FAIL: the file cannot be read; SPAR_INPUT: file and field are named. */
int spar_osint_seeding_read(struct spar_osint_seeding *s, const char *path, struct spar_err *err);
void spar_osint_seeding_release(struct spar_osint_seeding *s);

/*! Question i as a task of the graph. What it does not say, answer and evidence, is taken from the graph if the question can be
 *  read (spar_osint_question_read) and has one answer. SPAR_INPUT names the field: there are several answers, another one, or
 *  none; the evidence is not in the graph or does not fit a context. Release the task in any case. */
int spar_osint_seeding_task(struct spar_osint_task *t, const struct spar_osint_graph *g,
			    const struct spar_osint_seeding *s, int i, const struct spar_osint_want *want,
			    struct spar_err *err);

#endif
