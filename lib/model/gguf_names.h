/* gguf_names.h - what GGUF calls things and how it lays them out, where it differs from Hugging Face's folders. Import and
 * export share it, so they are each other's inverse. */
#ifndef SPAR_MODEL_GGUF_NAMES_H
#define SPAR_MODEL_GGUF_NAMES_H

#include "model/config.h"
#include "model/gguf.h"
#include <jv.h>

/* tokenizer.ggml.token_type */
enum spar_gguf_token_type {
	SPAR_GGUF_TOKEN_NORMAL = 1,
	SPAR_GGUF_TOKEN_CONTROL = 3, /* an added token that is special */
	SPAR_GGUF_TOKEN_USER = 4,    /* an added token that is not */
	SPAR_GGUF_TOKEN_UNUSED = 5,  /* a row of the embedding without a token */
};

/*! Name of the tensor that holds `p`: "blk.0.attn_q.weight". */
void spar_gguf_param_name(const struct spar_param *p, char *out, size_t size);

/*! How text is cut before merging, as "pre_tokenizer" of a tokenizer.json, by GGUF's name for the rule; NULL: not known. */
const char *spar_gguf_pre_tokenizer(struct spar_gguf_text name);
/*! The reverse: the name of the rule `pre_tokenizer` (borrowed); NULL: it has none. */
const char *spar_gguf_pre_name(jv pre_tokenizer);

/* Rows of q and k: the two halves of a head that turn together stand next to each other in a GGUF of architecture llama
 * (row 2i + part), and half a head apart in ours (row part * head_dim / 2 + i). from, to: (n_heads * head_dim, cols); a bias
 * has one column. */
void spar_gguf_pair_rows(const float *from, float *to, size_t n_heads, size_t head_dim, size_t cols);
void spar_gguf_unpair_rows(const float *from, float *to, size_t n_heads, size_t head_dim, size_t cols);

#endif
