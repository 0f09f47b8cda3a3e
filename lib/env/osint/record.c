/* record.c - tasks as records, see record.h */
#include "env/osint/record.h"
#include "record/record.h"
#include <string.h>

static void add_text(struct spar_str *out, const char *key, const char *text)
{
	spar_str_addf(out, ",\"%s\":", key);
	spar_str_add_json(out, text, strlen(text));
}

static void add_edges(struct spar_str *out, const char *key, const struct spar_osint_graph *g, const int32_t *edges,
		      int n)
{
	spar_str_addf(out, ",\"%s\":[", key);
	for (int i = 0; i < n; i++) {
		spar_str_adds(out, i ? "," : "");
		spar_osint_edge_array(g, g->edges[edges[i]], out);
	}
	spar_str_addc(out, ']');
}

void spar_osint_record_write(const struct spar_osint_record *r, struct spar_str *out)
{
	const struct spar_osint_task *t = r->task;
	struct spar_osint_prompt prompt = {.role = r->role,
					   .graph = r->graph,
					   .context = t->context,
					   .n_context = t->n_context,
					   .question = t->question.data,
					   .hops = t->hops,
					   .avoid = r->avoid,
					   .n_avoid = r->n_avoid,
					   .own_graph = r->own_graph};
	spar_str_adds(out, "{\"type\":\"task\"");
	add_text(out, "id", r->id);
	add_text(out, "role", spar_osint_roles[r->role]);
	spar_str_adds(out, ",\"messages\":");
	spar_osint_prompt(&prompt, out);
	spar_str_addf(out, ",\"graph\":%s", r->graph_json);
	add_text(out, "difficulty", spar_osint_difficulties[t->difficulty]);
	add_text(out, "family", t->family);
	spar_str_addf(out, ",\"hops\":%d", t->hops);
	add_edges(out, "context", r->graph, t->context, t->n_context);
	add_text(out, "question", t->question.data);
	add_text(out, "answer", spar_osint_node_name(r->graph, t->answer));
	add_edges(out, "supporting_edges", r->graph, t->support, t->n_support);
	add_text(out, "source", r->source);
	spar_str_addc(out, '}');
}

void spar_osint_graph_cache_release(struct spar_osint_graph_cache *c)
{
	if (c->full) {
		spar_osint_graph_release(&c->graph);
		jv_free(c->key);
	}
	c->full = false;
}

int spar_osint_graph_of(struct spar_osint_graph_cache *c, jv task, const struct spar_osint_graph **out,
			struct spar_err *err)
{
	jv named;
	int rc = spar_get_kind(task, "task", "graph", JV_KIND_OBJECT, &named, err);
	*out = &c->graph;
	if (rc == 0 && c->full && jv_equal(jv_copy(named), jv_copy(c->key))) {
		jv_free(named);
		return 0;
	}
	spar_osint_graph_cache_release(c);
	if (rc < 0)
		return rc;
	spar_osint_graph_init(&c->graph);
	c->key = named;
	c->full = true;
	if ((rc = spar_osint_graph_from(&c->graph, named, err)) < 0) {
		spar_osint_graph_cache_release(c);
		return spar_fail_at(err, "task.graph");
	}
	return rc;
}

int spar_osint_edges_of(const struct spar_osint_graph *g, jv task, const char *key, int most, int32_t *out,
			struct spar_err *err)
{
	jv list;
	int rc = spar_get_kind(task, "task", key, JV_KIND_ARRAY, &list, err);
	if (rc < 0)
		return rc;
	int n = jv_array_length(jv_copy(list));
	if (n > most)
		rc = spar_fail(err, SPAR_INPUT, ".task.%s: more than %d edges", key, most);
	for (int i = 0; rc == 0 && i < n; i++) {
		struct spar_osint_edge e;
		jv row = jv_array_get(jv_copy(list), i);
		if (!spar_osint_edge_read(g, row, &e) || (out[i] = spar_osint_edge_find(g, e)) < 0)
			rc = spar_fail(err, SPAR_INPUT, ".task.%s[%d]: not an edge of the graph", key, i);
		jv_free(row);
	}
	jv_free(list);
	return rc < 0 ? rc : n;
}
