/* jinja.c - see jinja.h. A template is parsed once (jinja/parse.h); rendering walks its tree with values that know what came
 * from outside (jinja/value.h), all of which are freed together at the end. Here are the statements; jinja/eval.c has the
 * expressions. */
#include "text/jinja.h"

#include "text/jinja/run.h"
#include <stdlib.h>
#include <string.h>

struct spar_jinja {
	struct tree tree;
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

bool run_failed(const struct run *r)
{
	return r->err->code != SPAR_OK;
}

struct value *run_fail(struct run *r, const struct node *n, const char *what, const char *name)
{
	if (!run_failed(r))
		spar_fail(r->err, SPAR_INPUT, "template:%zu: %s%s%s", n->line, name ? name : "", name ? " " : "", what);
	return new_named(&r->pool, UNDEFINED, "");
}

/* ---- scopes ---- */

void scope_enter(struct run *r, struct scope *outer)
{
	struct scope *s = spar_calloc(1, sizeof *s);
	s->names = new_value(&r->pool, DICT);
	s->outer = outer;
	s->all = r->scopes;
	r->scope = r->scopes = s;
	r->pool.bytes += sizeof *s;
}

void scope_set(struct run *r, const char *name, struct value *v)
{
	dict_set_text(&r->pool, r->scope->names, name, v);
}

struct value *render_block(struct run *r, const struct node *body, struct scope *outer)
{
	struct spar_marked text = SPAR_MARKED_INIT, *out = r->out;
	struct scope *before = r->scope;
	scope_enter(r, outer);
	r->out = &text;
	walk(r, body);
	r->out = out;
	r->scope = before;
	return built(&r->pool, &text);
}

static void set_attribute(struct run *r, const struct node *target, struct value *v)
{
	struct value *space = NULL;
	for (const struct scope *s = r->scope; s && !space; s = s->outer)
		space = dict_get_text(s->names, target->name, strlen(target->name));
	if (!space || space->kind != NAMESPACE)
		run_fail(r, target, "is no namespace", target->name);
	else
		dict_set_text(&r->pool, space, target->attribute, v);
}

static void bind(struct run *r, const struct node *target, struct value *v)
{
	if (target->attribute) {
		set_attribute(r, target, v);
		return;
	}
	if (target->name) {
		scope_set(r, target->name, v);
		return;
	}
	struct value *items = items_of(&r->pool, v);
	if (!items || items->n != target->n) {
		run_fail(r, target, "a value does not come apart into as many names", NULL);
		return;
	}
	for (size_t i = 0; i < target->n; i++)
		bind(r, target->args[i], items->items[i]);
}

/* ---- statements ---- */

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
		     {"previtem", i ? list->items[i - 1] : new_named(p, UNDEFINED, "loop.previtem")},
		     {"nextitem", i + 1 < list->n ? list->items[i + 1] : new_named(p, UNDEFINED, "loop.nextitem")}};
	for (size_t k = 0; k < sizeof facts / sizeof *facts; k++)
		dict_set_text(p, loop, facts[k].name, facts[k].v);
	return loop;
}

/* The items for which the loop's condition holds. */
static struct value *filtered(struct run *r, const struct node *n, struct value *list)
{
	struct value *chosen = new_value(&r->pool, LIST);
	struct scope *outer = r->scope;
	scope_enter(r, outer);
	for (size_t i = 0; i < list->n && !run_failed(r); i++) {
		bind(r, n->target, list->items[i]);
		if (is_true(eval(r, n->b)))
			list_add(&r->pool, chosen, list->items[i]);
	}
	r->scope = outer;
	return chosen;
}

static void for_loop(struct run *r, const struct node *n)
{
	struct scope *outer = r->scope;
	struct value *of = eval(r, n->a), *list = run_failed(r) ? NULL : items_of(&r->pool, of);
	if (!list) {
		run_fail(r, n, "this cannot be looped over", NULL);
		return;
	}
	if (n->b)
		list = filtered(r, n, list);
	for (size_t i = 0; i < list->n && !run_failed(r) && r->leave != LEAVE_LOOP; i++) {
		scope_enter(r, outer); /* what a round sets is gone in the next */
		bind(r, n->target, list->items[i]);
		scope_set(r, "loop", loop_facts(r, list, i));
		r->leave = STAY;
		walk(r, n->body);
	}
	r->leave = STAY;
	r->scope = outer;
	if (!list->n)
		walk(r, n->orelse);
}

static void with(struct run *r, const struct node *n)
{
	struct scope *outer = r->scope;
	struct value *values = new_value(&r->pool, LIST);
	for (size_t i = 0; i < n->n; i++)
		list_add(&r->pool, values, eval(r, n->args[i]));
	scope_enter(r, outer);
	for (size_t i = 0; i < n->n; i++)
		scope_set(r, n->names[i], values->items[i]);
	walk(r, n->body);
	r->scope = outer;
}

static struct value *new_macro(struct run *r, const struct node *n)
{
	struct value *v = new_value(&r->pool, MACRO);
	v->body = n;
	v->scope = r->scope;
	return v;
}

static struct value *call_block(struct run *r, const struct node *n)
{
	struct value *f = eval(r, n->a->a);
	struct args a = eval_args(r, n->a);
	dict_set_text(&r->pool, a.names, "caller", new_macro(r, n->b));
	return run_failed(r) ? f : call_value(r, n->a, f, &a);
}

static void statement(struct run *r, const struct node *n)
{
	struct value *v;
	switch (n->kind) {
	case N_TEXT:
		add_value(r->out, n->literal);
		break;
	case N_OUTPUT:
	case N_CALL_BLOCK:
		v = n->kind == N_OUTPUT ? eval(r, n->a) : call_block(r, n);
		if (!run_failed(r))
			add_value(r->out, v);
		break;
	case N_IF:
		walk(r, is_true(eval(r, n->a)) ? n->body : n->orelse);
		break;
	case N_FOR:
		for_loop(r, n);
		break;
	case N_SET:
		v = eval(r, n->a);
		if (!run_failed(r))
			bind(r, n->target, v);
		break;
	case N_WITH:
		with(r, n);
		break;
	case N_MACRO:
		scope_set(r, n->name, new_macro(r, n));
		break;
	default:
		r->leave = n->kind == N_BREAK ? LEAVE_LOOP : LEAVE_ROUND;
		break;
	}
}

void walk(struct run *r, const struct node *first)
{
	if (++r->depth > RUN_DEPTH_MAX && first)
		run_fail(r, first, "calls are nested too deeply", NULL);
	for (const struct node *n = first; n && !run_failed(r) && r->leave == STAY; n = n->next) {
		r->pool.steps++;
		if (pool_is_spent(&r->pool))
			run_fail(r, n, "the template takes too many steps or too much memory", NULL);
		else
			statement(r, n);
		if (r->out->text.len > VALUES_MAX_TEXT)
			run_fail(r, n, "the output is longer than 64 MiB", NULL);
	}
	r->depth--;
}

static void add_names(struct run *r, jv object, bool outside)
{
	struct value *given = from_jv(&r->pool, object, outside);
	for (size_t i = 0; i < given->n; i++)
		dict_set(&r->pool, r->scope->names, given->keys[i], given->items[i]);
}

int spar_jinja_render(const struct spar_jinja *t, jv trusted, jv outside, struct spar_str *out,
		      struct spar_spans *spans, struct spar_err *err)
{
	struct spar_err inner = {0};
	struct spar_marked text = SPAR_MARKED_INIT;
	struct run r = {.err = &inner, .out = &text};
	scope_enter(&r, NULL);
	add_names(&r, outside, true);
	add_names(&r, trusted, false);
	r.pool.bytes = r.pool.steps = 0; /* what was given is not the template's doing */
	walk(&r, t->tree.first);
	if (!inner.code) {
		for (size_t i = 0; spans && i < text.marks.n; i++)
			spar_spans_add(spans, text.marks.data[i].begin, text.marks.data[i].end);
		spar_str_add(out, text.text.data, text.text.len);
	}
	spar_marked_release(&text);
	while (r.scopes) {
		struct scope *s = r.scopes;
		r.scopes = s->all;
		free(s);
	}
	pool_free(&r.pool);
	return inner.code ? spar_fail(err, inner.code, "%s", inner.msg) : 0;
}
