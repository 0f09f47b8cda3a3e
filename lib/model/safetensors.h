/* safetensors.h - reading (mapped, every header rule checked: cases B32) and writing. */
#ifndef SPAR_MODEL_SAFETENSORS_H
#define SPAR_MODEL_SAFETENSORS_H

#include "base/err.h"
#include "base/file.h"
#include <stddef.h>
#include <stdint.h>

enum spar_dtype { SPAR_F32, SPAR_F16, SPAR_BF16, SPAR_F64, SPAR_I64, SPAR_I32, SPAR_U8, SPAR_N_DTYPES };
size_t spar_dtype_size(enum spar_dtype t);
const char *spar_dtype_name(enum spar_dtype t); /* "F32", "BF16", ... */

struct spar_tensor_view {
	const char *name; /* borrowed from the file */
	enum spar_dtype dtype;
	size_t shape[8];
	int n_dims;
	const void *data; /* borrowed; little-endian, maybe not aligned */
	size_t n_bytes, n_elements;
};

struct spar_safetensors; /* opaque: one file, or a sharded set with its index */

/*! A file, or a folder holding model.safetensors or model.safetensors.index.json. SPAR_INPUT, with the path and what is
 *  wrong, for anything that is not exactly what the format asks for; reading stays inside the file whatever it says. */
int spar_safetensors_open(struct spar_safetensors **out, const char *path, struct spar_err *err);
void spar_safetensors_close(struct spar_safetensors *s);
/*! Give back the memory that reading took; what is read later comes from the files again. `s` may be NULL. */
void spar_safetensors_leave(const struct spar_safetensors *s);
size_t spar_safetensors_count(const struct spar_safetensors *s);
/*! Sorted by name. */
const struct spar_tensor_view *spar_safetensors_at(const struct spar_safetensors *s, size_t i);
const struct spar_tensor_view *spar_safetensors_find(const struct spar_safetensors *s,
						     const char *name); /* NULL: none */
/*! Value of a __metadata__ key, or NULL. */
const char *spar_safetensors_meta(const struct spar_safetensors *s, const char *key);

/*! Convert a view (F32, F16, BF16, F64) into floats. */
int spar_tensor_view_f32(const struct spar_tensor_view *v, float *out, struct spar_err *err);

/*! Write a file (temporary name, sync, rename). Tensors in the given order; the data part begins at a multiple of 8 and
 * has no holes, so tensors of one dtype are aligned. Sizes come from dtype and shape; n_bytes and n_elements are not
 * looked at. `meta` is NULL or a NULL-terminated list key, value, key, value, ... A view's `data` may be float32 while
 * `dtype` says BF16 or F16 only if `from_f32` is set: then values are rounded to nearest even while writing. */
int spar_safetensors_write(const char *path, const struct spar_tensor_view *tensors, size_t n, const char *const *meta,
			   int from_f32, struct spar_err *err);

#define SPAR_SHARD_BYTES ((size_t)5000000000) /* of a checkpoint's files: Hugging Face's usual size */
/*! Write model.safetensors into `dir`; of tensors that take more than `limit` bytes together, files of at most that (a larger
 *  tensor has one to itself) with model.safetensors.index.json. The rest as above. */
int spar_safetensors_write_folder(const char *dir, const struct spar_tensor_view *tensors, size_t n,
				  const char *const *meta, int from_f32, size_t limit, struct spar_err *err);

#endif
