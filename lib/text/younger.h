/* younger.h - where the Unicode versions of tokenizers' libraries and of ours differ, so that ids are the same. Internal to
 * lib/text. */
#ifndef SPAR_TEXT_YOUNGER_H
#define SPAR_TEXT_YOUNGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Characters that came with Unicode 15.0, 15.1 and 16.0, by general category. PCRE2 before 10.45 does not know them, while
 * the reference implementation's pattern library does: patterns name them. Where PCRE2 knows them they change nothing. */
struct spar_younger {
	int32_t low, high; /* both included */
	char category[3];
};
extern const struct spar_younger spar_younger[]; /* by code point */
extern const size_t spar_n_younger;

/*! Did the character get a decomposition, a combining class or a composition after Unicode 9, at which the reference
 *  implementation's normalization tables stop? It is left as it is, and nothing combines over it. */
bool spar_char_has_younger_form(int32_t c);

/*! Does the character, which came with Unicode 16 or 17, make one user-perceived character with the one before? The
 *  reference implementation's tables know these marks, utf8proc's before 2.11 do not. */
bool spar_char_is_younger_mark(int32_t c);

#endif
