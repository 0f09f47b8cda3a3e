/* pretok.h - the pre_tokenizer tree of a tokenizer.json, run step by step: text in, words out. Internal to lib/text. */
#ifndef SPAR_TEXT_PRETOK_H
#define SPAR_TEXT_PRETOK_H

#include "base/err.h"
#include "base/str.h"
#include "text/pattern.h"
#include <jv.h>
#include <stdbool.h>
#include <stddef.h>

/* Which neighbours a cut leaves together, by whether each of the two matched the pattern. */
enum spar_cut { SPAR_CUT_ISOLATED, SPAR_CUT_REMOVED, SPAR_CUT_WITH_PREVIOUS, SPAR_CUT_WITH_NEXT, SPAR_CUT_CONTIGUOUS };
/* Before which pieces the prefix is put, if they do not begin with it: none, the one the text begins with (whatever a
 * normalizer took away before it), all. */
enum spar_prefix { SPAR_PREFIX_NEVER, SPAR_PREFIX_FIRST, SPAR_PREFIX_ALWAYS };

/* Every kind of pre-tokenizer is a step of this kind; its parts are done in this order. */
struct spar_pretok_step {
	struct spar_str blank; /* is put in place of each blank (U+0020); empty: blanks stay */
	struct spar_str prefix;
	enum spar_prefix prefix_when;
	pcre2_code *pattern; /* NULL: no cut */
	enum spar_cut cut;
	bool invert; /* what the pattern does not match counts as its match */
};
struct spar_pretok {
	struct spar_pretok_step *steps;
	size_t n;
	bool byte_level; /* words are bytes, as the vocabulary is written in the byte-level alphabet */
};

/*! Load the "pre_tokenizer" object (borrowed; null: the text is one word): ByteLevel, Split, Digits, Metaspace, Whitespace,
 *  WhitespaceSplit, Punctuation, CharDelimiterSplit and Sequences of them, ByteLevel at the end. Anything else is refused by
 *  name. Release `p` also after a failure; it must start as {0}. */
int spar_pretok_load(struct spar_pretok *p, jv node, struct spar_err *err);
void spar_pretok_release(struct spar_pretok *p);

/* Called with each word, never empty. Returns < 0 to stop. */
typedef int spar_word_fn(void *ctx, const char *word, size_t n);

/* Scratch of spar_pretok_run: one for each step. */
struct spar_pretok_work {
	struct spar_pretok_scratch {
		pcre2_match_data *data;
		struct spar_str text;
	} * steps;
	size_t n;
};
void spar_pretok_work_init(struct spar_pretok_work *w, const struct spar_pretok *p);
void spar_pretok_work_release(struct spar_pretok_work *w);

/*! Call `word` for the words of text[0..n) (well-formed UTF-8) in order. `first`: the whole text begins here. */
int spar_pretok_run(const struct spar_pretok *p, struct spar_pretok_work *w, const char *text, size_t n, bool first,
		    spar_word_fn *word, void *ctx, struct spar_err *err);

#endif
