/* export_tokenizer.h - the tokenizer and chat template of a model folder as GGUF metadata. Internal to lib/model. */
#ifndef SPAR_MODEL_EXPORT_TOKENIZER_H
#define SPAR_MODEL_EXPORT_TOKENIZER_H

#include "model/gguf_write.h"
#include "model/model.h"

/*! Add the keys tokenizer.*. SPAR_INPUT, naming the file, for what they could not express. */
int spar_export_tokenizer(struct spar_gguf_head *h, const struct spar_model *m, struct spar_err *err);

#endif
