/* osint_novelty.c - see osint_novelty.h */
#include "rl/osint_novelty.h"
#include "base/philox.h"
#include "record/record.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t hash(const char *text, size_t n)
{
	struct spar_rng mixed;
	spar_rng_init(&mixed, 0, text, n);
	return (uint64_t)mixed.key[0] << 32 | mixed.key[1];
}

uint64_t spar_osint_graph_hash(jv task)
{
	jv text = jv_dump_string(jv_object_get(jv_copy(task), jv_string("graph")), JV_PRINT_SORTED);
	uint64_t h = hash(jv_string_value(text), strlen(jv_string_value(text)));
	jv_free(text);
	return h;
}

struct spar_osint_ask spar_osint_ask_of(const struct spar_osint_graph *g, const struct spar_osint_signature *q,
					uint64_t graph)
{
	const char *start = spar_osint_node_name(g, q->start);
	struct spar_osint_ask a = {.graph = graph, .start = hash(start, strlen(start)), .hops = q->hops};
	for (int i = 0; i < q->hops; i++) {
		const char *name = spar_osint_relation_name(g, q->relations[i]);
		a.relations[i] = hash(name, strlen(name));
	}
	return a;
}

double spar_osint_likeness(const struct spar_osint_ask *a, const struct spar_osint_ask *b)
{
	int least = a->hops < b->hops ? a->hops : b->hops, most = a->hops + b->hops - least, same = 0;
	if (a->graph != b->graph)
		return 0;
	for (int i = 0; i < least; i++)
		same += a->relations[i] == b->relations[i];
	return 0.55 * (a->start == b->start) + 0.35 * same / (most ? most : 1) + 0.10 * (a->hops == b->hops);
}

/* ---- the frozen tasks ---- */

static int add_frozen(struct spar_osint_frozen *f, struct spar_osint_graph_cache *graphs, jv task, struct spar_err *err)
{
	const struct spar_osint_graph *g;
	int32_t path[SPAR_OSINT_HOPS_MAX];
	struct spar_osint_edge edges[SPAR_OSINT_HOPS_MAX];
	struct spar_osint_signature q;
	int n, rc = spar_osint_graph_of(graphs, task, &g, err);
	if (rc < 0)
		return rc;
	if ((n = spar_osint_edges_of(g, task, "supporting_edges", SPAR_OSINT_HOPS_MAX, path, err)) < 0)
		return n;
	for (int i = 0; i < n; i++)
		edges[i] = g->edges[path[i]];
	if (!spar_osint_signature_of(edges, (size_t)n, &q))
		return 0; /* it asks against an arrow, or by free text: a generator cannot */
	f->asks = spar_realloc(f->asks, (f->n + 1) * sizeof *f->asks);
	f->asks[f->n++] = spar_osint_ask_of(g, &q, spar_osint_graph_hash(task));
	return 0;
}

int spar_osint_frozen_read(struct spar_osint_frozen *f, const char *path, struct spar_osint_graph_cache *graphs,
			   struct spar_err *err)
{
	struct spar_reader *in;
	struct spar_record rec;
	const char *line;
	size_t n;
	int rc = spar_reader_open(&in, path, err);
	if (rc < 0)
		return rc;
	spar_record_init(&rec);
	while (rc == 0 && (rc = spar_reader_next(in, &line, &n, err)) > 0) {
		rc = spar_record_parse(&rec, line, n, err);
		if (rc == 0)
			rc = add_frozen(f, graphs, rec.value, err);
		if (rc < 0)
			spar_fail_at(err, "%s:%zu", path, spar_reader_line(in));
	}
	spar_record_release(&rec);
	spar_reader_close(in);
	return rc;
}

double spar_osint_frozen_likeness(const struct spar_osint_frozen *f, const struct spar_osint_ask *ask)
{
	double most = 0;
	for (size_t i = 0; i < f->n; i++)
		most = fmax(most, spar_osint_likeness(ask, &f->asks[i]));
	return most;
}
