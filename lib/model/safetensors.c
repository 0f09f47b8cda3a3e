/* safetensors.c - see safetensors.h. A file is: header length (8 bytes, little-endian), header (JSON: name -> dtype,
 * shape, data_offsets), data. Values are read with memcpy: a tensor may start at any byte. */
#include "model/safetensors.h"
#include "base/json.h"
#include "base/pages.h"
#include "base/str.h"
#include "model/half.h"
#include "record/object.h"
#include "record/record.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "weights are mapped as little-endian numbers"
#endif

#define HEADER_MAX ((uint64_t)100000000) /* bytes; the format's own limit */
#define HEADER_DEPTH 8

static const struct {
	const char *name;
	size_t size;
} dtypes[] = {
    [SPAR_F32] = {"F32", 4}, [SPAR_F16] = {"F16", 2}, [SPAR_BF16] = {"BF16", 2}, [SPAR_F64] = {"F64", 8},
    [SPAR_I64] = {"I64", 8}, [SPAR_I32] = {"I32", 4}, [SPAR_U8] = {"U8", 1},
};
#define N_DTYPES (sizeof dtypes / sizeof *dtypes)

size_t spar_dtype_size(enum spar_dtype t)
{
	return dtypes[t].size;
}

const char *spar_dtype_name(enum spar_dtype t)
{
	return dtypes[t].name;
}

struct spar_safetensors {
	struct spar_map *maps; /* one for each file */
	size_t n_maps;
	struct spar_tensor_view *views; /* sorted by name; the names are ours */
	size_t n, cap;
	jv meta; /* __metadata__ of the first file that has one; an object */
};

/* ---- reading one header ---- */

/* A file that cannot hold the header it claims to have: say what it looks like. */
static int not_a_header(const struct spar_map *map, uint64_t header_len, struct spar_err *err)
{
	if (!memcmp(map->data, "version ", 8))
		return spar_fail(err, SPAR_INPUT,
				 "looks like a Git LFS pointer: the weights themselves were not downloaded");
	if (map->size > 8 && map->data[8] == '{' && header_len <= HEADER_MAX)
		return spar_fail(err, SPAR_INPUT, "truncated: the header alone has %llu bytes, the file %zu",
				 (unsigned long long)header_len, map->size);
	return spar_fail(err, SPAR_INPUT, "not a safetensors file (a header of %llu bytes in a file of %zu)",
			 (unsigned long long)header_len, map->size);
}

static int find_header(const struct spar_map *map, const char **header, size_t *n, struct spar_err *err)
{
	uint64_t len;
	if (map->size < 8)
		return spar_fail(err, SPAR_INPUT, "too short for a safetensors file: %zu bytes", map->size);
	memcpy(&len, map->data, 8);
	if (len > map->size - 8 || len > HEADER_MAX)
		return not_a_header(map, len, err);
	const char *text = (const char *)map->data + 8, *what = "not an object";
	size_t at = 0, used = len && *text == '{' ? spar_json_skip(text, len, HEADER_DEPTH, false, &what, &at) : 0;
	for (size_t i = used; used && i < len; i++)
		if (text[i] != ' ') {
			used = 0;
			at = i;
			what = "text after the value";
		}
	if (!used)
		return spar_fail(err, SPAR_INPUT, "header is not JSON at byte %zu: %s", 8 + at, what);
	*header = text;
	*n = used;
	return 0;
}

/* The value of the member `m` stands at, which must be an object without duplicate keys. A NEW reference. */
static int member_object(const struct spar_json_members *m, jv *out, struct spar_err *err)
{
	jv v = jv_parse_sized(m->value, (int)m->value_len);
	if (jv_get_kind(v) != JV_KIND_OBJECT) {
		int rc = spar_fail(err, SPAR_INPUT, "expected object, got %s",
				   jv_is_valid(v) ? spar_kind_name(v) : "bad JSON");
		jv_free(v);
		return rc;
	}
	struct spar_json_members inner;
	int n = 0;
	spar_json_members_init(&inner, m->value, m->value_len);
	while (spar_json_members_next(&inner))
		n++;
	if (n != jv_object_length(jv_copy(v))) {
		jv_free(v);
		return spar_fail(err, SPAR_INPUT, "duplicate key");
	}
	*out = v;
	return 0;
}

static int read_meta(struct spar_safetensors *s, const struct spar_json_members *m, struct spar_err *err)
{
	jv meta;
	int rc = member_object(m, &meta, err);
	if (rc < 0)
		return rc;
	jv_object_foreach(meta, key, value)
	{
		if (jv_get_kind(value) != JV_KIND_STRING)
			rc = spar_fail(err, SPAR_INPUT, "metadata values must be strings: .%.80s is %s",
				       jv_string_value(key), spar_kind_name(value));
		jv_free(key);
		jv_free(value);
	}
	if (rc < 0 || jv_is_valid(s->meta)) {
		jv_free(meta);
		return rc;
	}
	s->meta = meta;
	return 0;
}

/* A whole number in [0, 2^53] from an array of them. */
static int number_at(jv array, int i, const char *key, uint64_t *out, struct spar_err *err)
{
	jv v = jv_array_get(jv_copy(array), i);
	double d = jv_get_kind(v) == JV_KIND_NUMBER ? jv_number_value(v) : -1;
	jv_free(v);
	if (!(d >= 0 && d <= 0x1p53) || d != (double)(uint64_t)d)
		return spar_fail(err, SPAR_INPUT, ".%s[%d]: not a whole number in [0, 2^53]", key, i);
	*out = (uint64_t)d;
	return 0;
}

static int read_dtype(jv obj, enum spar_dtype *out, struct spar_err *err)
{
	const char *name;
	size_t len;
	int rc = spar_get_str(obj, "", "dtype", &name, &len, err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < N_DTYPES; i++)
		if (!strcmp(name, dtypes[i].name)) {
			*out = (enum spar_dtype)i;
			return 0;
		}
	return spar_fail(err, SPAR_INPUT, ".dtype: '%.20s' is not supported", name);
}

/* Shape and sizes; n_bytes is what the shape asks for. */
static int read_shape(jv obj, struct spar_tensor_view *v, struct spar_err *err)
{
	jv shape;
	int rc = spar_get_kind(obj, "", "shape", JV_KIND_ARRAY, &shape, err);
	if (rc < 0)
		return rc;
	int n = jv_array_length(jv_copy(shape));
	if (n > (int)(sizeof v->shape / sizeof *v->shape))
		rc = spar_fail(err, SPAR_INPUT, ".shape: %d dimensions", n);
	v->n_elements = 1;
	for (int i = 0; i < n && rc == 0; i++) {
		uint64_t dim;
		if ((rc = number_at(shape, i, "shape", &dim, err)) < 0)
			break;
		if (dim && v->n_elements > SIZE_MAX / 8 / dim)
			rc = spar_fail(err, SPAR_INPUT, ".shape: too many elements");
		v->shape[v->n_dims++] = dim;
		v->n_elements *= dim;
	}
	v->n_bytes = v->n_elements * spar_dtype_size(v->dtype);
	jv_free(shape);
	return rc;
}

/* The range of a tensor in the data part. */
static int read_offsets(jv obj, uint64_t *begin, uint64_t *end, struct spar_err *err)
{
	jv offsets;
	int rc = spar_get_kind(obj, "", "data_offsets", JV_KIND_ARRAY, &offsets, err);
	if (rc < 0)
		return rc;
	if (jv_array_length(jv_copy(offsets)) != 2)
		rc = spar_fail(err, SPAR_INPUT, ".data_offsets: not two numbers");
	else if ((rc = number_at(offsets, 0, "data_offsets", begin, err)) == 0)
		rc = number_at(offsets, 1, "data_offsets", end, err);
	jv_free(offsets);
	if (rc == 0 && *begin > *end)
		rc = spar_fail(err, SPAR_INPUT, ".data_offsets: begins at %llu and ends before, at %llu",
			       (unsigned long long)*begin, (unsigned long long)*end);
	return rc;
}

struct entry {
	struct spar_tensor_view view; /* data is set when the layout was found sound */
	uint64_t begin;               /* in the data part */
};

static int read_entry(const struct spar_json_members *m, struct entry *e, struct spar_err *err)
{
	jv obj;
	uint64_t end;
	int rc = member_object(m, &obj, err);
	if (rc < 0)
		return rc;
	if ((rc = read_dtype(obj, &e->view.dtype, err)) == 0 && (rc = read_shape(obj, &e->view, err)) == 0 &&
	    (rc = read_offsets(obj, &e->begin, &end, err)) == 0 && end - e->begin != e->view.n_bytes)
		rc = spar_fail(err, SPAR_INPUT, "%zu bytes expected, %llu given", e->view.n_bytes,
			       (unsigned long long)(end - e->begin));
	jv_free(obj);
	return rc;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct spar_tensor_view *)a)->name, ((const struct spar_tensor_view *)b)->name);
}

static int by_offset(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return (x->view.n_bytes > y->view.n_bytes) - (x->view.n_bytes < y->view.n_bytes);
}

/* The tensors, in order of their offsets, must fill the data part without hole, overlap or rest. Sets data pointers. */
static int check_layout(struct entry *entries, size_t n, const uint8_t *data, size_t size, struct spar_err *err)
{
	uint64_t pos = 0;
	if (n)
		qsort(entries, n, sizeof *entries, by_offset);
	for (size_t i = 0; i < n; i++) {
		struct entry *e = &entries[i];
		if (e->begin != pos)
			return spar_fail(err, SPAR_INPUT,
					 "tensor '%.100s': %s before it: begins at byte %llu, not %llu", e->view.name,
					 e->begin > pos ? "a hole" : "an overlap with the one",
					 (unsigned long long)e->begin, (unsigned long long)pos);
		pos += e->view.n_bytes;
		if (pos > size)
			return spar_fail(err, SPAR_INPUT, "truncated: tensor '%.100s' ends at byte %llu of %zu",
					 e->view.name, (unsigned long long)pos, size);
		e->view.data = data + e->begin;
	}
	if (pos != size)
		return spar_fail(err, SPAR_INPUT, "%llu bytes after the last tensor", (unsigned long long)(size - pos));
	return 0;
}

/* The key as a C string (escapes undone); the caller frees. NULL if it holds a NUL. */
static char *member_name(const struct spar_json_members *m)
{
	jv key = jv_parse_sized(m->key - 1, (int)m->key_len + 2); /* with its quotes */
	char *name = NULL;
	if (jv_get_kind(key) == JV_KIND_STRING &&
	    strlen(jv_string_value(key)) == (size_t)jv_string_length_bytes(jv_copy(key)))
		name = spar_strdup(jv_string_value(key));
	jv_free(key);
	return name;
}

static void keep_view(struct spar_safetensors *s, const struct spar_tensor_view *v)
{
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 64;
		s->views = spar_realloc(s->views, s->cap * sizeof *s->views);
	}
	s->views[s->n++] = *v;
}

static int read_header(struct spar_safetensors *s, const struct spar_map *map, struct spar_err *err)
{
	const char *header = NULL;
	size_t header_len = 0, n = 0, cap = 0;
	uint64_t padded_len;
	struct entry *entries = NULL;
	struct spar_json_members m;
	int rc = find_header(map, &header, &header_len, err);
	if (rc < 0)
		return rc;
	spar_json_members_init(&m, header, header_len);
	while (rc == 0 && spar_json_members_next(&m)) {
		struct entry e = {0};
		if (m.key_len == 12 && !memcmp(m.key, "__metadata__", 12)) {
			if ((rc = read_meta(s, &m, err)) < 0)
				spar_fail_at(err, "__metadata__");
			continue;
		}
		if (!(e.view.name = member_name(&m))) {
			rc = spar_fail(err, SPAR_INPUT, "tensor name '%.*s' is not usable",
				       (int)(m.key_len < 100 ? m.key_len : 100), m.key);
			break;
		}
		if (n == cap) {
			cap = cap ? 2 * cap : 64;
			entries = spar_realloc(entries, cap * sizeof *entries);
		}
		if ((rc = read_entry(&m, &e, err)) < 0)
			spar_fail_at(err, "tensor '%.100s'", e.view.name);
		entries[n++] = e;
	}
	memcpy(&padded_len, map->data, 8);
	if (rc == 0)
		rc = check_layout(entries, n, map->data + 8 + padded_len, map->size - 8 - padded_len, err);
	for (size_t i = 0; i < n; i++)
		keep_view(s, &entries[i].view); /* also after a failure: close() frees the names */
	free(entries);
	return rc;
}

/* ---- one file, or a set with its index ---- */

static int read_file(struct spar_safetensors *s, const char *path, struct spar_err *err)
{
	struct spar_map map;
	int rc = spar_map_open(&map, path, err);
	if (rc < 0)
		return rc;
	s->maps = spar_realloc(s->maps, (s->n_maps + 1) * sizeof *s->maps);
	s->maps[s->n_maps++] = map;
	if ((rc = read_header(s, &map, err)) < 0)
		return spar_fail_at(err, "%s", path);
	return 0;
}

/* Read every file that the index names, once each; the index must be right about where each tensor is. */
static int read_index(struct spar_safetensors *s, const char *dir, const char *index, jv weight_map,
		      struct spar_err *err)
{
	int rc = 0;
	jv files = jv_object(); /* those read, as keys */
	jv_object_foreach(weight_map, tensor, file)
	{
		const char *name = jv_get_kind(file) == JV_KIND_STRING ? jv_string_value(file) : "";
		if (rc == 0 && (!*name || *name == '.' || strchr(name, '/')))
			rc = spar_fail(err, SPAR_INPUT, "%s: .weight_map: tensor '%.100s' is in no file of this folder",
				       index, jv_string_value(tensor));
		if (rc == 0 && !jv_object_has(jv_copy(files), jv_copy(file))) {
			char *path = spar_path_join(dir, name);
			rc = read_file(s, path, err);
			free(path);
			files = jv_object_set(files, jv_copy(file), jv_true());
		}
		jv_free(tensor);
		jv_free(file);
	}
	jv_free(files);
	return rc;
}

static int check_index(const struct spar_safetensors *s, jv weight_map, struct spar_err *err)
{
	int rc = 0;
	jv_object_foreach(weight_map, tensor, file)
	{
		if (rc == 0 && !spar_safetensors_find(s, jv_string_value(tensor)))
			rc = spar_fail(err, SPAR_INPUT, ".weight_map: tensor '%.100s' is not in %s",
				       jv_string_value(tensor), jv_string_value(file));
		jv_free(tensor);
		jv_free(file);
	}
	return rc;
}

static int sort_by_name(struct spar_safetensors *s, const char *path, struct spar_err *err)
{
	if (s->n)
		qsort(s->views, s->n, sizeof *s->views, by_name);
	for (size_t i = 1; i < s->n; i++)
		if (!by_name(&s->views[i - 1], &s->views[i]))
			return spar_fail(err, SPAR_INPUT, "%s: duplicate key: tensor '%.100s' is there twice", path,
					 s->views[i].name);
	return 0;
}

static int open_sharded(struct spar_safetensors *s, const char *dir, const char *index, struct spar_err *err)
{
	jv obj, weight_map = jv_invalid();
	int rc = spar_object_read(index, &obj, err);
	if (rc < 0)
		return rc;
	if ((rc = spar_get_kind(obj, "", "weight_map", JV_KIND_OBJECT, &weight_map, err)) < 0)
		spar_fail_at(err, "%s", index);
	else if ((rc = read_index(s, dir, index, weight_map, err)) == 0 && (rc = sort_by_name(s, dir, err)) == 0 &&
		 (rc = check_index(s, weight_map, err)) < 0)
		spar_fail_at(err, "%s", index);
	jv_free(weight_map);
	jv_free(obj);
	return rc;
}

static int open_path(struct spar_safetensors *s, const char *path, struct spar_err *err)
{
	if (!spar_dir_exists(path)) {
		int rc = read_file(s, path, err);
		return rc < 0 ? rc : sort_by_name(s, path, err);
	}
	char *single = spar_path_join(path, "model.safetensors"),
	     *index = spar_path_join(path, "model.safetensors.index.json");
	int rc;
	if (spar_file_exists(single))
		rc = open_path(s, single, err);
	else if (spar_file_exists(index))
		rc = open_sharded(s, path, index, err);
	else
		rc = spar_fail(err, SPAR_INPUT, "%s: no model.safetensors and no model.safetensors.index.json", path);
	free(single);
	free(index);
	return rc;
}

int spar_safetensors_open(struct spar_safetensors **out, const char *path, struct spar_err *err)
{
	struct spar_safetensors *s = spar_calloc(1, sizeof *s);
	s->meta = jv_invalid();
	int rc = open_path(s, path, err);
	if (rc < 0) {
		spar_safetensors_close(s);
		s = NULL;
	}
	*out = s;
	return rc;
}

void spar_safetensors_close(struct spar_safetensors *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++)
		free((char *)s->views[i].name);
	for (size_t i = 0; i < s->n_maps; i++)
		spar_map_close(&s->maps[i]);
	jv_free(s->meta);
	free(s->views);
	free(s->maps);
	free(s);
}

void spar_safetensors_leave(const struct spar_safetensors *s)
{
	for (size_t i = 0; s && i < s->n_maps; i++)
		spar_pages_leave(s->maps[i].data, s->maps[i].size);
}

size_t spar_safetensors_count(const struct spar_safetensors *s)
{
	return s->n;
}

const struct spar_tensor_view *spar_safetensors_at(const struct spar_safetensors *s, size_t i)
{
	return &s->views[i];
}

const struct spar_tensor_view *spar_safetensors_find(const struct spar_safetensors *s, const char *name)
{
	struct spar_tensor_view key = {.name = name};
	return s->n ? bsearch(&key, s->views, s->n, sizeof key, by_name) : NULL;
}

const char *spar_safetensors_meta(const struct spar_safetensors *s, const char *key)
{
	if (!jv_is_valid(s->meta))
		return NULL;
	jv value = jv_object_get(jv_copy(s->meta), jv_string(key));
	const char *text = jv_get_kind(value) == JV_KIND_STRING ? jv_string_value(value) : NULL;
	jv_free(value); /* s->meta keeps it */
	return text;
}

int spar_tensor_view_f32(const struct spar_tensor_view *v, float *out, struct spar_err *err)
{
	const uint8_t *data = v->data;
	uint16_t half;
	double wide;
	switch (v->dtype) {
	case SPAR_F32:
		if (v->n_bytes)
			memcpy(out, data, v->n_bytes);
		return 0;
	case SPAR_BF16:
		for (size_t i = 0; i < v->n_elements; i++) {
			memcpy(&half, data + 2 * i, sizeof half);
			out[i] = spar_bf16_to_f32(half);
		}
		return 0;
	case SPAR_F16:
		for (size_t i = 0; i < v->n_elements; i++) {
			memcpy(&half, data + 2 * i, sizeof half);
			out[i] = spar_f16_to_f32(half);
		}
		return 0;
	case SPAR_F64:
		for (size_t i = 0; i < v->n_elements; i++) {
			memcpy(&wide, data + 8 * i, sizeof wide);
			out[i] = (float)wide;
		}
		return 0;
	default:
		return spar_fail(err, SPAR_INPUT, "tensor '%.100s': %s where numbers with a fraction are wanted",
				 v->name, spar_dtype_name(v->dtype));
	}
}

/* ---- writing ---- */

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
