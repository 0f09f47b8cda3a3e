/* jinja.c - see jinja.h. A template is parsed once (jinja/parse.h); rendering walks its tree with values that know what came
 * from outside (jinja/value.h), all of which are freed together at the end. */
#include "text/jinja.h"

#include "text/jinja/call.h"
#include "text/jinja/parse.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_STEPS 1000000
#define MAX_OUTPUT ((size_t)64 << 20)
#define MAX_MEMORY ((size_t)256 << 20)
#define MAX_DEPTH 64
#define MAX_RANGE 100000

struct spar_jinja {
	struct tree tree;
};

/* Variables; an inner scope's hide an outer one's. */
struct scope {
	struct value *names; /* DICT */
	struct scope *outer;
};

enum leave { STAY, LEAVE_ROUND, LEAVE_LOOP };

struct run {
	struct pool pool;
	struct spar_err *err;
	struct scope *scope, *globals;
	struct builder *out;
	enum leave leave; /* continue, break: on the way out of a loop's body */
	size_t steps;
	int depth;
};

int spar_jinja_new(struct spar_jinja **out, const char *source, size_t n, struct spar_err *err)
{
	struct spar_jinja *t = spar_calloc(1, sizeof *t);
	int rc = tree_parse(&t->tree, source, n, err);
	if (rc < 0) {
		spar_jinja_free(t);
		t = NULL;
	}
	*out = t;
	return rc;
}

void spar_jinja_free(struct spar_jinja *t)
{
	if (!t)
		return;
	tree_free(&t->tree);
	free(t);
}

/* ---- expressions ---- */

static struct value *eval(struct run *r, const struct node *n);
static void walk(struct run *r, const struct node *first);

static bool failed(const struct run *r)
{
	return r->err->code != SPAR_OK;
}

static struct value *fail(struct run *r, const struct node *n, const char *what, const char *name)
{
	if (!failed(r))
		spar_fail(r->err, SPAR_INPUT, "template:%zu: %s%s%s", n->line, name ? name : "", name ? " " : "", what);
	return new_value(&r->pool, UNDEFINED);
}

static struct value *lookup(struct run *r, const char *name)
{
	for (const struct scope *s = r->scope; s; s = s->outer) {
		struct value *v = dict_get(s->names, name, strlen(name));
		if (v)
			return v;
	}
	return new_value(&r->pool, UNDEFINED);
}

static void assign(struct run *r, const char *name, struct value *v)
{
	dict_set(&r->pool, r->scope->names, new_string(&r->pool, name, strlen(name)), v);
}

static struct args arguments(struct run *r, const struct node *call)
{
	struct args a = {.names = new_value(&r->pool, DICT)};
	for (size_t i = 0; i < call->n && !failed(r); i++) {
		struct value *v = eval(r, call->args[i]);
		if (call->names[i])
			dict_set(&r->pool, a.names, new_string(&r->pool, call->names[i], strlen(call->names[i])), v);
		else if (a.n < ARGS_MAX)
			a.by_place[a.n++] = v;
		else
			fail(r, call, "too many arguments", NULL);
	}
	return a;
}

static struct value *attribute(struct run *r, const struct node *n, const struct value *of, const char *name,
			       size_t len)
{
	if (of->kind == UNDEFINED)
		return fail(r, n, "is looked up in something undefined", name);
	struct value *v = of->kind == DICT || of->kind == NAMESPACE ? dict_get(of, name, len) : NULL;
	return v ? v : new_value(&r->pool, UNDEFINED);
}

/* Place of character number `at` of a string, in bytes. */
static size_t byte_place(const struct value *s, size_t at)
{
	size_t i = 0;
	bool ok;
	while (at-- && i < s->n)
		i += spar_utf8_step(s->text + i, s->n - i, &ok);
	return i;
}

static size_t length(const struct value *v)
{
	size_t chars = 0;
	for (size_t i = 0; v->kind == STRING && i < v->n; i++)
		chars += ((uint8_t)v->text[i] & 0xC0) != 0x80;
	return v->kind == STRING ? chars : v->n;
}

static struct value *item(struct run *r, const struct node *n)
{
	struct value *of = eval(r, n->a), *key = eval(r, n->b);
	if (of->kind == UNDEFINED || key->kind == STRING)
		return attribute(r, n, of, key->kind == STRING ? key->text : "an item",
				 key->kind == STRING ? key->n : 0);
	if ((of->kind != LIST && of->kind != STRING) || key->kind != NUMBER)
		return new_value(&r->pool, UNDEFINED);
	double i = key->number, len = (double)length(of);
	i += i < 0 ? len : 0;
	if (!(i >= 0 && i < len) || i != floor(i))
		return new_value(&r->pool, UNDEFINED);
	if (of->kind == LIST)
		return of->items[(size_t)i];
	size_t at = byte_place(of, (size_t)i);
	bool ok;
	return slice_string(&r->pool, of, at, at + spar_utf8_step(of->text + at, of->n - at, &ok));
}

/* A bound of a slice as Python reads it: from the end when negative, within [low, high]. */
static double bound(struct run *r, const struct node *n, double absent, double len, double low, double high)
{
	struct value *v = n ? eval(r, n) : NULL;
	if (!v || v->kind != NUMBER)
		return absent;
	double i = trunc(v->number) + (v->number < 0 ? len : 0);
	return i < low ? low : i > high ? high : i;
}

static struct value *slice(struct run *r, const struct node *n)
{
	struct value *of = eval(r, n->a), *step_value = n->d ? eval(r, n->d) : NULL;
	if (of->kind != LIST && of->kind != STRING)
		return fail(r, n, "only lists and strings have slices", NULL);
	double step = step_value && step_value->kind == NUMBER ? trunc(step_value->number) : 1,
	       len = (double)length(of);
	if (step == 0)
		return fail(r, n, "a slice's step is 0", NULL);
	double low = step > 0 ? 0 : -1, high = step > 0 ? len : len - 1;
	double from = bound(r, n->b, step > 0 ? low : high, len, low, high);
	double to = bound(r, n->c, step > 0 ? high : low, len, low, high);
	if (of->kind == STRING && step == 1)
		return slice_string(&r->pool, of, byte_place(of, (size_t)from),
				    byte_place(of, (size_t)(to > from ? to : from)));
	struct value *out = new_value(&r->pool, LIST);
	struct builder b = BUILDER_INIT;
	for (double i = from; step > 0 ? i < to : i > to; i += step) {
		if (of->kind == LIST) {
			list_add(&r->pool, out, of->items[(size_t)i]);
		} else {
			size_t at = byte_place(of, (size_t)i);
			add_slice(&b, of, at, byte_place(of, (size_t)i + 1));
		}
	}
	return of->kind == LIST ? out : built(&r->pool, &b);
}

static struct value *concat(struct run *r, const struct value *a, const struct value *b)
{
	struct builder out = BUILDER_INIT;
	add_value(&out, a);
	add_value(&out, b);
	return built(&r->pool, &out);
}

static struct value *arithmetic(struct run *r, const struct node *n, const struct value *a, const struct value *b)
{
	double x = a->number, y = b->number, d;
	if ((a->kind != NUMBER && a->kind != BOOL) || (b->kind != NUMBER && b->kind != BOOL))
		return fail(r, n, "an operator does not fit its operands", NULL);
	if (y == 0 && (n->op == OP_DIV || n->op == OP_FLOOR || n->op == OP_MOD))
		return fail(r, n, "division by zero", NULL);
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
		return fail(r, n, "a number is not finite", NULL);
	struct value *v = new_number(&r->pool, d);
	v->is_float = a->is_float || b->is_float || n->op == OP_DIV;
	return v;
}

static struct value *binary(struct run *r, const struct node *n)
{
	struct value *a = eval(r, n->a), *b = eval(r, n->b);
	if (failed(r))
		return a;
	if (n->op == OP_CONCAT || (n->op == OP_ADD && a->kind == STRING && b->kind == STRING))
		return concat(r, a, b);
	if (n->op != OP_ADD || a->kind != LIST || b->kind != LIST)
		return arithmetic(r, n, a, b);
	struct value *list = new_value(&r->pool, LIST);
	for (size_t i = 0; i < a->n + b->n; i++)
		list_add(&r->pool, list, i < a->n ? a->items[i] : b->items[i - a->n]);
	return list;
}

static struct value *comparison(struct run *r, const struct node *n)
{
	static const char *const tests[] = {[OP_EQ] = "eq", [OP_NE] = "ne", [OP_LT] = "lt", [OP_LE] = "le",
					    [OP_GT] = "gt", [OP_GE] = "ge", [OP_IN] = "in", [OP_NOT_IN] = "in"};
	struct value *a = eval(r, n->a);
	struct args other = {.by_place = {eval(r, n->b)}, .n = 1};
	if (failed(r))
		return a;
	int yes = call_test(tests[n->op], a, &other);
	if (yes < 0)
		return fail(r, n, "these two have no order", NULL);
	return new_bool(&r->pool, yes != (n->op == OP_NOT_IN));
}

static struct value *macro(struct run *r, const struct node *m, const struct args *a)
{
	struct scope inner = {new_value(&r->pool, DICT), r->globals}, *before = r->scope;
	struct builder text = BUILDER_INIT, *out = r->out;
	for (size_t i = 0; i < m->n && !failed(r); i++) {
		struct value *v = arg(a, i, m->names[i]);
		if (!v)
			v = m->args[i] ? eval(r, m->args[i]) : new_value(&r->pool, UNDEFINED);
		dict_set(&r->pool, inner.names, new_string(&r->pool, m->names[i], strlen(m->names[i])), v);
	}
	r->scope = &inner;
	r->out = &text;
	walk(r, m->body);
	r->out = out;
	r->scope = before;
	return built(&r->pool, &text);
}

static struct value *range(struct run *r, const struct node *n, const struct args *a)
{
	double from = 0, to = 0, step = 1;
	for (size_t i = 0; i < a->n; i++)
		if (a->by_place[i]->kind != NUMBER)
			return fail(r, n, "takes numbers", "range");
	if (a->n)
		to = a->by_place[a->n > 1]->number;
	if (a->n > 1)
		from = a->by_place[0]->number;
	if (a->n > 2)
		step = a->by_place[2]->number;
	if (step == 0 || !(fabs(to - from) / fabs(step) <= MAX_RANGE))
		return fail(r, n, "is too long", "range");
	struct value *list = new_value(&r->pool, LIST);
	for (double d = from; step > 0 ? d < to : d > to; d += step)
		list_add(&r->pool, list, new_number(&r->pool, d));
	return list;
}

static struct value *now(struct run *r, const struct node *n, const struct args *a)
{
	char text[256];
	time_t t = time(NULL);
	struct tm tm;
	if (!a->n || a->by_place[0]->kind != STRING || !localtime_r(&t, &tm))
		return fail(r, n, "takes a format", "strftime_now");
	return new_string(&r->pool, text, strftime(text, sizeof text, a->by_place[0]->text, &tm));
}

static struct value *function(struct run *r, const struct node *n, const char *name, const struct args *a)
{
	if (!strcmp(name, "namespace") || !strcmp(name, "dict")) {
		struct value *v = a->names;
		v->kind = name[0] == 'n' ? NAMESPACE : DICT;
		return v;
	}
	if (!strcmp(name, "range"))
		return range(r, n, a);
	if (!strcmp(name, "strftime_now"))
		return now(r, n, a);
	if (!strcmp(name, "raise_exception"))
		return fail(r, n, a->n && a->by_place[0]->kind == STRING ? a->by_place[0]->text : "an exception", NULL);
	return fail(r, n, "is no function that is supported", name);
}

static struct value *call(struct run *r, const struct node *n)
{
	struct args a = arguments(r, n);
	if (failed(r))
		return new_value(&r->pool, UNDEFINED);
	if (n->a->kind == N_NAME) {
		struct value *f = lookup(r, n->a->name);
		return f->kind == MACRO ? macro(r, f->body, &a) : function(r, n, n->a->name, &a);
	}
	if (n->a->kind != N_ATTRIBUTE)
		return fail(r, n, "this cannot be called", NULL);
	struct value *of = eval(r, n->a->a), *v;
	if (failed(r))
		return of;
	v = call_method(&r->pool, n->a->name, of, &a);
	return v ? v : fail(r, n, "is no method that is supported on this value", n->a->name);
}

static struct value *list_or_dict(struct run *r, const struct node *n)
{
	struct value *v = new_value(&r->pool, n->kind == N_LIST ? LIST : DICT);
	for (size_t i = 0; i < n->n && !failed(r); i++) {
		struct value *first = eval(r, n->args[i]);
		if (n->kind == N_LIST)
			list_add(&r->pool, v, first);
		else if (first->kind == STRING)
			dict_set(&r->pool, v, first, eval(r, n->args[++i]));
		else
			fail(r, n, "a key is not a string", NULL);
	}
	return v;
}

static struct value *filter_or_test(struct run *r, const struct node *n)
{
	struct value *v = eval(r, n->a);
	struct args a = arguments(r, n);
	if (failed(r))
		return v;
	if (n->kind == N_TEST) {
		int yes = call_test(n->name, v, &a);
		return yes < 0 ? fail(r, n, "is no test that is supported on this value", n->name)
			       : new_bool(&r->pool, yes != n->op);
	}
	v = call_filter(&r->pool, n->name, v, &a);
	return v ? v : fail(r, n, "is no filter that is supported on this value", n->name);
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
	case N_DICT:
		return list_or_dict(r, n);
	case N_COND:
		v = eval(r, n->b);
		return is_true(v) ? eval(r, n->a) : n->c ? eval(r, n->c) : new_value(&r->pool, UNDEFINED);
	case N_AND:
	case N_OR:
		v = eval(r, n->a);
		return is_true(v) == (n->kind == N_OR) ? v : eval(r, n->b);
	case N_NOT:
		return new_bool(&r->pool, !is_true(eval(r, n->a)));
	case N_NEGATE:
		v = eval(r, n->a);
		return v->kind == NUMBER ? new_number(&r->pool, -v->number)
					 : fail(r, n, "only numbers can be negated", NULL);
	case N_BINARY:
		return binary(r, n);
	case N_COMPARE:
		return comparison(r, n);
	case N_ATTRIBUTE:
		return attribute(r, n, eval(r, n->a), n->name, strlen(n->name));
	case N_ITEM:
		return item(r, n);
	case N_SLICE:
		return slice(r, n);
	case N_CALL:
		return call(r, n);
	default:
		return filter_or_test(r, n);
	}
}

static struct value *eval(struct run *r, const struct node *n)
{
	if (failed(r))
		return new_value(&r->pool, UNDEFINED);
	if (++r->steps > MAX_STEPS || r->pool.bytes > MAX_MEMORY)
		return fail(r, n, "the template takes too many steps or too much memory", NULL);
	if (++r->depth > MAX_DEPTH * 8)
		return fail(r, n, "calls are nested too deeply", NULL);
	struct value *v = eval_node(r, n);
	r->depth--;
	return v;
}

/* ---- statements ---- */

static void bind(struct run *r, const struct node *n, struct value *v)
{
	if (n->n == 1) {
		assign(r, n->names[0], v);
		return;
	}
	if (v->kind != LIST || v->n != n->n) {
		fail(r, n, "a value does not come apart into as many names", NULL);
		return;
	}
	for (size_t i = 0; i < n->n; i++)
		assign(r, n->names[i], v->items[i]);
}

/* The variable `loop` of round i. */
static struct value *loop_facts(struct run *r, const struct value *list, size_t i)
{
	struct pool *p = &r->pool;
	struct value *loop = new_value(p, DICT);
	double at = (double)i, n = (double)list->n;
	const struct {
		const char *name;
		struct value *v;
	} facts[] = {{"index0", new_number(p, at)},
		     {"index", new_number(p, at + 1)},
		     {"revindex0", new_number(p, n - at - 1)},
		     {"revindex", new_number(p, n - at)},
		     {"first", new_bool(p, i == 0)},
		     {"last", new_bool(p, i + 1 == list->n)},
		     {"length", new_number(p, n)},
		     {"previtem", i ? list->items[i - 1] : new_value(p, UNDEFINED)},
		     {"nextitem", i + 1 < list->n ? list->items[i + 1] : new_value(p, UNDEFINED)}};
	for (size_t k = 0; k < sizeof facts / sizeof *facts; k++)
		dict_set(p, loop, new_string(p, facts[k].name, strlen(facts[k].name)), facts[k].v);
	return loop;
}

static void for_loop(struct run *r, const struct node *n)
{
	static const struct args none = {0};
	struct value *of = eval(r, n->a);
	struct value *list = failed(r) ? NULL : call_filter(&r->pool, "list", of, &none), *chosen = list;
	if (!list || list->kind != LIST) {
		fail(r, n, "this cannot be looped over", NULL);
		return;
	}
	struct scope inner = {new_value(&r->pool, DICT), r->scope};
	r->scope = &inner;
	if (n->b) {
		chosen = new_value(&r->pool, LIST);
		for (size_t i = 0; i < list->n && !failed(r); i++) {
			bind(r, n, list->items[i]);
			if (is_true(eval(r, n->b)))
				list_add(&r->pool, chosen, list->items[i]);
		}
	}
	for (size_t i = 0; i < chosen->n && !failed(r) && r->leave != LEAVE_LOOP; i++) {
		inner.names = new_value(&r->pool, DICT); /* what a round sets is gone in the next */
		bind(r, n, chosen->items[i]);
		assign(r, "loop", loop_facts(r, chosen, i));
		r->leave = STAY;
		walk(r, n->body);
	}
	r->leave = STAY;
	r->scope = inner.outer;
	if (!chosen->n)
		walk(r, n->orelse);
}

static void set(struct run *r, const struct node *n)
{
	struct value *v;
	if (n->a) {
		v = eval(r, n->a);
	} else {
		struct builder text = BUILDER_INIT, *out = r->out;
		r->out = &text;
		walk(r, n->body);
		r->out = out;
		v = built(&r->pool, &text);
	}
	if (failed(r))
		return;
	if (!n->attribute) {
		bind(r, n, v);
		return;
	}
	struct value *space = lookup(r, n->name);
	if (space->kind == NAMESPACE && v->kind != NAMESPACE)
		dict_set(&r->pool, space, new_string(&r->pool, n->attribute, strlen(n->attribute)), v);
	else
		fail(r, n, "is no namespace, or would hold one", n->name);
}

static void statement(struct run *r, const struct node *n)
{
	struct value *v;
	switch (n->kind) {
	case N_TEXT:
		add_value(r->out, n->literal);
		break;
	case N_OUTPUT:
		v = eval(r, n->a);
		if (!failed(r))
			add_value(r->out, v);
		break;
	case N_IF:
		walk(r, is_true(eval(r, n->a)) ? n->body : n->orelse);
		break;
	case N_FOR:
		for_loop(r, n);
		break;
	case N_SET:
		set(r, n);
		break;
	case N_MACRO:
		v = new_value(&r->pool, MACRO);
		v->body = n;
		assign(r, n->name, v);
		break;
	default:
		r->leave = n->kind == N_BREAK ? LEAVE_LOOP : LEAVE_ROUND;
		break;
	}
}

static void walk(struct run *r, const struct node *first)
{
	if (++r->depth > MAX_DEPTH * 8 && first)
		fail(r, first, "calls are nested too deeply", NULL);
	for (const struct node *n = first; n && !failed(r) && r->leave == STAY; n = n->next) {
		if (++r->steps > MAX_STEPS)
			fail(r, n, "the template takes too many steps", NULL);
		else
			statement(r, n);
		if (r->out->text.len > MAX_OUTPUT)
			fail(r, n, "the output is longer than 64 MiB", NULL);
	}
	r->depth--;
}

static void add_names(struct pool *p, struct value *names, jv object, bool outside)
{
	struct value *given = from_jv(p, object, outside);
	for (size_t i = 0; i < given->n; i++)
		dict_set(p, names, given->keys[i], given->items[i]);
}

int spar_jinja_render(const struct spar_jinja *t, jv trusted, jv outside, struct spar_str *out,
		      struct spar_spans *spans, struct spar_err *err)
{
	struct spar_err inner = {0};
	struct builder text = BUILDER_INIT;
	struct run r = {.err = &inner, .out = &text};
	struct scope globals = {new_value(&r.pool, DICT), NULL};
	r.scope = r.globals = &globals;
	add_names(&r.pool, globals.names, outside, true);
	add_names(&r.pool, globals.names, trusted, false);
	r.pool.bytes = 0; /* what was given is not the template's doing */
	walk(&r, t->tree.first);
	if (!inner.code) {
		for (size_t i = 0; spans && i < text.marks.n; i++)
			spar_spans_add(spans, text.marks.data[i].begin, text.marks.data[i].end);
		spar_str_add(out, text.text.data, text.text.len);
	}
	spar_str_release(&text.text);
	free(text.marks.data);
	pool_free(&r.pool);
	return inner.code ? spar_fail(err, inner.code, "%s", inner.msg) : 0;
}
