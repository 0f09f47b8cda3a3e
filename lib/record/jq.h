/* jq.h - jq programs over records (libjq 1.6). */
#ifndef SPAR_RECORD_JQ_H
#define SPAR_RECORD_JQ_H

#include "base/err.h"
#include <jv.h>
#include <stddef.h>

struct spar_jq; /* opaque; not thread-safe */

/*! `program` is jq source, or "@FILE" to read it from a file. SPAR_USAGE with jq's own message if it does not compile;
 *  an error that the compiler itself folds (1/0) counts as one at run time, not here, as far as libjq lets us. */
int spar_jq_new(struct spar_jq **out, const char *program, struct spar_err *err);

/* Inside a program `input` is an error and `debug` says nothing. libjq 1.6 itself aborts on dates far outside the
 * calendar (1e18|todate) and never ends on gsub("";"x"): nothing here can help that. */

/*! Run on `input` (a NEW reference, consumed). *out: the first value (caller jv_free's), invalid if none came.
 *  Returns the number of values (0, 1, 2 = two or more), or < 0 with jq's run-time message. */
int spar_jq_run(struct spar_jq *jq, jv input, jv *out, struct spar_err *err);

void spar_jq_free(struct spar_jq *jq);

#endif
