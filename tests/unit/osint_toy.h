/* osint_toy.h - the toy graph of the study's appendix A; its first three edges are the path that the figures are about. */
#ifndef SPAR_OSINT_TOY_H
#define SPAR_OSINT_TOY_H

#include "env/osint/reference.h"
#include <string.h>

static const struct spar_osint_triple toy[] = {
    {"alias_0_111", "alias_of", "user_0"}, {"user_0", "connected_to", "user_1"}, {"user_1", "works_at", "org_a"},
    {"user_0", "works_at", "org_b"},       {"user_1", "located_in", "loc_x"},    {"user_2", "works_at", "org_a"},
    {"user_2", "located_in", "loc_x"}};

/* Make g the toy graph; path: its first three edges, by number (NULL: not wanted). */
static void build_toy(struct spar_osint_graph *g, struct spar_osint_edge *path)
{
	spar_osint_graph_init(g);
	for (size_t i = 0; i < sizeof toy / sizeof *toy; i++) {
		struct spar_osint_edge e = {spar_osint_graph_name(g, toy[i].src, strlen(toy[i].src)),
					    spar_osint_graph_relation(g, toy[i].rel, strlen(toy[i].rel)),
					    spar_osint_graph_name(g, toy[i].dst, strlen(toy[i].dst))};
		spar_osint_graph_add(g, e, 1);
		if (path && i < 3)
			path[i] = e;
	}
	spar_osint_graph_index(g);
}

#endif
