/* import.h - a GGUF file made into a Hugging Face folder: config, weights in float32 or rounded once to bfloat16, tokenizer
 * and chat template. Architectures: those of the table in import.c. Tokenizers: SentencePiece BPE, and byte-level BPE with
 * the splitting rules named in gguf_names.c. */
#ifndef SPAR_MODEL_IMPORT_H
#define SPAR_MODEL_IMPORT_H

#include "base/err.h"
#include "model/gguf.h"
#include "model/safetensors.h"

/*! Write into `dir`, which exists and is empty. What the folder could not express (another architecture, a key that is
 *  on and not known, an unknown pre-tokenizer, a tensor without a place) is SPAR_INPUT, naming it. */
int spar_import_gguf(const struct spar_gguf *g, const char *dir, enum spar_dtype dtype, struct spar_err *err);

#endif
