/* filters.h - the filters, a table in each file. Internal to the template interpreter. */
#ifndef SPAR_TEXT_JINJA_FILTERS_H
#define SPAR_TEXT_JINJA_FILTERS_H

#include "text/jinja/call.h"

struct named_filter {
	const char *name;
	filter_fn *call;
};
#define NAMED(name) \
	{ \
#name, f_##name \
	}

extern const struct named_filter item_filters[], text_filters[], other_filters[]; /* each ends with a NULL name */

#endif
