#include "base/opt.h"
#include "base/err.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELP_WIDTH 100 /* columns of the opening paragraph */
#define HELP_COLUMN 36 /* where an option's explanation starts */

/* ---- numbers ---- */

/* The C library reads more than numbers look like: blanks, "+1", "0x1p3", "inf". Only these bytes may come. */
static int only(const char *text, const char *bytes)
{
	return *text && text[strspn(text, bytes)] == 0 ? 0 : -1;
}

int spar_parse_i64(const char *text, int64_t min, int64_t max, int64_t *out)
{
	char *end;
	errno = 0;
	if (only(text, "-0123456789") < 0)
		return -1;
	long long v = strtoll(text, &end, 10);
	if (errno || *end || v < min || v > max)
		return -1;
	*out = v;
	return 0;
}

int spar_parse_u64(const char *text, uint64_t *out)
{
	char *end;
	errno = 0;
	if (only(text, "0123456789") < 0)
		return -1;
	unsigned long long v = strtoull(text, &end, 10);
	if (errno || *end)
		return -1;
	*out = v;
	return 0;
}

int spar_parse_double(const char *text, double min, double max, double *out)
{
	char *end;
	if (only(text, "-+.eE0123456789") < 0 || *text == '+')
		return -1;
	double v = strtod(text, &end);
	if (*end || !isfinite(v) || v < min || v > max)
		return -1;
	*out = v;
	return 0;
}

/* ---- help ---- */

static void print_usage(const struct spar_usage *u, FILE *to)
{
	fprintf(to, "usage: spar %s %s\n", u->tool, u->operands);
}

/* The value's name, or the choices themselves. */
static void print_arg(const struct spar_opt *o, FILE *to, int *column)
{
	if (o->arg) {
		*column += fprintf(to, "=%s", o->arg);
		return;
	}
	for (size_t i = 0; o->choices && o->choices[i]; i++)
		*column += fprintf(to, "%c%s", i ? '|' : '=', o->choices[i]);
}

static void print_option(const struct spar_opt *o, FILE *to)
{
	int column = 0;
	if (o->kind == SPAR_OPT_KIND_GROUP) {
		fprintf(to, "\n%s\n", o->help);
		return;
	}
	column += o->letter ? fprintf(to, "  -%c, ", o->letter) : fprintf(to, "      ");
	column += fprintf(to, "--%s", o->name);
	print_arg(o, to, &column);
	if (column >= HELP_COLUMN) {
		fputc('\n', to);
		column = 0;
	}
	fprintf(to, "%*s%s\n", HELP_COLUMN - column, "", o->help);
}

static void print_wrapped(const char *text, FILE *to)
{
	size_t column = 0;
	while (*text) {
		size_t n = strcspn(text, " \n");
		if (column && column + 1 + n > HELP_WIDTH) {
			fputc('\n', to);
			column = 0;
		}
		column += (size_t)fprintf(to, "%s%.*s", column ? " " : "", (int)n, text);
		text += n + strspn(text + n, " \n");
	}
	fputc('\n', to);
}

static int print_help(const struct spar_usage *u, const struct spar_opt *table)
{
	print_usage(u, stdout);
	putchar('\n');
	print_wrapped(u->about, stdout);
	if (table->kind != SPAR_OPT_KIND_GROUP && table->kind != SPAR_OPT_KIND_END)
		putchar('\n');
	for (const struct spar_opt *o = table; o->kind != SPAR_OPT_KIND_END; o++)
		print_option(o, stdout);
	return fflush(stdout) == 0 ? SPAR_OK : SPAR_FAIL;
}

int spar_usage_error(const struct spar_usage *usage, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fprintf(stderr, "%s: ", usage->tool);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	print_usage(usage, stderr);
	return SPAR_USAGE;
}

/* ---- parsing ---- */

static int bad_value(const struct spar_usage *u, const struct spar_opt *o, const char *text)
{
	char range[96];
	if (o->kind == SPAR_OPT_KIND_U64)
		snprintf(range, sizeof range, "a whole number from 0 to 2^64-1");
	else
		snprintf(range, sizeof range, "a %snumber from %.12g to %.12g",
			 o->kind == SPAR_OPT_KIND_INT ? "whole " : "", o->min, o->max);
	return spar_usage_error(u, "--%s: expected %s, got '%s'", o->name, range, text);
}

static int bad_choice(const struct spar_usage *u, const struct spar_opt *o, const char *text)
{
	char names[512] = "";
	for (size_t i = 0, n = 0; o->choices[i] && n < sizeof names; i++)
		n += (size_t)snprintf(names + n, sizeof names - n, "%s%s",
				      !i                  ? ""
				      : o->choices[i + 1] ? ", "
							  : " or ",
				      o->choices[i]);
	return spar_usage_error(u, "--%s: expected %s, got '%s'", o->name, names, text);
}

static int choose(const struct spar_opt *o, const char *text)
{
	for (int i = 0; o->choices[i]; i++) {
		if (!strcmp(o->choices[i], text)) {
			*(int *)o->value = i;
			return 0;
		}
	}
	return -1;
}

/* Store `text` where option `o` wants it. */
static int store(const struct spar_usage *u, const struct spar_opt *o, const char *text)
{
	struct spar_opt_list *list = o->value;
	switch (o->kind) {
	case SPAR_OPT_KIND_INT: /* the range stands in doubles: INT64_MAX would round up past the type */
		if (spar_parse_i64(text, o->min <= -0x1p63 ? INT64_MIN : (int64_t)o->min,
				   o->max >= 0x1p63 ? INT64_MAX : (int64_t)o->max, o->value) < 0)
			return bad_value(u, o, text);
		return 0;
	case SPAR_OPT_KIND_U64:
		return spar_parse_u64(text, o->value) < 0 ? bad_value(u, o, text) : 0;
	case SPAR_OPT_KIND_DOUBLE:
		return spar_parse_double(text, o->min, o->max, o->value) < 0 ? bad_value(u, o, text) : 0;
	case SPAR_OPT_KIND_STR:
		*(const char **)o->value = text;
		return 0;
	case SPAR_OPT_KIND_LIST:
		list->items = spar_realloc(list->items, (list->n + 1) * sizeof *list->items);
		list->items[list->n++] = text;
		return 0;
	case SPAR_OPT_KIND_CHOICE:
		return choose(o, text) < 0 ? bad_choice(u, o, text) : 0;
	default:
		return 0;
	}
}

static const struct spar_opt *find_long(const struct spar_opt *table, const char *name, size_t n)
{
	for (const struct spar_opt *o = table; o->kind != SPAR_OPT_KIND_END; o++)
		if (o->name && strlen(o->name) == n && !memcmp(o->name, name, n))
			return o;
	return NULL;
}

static const struct spar_opt *find_letter(const struct spar_opt *table, int letter)
{
	for (const struct spar_opt *o = table; o->kind != SPAR_OPT_KIND_END; o++)
		if (o->letter == letter)
			return o;
	return NULL;
}

/* One "--name", "--name=value" or "--name value"; *i moves on to the value when that is an argument of its own. */
static int parse_long(const struct spar_usage *u, const struct spar_opt *table, int argc, char **argv, int *i)
{
	const char *name = argv[*i] + 2, *equals = strchr(name, '=');
	size_t n = equals ? (size_t)(equals - name) : strlen(name);
	const struct spar_opt *o = find_long(table, name, n);
	bool on = true;
	if (!o && n > 3 && !memcmp(name, "no-", 3)) {
		o = find_long(table, name + 3, n - 3);
		on = false;
		if (o && o->kind != SPAR_OPT_KIND_FLAG)
			o = NULL;
	}
	if (!o)
		return spar_usage_error(u, "unknown option --%.*s", (int)n, name);
	if (o->kind == SPAR_OPT_KIND_FLAG) {
		if (equals)
			return spar_usage_error(u, "--%.*s takes no value", (int)n, name);
		*(bool *)o->value = on;
		return 0;
	}
	if (equals)
		return store(u, o, equals + 1);
	if (*i + 1 >= argc)
		return spar_usage_error(u, "--%s needs a value", o->name);
	return store(u, o, argv[++*i]);
}

/* A cluster of letters: flags, and at its end perhaps one option with a value. */
static int parse_letters(const struct spar_usage *u, const struct spar_opt *table, int argc, char **argv, int *i)
{
	for (const char *p = argv[*i] + 1; *p; p++) {
		const struct spar_opt *o = find_letter(table, (unsigned char)*p);
		if (!o)
			return spar_usage_error(u, "unknown option -%c", *p);
		if (o->kind == SPAR_OPT_KIND_FLAG) {
			*(bool *)o->value = true;
			continue;
		}
		if (p[1])
			return store(u, o, p + 1);
		if (*i + 1 >= argc)
			return spar_usage_error(u, "-%c needs a value", *p);
		return store(u, o, argv[++*i]);
	}
	return 0;
}

int spar_opt_parse(const struct spar_usage *usage, const struct spar_opt *table, int argc, char **argv)
{
	int i = 1;
	for (; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
		if (!strcmp(argv[i], "--"))
			return i + 1;
		if (!strcmp(argv[i], "--help") || (!strcmp(argv[i], "-h") && !find_letter(table, 'h')))
			return -1 - print_help(usage, table);
		int rc = argv[i][1] == '-' ? parse_long(usage, table, argc, argv, &i)
					   : parse_letters(usage, table, argc, argv, &i);
		if (rc)
			return -1 - rc;
	}
	return i;
}
