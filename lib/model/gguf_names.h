/* gguf_names.h - what GGUF calls things and how it lays them out, where it differs from Hugging Face's folders. Import and
 * export share it, so they are each other's inverse. */
#ifndef SPAR_MODEL_GGUF_NAMES_H
#define SPAR_MODEL_GGUF_NAMES_H

#include "model/config.h"
#include "model/gguf.h"
#include <jv.h>
#include <stdbool.h>

/* tokenizer.ggml.token_type */
enum spar_gguf_token_type {
	SPAR_GGUF_TOKEN_NORMAL = 1,
	SPAR_GGUF_TOKEN_CONTROL = 3, /* an added token that is special */
	SPAR_GGUF_TOKEN_USER = 4,    /* an added token that is not */
	SPAR_GGUF_TOKEN_UNUSED = 5,  /* a row of the embedding without a token */
};

/*! Name of the tensor that holds `p`: "blk.0.attn_q.weight". */
void spar_gguf_param_name(const struct spar_param *p, char *out, size_t size);

/* llama.cpp's name of an architecture, and what its files do differently from Hugging Face's. */
struct spar_gguf_architecture {
	const char *name, *model_type, *class;
	bool paired;   /* rows of q and k stand in pairs */
	bool plus_one; /* norms hold 1 + weight */
};
extern const struct spar_gguf_architecture spar_gguf_architectures[]; /* the last one has no name */

/* How text is cut before merging, and what goes with it: parts of a tokenizer.json, as JSON, by GGUF's name for the rule. */
struct spar_gguf_rule {
	const char *name, *pre_tokenizer, *normalizer;
	bool ignore_merges;
};
const struct spar_gguf_rule *spar_gguf_rule(struct spar_gguf_text name); /* NULL: not known */
/*! The rule with this pre_tokenizer (borrowed); NULL: it has no name. */
const struct spar_gguf_rule *spar_gguf_rule_of(jv pre_tokenizer);

/* Rows of q and k: the two halves of a head that turn together stand next to each other in a GGUF of architecture llama
 * (row 2i + part), and half a head apart in ours (row part * head_dim / 2 + i). from, to: (n_heads * head_dim, cols); a bias
 * has one column. */
void spar_gguf_pair_rows(const float *from, float *to, size_t n_heads, size_t head_dim, size_t cols);
void spar_gguf_unpair_rows(const float *from, float *to, size_t n_heads, size_t head_dim, size_t cols);

#endif
