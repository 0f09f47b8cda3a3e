/* safetensors_write.c - one file written; see safetensors.h */
#include "base/file.h"
#include "base/str.h"
#include "base/half.h"
#include "model/safetensors.h"
#include <stdio.h>
#include <string.h>

static size_t count_elements(const struct spar_tensor_view *v)
{
	size_t n = 1;
	for (int d = 0; d < v->n_dims; d++)
		n *= v->shape[d];
	return n;
}

static void write_header(struct spar_str *h, const struct spar_tensor_view *tensors, size_t n, const char *const *meta)
{
	uint64_t begin = 0;
	const char *sep = "{";
	if (meta && meta[0]) {
		spar_str_adds(h, "{\"__metadata__\":");
		for (const char *s = "{"; meta[0] && meta[1]; meta += 2, s = ",") {
			spar_str_adds(h, s);
			spar_str_add_json(h, meta[0], strlen(meta[0]));
			spar_str_addc(h, ':');
			spar_str_add_json(h, meta[1], strlen(meta[1]));
		}
		spar_str_addc(h, '}');
		sep = ",";
	}
	for (size_t i = 0; i < n; i++, sep = ",") {
		const struct spar_tensor_view *v = &tensors[i];
		uint64_t end = begin + count_elements(v) * spar_dtype_size(v->dtype);
		spar_str_adds(h, sep);
		spar_str_add_json(h, v->name, strlen(v->name));
		spar_str_addf(h, ":{\"dtype\":\"%s\",\"shape\":[", spar_dtype_name(v->dtype));
		for (int d = 0; d < v->n_dims; d++)
			spar_str_addf(h, "%s%zu", d ? "," : "", v->shape[d]);
		spar_str_addf(h, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)begin, (unsigned long long)end);
		begin = end;
	}
	spar_str_adds(h, *sep == '{' ? "{}" : "}");
	while (h->len % 8)
		spar_str_addc(h, ' ');
}

/* Floats go out as 16-bit numbers, a block at a time. */
static void write_halves(FILE *f, const float *data, size_t n, enum spar_dtype dtype)
{
	enum { BLOCK = 4096 };
	uint16_t block[BLOCK] = {0};
	for (size_t begin = 0; begin < n; begin += BLOCK) {
		size_t k = n - begin < BLOCK ? n - begin : BLOCK;
		for (size_t i = 0; i < k; i++)
			block[i] =
			    dtype == SPAR_BF16 ? spar_f32_to_bf16(data[begin + i]) : spar_f32_to_f16(data[begin + i]);
		fwrite(block, sizeof *block, k, f);
	}
}

int spar_safetensors_write(const char *path, const struct spar_tensor_view *tensors, size_t n, const char *const *meta,
			   int from_f32, struct spar_err *err)
{
	FILE *f = spar_file_begin(path, err);
	if (!f)
		return -SPAR_FAIL;
	struct spar_str header = SPAR_STR_INIT;
	write_header(&header, tensors, n, meta);
	uint64_t len = header.len;
	fwrite(&len, sizeof len, 1, f);
	fwrite(header.data, 1, header.len, f);
	for (size_t i = 0; i < n && !ferror(f); i++) {
		const struct spar_tensor_view *v = &tensors[i];
		if (from_f32 && (v->dtype == SPAR_BF16 || v->dtype == SPAR_F16))
			write_halves(f, v->data, count_elements(v), v->dtype);
		else if (count_elements(v))
			fwrite(v->data, spar_dtype_size(v->dtype), count_elements(v), f);
	}
	spar_str_release(&header);
	return spar_file_commit(f, path, true, err);
}
