/* import_parts.h - what the files that import GGUF share; not for anyone else. */
#ifndef SPAR_MODEL_IMPORT_PARTS_H
#define SPAR_MODEL_IMPORT_PARTS_H

#include "base/str.h"
#include "model/gguf.h"

/*! Write tokenizer.json and tokenizer_config.json (whose model_max_length is `context`). */
int spar_import_text(const struct spar_gguf *g, uint64_t context, const char *dir, struct spar_err *err);

int spar_import_write(const char *dir, const char *name, const struct spar_str *s, struct spar_err *err);

#endif
