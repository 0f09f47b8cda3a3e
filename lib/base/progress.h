/* progress.h - how far a tool is, on standard error: a bar on a terminal, a line every 10 s in a log, nothing when quiet.
 *	struct spar_progress p;
 *	spar_progress_begin(&p, "rollout", "episodes", total_or_0, quiet);
 *	spar_progress_tick(&p, done, "step 3, 812 tok/s");   // cheap; prints at most 10 times a second / once in 10 s
 *	spar_progress_end(&p);                                // the last state, with a newline */
#ifndef SPAR_BASE_PROGRESS_H
#define SPAR_BASE_PROGRESS_H

#include "base/listener.h"
#include <stdbool.h>
#include <stdint.h>

struct spar_progress {
	const char *tool, *unit;
	uint64_t total, done; /* total 0: not known */
	double start_s, last_s;
	bool quiet, terminal, shown;
	char note[160];
};
void spar_progress_begin(struct spar_progress *p, const char *tool, const char *unit, uint64_t total, bool quiet);
void spar_progress_tick(struct spar_progress *p, uint64_t done, const char *note_fmt, ...);
void spar_progress_end(struct spar_progress *p);

/*! Warnings and progress of lib/ go to standard error through `p`, which is borrowed; warnings also when it is quiet. */
struct spar_listener spar_progress_listener(struct spar_progress *p);

#endif
