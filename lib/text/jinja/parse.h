/* parse.h - a template as a tree. Internal to the template interpreter. */
#ifndef SPAR_TEXT_JINJA_PARSE_H
#define SPAR_TEXT_JINJA_PARSE_H

#include "base/err.h"
#include "text/jinja/call.h"
#include "text/jinja/lex.h"
#include "text/jinja/value.h"

enum node_kind {
	/* statements, chained by next */
	N_TEXT,   /* literal */
	N_OUTPUT, /* a */
	N_FOR,    /* target in a if b: body, or orelse */
	N_IF,     /* a: body, or orelse */
	N_SET,    /* target = a */
	N_WITH,   /* names = args: body */
	N_MACRO,  /* name(names = args): body; NULL name: the body of a call block, which is in `a` of N_CALL_BLOCK */
	N_CALL_BLOCK, /* a: the call, b: the N_MACRO that is its caller */
	N_BREAK,
	N_CONTINUE,
	/* what values are bound to */
	N_TARGET, /* name, or name.attribute, or args: targets that the value comes apart into */
	/* expressions */
	N_LITERAL, /* literal */
	N_NAME,    /* name */
	N_LIST,    /* args */
	N_TUPLE,   /* args */
	N_DICT,    /* args: key, value, key, value */
	N_BLOCK,   /* body, rendered to a string */
	N_COND,    /* a if b else c (NULL: undefined) */
	N_AND,
	N_OR,
	N_NOT,
	N_NEGATE,
	N_BINARY,    /* a op b */
	N_COMPARE,   /* a op b, and then (c: the comparison with b on its left) */
	N_ATTRIBUTE, /* a.name */
	N_ITEM,      /* a[b] */
	N_SLICE,     /* a[b:c:d], each but a may be NULL */
	N_CALL,      /* a(args, names) */
	N_FILTER,    /* a|name(args, names) */
	N_TEST,      /* a is name(args); op 1: is not */
};

enum op { OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_FLOOR, OP_MOD, OP_POW, OP_CONCAT };
/* of comparisons */
enum { OP_EQ, OP_NE, OP_LT, OP_LE, OP_GT, OP_GE, OP_IN, OP_NOT_IN };

struct node {
	enum node_kind kind;
	int op;
	size_t line;
	const char *name, *attribute;
	struct value *literal;
	filter_fn *filter; /* N_FILTER; NULL: there is none of that name */
	test_fn *test;
	struct node *target, *a, *b, *c, *d;
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

/* ---- between parse.c (statements) and expression.c ---- */

struct parser {
	struct tree *tree;
	struct spar_err *err;
	struct tokens tokens;
	size_t at;
	int depth, in_loop;
	int conditional; /* inside an if: a filter that does not exist fails only when it is reached */
};

#define PARSE_DEPTH_MAX 64

bool parser_failed(const struct parser *p);
void parser_fail(struct parser *p, size_t line, const char *what, const char *s, size_t n); /* s in quotes if n */
void unexpected(struct parser *p, const char *wanted);
struct node *new_node(struct parser *p, enum node_kind kind);
const struct token *peek(const struct parser *p);
bool is_token(const struct parser *p, enum token_kind kind, const char *text);
bool take_sign(struct parser *p, const char *sign);
bool take_word(struct parser *p, const char *word);
void need_sign(struct parser *p, const char *sign);
const char *take_name(struct parser *p);
void add_arg(struct node *n, const char *name, struct node *value);

struct node *expression(struct parser *p);
struct node *expression_or_tuple(struct parser *p);        /* "a, b" without parentheses is a tuple */
struct node *expression_without_if(struct parser *p);      /* where a filtering if may follow */
struct node *filters_of(struct parser *p, struct node *n); /* n|filter|filter is test */

#endif
