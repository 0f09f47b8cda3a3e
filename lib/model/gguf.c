/* gguf.c - see gguf.h. A file is: "GGUF", version, number of tensors, number of metadata pairs, the pairs, the tensors'
 * descriptions, padding to the alignment, data. */
#include "model/gguf.h"
#include "base/file.h"
#include "model/gguf_blocks.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum value_type { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64, N_VALUE_TYPES };
static const size_t value_size[N_VALUE_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}; /* 0: length stands before */

struct pair {
	struct spar_gguf_text key; /* first: pairs and tensors are sorted by the same function */
	uint32_t type, item_type;
	uint64_t n; /* items of an array, bytes of a string */
	const uint8_t *data;
};

struct spar_gguf {
	struct spar_map map;
	struct pair *pairs;
	size_t n_pairs;
	struct spar_gguf_tensor *tensors;
	size_t n_tensors;
};

/* ---- tensors ---- */

int spar_gguf_f32(const struct spar_gguf_tensor *t, float *out, struct spar_err *err)
{
	const struct spar_gguf_block *type = spar_gguf_block(t->type);
	if (!type->decode)
		return spar_fail(err, SPAR_INPUT, "tensor '%.*s': type %u (%s) is not supported", (int)t->name.len,
				 t->name.data, t->type, type->name);
	const uint8_t *block = t->data;
	for (size_t i = 0; i < t->n_elements; i += type->elements, block += type->bytes)
		type->decode(block, out + i);
	return 0;
}

/* ---- reading: a cursor that never passes the end ---- */

struct cursor {
	const uint8_t *at, *end;
};

static bool take(struct cursor *c, uint64_t n, const uint8_t **out)
{
	if (n > (uint64_t)(c->end - c->at))
		return false;
	*out = c->at;
	c->at += n;
	return true;
}

static bool take_u32(struct cursor *c, uint32_t *out)
{
	const uint8_t *p;
	if (!take(c, sizeof *out, &p))
		return false;
	memcpy(out, p, sizeof *out);
	return true;
}

static bool take_u64(struct cursor *c, uint64_t *out)
{
	const uint8_t *p;
	if (!take(c, sizeof *out, &p))
		return false;
	memcpy(out, p, sizeof *out);
	return true;
}

static bool take_text(struct cursor *c, struct spar_gguf_text *out)
{
	const uint8_t *p;
	uint64_t n;
	if (!take_u64(c, &n) || !take(c, n, &p))
		return false;
	*out = (struct spar_gguf_text){(const char *)p, n};
	return true;
}

/* An array: item type, count, items. Arrays of arrays are not read. */
static bool take_array(struct cursor *c, struct pair *p)
{
	struct spar_gguf_text skipped;
	if (!take_u32(c, &p->item_type) || p->item_type >= N_VALUE_TYPES || p->item_type == ARRAY ||
	    !take_u64(c, &p->n))
		return false;
	if (p->item_type != STRING)
		return p->n <= (uint64_t)(c->end - c->at) / value_size[p->item_type] &&
		       take(c, p->n * value_size[p->item_type], &p->data);
	p->data = c->at;
	for (uint64_t i = 0; i < p->n; i++)
		if (!take_text(c, &skipped))
			return false;
	return true;
}

static bool take_pair(struct cursor *c, struct pair *p)
{
	if (!take_text(c, &p->key) || !take_u32(c, &p->type) || p->type >= N_VALUE_TYPES)
		return false;
	if (p->type == ARRAY)
		return take_array(c, p);
	if (p->type == STRING)
		return take_u64(c, &p->n) && take(c, p->n, &p->data);
	return take(c, value_size[p->type], &p->data);
}

/* The description of one tensor; `offset` in the data part. The format counts dimensions from the fastest. */
static bool take_tensor(struct cursor *c, struct spar_gguf_tensor *t, uint64_t *offset)
{
	uint32_t n_dims;
	uint64_t dims[4] = {1, 1, 1, 1};
	if (!take_text(c, &t->name) || !take_u32(c, &n_dims) || n_dims < 1 || n_dims > 4)
		return false;
	for (uint32_t d = 0; d < n_dims; d++)
		if (!take_u64(c, &dims[d]) || dims[d] > INT_MAX)
			return false;
	if (dims[2] != 1 || dims[3] != 1)
		return false;
	t->rows = n_dims == 1 ? dims[0] : dims[1];
	t->cols = n_dims == 1 ? 0 : dims[0];
	t->n_elements = dims[0] * dims[1];
	return take_u32(c, &t->type) && take_u64(c, offset);
}

static int compare_text(const struct spar_gguf_text *a, const struct spar_gguf_text *b)
{
	size_t n = a->len < b->len ? a->len : b->len;
	int order = n ? memcmp(a->data, b->data, n) : 0;
	return order ? order : (a->len > b->len) - (a->len < b->len);
}

/* Pairs and tensors both begin with their name. */
static int by_name(const void *a, const void *b)
{
	return compare_text(a, b);
}

static int sort_names(void *items, size_t n, size_t size, struct spar_err *err)
{
	if (n)
		qsort(items, n, size, by_name);
	for (size_t i = 1; i < n; i++) {
		const struct spar_gguf_text *name = (const void *)((char *)items + i * size);
		if (!by_name((char *)items + (i - 1) * size, name))
			return spar_fail(err, SPAR_INPUT, "'%.*s' is there twice",
					 (int)(name->len < 100 ? name->len : 100), name->data);
	}
	return 0;
}

static int read_pairs(struct spar_gguf *g, struct cursor *c, uint64_t n, struct spar_err *err)
{
	if (n > (uint64_t)(c->end - c->at) / 13) /* a pair takes 13 bytes at least */
		return spar_fail(err, SPAR_INPUT, "truncated: %llu metadata pairs announced", (unsigned long long)n);
	g->pairs = spar_calloc(n + 1, sizeof *g->pairs);
	for (; g->n_pairs < n; g->n_pairs++)
		if (!take_pair(c, &g->pairs[g->n_pairs]))
			return spar_fail(err, SPAR_INPUT, "metadata pair %zu is damaged or cut off", g->n_pairs + 1);
	return sort_names(g->pairs, g->n_pairs, sizeof *g->pairs, err);
}

static int place_tensor(struct spar_gguf_tensor *t, const uint8_t *data, uint64_t size, uint64_t offset,
			struct spar_err *err)
{
	const struct spar_gguf_block *type = spar_gguf_block(t->type);
	int name_len = (int)(t->name.len < 100 ? t->name.len : 100);
	if (!type->decode)
		return spar_fail(err, SPAR_INPUT, "tensor '%.*s': type %u (%s) is not supported", name_len,
				 t->name.data, t->type, type->name);
	if ((t->cols ? t->cols : t->rows) % type->elements)
		return spar_fail(err, SPAR_INPUT, "tensor '%.*s': rows are no multiple of the block of %s", name_len,
				 t->name.data, type->name);
	uint64_t bytes = t->n_elements / type->elements * type->bytes;
	if (offset > size || bytes > size - offset)
		return spar_fail(err, SPAR_INPUT, "truncated: tensor '%.*s' ends past the end of the file", name_len,
				 t->name.data);
	t->data = data + offset;
	return 0;
}

static int read_tensors(struct spar_gguf *g, struct cursor *c, uint64_t n, struct spar_err *err)
{
	if (n > (uint64_t)(c->end - c->at) / 24)
		return spar_fail(err, SPAR_INPUT, "truncated: %llu tensors announced", (unsigned long long)n);
	g->tensors = spar_calloc(n + 1, sizeof *g->tensors);
	uint64_t *offsets = spar_calloc(n + 1, sizeof *offsets), alignment = 32;
	int rc = 0;
	for (; g->n_tensors < n && rc == 0; g->n_tensors++)
		if (!take_tensor(c, &g->tensors[g->n_tensors], &offsets[g->n_tensors]))
			rc = spar_fail(err, SPAR_INPUT, "description of tensor %zu is damaged or cut off",
				       g->n_tensors + 1);
	if (rc == 0 && spar_gguf_has(g, "general.alignment"))
		rc = spar_gguf_u64(g, "general.alignment", &alignment, err);
	if (rc == 0 && (alignment < 1 || alignment > 1 << 20))
		rc = spar_fail(err, SPAR_INPUT, "general.alignment: %llu", (unsigned long long)alignment);
	uint64_t begin = (uint64_t)(c->at - g->map.data);
	if (rc == 0)
		begin = (begin + alignment - 1) / alignment * alignment;
	if (begin > g->map.size)
		begin = g->map.size;
	for (size_t i = 0; i < g->n_tensors && rc == 0; i++)
		rc = place_tensor(&g->tensors[i], g->map.data + begin, g->map.size - begin, offsets[i], err);
	free(offsets);
	return rc < 0 ? rc : sort_names(g->tensors, g->n_tensors, sizeof *g->tensors, err);
}

static int read_all(struct spar_gguf *g, struct spar_err *err)
{
	struct cursor c = {g->map.data, g->map.data + g->map.size};
	const uint8_t *magic;
	uint32_t version;
	uint64_t n_tensors, n_pairs;
	if (!g->map.data || !take(&c, 4, &magic) || memcmp(magic, "GGUF", 4) != 0)
		return spar_fail(err, SPAR_INPUT, "not a GGUF file");
	if (!take_u32(&c, &version) || !take_u64(&c, &n_tensors) || !take_u64(&c, &n_pairs))
		return spar_fail(err, SPAR_INPUT, "truncated");
	if (version != 2 && version != 3)
		return spar_fail(err, SPAR_INPUT, "GGUF version %u is not supported (2 and 3 are)", version);
	int rc = read_pairs(g, &c, n_pairs, err);
	return rc < 0 ? rc : read_tensors(g, &c, n_tensors, err);
}

int spar_gguf_open(struct spar_gguf **out, const char *path, struct spar_err *err)
{
	struct spar_gguf *g = spar_calloc(1, sizeof *g);
	*out = NULL;
	int rc = spar_map_open(&g->map, path, err);
	if (rc < 0) {
		free(g);
		return rc;
	}
	if ((rc = read_all(g, err)) < 0) {
		spar_gguf_close(g);
		return spar_fail_at(err, "%s", path);
	}
	*out = g;
	return 0;
}

void spar_gguf_close(struct spar_gguf *g)
{
	if (!g)
		return;
	spar_map_close(&g->map);
	free(g->pairs);
	free(g->tensors);
	free(g);
}

size_t spar_gguf_count(const struct spar_gguf *g)
{
	return g->n_tensors;
}

const struct spar_gguf_tensor *spar_gguf_find(const struct spar_gguf *g, const char *name)
{
	struct spar_gguf_tensor key = {.name = {name, strlen(name)}};
	return g->n_tensors ? bsearch(&key, g->tensors, g->n_tensors, sizeof key, by_name) : NULL;
}

/* ---- metadata ---- */

static const struct pair *find_pair(const struct spar_gguf *g, const char *key)
{
	struct pair wanted = {.key = {key, strlen(key)}};
	return g->n_pairs ? bsearch(&wanted, g->pairs, g->n_pairs, sizeof wanted, by_name) : NULL;
}

size_t spar_gguf_n_keys(const struct spar_gguf *g)
{
	return g->n_pairs;
}

struct spar_gguf_text spar_gguf_key(const struct spar_gguf *g, size_t i)
{
	return g->pairs[i].key;
}

bool spar_gguf_has(const struct spar_gguf *g, const char *key)
{
	return find_pair(g, key) != NULL;
}

static int missing(const struct pair *p, const char *key, const char *wanted, struct spar_err *err)
{
	return spar_fail(err, SPAR_INPUT, p ? "%s: not %s" : "%s: not there (%s wanted)", key, wanted);
}

/* A whole number of any width; false if the type has fractions or is no number. */
static bool integer_at(uint32_t type, const uint8_t *data, int64_t *out)
{
	if (type == STRING || type == ARRAY || type == F32 || type == F64)
		return false;
	size_t size = value_size[type];
	uint64_t bits = 0;
	memcpy(&bits, data, size);
	bool is_signed = type == I8 || type == I16 || type == I32 || type == I64;
	if (is_signed && size < 8 && bits >> (8 * size - 1) & 1)
		bits |= UINT64_MAX << 8 * size;
	if (type == U64 && bits > INT64_MAX)
		return false;
	*out = (int64_t)bits;
	return true;
}

bool spar_gguf_is_zero(const struct spar_gguf *g, size_t i)
{
	int64_t v;
	return integer_at(g->pairs[i].type, g->pairs[i].data, &v) && v == 0;
}

int spar_gguf_u64(const struct spar_gguf *g, const char *key, uint64_t *out, struct spar_err *err)
{
	const struct pair *p = find_pair(g, key);
	int64_t v;
	if (!p || !integer_at(p->type, p->data, &v) || v < 0)
		return missing(p, key, "a whole number", err);
	*out = (uint64_t)v;
	return 0;
}

/* A number of any type; NAN if it is none. */
static double number_at(uint32_t type, const uint8_t *data)
{
	int64_t whole;
	float narrow;
	double v = NAN;
	if (type == F32) {
		memcpy(&narrow, data, sizeof narrow);
		v = narrow;
	} else if (type == F64) {
		memcpy(&v, data, sizeof v);
	} else if (integer_at(type, data, &whole)) {
		v = (double)whole;
	}
	return v;
}

int spar_gguf_double(const struct spar_gguf *g, const char *key, double *out, struct spar_err *err)
{
	const struct pair *p = find_pair(g, key);
	double v = p ? number_at(p->type, p->data) : NAN;
	if (!isfinite(v))
		return missing(p, key, "a finite number", err);
	*out = v;
	return 0;
}

int spar_gguf_doubles(const struct spar_gguf *g, const char *key, double **out, size_t *n, struct spar_err *err)
{
	const struct pair *p = find_pair(g, key);
	if (!p || p->type != ARRAY || p->item_type == STRING)
		return missing(p, key, "an array of numbers", err);
	*n = p->n;
	*out = spar_calloc(p->n + 1, sizeof **out);
	for (size_t i = 0; i < p->n; i++)
		(*out)[i] = number_at(p->item_type, p->data + i * value_size[p->item_type]);
	return 0;
}

int spar_gguf_str(const struct spar_gguf *g, const char *key, struct spar_gguf_text *out, struct spar_err *err)
{
	const struct pair *p = find_pair(g, key);
	if (!p || p->type != STRING)
		return missing(p, key, "a string", err);
	*out = (struct spar_gguf_text){(const char *)p->data, p->n};
	return 0;
}

int spar_gguf_strs(const struct spar_gguf *g, const char *key, struct spar_gguf_text **out, size_t *n,
		   struct spar_err *err)
{
	const struct pair *p = find_pair(g, key);
	if (!p || p->type != ARRAY || p->item_type != STRING)
		return missing(p, key, "an array of strings", err);
	struct cursor c = {p->data, g->map.data + g->map.size};
	*n = p->n;
	*out = spar_calloc(p->n + 1, sizeof **out);
	for (size_t i = 0; i < p->n; i++)
		take_text(&c, &(*out)[i]); /* checked when the file was opened */
	return 0;
}

int spar_gguf_ints(const struct spar_gguf *g, const char *key, int32_t **out, size_t *n, struct spar_err *err)
{
	const struct pair *p = find_pair(g, key);
	if (!p || p->type != ARRAY)
		return missing(p, key, "an array of whole numbers", err);
	int32_t *ints = spar_calloc(p->n + 1, sizeof *ints);
	for (size_t i = 0; i < p->n; i++) {
		int64_t v;
		if (!integer_at(p->item_type, p->data + i * value_size[p->item_type], &v) || v < INT32_MIN ||
		    v > INT32_MAX) {
			free(ints);
			return missing(p, key, "an array of whole numbers", err);
		}
		ints[i] = (int32_t)v;
	}
	*n = p->n;
	*out = ints;
	return 0;
}
