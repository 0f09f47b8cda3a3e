/* bpe.h - the BPE model of a tokenizer.json: a word becomes characters (bytes under a byte-level vocabulary), then pairs
 * of them are merged by rank. Internal to lib/text; thread-safe once loaded, with a spar_bpe_work per thread. */
#ifndef SPAR_TEXT_BPE_H
#define SPAR_TEXT_BPE_H

#include "base/err.h"
#include "text/tokenizer.h"
#include "text/vocab.h"
#include <jv.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spar_bpe {
	const struct spar_vocab *vocab; /* borrowed */
	struct spar_bpe_merge {
		uint64_t pair; /* left id << 32 | right id; UINT64_MAX: free */
		uint32_t rank;
		int32_t id;
	} * merges; /* hash table, a power of two */
	size_t n_merges;
	uint8_t *inside; /* a bit for each (hashed) pair of characters that stand side by side in some token */
	int32_t unk;     /* stands for characters that have no token; -1: they are left out, as the reference does */
	bool fuse_unk, ignore_merges, byte_fallback;
};

/*! Load the "model" object (borrowed), filling `vocab` too. Release `b` also after a failure; it must start as {0}. */
int spar_bpe_load(struct spar_bpe *b, struct spar_vocab *vocab, jv model, struct spar_err *err);
void spar_bpe_release(struct spar_bpe *b);

/* Scratch of spar_bpe_word; starts as {0}. */
struct spar_bpe_work {
	struct spar_bpe_symbol *symbols;
	uint64_t *heap;
	size_t n, cap, n_heap, heap_cap;
};
void spar_bpe_work_release(struct spar_bpe_work *w);

/*! Append the ids of one word of n < 2^31 bytes (well-formed UTF-8). O(n log m), m being the longest stretch of it
 *  inside which tokens can reach over any character. */
void spar_bpe_word(const struct spar_bpe *b, struct spar_bpe_work *w, const char *word, size_t n, struct spar_ids *out);

#endif
