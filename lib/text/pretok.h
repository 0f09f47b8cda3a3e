/* pretok.h - pre-tokenizers: text cut into the pieces that BPE works on, as the tree in tokenizer.json says. */
#ifndef SPAR_TEXT_PRETOK_H
#define SPAR_TEXT_PRETOK_H

#include "base/err.h"
#include "text/tokenizer.h"
#include <jv.h>

struct spar_pretok; /* opaque */

/*! Build from tokenizer.json's "pre_tokenizer" (borrowed; null is fine). An unknown node or option: SPAR_INPUT, by name. */
int spar_pretok_new(struct spar_pretok **out, jv node, struct spar_err *err);
void spar_pretok_free(struct spar_pretok *p);

/*! Cut text (valid UTF-8) into pieces: sorted, covering it without gaps. Appends to `pieces`. */
int spar_pretok_run(const struct spar_pretok *p, const char *text, size_t n, struct spar_spans *pieces,
		    struct spar_err *err);

void spar_spans_add(struct spar_spans *v, size_t begin, size_t end);

#endif
