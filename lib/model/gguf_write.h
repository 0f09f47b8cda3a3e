/* gguf_write.h - writing GGUF files (version 3, little-endian), a tensor at a time.
 *
 *	struct spar_gguf_head h;
 *	spar_gguf_head_init(&h);
 *	spar_gguf_add_str(&h, "general.architecture", "llama", 5);
 *	spar_gguf_add_tensor(&h, "token_embd.weight", rows, cols, SPAR_BF16);   // of all tensors, then
 *	spar_gguf_write_head(&h, f);
 *	spar_gguf_write_f32(f, values, rows * cols, SPAR_BF16);                 // their data in the same order
 *	spar_gguf_head_release(&h);
 * Failures of writing are the stream's: spar_file_commit looks at them.
 */
#ifndef SPAR_MODEL_GGUF_WRITE_H
#define SPAR_MODEL_GGUF_WRITE_H

#include "base/str.h"
#include "model/safetensors.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct spar_gguf_head {
	struct spar_str pairs, tensors; /* as the file will have them */
	uint64_t n_pairs, n_tensors;
	uint64_t data_bytes; /* of the tensors so far, each padded */
};
void spar_gguf_head_init(struct spar_gguf_head *h);
void spar_gguf_head_release(struct spar_gguf_head *h);

/* Metadata; what is given is copied. */
void spar_gguf_add_u32(struct spar_gguf_head *h, const char *key, uint32_t v);
void spar_gguf_add_f32(struct spar_gguf_head *h, const char *key, float v);
void spar_gguf_add_bool(struct spar_gguf_head *h, const char *key, bool v);
void spar_gguf_add_str(struct spar_gguf_head *h, const char *key, const char *s, size_t len);
void spar_gguf_add_strs(struct spar_gguf_head *h, const char *key, const struct spar_str *s, size_t n);
void spar_gguf_add_i32s(struct spar_gguf_head *h, const char *key, const int32_t *v, size_t n);

/*! (rows, cols) row-major; cols 0: a vector. dtype F32, F16 or BF16. */
void spar_gguf_add_tensor(struct spar_gguf_head *h, const char *name, size_t rows, size_t cols, enum spar_dtype dtype);

void spar_gguf_write_head(const struct spar_gguf_head *h, FILE *f);
/*! Rounded to nearest even, and padded to the alignment. */
void spar_gguf_write_f32(FILE *f, const float *values, size_t n, enum spar_dtype dtype);

#endif
