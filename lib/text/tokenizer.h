/* tokenizer.h - tokenizer.json, interpreted step by step: normalizer, pre-tokenizer, BPE or Unigram model, post-processor,
 * decoder, added tokens. An unknown node or option stops with its name; no rule is ever guessed. Ids are the truth; text is a
 * view.
 *
 *	struct spar_tokenizer *t;
 *	spar_tokenizer_load(&t, "model/", &err);          // the folder: tokenizer.json and tokenizer_config.json
 *	spar_tokenizer_encode(t, text, n, NULL, SPAR_ENCODE_MARKERS, &ids, &err);
 *	spar_tokenizer_decode(t, ids.data, ids.n, SPAR_DECODE_SKIP_SPECIAL, &str);
 * Thread-safe once loaded (encode keeps its state on the stack and in the caller's vectors).
 */
#ifndef SPAR_TEXT_TOKENIZER_H
#define SPAR_TEXT_TOKENIZER_H

#include "base/err.h"
#include "base/str.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spar_tokenizer; /* opaque */

struct spar_ids { /* a growing vector of token ids; release with free(ids.data) */
	int32_t *data;
	size_t n, cap;
};
void spar_ids_add(struct spar_ids *v, const int32_t *ids, size_t n);

/* A stretch of text that came from outside (message content): bytes [begin, end). Sorted, not overlapping. */
struct spar_span {
	size_t begin, end;
};
struct spar_spans {
	struct spar_span *data;
	size_t n, cap;
};
void spar_spans_add(struct spar_spans *v, size_t begin, size_t end);

enum spar_encode_flags {
	SPAR_ENCODE_MARKERS = 1, /* special added tokens in the text become their ids (rendered templates) */
	SPAR_ENCODE_ADD =
	    2, /* apply the post-processor (BOS and the like): for raw prompts, never for rendered chats */
};
enum spar_decode_flags { SPAR_DECODE_SKIP_SPECIAL = 1 };

int spar_tokenizer_load(struct spar_tokenizer **out, const char *dir, struct spar_err *err);
void spar_tokenizer_free(struct spar_tokenizer *t);

/*! Append the ids of `text`. A character for which a BPE vocabulary has neither a token nor an unk_token is left out, as
 *  in the reference implementation. With `content` spans, a special marker that touches such a span stays plain text (B04);
 *  NULL: none. Text that is not UTF-8 is read with U+FFFD in place of bad parts. */
int spar_tokenizer_encode(const struct spar_tokenizer *t, const char *text, size_t n, const struct spar_spans *content,
			  int flags, struct spar_ids *out, struct spar_err *err);

/*! Append the text of `ids`. An id beyond the tokenizer has no text and is skipped (the caller checks with _size).
 *  Bytes that are not UTF-8 are appended as they are: make JSON of them with spar_str_add_json. The clean-up rule of
 *  tokenizer_config is never applied to BPE models (B05). */
void spar_tokenizer_decode(const struct spar_tokenizer *t, const int32_t *ids, size_t n, int flags,
			   struct spar_str *out);

/* Streaming: feed ids one at a time; only whole characters come out, together the text that _decode gives. Initialise with
 * {0}; _end when done. */
#define SPAR_DECODE_STEPS 8
struct spar_detok {
	struct spar_str pending;
	bool begun;
	struct spar_detok_step { /* what a step of the decoder remembers */
		bool begun;
		size_t count, held;
	} steps[SPAR_DECODE_STEPS];
};
void spar_detok_feed(const struct spar_tokenizer *t, struct spar_detok *d, int32_t id, int flags, struct spar_str *out);
void spar_detok_end(struct spar_detok *d, struct spar_str *out); /* what is left, as it is */

size_t spar_tokenizer_size(const struct spar_tokenizer *t);               /* highest id + 1 */
int32_t spar_tokenizer_id(const struct spar_tokenizer *t, const char *s); /* of an exact token, -1: none */
bool spar_tokenizer_is_special(const struct spar_tokenizer *t, int32_t id);
int32_t spar_tokenizer_eos(const struct spar_tokenizer *t); /* from tokenizer_config.json; -1: none */
int32_t spar_tokenizer_bos(const struct spar_tokenizer *t);

#endif
