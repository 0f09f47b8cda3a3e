/* parse.h - a template as a tree. Internal to the template interpreter. */
#ifndef SPAR_TEXT_JINJA_PARSE_H
#define SPAR_TEXT_JINJA_PARSE_H

#include "base/err.h"
#include "text/jinja/value.h"

enum node_kind {
	/* statements, chained by next */
	N_TEXT,   /* literal */
	N_OUTPUT, /* a */
	N_FOR,    /* names in a if b: body, or orelse */
	N_IF,     /* a: body, or orelse */
	N_SET,    /* names = a, or a block: body; name.attribute when `attribute` */
	N_MACRO,  /* name(names = args): body */
	N_BREAK,
	N_CONTINUE,
	/* expressions */
	N_LITERAL, /* literal */
	N_NAME,    /* name */
	N_LIST,    /* args */
	N_DICT,    /* args: key, value, key, value */
	N_COND,    /* a if b else c (NULL: undefined) */
	N_AND,
	N_OR,
	N_NOT,
	N_NEGATE,
	N_BINARY,    /* a op b */
	N_COMPARE,   /* a op b */
	N_ATTRIBUTE, /* a.name */
	N_ITEM,      /* a[b] */
	N_SLICE,     /* a[b:c:d], each but a may be NULL */
	N_CALL,      /* a(args, names) */
	N_FILTER,    /* a|name(args, names) */
	N_TEST,      /* a is name(args); op 1: is not */
};

enum op {
	OP_ADD,
	OP_SUB,
	OP_MUL,
	OP_DIV,
	OP_FLOOR,
	OP_MOD,
	OP_POW,
	OP_CONCAT,
	OP_EQ,
	OP_NE,
	OP_LT,
	OP_LE,
	OP_GT,
	OP_GE,
	OP_IN,
	OP_NOT_IN
};

struct node {
	enum node_kind kind;
	int op;
	size_t line;
	const char *name, *attribute;
	struct value *literal;
	struct node *a, *b, *c, *d;
	struct node *body, *orelse, *next;
	struct node **args; /* names[i] NULL: by place */
	const char **names;
	size_t n, cap;
	struct node *all; /* every node of the template, for freeing */
};

struct tree {
	struct node *first, *all;
	struct pool pool; /* literals and names */
};

/*! SPAR_INPUT with "template:LINE: what". `t` must start as {0}; tree_free also after a failure. */
int tree_parse(struct tree *t, const char *source, size_t n, struct spar_err *err);
void tree_free(struct tree *t);

#endif
