/* gguf_write.c - see gguf_write.h */
#include "model/gguf_write.h"
#include "base/half.h"
#include <string.h>

#define ALIGNMENT 32 /* the format's, unless general.alignment says otherwise */

enum { VALUE_U32 = 4, VALUE_I32 = 5, VALUE_F32 = 6, VALUE_BOOL = 7, VALUE_STRING = 8, VALUE_ARRAY = 9 };

void spar_gguf_head_init(struct spar_gguf_head *h)
{
	*h = (struct spar_gguf_head){0};
	spar_str_init(&h->pairs);
	spar_str_init(&h->tensors);
}

void spar_gguf_head_release(struct spar_gguf_head *h)
{
	spar_str_release(&h->pairs);
	spar_str_release(&h->tensors);
}

/* ---- metadata ---- */

static void put_u32(struct spar_str *s, uint32_t v)
{
	spar_str_add(s, &v, sizeof v);
}

static void put_u64(struct spar_str *s, uint64_t v)
{
	spar_str_add(s, &v, sizeof v);
}

static void put_text(struct spar_str *s, const char *text, size_t len)
{
	put_u64(s, len);
	spar_str_add(s, text, len);
}

static void begin_pair(struct spar_gguf_head *h, const char *key, uint32_t type)
{
	put_text(&h->pairs, key, strlen(key));
	put_u32(&h->pairs, type);
	h->n_pairs++;
}

static void begin_array(struct spar_gguf_head *h, const char *key, uint32_t item_type, size_t n)
{
	begin_pair(h, key, VALUE_ARRAY);
	put_u32(&h->pairs, item_type);
	put_u64(&h->pairs, n);
}

void spar_gguf_add_u32(struct spar_gguf_head *h, const char *key, uint32_t v)
{
	begin_pair(h, key, VALUE_U32);
	put_u32(&h->pairs, v);
}

void spar_gguf_add_f32(struct spar_gguf_head *h, const char *key, float v)
{
	begin_pair(h, key, VALUE_F32);
	spar_str_add(&h->pairs, &v, sizeof v);
}

void spar_gguf_add_bool(struct spar_gguf_head *h, const char *key, bool v)
{
	begin_pair(h, key, VALUE_BOOL);
	spar_str_addc(&h->pairs, v);
}

void spar_gguf_add_str(struct spar_gguf_head *h, const char *key, const char *s, size_t len)
{
	begin_pair(h, key, VALUE_STRING);
	put_text(&h->pairs, s, len);
}

void spar_gguf_add_strs(struct spar_gguf_head *h, const char *key, const struct spar_str *s, size_t n)
{
	begin_array(h, key, VALUE_STRING, n);
	for (size_t i = 0; i < n; i++)
		put_text(&h->pairs, s[i].data, s[i].len);
}

void spar_gguf_add_i32s(struct spar_gguf_head *h, const char *key, const int32_t *v, size_t n)
{
	begin_array(h, key, VALUE_I32, n);
	spar_str_add(&h->pairs, v, n * sizeof *v);
}

/* ---- tensors ---- */

static uint32_t tensor_type(enum spar_dtype dtype)
{
	return dtype == SPAR_BF16 ? 30 : dtype == SPAR_F16 ? 1 : 0;
}

static size_t padded(size_t n)
{
	return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

void spar_gguf_add_tensor(struct spar_gguf_head *h, const char *name, size_t rows, size_t cols, enum spar_dtype dtype)
{
	put_text(&h->tensors, name, strlen(name));
	put_u32(&h->tensors, cols ? 2 : 1);
	if (cols) /* the fastest dimension comes first */
		put_u64(&h->tensors, cols);
	put_u64(&h->tensors, rows);
	put_u32(&h->tensors, tensor_type(dtype));
	put_u64(&h->tensors, h->data_bytes);
	h->n_tensors++;
	h->data_bytes += padded(rows * (cols ? cols : 1) * spar_dtype_size(dtype));
}

static void write_padding(FILE *f, size_t written)
{
	static const char zeros[ALIGNMENT];
	fwrite(zeros, 1, padded(written) - written, f);
}

void spar_gguf_write_head(const struct spar_gguf_head *h, FILE *f)
{
	struct spar_str s = SPAR_STR_INIT;
	spar_str_adds(&s, "GGUF");
	put_u32(&s, 3);
	put_u64(&s, h->n_tensors);
	put_u64(&s, h->n_pairs);
	fwrite(s.data, 1, s.len, f);
	fwrite(h->pairs.data, 1, h->pairs.len, f);
	fwrite(h->tensors.data, 1, h->tensors.len, f);
	write_padding(f, s.len + h->pairs.len + h->tensors.len);
	spar_str_release(&s);
}

void spar_gguf_write_f32(FILE *f, const float *values, size_t n, enum spar_dtype dtype)
{
	uint16_t halves[1024];
	if (dtype == SPAR_F32)
		fwrite(values, sizeof *values, n, f);
	for (size_t at = 0, k; dtype != SPAR_F32 && at < n; at += k) {
		k = n - at < 1024 ? n - at : 1024;
		for (size_t i = 0; i < k; i++)
			halves[i] =
			    dtype == SPAR_BF16 ? spar_f32_to_bf16(values[at + i]) : spar_f32_to_f16(values[at + i]);
		fwrite(halves, sizeof *halves, k, f);
	}
	write_padding(f, n * spar_dtype_size(dtype));
}
