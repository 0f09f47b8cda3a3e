/* added.h - added_tokens of a tokenizer.json: markers that are found in the text whole, before any other rule.
 * Internal to lib/text. */
#ifndef SPAR_TEXT_ADDED_H
#define SPAR_TEXT_ADDED_H

#include "base/err.h"
#include "text/tokenizer.h"
#include <jv.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spar_added_token {
	char *text; /* as written; as normalized when `normalized` */
	size_t len;
	int32_t id;
	bool special;     /* left out of decoded text on request; stays text where SPAR_ENCODE_MARKERS does not reach */
	bool single_word; /* no match with a word character next to it */
	bool lstrip, rstrip; /* blanks before, behind go with it */
	bool normalized;     /* looked for in normalized text */
};

struct spar_added {
	struct spar_added_token *items; /* by first byte, then longest first */
	size_t n;
	size_t first[257]; /* items that begin with byte c: [first[c], first[c + 1]) */
};

/*! Load the "added_tokens" array of `root` (borrowed; absent: none). `normalize`: utf8proc options, or -1.
 *  Release also after a failure; `a` must start as {0}. */
int spar_added_load(struct spar_added *a, jv root, int normalize, struct spar_err *err);
void spar_added_release(struct spar_added *a);

struct spar_added_match {
	const struct spar_added_token *token;
	size_t begin, end; /* with the blanks that go with it */
};

/* What is looked for. Special markers must not touch `content` (NULL: nothing is content). */
struct spar_added_filter {
	bool normalized; /* tokens of the normalized text, or the others */
	bool special;    /* special markers too */
	const struct spar_spans *content;
};

/*! The leftmost, then longest token in text[0..n) at or after `from`; false: none. */
bool spar_added_find(const struct spar_added *a, const struct spar_added_filter *filter, const char *text, size_t n,
		     size_t from, struct spar_added_match *m);

#endif
