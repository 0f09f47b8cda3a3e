/* err.h - how spar reports that something went wrong.
 *
 * lib/ never exits and never prints: a function that can fail returns 0 (or a count) on success and a negative
 * number on failure, and has filled the caller's struct spar_err with one line fit to be shown to a person.
 * Only tools/ print that line and turn the code into an exit status.
 *
 *	struct spar_err err = {0};
 *	if (spar_reader_open(&r, path, &err) < 0)
 *		return spar_die("score", &err);         // prints "score: <message>", returns the exit code
 */
#ifndef SPAR_BASE_ERR_H
#define SPAR_BASE_ERR_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Exit codes of every tool: done, failed at run time, misused, bad input. */
enum spar_exit { SPAR_OK = 0, SPAR_FAIL = 1, SPAR_USAGE = 2, SPAR_INPUT = 3 };

struct spar_err {
	enum spar_exit code; /* SPAR_OK while nothing has failed */
	char msg[1024];      /* one line: "place: what", lower case, no full stop, no newline; cut if longer */
};

#if defined(__GNUC__)
#define SPAR_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define SPAR_PRINTF(f, a)
#endif

/*! Fill `err` (NULL is allowed) and return -(int)code. Control bytes in the message become '?'. A later failure
 *  overwrites an earlier one. */
int spar_fail(struct spar_err *err, enum spar_exit code, const char *fmt, ...) SPAR_PRINTF(3, 4);

/*! Put "prefix: " in front of the message already in `err`; returns -(int)err->code. For callers that know the place. */
int spar_fail_at(struct spar_err *err, const char *fmt, ...) SPAR_PRINTF(2, 3);

/*! Print "tool: message\n" on standard error and return the exit code (tools only). */
int spar_die(const char *tool, const struct spar_err *err);

/*! Print "tool: warning: ...\n" on standard error (tools only). */
void spar_warn(const char *tool, const char *fmt, ...) SPAR_PRINTF(2, 3);

/* Allocation that cannot be survived: print and abort. Small structures use these; a size that comes from input uses
 * malloc and reports. Freeing is plain free(). */
void *spar_malloc(size_t size);
void *spar_calloc(size_t n, size_t size);
void *spar_realloc(void *p, size_t size);
char *spar_strdup(const char *s);

#ifdef __cplusplus
}
#endif
#endif
