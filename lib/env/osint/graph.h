/* graph.h - a knowledge graph: named nodes of a kind, named relations, edges without duplicates. Everything is an index
 * into it; a name that is not in the graph is -1, so that what a model invents can be held beside what is there.
 *
 *	struct spar_osint_graph g;
 *	spar_osint_graph_init(&g);
 *	spar_osint_graph_add(&g, spar_osint_graph_name(&g, "alias_12", 8), ...);        // or osint.h, metaqa.h
 *	spar_osint_graph_index(&g);                                     // after the last edge, before anything is asked
 *	spar_osint_graph_release(&g);
 * Memory and time are linear in nodes and edges. An indexed graph is only read, by any number of threads. */
#ifndef SPAR_ENV_OSINT_GRAPH_H
#define SPAR_ENV_OSINT_GRAPH_H

#include "base/err.h"
#include "base/str.h"
#include <jv.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum spar_osint_kind {
	SPAR_OSINT_USER,
	SPAR_OSINT_ALIAS,
	SPAR_OSINT_ORG,
	SPAR_OSINT_LOCATION,
	SPAR_OSINT_POST,
	SPAR_OSINT_THREAD,
	SPAR_OSINT_EVENT,
	SPAR_OSINT_KINDS,
};

enum { SPAR_OSINT_HOPS_MAX = 8 }; /* edges of a path that can be held; tasks of ours have 1 to 4 */

struct spar_osint_edge {
	int32_t src, rel, dst; /* the key of an edge; -1: not in the graph */
};

/* Names, each with its number. */
struct spar_osint_names {
	struct spar_str text; /* NUL-terminated, one after the other */
	uint32_t *at;         /* (n) where each begins in `text` */
	int32_t n, cap;
	int32_t *slots; /* (n_slots) hash table of numbers; -1: empty */
	uint32_t n_slots;
};

struct spar_osint_graph {
	struct spar_osint_names nodes, relations;
	uint8_t *kinds; /* (nodes.n) enum spar_osint_kind; follows the prefix of the name unless it was set */
	int32_t kinds_cap;
	struct spar_osint_edge *edges; /* (n_edges) in the order of adding */
	float *confidence;             /* (n_edges) kept for JSON; nothing is decided by it */
	int32_t n_edges, edges_cap;
	int32_t *slots; /* (n_slots) hash table of edges; -1: empty */
	uint32_t n_slots;
	/* made by spar_osint_graph_index */
	int32_t *out_at,
	    *out; /* (nodes.n + 1), (n_edges): edges leaving node i are out[out_at[i]..out_at[i + 1]), by relation */
	int32_t *in_at, *in; /* the same for edges that enter it */
};

void spar_osint_graph_init(struct spar_osint_graph *g);
void spar_osint_graph_release(struct spar_osint_graph *g);

/*! The node, or relation, of that name, added if it is not there. At most 2^24 names and 256 bytes each: -1 beyond. */
int32_t spar_osint_graph_name(struct spar_osint_graph *g, const char *name, size_t n);
int32_t spar_osint_graph_relation(struct spar_osint_graph *g, const char *name, size_t n);

/*! Add an edge between names that are there. False if it was in the graph already, or one of them is -1. */
bool spar_osint_graph_add(struct spar_osint_graph *g, struct spar_osint_edge e, float confidence);
void spar_osint_graph_index(struct spar_osint_graph *g);

/* ---- looking up ---- */

int32_t spar_osint_node(const struct spar_osint_graph *g, const char *name, size_t n);     /* or -1 */
int32_t spar_osint_relation(const struct spar_osint_graph *g, const char *name, size_t n); /* or -1 */
int32_t spar_osint_edge_find(const struct spar_osint_graph *g, struct spar_osint_edge e);  /* its index, or -1 */
const char *spar_osint_node_name(const struct spar_osint_graph *g, int32_t node);          /* borrowed; "" for -1 */
const char *spar_osint_relation_name(const struct spar_osint_graph *g, int32_t relation);
const char *spar_osint_kind_name(enum spar_osint_kind kind);

/*! The edges (src, rel, *): *n indices, borrowed. */
const int32_t *spar_osint_out(const struct spar_osint_graph *g, int32_t src, int32_t rel, int32_t *n);
/*! The edges (*, rel, dst). */
const int32_t *spar_osint_in(const struct spar_osint_graph *g, int32_t dst, int32_t rel, int32_t *n);

/* ---- what a question asks: a start, and the relations to follow from it ---- */

struct spar_osint_signature {
	int32_t start;
	int32_t relations[SPAR_OSINT_HOPS_MAX];
	int hops;     /* 1 to SPAR_OSINT_HOPS_MAX; 0: none */
	bool inverse; /* one hop, against the arrow: which node has an edge to `start`? */
};

struct spar_osint_ends {
	int32_t n_ends;                    /* distinct nodes that the walk can end at; counted up to 2 */
	int32_t end;                       /* the first of them, -1: none */
	int32_t n_paths;                   /* walks that lead there, counted up to 2 */
	int32_t path[SPAR_OSINT_HOPS_MAX]; /* edge indices of the first walk: what supports the answer */
};
/*! Answer a question by the graph. There is exactly one answer if n_ends == 1, exactly one derivation of it if also
 *  n_paths == 1. Names of -1 lead nowhere. At most 4096 walks are looked at: beyond, n_ends and n_paths are 2. */
void spar_osint_solve(const struct spar_osint_graph *g, const struct spar_osint_signature *q,
		      struct spar_osint_ends *out);

/*! The signature of a chain of edges: false (and hops 0) if they are not contiguous, none, or too many. */
bool spar_osint_signature_of(const struct spar_osint_edge *edges, size_t n, struct spar_osint_signature *q);

/* ---- JSON ---- */

/*! Append {"nodes":[{"id","kind"}...],"edges":[{"src","rel","dst","confidence"}...]}. */
void spar_osint_graph_json(const struct spar_osint_graph *g, struct spar_str *out);

/*! Read that shape (borrowed); "nodes" may be missing, an edge may also be an array [src, rel, dst], unknown members
 *  are ignored. `g` is initialised and indexed. SPAR_INPUT names the field. */
int spar_osint_graph_read(struct spar_osint_graph *g, jv object, struct spar_err *err);

/*! Only add the edges of an array (borrowed) of either shape; spar_osint_graph_index is due then. `path` is for messages. */
int spar_osint_graph_read_edges(struct spar_osint_graph *g, jv list, const char *path, struct spar_err *err);

/*! Append an edge as {"src","rel","dst"}, or as the array that prompts and replies use: ["src","rel","dst"]. */
void spar_osint_edge_object(const struct spar_osint_graph *g, struct spar_osint_edge e, struct spar_str *out);
void spar_osint_edge_array(const struct spar_osint_graph *g, struct spar_osint_edge e, struct spar_str *out);

/*! Read an edge of either shape (borrowed): false if it is none. Names that the graph does not know become -1. */
bool spar_osint_edge_read(const struct spar_osint_graph *g, jv value, struct spar_osint_edge *e);

#endif
