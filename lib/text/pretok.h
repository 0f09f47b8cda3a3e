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

struct spar_pretok {
	struct spar_pretok_step {
		bool prefix_space;   /* put a blank before each piece that has none */
		pcre2_code *pattern; /* NULL: no cut */
		enum spar_cut cut;
		bool invert; /* what the pattern does not match counts as its match */
	} * steps;
	size_t n;
};

/*! Load the "pre_tokenizer" object (borrowed): ByteLevel, Digits, Split and Sequences of them that end in ByteLevel.
 *  Anything else is refused by name. Release `p` also after a failure; it must start as {0}. */
int spar_pretok_load(struct spar_pretok *p, jv node, struct spar_err *err);
void spar_pretok_release(struct spar_pretok *p);

/* Text in pieces: piece i is text[ends[i-1] .. ends[i]), never empty. */
struct spar_pieces {
	struct spar_str text;
	size_t *ends;
	size_t n, cap;
};
void spar_pieces_release(struct spar_pieces *p);

/*! Cut `text` (well-formed UTF-8) into pieces[0]; pieces[1] is scratch. Both must be initialised. */
int spar_pretok_run(const struct spar_pretok *p, const char *text, size_t n, struct spar_pieces pieces[2],
		    struct spar_err *err);

#endif
