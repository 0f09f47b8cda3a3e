/* value.h - what a template computes with. Strings know which of their bytes came from outside. Values are never changed
 * (but for namespaces, and while they are being made) and belong to a pool that is freed whole. Internal to the template
 * interpreter. */
#ifndef SPAR_TEXT_JINJA_VALUE_H
#define SPAR_TEXT_JINJA_VALUE_H

#include "base/str.h"
#include "text/marked.h"
#include <jv.h>
#include <stdbool.h>
#include <stddef.h>

enum kind { UNDEFINED, NONE, BOOL, NUMBER, STRING, LIST, DICT, NAMESPACE, MACRO, METHOD, FUNCTION };

/* A view of a dictionary has a length, a generator is true, and can be looped over once; neither has places or JSON. */
enum lazy { EAGER, VIEW, GENERATOR };

struct value {
	enum kind kind;
	bool is_float;           /* NUMBER: a Python float, prints with a fraction */
	bool is_tuple;           /* LIST: a Python tuple */
	bool is_safe;            /* STRING: Markup, which escapes what is added to it */
	enum lazy lazy;          /* LIST: what Python would have in its place */
	double number;           /* BOOL, NUMBER */
	const char *text;        /* STRING: n bytes and a NUL; UNDEFINED, METHOD, FUNCTION: a name */
	size_t n, cap;           /* bytes; items */
	int depth;               /* LIST, DICT: how deep values are nested in it */
	struct spar_spans marks; /* STRING: bytes from outside */
	struct value **items;    /* LIST; DICT and NAMESPACE: values */
	struct value **keys;     /* DICT and NAMESPACE */
	const struct node *body; /* MACRO */
	struct scope *scope;     /* MACRO: where it was defined */
	struct value *of;        /* METHOD: whose it is */
	struct value *next;      /* of the pool */
};

#define VALUES_MAX_BYTES ((size_t)256 << 20)
#define VALUES_MAX_STEPS 1000000
#define VALUES_MAX_DEPTH 256
#define VALUES_MAX_TEXT ((size_t)64 << 20) /* bytes of one string, and of the output */

/* All values of one rendering, and what they took. */
struct pool {
	struct value *first;
	size_t bytes, steps; /* counted up; who sees one beyond its limit ends the rendering */
	const char *why;     /* what a filter or method that returned NULL did not like; NULL: nothing in particular */
};
void pool_free(struct pool *p);
bool pool_is_spent(const struct pool *p);

struct value *new_value(struct pool *p, enum kind kind);
struct value *new_named(struct pool *p, enum kind kind, const char *name); /* `name` is borrowed */
struct value *new_bool(struct pool *p, bool b);
struct value *new_number(struct pool *p, double d); /* a Python int */
struct value *new_float(struct pool *p, double d);
struct value *new_string(struct pool *p, const char *text, size_t n); /* copied, unmarked */
struct value *new_text(struct pool *p, const char *cstr);
struct value *new_list(struct pool *p, struct value *const *items, size_t n);
struct value *new_generator(struct pool *p); /* an empty LIST */

/*! From JSON (borrowed). `outside`: every string in it is marked as a whole. */
struct value *from_jv(struct pool *p, jv v, bool outside);

void list_add(struct pool *p, struct value *list, struct value *item);
void dict_set(struct pool *p, struct value *dict, struct value *key, struct value *item);
void dict_set_text(struct pool *p, struct value *dict, const char *key, struct value *item);
struct value *dict_get(struct pool *p, const struct value *dict, const struct value *key); /* NULL: not there */
struct value *dict_get_text(const struct value *dict, const char *key, size_t n);

bool is_true(const struct value *v);
bool is_number(const struct value *v); /* booleans are numbers */
bool is_text(const struct value *v, const char *cstr);
bool is_equal(struct pool *p, const struct value *a, const struct value *b);

/*! -1, 0, 1 of two numbers, strings or lists; else 2: they have no order. */
int compare(struct pool *p, const struct value *a, const struct value *b);

size_t length(const struct value *v); /* characters, items */

/* ---- strings ---- */

void add_slice(struct spar_marked *b, const struct value *string, size_t begin, size_t end); /* bytes, with marks */
struct value *built(struct pool *p, struct spar_marked *b); /* the string; b is released */
struct value *slice_string(struct pool *p, const struct value *s, size_t begin, size_t end); /* bytes */
bool is_marked(const struct value *string, size_t at);

/* ---- printing: print.c. Beyond VALUES_MAX_TEXT nothing more is added ---- */

void add_value(struct spar_marked *b, const struct value *v); /* as Python's str() */
struct value *to_string(struct pool *p, struct value *v);

struct json_style {
	const char *item_end, *key_end; /* NULL: Python's */
	const struct value *indent;     /* NULL: all on one line; a number of blanks or a string */
	bool ascii, sorted;
};
/*! As Python's json.dumps; false: something in it has no JSON. */
bool add_json(struct pool *p, struct spar_marked *b, const struct value *v, const struct json_style *style);

#endif
