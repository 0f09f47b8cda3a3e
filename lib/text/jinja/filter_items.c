/* Filters over the items of a value: sorting, choosing, picking. */
#include "text/jinja/filters.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what a filter picks from each item ---- */

/* Follow "a.b.0" from v. */
static struct value *follow(struct pool *p, struct value *v, const struct value *path)
{
	if (is_number(path))
		return item_of(p, v, path);
	for (size_t begin = 0, end; begin <= path->n; begin = end + 1) {
		const char *dot = memchr(path->text + begin, '.', path->n - begin);
		end = dot ? (size_t)(dot - path->text) : path->n;
		struct value *key = slice_string(p, path, begin, end);
		bool digits = key->n > 0 && strspn(key->text, "0123456789") == key->n;
		v = item_of(p, v, digits ? new_number(p, strtod(key->text, NULL)) : key);
	}
	return v;
}

/* What items are compared by: an attribute of them, small letters unless case_sensitive. */
static struct value *key_of(struct pool *p, struct value *item, const struct value *attribute, bool case_sensitive)
{
	struct value *key = attribute && attribute->kind != NONE ? follow(p, item, attribute) : item;
	return key->kind == STRING && !case_sensitive ? change_case(p, key, LOWER) : key;
}

struct keyed {
	struct value *key, *item;
	size_t at;
};

static int by_key(const void *a, const void *b)
{
	const struct keyed *x = a, *y = b;
	struct pool none = {0};
	int c = compare(&none, x->key, y->key);
	return c ? c : (x->at > y->at) - (x->at < y->at);
}

/* The items sorted by keys[i], equal ones in their order; NULL if two of them have no order. */
static struct value *sorted(struct pool *p, const struct value *items, struct value *const *keys, bool reverse)
{
	struct keyed *order = spar_calloc(items->n + 1, sizeof *order);
	struct value *out = new_value(p, LIST);
	for (size_t i = 0; i < items->n; i++)
		order[i] = (struct keyed){keys[i], items->items[i], reverse ? items->n - i : i};
	for (size_t i = 1; i < items->n && out; i++)
		if (compare(p, keys[i - 1], keys[i]) == 2)
			out = NULL;
	if (out)
		qsort(order, items->n, sizeof *order, by_key);
	for (size_t i = 0; out && i < items->n; i++)
		list_add(p, out, order[reverse ? items->n - 1 - i : i].item);
	free(order);
	return out;
}

static struct value *f_sort(struct pool *p, struct value *v, const struct args *a)
{
	struct value *items = items_of(p, v), *keys = new_value(p, LIST);
	const struct value *attribute = arg(a, 2, "attribute");
	bool exact = arg_flag(a, 1, "case_sensitive", false);
	for (size_t i = 0; items && i < items->n; i++)
		list_add(p, keys, key_of(p, items->items[i], attribute, exact));
	return items ? sorted(p, items, keys->items, arg_flag(a, 0, "reverse", false)) : NULL;
}

static struct value *f_dictsort(struct pool *p, struct value *v, const struct args *a)
{
	const struct value *by = arg(a, 1, "by");
	bool exact = arg_flag(a, 0, "case_sensitive", false), values = by && is_text(by, "value");
	if (v->kind != DICT)
		return NULL;
	struct value *pairs = pairs_of(p, v), *keys = new_value(p, LIST);
	for (size_t i = 0; i < pairs->n; i++)
		list_add(p, keys, key_of(p, pairs->items[i]->items[values], NULL, exact));
	return sorted(p, pairs, keys->items, arg_flag(a, 2, "reverse", false));
}

static struct value *extreme(struct pool *p, struct value *v, const struct args *a, int sign)
{
	struct value *items = items_of(p, v), *best = NULL, *best_key = NULL;
	const struct value *attribute = arg(a, 1, "attribute");
	for (size_t i = 0; items && i < items->n; i++) {
		struct value *key = key_of(p, items->items[i], attribute, arg_flag(a, 0, "case_sensitive", false));
		int c = best ? compare(p, key, best_key) : sign;
		if (c == 2)
			return NULL;
		if (c == sign) {
			best = items->items[i];
			best_key = key;
		}
	}
	return !items ? NULL : best ? best : new_named(p, UNDEFINED, "an item of nothing");
}

static struct value *f_min(struct pool *p, struct value *v, const struct args *a)
{
	return extreme(p, v, a, -1);
}

static struct value *f_max(struct pool *p, struct value *v, const struct args *a)
{
	return extreme(p, v, a, 1);
}

static struct value *f_unique(struct pool *p, struct value *v, const struct args *a)
{
	struct value *items = items_of(p, v), *seen = new_value(p, DICT), *out = new_generator(p);
	for (size_t i = 0; items && i < items->n && !pool_is_spent(p); i++, p->steps += seen->n) {
		struct value *key =
		    key_of(p, items->items[i], arg(a, 1, "attribute"), arg_flag(a, 0, "case_sensitive", false));
		if (dict_get(p, seen, key))
			continue;
		dict_set(p, seen, key, key);
		list_add(p, out, items->items[i]);
	}
	return items ? out : NULL;
}

/* (key, items) tuples in the order of keys. */
static struct value *f_groupby(struct pool *p, struct value *v, const struct args *a)
{
	const struct value *attribute = arg(a, 0, "attribute");
	struct value *items = attribute ? items_of(p, v) : NULL, *groups = new_value(p, LIST), *keys;
	struct args by = {.n = 3, .by_place = {new_bool(p, false), new_bool(p, false), (struct value *)attribute}};
	items = items ? f_sort(p, items, &by) : NULL;
	keys = new_value(p, LIST);
	for (size_t i = 0; items && i < items->n; i++) {
		struct value *key = key_of(p, items->items[i], attribute, false);
		if (!keys->n || !is_equal(p, keys->items[keys->n - 1], key)) {
			struct value *group = new_list(
			    p, (struct value *[]){follow(p, items->items[i], attribute), new_value(p, LIST)}, 2);
			group->is_tuple = true;
			list_add(p, keys, key);
			list_add(p, groups, group);
		}
		list_add(p, groups->items[groups->n - 1]->items[1], items->items[i]);
	}
	return items ? groups : NULL;
}

/* ---- choosing and changing items ---- */

/* select, reject, selectattr, rejectattr: the items for which a test (default: truth) holds, or does not. */
static struct value *choose(struct pool *p, struct value *v, const struct args *a, bool attribute, bool wanted)
{
	struct value *items = is_true(v) ? items_of(p, v) : new_value(p, LIST), *out = new_generator(p);
	struct args rest = {.names = a->names};
	test_fn *test = NULL;
	if (!items || (attribute && !a->n))
		return NULL;
	for (size_t i = attribute + 1u; i < a->n; i++)
		rest.by_place[rest.n++] = a->by_place[i];
	if (a->n > attribute) {
		test = a->by_place[attribute]->kind == STRING ? find_test(a->by_place[attribute]->text) : NULL;
		if (!test) {
			p->why = "there is no such test";
			return NULL;
		}
	}
	for (size_t i = 0; i < items->n && !pool_is_spent(p); i++, p->steps++) {
		struct value *item = attribute ? follow(p, items->items[i], a->by_place[0]) : items->items[i];
		int yes = test ? test(p, item, &rest) : is_true(item);
		if (yes < 0)
			return NULL;
		if (yes == wanted)
			list_add(p, out, items->items[i]);
	}
	return out;
}

static struct value *f_select(struct pool *p, struct value *v, const struct args *a)
{
	return choose(p, v, a, false, true);
}

static struct value *f_reject(struct pool *p, struct value *v, const struct args *a)
{
	return choose(p, v, a, false, false);
}

static struct value *f_selectattr(struct pool *p, struct value *v, const struct args *a)
{
	return choose(p, v, a, true, true);
}

static struct value *f_rejectattr(struct pool *p, struct value *v, const struct args *a)
{
	return choose(p, v, a, true, false);
}

static struct value *f_map(struct pool *p, struct value *v, const struct args *a)
{
	struct value *items = is_true(v) ? items_of(p, v) : new_value(p, LIST), *out = new_generator(p);
	struct value *attribute = a->n ? NULL : arg(a, 0, "attribute"), *absent = a->n ? NULL : arg(a, 1, "default");
	struct args rest = {.names = a->names};
	filter_fn *filter = a->n && a->by_place[0]->kind == STRING ? find_filter(a->by_place[0]->text) : NULL;
	for (size_t i = 1; i < a->n; i++)
		rest.by_place[rest.n++] = a->by_place[i];
	for (size_t i = 0; items && i < items->n && !pool_is_spent(p); i++, p->steps++) {
		struct value *item = attribute ? follow(p, items->items[i], attribute)
				     : filter  ? filter(p, items->items[i], &rest)
					       : NULL;
		if (!item)
			return NULL;
		list_add(p, out, item->kind == UNDEFINED && absent ? absent : item);
	}
	return items && (attribute || filter) ? out : NULL;
}

static struct value *f_batch(struct pool *p, struct value *v, const struct args *a)
{
	struct value *items = items_of(p, v), *out = new_generator(p), *fill = arg(a, 1, "fill_with");
	double n = arg_number(a, 0, "linecount", 0);
	if (!items || !(n >= 1 && n <= VALUES_MAX_STEPS))
		return NULL;
	for (size_t i = 0; i < items->n; i++) {
		if (fmod((double)i, n) == 0)
			list_add(p, out, new_value(p, LIST));
		list_add(p, out->items[out->n - 1], items->items[i]);
	}
	while (fill && out->n && (double)out->items[out->n - 1]->n < n)
		list_add(p, out->items[out->n - 1], fill);
	return out;
}

static struct value *f_reverse(struct pool *p, struct value *v, const struct args *a)
{
	struct value *items = items_of(p, v), *out = new_generator(p);
	(void)a;
	for (size_t i = items ? items->n : 0; i > 0; i--)
		list_add(p, out, items->items[i - 1]);
	return !items ? NULL : v->kind == STRING ? join(p, out, NULL) : out;
}

static struct value *f_list(struct pool *p, struct value *v, const struct args *a)
{
	struct value *items = items_of(p, v);
	(void)a;
	return items ? new_list(p, items->items, items->n) : NULL;
}

static struct value *f_items(struct pool *p, struct value *v, const struct args *a)
{
	(void)a;
	struct value *list = v->kind == DICT ? pairs_of(p, v) : v->kind == UNDEFINED ? new_value(p, LIST) : NULL;
	if (list)
		list->lazy = GENERATOR;
	return list;
}

static struct value *f_first(struct pool *p, struct value *v, const struct args *a)
{
	struct value *items = items_of(p, v);
	(void)a;
	return !items ? NULL : items->n ? items->items[0] : new_named(p, UNDEFINED, "the first item of nothing");
}

static struct value *f_last(struct pool *p, struct value *v, const struct args *a)
{
	struct value *items = v->lazy == GENERATOR ? NULL : items_of(p, v);
	(void)a;
	return !items     ? NULL
	       : items->n ? items->items[items->n - 1]
			  : new_named(p, UNDEFINED, "the last item of nothing");
}

static struct value *f_length(struct pool *p, struct value *v, const struct args *a)
{
	bool has =
	    v->kind == STRING || (v->kind == LIST && v->lazy != GENERATOR) || v->kind == DICT || v->kind == UNDEFINED;
	(void)a;
	return has ? new_number(p, (double)length(v)) : NULL;
}

static struct value *f_join(struct pool *p, struct value *v, const struct args *a)
{
	struct value *items = items_of(p, v), *picked = new_value(p, LIST);
	const struct value *attribute = arg(a, 1, "attribute");
	for (size_t i = 0; items && i < items->n; i++)
		list_add(p, picked, attribute ? follow(p, items->items[i], attribute) : items->items[i]);
	return items ? join(p, picked, arg(a, 0, "d")) : NULL;
}

static struct value *f_sum(struct pool *p, struct value *v, const struct args *a)
{
	struct value *items = items_of(p, v), *out = new_number(p, arg_number(a, 1, "start", 0));
	const struct value *attribute = arg(a, 0, "attribute");
	for (size_t i = 0; items && i < items->n; i++) {
		struct value *item = attribute ? follow(p, items->items[i], attribute) : items->items[i];
		if (!is_number(item))
			return NULL;
		out->number += item->number;
		out->is_float |= item->is_float;
	}
	return items ? out : NULL;
}

const struct named_filter item_filters[] = {
    NAMED(sort),    NAMED(dictsort), NAMED(min),          NAMED(max),        NAMED(unique), NAMED(groupby),
    NAMED(select),  NAMED(reject),   NAMED(selectattr),   NAMED(rejectattr), NAMED(map),    NAMED(batch),
    NAMED(reverse), NAMED(list),     NAMED(items),        NAMED(first),      NAMED(last),   NAMED(length),
    NAMED(join),    NAMED(sum),      {"count", f_length}, {NULL, NULL}};
