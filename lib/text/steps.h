/* steps.h - a part of tokenizer.json is a node with a "type", or a Sequence of such nodes. Internal to lib/text. */
#ifndef SPAR_TEXT_STEPS_H
#define SPAR_TEXT_STEPS_H

#include "base/err.h"
#include <jv.h>

typedef int spar_step_fn(void *ctx, jv node, const char *type, struct spar_err *err);

/*! Call `load` for `node` (borrowed), or for each node of a Sequence in its order, Sequences within included; not at all
 *  when it is null. `list` is the key of a Sequence's array. Stops at the first result < 0 and returns it. */
int spar_steps_load(jv node, const char *path, const char *list, spar_step_fn *load, void *ctx, struct spar_err *err);

#endif
