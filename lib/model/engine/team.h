/* team.h - how the threads of a pass share its phases.
 *
 * A phase is a number of items, in order cut into as many shares as there are threads. A thread does its own share and goes on
 * to the next phase when all items are done; after some microseconds of waiting for others it helps them. So a phase waits for
 * work, not for threads: one that the system has put aside between two items holds up nobody, which OpenMP's barriers would do,
 * spinning for milliseconds at that. And a thread mostly reads what it wrote: what another one wrote may be farther away than
 * memory, where the processor consists of several dies.
 * Waiting is for an item in hand, some microseconds with the core, then offering it to others.
 *
 *	spar_team_reset(&team);                                 // before each parallel region
 *	struct spar_worker w = spar_worker_begin(&team);        // in each of its threads
 *	for (size_t i; spar_worker_take(&w, n, &i);)             // a phase; every thread passes the same n, less than 2^32
 *		...
 */
#ifndef SPAR_MODEL_ENGINE_TEAM_H
#define SPAR_MODEL_ENGINE_TEAM_H

#include "base/err.h"
#include <limits.h>
#include <omp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define SPAR_PATIENCE 300 /* spins before a thread helps others: some microseconds */

struct spar_count { /* in a cache line of its own */
	_Alignas(64) atomic_uint_least64_t n;
};

struct spar_team {
	struct spar_count *done;  /* items, of all phases of the region so far */
	struct spar_count *taken; /* (n_threads) of each share: the phase << 32 | how many items of it are taken */
	int n_threads;
};

struct spar_worker {
	const struct spar_team *team;
	size_t n_threads, own;    /* own: this thread's share */
	uint64_t phase, n_before; /* phases count from 1; n_before: items of those before */
	size_t n_left;            /* shares that were found exhausted in this phase */
	size_t n_mine;            /* items of this phase that this thread took */
	size_t next;              /* behind the item in hand */
};

static inline int spar_team_init(struct spar_team *t, int n_threads, struct spar_err *err)
{
	struct spar_count *counts = aligned_alloc(64, (1 + (size_t)n_threads) * sizeof *counts);
	if (!counts)
		return spar_fail(err, SPAR_FAIL, "no memory for a team of %d threads", n_threads);
	*t = (struct spar_team){.done = counts, .taken = counts + 1, .n_threads = n_threads};
	return 0;
}

static inline void spar_team_release(struct spar_team *t)
{
	free(t->done);
}

/*! Before each parallel region. */
static inline void spar_team_reset(struct spar_team *t)
{
	atomic_init(&t->done->n, 0);
	for (int i = 0; i < t->n_threads; i++)
		atomic_init(&t->taken[i].n, 0);
}

static inline struct spar_worker spar_worker_begin(const struct spar_team *t)
{
	return (struct spar_worker){
	    .team = t,
	    .n_threads = (size_t)omp_get_num_threads(),
	    .own = (size_t)omp_get_thread_num(),
	    .phase = 1,
	};
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

/* The first item of a share. */
static inline size_t spar_share_first(const struct spar_worker *w, size_t n, size_t share)
{
	return n * share / w->n_threads;
}

/* Take an item of a share. A thread that has not come to this phase yet counts as having taken none. */
static inline bool spar_share_take(const struct spar_worker *w, size_t n, size_t share, size_t *item)
{
	atomic_uint_least64_t *count = &w->team->taken[share].n;
	size_t first = spar_share_first(w, n, share), size = spar_share_first(w, n, share + 1) - first;
	for (uint_least64_t was = atomic_load(count);;) {
		uint64_t taken = was >> 32 == w->phase ? was & UINT32_MAX : 0;
		if (was >> 32 > w->phase || taken >= size)
			return false;
		if (atomic_compare_exchange_weak(count, &was, w->phase << 32 | (taken + 1))) {
			*item = first + (size_t)taken;
			return true;
		}
	}
}

/* Announce what this thread did, and wait for at most so many spins; whether all is done then. */
static inline bool spar_worker_wait(struct spar_worker *w, size_t n, unsigned most)
{
	if (w->n_mine)
		atomic_fetch_add(&w->team->done->n, w->n_mine);
	w->n_mine = 0;
	for (unsigned n_spins = 0; n_spins < most; n_spins++) {
		if (atomic_load(&w->team->done->n) >= w->n_before + n)
			return true;
		spar_worker_relax(n_spins);
	}
	return false;
}

/*! The next item of the phase, or false: then all its items are done, and what was written in them is seen. */
static inline bool spar_worker_take(struct spar_worker *w, size_t n, size_t *item)
{
	for (; w->n_left < w->n_threads; w->n_left++) {
		if (spar_share_take(w, n, (w->own + w->n_left) % w->n_threads, item)) {
			w->n_mine++;
			w->next = *item + 1;
			return true;
		}
		if (!w->n_left && spar_worker_wait(w, n, SPAR_PATIENCE))
			break;
	}
	while (!spar_worker_wait(w, n, UINT_MAX))
		;
	w->phase++;
	w->n_before += n;
	w->n_left = 0;
	return false;
}

/*! Which item this thread will probably take after the one it has; n: none of this phase. */
static inline size_t spar_worker_next(const struct spar_worker *w, size_t n)
{
	return !w->n_left && w->next < spar_share_first(w, n, w->own + 1) ? w->next : n;
}

/*! Which item this thread will take first in a phase of n. */
static inline size_t spar_worker_first(const struct spar_worker *w, size_t n)
{
	return spar_share_first(w, n, w->own);
}

#endif
