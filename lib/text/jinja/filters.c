#include "text/jinja/filters.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ---- */

static struct value *to_number(struct pool *p, struct value *v, const struct args *a, bool whole)
{
	double d = arg_number(a, 0, "default", 0);
	if (v->kind == UNDEFINED)
		return NULL;
	if (is_number(v)) {
		d = v->number;
	} else if (v->kind == STRING) {
		struct value *s = strip(p, v, NULL, true, true);
		char *end;
		double parsed = s->n && !strpbrk(s->text, "xXpPnN_") ? strtod(s->text, &end) : NAN;
		d = isfinite(parsed) && !*end ? parsed : d;
	}
	return whole ? new_number(p, trunc(d)) : new_float(p, d);
}

static struct value *f_int(struct pool *p, struct value *v, const struct args *a)
{
	return to_number(p, v, a, true);
}

static struct value *f_float(struct pool *p, struct value *v, const struct args *a)
{
	return to_number(p, v, a, false);
}

static struct value *f_abs(struct pool *p, struct value *v, const struct args *a)
{
	(void)a;
	return !is_number(v) ? NULL : v->is_float ? new_float(p, fabs(v->number)) : new_number(p, fabs(v->number));
}

static struct value *f_round(struct pool *p, struct value *v, const struct args *a)
{
	const struct value *method = arg(a, 1, "method");
	double unit = pow(10, trunc(arg_number(a, 0, "precision", 0)));
	if (!is_number(v) || !isfinite(v->number * unit))
		return NULL;
	double d = v->number * unit;
	d = method && is_text(method, "ceil") ? ceil(d) : method && is_text(method, "floor") ? floor(d) : nearbyint(d);
	return new_float(p, d / unit);
}

/* ---- the rest ---- */

static struct value *f_default(struct pool *p, struct value *v, const struct args *a)
{
	struct value *other = arg(a, 0, "default_value");
	bool absent = v->kind == UNDEFINED || (arg_flag(a, 1, "boolean", false) && !is_true(v));
	return !absent ? v : other ? other : new_text(p, "");
}

static struct value *f_tojson(struct pool *p, struct value *v, const struct args *a)
{
	const struct value *indent = arg(a, 1, "indent"), *ends = arg(a, 2, "separators");
	struct json_style style = {.ascii = arg_flag(a, 0, "ensure_ascii", false),
				   .sorted = arg_flag(a, 3, "sort_keys", false)};
	if (indent && (is_number(indent) || indent->kind == STRING))
		style.indent = indent;
	if (ends && ends->kind == LIST && ends->n == 2 && ends->items[0]->kind == STRING &&
	    ends->items[1]->kind == STRING) {
		style.item_end = ends->items[0]->text;
		style.key_end = ends->items[1]->text;
	}
	struct spar_marked b = SPAR_MARKED_INIT;
	bool ok = add_json(p, &b, v, &style);
	struct value *text = built(p, &b);
	return ok ? text : NULL;
}

static struct value *f_safe(struct pool *p, struct value *v, const struct args *a)
{
	struct value *s = to_string(p, v);
	(void)a;
	s = slice_string(p, s, 0, s->n);
	s->is_safe = true;
	return s;
}

static struct value *f_attr(struct pool *p, struct value *v, const struct args *a)
{
	const struct value *name = arg(a, 0, "name");
	return name && name->kind == STRING ? attribute_of(p, v, name->text, name->n) : NULL;
}

const struct named_filter other_filters[] = {NAMED(int),    NAMED(float), NAMED(abs),  NAMED(round),     NAMED(default),
					     NAMED(tojson), NAMED(safe),  NAMED(attr), {"d", f_default}, {NULL, NULL}};

filter_fn *find_filter(const char *name)
{
	const struct named_filter *const tables[] = {item_filters, text_filters, other_filters};
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
		for (const struct named_filter *f = tables[i]; f->name; f++)
			if (!strcmp(f->name, name))
				return f->call;
	return NULL;
}
