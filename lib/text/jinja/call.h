/* call.h - the filters, tests and methods that templates call. Internal to the template interpreter. */
#ifndef SPAR_TEXT_JINJA_CALL_H
#define SPAR_TEXT_JINJA_CALL_H

#include "base/err.h"
#include "text/jinja/value.h"

enum { ARGS_MAX = 8 };
struct args {
	struct value *by_place[ARGS_MAX];
	size_t n;
	struct value *names; /* DICT of those given by name */
};
/* The argument at a place or under a name; NULL: not given. */
struct value *arg(const struct args *a, size_t place, const char *name);

/* Each returns NULL when it does not know the name, or not for such a value; the caller reports it. */
struct value *call_filter(struct pool *p, const char *name, struct value *v, const struct args *a);
struct value *call_method(struct pool *p, const char *name, struct value *v, const struct args *a);
int call_test(const char *name, const struct value *v, const struct args *a); /* -1: not known */

#endif
