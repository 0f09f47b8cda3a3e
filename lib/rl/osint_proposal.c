/* osint_proposal.c - what a generator wrote, held beside its graph; see osint_score.h */
#include "env/action.h"
#include "env/osint/record.h"
#include "rl/osint_score.h"
#include <string.h>

enum { OWN_EDGES_MAX = 8 };

int spar_osint_completion(jv rollout, const char **text, size_t *n, struct spar_err *err)
{
	jv turns, turn = jv_invalid();
	int rc = spar_get_kind(rollout, "", "turns", JV_KIND_ARRAY, &turns, err);
	if (rc < 0)
		return rc;
	int n_turns = jv_array_length(jv_copy(turns));
	if (n_turns)
		turn = jv_array_get(turns, n_turns - 1);
	else
		jv_free(turns);
	if (jv_get_kind(turn) != JV_KIND_OBJECT)
		rc = spar_fail(err, SPAR_INPUT, ".turns: there is no turn");
	else
		rc = spar_get_str(turn, "turns[-1]", "completion", text, n, err);
	jv_free(turn);
	return rc;
}

static int context_graph(struct spar_osint_graph *own, jv rollout, struct spar_err *err)
{
	jv task, context;
	int rc = spar_get_kind(rollout, "", "task", JV_KIND_OBJECT, &task, err);
	if (rc < 0)
		return rc;
	rc = spar_get_kind(task, "task", "context", JV_KIND_ARRAY, &context, err);
	jv_free(task);
	if (rc < 0)
		return rc;
	jv object = jv_object_set(jv_object(), jv_string("edges"), context);
	rc = spar_osint_graph_read(own, object, err);
	jv_free(object);
	return rc < 0 ? spar_fail_at(err, ".task.context") : rc;
}

/* The edges that are new and whose names the graph knows. */
static int read_own_edges(const struct spar_osint_graph *g, jv object, struct spar_osint_edge *out)
{
	jv graph = jv_object_get(jv_copy(object), jv_string("canonical_graph")), rows = jv_invalid();
	int n = 0;
	if (jv_get_kind(graph) == JV_KIND_OBJECT)
		rows = jv_object_get(jv_copy(graph), jv_string("edges"));
	int n_rows = jv_get_kind(rows) == JV_KIND_ARRAY ? jv_array_length(jv_copy(rows)) : 0;
	for (int i = 0; i < n_rows && n < OWN_EDGES_MAX; i++) {
		jv row = jv_array_get(jv_copy(rows), i);
		struct spar_osint_edge e;
		if (spar_osint_edge_read(g, row, &e) && e.src >= 0 && e.rel >= 0 && e.dst >= 0 &&
		    spar_osint_edge_find(g, e) < 0)
			out[n++] = e;
		jv_free(row);
	}
	jv_free(rows);
	jv_free(graph);
	return n;
}

/* A copy in which every name has the same number. */
static void extend(struct spar_osint_graph *own, const struct spar_osint_graph *g, const struct spar_osint_edge *edges,
		   int n)
{
	for (int32_t i = 0; i < g->nodes.n; i++) {
		const char *name = spar_osint_node_name(g, i);
		spar_osint_graph_name(own, name, strlen(name));
		own->kinds[i] = g->kinds[i];
	}
	for (int32_t i = 0; i < g->relations.n; i++) {
		const char *name = spar_osint_relation_name(g, i);
		spar_osint_graph_relation(own, name, strlen(name));
	}
	for (int32_t i = 0; i < g->n_edges; i++)
		spar_osint_graph_add(own, g->edges[i], g->confidence[i]);
	for (int i = 0; i < n; i++)
		spar_osint_graph_add(own, edges[i], 1);
	spar_osint_graph_index(own);
}

int spar_osint_propose(struct spar_osint_proposal *p, const struct spar_osint_graph *g, jv rollout, bool fixed,
		       const struct spar_osint_limits *limits, struct spar_err *err)
{
	const char *text;
	size_t n;
	struct spar_osint_edge edges[OWN_EDGES_MAX];
	*p = (struct spar_osint_proposal){.graph = g};
	spar_osint_graph_init(&p->own);
	spar_osint_claim_read(&p->claim, g, jv_invalid());
	int rc = spar_osint_completion(rollout, &text, &n, err);
	if (rc == 0 && fixed) {
		p->graph = &p->own;
		rc = context_graph(&p->own, rollout, err);
	}
	if (rc < 0)
		return rc;
	jv object = spar_action_find(text, n);
	int n_own = fixed || !jv_is_valid(object) ? 0 : read_own_edges(g, object, edges);
	if (n_own) {
		extend(&p->own, g, edges, n_own);
		p->graph = &p->own;
	}
	spar_osint_claim_release(&p->claim);
	spar_osint_claim_read(&p->claim, p->graph, object);
	spar_osint_check(p->graph, limits, &p->claim, &p->verdict);
	return 0;
}

void spar_osint_proposal_release(struct spar_osint_proposal *p)
{
	spar_osint_claim_release(&p->claim);
	spar_osint_graph_release(&p->own);
}
