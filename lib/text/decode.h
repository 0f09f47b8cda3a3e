/* decode.h - the decoder of a tokenizer.json: tokens in, text out, step by step and token by token, so that a stream of
 * tokens gives the same text as all of them at once. Internal to lib/text; thread-safe with a spar_decode_state each. */
#ifndef SPAR_TEXT_DECODE_H
#define SPAR_TEXT_DECODE_H

#include "base/err.h"
#include "base/str.h"
#include "text/pattern.h"
#include "text/tokenizer.h"
#include <jv.h>
#include <stdbool.h>
#include <stddef.h>

struct spar_decoder {
	struct spar_decoder_step {
		const struct spar_decoder_kind *kind;
		struct spar_str text; /* Metaspace: the mark; Replace: what is put in; Strip: what goes */
		pcre2_code *pattern;  /* Replace */
		size_t start, stop;   /* Strip: how many at most at each end of a token */
		bool keeps_first;     /* Metaspace: the first token's marks are blanks too */
	} steps[SPAR_DECODE_STEPS];
	size_t n;
	bool byte_level;
};

/*! Load the "decoder" object (borrowed; null: tokens with a blank between them): ByteLevel, ByteFallback, Fuse, Metaspace,
 *  Replace, Strip and Sequences of them, at most SPAR_DECODE_STEPS. Anything else is refused by name. `byte_level`: tokens
 *  are kept as bytes, which a ByteLevel decoder, and no other, makes text of. Release `d` also after a failure. */
int spar_decoder_load(struct spar_decoder *d, jv node, bool byte_level, struct spar_err *err);
void spar_decoder_release(struct spar_decoder *d);

/*! Append what the next token adds to the text. `s` (a new detok): as it was left by the token before. */
void spar_decoder_feed(const struct spar_decoder *d, struct spar_detok *s, const char *token, size_t n,
		       struct spar_str *out);

#endif
