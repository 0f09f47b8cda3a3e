/* postproc.h - the post_processor of a tokenizer.json: ids that are put around a text on request. Internal to lib/text. */
#ifndef SPAR_TEXT_POSTPROC_H
#define SPAR_TEXT_POSTPROC_H

#include "base/err.h"
#include "text/tokenizer.h"
#include <jv.h>

struct spar_postproc {
	struct spar_ids before, behind;
};

/*! Load the "post_processor" object (borrowed; null: nothing is added): TemplateProcessing (its "single"), ByteLevel (which
 *  moves offsets, not ids) and Sequences of them. Anything else is refused by name. Release `p` also after a failure; it
 *  must start as {0}. */
int spar_postproc_load(struct spar_postproc *p, jv node, struct spar_err *err);
void spar_postproc_release(struct spar_postproc *p);

#endif
