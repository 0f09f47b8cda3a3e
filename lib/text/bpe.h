/* bpe.h - the BPE model of a tokenizer.json with a byte-level alphabet: tokens are byte strings, a word is merged by rank.
 * Internal to lib/text; thread-safe once loaded, with a spar_bpe_work per thread. */
#ifndef SPAR_TEXT_BPE_H
#define SPAR_TEXT_BPE_H

#include "base/err.h"
#include "base/str.h"
#include "text/tokenizer.h"
#include <jv.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPAR_TOKEN_MAX ((int32_t)1 << 24) /* ids lie below: a damaged file must not ask for the whole memory */

struct spar_bpe {
	struct spar_str bytes; /* every token's bytes, one token behind the other */
	struct spar_bpe_token {
		size_t begin, len;
		bool there;      /* ids may have holes */
		bool byte_level; /* written in the byte-level alphabet: what words are made of */
	} * tokens;
	size_t n_tokens;  /* highest id + 1 */
	int32_t *by_text; /* hash table of ids of byte-level tokens, -1: free */
	size_t n_by_text;
	struct spar_bpe_merge {
		uint64_t pair; /* left id << 32 | right id; UINT64_MAX: free */
		uint32_t rank;
		int32_t id;
	} * merges; /* hash table */
	size_t n_merges;
	int32_t of_byte[256]; /* token of each byte, -1: none */
	int32_t unk;          /* stands for bytes that have no token; -1: they are left out, as the reference does */
	bool fuse_unk, ignore_merges;
};

/*! Load the "model" object (borrowed). Release `b` also after a failure; it must start as {0}. */
int spar_bpe_load(struct spar_bpe *b, jv model, struct spar_err *err);
void spar_bpe_release(struct spar_bpe *b);

/* Scratch of spar_bpe_word; starts as {0}. */
struct spar_bpe_work {
	struct spar_bpe_symbol *symbols;
	uint64_t *heap;
	size_t cap, n_heap;
};
void spar_bpe_work_release(struct spar_bpe_work *w);

/*! Append the ids of one word of n < 2^31 bytes. O(n log n). */
void spar_bpe_word(const struct spar_bpe *b, struct spar_bpe_work *w, const char *word, size_t n, struct spar_ids *out);

/*! Id of the token with exactly these bytes, -1: none. */
int32_t spar_bpe_id(const struct spar_bpe *b, const char *bytes, size_t n);

#endif
