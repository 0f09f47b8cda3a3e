/* call.h - what templates call: filters, tests, methods; and how attributes and items are looked up. All are found by name
 * in tables. Internal to the template interpreter. */
#ifndef SPAR_TEXT_JINJA_CALL_H
#define SPAR_TEXT_JINJA_CALL_H

#include "text/jinja/value.h"

enum { ARGS_MAX = 16 };
struct args {
	struct value *by_place[ARGS_MAX];
	size_t n;
	struct value *names; /* DICT of those given by name; NULL: none */
};
/* The argument at a place or under a name; NULL: not given. */
struct value *arg(const struct args *a, size_t place, const char *name);
double arg_number(const struct args *a, size_t place, const char *name, double absent);
bool arg_flag(const struct args *a, size_t place, const char *name, bool absent);

/* A filter returns NULL when it is not for such a value or arguments; pool->why may say more. */
typedef struct value *filter_fn(struct pool *p, struct value *v, const struct args *a);
filter_fn *find_filter(const char *name); /* NULL: there is none */

/* A test: 1, 0, or -1 when it is not for such a value. */
typedef int test_fn(struct pool *p, const struct value *v, const struct args *a);
test_fn *find_test(const char *name);

/* of.name and of[key] as Jinja looks them up: methods before keys, or keys before methods. UNDEFINED: there is none, or the
 * sandbox forbids it. */
struct value *attribute_of(struct pool *p, struct value *of, const char *name, size_t n);
struct value *item_of(struct pool *p, struct value *of, const struct value *key);

/* Call a METHOD; as for filters. */
struct value *call_method(struct pool *p, const struct value *method, const struct args *a);

/* What a loop over v sees, as a LIST: a list's items, an object's keys, a string's characters. NULL: nothing to loop over. */
struct value *items_of(struct pool *p, struct value *v);
struct value *pairs_of(struct pool *p, const struct value *dict); /* (key, value) tuples */

/* ---- strings: methods.c ---- */
struct value *string_method(struct pool *p, const char *name, struct value *s, const struct args *a);
bool is_string_method(const char *name, size_t n);

/* ---- strings: strings.c, format.c ---- */
bool is_blank(int32_t c); /* as str.isspace has it */
struct value *strip(struct pool *p, const struct value *s, const struct value *set, bool left, bool right);
enum letters { UPPER, LOWER, CAPITALIZE, TITLE };
struct value *change_case(struct pool *p, const struct value *s, enum letters to);
struct value *join(struct pool *p, const struct value *list, const struct value *sep);
struct value *repeat(struct pool *p, const struct value *s, double times);
struct value *replace(struct pool *p, const struct value *s, const struct value *old, const struct value *by,
		      double max);
struct value *format_braces(struct pool *p, const struct value *format, const struct args *a);
struct value *format_percent(struct pool *p, const struct value *format, const struct value *by);
size_t find_text(const struct value *s, const struct value *part, size_t from); /* SIZE_MAX: nowhere */
size_t byte_place(const struct value *s, size_t at);                            /* of character number `at` */
double bound_of(double i, double len, double low, double high);                 /* a slice's bound as Python reads it */

#endif
