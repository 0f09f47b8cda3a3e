/* run.h - a template being rendered. Internal to the template interpreter. */
#ifndef SPAR_TEXT_JINJA_RUN_H
#define SPAR_TEXT_JINJA_RUN_H

#include "base/err.h"
#include "text/jinja/parse.h"

/* Variables; an inner scope's hide an outer one's. */
struct scope {
	struct value *names; /* DICT */
	struct scope *outer;
	struct scope *all; /* every scope, for freeing: macros keep theirs */
};

enum leave { STAY, LEAVE_ROUND, LEAVE_LOOP };

struct run {
	struct pool pool;
	struct spar_err *err;
	struct scope *scope, *scopes;
	struct spar_marked *out;
	enum leave leave; /* continue, break: on the way out of a loop's body */
	int depth;
};

#define RUN_DEPTH_MAX 512 /* calls, blocks and expressions in one another */

bool run_failed(const struct run *r);
/*! Fail with "template:LINE: name what", unless something has failed already; an UNDEFINED to go on with. */
struct value *run_fail(struct run *r, const struct node *n, const char *what, const char *name);

void scope_enter(struct run *r, struct scope *outer);
void scope_set(struct run *r, const char *name, struct value *v);

struct value *eval(struct run *r, const struct node *n);       /* an expression */
struct args eval_args(struct run *r, const struct node *call); /* its args and names */
void walk(struct run *r, const struct node *first);            /* statements */

/*! Render statements in a scope of their own to a string. */
struct value *render_block(struct run *r, const struct node *body, struct scope *outer);

/*! Call a macro, or one of the functions every template has (functions.c). */
struct value *call_value(struct run *r, const struct node *n, struct value *f, const struct args *a);
struct value *find_function(struct run *r, const char *name); /* NULL: there is none */

#endif
