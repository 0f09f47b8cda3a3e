/* normalize.h - the normalizer of a tokenizer.json, run step by step over marked text. Internal to lib/text. */
#ifndef SPAR_TEXT_NORMALIZE_H
#define SPAR_TEXT_NORMALIZE_H

#include "base/err.h"
#include "text/charsmap.h"
#include "text/marked.h"
#include "text/pattern.h"
#include <jv.h>
#include <stdbool.h>
#include <stddef.h>

struct spar_normalizer {
	struct spar_normalizer_step {
		const struct spar_normalizer_kind *kind;
		int form;                 /* NFC ..: utf8proc options */
		struct spar_str put;      /* Prepend, Replace: what is put in */
		pcre2_code *pattern;      /* Replace */
		bool left, right;         /* Strip */
		struct spar_charsmap map; /* Precompiled */
	} * steps;
	size_t n;
};

/*! Load the "normalizer" object (borrowed; null: none): NFC, NFD, NFKC, NFKD, Prepend, Replace, Lowercase, Strip, StripAccents,
 *  Precompiled and Sequences of them. Anything else is refused by name. Release `z` also after a failure; it must start as {0}. */
int spar_normalizer_load(struct spar_normalizer *z, jv node, struct spar_err *err);
void spar_normalizer_release(struct spar_normalizer *z);

/*! Change `text` (well-formed UTF-8) in place. What a step makes of marked bytes is marked. */
int spar_normalizer_run(const struct spar_normalizer *z, struct spar_marked *text, struct spar_err *err);

#endif
