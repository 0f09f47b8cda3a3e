#include "record/jq.h"
#include "base/file.h"
#include "base/str.h"

#include <jq.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM_MAX ((size_t)1 << 20) /* bytes of a program file */
#define DRAIN_MAX 10000               /* further values looked at after the second */

struct spar_jq {
	jq_state *state;
	struct spar_str message; /* the first thing the compiler said */
	bool folded;             /* the compiler divided by zero: every run fails with `message` */
};

/* The compiler's messages: the first one counts, without its prefix and without the program's text. */
static void keep_message(void *data, jv message)
{
	struct spar_str *s = data;
	static const char prefix[] = "jq: error: ";
	if (jv_get_kind(message) == JV_KIND_STRING && !s->len) {
		const char *text = jv_string_value(message);
		if (!strncmp(text, prefix, sizeof prefix - 1))
			text += sizeof prefix - 1;
		size_t n = strcspn(text, "\n");
		spar_str_add(s, text, n && text[n - 1] == ':' ? n - 1 : n);
	}
	jv_free(message);
}

/* `input` finds nothing, as a program sees one record, and `debug` says nothing. libjq 1.6 would call a NULL pointer.
 */
static jv no_input(jq_state *state, void *data)
{
	(void)state;
	(void)data;
	return jv_invalid_with_msg(jv_string("no other input: a program sees one record"));
}

static void no_debug(void *data, jv message)
{
	(void)data;
	jv_free(message);
}

int spar_jq_new(struct spar_jq **out, const char *program, struct spar_err *err)
{
	struct spar_str source = SPAR_STR_INIT;
	struct spar_jq *jq = spar_calloc(1, sizeof *jq);
	int rc = 0;
	*out = NULL;
	spar_str_init(&jq->message);
	if (program[0] == '@')
		rc = spar_file_read(program + 1, PROGRAM_MAX, &source, err);
	else
		spar_str_adds(&source, program);
	if (rc == 0 && !(jq->state = jq_init()))
		rc = spar_fail(err, SPAR_FAIL, "no memory for jq");
	if (rc < 0)
		goto out;
	jq_set_error_cb(jq->state, keep_message, &jq->message);
	jq_set_input_cb(jq->state, no_input, NULL);
	jq_set_debug_cb(jq->state, no_debug, NULL);
	jq_set_attr(jq->state, jv_string("JQ_LIBRARY_PATH"), jv_array());
	if (!jq_compile(jq->state, source.data)) {
		jq->folded = strstr(jq->message.data, "Division by zero") != NULL;
		if (!jq->folded)
			rc = spar_fail(err, SPAR_USAGE, "%s", jq->message.data);
	}
out:
	spar_str_release(&source);
	if (rc < 0)
		spar_jq_free(jq);
	else
		*out = jq;
	return rc;
}

/* What an invalid value means: the end (0), or an error with any JSON value as its message. Consumes. */
static int end_or_error(jq_state *state, jv last, struct spar_err *err)
{
	int rc = 0;
	if (jq_halted(state))
		rc = spar_fail(err, SPAR_INPUT, "the program halted");
	if (!jv_invalid_has_msg(jv_copy(last))) {
		jv_free(last);
		return rc;
	}
	jv message = jv_invalid_get_msg(last);
	if (jv_get_kind(message) != JV_KIND_STRING)
		message = jv_dump_string(message, 0);
	rc = spar_fail(err, SPAR_INPUT, "%s", jv_string_value(message));
	jv_free(message);
	return rc;
}

int spar_jq_run(struct spar_jq *jq, jv input, jv *out, struct spar_err *err)
{
	*out = jv_invalid();
	if (jq->folded) {
		jv_free(input);
		return spar_fail(err, SPAR_INPUT, "%s", jq->message.data);
	}
	jq_start(jq->state, input, 0);
	jv first = jq_next(jq->state);
	if (!jv_is_valid(first))
		return end_or_error(jq->state, first, err);
	jv next;
	int n = 1;
	/* libjq 1.6 fails an assertion when it is reset between the values of path(..): let it come to its end. */
	while (jv_is_valid(next = jq_next(jq->state)) && n++ < DRAIN_MAX)
		jv_free(next);
	if (n > 1)
		jv_free(next);
	else if (end_or_error(jq->state, next, err) < 0)
		n = -SPAR_INPUT;
	if (n < 0)
		jv_free(first);
	else
		*out = first;
	return n > 2 ? 2 : n;
}

void spar_jq_free(struct spar_jq *jq)
{
	if (!jq)
		return;
	if (jq->state)
		jq_teardown(&jq->state);
	spar_str_release(&jq->message);
	free(jq);
}
