/* value.h - what a template computes with. Strings know which of their bytes came from outside. Values are never changed
 * (but for namespaces) and belong to a pool that is freed whole. Internal to the template interpreter. */
#ifndef SPAR_TEXT_JINJA_VALUE_H
#define SPAR_TEXT_JINJA_VALUE_H

#include "base/str.h"
#include "text/tokenizer.h"
#include <jv.h>
#include <stdbool.h>
#include <stddef.h>

enum kind { UNDEFINED, NONE, BOOL, NUMBER, STRING, LIST, DICT, NAMESPACE, MACRO };

struct value {
	enum kind kind;
	bool is_float;           /* NUMBER: prints with a fraction */
	double number;           /* BOOL, NUMBER */
	const char *text;        /* STRING: n bytes and a NUL */
	size_t n, cap;           /* bytes; items */
	struct spar_spans marks; /* STRING: bytes from outside */
	struct value **items;    /* LIST; DICT and NAMESPACE: values */
	struct value **keys;     /* DICT and NAMESPACE: strings */
	const struct node *body; /* MACRO */
	struct value *next;      /* of the pool */
};

struct pool {
	struct value *first;
	size_t bytes; /* taken so far */
};
void pool_free(struct pool *p);

struct value *new_value(struct pool *p, enum kind kind);
struct value *new_bool(struct pool *p, bool b);
struct value *new_number(struct pool *p, double d);
struct value *new_string(struct pool *p, const char *text, size_t n); /* copied, unmarked */

/*! From JSON (borrowed). `outside`: every string in it is marked as a whole. */
struct value *from_jv(struct pool *p, jv v, bool outside);

void list_add(struct pool *p, struct value *list, struct value *item);
void dict_set(struct pool *p, struct value *dict, struct value *key, struct value *item);
struct value *dict_get(const struct value *dict, const char *key, size_t n); /* NULL: not there */

bool is_true(const struct value *v);
bool is_equal(const struct value *a, const struct value *b);
bool is_text(const struct value *v, const char *cstr);
int compare(const struct value *a,
	    const struct value *b); /* of two numbers or two strings; else 2: they have no order */

/* A string in the making: bytes with their marks. */
struct builder {
	struct spar_str text;
	struct spar_spans marks;
};
#define BUILDER_INIT \
	{ \
		SPAR_STR_INIT, \
		{ \
			0 \
		} \
	}
void add_bytes(struct builder *b, const char *bytes, size_t n, bool marked);
void add_slice(struct builder *b, const struct value *string, size_t begin, size_t end);
void add_value(struct builder *b, const struct value *v);                       /* as it prints */
void add_json(struct builder *b, const struct value *v, int indent, int level); /* indent -1: on one line */
struct value *built(struct pool *p, struct builder *b);                         /* the string; b is released */

struct value *slice_string(struct pool *p, const struct value *s, size_t begin, size_t end);
bool is_marked(const struct value *string, size_t at);

#endif
