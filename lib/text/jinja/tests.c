/* What stands behind `is`, by name. */
#include "text/jinja/call.h"
#include <math.h>
#include <string.h>

/* ---- kinds ---- */

#define KIND_TEST(name, condition) \
	static int t_##name(struct pool *p, const struct value *v, const struct args *a) \
	{ \
		(void)p, (void)v, (void)a; \
		return condition; \
	}

KIND_TEST(defined, v->kind != UNDEFINED)
KIND_TEST(undefined, v->kind == UNDEFINED)
KIND_TEST(none, v->kind == NONE)
KIND_TEST(boolean, v->kind == BOOL)
KIND_TEST(true, v->kind == BOOL && v->number != 0)
KIND_TEST(false, v->kind == BOOL && v->number == 0)
KIND_TEST(string, v->kind == STRING)
KIND_TEST(mapping, v->kind == DICT)
KIND_TEST(number, is_number(v))
KIND_TEST(integer, v->kind == NUMBER && !v->is_float)
KIND_TEST(float, v->kind == NUMBER && v->is_float)
KIND_TEST(sequence, (v->kind == LIST && !v->lazy) || v->kind == STRING || v->kind == DICT || v->kind == UNDEFINED)
KIND_TEST(iterable, v->kind == LIST || v->kind == STRING || v->kind == DICT || v->kind == UNDEFINED)
KIND_TEST(callable, v->kind == MACRO || v->kind == METHOD || v->kind == FUNCTION)
KIND_TEST(escaped, v->kind == STRING && v->is_safe)
KIND_TEST(odd, is_number(v) ? fmod(v->number, 2) != 0 : -1)
KIND_TEST(even, is_number(v) ? fmod(v->number, 2) == 0 : -1)

/* Letters, and all of them capitals or small. */
static int t_upper(struct pool *p, const struct value *v, const struct args *a)
{
	static const struct args none = {0};
	struct value *s = to_string(p, (struct value *)v);
	(void)a;
	return is_true(string_method(p, "isupper", s, &none));
}

static int t_lower(struct pool *p, const struct value *v, const struct args *a)
{
	static const struct args none = {0};
	struct value *s = to_string(p, (struct value *)v);
	(void)a;
	return is_true(string_method(p, "islower", s, &none));
}

/* ---- of two values ---- */

static const struct value *other_of(const struct args *a)
{
	return a->n ? a->by_place[0] : NULL;
}

static int t_eq(struct pool *p, const struct value *v, const struct args *a)
{
	return a->n ? is_equal(p, v, other_of(a)) : -1;
}

static int t_ne(struct pool *p, const struct value *v, const struct args *a)
{
	return a->n ? !is_equal(p, v, other_of(a)) : -1;
}

static int t_sameas(struct pool *p, const struct value *v, const struct args *a)
{
	return a->n ? v->kind == other_of(a)->kind && is_equal(p, v, other_of(a)) : -1;
}

static int order(struct pool *p, const struct value *v, const struct args *a, int low, int high)
{
	int c = a->n ? compare(p, v, other_of(a)) : 2;
	return c == 2 ? -1 : c >= low && c <= high;
}

static int t_lt(struct pool *p, const struct value *v, const struct args *a)
{
	return order(p, v, a, -1, -1);
}

static int t_le(struct pool *p, const struct value *v, const struct args *a)
{
	return order(p, v, a, -1, 0);
}

static int t_gt(struct pool *p, const struct value *v, const struct args *a)
{
	return order(p, v, a, 1, 1);
}

static int t_ge(struct pool *p, const struct value *v, const struct args *a)
{
	return order(p, v, a, 0, 1);
}

static int t_divisibleby(struct pool *p, const struct value *v, const struct args *a)
{
	const struct value *other = other_of(a);
	(void)p;
	return is_number(v) && other && is_number(other) && other->number != 0 ? fmod(v->number, other->number) == 0
									       : -1;
}

static int t_in(struct pool *p, const struct value *v, const struct args *a)
{
	const struct value *in = other_of(a);
	if (!in || (in->kind == STRING && v->kind != STRING))
		return -1;
	if (in->kind == STRING)
		return find_text(in, v, 0) != SIZE_MAX;
	if (in->kind == DICT)
		return dict_get(p, in, v) != NULL;
	for (size_t i = 0; in->kind == LIST && i < in->n; i++)
		if (is_equal(p, in->items[i], v))
			return 1;
	return in->kind == LIST || in->kind == UNDEFINED ? 0 : -1;
}

static int t_filter(struct pool *p, const struct value *v, const struct args *a)
{
	(void)p, (void)a;
	return v->kind == STRING ? find_filter(v->text) != NULL : -1;
}

static int t_test(struct pool *p, const struct value *v, const struct args *a)
{
	(void)p, (void)a;
	return v->kind == STRING ? find_test(v->text) != NULL : -1;
}

static const struct {
	const char *name;
	test_fn *call;
} tests[] = {{"defined", t_defined},
	     {"undefined", t_undefined},
	     {"none", t_none},
	     {"boolean", t_boolean},
	     {"true", t_true},
	     {"false", t_false},
	     {"string", t_string},
	     {"mapping", t_mapping},
	     {"number", t_number},
	     {"integer", t_integer},
	     {"float", t_float},
	     {"sequence", t_sequence},
	     {"iterable", t_iterable},
	     {"callable", t_callable},
	     {"escaped", t_escaped},
	     {"odd", t_odd},
	     {"even", t_even},
	     {"upper", t_upper},
	     {"lower", t_lower},
	     {"eq", t_eq},
	     {"==", t_eq},
	     {"equalto", t_eq},
	     {"ne", t_ne},
	     {"!=", t_ne},
	     {"sameas", t_sameas},
	     {"lt", t_lt},
	     {"<", t_lt},
	     {"lessthan", t_lt},
	     {"le", t_le},
	     {"<=", t_le},
	     {"gt", t_gt},
	     {">", t_gt},
	     {"greaterthan", t_gt},
	     {"ge", t_ge},
	     {">=", t_ge},
	     {"divisibleby", t_divisibleby},
	     {"in", t_in},
	     {"filter", t_filter},
	     {"test", t_test}};

test_fn *find_test(const char *name)
{
	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
		if (!strcmp(tests[i].name, name))
			return tests[i].call;
	return NULL;
}
