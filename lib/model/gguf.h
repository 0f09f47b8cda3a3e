/* gguf.h - reading GGUF files (versions 2 and 3, little-endian): metadata by key, tensors as float32. The file is mapped;
 * every length is checked against its end before it is followed.
 *
 *	struct spar_gguf *g;
 *	spar_gguf_open(&g, "model.gguf", &err);
 *	spar_gguf_u64(g, "llama.block_count", &n_layers, &err);
 *	spar_gguf_f32(spar_gguf_find(g, "token_embd.weight"), out, &err);
 *	spar_gguf_close(g);
 */
#ifndef SPAR_MODEL_GGUF_H
#define SPAR_MODEL_GGUF_H

#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct spar_gguf; /* opaque */

struct spar_gguf_text { /* bytes inside the file, no NUL behind them; borrowed from the file */
	const char *data;
	size_t len;
};

struct spar_gguf_tensor {
	struct spar_gguf_text name;
	uint32_t
	    type; /* the format's number; F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 and Q2_K to Q6_K are known */
	size_t rows, cols;   /* row-major; a vector has rows = its length and cols = 0, as in struct spar_param */
	const uint8_t *data; /* n_elements in blocks of the type */
	size_t n_elements;
};

int spar_gguf_open(struct spar_gguf **out, const char *path, struct spar_err *err);
void spar_gguf_close(struct spar_gguf *g); /* NULL is fine */

static inline bool spar_gguf_text_is(struct spar_gguf_text t, const char *s)
{
	return t.len == strlen(s) && !memcmp(t.data, s, t.len);
}

/* The keys of the metadata, sorted. Is the value 0 or false? */
size_t spar_gguf_n_keys(const struct spar_gguf *g);
struct spar_gguf_text spar_gguf_key(const struct spar_gguf *g, size_t i);
bool spar_gguf_is_zero(const struct spar_gguf *g, size_t i);

/* Metadata. SPAR_INPUT, naming the key, if it is absent or of another type. */
bool spar_gguf_has(const struct spar_gguf *g, const char *key);
int spar_gguf_u64(const struct spar_gguf *g, const char *key, uint64_t *out,
		  struct spar_err *err); /* any integer >= 0, bool */
int spar_gguf_double(const struct spar_gguf *g, const char *key, double *out, struct spar_err *err); /* finite */
int spar_gguf_str(const struct spar_gguf *g, const char *key, struct spar_gguf_text *out, struct spar_err *err);
/*! Arrays, malloc'ed, caller frees. */
int spar_gguf_strs(const struct spar_gguf *g, const char *key, struct spar_gguf_text **out, size_t *n,
		   struct spar_err *err);
int spar_gguf_doubles(const struct spar_gguf *g, const char *key, double **out, size_t *n, struct spar_err *err);
int spar_gguf_ints(const struct spar_gguf *g, const char *key, int32_t **out, size_t *n, struct spar_err *err);

size_t spar_gguf_count(const struct spar_gguf *g);
const struct spar_gguf_tensor *spar_gguf_find(const struct spar_gguf *g, const char *name); /* NULL: none */

/*! Undo the quantization: out (rows, cols). The arithmetic is the format's own, in float32, so values are exact. */
int spar_gguf_f32(const struct spar_gguf_tensor *t, float *out, struct spar_err *err);

#endif
