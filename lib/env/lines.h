/* lines.h - the lines of the environment protocol as they come out of a file descriptor: at most 1 MiB each, memory
 * bounded, never waiting for more than one read. Used by both ends.
 *
 *	struct spar_lines in = SPAR_LINES_INIT;
 *	while ((rc = spar_lines_next(&in, &line, &n)) || spar_lines_fill(&in, fd) > 0) ...
 */
#ifndef SPAR_ENV_LINES_H
#define SPAR_ENV_LINES_H

#include "base/str.h"
#include <jv.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define SPAR_LINES_MAX ((size_t)1 << 20) /* bytes of a line, without its newline */

struct spar_lines {
	struct spar_str buf;
	size_t pos;    /* where the next line starts */
	size_t seen;   /* no newline before here */
	bool skipping; /* inside a line that was too long */
	bool ended;    /* end of input: what is left is a line too */
};
#define SPAR_LINES_INIT \
	{ \
		SPAR_STR_INIT, 0, 0, false, false \
	}

/*! One read(2), appended. > 0: bytes read; 0: the end; < 0: failed or nothing there yet (errno; EINTR is retried). */
ssize_t spar_lines_fill(struct spar_lines *l, int fd);

/*! Next line that is not blank, without newline. 1: *line and *n are set, valid until the next fill; 0: not there yet;
 *  -1: a line was too long; what is left of it will be skipped. */
int spar_lines_next(struct spar_lines *l, const char **line, size_t *n);

/*! JSON text that spar_json_skip let pass, as a value (a NEW reference). An escaped high surrogate without its partner,
 *  which the grammar allows and libjq refuses, is read as U+FFFD. */
jv spar_lines_value(const char *json, size_t n);

/*! A line as the JSON object it must be (RFC 8259, UTF-8, nothing after it). A NEW reference, or jv_invalid() with
 *  *what set to a short reason. */
jv spar_lines_object(const char *line, size_t n, const char **what);

void spar_lines_release(struct spar_lines *l);

#endif
