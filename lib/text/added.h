/* added.h - added_tokens of a tokenizer.json: markers that are found in the text whole, before any other rule.
 * Internal to lib/text. */
#ifndef SPAR_TEXT_ADDED_H
#define SPAR_TEXT_ADDED_H

#include "base/err.h"
#include "text/normalize.h"
#include "text/tokenizer.h"
#include "text/trie.h"
#include <jv.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spar_added_token {
	char *text; /* as written */
	size_t len;
	int32_t id;
	bool special;     /* left out of decoded text on request; stays text where SPAR_ENCODE_MARKERS does not reach */
	bool single_word; /* no match with a word character next to it */
	bool lstrip, rstrip; /* blanks before, behind go with it */
	bool normalized;     /* it and the text are normalized before it is looked for */
};

struct spar_added {
	struct spar_added_token *items; /* (n) in the order of the file */
	size_t n;
	struct spar_trie tries[2]; /* indices of items: of the text as it came, of normalized text */
	bool begins[2][256];       /* bytes one of them begins with */
};

/*! Load the "added_tokens" array of `root` (borrowed; absent: none). Release also after a failure; `a` must start as {0}. */
int spar_added_load(struct spar_added *a, jv root, const struct spar_normalizer *z, struct spar_err *err);
void spar_added_release(struct spar_added *a);

struct spar_added_match {
	const struct spar_added_token *token;
	size_t begin, end; /* with the blanks that go with it */
	size_t next;       /* where to look on */
};

/* What is looked for. Special markers must not touch `content` (NULL: nothing is content). */
struct spar_added_filter {
	bool normalized; /* tokens of the normalized text, or the others */
	bool special;    /* special markers too */
	const struct spar_spans *content;
};

/*! The leftmost, then longest token in text[0..n) at or after `from`; false: none. The blanks that go with it begin at or
 *  after `done`. */
bool spar_added_find(const struct spar_added *a, const struct spar_added_filter *filter, const char *text, size_t n,
		     size_t from, size_t done, struct spar_added_match *m);

#endif
