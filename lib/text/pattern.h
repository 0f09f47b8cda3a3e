/* pattern.h - a pre-tokenizer's regular expression. Files are written for Oniguruma (Ruby syntax, Unicode classes);
 * here PCRE2 runs them. What both read alike passes; \s and \w are spelt out and scripts named as such, as the two differ
 * in what they mean; whatever else they could read differently, or PCRE2 does not know, is refused by name. Internal to lib/text. */
#ifndef SPAR_TEXT_PATTERN_H
#define SPAR_TEXT_PATTERN_H

#include "base/err.h"
#include <jv.h>
#include <stdbool.h>
#include <stddef.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/*! Compile n bytes of UTF-8; `literal`: a plain string to look for. NULL and SPAR_INPUT if it is refused. The caller
 *  frees with pcre2_code_free. */
pcre2_code *spar_pattern_compile(const char *pattern, size_t n, bool literal, struct spar_err *err);

/* What a text consists of: stretches s[0..n), those that match and those between, in order. Returns < 0 to stop. */
typedef int spar_stretch_fn(void *ctx, const char *s, size_t n, bool matched);

/*! Call `each` for every stretch of text[0..n) (well-formed UTF-8), empty matches included. < 0: what `each` returned, or
 *  the match took more work than PCRE2's limits allow. `data` is scratch, from pcre2_match_data_create(1, NULL). */
int spar_pattern_each(const pcre2_code *code, pcre2_match_data *data, const char *text, size_t n, spar_stretch_fn *each,
		      void *ctx, struct spar_err *err);

/*! Compile the {"String": s} or {"Regex": s} that stands in node.pattern. */
pcre2_code *spar_pattern_load(jv node, const char *path, struct spar_err *err);

#endif
