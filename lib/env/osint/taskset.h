/* taskset.h - the task records that `env-osint --tasks` writes: episodes to be played, or prompts with their truth.
 *
 *	while ((rc = spar_osint_taskset_next(&set, &line, &err)) > 0) ...    // 0: all were written
 *	spar_osint_taskset_release(&set); */
#ifndef SPAR_ENV_OSINT_TASKSET_H
#define SPAR_ENV_OSINT_TASKSET_H

#include "env/osint/episode.h"
#include "env/osint/seeding.h"

struct spar_osint_taskset {
	struct spar_osint_game game;
	int64_t n;     /* how many */
	uint64_t seed; /* of the first; those after it count up */
	int difficulty;
	int64_t max_steps;
	bool messages;  /* prompts with their truth (record.h), to be sampled without an environment */
	bool own_graph; /* with messages, generator: the prompt says that it may propose edges of its own */
	const struct spar_osint_seeding
	    *seeding; /* its questions come first, with messages, answerer, train; NULL: none */
	bool levels;  /* a benchmark: a third each easy, medium and hard, all of one graph, no question twice */
	/* state: begins as zeros */
	int n_seeded;                  /* questions of `seeding` that were written */
	struct spar_osint_graph graph; /* theirs, once there was one */
	int64_t done;
	uint64_t tried;
	char **questions; /* (done), with levels */
	struct spar_osint_episode *episode;
};

/*! The next record, in place of what `line` held. 1: there it is; 0: there are no more; < 0: SPAR_FAIL, the graph has not
 *  so many different questions. */
int spar_osint_taskset_next(struct spar_osint_taskset *s, struct spar_str *line, struct spar_err *err);
void spar_osint_taskset_release(struct spar_osint_taskset *s);

#endif
