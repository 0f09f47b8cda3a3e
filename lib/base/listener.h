/* listener.h - whom a long-running part of lib/ tells how it goes: nothing there prints. A tool's listener is mostly
 * spar_progress_listener (progress.h). */
#ifndef SPAR_BASE_LISTENER_H
#define SPAR_BASE_LISTENER_H

#include "base/err.h"
#include <stdint.h>

struct spar_listener {
	void *ctx;
	void (*warn)(void *ctx, const char *text);                                    /* NULL: nobody listens */
	void (*progress)(void *ctx, uint64_t done, uint64_t total, const char *note); /* total 0: not known; or NULL */
};

void spar_listener_warn(const struct spar_listener *l, const char *fmt, ...) SPAR_PRINTF(2, 3);
void spar_listener_progress(const struct spar_listener *l, uint64_t done, uint64_t total, const char *fmt, ...)
    SPAR_PRINTF(4, 5);

#endif
