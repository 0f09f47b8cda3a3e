#include "text/jinja/call.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

struct value *arg(const struct args *a, size_t place, const char *name)
{
	return place < a->n ? a->by_place[place] : a->names ? dict_get(a->names, name, strlen(name)) : NULL;
}

/* ---- strings ---- */

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1C && c <= 0x1F);
}

/* Without the characters of `set` (NULL: blanks) at its ends. */
static struct value *strip(struct pool *p, const struct value *s, const struct value *set, bool left, bool right)
{
	size_t begin = 0, end = s->n;
	if (set && set->kind != STRING)
		set = NULL;
	while (left && begin < end &&
	       (set ? memchr(set->text, s->text[begin], set->n) != NULL : is_blank(s->text[begin])))
		begin++;
	while (right && end > begin &&
	       (set ? memchr(set->text, s->text[end - 1], set->n) != NULL : is_blank(s->text[end - 1])))
		end--;
	return slice_string(p, s, begin, end);
}

/* Where `part` (not empty) stands in s at or after `from`; SIZE_MAX: nowhere. */
static size_t find(const struct value *s, const struct value *part, size_t from)
{
	for (; part->n && from + part->n <= s->n; from++)
		if (!memcmp(s->text + from, part->text, part->n))
			return from;
	return SIZE_MAX;
}

static struct value *split(struct pool *p, const struct value *s, const struct value *sep, double max)
{
	struct value *list = new_value(p, LIST);
	size_t from = 0, at;
	if (!sep || sep->kind != STRING) { /* at runs of blanks */
		for (size_t i = 0; i <= s->n; i++)
			if (i == s->n || is_blank(s->text[i])) {
				if (i > from)
					list_add(p, list, slice_string(p, s, from, i));
				from = i + 1;
			}
		return list;
	}
	while ((max < 0 || (double)list->n < max) && (at = find(s, sep, from)) != SIZE_MAX) {
		list_add(p, list, slice_string(p, s, from, at));
		from = at + sep->n;
	}
	list_add(p, list, slice_string(p, s, from, s->n));
	return list;
}

static struct value *replace(struct pool *p, const struct value *s, const struct value *old, const struct value *new,
			     double max)
{
	if (!old || !new || old->kind != STRING || new->kind != STRING || !old->n)
		return NULL;
	struct builder b = BUILDER_INIT;
	size_t from = 0, at;
	while (max != 0 && (at = find(s, old, from)) != SIZE_MAX) {
		add_slice(&b, s, from, at);
		add_slice(&b, new, 0, new->n);
		from = at + old->n;
		max--;
	}
	add_slice(&b, s, from, s->n);
	return built(p, &b);
}

enum letters { UPPER, LOWER, CAPITALIZE, TITLE };
static struct value *change_case(struct pool *p, const struct value *s, enum letters to)
{
	struct builder b = BUILDER_INIT;
	bool begins = true;
	for (size_t i = 0; i < s->n;) {
		utf8proc_int32_t c;
		utf8proc_uint8_t bytes[4];
		utf8proc_ssize_t n =
		    utf8proc_iterate((const utf8proc_uint8_t *)s->text + i, (utf8proc_ssize_t)(s->n - i), &c);
		bool up = to == UPPER || (to != LOWER && begins), letter;
		if (n <= 0)
			break;
		letter = utf8proc_toupper(c) != utf8proc_tolower(c);
		begins = to == TITLE && !letter;
		utf8proc_ssize_t len = utf8proc_encode_char(up ? utf8proc_toupper(c) : utf8proc_tolower(c), bytes);
		add_bytes(&b, (char *)bytes, (size_t)len, is_marked(s, i));
		i += (size_t)n;
	}
	return built(p, &b);
}

static int starts_or_ends(const struct value *s, const struct value *part, bool start)
{
	if (part && part->kind == LIST) { /* any of them */
		for (size_t i = 0; i < part->n; i++)
			if (starts_or_ends(s, part->items[i], start) == 1)
				return 1;
		return 0;
	}
	if (!part || part->kind != STRING)
		return -1;
	return part->n <= s->n && !memcmp(s->text + (start ? 0 : s->n - part->n), part->text, part->n);
}

static struct value *join(struct pool *p, const struct value *list, const struct value *sep)
{
	struct builder b = BUILDER_INIT;
	for (size_t i = 0; i < list->n; i++) {
		if (i && sep)
			add_value(&b, sep);
		add_value(&b, list->items[i]);
	}
	return built(p, &b);
}

static double number_or(const struct value *v, double absent)
{
	return v && v->kind == NUMBER ? v->number : absent;
}

static struct value *string_method(struct pool *p, const char *name, struct value *s, const struct args *a)
{
	static const char *const cases[] = {"upper", "lower", "capitalize", "title"};
	struct value *first = a->n ? a->by_place[0] : NULL, *second = a->n > 1 ? a->by_place[1] : NULL;
	for (int i = 0; i < 4; i++)
		if (!strcmp(name, cases[i]))
			return change_case(p, s, (enum letters)i);
	if (!strcmp(name, "strip") || !strcmp(name, "lstrip") || !strcmp(name, "rstrip"))
		return strip(p, s, first, name[0] != 'r', name[0] != 'l');
	if (!strcmp(name, "startswith") || !strcmp(name, "endswith")) {
		int yes = starts_or_ends(s, first, name[0] == 's');
		return yes < 0 ? NULL : new_bool(p, yes);
	}
	if (!strcmp(name, "split"))
		return split(p, s, first, number_or(second ? second : arg(a, 1, "maxsplit"), -1));
	if (!strcmp(name, "replace"))
		return replace(p, s, first, second, number_or(arg(a, 2, "count"), -1));
	if (!strcmp(name, "join") && first && first->kind == LIST)
		return join(p, first, s);
	if (!strcmp(name, "find") && first && first->kind == STRING) {
		size_t at = find(s, first, 0);
		return new_number(p, at == SIZE_MAX ? -1 : (double)at);
	}
	return NULL;
}

/* ---- lists and objects ---- */

/* What a loop over v sees: a list's items, an object's keys, a string's characters. NULL: nothing to loop over. */
static struct value *items_of(struct pool *p, struct value *v)
{
	if (v->kind == LIST)
		return v;
	struct value *list = new_value(p, LIST);
	if (v->kind == DICT)
		for (size_t i = 0; i < v->n; i++)
			list_add(p, list, v->keys[i]);
	else if (v->kind == STRING)
		for (size_t i = 0, step; i < v->n; i += step) {
			bool ok;
			step = spar_utf8_step(v->text + i, v->n - i, &ok);
			list_add(p, list, slice_string(p, v, i, i + step));
		}
	else if (v->kind != UNDEFINED)
		return NULL;
	return list;
}

static struct value *pairs(struct pool *p, const struct value *dict)
{
	struct value *list = new_value(p, LIST);
	for (size_t i = 0; i < dict->n; i++) {
		struct value *pair = new_value(p, LIST);
		list_add(p, pair, dict->keys[i]);
		list_add(p, pair, dict->items[i]);
		list_add(p, list, pair);
	}
	return list;
}

static int by_first(const void *a, const void *b)
{
	return compare((*(struct value *const *)a)->items[0], (*(struct value *const *)b)->items[0]);
}

struct value *call_method(struct pool *p, const char *name, struct value *v, const struct args *a)
{
	if (v->kind == STRING)
		return string_method(p, name, v, a);
	if (v->kind != DICT)
		return NULL;
	if (!strcmp(name, "items"))
		return pairs(p, v);
	if (!strcmp(name, "keys"))
		return items_of(p, v);
	if (!strcmp(name, "values")) {
		struct value *list = new_value(p, LIST);
		for (size_t i = 0; i < v->n; i++)
			list_add(p, list, v->items[i]);
		return list;
	}
	if (!strcmp(name, "get") && a->n && a->by_place[0]->kind == STRING) {
		struct value *found = dict_get(v, a->by_place[0]->text, a->by_place[0]->n);
		return found ? found : a->n > 1 ? a->by_place[1] : new_value(p, NONE);
	}
	return NULL;
}

static struct value *attribute_of(struct pool *p, const struct value *v, const struct value *name)
{
	struct value *found = v->kind == DICT && name->kind == STRING ? dict_get(v, name->text, name->n) : NULL;
	return found ? found : new_value(p, UNDEFINED);
}

/* select, reject, selectattr, rejectattr: the items for which a test (default: truth) holds, or does not. */
static struct value *select_items(struct pool *p, const char *name, const struct value *list, const struct args *a)
{
	size_t attribute = strstr(name, "attr") != NULL;
	if (attribute && (!a->n || a->by_place[0]->kind != STRING))
		return NULL;
	struct value *out = new_value(p, LIST);
	struct args rest = {.n = a->n > attribute + 1 ? a->n - attribute - 1 : 0};
	for (size_t i = 0; i < rest.n; i++)
		rest.by_place[i] = a->by_place[attribute + 1 + i];
	for (size_t i = 0; i < list->n; i++) {
		const struct value *v = attribute ? attribute_of(p, list->items[i], a->by_place[0]) : list->items[i];
		int yes = is_true(v);
		if (a->n > attribute)
			yes = a->by_place[attribute]->kind == STRING ? call_test(a->by_place[attribute]->text, v, &rest)
								     : -1;
		if (yes < 0)
			return NULL;
		if (yes == (name[0] == 's'))
			list_add(p, out, list->items[i]);
	}
	return out;
}

static struct value *map_items(struct pool *p, const struct value *list, const struct args *a)
{
	struct value *out = new_value(p, LIST), *attribute = a->names ? dict_get(a->names, "attribute", 9) : NULL;
	struct args rest = {.n = a->n ? a->n - 1 : 0, .names = a->names};
	for (size_t i = 0; i < rest.n; i++)
		rest.by_place[i] = a->by_place[1 + i];
	if (!attribute && (!a->n || a->by_place[0]->kind != STRING))
		return NULL;
	for (size_t i = 0; i < list->n; i++) {
		struct value *v = attribute ? attribute_of(p, list->items[i], attribute)
					    : call_filter(p, a->by_place[0]->text, list->items[i], &rest);
		if (!v)
			return NULL;
		list_add(p, out, v);
	}
	return out;
}

static struct value *reversed(struct pool *p, struct value *v)
{
	struct value *list = items_of(p, v), *out = new_value(p, LIST);
	if (!list)
		return NULL;
	for (size_t i = list->n; i-- > 0;)
		list_add(p, out, list->items[i]);
	return v->kind == STRING ? join(p, out, NULL) : out;
}

static struct value *indented(struct pool *p, const struct value *s, const struct args *a)
{
	struct builder b = BUILDER_INIT;
	const struct value *first = arg(a, 1, "first");
	int width = (int)number_or(arg(a, 0, "width"), 4);
	width = width < 0 ? 0 : width > 100 ? 100 : width;
	bool fill = first && is_true(first);
	for (size_t i = 0; i < s->n; i++) {
		if (fill && s->text[i] != '\n')
			for (int k = 0; k < width; k++)
				add_bytes(&b, " ", 1, false);
		add_slice(&b, s, i, i + 1);
		fill = s->text[i] == '\n';
	}
	return built(p, &b);
}

static struct value *length_of(struct pool *p, struct value *v)
{
	if (v->kind == DICT || v->kind == LIST)
		return new_number(p, (double)v->n);
	struct value *list = items_of(p, v);
	return list ? new_number(p, (double)list->n) : NULL;
}

static struct value *to_number(struct pool *p, const struct value *v, bool whole)
{
	double d = v->kind == STRING ? strtod(v->text, NULL) : v->kind == NUMBER || v->kind == BOOL ? v->number : 0;
	struct value *out = new_number(p, !isfinite(d) ? 0 : whole ? trunc(d) : d);
	out->is_float = !whole;
	return out;
}

struct value *call_filter(struct pool *p, const char *name, struct value *v, const struct args *a)
{
	struct builder b = BUILDER_INIT;
	if (!strcmp(name, "default") || !strcmp(name, "d")) {
		const struct value *falsy = arg(a, 1, "boolean");
		bool absent = v->kind == UNDEFINED || (falsy && is_true(falsy) && !is_true(v));
		struct value *other = arg(a, 0, "default_value");
		return !absent ? v : other ? other : new_string(p, "", 0);
	}
	if (!strcmp(name, "tojson") && v->kind != UNDEFINED) {
		add_json(&b, v, (int)number_or(arg(a, 0, "indent"), -1), 0);
		return built(p, &b);
	}
	if (!strcmp(name, "length") || !strcmp(name, "count"))
		return length_of(p, v);
	if (!strcmp(name, "int") || !strcmp(name, "float"))
		return to_number(p, v, name[0] == 'i');
	if (!strcmp(name, "abs") && v->kind == NUMBER)
		return new_number(p, fabs(v->number));
	if (!strcmp(name, "safe"))
		return v;
	if (!strcmp(name, "reverse"))
		return reversed(p, v);
	if ((!strcmp(name, "items") || !strcmp(name, "dictsort")) && v->kind == DICT) {
		struct value *list = pairs(p, v);
		if (name[0] == 'd' && list->n)
			qsort(list->items, list->n, sizeof(struct value *), by_first);
		return list;
	}
	struct value *list = v->kind == LIST || v->kind == DICT || !strcmp(name, "first") || !strcmp(name, "last") ||
				     !strcmp(name, "list") || !strcmp(name, "join")
				 ? items_of(p, v)
				 : NULL;
	if (list && !strcmp(name, "list"))
		return list;
	if (list && (!strcmp(name, "first") || !strcmp(name, "last")))
		return list->n ? list->items[name[0] == 'f' ? 0 : list->n - 1] : new_value(p, UNDEFINED);
	if (list && !strcmp(name, "join")) {
		const struct value *attribute = arg(a, 1, "attribute");
		struct value *picked = new_value(p, LIST);
		for (size_t i = 0; attribute && i < list->n; i++)
			list_add(p, picked, attribute_of(p, list->items[i], attribute));
		return join(p, attribute ? picked : list, arg(a, 0, "d"));
	}
	if (list && !strcmp(name, "map"))
		return map_items(p, list, a);
	if (list && (!strncmp(name, "select", 6) || !strncmp(name, "reject", 6)))
		return select_items(p, name, list, a);
	add_value(&b, v);
	struct value *s = built(p, &b); /* the rest is about text */
	if (!strcmp(name, "string"))
		return s;
	if (!strcmp(name, "trim"))
		return strip(p, s, arg(a, 0, "chars"), true, true);
	if (!strcmp(name, "indent"))
		return indented(p, s, a);
	if (!strcmp(name, "upper") || !strcmp(name, "lower") || !strcmp(name, "capitalize") || !strcmp(name, "title") ||
	    !strcmp(name, "replace"))
		return string_method(p, name, s, a);
	return NULL;
}

/* ---- tests ---- */

static bool contains(const struct value *in, const struct value *what)
{
	if (in->kind == STRING)
		return what->kind == STRING && (!what->n || find(in, what, 0) != SIZE_MAX);
	for (size_t i = 0; (in->kind == LIST || in->kind == DICT) && i < in->n; i++)
		if (is_equal(in->kind == LIST ? in->items[i] : in->keys[i], what))
			return true;
	return false;
}

int call_test(const char *name, const struct value *v, const struct args *a)
{
	const struct value *other = a->n ? a->by_place[0] : NULL;
	static const struct {
		const char *name;
		unsigned kinds;
	} kinds[] = {{"undefined", 1u << UNDEFINED},
		     {"none", 1u << NONE},
		     {"boolean", 1u << BOOL},
		     {"string", 1u << STRING},
		     {"mapping", 1u << DICT},
		     {"number", 1u << NUMBER | 1u << BOOL},
		     {"sequence", 1u << LIST | 1u << STRING | 1u << DICT},
		     {"callable", 1u << MACRO},
		     {"iterable", 1u << LIST | 1u << STRING | 1u << DICT | 1u << UNDEFINED}};
	static const struct {
		const char *name;
		int low, high; /* of compare(v, other) */
	} orders[] = {{"lt", -1, -1}, {"lessthan", -1, -1},  {"le", -1, 0},
		      {"gt", 1, 1},   {"greaterthan", 1, 1}, {"ge", 0, 1}};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (!strcmp(name, kinds[i].name))
			return kinds[i].kinds >> v->kind & 1;
	for (size_t i = 0; other && i < sizeof orders / sizeof *orders; i++)
		if (!strcmp(name, orders[i].name)) {
			int c = compare(v, other);
			return c == 2 ? -1 : c >= orders[i].low && c <= orders[i].high;
		}
	if (!strcmp(name, "defined"))
		return v->kind != UNDEFINED;
	if (!strcmp(name, "true") || !strcmp(name, "false"))
		return v->kind == BOOL && (v->number != 0) == (name[0] == 't');
	if (!strcmp(name, "integer") || !strcmp(name, "float"))
		return v->kind == NUMBER && (v->is_float || v->number != floor(v->number)) == (name[0] == 'f');
	if ((!strcmp(name, "odd") || !strcmp(name, "even")) && v->kind == NUMBER)
		return (fmod(v->number, 2) != 0) == (name[0] == 'o');
	if (!strcmp(name, "divisibleby") && v->kind == NUMBER && other && other->kind == NUMBER && other->number != 0)
		return fmod(v->number, other->number) == 0;
	if (other && (!strcmp(name, "equalto") || !strcmp(name, "eq") || !strcmp(name, "sameas")))
		return is_equal(v, other);
	if (other && !strcmp(name, "ne"))
		return !is_equal(v, other);
	if (other && !strcmp(name, "in"))
		return contains(other, v);
	return -1;
}
