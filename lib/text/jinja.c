/* jinja.c - a template is cut into text and tags, then walked; expressions are evaluated straight from their source. Bodies
 * of loops are walked again for each item: templates are short, and nothing needs a tree. */
#include "text/jinja.h"

#include <stdlib.h>
#include <string.h>

#define MAX_STEPS 1000000
#define MAX_OUTPUT ((size_t)64 << 20)
#define MAX_DEPTH 64

enum part_kind { TEXT, OUTPUT, FOR, ENDFOR, IF, ELIF, ELSE, ENDIF, SET };

struct part {
	enum part_kind kind;
	const char *s, *end; /* text, or what stands between the keyword and the closing mark */
	size_t line;
	size_t next; /* IF, ELIF, ELSE, FOR: the part that closes this branch */
};

struct spar_jinja {
	char *source;
	struct part *parts;
	size_t n;
};

/* A value; strings carry the spans that came from outside. */
struct value {
	jv v; /* JV_KIND_INVALID: undefined */
	struct spar_spans marks;
	bool outside; /* a container from outside: strings in it are marked */
};

struct run {
	const struct spar_jinja *t;
	jv names; /* variables set by the template, over the given ones */
	jv marks; /* of those: true when all of it came from outside, else [begin, end, begin, ...] */
	jv trusted, outside;
	struct spar_str *out;
	struct spar_spans *spans;
	struct spar_err *err;
	size_t steps, line, begun;
	int depth;
	/* the expression being read */
	const char *p, *end;
	bool quiet; /* skipping an operand that does not count: parse, but call nothing */
};

/* ---- cutting the template into parts ---- */

static int bad_template(struct spar_err *err, size_t line, const char *what)
{
	return spar_fail(err, SPAR_INPUT, "template:%zu: %s", line, what);
}

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static void add_part(struct spar_jinja *t, struct part p)
{
	if (p.kind == TEXT && p.s == p.end)
		return;
	if ((t->n & (t->n - 1)) == 0)
		t->parts = spar_realloc(t->parts, (t->n ? 2 * t->n : 8) * sizeof *t->parts);
	t->parts[t->n++] = p;
}

static const struct {
	const char *word;
	enum part_kind kind;
} keywords[] = {{"for", FOR},   {"endfor", ENDFOR}, {"if", IF},  {"elif", ELIF},
		{"else", ELSE}, {"endif", ENDIF},   {"set", SET}};

static int statement_kind(struct part *p)
{
	const char *s = p->s;
	while (s < p->end && is_space(*s))
		s++;
	const char *word = s;
	while (s < p->end && is_name(*s))
		s++;
	for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
		if (strlen(keywords[i].word) == (size_t)(s - word) &&
		    !strncmp(word, keywords[i].word, (size_t)(s - word))) {
			p->kind = keywords[i].kind;
			p->s = s;
			return 0;
		}
	return -1;
}

/* Where a tag ends: its closing mark, strings left out of account. */
static const char *tag_end(const char *s, const char *end, char mark)
{
	char quote = 0;
	for (; s + 1 < end; s++) {
		if (quote && *s == '\\')
			s++;
		else if (quote)
			quote = *s == quote ? 0 : quote;
		else if ((*s == '"' || *s == '\'') && mark != '#')
			quote = *s;
		else if (*s == mark && s[1] == '}')
			return s;
	}
	return NULL;
}

static int cut_template(struct spar_jinja *t, size_t n, struct spar_err *err)
{
	const char *s = t->source, *end = t->source + n, *text = s;
	size_t line = 1;
	if (n && end[-1] == '\n')
		end--;
	while (s < end) {
		if (*s == '\n')
			line++;
		if (*s != '{' || s + 1 >= end || !strchr("{%#", s[1])) {
			s++;
			continue;
		}
		char mark = s[1] == '{' ? '}' : s[1];
		const char *before = s, *close = tag_end(s + 2, end, mark);
		if (!close)
			return bad_template(err, line, "a tag is not closed");
		struct part p = {OUTPUT, s + 2, close, line, 0};
		if (p.s < p.end && *p.s == '-') {
			p.s++;
			while (before > text && is_space(before[-1]))
				before--;
		} else if (mark != '}') { /* lstrip_blocks: blanks before a statement that starts its line */
			const char *b = p.s < p.end && *p.s == '+' ? text : before;
			while (b > text && (b[-1] == ' ' || b[-1] == '\t'))
				b--;
			if (b == t->source || (b > text && b[-1] == '\n') ||
			    (b == text && b > t->source && b[-1] == '\n'))
				before = b;
		}
		bool trim = p.end > p.s && p.end[-1] == '-';
		p.end -= trim;
		add_part(t, (struct part){TEXT, text, before, line, 0});
		if (mark == '%' && statement_kind(&p) < 0)
			return bad_template(err, line, "this statement is not supported");
		if (mark != '#')
			add_part(t, p);
		for (const char *c = s; c < close; c++)
			line += *c == '\n';
		s = close + 2;
		if (!trim && mark != '}' && s < end && *s == '\n') { /* trim_blocks */
			s++;
			line++;
		}
		while (trim && s < end && is_space(*s))
			line += *s++ == '\n';
		text = s;
	}
	add_part(t, (struct part){TEXT, text, end, line, 0});
	return 0;
}

/* Tell every branch where it ends. */
static int match_parts(struct spar_jinja *t, struct spar_err *err)
{
	size_t open[MAX_DEPTH];
	int depth = 0;
	for (size_t i = 0; i < t->n; i++) {
		enum part_kind k = t->parts[i].kind;
		if (k == FOR || k == IF) {
			if (depth == MAX_DEPTH)
				return bad_template(err, t->parts[i].line, "nested too deeply");
			open[depth++] = i;
		} else if (k == ELIF || k == ELSE || k == ENDIF || k == ENDFOR) {
			enum part_kind o = depth ? t->parts[open[depth - 1]].kind : TEXT;
			bool fits = k == ENDFOR  ? o == FOR
				    : k == ENDIF ? o == IF || o == ELIF || o == ELSE
						 : o == IF || o == ELIF;
			if (!fits)
				return bad_template(err, t->parts[i].line, "this does not close anything");
			t->parts[open[depth - 1]].next = i;
			if (k == ENDFOR || k == ENDIF)
				depth--;
			else
				open[depth - 1] = i;
		}
	}
	return depth ? bad_template(err, t->parts[open[depth - 1]].line, "this is not closed") : 0;
}

int spar_jinja_new(struct spar_jinja **out, const char *source, size_t n, struct spar_err *err)
{
	struct spar_jinja *t = spar_calloc(1, sizeof *t);
	t->source = spar_malloc(n + 1);
	memcpy(t->source, source, n);
	t->source[n] = 0;
	*out = NULL;
	int rc = cut_template(t, n, err);
	if (rc == 0)
		rc = match_parts(t, err);
	if (rc < 0)
		spar_jinja_free(t);
	else
		*out = t;
	return rc;
}

void spar_jinja_free(struct spar_jinja *t)
{
	if (!t)
		return;
	free(t->parts);
	free(t->source);
	free(t);
}

/* ---- values ---- */

static struct value plain(jv v)
{
	return (struct value){v, {0}, false};
}

static void drop(struct value *x)
{
	jv_free(x->v);
	free(x->marks.data);
	*x = plain(jv_invalid());
}

/* A value reached through an outside container. */
static struct value reached(jv v, bool outside)
{
	struct value x = plain(v);
	x.outside = outside;
	if (outside && jv_get_kind(v) == JV_KIND_STRING)
		spar_spans_add(&x.marks, 0, (size_t)jv_string_length_bytes(jv_copy(v)));
	return x;
}

/* Replace by v, which was made from x: marked as a whole if x was marked anywhere. Consumes v; takes x over. */
static struct value derived(struct value *x, jv v)
{
	bool outside = x->outside || x->marks.n;
	drop(x);
	return reached(v, outside);
}

static bool truthy(const struct value *x)
{
	switch (jv_get_kind(x->v)) {
	case JV_KIND_TRUE:
		return true;
	case JV_KIND_NUMBER:
		return jv_number_value(x->v) != 0;
	case JV_KIND_STRING:
		return jv_string_length_bytes(jv_copy(x->v)) > 0;
	case JV_KIND_ARRAY:
		return jv_array_length(jv_copy(x->v)) > 0;
	case JV_KIND_OBJECT:
		return jv_object_length(jv_copy(x->v)) > 0;
	default:
		return false;
	}
}

/* The text a value prints as. */
static struct value as_string(struct value x)
{
	switch (jv_get_kind(x.v)) {
	case JV_KIND_STRING:
		return x;
	case JV_KIND_INVALID:
		return derived(&x, jv_string(""));
	case JV_KIND_NULL:
		return derived(&x, jv_string("None"));
	case JV_KIND_TRUE:
		return derived(&x, jv_string("True"));
	case JV_KIND_FALSE:
		return derived(&x, jv_string("False"));
	default:
		return derived(&x, jv_dump_string(jv_copy(x.v), 0));
	}
}

static struct value concat(struct value a, struct value b)
{
	size_t n = 0;
	a = as_string(a);
	b = as_string(b);
	n = (size_t)jv_string_length_bytes(jv_copy(a.v));
	for (size_t i = 0; i < b.marks.n; i++)
		spar_spans_add(&a.marks, n + b.marks.data[i].begin, n + b.marks.data[i].end);
	a.v = jv_string_concat(a.v, jv_copy(b.v));
	drop(&b);
	return a;
}

/* ---- expressions: recursive descent over the source; the first error stops everything ---- */

static struct value expression(struct run *r);

static struct value fail_expr(struct run *r, const char *what)
{
	if (!r->err->code)
		bad_template(r->err, r->line, what);
	r->p = r->end;
	return plain(jv_invalid());
}

static void skip_blanks(struct run *r)
{
	while (r->p < r->end && is_space(*r->p))
		r->p++;
}

static bool take(struct run *r, const char *symbol)
{
	size_t n = strlen(symbol);
	skip_blanks(r);
	if ((size_t)(r->end - r->p) < n || strncmp(r->p, symbol, n))
		return false;
	if (is_name(symbol[0]) && r->p + n < r->end && is_name(r->p[n]))
		return false;
	r->p += n;
	return true;
}

static size_t take_name(struct run *r, char *out, size_t size)
{
	size_t n = 0;
	skip_blanks(r);
	while (r->p < r->end && is_name(*r->p) && n + 1 < size)
		out[n++] = *r->p++;
	out[n] = 0;
	return n;
}

static struct value string_literal(struct run *r)
{
	char quote = *r->p++;
	struct spar_str s = SPAR_STR_INIT;
	while (r->p < r->end && *r->p != quote) {
		char c = *r->p++;
		if (c == '\\' && r->p < r->end) {
			c = *r->p++;
			c = (char)(c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c);
		}
		spar_str_addc(&s, (unsigned char)c);
	}
	if (r->p < r->end)
		r->p++;
	jv v = jv_string_sized(s.data, (int)s.len);
	spar_str_release(&s);
	return plain(v);
}

/* What is outside of x, in the form it is kept in beside a variable. */
static jv marks_of(const struct value *x)
{
	if (x->outside)
		return jv_true();
	jv marks = jv_array();
	for (size_t i = 0; i < x->marks.n; i++) {
		marks = jv_array_append(marks, jv_number((double)x->marks.data[i].begin));
		marks = jv_array_append(marks, jv_number((double)x->marks.data[i].end));
	}
	return marks;
}

/* A variable that the template set, with its marks. */
static struct value remembered(struct run *r, const char *name)
{
	jv marks = jv_object_get(jv_copy(r->marks), jv_string(name));
	struct value x = reached(jv_object_get(jv_copy(r->names), jv_string(name)), jv_get_kind(marks) == JV_KIND_TRUE);
	int n = jv_get_kind(marks) == JV_KIND_ARRAY ? jv_array_length(jv_copy(marks)) : 0;
	for (int i = 0; i + 1 < n; i += 2) {
		jv begin = jv_array_get(jv_copy(marks), i), end = jv_array_get(jv_copy(marks), i + 1);
		spar_spans_add(&x.marks, (size_t)jv_number_value(begin), (size_t)jv_number_value(end));
	}
	jv_free(marks);
	return x;
}

static struct value variable(struct run *r, const char *name)
{
	const jv from[] = {r->names, r->trusted, r->outside};
	if (jv_object_has(jv_copy(r->names), jv_string(name)))
		return remembered(r, name);
	for (int i = 1; i < 3; i++)
		if (jv_object_has(jv_copy(from[i]), jv_string(name)))
			return reached(jv_object_get(jv_copy(from[i]), jv_string(name)), i == 2);
	return plain(jv_invalid());
}

#define MAX_ARGS 4
/* "(a, b, key=c)": names of keyword arguments are dropped, their values count by place. */
static int arguments(struct run *r, struct value *args)
{
	int n = 0;
	while (!take(r, ")")) {
		const char *at = r->p;
		char name[32];
		if (!take_name(r, name, sizeof name) || !take(r, "=") || (r->p < r->end && *r->p == '='))
			r->p = at;
		struct value v = expression(r);
		if (n < MAX_ARGS)
			args[n++] = v;
		else
			drop(&v);
		if (r->err->code || r->p >= r->end) {
			fail_expr(r, "a call is not closed");
			break;
		}
		take(r, ",");
	}
	return n;
}

static void drop_all(struct value *args, int n)
{
	for (int i = 0; i < n; i++)
		drop(&args[i]);
}

/* A string without the blanks at its ends; its marks move along. */
static struct value stripped(struct value x, bool left, bool right)
{
	const char *text = jv_string_value(x.v), *s = text, *e = s + jv_string_length_bytes(jv_copy(x.v));
	while (left && s < e && is_space(*s))
		s++;
	while (right && e > s && is_space(e[-1]))
		e--;
	size_t begin = (size_t)(s - text), end = (size_t)(e - text);
	struct value out = plain(jv_string_sized(s, (int)(e - s)));
	out.outside = x.outside;
	for (size_t i = 0; i < x.marks.n; i++) {
		size_t from = x.marks.data[i].begin, to = x.marks.data[i].end;
		from = from < begin ? begin : from;
		to = to > end ? end : to;
		if (from < to)
			spar_spans_add(&out.marks, from - begin, to - begin);
	}
	drop(&x);
	return out;
}

static jv cased(jv string, bool upper)
{
	struct spar_str s = SPAR_STR_INIT;
	for (const char *c = jv_string_value(string); *c; c++)
		spar_str_addc(&s, (*c >= 'a' && *c <= 'z' && upper) || (*c >= 'A' && *c <= 'Z' && !upper)
				      ? *c ^ 32
				      : (unsigned char)*c);
	jv out = jv_string_sized(s.data, (int)s.len);
	spar_str_release(&s);
	jv_free(string);
	return out;
}

static bool starts_or_ends(jv s, jv part, bool start)
{
	size_t n = (size_t)jv_string_length_bytes(jv_copy(s)), k = (size_t)jv_string_length_bytes(jv_copy(part));
	return k <= n && !memcmp(jv_string_value(s) + (start ? 0 : n - k), jv_string_value(part), k);
}

static double length_of(jv v)
{
	switch (jv_get_kind(v)) {
	case JV_KIND_STRING:
		return jv_string_length_codepoints(jv_copy(v));
	case JV_KIND_ARRAY:
		return jv_array_length(jv_copy(v));
	case JV_KIND_OBJECT:
		return jv_object_length(jv_copy(v));
	default:
		return -1;
	}
}

static struct value filter(struct run *r, struct value x, const char *name)
{
	struct value args[MAX_ARGS];
	int n = take(r, "(") ? arguments(r, args) : 0;
	jv_kind k = jv_get_kind(x.v);
	if (!strcmp(name, "default") || !strcmp(name, "d")) {
		if (k == JV_KIND_INVALID && n) {
			drop(&x);
			x = args[0];
			args[0] = plain(jv_invalid());
		}
	} else if (!strcmp(name, "trim") && k == JV_KIND_STRING) {
		x = stripped(x, true, true);
	} else if ((!strcmp(name, "length") || !strcmp(name, "count")) && length_of(x.v) >= 0) {
		double len = length_of(x.v);
		drop(&x);
		x = plain(jv_number(len));
	} else if ((!strcmp(name, "upper") || !strcmp(name, "lower")) && k == JV_KIND_STRING) {
		x = derived(&x, cased(jv_copy(x.v), name[0] == 'u'));
	} else if (!strcmp(name, "tojson") && k != JV_KIND_INVALID) {
		x = derived(&x, jv_dump_string(jv_copy(x.v), 0));
	} else if (!strcmp(name, "string")) {
		x = as_string(x);
	} else if ((!strcmp(name, "first") || !strcmp(name, "last")) && k == JV_KIND_ARRAY) {
		int len = jv_array_length(jv_copy(x.v));
		x = derived(&x, len ? jv_array_get(jv_copy(x.v), name[0] == 'f' ? 0 : len - 1) : jv_invalid());
	} else if (!strcmp(name, "list") && k == JV_KIND_ARRAY) {
		/* it is one */
	} else if (!r->err->code) {
		spar_fail(r->err, SPAR_INPUT, "template:%zu: filter %s is not supported on this value", r->line, name);
		r->p = r->end;
	}
	drop_all(args, n);
	return x;
}

static struct value method(struct run *r, struct value x, const char *name)
{
	struct value args[MAX_ARGS];
	int n = arguments(r, args);
	bool is_string = jv_get_kind(x.v) == JV_KIND_STRING, one = n == 1 && jv_get_kind(args[0].v) == JV_KIND_STRING;
	if (is_string && n == 0 && (!strcmp(name, "strip") || !strcmp(name, "lstrip") || !strcmp(name, "rstrip"))) {
		x = stripped(x, name[0] != 'r', name[0] != 'l');
	} else if (is_string && n == 0 && (!strcmp(name, "upper") || !strcmp(name, "lower"))) {
		x = derived(&x, cased(jv_copy(x.v), name[0] == 'u'));
	} else if (is_string && one && (!strcmp(name, "startswith") || !strcmp(name, "endswith"))) {
		bool yes = starts_or_ends(x.v, args[0].v, name[0] == 's');
		drop(&x);
		x = plain(jv_bool(yes));
	} else if (is_string && one && !strcmp(name, "split") && jv_string_length_bytes(jv_copy(args[0].v))) {
		x = derived(&x, jv_string_split(jv_copy(x.v), jv_copy(args[0].v)));
	} else if (jv_get_kind(x.v) == JV_KIND_OBJECT && n && !strcmp(name, "get") &&
		   jv_get_kind(args[0].v) == JV_KIND_STRING) {
		jv got = jv_object_get(jv_copy(x.v), jv_copy(args[0].v));
		x = derived(&x, jv_is_valid(got) ? got
				: n > 1          ? (jv_free(got), jv_copy(args[1].v))
						 : (jv_free(got), jv_null()));
	} else if (!r->err->code) {
		spar_fail(r->err, SPAR_INPUT, "template:%zu: method %s is not supported on this value", r->line, name);
		r->p = r->end;
	}
	drop_all(args, n);
	return x;
}

static struct value call(struct run *r, const char *name)
{
	if (!strcmp(name, "namespace")) { /* namespace(a=1, b=x) */
		struct value o = plain(jv_object());
		while (!take(r, ")") && !r->err->code) {
			char key[64];
			if (!take_name(r, key, sizeof key) || !take(r, "=")) {
				fail_expr(r, "namespace() takes key=value");
				break;
			}
			struct value v = expression(r);
			o.v = jv_object_set(o.v, jv_string(key), jv_is_valid(v.v) ? jv_copy(v.v) : jv_null());
			o.outside = o.outside || v.outside || v.marks.n;
			drop(&v);
			take(r, ",");
		}
		return o;
	}
	struct value args[MAX_ARGS];
	int n = arguments(r, args);
	if (!r->err->code && !r->quiet) {
		if (!strcmp(name, "raise_exception") && n && jv_get_kind(args[0].v) == JV_KIND_STRING)
			spar_fail(r->err, SPAR_INPUT, "template:%zu: %s", r->line, jv_string_value(args[0].v));
		else
			spar_fail(r->err, SPAR_INPUT, "template:%zu: function %s is not supported", r->line, name);
		r->p = r->end;
	}
	drop_all(args, n);
	return plain(jv_invalid());
}

static struct value array_literal(struct run *r, const char *close)
{
	struct value list = plain(jv_array());
	while (!take(r, close) && !r->err->code) {
		struct value v = expression(r);
		list.v = jv_array_append(list.v, jv_is_valid(v.v) ? jv_copy(v.v) : jv_null());
		list.outside = list.outside || v.outside || v.marks.n;
		drop(&v);
		if (r->p >= r->end)
			fail_expr(r, "a list is not closed");
		take(r, ",");
	}
	return list;
}

static struct value primary(struct run *r)
{
	char name[64];
	skip_blanks(r);
	if (r->p >= r->end)
		return fail_expr(r, "an expression ends too early");
	if (*r->p == '"' || *r->p == '\'')
		return string_literal(r);
	if (*r->p >= '0' && *r->p <= '9') {
		char *end;
		double d = strtod(r->p, &end);
		r->p = end;
		return plain(jv_number(d));
	}
	if (take(r, "(")) {
		struct value v = expression(r);
		if (!take(r, ")"))
			fail_expr(r, "a parenthesis is not closed");
		return v;
	}
	if (take(r, "["))
		return array_literal(r, "]");
	if (!take_name(r, name, sizeof name))
		return fail_expr(r, "this expression is not understood");
	if (!strcmp(name, "true") || !strcmp(name, "True") || !strcmp(name, "false") || !strcmp(name, "False"))
		return plain(jv_bool(name[0] == 't' || name[0] == 'T'));
	if (!strcmp(name, "none") || !strcmp(name, "None"))
		return plain(jv_null());
	return take(r, "(") ? call(r, name) : variable(r, name);
}

/* x[i], x['key'], x[a:b]. */
static struct value subscript(struct run *r, struct value x)
{
	struct value from = plain(jv_invalid()), to = plain(jv_invalid());
	bool slice = take(r, ":");
	if (!slice) {
		from = expression(r);
		slice = take(r, ":");
	}
	if (slice && !take(r, "]")) {
		to = expression(r);
		if (!take(r, "]"))
			fail_expr(r, "only slices [a:b] are supported");
	} else if (!slice && !take(r, "]")) {
		fail_expr(r, "a subscript is not closed");
	}
	jv_kind k = jv_get_kind(x.v), f = jv_get_kind(from.v);
	if (slice && k == JV_KIND_ARRAY) {
		int len = jv_array_length(jv_copy(x.v));
		int a = f == JV_KIND_NUMBER ? (int)jv_number_value(from.v) : 0;
		int b = jv_get_kind(to.v) == JV_KIND_NUMBER ? (int)jv_number_value(to.v) : len;
		a = a < 0 ? (a + len < 0 ? 0 : a + len) : a > len ? len : a;
		b = b < 0 ? (b + len < 0 ? 0 : b + len) : b > len ? len : b;
		x = derived(&x, jv_array_slice(jv_copy(x.v), a, b > a ? b : a));
	} else if (slice && k != JV_KIND_INVALID) {
		fail_expr(r, "only lists can be sliced");
	} else if (k == JV_KIND_ARRAY && f == JV_KIND_NUMBER) {
		int i = (int)jv_number_value(from.v), len = jv_array_length(jv_copy(x.v));
		i = i < 0 ? i + len : i;
		x = derived(&x, i >= 0 && i < len ? jv_array_get(jv_copy(x.v), i) : jv_invalid());
	} else if (k == JV_KIND_OBJECT && f == JV_KIND_STRING) {
		x = derived(&x, jv_object_get(jv_copy(x.v), jv_copy(from.v)));
	} else {
		x = derived(&x, jv_invalid());
	}
	drop(&from);
	drop(&to);
	return x;
}

static struct value postfix(struct run *r)
{
	struct value x = primary(r);
	char name[64];
	while (!r->err->code) {
		if (take(r, "[")) {
			x = subscript(r, x);
		} else if (take(r, ".")) {
			if (!take_name(r, name, sizeof name)) {
				fail_expr(r, "a name is missing after a dot");
			} else if (take(r, "(")) {
				x = method(r, x, name);
			} else {
				bool has = jv_get_kind(x.v) == JV_KIND_OBJECT;
				x = derived(&x, has ? jv_object_get(jv_copy(x.v), jv_string(name)) : jv_invalid());
			}
		} else if (take(r, "|")) {
			take_name(r, name, sizeof name);
			x = filter(r, x, name);
		} else {
			break;
		}
	}
	return x;
}

static struct value number_op(struct run *r, struct value a, struct value b, char op)
{
	double x, y;
	if (jv_get_kind(a.v) != JV_KIND_NUMBER || jv_get_kind(b.v) != JV_KIND_NUMBER) {
		drop(&a);
		drop(&b);
		return r->quiet ? plain(jv_invalid()) : fail_expr(r, "arithmetic needs numbers");
	}
	x = jv_number_value(a.v);
	y = jv_number_value(b.v);
	drop(&a);
	drop(&b);
	if (op == '%' && y == 0)
		return fail_expr(r, "modulo by zero");
	if (op == '%') {
		double q = x / y;
		double fl = (double)(int64_t)q - (q < 0 && q != (double)(int64_t)q);
		return plain(jv_number(x - y * fl));
	}
	return plain(jv_number(op == '+' ? x + y : op == '-' ? x - y : x * y));
}

static struct value product(struct run *r)
{
	struct value x = take(r, "-") ? number_op(r, plain(jv_number(0)), postfix(r), '-') : postfix(r);
	while (!r->err->code) {
		if (take(r, "*"))
			x = number_op(r, x, postfix(r), '*');
		else if (r->p + 1 < r->end && (skip_blanks(r), *r->p == '%') && r->p[1] != '}') {
			r->p++;
			x = number_op(r, x, postfix(r), '%');
		} else
			break;
	}
	return x;
}

static struct value sum(struct run *r)
{
	struct value x = product(r);
	while (!r->err->code) {
		if (take(r, "~")) {
			x = concat(x, product(r));
		} else if (take(r, "+")) {
			struct value y = product(r);
			if (jv_get_kind(x.v) == JV_KIND_STRING && jv_get_kind(y.v) == JV_KIND_STRING)
				x = concat(x, y);
			else if (jv_get_kind(x.v) == JV_KIND_ARRAY && jv_get_kind(y.v) == JV_KIND_ARRAY) {
				x.outside = x.outside || y.outside;
				x.v = jv_array_concat(x.v, jv_copy(y.v));
				drop(&y);
			} else
				x = number_op(r, x, y, '+');
		} else if (take(r, "-")) {
			x = number_op(r, x, product(r), '-');
		} else {
			break;
		}
	}
	return x;
}

static bool contains(jv in, jv what)
{
	jv_kind k = jv_get_kind(in);
	if (k == JV_KIND_STRING && jv_get_kind(what) == JV_KIND_STRING)
		return strstr(jv_string_value(in), jv_string_value(what)) != NULL;
	if (k == JV_KIND_OBJECT && jv_get_kind(what) == JV_KIND_STRING)
		return jv_object_has(jv_copy(in), jv_copy(what));
	bool found = false;
	if (k == JV_KIND_ARRAY)
		jv_array_foreach(in, i, item) found |= jv_equal(item, jv_copy(what));
	return found;
}

static bool is_test(struct run *r, const struct value *x, const char *name)
{
	jv_kind k = jv_get_kind(x->v);
	if (!strcmp(name, "defined") || !strcmp(name, "undefined"))
		return (k != JV_KIND_INVALID) == (name[0] == 'd');
	if (!strcmp(name, "none") || !strcmp(name, "None"))
		return k == JV_KIND_NULL;
	if (!strcmp(name, "string"))
		return k == JV_KIND_STRING;
	if (!strcmp(name, "mapping"))
		return k == JV_KIND_OBJECT;
	if (!strcmp(name, "number"))
		return k == JV_KIND_NUMBER;
	if (!strcmp(name, "boolean"))
		return k == JV_KIND_TRUE || k == JV_KIND_FALSE;
	if (!strcmp(name, "true") || !strcmp(name, "false"))
		return k == (name[0] == 't' ? JV_KIND_TRUE : JV_KIND_FALSE);
	if (!strcmp(name, "iterable") || !strcmp(name, "sequence"))
		return k == JV_KIND_ARRAY || k == JV_KIND_STRING || k == JV_KIND_OBJECT;
	if (!r->err->code)
		spar_fail(r->err, SPAR_INPUT, "template:%zu: test %s is not supported", r->line, name);
	return false;
}

static struct value comparison(struct run *r)
{
	static const char *const ops[] = {"==", "!=", "<=", ">=", "<", ">", NULL};
	struct value x = sum(r);
	while (!r->err->code) {
		char name[64];
		bool yes;
		int op = 0;
		if (take(r, "is")) {
			bool no = take(r, "not");
			take_name(r, name, sizeof name);
			yes = is_test(r, &x, name) != no;
			drop(&x);
			x = plain(jv_bool(yes));
			continue;
		}
		while (ops[op] && !take(r, ops[op]))
			op++;
		bool negated = !ops[op] && take(r, "not");
		if (!ops[op] && !take(r, "in")) {
			if (negated)
				fail_expr(r, "expected in after not");
			break;
		}
		struct value y = sum(r);
		if (!ops[op]) {
			yes = contains(y.v, x.v) != negated;
		} else if (op < 2) { /* undefined is equal to nothing but itself */
			bool both = jv_is_valid(x.v) && jv_is_valid(y.v);
			yes = (both ? jv_equal(jv_copy(x.v), jv_copy(y.v)) : jv_is_valid(x.v) == jv_is_valid(y.v)) ==
			      (op == 0);
		} else {
			int c = jv_is_valid(x.v) && jv_is_valid(y.v) ? jv_cmp(jv_copy(x.v), jv_copy(y.v)) : 0;
			yes = op == 2 ? c <= 0 : op == 3 ? c >= 0 : op == 4 ? c < 0 : c > 0;
		}
		drop(&x);
		drop(&y);
		x = plain(jv_bool(yes));
	}
	return x;
}

static struct value negation(struct run *r)
{
	if (!take(r, "not"))
		return comparison(r);
	struct value x = negation(r);
	bool yes = !truthy(&x);
	drop(&x);
	return plain(jv_bool(yes));
}

/* and, or give one of their operands; the one that does not count is read but calls nothing. */
static struct value either(struct run *r, bool is_or)
{
	struct value x = is_or ? either(r, false) : negation(r);
	while (!r->err->code && take(r, is_or ? "or" : "and")) {
		bool was_quiet = r->quiet, keep = truthy(&x) == is_or;
		r->quiet = was_quiet || keep;
		struct value y = is_or ? either(r, false) : negation(r);
		r->quiet = was_quiet;
		drop(keep ? &y : &x);
		x = keep ? x : y;
	}
	return x;
}

static struct value expression(struct run *r)
{
	if (++r->steps > MAX_STEPS || ++r->depth > MAX_DEPTH)
		return fail_expr(r, "the template takes too many steps");
	struct value x = either(r, true);
	if (!r->err->code && take(r, "if")) {
		struct value cond = either(r, true), other = plain(jv_invalid());
		bool yes = truthy(&cond);
		drop(&cond);
		if (take(r, "else")) {
			bool was_quiet = r->quiet;
			r->quiet = was_quiet || yes;
			other = expression(r);
			r->quiet = was_quiet;
		}
		drop(yes ? &other : &x);
		x = yes ? x : other;
	}
	r->depth--;
	return x;
}

/* ---- statements ---- */

static struct value evaluate(struct run *r, const char *s, const char *end, size_t line)
{
	r->p = s;
	r->end = end;
	r->line = line;
	struct value x = expression(r);
	skip_blanks(r);
	if (!r->err->code && r->p < r->end)
		fail_expr(r, "this expression is not understood");
	return x;
}

static void emit(struct run *r, struct value x)
{
	if (r->err->code) {
		drop(&x);
		return;
	}
	x = as_string(x);
	size_t at = r->out->len - r->begun;
	spar_str_add(r->out, jv_string_value(x.v), (size_t)jv_string_length_bytes(jv_copy(x.v)));
	for (size_t i = 0; r->spans && i < x.marks.n; i++)
		spar_spans_add(r->spans, at + x.marks.data[i].begin, at + x.marks.data[i].end);
	drop(&x);
	if (r->out->len - r->begun > MAX_OUTPUT && !r->err->code)
		bad_template(r->err, r->line, "the output is longer than 64 MiB");
}

static void assign(struct run *r, const struct part *p)
{
	char name[64], key[64] = "";
	r->p = p->s;
	r->end = p->end;
	r->line = p->line;
	if (!take_name(r, name, sizeof name) || (take(r, ".") && !take_name(r, key, sizeof key)) || !take(r, "=")) {
		fail_expr(r, "set takes one name and a value");
		return;
	}
	struct value v = evaluate(r, r->p, p->end, p->line);
	jv set = jv_is_valid(v.v) ? jv_copy(v.v) : jv_null(), marks = marks_of(&v);
	if (*key) { /* one thing from outside makes a whole namespace count as outside */
		jv before = jv_object_get(jv_copy(r->marks), jv_string(name));
		bool outside = v.outside || v.marks.n || jv_get_kind(before) == JV_KIND_TRUE;
		jv_free(before);
		jv_free(marks);
		marks = jv_bool(outside);
		jv space = jv_object_get(jv_copy(r->names), jv_string(name));
		set = jv_object_set(jv_get_kind(space) == JV_KIND_OBJECT ? space : (jv_free(space), jv_object()),
				    jv_string(key), set);
	}
	r->names = jv_object_set(r->names, jv_string(name), set);
	r->marks = jv_object_set(r->marks, jv_string(name), marks);
	drop(&v);
}

static void walk(struct run *r, size_t from, size_t to);

static void loop(struct run *r, const struct part *p, size_t body)
{
	char name[64];
	r->p = p->s;
	r->end = p->end;
	r->line = p->line;
	if (!take_name(r, name, sizeof name) || !take(r, "in")) {
		fail_expr(r, "for takes one name and a list");
		return;
	}
	struct value list = evaluate(r, r->p, p->end, p->line);
	if (!r->err->code && jv_is_valid(list.v) && jv_get_kind(list.v) != JV_KIND_ARRAY)
		fail_expr(r, "for needs a list");
	int n = jv_get_kind(list.v) == JV_KIND_ARRAY ? jv_array_length(jv_copy(list.v)) : 0;
	bool outside = list.outside;
	jv outer = jv_copy(r->names), outer_marks = jv_copy(r->marks), saved_outside = jv_copy(r->outside);
	for (int i = 0; i < n && !r->err->code; i++) {
		jv about = jv_object();
		about = jv_object_set(about, jv_string("index0"), jv_number(i));
		about = jv_object_set(about, jv_string("index"), jv_number(i + 1));
		about = jv_object_set(about, jv_string("first"), jv_bool(i == 0));
		about = jv_object_set(about, jv_string("last"), jv_bool(i == n - 1));
		about = jv_object_set(about, jv_string("length"), jv_number(n));
		r->names = jv_object_set(r->names, jv_string("loop"), about);
		jv item = jv_array_get(jv_copy(list.v), i);
		r->marks = jv_object_delete(r->marks, jv_string(name));
		if (outside) { /* the loop's name must not hide the mark */
			r->names = jv_object_delete(r->names, jv_string(name));
			r->outside = jv_object_set(r->outside, jv_string(name), item);
		} else {
			r->names = jv_object_set(r->names, jv_string(name), item);
		}
		walk(r, body, p->next);
	}
	/* What a loop sets is its own, but for namespaces: their attributes live on. */
	jv inner = r->names, inner_marks = r->marks;
	r->names = jv_copy(outer);
	r->marks = outer_marks;
	jv_object_foreach(outer, key, value)
	{
		bool space = jv_get_kind(value) == JV_KIND_OBJECT && strcmp(jv_string_value(key), "loop") != 0;
		if (space && jv_object_has(jv_copy(inner), jv_copy(key))) {
			r->names = jv_object_set(r->names, jv_copy(key), jv_object_get(jv_copy(inner), jv_copy(key)));
			if (jv_object_has(jv_copy(inner_marks), jv_copy(key)))
				r->marks = jv_object_set(r->marks, jv_copy(key),
							 jv_object_get(jv_copy(inner_marks), jv_copy(key)));
		}
		jv_free(key);
		jv_free(value);
	}
	jv_free(inner_marks);
	jv_free(inner);
	jv_free(outer);
	jv_free(r->outside);
	r->outside = saved_outside;
	drop(&list);
}

/* An if with its branches; returns the part behind its endif. */
static size_t branch(struct run *r, size_t i)
{
	const struct part *parts = r->t->parts;
	bool done = false;
	for (; parts[i].kind != ENDIF; i = parts[i].next) {
		bool yes = parts[i].kind == ELSE;
		if (!done && !yes) {
			struct value x = evaluate(r, parts[i].s, parts[i].end, parts[i].line);
			yes = truthy(&x);
			drop(&x);
		}
		if (!done && yes && !r->err->code)
			walk(r, i + 1, parts[i].next);
		done = done || yes;
	}
	return i + 1;
}

static void walk(struct run *r, size_t from, size_t to)
{
	const struct part *parts = r->t->parts;
	for (size_t i = from; i < to && !r->err->code;) {
		const struct part *p = &parts[i++];
		r->steps++;
		switch (p->kind) {
		case TEXT:
			spar_str_add(r->out, p->s, (size_t)(p->end - p->s));
			break;
		case OUTPUT:
			emit(r, evaluate(r, p->s, p->end, p->line));
			break;
		case SET:
			assign(r, p);
			break;
		case FOR:
			loop(r, p, i);
			i = p->next + 1;
			break;
		case IF:
			i = branch(r, i - 1);
			break;
		default: /* closing parts are stepped over by their openers */
			break;
		}
	}
}

int spar_jinja_render(const struct spar_jinja *t, jv trusted, jv outside, struct spar_str *out,
		      struct spar_spans *spans, struct spar_err *err)
{
	struct spar_err inner = {0};
	struct run r = {.t = t,
			.names = jv_object(),
			.marks = jv_object(),
			.trusted = trusted,
			.outside = jv_copy(outside),
			.out = out,
			.spans = spans,
			.err = &inner,
			.begun = out->len};
	walk(&r, 0, t->n);
	jv_free(r.names);
	jv_free(r.marks);
	jv_free(r.outside);
	if (!inner.code)
		return 0;
	return spar_fail(err, inner.code, "%s", inner.msg);
}
