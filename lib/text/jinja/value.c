#include "text/jinja/value.h"
#include <stdlib.h>
#include <string.h>

void pool_free(struct pool *p)
{
	while (p->first) {
		struct value *v = p->first;
		p->first = v->next;
		if (v->kind == STRING)
			free((char *)v->text);
		free(v->marks.data);
		free(v->items);
		free(v->keys);
		free(v);
	}
}

bool pool_is_spent(const struct pool *p)
{
	return p->steps > VALUES_MAX_STEPS || p->bytes > VALUES_MAX_BYTES;
}

/* ---- making ---- */

struct value *new_value(struct pool *p, enum kind kind)
{
	struct value *v = spar_calloc(1, sizeof *v);
	v->kind = kind;
	v->next = p->first;
	p->first = v;
	p->bytes += sizeof *v;
	return v;
}

struct value *new_named(struct pool *p, enum kind kind, const char *name)
{
	struct value *v = new_value(p, kind);
	v->text = name;
	return v;
}

struct value *new_bool(struct pool *p, bool b)
{
	struct value *v = new_value(p, BOOL);
	v->number = b;
	return v;
}

struct value *new_number(struct pool *p, double d)
{
	struct value *v = new_value(p, NUMBER);
	v->number = d;
	return v;
}

struct value *new_float(struct pool *p, double d)
{
	struct value *v = new_number(p, d);
	v->is_float = true;
	return v;
}

struct value *new_string(struct pool *p, const char *text, size_t n)
{
	struct value *v = new_value(p, STRING);
	char *copy = spar_malloc(n + 1);
	memcpy(copy, text, n);
	copy[n] = 0;
	v->text = copy;
	v->n = n;
	p->bytes += n;
	return v;
}

struct value *new_text(struct pool *p, const char *cstr)
{
	return new_string(p, cstr, strlen(cstr));
}

struct value *new_list(struct pool *p, struct value *const *items, size_t n)
{
	struct value *list = new_value(p, LIST);
	for (size_t i = 0; i < n; i++)
		list_add(p, list, items[i]);
	return list;
}

struct value *new_generator(struct pool *p)
{
	struct value *list = new_value(p, LIST);
	list->lazy = GENERATOR;
	return list;
}

static struct value *string_from_jv(struct pool *p, jv s, bool outside)
{
	struct value *v = new_string(p, jv_string_value(s), (size_t)jv_string_length_bytes(jv_copy(s)));
	if (outside && v->n)
		spar_spans_add(&v->marks, 0, v->n);
	return v;
}

static struct value *number_from_jv(struct pool *p, jv v)
{
	double d = jv_number_value(v);
	bool whole = d >= -9007199254740992.0 && d <= 9007199254740992.0 && d == (double)(int64_t)d;
	return whole ? new_number(p, d) : new_float(p, d);
}

struct value *from_jv(struct pool *p, jv v, bool outside)
{
	struct value *out;
	switch (jv_get_kind(v)) {
	case JV_KIND_NULL:
		return new_value(p, NONE);
	case JV_KIND_TRUE:
	case JV_KIND_FALSE:
		return new_bool(p, jv_get_kind(v) == JV_KIND_TRUE);
	case JV_KIND_NUMBER:
		return number_from_jv(p, v);
	case JV_KIND_STRING:
		return string_from_jv(p, v, outside);
	case JV_KIND_ARRAY:
		out = new_value(p, LIST);
		jv_array_foreach(v, i, item)
		{
			list_add(p, out, from_jv(p, item, outside));
			jv_free(item);
		}
		return out;
	case JV_KIND_OBJECT:
		out = new_value(p, DICT);
		jv_object_foreach(v, key, item)
		{
			dict_set(p, out, string_from_jv(p, key, outside), from_jv(p, item, outside));
			jv_free(key);
			jv_free(item);
		}
		return out;
	default:
		return new_named(p, UNDEFINED, "");
	}
}

/* ---- lists and dictionaries ---- */

/* Room for one more item. Who walks a value goes as deep as it is nested: too deep ends the rendering. */
static void grow(struct pool *p, struct value *v, const struct value *item)
{
	if (item->kind != NAMESPACE && item->depth >= v->depth)
		v->depth = item->depth + 1;
	if (v->depth > VALUES_MAX_DEPTH)
		p->steps = VALUES_MAX_STEPS + 1;
	if (v->n < v->cap)
		return;
	v->cap = v->cap ? 2 * v->cap : 4;
	v->items = spar_realloc(v->items, v->cap * sizeof *v->items);
	if (v->kind != LIST)
		v->keys = spar_realloc(v->keys, v->cap * sizeof *v->keys);
	p->bytes += v->cap * sizeof *v->items;
}

void list_add(struct pool *p, struct value *list, struct value *item)
{
	grow(p, list, item);
	list->items[list->n++] = item;
}

void dict_set(struct pool *p, struct value *dict, struct value *key, struct value *item)
{
	for (size_t i = 0; i < dict->n; i++)
		if (is_equal(p, dict->keys[i], key)) {
			dict->items[i] = item;
			dict->depth = item->depth >= dict->depth ? item->depth + 1 : dict->depth;
			return;
		}
	grow(p, dict, item);
	dict->keys[dict->n] = key;
	dict->items[dict->n++] = item;
}

void dict_set_text(struct pool *p, struct value *dict, const char *key, struct value *item)
{
	dict_set(p, dict, new_text(p, key), item);
}

struct value *dict_get(struct pool *p, const struct value *dict, const struct value *key)
{
	for (size_t i = 0; i < dict->n; i++)
		if (is_equal(p, dict->keys[i], key))
			return dict->items[i];
	return NULL;
}

struct value *dict_get_text(const struct value *dict, const char *key, size_t n)
{
	for (size_t i = 0; i < dict->n; i++)
		if (dict->keys[i]->kind == STRING && dict->keys[i]->n == n && !memcmp(dict->keys[i]->text, key, n))
			return dict->items[i];
	return NULL;
}

/* ---- questions ---- */

bool is_true(const struct value *v)
{
	switch (v->kind) {
	case UNDEFINED:
	case NONE:
		return false;
	case BOOL:
	case NUMBER:
		return v->number != 0;
	case STRING:
	case DICT:
		return v->n > 0;
	case LIST:
		return v->n > 0 || v->lazy == GENERATOR;
	default:
		return true;
	}
}

bool is_number(const struct value *v)
{
	return v->kind == BOOL || v->kind == NUMBER;
}

bool is_text(const struct value *v, const char *cstr)
{
	return v->kind == STRING && v->n == strlen(cstr) && !memcmp(v->text, cstr, v->n);
}

/* Values may share their parts, so that comparing two small ones can take for ever: hence the count of steps. */
bool is_equal(struct pool *p, const struct value *a, const struct value *b)
{
	if (is_number(a) && is_number(b))
		return a->number == b->number;
	if (a->kind != b->kind || p->steps > VALUES_MAX_STEPS)
		return false;
	switch (a->kind) {
	case STRING:
		return a->n == b->n && !memcmp(a->text, b->text, a->n);
	case LIST:
		if (a->n != b->n || a->is_tuple != b->is_tuple)
			return false;
		for (size_t i = 0; i < a->n; i++, p->steps++)
			if (!is_equal(p, a->items[i], b->items[i]))
				return false;
		return true;
	case DICT:
		for (size_t i = 0; a->n == b->n && i < a->n; i++, p->steps++) {
			const struct value *other = dict_get(p, b, a->keys[i]);
			if (!other || !is_equal(p, a->items[i], other))
				return false;
		}
		return a->n == b->n;
	case UNDEFINED:
	case NONE:
		return true;
	default:
		return a == b;
	}
}

int compare(struct pool *p, const struct value *a, const struct value *b)
{
	size_t n = a->n < b->n ? a->n : b->n;
	if (is_number(a) && is_number(b))
		return (a->number > b->number) - (a->number < b->number);
	if (a->kind == LIST && b->kind == LIST && p->steps <= VALUES_MAX_STEPS) {
		for (size_t i = 0; i < n; i++, p->steps++)
			if (!is_equal(p, a->items[i], b->items[i]))
				return compare(p, a->items[i], b->items[i]);
	} else if (a->kind == STRING && b->kind == STRING) { /* the order of UTF-8 is that of code points */
		int c = memcmp(a->text, b->text, n);
		if (c)
			return c > 0 ? 1 : -1;
	} else {
		return 2;
	}
	return (a->n > b->n) - (a->n < b->n);
}

size_t length(const struct value *v)
{
	size_t chars = 0;
	for (size_t i = 0; v->kind == STRING && i < v->n; i++)
		chars += ((uint8_t)v->text[i] & 0xC0) != 0x80;
	return v->kind == STRING ? chars : v->n;
}

/* ---- strings ---- */

void add_slice(struct spar_marked *b, const struct value *string, size_t begin, size_t end)
{
	spar_marked_slice(b, string->text, &string->marks, begin, end);
}

struct value *built(struct pool *p, struct spar_marked *b)
{
	struct value *v = new_string(p, b->text.data, b->text.len);
	v->marks = b->marks;
	b->marks = (struct spar_spans){0};
	spar_marked_release(b);
	return v;
}

struct value *slice_string(struct pool *p, const struct value *s, size_t begin, size_t end)
{
	struct spar_marked b = SPAR_MARKED_INIT;
	add_slice(&b, s, begin, end);
	return built(p, &b);
}

bool is_marked(const struct value *string, size_t at)
{
	return spar_spans_touch(&string->marks, at, at + 1);
}
