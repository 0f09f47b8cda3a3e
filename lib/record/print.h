/* print.h - all of standard output in one go, for tools that are no filters. Success is claimed only when it was flushed and closed
 * without error. */
#ifndef SPAR_RECORD_PRINT_H
#define SPAR_RECORD_PRINT_H

#include "base/err.h"
#include "base/str.h"

/*! The lines that next() makes. 1: `line`, which it clears, holds one; 0: there are no more; < 0: it failed. */
int spar_print_lines(int (*next)(void *ctx, struct spar_str *line, struct spar_err *err), void *ctx,
		     struct spar_err *err);

/*! A text; its last newline is added. */
int spar_print_text(const char *text, size_t n, struct spar_err *err);

#endif
