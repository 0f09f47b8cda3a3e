/* marked.h - text in the making whose bytes know whether they came from outside: what a template renders, what a
 * normalizer changes. Internal to lib/text.
 *
 *	struct spar_marked m = SPAR_MARKED_INIT;
 *	spar_marked_add(&m, "<u>", 3, false);
 *	spar_marked_slice(&m, text, &marks, begin, end);    // with the marks that lie in it
 *	spar_marked_release(&m);
 */
#ifndef SPAR_TEXT_MARKED_H
#define SPAR_TEXT_MARKED_H

#include "base/str.h"
#include "text/tokenizer.h"
#include <stdbool.h>
#include <stddef.h>

struct spar_marked {
	struct spar_str text;
	struct spar_spans marks;
};
/* clang-format off */
#define SPAR_MARKED_INIT {SPAR_STR_INIT, {NULL, 0, 0}}
/* clang-format on */

void spar_marked_add(struct spar_marked *m, const char *s, size_t n, bool marked);

/*! Append text[begin..end) with what `marks` (of that text; NULL: none) say about it. O(end - begin + log n marks). */
void spar_marked_slice(struct spar_marked *m, const char *text, const struct spar_spans *marks, size_t begin,
		       size_t end);
void spar_marked_clear(struct spar_marked *m);
void spar_marked_release(struct spar_marked *m); /* leaves it empty */

/*! The first span that ends behind `at`; marks->n: none. */
size_t spar_spans_from(const struct spar_spans *marks, size_t at);
/*! Does [begin, end) share a byte with a span? NULL: no spans. */
bool spar_spans_touch(const struct spar_spans *marks, size_t begin, size_t end);

#endif
