/* team.h - how the threads of a pass share its phases.
 *
 * A phase is a number of items; a thread takes some, does them, takes more, and goes on to the next phase when all are done.
 * So a phase waits for work, not for threads: one that the system has put aside between two items holds up nobody, which
 * OpenMP's barriers would do, spinning for milliseconds at that. Waiting is for an item in hand, some microseconds with the
 * core, then offering it to others.
 *
 *	struct spar_worker w = spar_worker_begin(&team);       // in each thread of a parallel region
 *	for (size_t i; spar_worker_take(&w, n, &i);)            // a phase; every thread passes the same n
 *		...
 */
#ifndef SPAR_MODEL_ENGINE_TEAM_H
#define SPAR_MODEL_ENGINE_TEAM_H

#include "base/err.h"
#include <omp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

struct spar_phase {
	_Alignas(64) atomic_size_t n_taken;
	atomic_size_t n_done;
};

struct spar_team {
	struct spar_phase *phases; /* (n_phases), as many as the longest region has */
	size_t n_phases;
};

struct spar_worker {
	struct spar_phase *phase;
	size_t first, next, end; /* items in hand: [first, end), of which [next, end) are still to do */
};

static inline int spar_team_init(struct spar_team *t, size_t n_phases, struct spar_err *err)
{
	t->n_phases = n_phases;
	t->phases = aligned_alloc(64, n_phases * sizeof *t->phases);
	return t->phases ? 0 : spar_fail(err, SPAR_FAIL, "no memory for %zu phases", n_phases);
}

/*! Before each parallel region. */
static inline void spar_team_reset(struct spar_team *t)
{
	for (size_t i = 0; i < t->n_phases; i++) {
		atomic_init(&t->phases[i].n_taken, 0);
		atomic_init(&t->phases[i].n_done, 0);
	}
}

static inline struct spar_worker spar_worker_begin(struct spar_team *t)
{
	return (struct spar_worker){.phase = t->phases};
}

static inline void spar_worker_relax(unsigned n_spins)
{
#ifdef __x86_64__
	if (n_spins < 2000) {
		__builtin_ia32_pause();
		return;
	}
#endif
	(void)n_spins;
	sched_yield();
}

/*! The next item of the phase (a thread takes an eighth of its share at once), or false: then all its items are done, and what was written in them is seen. */
static inline bool spar_worker_take(struct spar_worker *w, size_t n, size_t *item)
{
	if (w->next == w->end) {
		size_t share = n / (8 * (size_t)omp_get_num_threads()), portion = share ? share : 1;
		atomic_fetch_add(&w->phase->n_done, w->end - w->first);
		w->first = w->next = atomic_fetch_add(&w->phase->n_taken, portion);
		w->end = w->first + portion < n ? w->first + portion : n;
		if (w->first >= n) {
			for (unsigned n_spins = 0; atomic_load(&w->phase->n_done) < n; n_spins++)
				spar_worker_relax(n_spins);
			*w = (struct spar_worker){.phase = w->phase + 1};
			return false;
		}
	}
	*item = w->next++;
	return true;
}

/*! A guess at the item that this thread will take after the one it has, from how the others have kept pace so far. n or
 *  more: of the next phase. */
static inline size_t spar_worker_next(const struct spar_worker *w)
{
	return w->next < w->end ? w->next : w->first + (w->end - w->first) * (size_t)omp_get_num_threads();
}

#endif
