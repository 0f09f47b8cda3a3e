/* Filters over text. */
#include "text/jinja/filters.h"
#include <string.h>

/* What is no string yet becomes one. */

static struct value *f_upper(struct pool *p, struct value *v, const struct args *a)
{
	(void)a;
	return change_case(p, to_string(p, v), UPPER);
}

static struct value *f_lower(struct pool *p, struct value *v, const struct args *a)
{
	(void)a;
	return change_case(p, to_string(p, v), LOWER);
}

static struct value *f_capitalize(struct pool *p, struct value *v, const struct args *a)
{
	(void)a;
	return change_case(p, to_string(p, v), CAPITALIZE);
}

static struct value *f_title(struct pool *p, struct value *v, const struct args *a)
{
	(void)a;
	return change_case(p, to_string(p, v), TITLE);
}

static struct value *f_string(struct pool *p, struct value *v, const struct args *a)
{
	(void)a;
	return to_string(p, v);
}

static struct value *f_trim(struct pool *p, struct value *v, const struct args *a)
{
	return strip(p, to_string(p, v), arg(a, 0, "chars"), true, true);
}

static struct value *f_replace(struct pool *p, struct value *v, const struct args *a)
{
	struct value *old = arg(a, 0, "old"), *by = arg(a, 1, "new");
	return old && by
		   ? replace(p, to_string(p, v), to_string(p, old), to_string(p, by), arg_number(a, 2, "count", -1))
		   : NULL;
}

static struct value *f_center(struct pool *p, struct value *v, const struct args *a)
{
	struct args width = {.n = 1, .by_place = {new_number(p, arg_number(a, 0, "width", 80))}};
	return string_method(p, "center", to_string(p, v), &width);
}

static struct value *f_format(struct pool *p, struct value *v, const struct args *a)
{
	struct value *by = new_list(p, a->by_place, a->n);
	by->is_tuple = true;
	return format_percent(p, to_string(p, v), by);
}

/* Every line but the first (and, unless asked for, empty ones) is moved to the right. */
static struct value *f_indent(struct pool *p, struct value *v, const struct args *a)
{
	struct value *s = to_string(p, v), *width = arg(a, 0, "width");
	double blanks = arg_number(a, 0, "width", 4);
	if (blanks > 1000)
		return NULL;
	struct value *margin = width && width->kind == STRING ? width : repeat(p, new_text(p, " "), blanks);
	bool begins = false, blank_lines = arg_flag(a, 2, "blank", false);
	struct spar_marked b = SPAR_MARKED_INIT;
	if (arg_flag(a, 1, "first", false))
		add_slice(&b, margin, 0, margin->n);
	for (size_t i = 0; i <= s->n && b.text.len <= VALUES_MAX_TEXT; i++) {
		if (begins && ((i < s->n && s->text[i] != '\n') || (blank_lines && (i == s->n || s->text[i] == '\n'))))
			add_slice(&b, margin, 0, margin->n);
		if (i < s->n)
			add_slice(&b, s, i, i + 1);
		begins = i < s->n && s->text[i] == '\n';
	}
	return built(p, &b);
}

static struct value *f_truncate(struct pool *p, struct value *v, const struct args *a)
{
	struct value *s = to_string(p, v), *end = arg(a, 2, "end");
	double max = arg_number(a, 0, "length", 255), leeway = arg_number(a, 3, "leeway", 5);
	end = end && end->kind == STRING ? end : new_text(p, "...");
	if ((double)length(s) <= max + leeway)
		return s;
	if (max < (double)length(end))
		return NULL;
	struct value *head = slice_string(p, s, 0, byte_place(s, (size_t)(max - (double)length(end))));
	if (!arg_flag(a, 1, "killwords", false)) {
		size_t blank = head->n;
		while (blank && head->text[blank - 1] != ' ')
			blank--;
		head = blank ? slice_string(p, head, 0, blank - 1) : head;
	}
	return join(p, new_list(p, (struct value *[]){head, end}, 2), NULL);
}

static struct value *f_wordcount(struct pool *p, struct value *v, const struct args *a)
{
	double n = 0;
	bool in = false;
	struct value *s = to_string(p, v);
	(void)a;
	for (size_t i = 0; i < s->n; i++) {
		unsigned char c = (unsigned char)s->text[i];
		bool word = c >= 0x80 || c == '_' || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
		n += word && !in;
		in = word;
	}
	return new_number(p, n);
}

static struct value *f_escape(struct pool *p, struct value *v, const struct args *a)
{
	static const struct {
		char c;
		const char *name;
	} signs[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&#34;"}, {'\'', "&#39;"}};
	struct value *s = to_string(p, v);
	struct spar_marked b = SPAR_MARKED_INIT;
	(void)a;
	for (size_t i = 0; i < s->n && !s->is_safe; i++) {
		const char *name = NULL;
		for (size_t k = 0; k < sizeof signs / sizeof *signs; k++)
			name = signs[k].c == s->text[i] ? signs[k].name : name;
		if (name)
			spar_marked_add(&b, name, strlen(name), is_marked(s, i));
		else
			add_slice(&b, s, i, i + 1);
	}
	if (!s->is_safe)
		s = built(p, &b);
	s->is_safe = true;
	return s;
}

const struct named_filter text_filters[] = {NAMED(upper),  NAMED(lower),    NAMED(capitalize), NAMED(title),
					    NAMED(string), NAMED(trim),     NAMED(replace),    NAMED(center),
					    NAMED(format), NAMED(indent),   NAMED(truncate),   NAMED(wordcount),
					    NAMED(escape), {"e", f_escape}, {NULL, NULL}};
