/* bpe.h - byte-level byte-pair encoding (Sennrich et al. 2016; the byte alphabet is GPT-2's): a vocabulary and ranked merges.
 * Tokens are held as raw bytes. */
#ifndef SPAR_TEXT_BPE_H
#define SPAR_TEXT_BPE_H

#include "base/err.h"
#include "text/tokenizer.h"
#include <jv.h>

struct spar_bpe; /* opaque */

/*! From tokenizer.json's "model" (borrowed). Options that would change ids and are not done are refused by name. */
int spar_bpe_new(struct spar_bpe **out, jv model, struct spar_err *err);
void spar_bpe_free(struct spar_bpe *b);

/*! Append the ids of one pre-token (n >= 1 bytes). Time n log n. */
int spar_bpe_encode(const struct spar_bpe *b, const char *piece, size_t n, struct spar_ids *out, struct spar_err *err);

/*! Bytes of a token, NULL if there is no such id. */
const char *spar_bpe_bytes(const struct spar_bpe *b, int32_t id, size_t *n);
/*! Id of the token that is written `text` in the file, -1: none. */
int32_t spar_bpe_find(const struct spar_bpe *b, const char *text, size_t n);
size_t spar_bpe_size(const struct spar_bpe *b); /* highest id + 1 */

#endif
