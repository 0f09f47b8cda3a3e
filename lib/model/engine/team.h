/* team.h - the barrier between the phases of a pass. OpenMP's own spins for milliseconds before it sleeps, which is ruinous
 * when another program has one of the cores; this one spins for some microseconds, then offers its core to others. */
#ifndef SPAR_MODEL_ENGINE_TEAM_H
#define SPAR_MODEL_ENGINE_TEAM_H

#include <omp.h>
#include <sched.h>
#include <stdatomic.h>

struct spar_team {
	atomic_uint n_arrived, n_passed;
};

static inline void spar_team_relax(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#endif
}

/*! Every thread of the parallel region must call it; what was written before is seen by all behind it. */
static inline void spar_team_barrier(struct spar_team *t)
{
	unsigned passed = atomic_load(&t->n_passed);
	if (atomic_fetch_add(&t->n_arrived, 1) + 1 == (unsigned)omp_get_num_threads()) {
		atomic_store(&t->n_arrived, 0);
		atomic_store(&t->n_passed, passed + 1);
		return;
	}
	for (unsigned spins = 0; atomic_load(&t->n_passed) == passed; spins++)
		if (spins < 2000)
			spar_team_relax();
		else
			sched_yield();
}

#endif
