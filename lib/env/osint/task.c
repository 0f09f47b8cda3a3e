/* task.c - tasks and their contexts, see osint.h */
#include "env/osint/draw.h"
#include "env/osint/osint.h"
#include <stdlib.h>
#include <string.h>

enum { TASK_HOPS_MAX = 4, ATTEMPTS = 192, DECOY_ATTEMPTS = 128, DECOYS_MANY = 4 };

/* What a draw is for: the first counter; the second is the attempt. */
enum what { SHAPE, FIRST, NEXT /* + hop */ };

int spar_osint_difficulty(int hops, int n_decoys)
{
	int points = hops + (n_decoys >= DECOYS_MANY);
	return points <= 2 ? SPAR_OSINT_EASY : points == 3 ? SPAR_OSINT_MEDIUM : SPAR_OSINT_HARD;
}

/* ---- walks ---- */

static const struct spar_osint_edge *edge_at(const struct spar_osint_graph *g, int32_t i)
{
	return &g->edges[i];
}

/* Whether a walk of `n` edges has not been at `node`. */
static bool unvisited(const struct spar_osint_graph *g, const int32_t *path, int n, int32_t node)
{
	for (int i = 0; i < n; i++)
		if (edge_at(g, path[i])->src == node)
			return false;
	return true;
}

/* Go on from the first `n` edges of a path to `hops` edges through nodes not seen before, at random, or along the
 * relations of the path `like` where they lead on (NULL: none): false when stuck. */
static bool walk(const struct spar_osint_graph *g, const struct spar_rng *rng, uint32_t attempt, int n, int hops,
		 const int32_t *like, int32_t *path)
{
	for (int hop = n; unvisited(g, path, hop, edge_at(g, path[hop - 1])->dst); hop++) {
		if (hop == hops)
			return true;
		int32_t at = edge_at(g, path[hop - 1])->dst, n_next = 0;
		const int32_t *next = like ? spar_osint_out(g, at, edge_at(g, like[hop])->rel, &n_next) : NULL;
		if (!n_next) {
			next = g->out + g->out_at[at];
			n_next = g->out_at[at + 1] - g->out_at[at];
		}
		if (!n_next)
			return false;
		path[hop] = next[spar_osint_below(rng, NEXT + (uint32_t)hop, attempt, n_next)];
	}
	return false;
}

static void sign(const struct spar_osint_graph *g, const int32_t *path, int hops, struct spar_osint_signature *q)
{
	struct spar_osint_edge edges[SPAR_OSINT_HOPS_MAX];
	for (int i = 0; i < hops; i++)
		edges[i] = g->edges[path[i]];
	spar_osint_signature_of(edges, (size_t)hops, q);
}

/* ---- contexts ---- */

struct context {
	const struct spar_osint_graph *g;
	int32_t *edges;
	int n, max;
};

static bool has_edge(const struct context *c, int32_t edge)
{
	for (int i = 0; i < c->n; i++)
		if (c->edges[i] == edge)
			return true;
	return false;
}

/* Put in a path with all siblings of its edges: all of it, or nothing and false. */
static bool put_path(struct context *c, const int32_t *path, int hops)
{
	int before = c->n;
	for (int i = 0; i < hops; i++) {
		int32_t n;
		const struct spar_osint_edge *e = edge_at(c->g, path[i]);
		const int32_t *siblings = spar_osint_out(c->g, e->src, e->rel, &n);
		for (int32_t k = 0; k < n; k++) {
			if (has_edge(c, siblings[k]))
				continue;
			if (c->n == c->max) {
				c->n = before;
				return false;
			}
			c->edges[c->n++] = siblings[k];
		}
	}
	return true;
}

/* The first edge at or after a random one of `list` (n edges; NULL: the graph's) whose relation is `rel`, or is not, and
 * that is not `but`: -1 if there is none. */
static int32_t pick(const struct spar_osint_graph *g, const struct spar_rng *rng, uint32_t attempt, const int32_t *list,
		    int32_t n, int32_t rel, bool same, int32_t but)
{
	int32_t from = spar_osint_below(rng, FIRST, attempt, n);
	for (int32_t i = 0; i < n; i++) {
		int32_t edge = list ? list[(from + i) % n] : (from + i) % n;
		if ((edge_at(g, edge)->rel == rel) == same && edge != but)
			return edge;
	}
	return -1;
}

/* A wrong path of `hops` edges. Even attempts leave the right one at some node by another relation, so that relations must
 * be read; odd ones begin elsewhere with the right one's first relation and follow it as far as they can. When these are
 * used up, any path will do. */
static bool decoy(const struct spar_osint_graph *g, const struct spar_rng *rng, uint32_t attempt,
		  const int32_t *support, int hops, int32_t *path)
{
	bool branch = attempt % 2 == 0 && attempt < DECOY_ATTEMPTS / 2;
	int kept = branch ? spar_osint_below(rng, SHAPE, attempt, hops) : 0; /* edges in common */
	const struct spar_osint_edge *left = edge_at(g, support[kept]);
	const int32_t *leaving = branch ? g->out + g->out_at[left->src] : NULL;
	int32_t n = branch ? g->out_at[left->src + 1] - g->out_at[left->src] : g->n_edges;
	memcpy(path, support, (size_t)kept * sizeof *path);
	path[kept] = attempt % 2 || branch ? pick(g, rng, attempt, leaving, n, left->rel, !branch, support[kept])
					   : pick(g, rng, attempt, NULL, n, -1, false, support[0]);
	return path[kept] >= 0 && walk(g, rng, attempt, kept + 1, hops, attempt % 2 ? support : NULL, path);
}

/* A single edge, in turn any, one from a node that is there, and one of the relation that is asked for last. */
static int32_t filler(const struct context *c, const struct spar_rng *rng, uint32_t attempt, int32_t last)
{
	const struct spar_osint_graph *g = c->g;
	int32_t rel = edge_at(g, last)->rel;
	if (attempt % 3 == 2)
		return pick(g, rng, attempt, NULL, g->n_edges, rel, true, last);
	int32_t at = edge_at(g, c->edges[spar_osint_below(rng, SHAPE, attempt, c->n)])->src;
	const int32_t *leaving = attempt % 3 ? g->out + g->out_at[at] : NULL;
	return pick(g, rng, attempt, leaving, leaving ? g->out_at[at + 1] - g->out_at[at] : g->n_edges, -1, false,
		    last);
}

int spar_osint_context(const struct spar_osint_graph *g, uint64_t seed, const int32_t *support, int n_support,
		       int max_edges, int32_t *out, int *n_decoys)
{
	struct context c = {g, out, 0, max_edges < SPAR_OSINT_CONTEXT_MAX ? max_edges : SPAR_OSINT_CONTEXT_MAX};
	struct spar_rng rng = spar_osint_stream(seed, "decoys"), order = spar_osint_stream(seed, "context");
	int wanted = *n_decoys;
	*n_decoys = 0;
	if (!put_path(&c, support, n_support))
		return 0;
	for (uint32_t i = 0; i < DECOY_ATTEMPTS && *n_decoys < wanted; i++) {
		int32_t path[SPAR_OSINT_HOPS_MAX];
		int before = c.n;
		if (decoy(g, &rng, i, support, n_support, path) && put_path(&c, path, n_support))
			*n_decoys += c.n > before;
	}
	for (uint32_t i = 0; i < DECOY_ATTEMPTS && c.n < c.max * 3 / 4; i++) {
		int32_t edge = filler(&c, &rng, DECOY_ATTEMPTS + i, support[n_support - 1]);
		if (edge >= 0)
			put_path(&c, &edge, 1);
	}
	for (int i = c.n - 1; i > 0; i--) {
		int at = spar_osint_below(&order, 0, (uint32_t)i, i + 1);
		int32_t edge = out[i];
		out[i] = out[at];
		out[at] = edge;
	}
	return c.n;
}

/* ---- tasks ---- */

/* Whether the question has one answer and one way there, which becomes the task's. */
static bool accept(struct spar_osint_task *t, const struct spar_osint_graph *g, int hops, const char *family)
{
	struct spar_osint_ends ends;
	spar_osint_solve(g, &t->signature, &ends);
	if (ends.n_ends != 1 || ends.n_paths != 1)
		return false;
	t->answer = ends.end;
	t->hops = t->n_support = hops;
	t->family = family;
	return true;
}

/* A question of one hop: a family is drawn, then the first edge from a random one on that will do. */
static bool find_edge(struct spar_osint_task *t, const struct spar_osint_graph *g, const struct spar_rng *rng)
{
	static const struct {
		const char *family, *relation;
		bool inverse;
	} families[] = {{"1_hop_trace", NULL, false},
			{"identity_resolution", "alias_of", false},
			{"network_discovery", "connected_to", false},
			{"event_tracing", "works_at", true}};
	for (uint32_t draw = 0; draw < 8; draw++) {
		int f = spar_osint_below(rng, SHAPE, draw, 4);
		const char *name = families[f].relation;
		int32_t rel = name ? spar_osint_relation(g, name, strlen(name)) : -1;
		int32_t from = spar_osint_below(rng, FIRST, draw, g->n_edges);
		for (int32_t i = 0; i < g->n_edges; i++) {
			const struct spar_osint_edge *e = edge_at(g, t->support[0] = (from + i) % g->n_edges);
			if ((name && e->rel != rel) || e->src == e->dst)
				continue;
			t->signature = (struct spar_osint_signature){
			    families[f].inverse ? e->dst : e->src, {e->rel}, 1, families[f].inverse};
			if (accept(t, g, 1, families[f].family))
				return true;
		}
	}
	return false;
}

/* Draw paths until one is the only answer to its question. */
static bool find_path(struct spar_osint_task *t, const struct spar_osint_graph *g, const struct spar_rng *rng, int hops)
{
	const char *family = hops == 2 ? "2_hop_trace" : hops == 3 ? "3_hop_trace" : "4_hop_trace";
	if (hops == 1)
		return find_edge(t, g, rng);
	for (uint32_t i = 0; i < ATTEMPTS; i++) {
		t->support[0] = spar_osint_below(rng, FIRST, i, g->n_edges);
		if (!walk(g, rng, i, 1, hops, NULL, t->support))
			continue;
		sign(g, t->support, hops, &t->signature);
		if (accept(t, g, hops, family))
			return true;
	}
	return false;
}

/* A task of so many hops among so many decoys. */
static bool make(struct spar_osint_task *t, const struct spar_osint_graph *g, const struct spar_osint_want *want,
		 const struct spar_rng *rng, int hops, int n_decoys)
{
	int max_edges = want->max_edges ? want->max_edges : SPAR_OSINT_CONTEXT;
	if (hops < 1 || hops > TASK_HOPS_MAX || !g->n_edges || !find_path(t, g, rng, hops))
		return false;
	t->n_decoys = n_decoys;
	t->n_context = spar_osint_context(g, want->seed, t->support, hops, max_edges, t->context, &t->n_decoys);
	t->difficulty = spar_osint_difficulty(hops, t->n_decoys);
	return t->n_context > 0;
}

int spar_osint_task_make(struct spar_osint_task *t, const struct spar_osint_graph *g,
			 const struct spar_osint_want *want, struct spar_err *err)
{
	static const int hops_of[] = {[SPAR_OSINT_EASY] = 2, [SPAR_OSINT_MEDIUM] = 3, [SPAR_OSINT_HARD] = 4};
	struct spar_rng rng = spar_osint_stream(want->seed, "task");
	int level = want->difficulty == SPAR_OSINT_MIXED ? (int)(want->seed % SPAR_OSINT_MIXED) : want->difficulty;
	int hops = want->hops ? want->hops : hops_of[level];
	*t = (struct spar_osint_task){.question = SPAR_STR_INIT, .answer = -1};
	/* A hop less among many decoys is as hard. */
	bool many = !want->hops && spar_rng_uniform(&rng, SHAPE, UINT32_MAX, 0, 0) < 0.5;
	bool made = many && make(t, g, want, &rng, hops - 1, DECOYS_MANY) && t->difficulty == level;
	for (; !made && hops >= 1; hops--)
		made = make(t, g, want, &rng, hops, DECOYS_MANY - 1);
	if (!made)
		return spar_fail(err, SPAR_FAIL, "the graph has no edge that can be asked for");
	spar_osint_question(g, &t->signature, &t->question);
	return 0;
}

void spar_osint_task_release(struct spar_osint_task *t)
{
	spar_str_release(&t->question);
	free(t->answers);
}
