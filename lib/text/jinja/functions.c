/* What can be called by name: macros and the functions that every template has. */
#include "text/jinja/run.h"
#include <math.h>
#include <string.h>
#include <time.h>

#define RANGE_MAX 100000

static struct value *macro(struct run *r, const struct node *n, const struct value *f, const struct args *a)
{
	const struct node *m = f->body;
	struct scope *before = r->scope;
	struct value *rest = new_value(&r->pool, LIST), *others = new_value(&r->pool, DICT), *text;
	scope_enter(r, f->scope);
	for (size_t i = 0; i < m->n && !run_failed(r); i++) {
		struct value *v = arg(a, i, m->names[i]);
		if (!v)
			v = m->args[i] ? eval(r, m->args[i]) : new_named(&r->pool, UNDEFINED, m->names[i]);
		scope_set(r, m->names[i], v);
	}
	for (size_t i = m->n; i < a->n; i++)
		list_add(&r->pool, rest, a->by_place[i]);
	for (size_t i = 0; a->names && i < a->names->n; i++) {
		bool known = is_text(a->names->keys[i], "caller");
		for (size_t k = 0; k < m->n; k++)
			known |= is_text(a->names->keys[i], m->names[k]);
		if (is_text(a->names->keys[i], "caller"))
			scope_set(r, "caller", a->names->items[i]);
		else if (!known)
			dict_set(&r->pool, others, a->names->keys[i], a->names->items[i]);
	}
	rest->is_tuple = true;
	scope_set(r, "varargs", rest);
	scope_set(r, "kwargs", others);
	text = render_block(r, m->body, r->scope);
	r->scope = before;
	(void)n;
	return text;
}

static struct value *f_range(struct run *r, const struct node *n, const struct args *a)
{
	double from = 0, to = 0, step = 1;
	for (size_t i = 0; i < a->n; i++)
		if (!is_number(a->by_place[i]) || a->by_place[i]->is_float)
			return run_fail(r, n, "takes whole numbers", "range");
	if (a->n)
		to = a->by_place[a->n > 1]->number;
	if (a->n > 1)
		from = a->by_place[0]->number;
	if (a->n > 2)
		step = a->by_place[2]->number;
	if (!a->n || a->n > 3 || step == 0 || !(fabs(to - from) / fabs(step) <= RANGE_MAX))
		return run_fail(r, n, "is too long, or has no end", "range");
	struct value *list = new_value(&r->pool, LIST);
	for (double d = from; step > 0 ? d < to : d > to; d += step)
		list_add(&r->pool, list, new_number(&r->pool, d));
	return list;
}

/* dict(a=1), dict(other, a=1), dict(pairs); namespace the same. */
static struct value *make_dict(struct run *r, const struct node *n, const struct args *a, enum kind kind)
{
	struct value *out = new_value(&r->pool, kind), *from = a->n ? a->by_place[0] : NULL;
	if (from && from->kind == DICT)
		from = pairs_of(&r->pool, from);
	for (size_t i = 0; from && i < from->n; i++) {
		struct value *pair = from->kind == LIST ? from->items[i] : from;
		if (pair->kind != LIST || pair->n != 2)
			return run_fail(r, n, "takes a dictionary or pairs", n->a->name);
		dict_set(&r->pool, out, pair->items[0], pair->items[1]);
	}
	for (size_t i = 0; a->names && i < a->names->n; i++)
		dict_set(&r->pool, out, a->names->keys[i], a->names->items[i]);
	return out;
}

static struct value *f_dict(struct run *r, const struct node *n, const struct args *a)
{
	return make_dict(r, n, a, DICT);
}

static struct value *f_namespace(struct run *r, const struct node *n, const struct args *a)
{
	return make_dict(r, n, a, NAMESPACE);
}

static struct value *f_strftime_now(struct run *r, const struct node *n, const struct args *a)
{
	char text[256];
	time_t t = time(NULL);
	struct tm tm;
	const struct value *format = arg(a, 0, "format");
	if (!format || format->kind != STRING || !localtime_r(&t, &tm))
		return run_fail(r, n, "takes a format", "strftime_now");
	return new_string(&r->pool, text, strftime(text, sizeof text, format->text, &tm));
}

static struct value *f_raise_exception(struct run *r, const struct node *n, const struct args *a)
{
	struct value *message = arg(a, 0, "message");
	return run_fail(r, n, message ? to_string(&r->pool, message)->text : "an exception", NULL);
}

static const struct {
	const char *name;
	struct value *(*call)(struct run *r, const struct node *n, const struct args *a);
} functions[] = {{"range", f_range},
		 {"dict", f_dict},
		 {"namespace", f_namespace},
		 {"strftime_now", f_strftime_now},
		 {"raise_exception", f_raise_exception}};

struct value *find_function(struct run *r, const char *name)
{
	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
		if (!strcmp(functions[i].name, name))
			return new_named(&r->pool, FUNCTION, functions[i].name);
	return NULL;
}

struct value *call_value(struct run *r, const struct node *n, struct value *f, const struct args *a)
{
	struct value *v = NULL;
	r->pool.why = NULL;
	if (f->kind == MACRO)
		return macro(r, n, f, a);
	for (size_t i = 0; f->kind == FUNCTION && i < sizeof functions / sizeof *functions; i++)
		if (!strcmp(functions[i].name, f->text))
			return functions[i].call(r, n, a);
	if (f->kind == METHOD)
		v = call_method(&r->pool, f, a);
	if (v)
		return v;
	if (f->kind == METHOD)
		return run_fail(r, n, r->pool.why ? r->pool.why : "does not work with this value or these arguments",
				f->text);
	return run_fail(r, n, "is no function that is supported", f->kind == UNDEFINED ? f->text : "this value");
}
