/* unigram.h - the Unigram model of a tokenizer.json: the way through a word whose tokens' log-probabilities have the
 * largest sum (Viterbi). Internal to lib/text; thread-safe once loaded, with a spar_unigram_work per thread. */
#ifndef SPAR_TEXT_UNIGRAM_H
#define SPAR_TEXT_UNIGRAM_H

#include "base/err.h"
#include "text/tokenizer.h"
#include "text/trie.h"
#include "text/vocab.h"
#include <jv.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spar_unigram {
	const struct spar_vocab *vocab; /* borrowed */
	struct spar_trie trie;
	double *scores;   /* (vocab->n) nats */
	double unk_score; /* of a character without a token: 10 nats below the least likely token */
	int32_t unk;      /* -1: none */
	bool byte_fallback;
};

/*! Load the "model" object (borrowed), filling `vocab` too. Release `u` also after a failure; it must start as {0}. */
int spar_unigram_load(struct spar_unigram *u, struct spar_vocab *vocab, jv model, struct spar_err *err);
void spar_unigram_release(struct spar_unigram *u);

/* Scratch of spar_unigram_word; starts as {0}. */
struct spar_unigram_work {
	struct spar_unigram_end *ends;
	size_t cap;
	struct spar_ids reversed;
};
void spar_unigram_work_release(struct spar_unigram_work *w);

/*! Append the ids of one word of n < 2^31 bytes (well-formed UTF-8). A stretch of unknown characters is one unk, or its
 *  bytes' tokens. SPAR_INPUT if there is neither. O(n times the longest token). */
int spar_unigram_word(const struct spar_unigram *u, struct spar_unigram_work *w, const char *word, size_t n,
		      struct spar_ids *out, struct spar_err *err);

#endif
