/* Values as text: as Jinja prints them, as Python does inside others, and as JSON. */
#include "text/chars.h"
#include "text/jinja/value.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static bool is_full(const struct spar_marked *b)
{
	return b->text.len > VALUES_MAX_TEXT;
}

static void add_text(struct spar_marked *b, const char *cstr)
{
	spar_marked_add(b, cstr, strlen(cstr), false);
}

static void add_number(struct spar_marked *b, const struct value *v)
{
	struct spar_str s = SPAR_STR_INIT;
	if (!v->is_float || (v->number == floor(v->number) && fabs(v->number) < 1e16))
		spar_str_addf(&s, v->is_float ? "%.1f" : "%.0f", v->number);
	else
		spar_str_add_double(&s, v->number);
	spar_marked_add(b, s.data, s.len, false);
	spar_str_release(&s);
}

static void add_constant(struct spar_marked *b, const struct value *v, const char *none, const char *yes,
			 const char *no)
{
	if (v->kind == NUMBER)
		add_number(b, v);
	else
		add_text(b, v->kind != BOOL ? none : v->number != 0 ? yes : no);
}

/* ---- as Python prints a value inside another one ---- */

static bool is_printable(int32_t c)
{
	static const char bad[][3] = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (!strcmp(utf8proc_category_string(c), bad[i]))
			return c == ' ';
	return true;
}

/* The escape of a character, or "" if it stands for itself. */
static const char *escape_of(int32_t c, char quote, char out[12])
{
	static const char from[] = "\n\t\r\\", to[] = "ntr\\";
	const char *known = c && c < 0x80 ? strchr(from, c) : NULL;
	out[0] = 0;
	if (known)
		snprintf(out, 12, "\\%c", to[known - from]);
	else if (c == quote)
		snprintf(out, 12, "\\%c", quote);
	else if (!is_printable(c))
		snprintf(out, 12, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)c);
	return out;
}

static void add_quoted(struct spar_marked *b, const struct value *s)
{
	char quote = memchr(s->text, '\'', s->n) && !memchr(s->text, '"', s->n) ? '"' : '\'', escape[12];
	spar_marked_add(b, &quote, 1, false);
	for (size_t i = 0, len; i < s->n; i += len) {
		int32_t c;
		len = spar_char_at(s->text, s->n, i, &c);
		if (*escape_of(c, quote, escape))
			spar_marked_add(b, escape, strlen(escape), is_marked(s, i));
		else
			add_slice(b, s, i, i + len);
	}
	spar_marked_add(b, &quote, 1, false);
}

static void add_nested(struct spar_marked *b, const struct value *v)
{
	if (v->kind == STRING)
		add_quoted(b, v);
	else if (v->kind == UNDEFINED)
		add_text(b, "Undefined");
	else
		add_value(b, v);
}

static void add_items(struct spar_marked *b, const struct value *v)
{
	const char *brackets = v->kind != LIST ? "{}" : v->is_tuple ? "()" : "[]";
	spar_marked_add(b, brackets, 1, false);
	for (size_t i = 0; i < v->n && !is_full(b); i++) {
		if (i)
			add_text(b, ", ");
		if (v->kind != LIST) {
			add_nested(b, v->keys[i]);
			add_text(b, ": ");
		}
		add_nested(b, v->items[i]);
	}
	if (v->kind == LIST && v->is_tuple && v->n == 1)
		add_text(b, ",");
	spar_marked_add(b, brackets + 1, 1, false);
}

void add_value(struct spar_marked *b, const struct value *v)
{
	switch (v->kind) {
	case UNDEFINED:
		return;
	case NONE:
	case BOOL:
	case NUMBER:
		add_constant(b, v, "None", "True", "False");
		return;
	case STRING:
		add_slice(b, v, 0, v->n);
		return;
	case LIST:
	case DICT:
		if (v->lazy)
			add_text(b, v->lazy == VIEW ? "<view>" : "<generator>");
		else
			add_items(b, v);
		return;
	default:
		add_text(b, v->kind == NAMESPACE ? "<Namespace>" : "<function>");
	}
}

struct value *to_string(struct pool *p, struct value *v)
{
	struct spar_marked b = SPAR_MARKED_INIT;
	if (v->kind == STRING)
		return v;
	add_value(&b, v);
	return built(p, &b);
}

/* ---- JSON ---- */

static void add_json_string(struct spar_marked *b, const struct value *s, bool ascii)
{
	static const char from[] = "\"\\\n\r\t\b\f", to[] = "\"\\nrtbf";
	add_text(b, "\"");
	for (size_t i = 0, len; i < s->n; i += len) {
		int32_t c;
		char escape[16] = "";
		len = spar_char_at(s->text, s->n, i, &c);
		const char *known = c && c < 0x80 ? strchr(from, c) : NULL;
		if (known)
			snprintf(escape, sizeof escape, "\\%c", to[known - from]);
		else if (c < 0x20 || (ascii && c > 0x7E && c < 0x10000))
			snprintf(escape, sizeof escape, "\\u%04x", (unsigned)c);
		else if (ascii && c >= 0x10000)
			snprintf(escape, sizeof escape, "\\u%04x\\u%04x", 0xD800 + (unsigned)((c - 0x10000) >> 10),
				 0xDC00 + (unsigned)(c & 0x3FF));
		if (*escape)
			spar_marked_add(b, escape, strlen(escape), is_marked(s, i));
		else
			add_slice(b, s, i, i + len);
	}
	add_text(b, "\"");
}

static void add_break(struct spar_marked *b, const struct json_style *style, int level)
{
	if (!style->indent)
		return;
	add_text(b, "\n");
	for (int i = 0; i < level; i++) {
		if (style->indent->kind == STRING)
			add_slice(b, style->indent, 0, style->indent->n);
		for (double k = 0; is_number(style->indent) && k < style->indent->number && !is_full(b); k++)
			add_text(b, " ");
	}
}

/* A key that is no string becomes one. */
static bool add_key(struct pool *p, struct spar_marked *b, const struct value *key, bool ascii)
{
	struct spar_marked text = SPAR_MARKED_INIT;
	if (key->kind != STRING && !is_number(key) && key->kind != NONE)
		return false;
	if (key->kind == STRING)
		add_slice(&text, key, 0, key->n);
	else
		add_constant(&text, key, "null", "true", "false");
	add_json_string(b, built(p, &text), ascii);
	return true;
}

struct ordered {
	const struct value *key;
	size_t at;
};

static int by_key(const void *a, const void *b)
{
	const struct ordered *x = a, *y = b;
	struct pool none = {0};
	int c = compare(&none, x->key, y->key);
	return c ? c : (x->at > y->at) - (x->at < y->at);
}

static bool add_members(struct pool *p, struct spar_marked *b, const struct value *v, const struct json_style *style,
			int level);

static bool add_json_at(struct pool *p, struct spar_marked *b, const struct value *v, const struct json_style *style,
			int level)
{
	switch (v->kind) {
	case STRING:
		add_json_string(b, v, style->ascii);
		return true;
	case NONE:
	case BOOL:
	case NUMBER:
		add_constant(b, v, "null", "true", "false");
		return true;
	case LIST:
	case DICT:
		if (v->lazy) {
			p->why = "takes no generator or view; make a list of it";
			return false;
		}
		return add_members(p, b, v, style, level);
	default:
		p->why = "something in it has no JSON";
		return false;
	}
}

static bool add_members(struct pool *p, struct spar_marked *b, const struct value *v, const struct json_style *style,
			int level)
{
	bool list = v->kind == LIST, ok = true;
	const char *item_end = style->item_end ? style->item_end : style->indent ? "," : ", ";
	struct ordered *order = spar_calloc(v->n + 1, sizeof *order);
	for (size_t i = 0; i < v->n; i++)
		order[i] = (struct ordered){list ? v->items[i] : v->keys[i], i};
	if (!list && style->sorted)
		qsort(order, v->n, sizeof *order, by_key);
	add_text(b, list ? "[" : "{");
	for (size_t i = 0; ok && i < v->n && !is_full(b); i++) {
		if (i)
			add_text(b, item_end);
		add_break(b, style, level + 1);
		if (!list) {
			ok = add_key(p, b, order[i].key, style->ascii);
			add_text(b, style->key_end ? style->key_end : ": ");
		}
		ok = ok && add_json_at(p, b, v->items[order[i].at], style, level + 1);
	}
	if (v->n)
		add_break(b, style, level);
	add_text(b, list ? "]" : "}");
	free(order);
	return ok;
}

bool add_json(struct pool *p, struct spar_marked *b, const struct value *v, const struct json_style *style)
{
	return add_json_at(p, b, v, style, 0);
}
