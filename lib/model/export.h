/* export.h - a model folder written as one GGUF file, for llama.cpp and what is built on it: weights (an adapter added),
 * the shape, tokenizer and chat template. The reverse of import.h. */
#ifndef SPAR_MODEL_EXPORT_H
#define SPAR_MODEL_EXPORT_H

#include "base/err.h"
#include "model/model.h"

/*! Matrices in `dtype` (F32, F16, BF16), vectors in float32. `m` must have its tokenizer's end token added (see
 *  spar_config_add_eos). What llama.cpp would not read as it is meant (a Gemma, sliding windows, rope scaling but Llama
 *  3's, a tokenizer that is no byte-level BPE or cuts text by a rule without a name) is SPAR_INPUT, naming it. The file appears only when whole. */
int spar_export_gguf(const struct spar_model *m, const char *path, enum spar_dtype dtype, struct spar_err *err);

#endif
