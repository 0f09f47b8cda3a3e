/* The methods of strings, as Python has them. */
#include "text/chars.h"
#include "text/jinja/call.h"
#include <math.h>
#include <string.h>
#include <utf8proc.h>

/* ---- places ---- */

static struct value *char_place(struct pool *p, const struct value *s, size_t byte)
{
	double chars = 0;
	for (size_t i = 0; i < byte; i++)
		chars += ((uint8_t)s->text[i] & 0xC0) != 0x80;
	return new_number(p, chars);
}

static size_t find_last(const struct value *s, const struct value *part)
{
	for (size_t at = s->n >= part->n ? s->n - part->n + 1 : 0; at-- > 0;)
		if (!memcmp(s->text + at, part->text, part->n))
			return at;
	return SIZE_MAX;
}

/* The argument at a place if it is a string. */
static const struct value *text_arg(const struct args *a, size_t place)
{
	return place < a->n && a->by_place[place]->kind == STRING ? a->by_place[place] : NULL;
}

/* ---- splitting ---- */

static struct value *split_at_blanks(struct pool *p, const struct value *s, double max)
{
	struct value *list = new_value(p, LIST);
	size_t begin = 0, len;
	int32_t c;
	for (size_t i = 0; i < s->n; i += len) {
		len = spar_char_at(s->text, s->n, i, &c);
		if (!is_blank(c))
			continue;
		if (i > begin) {
			list_add(p, list, slice_string(p, s, begin, i));
			if (max >= 0 && (double)list->n >= max) { /* the rest is one, without its outer blanks */
				struct value *rest = slice_string(p, s, i, s->n);
				rest = strip(p, rest, NULL, true, false);
				if (rest->n)
					list_add(p, list, rest);
				return list;
			}
		}
		begin = i + len;
	}
	if (begin < s->n)
		list_add(p, list, slice_string(p, s, begin, s->n));
	return list;
}

static struct value *split(struct pool *p, const struct value *s, const struct args *a)
{
	const struct value *sep = arg(a, 0, "sep");
	double max = arg_number(a, 1, "maxsplit", -1);
	size_t from = 0, at;
	if (!sep || sep->kind == NONE)
		return max == 0 ? new_list(p, (struct value *[]){strip(p, s, NULL, true, false)}, 1)
				: split_at_blanks(p, s, max);
	if (sep->kind != STRING || !sep->n)
		return NULL;
	struct value *list = new_value(p, LIST);
	while ((max < 0 || (double)list->n < max) && (at = find_text(s, sep, from)) != SIZE_MAX) {
		list_add(p, list, slice_string(p, s, from, at));
		from = at + sep->n;
	}
	list_add(p, list, slice_string(p, s, from, s->n));
	return list;
}

/* From the right: only a limit makes a difference. */
static struct value *rsplit(struct pool *p, const struct value *s, const struct args *a)
{
	const struct value *sep = arg(a, 0, "sep");
	double max = arg_number(a, 1, "maxsplit", -1);
	if (max < 0)
		return split(p, s, a);
	if (!sep || sep->kind != STRING || !sep->n)
		return NULL;
	struct value *reversed = new_value(p, LIST), *list = new_value(p, LIST), *head = slice_string(p, s, 0, s->n);
	size_t at;
	while ((double)reversed->n < max && (at = find_last(head, sep)) != SIZE_MAX) {
		list_add(p, reversed, slice_string(p, head, at + sep->n, head->n));
		head = slice_string(p, head, 0, at);
	}
	list_add(p, list, head);
	for (size_t i = reversed->n; i > 0; i--)
		list_add(p, list, reversed->items[i - 1]);
	return list;
}

static struct value *splitlines(struct pool *p, const struct value *s, const struct args *a)
{
	struct value *list = new_value(p, LIST);
	bool keep = arg_flag(a, 0, "keepends", false);
	for (size_t begin = 0, at = 0; at < s->n; begin = at) {
		while (at < s->n && s->text[at] != '\n' && s->text[at] != '\r')
			at++;
		size_t end = at;
		if (at < s->n)
			at += s->text[at] == '\r' && s->text[at + 1] == '\n' ? 2 : 1;
		list_add(p, list, slice_string(p, s, begin, keep ? at : end));
	}
	return list;
}

/* (before, separator, behind), cut at the first or last one. */
static struct value *partition(struct pool *p, struct value *s, const struct args *a, bool last)
{
	const struct value *sep = text_arg(a, 0);
	if (!sep || !sep->n)
		return NULL;
	size_t at = last ? find_last(s, sep) : find_text(s, sep, 0);
	struct value *none = new_text(p, ""), *tuple;
	if (at != SIZE_MAX)
		tuple = new_list(p,
				 (struct value *[]){slice_string(p, s, 0, at), slice_string(p, s, at, at + sep->n),
						    slice_string(p, s, at + sep->n, s->n)},
				 3);
	else
		tuple = new_list(p, last ? (struct value *[]){none, none, s} : (struct value *[]){s, none, none}, 3);
	tuple->is_tuple = true;
	return tuple;
}

/* ---- changing ---- */

/* Filled up to a width; `left` is the share of the filling that goes before it. */
static struct value *pad(struct pool *p, const struct value *s, const struct args *a, double left)
{
	struct spar_marked b = SPAR_MARKED_INIT;
	double width = arg_number(a, 0, "width", 0), missing = width - (double)length(s), before;
	const struct value *fill = text_arg(a, 1);
	if (missing > VALUES_MAX_TEXT)
		return NULL;
	missing = missing > 0 ? trunc(missing) : 0;
	before = left == 0.5 ? floor(missing / 2) + (fmod(missing, 2) != 0 && fmod(width, 2) != 0) : left * missing;
	for (double i = 0; i < missing; i++) {
		if (i == before)
			add_slice(&b, s, 0, s->n);
		spar_marked_add(&b, fill ? fill->text : " ", fill ? fill->n : 1, false);
	}
	if (before >= missing)
		add_slice(&b, s, 0, s->n);
	return built(p, &b);
}

static struct value *zfill(struct pool *p, const struct value *s, const struct args *a)
{
	struct value *zero = new_text(p, "0");
	bool sign = s->n && (s->text[0] == '-' || s->text[0] == '+');
	double missing = arg_number(a, 0, "width", 0) - (double)length(s);
	struct spar_marked b = SPAR_MARKED_INIT;
	add_slice(&b, s, 0, sign);
	add_value(&b, repeat(p, zero, missing));
	add_slice(&b, s, sign, s->n);
	return built(p, &b);
}

/* ---- questions ---- */

static int starts_or_ends(const struct value *s, const struct value *part, bool start)
{
	if (part && part->kind == LIST) { /* any of them */
		for (size_t i = 0; i < part->n; i++)
			if (part->items[i]->kind == STRING && starts_or_ends(s, part->items[i], start) == 1)
				return 1;
		return 0;
	}
	if (!part || part->kind != STRING)
		return -1;
	return part->n <= s->n && !memcmp(s->text + (start ? 0 : s->n - part->n), part->text, part->n);
}

enum class { ALPHA, DIGIT, ALNUM, SPACE, CAPITALS, SMALL };

static bool is_class(const struct value *s, enum class class)
{
	bool cased = false;
	for (size_t i = 0; i < s->n;) {
		int32_t c;
		i += spar_char_at(s->text, s->n, i, &c);
		utf8proc_category_t category = utf8proc_category(c);
		bool letter = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
		bool digit = category == UTF8PROC_CATEGORY_ND, up = c != utf8proc_tolower(c),
		     low = c != utf8proc_toupper(c);
		cased |= up || low;
		if ((class == ALPHA && !letter) || (class == DIGIT && !digit) || (class == SPACE && !is_blank(c)) ||
		    (class == ALNUM && !letter && !digit) || (class == CAPITALS && low) || (class == SMALL && up))
			return false;
	}
	return class >= CAPITALS ? cased : s->n > 0;
}

static struct value *count(struct pool *p, const struct value *s, const struct value *part)
{
	double n = 0;
	if (!part || !part->n)
		return NULL;
	for (size_t at = 0; (at = find_text(s, part, at)) != SIZE_MAX; at += part->n)
		n++;
	return new_number(p, n);
}

static struct value *find_method(struct pool *p, const struct value *s, const struct args *a, bool last, bool must)
{
	const struct value *part = text_arg(a, 0);
	size_t from = a->n > 1 ? byte_place(s, (size_t)arg_number(a, 1, "start", 0)) : 0;
	if (!part || a->n > 2 || (last && a->n > 1))
		return NULL;
	size_t at = last ? find_last(s, part) : find_text(s, part, from);
	if (at == SIZE_MAX)
		return must ? NULL : new_number(p, -1);
	return char_place(p, s, at);
}

/* ---- methods by name ---- */

#define METHOD_OF(name, expression) \
	static struct value *m_##name(struct pool *p, struct value *s, const struct args *a) \
	{ \
		(void)p, (void)a; \
		return expression; \
	}

static struct value *yes_or_no(struct pool *p, int yes)
{
	return yes < 0 ? NULL : new_bool(p, yes);
}

static struct value *without(struct pool *p, const struct value *s, const struct value *part, bool start)
{
	int has = part ? starts_or_ends(s, part, start) : -1;
	return has < 0 ? NULL
	       : !has  ? slice_string(p, s, 0, s->n)
	       : start ? slice_string(p, s, part->n, s->n)
		       : slice_string(p, s, 0, s->n - part->n);
}

static struct value *join_method(struct pool *p, const struct value *s, const struct args *a)
{
	struct value *list = a->n ? items_of(p, a->by_place[0]) : NULL;
	for (size_t i = 0; list && i < list->n; i++)
		if (list->items[i]->kind != STRING)
			return NULL;
	return list ? join(p, list, s) : NULL;
}

METHOD_OF(upper, change_case(p, s, UPPER))
METHOD_OF(lower, change_case(p, s, LOWER))
METHOD_OF(capitalize, change_case(p, s, CAPITALIZE))
METHOD_OF(title, change_case(p, s, TITLE))
METHOD_OF(strip, strip(p, s, arg(a, 0, "chars"), true, true))
METHOD_OF(lstrip, strip(p, s, arg(a, 0, "chars"), true, false))
METHOD_OF(rstrip, strip(p, s, arg(a, 0, "chars"), false, true))
METHOD_OF(startswith, yes_or_no(p, starts_or_ends(s, arg(a, 0, "prefix"), true)))
METHOD_OF(endswith, yes_or_no(p, starts_or_ends(s, arg(a, 0, "suffix"), false)))
METHOD_OF(removeprefix, without(p, s, text_arg(a, 0), true))
METHOD_OF(removesuffix, without(p, s, text_arg(a, 0), false))
METHOD_OF(split, split(p, s, a))
METHOD_OF(rsplit, rsplit(p, s, a))
METHOD_OF(splitlines, splitlines(p, s, a))
METHOD_OF(partition, partition(p, s, a, false))
METHOD_OF(rpartition, partition(p, s, a, true))
METHOD_OF(replace, replace(p, s, text_arg(a, 0), text_arg(a, 1), arg_number(a, 2, "count", -1)))
METHOD_OF(join, join_method(p, s, a))
METHOD_OF(format, format_braces(p, s, a))
METHOD_OF(find, find_method(p, s, a, false, false))
METHOD_OF(rfind, find_method(p, s, a, true, false))
METHOD_OF(index, find_method(p, s, a, false, true))
METHOD_OF(rindex, find_method(p, s, a, true, true))
METHOD_OF(count, count(p, s, text_arg(a, 0)))
METHOD_OF(center, pad(p, s, a, 0.5))
METHOD_OF(ljust, pad(p, s, a, 0))
METHOD_OF(rjust, pad(p, s, a, 1))
METHOD_OF(zfill, zfill(p, s, a))
METHOD_OF(isalpha, new_bool(p, is_class(s, ALPHA)))
METHOD_OF(isdigit, new_bool(p, is_class(s, DIGIT)))
METHOD_OF(isalnum, new_bool(p, is_class(s, ALNUM)))
METHOD_OF(isspace, new_bool(p, is_class(s, SPACE)))
METHOD_OF(isupper, new_bool(p, is_class(s, CAPITALS)))
METHOD_OF(islower, new_bool(p, is_class(s, SMALL)))

#define NAMED(name) \
	{ \
#name, m_##name \
	}
static const struct {
	const char *name;
	struct value *(*call)(struct pool *p, struct value *s, const struct args *a);
} methods[] = {NAMED(upper),        NAMED(lower),   NAMED(capitalize), NAMED(title),      NAMED(strip),
	       NAMED(lstrip),       NAMED(rstrip),  NAMED(startswith), NAMED(endswith),   NAMED(removeprefix),
	       NAMED(removesuffix), NAMED(split),   NAMED(rsplit),     NAMED(splitlines), NAMED(partition),
	       NAMED(rpartition),   NAMED(replace), NAMED(join),       NAMED(format),     NAMED(find),
	       NAMED(rfind),        NAMED(index),   NAMED(rindex),     NAMED(count),      NAMED(center),
	       NAMED(ljust),        NAMED(rjust),   NAMED(zfill),      NAMED(isalpha),    NAMED(isdigit),
	       NAMED(isalnum),      NAMED(isspace), NAMED(isupper),    NAMED(islower)};

bool is_string_method(const char *name, size_t n)
{
	for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
		if (strlen(methods[i].name) == n && !memcmp(methods[i].name, name, n))
			return true;
	return false;
}

/* What is made of Markup is Markup. */
static struct value *as_safe(struct value *v)
{
	for (size_t i = 0; v && v->kind == LIST && i < v->n; i++)
		v->items[i]->is_safe = true;
	if (v && v->kind == STRING)
		v->is_safe = true;
	return v;
}

struct value *string_method(struct pool *p, const char *name, struct value *s, const struct args *a)
{
	struct value *v = NULL;
	for (size_t i = 0; !v && i < sizeof methods / sizeof *methods; i++)
		if (!strcmp(methods[i].name, name))
			v = methods[i].call(p, s, a);
	return s->is_safe ? as_safe(v) : v;
}
