/* Safetensors: every row of the table of bad headers, what is written and read back, sharded sets, 16-bit numbers. */
#include "model/safetensors.h"
#include "base/file.h"
#include "base/half.h"
#include "unit.h"
#include <stdlib.h>
#include <unistd.h>

static char dir[] = "/tmp/spar-safetensors.XXXXXX";

/* The path of a file in the test's folder; valid until the next call. */
static const char *at(const char *name)
{
	static char path[256];
	snprintf(path, sizeof path, "%s/%s", dir, name);
	return path;
}

/* A file of header length, header and data; `length` is what the header claims to have. */
static void put_raw(const char *name, uint64_t length, const char *header, const void *data, size_t n)
{
	struct spar_str s = SPAR_STR_INIT;
	spar_str_add(&s, &length, sizeof length);
	spar_str_adds(&s, header);
	spar_str_add(&s, data, n);
	CHECK(spar_file_write(at(name), s.data, s.len, NULL) == 0);
	spar_str_release(&s);
}

static void put(const char *name, const char *header, const void *data, size_t n)
{
	put_raw(name, strlen(header), header, data, n);
}

/* Opens, or the message after the path. */
static const char *opened(const char *name, struct spar_safetensors **s)
{
	static struct spar_err err;
	err = (struct spar_err){0};
	if (spar_safetensors_open(s, at(name), &err) == 0)
		return "opens";
	CHECK(!*s && err.code == SPAR_INPUT);
	CHECK(!strncmp(err.msg, dir, strlen(dir)));
	const char *colon = strstr(err.msg, ": ");
	return colon ? colon + 2 : err.msg;
}

static const unsigned char one_and_a_half[] = {0, 0, 0xc0, 0x3f, 0, 0, 0x20, 0x40}; /* 1.5f, 2.5f */

static void header_table(void)
{
	static const struct {
		const char *header;
		size_t n_data;
		const char *result; /* the beginning */
	} rows[] = {
	    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "opens"},
	    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, "opens"},
	    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0,3],\"data_offsets\":[0,0]}}", 0, "opens"},
	    {"{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]},\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
	     "\"data_offsets\":[0,4]}}",
	     8, "opens"},
	    {"{\"__metadata__\":{},\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "opens"},
	    {"{\"__metadata__\":{\"n\":0},\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
	     "__metadata__: metadata values must be strings: .n is number"},
	    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
	     "\"data_offsets\":[4,8]}}",
	     8, "duplicate key: tensor 'a' is there twice"},
	    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
	     "tensor 'a': duplicate key"},
	    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1000,1000],\"data_offsets\":[0,4]}}", 4,
	     "tensor 'a': 4000000 bytes expected, 4 given"},
	    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],"
	     "\"data_offsets\":[8,12]}}",
	     12, "tensor 'b': a hole before it"},
	    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],"
	     "\"data_offsets\":[4,8]}}",
	     8, "tensor 'b': an overlap"},
	    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5, "1 bytes after the last tensor"},
	    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4,
	     "truncated: tensor 'a' ends at byte 8 of 4"},
	    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4,
	     "tensor 'a': .data_offsets: begins at 4 and ends before, at 0"},
	    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
	     "tensor 'a': .shape: too many elements"},
	    {"{\"a\":{\"dtype\":\"F99\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "tensor 'a': .dtype: 'F99'"},
	    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4,
	     "tensor 'a': .shape[0]: not a whole"},
	    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4,
	     "tensor 'a': .data_offsets: not two"},
	    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "tensor 'a': .data_offsets: "},
	    {"{\"a\":7}", 0, "tensor 'a': expected object, got number"},
	    {"{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "tensor name"},
	    {"{\"a\":{}", 0, "header is not JSON"},
	    {"{} x", 0, "header is not JSON at byte 11: text after the value"},
	    {"[]", 0, "header is not JSON at byte 8: not an object"},
	    {"{}      ", 0, "opens"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		unsigned char data[16] = {0};
		memcpy(data, one_and_a_half, sizeof one_and_a_half);
		struct spar_safetensors *s;
		put("row", rows[i].header, data, rows[i].n_data);
		const char *result = opened("row", &s);
		CHECK(!strncmp(result, rows[i].result, strlen(rows[i].result)));
		if (strncmp(result, rows[i].result, strlen(rows[i].result)) != 0)
			printf("row %zu: %s\n", i, result);
		spar_safetensors_close(s);
	}
}

/* Files that are something else, or the beginning of something. */
static void foreign_files(void)
{
	static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
	static const char page[] = "<!DOCTYPE html><html></html>";
	struct spar_safetensors *s;
	for (size_t n = 0; n < 8; n++) {
		CHECK(spar_file_write(at("short"), pointer, n, NULL) == 0);
		CHECK(!strncmp(opened("short", &s), "too short", 9));
	}
	CHECK(spar_file_write(at("lfs"), pointer, sizeof pointer - 1, NULL) == 0);
	CHECK(!strncmp(opened("lfs", &s), "looks like a Git LFS pointer", 28));
	CHECK(spar_file_write(at("page"), page, sizeof page - 1, NULL) == 0);
	CHECK(!strncmp(opened("page", &s), "not a safetensors file", 22));
	put_raw("cut", 1000, "{\"a\":", "", 0);
	CHECK(!strncmp(opened("cut", &s), "truncated: the header alone has 1000 bytes", 42));
	put_raw("zero", 0, "", "", 0);
	CHECK(!strncmp(opened("zero", &s), "header is not JSON", 18));
	CHECK(spar_safetensors_open(&s, at("absent"), NULL) == -SPAR_FAIL);
}

static void values(void)
{
	struct spar_safetensors *s;
	float f;
	put("unaligned",
	    "{\"z\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
	    "\"data_offsets\":[1,5]},\"__metadata__\":{\"k\":\"v\"}}",
	    "\7\0\0\xc0\x3f", 5);
	CHECK_STR(opened("unaligned", &s), "opens");
	if (!s)
		return;
	CHECK(spar_safetensors_count(s) == 2);
	CHECK_STR(spar_safetensors_at(s, 0)->name, "a");
	CHECK(spar_tensor_view_f32(spar_safetensors_find(s, "a"), &f, NULL) == 0 && f == 1.5f);
	spar_safetensors_leave(s);
	CHECK(spar_tensor_view_f32(spar_safetensors_find(s, "a"), &f, NULL) == 0 && f == 1.5f);
	CHECK(spar_tensor_view_f32(spar_safetensors_find(s, "z"), &f, NULL) ==
	      -SPAR_INPUT); /* whole numbers are no weights */
	CHECK(!spar_safetensors_find(s, "b"));
	CHECK_STR(spar_safetensors_meta(s, "k"), "v");
	CHECK(!spar_safetensors_meta(s, "other"));
	spar_safetensors_close(s);
}

static void round_trip(void)
{
	static const float x[6] = {1.0f, -2.5f, 0.02f, 100.4f, 1.00390625f, 1e-40f};
	static const char *const meta[] = {"format", "pt", "quote", "\"\\", NULL};
	static const enum spar_dtype types[] = {SPAR_F32, SPAR_BF16, SPAR_F16};
	struct spar_tensor_view views[] = {
	    {.name = "three", .dtype = SPAR_F32, .shape = {3}, .n_dims = 1, .data = x},
	    {.name = "all", .dtype = SPAR_F32, .shape = {2, 3}, .n_dims = 2, .data = x},
	    {.name = "none", .dtype = SPAR_F32, .shape = {0}, .n_dims = 1, .data = NULL},
	};
	for (size_t k = 0; k < 3; k++) {
		struct spar_safetensors *s;
		float got[6];
		for (size_t i = 0; i < 3; i++)
			views[i].dtype = types[k];
		CHECK(spar_safetensors_write(at("trip"), views, 3, meta, 1, NULL) == 0);
		CHECK_STR(opened("trip", &s), "opens");
		if (!s)
			return;
		CHECK_STR(spar_safetensors_meta(s, "quote"), "\"\\");
		const struct spar_tensor_view *v = spar_safetensors_find(s, "all");
		CHECK(v && v->n_elements == 6 && v->n_dims == 2 && v->shape[1] == 3 && v->dtype == types[k]);
		CHECK(v && spar_tensor_view_f32(v, got, NULL) == 0);
		for (size_t i = 0; i < 6; i++)
			CHECK(got[i] == (k == 0   ? x[i]
					 : k == 1 ? spar_bf16_to_f32(spar_f32_to_bf16(x[i]))
						  : spar_f16_to_f32(spar_f32_to_f16(x[i]))));
		spar_safetensors_close(s);
	}
	struct spar_safetensors *s;
	CHECK(spar_safetensors_write(at("trip"), NULL, 0, NULL, 0, NULL) == 0);
	CHECK_STR(opened("trip", &s), "opens");
	spar_safetensors_close(s);
}

static void sharded(void)
{
	static const char index[] = "{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"2.safetensors\"}}";
	static const char outside[] = "{\"weight_map\":{\"a\":\"../1.safetensors\"}}";
	static const char unknown[] = "{\"weight_map\":{\"c\":\"1.safetensors\"}}";
	struct spar_safetensors *s;
	float f;
	CHECK(spar_dir_make(at("set"), NULL) == 0);
	CHECK_STR(opened("set", &s), "no model.safetensors and no model.safetensors.index.json");
	put("set/1.safetensors", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", one_and_a_half, 4);
	put("set/2.safetensors", "{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", one_and_a_half + 4,
	    4);
	CHECK(spar_file_write(at("set/model.safetensors.index.json"), index, sizeof index - 1, NULL) == 0);
	CHECK_STR(opened("set", &s), "opens");
	if (s)
		CHECK(spar_tensor_view_f32(spar_safetensors_find(s, "b"), &f, NULL) == 0 && f == 2.5f);
	spar_safetensors_close(s);
	put("set/2.safetensors", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", one_and_a_half, 4);
	CHECK_STR(opened("set", &s), "duplicate key: tensor 'a' is there twice");
	CHECK(spar_file_write(at("set/model.safetensors.index.json"), outside, sizeof outside - 1, NULL) == 0);
	CHECK_STR(opened("set", &s), ".weight_map: tensor 'a' is in no file of this folder");
	CHECK(spar_file_write(at("set/model.safetensors.index.json"), unknown, sizeof unknown - 1, NULL) == 0);
	CHECK_STR(opened("set", &s), ".weight_map: tensor 'c' is not in 1.safetensors");
}

/* To nearest, ties to even (the values of case B27), and every binary16 number there and back. */
/* Five tensors of 8 bytes and one of 40 in files of 20 bytes at most: two, two, the large one alone, one. */
static void written_in_shards(void)
{
	static const float values[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
	static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
	static const size_t sizes[] = {2, 2, 2, 2, 10, 2};
	struct spar_tensor_view views[6];
	struct spar_safetensors *s;
	for (size_t i = 0; i < 6; i++)
		views[i] = (struct spar_tensor_view){
		    .name = names[i], .dtype = SPAR_F32, .n_dims = 1, .shape = {sizes[i]}, .data = values};
	CHECK(spar_dir_make(at("shards"), NULL) == 0 && spar_dir_make(at("whole"), NULL) == 0);
	CHECK(spar_safetensors_write_folder(at("shards"), views, 6, NULL, 0, 20, NULL) == 0);
	CHECK(spar_safetensors_write_folder(at("whole"), views, 6, NULL, 0, 80, NULL) == 0);
	CHECK(spar_file_exists(at("shards/model-00003-of-00004.safetensors")));
	CHECK(spar_file_exists(at("whole/model.safetensors")) &&
	      !spar_file_exists(at("whole/model.safetensors.index.json")));
	CHECK_STR(opened("shards/model-00003-of-00004.safetensors", &s), "opens");
	CHECK(spar_safetensors_count(s) == 1);
	spar_safetensors_close(s);
	CHECK_STR(opened("shards", &s), "opens");
	CHECK(spar_safetensors_count(s) == 6);
	for (size_t i = 0; i < 6; i++) {
		float got[10];
		const struct spar_tensor_view *v = spar_safetensors_find(s, names[i]);
		CHECK(v && v->n_elements == sizes[i] && spar_tensor_view_f32(v, got, NULL) == 0 &&
		      !memcmp(got, values, sizes[i] * sizeof *got));
	}
	spar_safetensors_close(s);
}

static void halves(void)
{
	static const float pairs[][2] = {
	    {1.00390625f, 1.0f}, {1.01171875f, 1.015625f}, {100.4f, 100.5f}, {0.02f, 0.02001953125f}};
	for (size_t i = 0; i < 4; i++)
		CHECK(spar_bf16_to_f32(spar_f32_to_bf16(pairs[i][0])) == pairs[i][1]);
	CHECK(isnan(spar_bf16_to_f32(spar_f32_to_bf16(spar_f32_from_bits(0x7f800001)))));
	CHECK(isinf(spar_bf16_to_f32(spar_f32_to_bf16(3.4e38f))));
	unsigned wrong = 0;
	for (uint32_t h = 0; h < 65536; h++)
		wrong += isnan(spar_f16_to_f32((uint16_t)h))
			     ? !isnan(spar_f16_to_f32(spar_f32_to_f16(spar_f16_to_f32((uint16_t)h))))
			     : spar_f32_to_f16(spar_f16_to_f32((uint16_t)h)) != h;
	CHECK(wrong == 0);
	CHECK(spar_f16_to_f32(0x3c00) == 1.0f && spar_f16_to_f32(0x0001) == 0x1p-24f &&
	      spar_f16_to_f32(0xfbff) == -65504.0f);
	CHECK(spar_f32_to_f16(1.0f + 0x1p-11f) == 0x3c00 && spar_f32_to_f16(1.0f + 3 * 0x1p-11f) == 0x3c02);
	CHECK(spar_f32_to_f16(65519.9f) == 0x7bff && spar_f32_to_f16(65520.0f) == 0x7c00);
	CHECK(spar_f32_to_f16(0x1p-25f) == 0 && spar_f32_to_f16(0x1.8p-24f) == 2);
}

int main(void)
{
	if (!mkdtemp(dir))
		return 1;
	header_table();
	foreign_files();
	values();
	round_trip();
	sharded();
	written_in_shards();
	halves();
	spar_dir_remove(dir, NULL);
	return unit_done();
}
