/* pattern.h - a pre-tokenizer's regular expression. Files are written for Oniguruma (Ruby syntax, Unicode classes);
 * here PCRE2 runs them. What both read alike passes; \s is spelt out, as the two disagree on U+180E; whatever they could
 * read differently, or PCRE2 does not know, is refused by name. Internal to lib/text. */
#ifndef SPAR_TEXT_PATTERN_H
#define SPAR_TEXT_PATTERN_H

#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/*! Compile n bytes of UTF-8; `literal`: a plain string to look for. NULL and SPAR_INPUT if it is refused. The caller
 *  frees with pcre2_code_free. */
pcre2_code *spar_pattern_compile(const char *pattern, size_t n, bool literal, struct spar_err *err);

/*! Find the first match in text[0..n) (well-formed UTF-8) at or after `from`. 1: [*begin, *end) set, 0: none, < 0: the
 *  match took more work than PCRE2's limits allow. */
int spar_pattern_find(const pcre2_code *code, pcre2_match_data *data, const char *text, size_t n, size_t from,
		      size_t *begin, size_t *end, struct spar_err *err);

#endif
