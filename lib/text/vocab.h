/* vocab.h - the tokens of a tokenizer.json as byte strings, by id and by text. Under a ByteLevel pre-tokenizer a token is
 * written with a printable character for each byte, and is kept as those bytes. Internal to lib/text; thread-safe once
 * indexed. */
#ifndef SPAR_TEXT_VOCAB_H
#define SPAR_TEXT_VOCAB_H

#include "base/err.h"
#include "base/str.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPAR_TOKEN_MAX ((int32_t)1 << 24) /* ids lie below: a damaged file must not ask for the whole memory */

struct spar_vocab {
	bool byte_level;       /* set before the first token is added */
	struct spar_str bytes; /* every token's bytes, one token behind the other */
	struct spar_vocab_token {
		size_t begin, len;
		bool there;    /* ids may have holes */
		bool in_words; /* words are made of it: all but what a byte-level file writes in another way */
	} * tokens;
	size_t n, cap;    /* highest id + 1 */
	int32_t *by_text; /* hash table of ids of tokens in words, -1: free; a power of two */
	size_t n_by_text;
	int32_t of_byte[256]; /* byte-level: the token of each byte; else of <0x00> to <0xFF>. -1: none */
};

/*! Token `s` as written in the file. SPAR_INPUT if the id was given before. `v` must start as {0}, bytes initialised. */
int spar_vocab_add(struct spar_vocab *v, const char *s, size_t n, int32_t id, struct spar_err *err);
void spar_vocab_index(struct spar_vocab *v); /* after the last one: of equal tokens the highest id counts */
void spar_vocab_release(struct spar_vocab *v);

/*! Id of the token in words with exactly these bytes, -1: none. */
int32_t spar_vocab_id(const struct spar_vocab *v, const char *bytes, size_t n);

/*! Append a token as written to `out`, as bytes; false, and nothing appended, if it is not of the byte-level alphabet
 *  (every token that is not empty passes when the vocabulary is not byte-level). */
bool spar_vocab_read(const struct spar_vocab *v, const char *s, size_t n, struct spar_str *out);

#endif
