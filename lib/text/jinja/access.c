/* Looking things up in values: attributes, items, what a loop sees, and the methods of lists and dictionaries. */
#include "text/chars.h"
#include "text/jinja/call.h"
#include <math.h>
#include <string.h>

struct value *arg(const struct args *a, size_t place, const char *name)
{
	return place < a->n ? a->by_place[place] : a->names ? dict_get_text(a->names, name, strlen(name)) : NULL;
}

double arg_number(const struct args *a, size_t place, const char *name, double absent)
{
	const struct value *v = arg(a, place, name);
	return v && is_number(v) ? v->number : absent;
}

bool arg_flag(const struct args *a, size_t place, const char *name, bool absent)
{
	const struct value *v = arg(a, place, name);
	return v ? is_true(v) : absent;
}

struct value *items_of(struct pool *p, struct value *v)
{
	if (v->kind == LIST && v->lazy != GENERATOR)
		return v;
	if (v->kind == LIST) { /* it is used up */
		struct value *all = new_list(p, v->items, v->n);
		v->n = 0;
		return all;
	}
	struct value *list = new_value(p, LIST);
	if (v->kind == DICT)
		return new_list(p, v->keys, v->n);
	if (v->kind != STRING)
		return v->kind == UNDEFINED ? list : NULL;
	for (size_t i = 0, len; i < v->n && !pool_is_spent(p); i += len) {
		int32_t c;
		len = spar_char_at(v->text, v->n, i, &c);
		list_add(p, list, slice_string(p, v, i, i + len));
	}
	return list;
}

struct value *pairs_of(struct pool *p, const struct value *dict)
{
	struct value *list = new_value(p, LIST);
	for (size_t i = 0; i < dict->n; i++) {
		struct value *pair = new_list(p, (struct value *[]){dict->keys[i], dict->items[i]}, 2);
		pair->is_tuple = true;
		list_add(p, list, pair);
	}
	return list;
}

/* ---- methods: those that change a value are forbidden, as in the sandbox ---- */

static struct value *m_items(struct pool *p, struct value *v, const struct args *a)
{
	struct value *list = pairs_of(p, v);
	(void)a;
	list->lazy = VIEW;
	return list;
}

static struct value *m_keys(struct pool *p, struct value *v, const struct args *a)
{
	struct value *list = new_list(p, v->keys, v->n);
	(void)a;
	list->lazy = VIEW;
	return list;
}

static struct value *m_values(struct pool *p, struct value *v, const struct args *a)
{
	struct value *list = new_list(p, v->items, v->n);
	(void)a;
	list->lazy = VIEW;
	return list;
}

static struct value *m_get(struct pool *p, struct value *v, const struct args *a)
{
	struct value *found = a->n ? dict_get(p, v, a->by_place[0]) : NULL;
	return !a->n ? NULL : found ? found : a->n > 1 ? a->by_place[1] : new_value(p, NONE);
}

static struct value *m_copy(struct pool *p, struct value *v, const struct args *a)
{
	(void)p, (void)a;
	return v;
}

static struct value *m_index(struct pool *p, struct value *v, const struct args *a)
{
	for (size_t i = 0; a->n && i < v->n; i++)
		if (is_equal(p, v->items[i], a->by_place[0]))
			return new_number(p, (double)i);
	return NULL;
}

static struct value *m_count(struct pool *p, struct value *v, const struct args *a)
{
	double n = 0;
	for (size_t i = 0; a->n && i < v->n; i++)
		n += is_equal(p, v->items[i], a->by_place[0]);
	return a->n ? new_number(p, n) : NULL;
}

static const struct {
	enum kind kind;
	const char *name;
	struct value *(*call)(struct pool *p, struct value *v, const struct args *a); /* NULL: forbidden */
} methods[] = {{DICT, "items", m_items},   {DICT, "keys", m_keys},   {DICT, "values", m_values},
	       {DICT, "get", m_get},       {DICT, "copy", m_copy},   {DICT, "pop", NULL},
	       {DICT, "popitem", NULL},    {DICT, "update", NULL},   {DICT, "clear", NULL},
	       {DICT, "setdefault", NULL}, {LIST, "index", m_index}, {LIST, "count", m_count},
	       {LIST, "copy", m_copy},     {LIST, "append", NULL},   {LIST, "extend", NULL},
	       {LIST, "insert", NULL},     {LIST, "pop", NULL},      {LIST, "remove", NULL},
	       {LIST, "clear", NULL},      {LIST, "sort", NULL},     {LIST, "reverse", NULL}};

struct value *call_method(struct pool *p, const struct value *method, const struct args *a)
{
	if (method->of->kind == STRING)
		return string_method(p, method->text, method->of, a);
	for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
		if (methods[i].kind == method->of->kind && !strcmp(methods[i].name, method->text))
			return methods[i].call(p, method->of, a);
	return NULL;
}

/* The method of that name, UNDEFINED when the sandbox forbids it, or NULL. */
static struct value *method_of(struct pool *p, struct value *of, const char *name, size_t n)
{
	struct value *v = NULL;
	if (of->kind == STRING && is_string_method(name, n))
		v = new_named(p, METHOD, new_string(p, name, n)->text);
	for (size_t i = 0; !v && i < sizeof methods / sizeof *methods; i++)
		if (methods[i].kind == of->kind && !of->lazy && strlen(methods[i].name) == n &&
		    !memcmp(methods[i].name, name, n))
			v = new_named(p, methods[i].call ? METHOD : UNDEFINED, methods[i].name);
	if (v)
		v->of = of;
	return v;
}

static struct value *undefined(struct pool *p, const char *name, size_t n)
{
	return new_named(p, UNDEFINED, new_string(p, name, n)->text);
}

struct value *attribute_of(struct pool *p, struct value *of, const char *name, size_t n)
{
	struct value *v = method_of(p, of, name, n);
	if (!v && (of->kind == DICT || of->kind == NAMESPACE))
		v = dict_get_text(of, name, n);
	return v ? v : undefined(p, name, n);
}

struct value *item_of(struct pool *p, struct value *of, const struct value *key)
{
	struct value *v = of->kind == DICT ? dict_get(p, of, key) : NULL;
	if (v)
		return v;
	if (key->kind == STRING)
		return attribute_of(p, of, key->text, key->n);
	if ((of->kind != LIST && of->kind != STRING) || of->lazy || !is_number(key) || key->is_float)
		return undefined(p, "an item", 7);
	double i = key->number, len = (double)length(of);
	i += i < 0 ? len : 0;
	if (!(i >= 0 && i < len))
		return undefined(p, "an item", 7);
	if (of->kind == LIST)
		return of->items[(size_t)i];
	size_t at = byte_place(of, (size_t)i);
	int32_t c;
	return slice_string(p, of, at, at + spar_char_at(of->text, of->n, at, &c));
}

double bound_of(double i, double len, double low, double high)
{
	i = trunc(i) + (i < 0 ? len : 0);
	return i < low ? low : i > high ? high : i;
}
