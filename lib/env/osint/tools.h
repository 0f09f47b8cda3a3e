/* tools.h - what an agent can ask: the platforms, its own memory, and the context that all agents share. */
#ifndef SPAR_ENV_OSINT_TOOLS_H
#define SPAR_ENV_OSINT_TOOLS_H

#include "env/osint/views.h"
#include <jv.h>

/* One earlier call of the episode, as search_memory finds it. */
struct spar_osint_call {
	const char *tool;             /* as tool_name gives it */
	struct spar_str args, output; /* JSON */
};

/* What the tools look into; all borrowed. */
struct spar_osint_desk {
	const struct spar_osint_views *views;
	const struct spar_osint_call *calls; /* (n_calls) */
	size_t n_calls;
	const int32_t *context; /* (n_context) edge indices */
	int n_context;
};

/*! Index of a tool, or -1. Names beyond this list reach nothing. */
int spar_osint_tool(const char *name, size_t n);
const char *spar_osint_tool_name(int tool);

/*! Call it: its output as a JSON object is appended. `args` is borrowed, an object or invalid (none). False when they are
 *  wrong: `why` says so in fixed words, and `out` is as it was. */
bool spar_osint_tool_call(int tool, const struct spar_osint_desk *d, jv args, struct spar_str *out, char why[64]);

/*! Append a line for each tool: its name and what it takes. */
void spar_osint_tool_list(struct spar_str *out);
/*! Append the names as a JSON array. */
void spar_osint_tool_names(struct spar_str *out);

#endif
