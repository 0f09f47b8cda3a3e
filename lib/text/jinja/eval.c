/* Expressions evaluated: names, operators, calls. */
#include "text/chars.h"
#include "text/jinja/run.h"
#include <math.h>
#include <string.h>

/* ---- names, attributes, items, slices ---- */

static struct value *lookup(struct run *r, const char *name)
{
	for (const struct scope *s = r->scope; s; s = s->outer) {
		struct value *v = dict_get_text(s->names, name, strlen(name));
		if (v)
			return v;
	}
	struct value *f = find_function(r, name);
	return f ? f : new_named(&r->pool, UNDEFINED, name);
}

static struct value *attribute(struct run *r, const struct node *n)
{
	struct value *of = eval(r, n->a);
	if (of->kind == UNDEFINED)
		return run_fail(r, n, "is undefined", of->text);
	return attribute_of(&r->pool, of, n->name, strlen(n->name));
}

static struct value *item(struct run *r, const struct node *n)
{
	struct value *of = eval(r, n->a), *key = eval(r, n->b);
	if (of->kind == UNDEFINED)
		return run_fail(r, n, "is undefined", of->text);
	return item_of(&r->pool, of, key);
}

/* A bound of a slice within [low, high]. */
static double bound(struct run *r, const struct node *n, double absent, double len, double low, double high)
{
	struct value *v = n ? eval(r, n) : NULL;
	if (!v || v->kind == NONE)
		return absent;
	if (!is_number(v))
		run_fail(r, n, "a slice's bound is no number", NULL);
	return bound_of(v->number, len, low, high);
}

static struct value *slice(struct run *r, const struct node *n)
{
	struct value *of = eval(r, n->a), *step_value = n->d ? eval(r, n->d) : NULL;
	if ((of->kind != LIST && of->kind != STRING) || of->lazy)
		return run_fail(r, n, "only lists and strings have slices", NULL);
	double step = step_value && is_number(step_value) ? trunc(step_value->number) : 1, len = (double)length(of);
	if (step == 0)
		return run_fail(r, n, "a slice's step is 0", NULL);
	double low = step > 0 ? 0 : -1, high = step > 0 ? len : len - 1;
	double from = bound(r, n->b, step > 0 ? low : high, len, low, high);
	double to = bound(r, n->c, step > 0 ? high : low, len, low, high);
	if (of->kind == STRING && step == 1)
		return slice_string(&r->pool, of, byte_place(of, (size_t)from),
				    byte_place(of, (size_t)(to > from ? to : from)));
	struct value *items = items_of(&r->pool, of), *out = new_value(&r->pool, LIST);
	out->is_tuple = of->is_tuple;
	for (double i = from; (step > 0 ? i < to : i > to) && (size_t)i < items->n; i += step)
		list_add(&r->pool, out, items->items[(size_t)i]);
	return of->kind == LIST ? out : join(&r->pool, out, NULL);
}

/* ---- operators ---- */

static struct value *concat(struct run *r, const struct value *a, const struct value *b)
{
	struct spar_marked out = SPAR_MARKED_INIT;
	add_value(&out, a);
	add_value(&out, b);
	return built(&r->pool, &out);
}

/* a + b of strings: Markup escapes the other one. */
static struct value *add_strings(struct run *r, struct value *a, struct value *b)
{
	static const struct args none = {0};
	filter_fn *escape = find_filter("escape");
	bool safe = a->is_safe || b->is_safe;
	struct value *sum = safe ? concat(r, escape(&r->pool, a, &none), escape(&r->pool, b, &none)) : concat(r, a, b);
	sum->is_safe = safe;
	return sum;
}

static struct value *arithmetic(struct run *r, const struct node *n, const struct value *a, const struct value *b)
{
	double x = a->number, y = b->number, d;
	if (!is_number(a) || !is_number(b))
		return run_fail(r, n, "an operator does not fit its operands", NULL);
	if (y == 0 && (n->op == OP_DIV || n->op == OP_FLOOR || n->op == OP_MOD))
		return run_fail(r, n, "division by zero", NULL);
	switch (n->op) {
	case OP_ADD:
		d = x + y;
		break;
	case OP_SUB:
		d = x - y;
		break;
	case OP_MUL:
		d = x * y;
		break;
	case OP_DIV:
		d = x / y;
		break;
	case OP_FLOOR:
		d = floor(x / y);
		break;
	case OP_MOD:
		d = x - y * floor(x / y);
		break;
	default:
		d = pow(x, y);
		break;
	}
	if (!isfinite(d))
		return run_fail(r, n, "a number is not finite", NULL);
	bool is_float = a->is_float || b->is_float || n->op == OP_DIV || (n->op == OP_POW && y < 0);
	return is_float ? new_float(&r->pool, d) : new_number(&r->pool, d);
}

/* list * n, n * list, list + list */
static struct value *lists(struct run *r, const struct node *n, const struct value *a, const struct value *b)
{
	const struct value *list = a->kind == LIST ? a : b;
	double times = n->op == OP_ADD ? 1 : a->kind == LIST ? b->number : a->number;
	struct value *out = new_value(&r->pool, LIST);
	out->is_tuple = list->is_tuple;
	for (double i = 0; i < times && list->n && !pool_is_spent(&r->pool); i++)
		for (size_t k = 0; k < list->n; k++)
			list_add(&r->pool, out, list->items[k]);
	for (size_t k = 0; n->op == OP_ADD && k < b->n; k++)
		list_add(&r->pool, out, b->items[k]);
	return out;
}

static struct value *binary(struct run *r, const struct node *n)
{
	struct value *a = eval(r, n->a), *b = eval(r, n->b);
	if (run_failed(r))
		return a;
	if (n->op == OP_CONCAT)
		return concat(r, a, b);
	if (n->op == OP_ADD && a->kind == STRING && b->kind == STRING)
		return add_strings(r, a, b);
	if (n->op == OP_MUL && a->kind == STRING && is_number(b))
		return repeat(&r->pool, a, b->number);
	if (n->op == OP_MUL && b->kind == STRING && is_number(a))
		return repeat(&r->pool, b, a->number);
	if (n->op == OP_MOD && a->kind == STRING) {
		struct value *v = format_percent(&r->pool, a, b);
		return v ? v : run_fail(r, n, "a format does not fit its arguments", NULL);
	}
	if ((n->op == OP_ADD && a->kind == LIST && b->kind == LIST && !a->lazy && !b->lazy) ||
	    (n->op == OP_MUL && ((a->kind == LIST && is_number(b)) || (b->kind == LIST && is_number(a)))))
		return lists(r, n, a, b);
	return arithmetic(r, n, a, b);
}

/* a < b < c: each holds of its neighbours, and each value is looked at once. */
static struct value *comparison(struct run *r, const struct node *n)
{
	static const char *const tests[] = {[OP_EQ] = "eq", [OP_NE] = "ne", [OP_LT] = "lt", [OP_LE] = "le",
					    [OP_GT] = "gt", [OP_GE] = "ge", [OP_IN] = "in", [OP_NOT_IN] = "in"};
	struct value *left = eval(r, n->a);
	bool holds = true;
	for (; n && holds && !run_failed(r); n = n->c) {
		struct args other = {.by_place = {eval(r, n->b)}, .n = 1};
		int yes = run_failed(r) ? 0 : find_test(tests[n->op])(&r->pool, left, &other);
		if (yes < 0)
			return run_fail(r, n, "these two cannot be compared so", NULL);
		holds = yes != (n->op == OP_NOT_IN);
		left = other.by_place[0];
	}
	return new_bool(&r->pool, holds);
}

static struct value *negate(struct run *r, const struct node *n)
{
	struct value *v = eval(r, n->a);
	if (!is_number(v))
		return run_fail(r, n, "only numbers can be negated", NULL);
	return v->is_float ? new_float(&r->pool, -v->number) : new_number(&r->pool, -v->number);
}

/* ---- calls ---- */

struct args eval_args(struct run *r, const struct node *call)
{
	struct args a = {.names = new_value(&r->pool, DICT)};
	for (size_t i = 0; i < call->n && !run_failed(r); i++) {
		struct value *v = eval(r, call->args[i]);
		if (call->names[i])
			dict_set_text(&r->pool, a.names, call->names[i], v);
		else if (a.n < ARGS_MAX)
			a.by_place[a.n++] = v;
		else
			run_fail(r, call, "too many arguments", NULL);
	}
	return a;
}

static struct value *call(struct run *r, const struct node *n)
{
	struct value *f = eval(r, n->a);
	struct args a = eval_args(r, n);
	return run_failed(r) ? f : call_value(r, n, f, &a);
}

static struct value *filter(struct run *r, const struct node *n)
{
	struct value *v = eval(r, n->a);
	struct args a = eval_args(r, n);
	if (run_failed(r))
		return v;
	r->pool.why = n->filter ? NULL : "is no filter that is supported";
	v = n->filter ? n->filter(&r->pool, v, &a) : NULL;
	return v ? v
		 : run_fail(r, n, r->pool.why ? r->pool.why : "does not work with this value or these arguments",
			    n->name);
}

static struct value *test(struct run *r, const struct node *n)
{
	struct value *v = eval(r, n->a);
	struct args a = eval_args(r, n);
	if (run_failed(r))
		return v;
	int yes = n->test ? n->test(&r->pool, v, &a) : -1;
	if (yes < 0)
		return run_fail(r, n, n->test ? "does not work with this value" : "is no test that is supported",
				n->name);
	return new_bool(&r->pool, yes != n->op);
}

static struct value *collection(struct run *r, const struct node *n)
{
	struct value *v = new_value(&r->pool, n->kind == N_DICT ? DICT : LIST);
	v->is_tuple = n->kind == N_TUPLE;
	for (size_t i = 0; i < n->n && !run_failed(r); i++) {
		struct value *first = eval(r, n->args[i]);
		if (n->kind != N_DICT)
			list_add(&r->pool, v, first);
		else if (first->kind == STRING || first->kind == NONE || is_number(first))
			dict_set(&r->pool, v, first, eval(r, n->args[++i]));
		else
			run_fail(r, n, "this cannot be a key", NULL);
	}
	return v;
}

static struct value *eval_node(struct run *r, const struct node *n)
{
	struct value *v;
	switch (n->kind) {
	case N_LITERAL:
		return n->literal;
	case N_NAME:
		return lookup(r, n->name);
	case N_LIST:
	case N_TUPLE:
	case N_DICT:
		return collection(r, n);
	case N_BLOCK:
		return render_block(r, n->body, r->scope);
	case N_COND:
		if (is_true(eval(r, n->b)))
			return eval(r, n->a);
		return n->c ? eval(r, n->c) : new_named(&r->pool, UNDEFINED, "an if without else");
	case N_AND:
	case N_OR:
		v = eval(r, n->a);
		return is_true(v) == (n->kind == N_OR) ? v : eval(r, n->b);
	case N_NOT:
		return new_bool(&r->pool, !is_true(eval(r, n->a)));
	case N_NEGATE:
		return negate(r, n);
	case N_BINARY:
		return binary(r, n);
	case N_COMPARE:
		return comparison(r, n);
	case N_ATTRIBUTE:
		return attribute(r, n);
	case N_ITEM:
		return item(r, n);
	case N_SLICE:
		return slice(r, n);
	case N_CALL:
		return call(r, n);
	case N_FILTER:
		return filter(r, n);
	default:
		return test(r, n);
	}
}

struct value *eval(struct run *r, const struct node *n)
{
	if (run_failed(r))
		return new_named(&r->pool, UNDEFINED, "");
	r->pool.steps++;
	if (pool_is_spent(&r->pool))
		return run_fail(r, n, "the template takes too many steps or too much memory", NULL);
	if (++r->depth > RUN_DEPTH_MAX)
		return run_fail(r, n, "calls are nested too deeply", NULL);
	struct value *v = eval_node(r, n);
	r->depth--;
	if (v->kind == STRING && v->n > VALUES_MAX_TEXT)
		return run_fail(r, n, "a text is longer than 64 MiB", NULL);
	return v;
}
