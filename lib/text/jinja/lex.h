/* lex.h - a template as tokens, whitespace already cut as transformers sets Jinja up: trim_blocks, lstrip_blocks, signs in
 * tags, raw blocks, no last newline. Internal to the template interpreter. */
#ifndef SPAR_TEXT_JINJA_LEX_H
#define SPAR_TEXT_JINJA_LEX_H

#include "base/err.h"
#include "base/str.h"
#include <stddef.h>

enum token_kind {
	T_TEXT,
	T_OPEN_OUTPUT,
	T_CLOSE_OUTPUT,
	T_OPEN_BLOCK,
	T_CLOSE_BLOCK,
	T_NAME,
	T_STRING, /* with its quotes */
	T_NUMBER,
	T_SIGN,
	T_END
};

struct token {
	enum token_kind kind;
	const char *s; /* into the text */
	size_t n, line;
};

struct tokens {
	struct spar_str text; /* the template with every line end as \n and without the last one */
	struct token *data;   /* a T_END at the end */
	size_t n, cap;
};

/*! SPAR_INPUT with "template:LINE: what". `t` must start as {0}; release it also after a failure. */
int tokens_read(struct tokens *t, const char *source, size_t n, struct spar_err *err);
void tokens_release(struct tokens *t);

#endif
