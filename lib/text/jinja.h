/* jinja.h - the part of Jinja2 that chat templates use, with transformers' settings: trim_blocks and lstrip_blocks on, one
 * trailing newline dropped. Statements: for (with if, else, loop.*, break, continue), if, set (also of blocks, through filters,
 * and of namespace attributes), macro, call, filter, with, generation, raw. Expressions: all operators, literals, slices, calls,
 * Jinja's filters (but random, pprint, filesizeformat, striptags, urlencode, urlize, wordwrap, xmlattr), tests and the methods
 * of strings, lists and dictionaries that the sandbox allows, namespace(), dict(), range(), strftime_now(), raise_exception().
 * Anything else stops with the template's line and its name. As in Python, dictionary views and generators are no lists, and
 * what is added to a string marked safe is escaped.
 *
 * Strings know which of their bytes came from outside (from variables given as such), so that a marker written by the
 * template can be told from the same bytes inside a message. */
#ifndef SPAR_TEXT_JINJA_H
#define SPAR_TEXT_JINJA_H

#include "base/err.h"
#include "base/str.h"
#include "text/tokenizer.h"
#include <jv.h>

struct spar_jinja; /* opaque: a parsed template */

/*! SPAR_INPUT with "template:LINE: what" when it does not parse. */
int spar_jinja_new(struct spar_jinja **out, const char *source, size_t n, struct spar_err *err);
void spar_jinja_free(struct spar_jinja *t);

/*! Render. `trusted` and `outside` are objects of variables (borrowed); strings reached through `outside` are marked. The
 *  text is appended to `out`, the marked bytes to `spans` (NULL: not wanted). Limits: 10^6 steps, 64 MiB of
 *  text, 256 MiB of values. A failure leaves both as they were. */
int spar_jinja_render(const struct spar_jinja *t, jv trusted, jv outside, struct spar_str *out,
		      struct spar_spans *spans, struct spar_err *err);

#endif
