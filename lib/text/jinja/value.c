#include "text/jinja/value.h"
#include <math.h>
#include <stdio.h>
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

struct value *new_value(struct pool *p, enum kind kind)
{
	struct value *v = spar_calloc(1, sizeof *v);
	v->kind = kind;
	v->next = p->first;
	p->first = v;
	p->bytes += sizeof *v;
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

static struct value *string_from_jv(struct pool *p, jv s, bool outside)
{
	struct value *v = new_string(p, jv_string_value(s), (size_t)jv_string_length_bytes(jv_copy(s)));
	if (outside && v->n)
		spar_spans_add(&v->marks, 0, v->n);
	return v;
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
		return new_number(p, jv_number_value(v));
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
		return new_value(p, UNDEFINED);
	}
}

static void grow(struct pool *p, struct value *v)
{
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
	grow(p, list);
	list->items[list->n++] = item;
}

void dict_set(struct pool *p, struct value *dict, struct value *key, struct value *item)
{
	for (size_t i = 0; i < dict->n; i++)
		if (is_equal(dict->keys[i], key)) {
			dict->items[i] = item;
			return;
		}
	grow(p, dict);
	dict->keys[dict->n] = key;
	dict->items[dict->n++] = item;
}

struct value *dict_get(const struct value *dict, const char *key, size_t n)
{
	for (size_t i = 0; i < dict->n; i++)
		if (dict->keys[i]->kind == STRING && dict->keys[i]->n == n && !memcmp(dict->keys[i]->text, key, n))
			return dict->items[i];
	return NULL;
}

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
	case LIST:
	case DICT:
		return v->n > 0;
	default:
		return true;
	}
}

static bool is_number(const struct value *v)
{
	return v->kind == BOOL || v->kind == NUMBER;
}

bool is_equal(const struct value *a, const struct value *b)
{
	if (is_number(a) && is_number(b))
		return a->number == b->number;
	if (a->kind != b->kind)
		return false;
	switch (a->kind) {
	case STRING:
		return a->n == b->n && !memcmp(a->text, b->text, a->n);
	case LIST:
		for (size_t i = 0; a->n == b->n && i < a->n; i++)
			if (!is_equal(a->items[i], b->items[i]))
				return false;
		return a->n == b->n;
	case DICT:
		for (size_t i = 0; a->n == b->n && i < a->n; i++) {
			const struct value *other = dict_get(b, a->keys[i]->text, a->keys[i]->n);
			if (!other || !is_equal(a->items[i], other))
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

bool is_text(const struct value *v, const char *cstr)
{
	return v->kind == STRING && v->n == strlen(cstr) && !memcmp(v->text, cstr, v->n);
}

int compare(const struct value *a, const struct value *b)
{
	if (is_number(a) && is_number(b))
		return (a->number > b->number) - (a->number < b->number);
	if (a->kind != STRING || b->kind != STRING)
		return 2;
	int c = memcmp(a->text, b->text, a->n < b->n ? a->n : b->n);
	return c ? (c > 0) - (c < 0) : (a->n > b->n) - (a->n < b->n);
}

/* ---- building strings ---- */

static void add_mark(struct spar_spans *marks, size_t begin, size_t end)
{
	if (begin == end)
		return;
	if (marks->n && marks->data[marks->n - 1].end == begin)
		marks->data[marks->n - 1].end = end;
	else
		spar_spans_add(marks, begin, end);
}

void add_bytes(struct builder *b, const char *bytes, size_t n, bool marked)
{
	if (marked)
		add_mark(&b->marks, b->text.len, b->text.len + n);
	spar_str_add(&b->text, bytes, n);
}

void add_slice(struct builder *b, const struct value *string, size_t begin, size_t end)
{
	for (size_t i = 0; i < string->marks.n; i++) {
		size_t from = string->marks.data[i].begin, to = string->marks.data[i].end;
		from = from < begin ? begin : from;
		to = to > end ? end : to;
		if (from < to)
			add_mark(&b->marks, b->text.len + from - begin, b->text.len + to - begin);
	}
	spar_str_add(&b->text, string->text + begin, end - begin);
}

static void add_number(struct builder *b, const struct value *v)
{
	struct spar_str s = SPAR_STR_INIT;
	spar_str_add_double(&s, v->number);
	if (v->is_float && v->number == floor(v->number))
		spar_str_adds(&s, ".0");
	add_bytes(b, s.data, s.len, false);
	spar_str_release(&s);
}

/* A string inside a list that is printed: Python's quotes. */
static void add_quoted(struct builder *b, const struct value *s)
{
	char quote = memchr(s->text, '\'', s->n) && !memchr(s->text, '"', s->n) ? '"' : '\'';
	add_bytes(b, &quote, 1, false);
	for (size_t i = 0; i < s->n; i++) {
		char c = s->text[i];
		const char *escape = c == '\n'   ? "\\n"
				     : c == '\t' ? "\\t"
				     : c == '\r' ? "\\r"
				     : c == '\\' ? "\\\\"
						 : NULL;
		if (c == quote)
			escape = "\\'";
		if (escape)
			add_bytes(b, escape, 2, is_marked(s, i));
		else
			add_slice(b, s, i, i + 1);
	}
	add_bytes(b, &quote, 1, false);
}

static void add_nested(struct builder *b, const struct value *v)
{
	if (v->kind == STRING)
		add_quoted(b, v);
	else
		add_value(b, v);
}

void add_value(struct builder *b, const struct value *v)
{
	switch (v->kind) {
	case UNDEFINED:
		return;
	case NONE:
		add_bytes(b, "None", 4, false);
		return;
	case BOOL:
		add_bytes(b, v->number != 0 ? "True" : "False", v->number != 0 ? 4 : 5, false);
		return;
	case NUMBER:
		add_number(b, v);
		return;
	case STRING:
		add_slice(b, v, 0, v->n);
		return;
	default:
		break;
	}
	add_bytes(b, v->kind == LIST ? "[" : "{", 1, false);
	for (size_t i = 0; i < v->n; i++) {
		if (i)
			add_bytes(b, ", ", 2, false);
		if (v->kind != LIST) {
			add_nested(b, v->keys[i]);
			add_bytes(b, ": ", 2, false);
		}
		add_nested(b, v->items[i]);
	}
	add_bytes(b, v->kind == LIST ? "]" : "}", 1, false);
}

static void add_json_string(struct builder *b, const struct value *s)
{
	struct spar_str quoted = SPAR_STR_INIT;
	spar_str_add_json(&quoted, s->text, s->n);
	add_bytes(b, quoted.data, quoted.len, s->marks.n > 0);
	spar_str_release(&quoted);
}

static void add_break(struct builder *b, int indent, int level)
{
	if (indent < 0)
		return;
	add_bytes(b, "\n", 1, false);
	for (int i = 0; i < indent * level; i++)
		add_bytes(b, " ", 1, false);
}

/* As Python's json.dumps with its usual separators. */
void add_json(struct builder *b, const struct value *v, int indent, int level)
{
	bool list = v->kind == LIST;
	switch (v->kind) {
	case STRING:
		add_json_string(b, v);
		return;
	case BOOL:
		add_bytes(b, v->number != 0 ? "true" : "false", v->number != 0 ? 4 : 5, false);
		return;
	case NUMBER:
		add_number(b, v);
		return;
	case LIST:
	case DICT:
	case NAMESPACE:
		break;
	default:
		add_bytes(b, "null", 4, false);
		return;
	}
	add_bytes(b, list ? "[" : "{", 1, false);
	for (size_t i = 0; i < v->n; i++) {
		if (i)
			add_bytes(b, indent < 0 ? ", " : ",", indent < 0 ? 2 : 1, false);
		add_break(b, indent, level + 1);
		if (!list) {
			add_json_string(b, v->keys[i]);
			add_bytes(b, ": ", 2, false);
		}
		add_json(b, v->items[i], indent, level + 1);
	}
	if (v->n)
		add_break(b, indent, level);
	add_bytes(b, list ? "]" : "}", 1, false);
}

struct value *built(struct pool *p, struct builder *b)
{
	struct value *v = new_string(p, b->text.data, b->text.len);
	v->marks = b->marks;
	spar_str_release(&b->text);
	b->marks = (struct spar_spans){0};
	return v;
}

struct value *slice_string(struct pool *p, const struct value *s, size_t begin, size_t end)
{
	struct builder b = BUILDER_INIT;
	add_slice(&b, s, begin, end);
	return built(p, &b);
}

bool is_marked(const struct value *string, size_t at)
{
	for (size_t i = 0; i < string->marks.n; i++)
		if (string->marks.data[i].begin <= at && at < string->marks.data[i].end)
			return true;
	return false;
}
