/* policy.c - the built-in policies of env-osint: each is a function of the present state. See episode.h. */
#include "env/osint/episode.h"
#include "record/record.h"
#include <string.h>

enum { FRONT_MAX = 16 }; /* nodes that a walk may stand on at once */

static void write_search(const struct spar_osint_episode *e, int32_t node, struct spar_str *out)
{
	const char *name = spar_osint_node_name(e->graph, node);
	spar_str_adds(out, "{\"tool\":\"search_shared_context\",\"args\":{\"query\":");
	spar_str_add_json(out, name, strlen(name));
	spar_str_adds(out, ",\"k\":20}}");
}

/* Whether the shared context was searched for that node. */
static bool searched(const struct spar_osint_episode *e, int32_t node)
{
	struct spar_str quoted = SPAR_STR_INIT;
	const char *name = spar_osint_node_name(e->graph, node);
	bool found = false;
	spar_str_add_json(&quoted, name, strlen(name));
	for (size_t i = 0; i < e->n_calls && !found; i++)
		found = !strcmp(e->calls[i].tool, "search_shared_context") &&
			strstr(e->calls[i].args.data, quoted.data) != NULL;
	spar_str_release(&quoted);
	return found;
}

static void write_claim(const struct spar_osint_episode *e, const int32_t *support, int n, int32_t answer,
			struct spar_str *out)
{
	struct spar_osint_task t = {.question = SPAR_STR_INIT, .answer = answer, .n_support = n};
	memcpy(t.support, support, (size_t)n * sizeof *support);
	if (e->how.role == SPAR_OSINT_GENERATOR) {
		struct spar_osint_edge path[SPAR_OSINT_SUPPORT_MAX];
		for (int i = 0; i < n; i++)
			path[i] = e->graph->edges[support[i]];
		spar_osint_signature_of(path, (size_t)n, &t.signature);
		spar_osint_question(e->graph, &t.signature, &t.question);
	}
	spar_osint_ideal(e->how.role, e->graph, &t, out);
	spar_osint_task_release(&t);
}

void spar_osint_oracle(const struct spar_osint_episode *e, struct spar_str *out)
{
	const struct spar_osint_task *t = &e->task;
	bool looks = e->how.role == SPAR_OSINT_ANSWERER && e->how.hidden;
	for (int i = 0; looks && i < t->n_support && e->step + 1 < e->max_steps; i++) {
		const struct spar_osint_edge *edge = &e->graph->edges[t->support[i]];
		int32_t from = t->signature.inverse ? edge->dst : edge->src;
		if (!searched(e, from)) {
			write_search(e, from, out);
			return;
		}
	}
	spar_osint_ideal(e->how.role, e->graph, t, out);
}

/* ---- the solver ---- */

/* A walk under way: where it can stand after some hops, and by which edges it came there. */
struct front {
	int n;
	int32_t node[FRONT_MAX], path[FRONT_MAX][SPAR_OSINT_HOPS_MAX];
};

/* Go one hop on along `rel` by the edges of the context: those that can be seen. */
static void advance(const struct spar_osint_episode *e, const struct front *from, int hop, int32_t rel, bool inverse,
		    struct front *to)
{
	to->n = 0;
	for (int i = 0; i < from->n; i++) {
		for (int k = 0; k < e->task.n_context && to->n < FRONT_MAX; k++) {
			const struct spar_osint_edge *edge = &e->graph->edges[e->task.context[k]];
			if (edge->rel != rel || (inverse ? edge->dst : edge->src) != from->node[i])
				continue;
			memcpy(to->path[to->n], from->path[i], sizeof to->path[0]);
			to->path[to->n][hop] = e->task.context[k];
			to->node[to->n++] = inverse ? edge->src : edge->dst;
		}
	}
}

static void solve(const struct spar_osint_episode *e, struct spar_str *out)
{
	struct spar_osint_signature q;
	struct front a = {.n = 1}, b;
	spar_osint_question_read(e->graph, e->task.question.data, e->task.question.len, &q);
	a.node[0] = q.start;
	for (int hop = 0; hop < q.hops; hop++) {
		for (int i = 0; e->how.hidden && i < a.n && e->step + 1 < e->max_steps; i++) {
			if (!searched(e, a.node[i])) {
				write_search(e, a.node[i], out);
				return;
			}
		}
		advance(e, &a, hop, q.relations[hop], q.inverse, &b);
		a = b;
	}
	if (a.n)
		write_claim(e, a.path[0], q.hops, a.node[0], out);
	else
		spar_str_adds(out, "{\"supporting_edges\":[],\"answer\":\"unknown\"}");
}

/* Whether only one edge of the context leaves its source by its relation. */
static bool alone(const struct spar_osint_episode *e, int32_t edge)
{
	const struct spar_osint_edge *a = &e->graph->edges[edge];
	int n = 0;
	for (int i = 0; i < e->task.n_context; i++) {
		const struct spar_osint_edge *b = &e->graph->edges[e->task.context[i]];
		n += a->src == b->src && a->rel == b->rel;
	}
	return n == 1;
}

/* The longest path without side branches and repeated nodes from path[n - 1] on, up to `hops`: its length. */
static int extend(const struct spar_osint_episode *e, int32_t *path, int n, int hops)
{
	int best = n;
	int32_t tail[SPAR_OSINT_HOPS_MAX];
	memcpy(tail, path, sizeof tail);
	for (int i = 0; i < e->task.n_context && best < hops; i++) {
		const struct spar_osint_edge *next = &e->graph->edges[e->task.context[i]];
		bool fresh = next->src == e->graph->edges[path[n - 1]].dst && alone(e, e->task.context[i]);
		for (int k = 0; k < n; k++)
			fresh &= next->dst != e->graph->edges[path[k]].src;
		if (!fresh)
			continue;
		path[n] = e->task.context[i];
		int length = extend(e, path, n + 1, hops);
		if (length > best) {
			best = length;
			memcpy(tail, path, sizeof tail);
		}
	}
	memcpy(path, tail, sizeof tail);
	return best;
}

static void propose(const struct spar_osint_episode *e, struct spar_str *out)
{
	int32_t best[SPAR_OSINT_HOPS_MAX] = {0};
	int longest = 0;
	for (int i = 0; i < e->task.n_context && longest < e->task.hops; i++) {
		int32_t path[SPAR_OSINT_HOPS_MAX] = {e->task.context[i]};
		int n = alone(e, path[0]) ? extend(e, path, 1, e->task.hops) : 0;
		if (n > longest) {
			longest = n;
			memcpy(best, path, sizeof best);
		}
	}
	if (longest)
		write_claim(e, best, longest, e->graph->edges[best[longest - 1]].dst, out);
	else
		spar_str_adds(out, "{}");
}

void spar_osint_solver(const struct spar_osint_episode *e, struct spar_str *out)
{
	if (e->how.role == SPAR_OSINT_GENERATOR)
		propose(e, out);
	else
		solve(e, out);
}
