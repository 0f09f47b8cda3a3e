/* safetensors_header.c - one file's header: JSON that names each tensor's dtype, shape and data_offsets. Every rule of the format
 * is checked (case B32). */
#include "base/json.h"
#include "base/str.h"
#include "model/safetensors_parts.h"
#include "record/record.h"
#include <stdlib.h>
#include <string.h>

#define HEADER_MAX ((uint64_t)100000000) /* bytes; the format's own limit */
#define HEADER_DEPTH 8

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
	for (size_t i = 0; i < SPAR_N_DTYPES; i++)
		if (!strcmp(name, spar_dtype_name((enum spar_dtype)i))) {
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

int spar_safetensors_read_header(struct spar_safetensors *s, const struct spar_map *map, struct spar_err *err)
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
