/* graph.c - see graph.h */
#include "env/osint/graph.h"
#include <stdlib.h>
#include <string.h>

enum { NAMES_MAX = 1 << 24, NAME_MAX_BYTES = 256, WALKS_MAX = 4096 };

static const char *const kinds[] = {"user", "alias", "org", "location", "post", "thread", "event"};

/* ---- names ---- */

static uint32_t hash_bytes(const void *bytes, size_t n)
{
	const unsigned char *b = bytes;
	uint32_t h = 2166136261u; /* FNV-1a */
	for (size_t i = 0; i < n; i++)
		h = (h ^ b[i]) * 16777619u;
	return h;
}

static const char *name_of(const struct spar_osint_names *s, int32_t i)
{
	return s->text.data + s->at[i];
}

/* The slot of a name: its own, or the empty one where it would stand. */
static int32_t *names_slot(const struct spar_osint_names *s, const char *name, size_t n)
{
	uint32_t i = hash_bytes(name, n) & (s->n_slots - 1);
	for (; s->slots[i] >= 0; i = (i + 1) & (s->n_slots - 1)) {
		const char *have = name_of(s, s->slots[i]);
		if (!strncmp(have, name, n) && !have[n])
			break;
	}
	return &s->slots[i];
}

static int32_t names_find(const struct spar_osint_names *s, const char *name, size_t n)
{
	if (!s->n_slots || n > NAME_MAX_BYTES || memchr(name, 0, n))
		return -1;
	return *names_slot(s, name, n);
}

static int32_t *new_slots(uint32_t n)
{
	int32_t *slots = spar_malloc(n * sizeof *slots);
	memset(slots, 0xff, n * sizeof *slots);
	return slots;
}

static void names_grow(struct spar_osint_names *s)
{
	s->cap = s->cap ? 2 * s->cap : 128;
	s->at = spar_realloc(s->at, (size_t)s->cap * sizeof *s->at);
	free(s->slots);
	s->n_slots = 2 * (uint32_t)s->cap; /* a power of two, at most half full */
	s->slots = new_slots(s->n_slots);
	for (int32_t i = 0; i < s->n; i++)
		*names_slot(s, name_of(s, i), strlen(name_of(s, i))) = i;
}

static int32_t names_add(struct spar_osint_names *s, const char *name, size_t n)
{
	int32_t have = names_find(s, name, n);
	if (have >= 0)
		return have;
	if (s->n >= NAMES_MAX || n > NAME_MAX_BYTES || memchr(name, 0, n))
		return -1;
	if (s->n == s->cap)
		names_grow(s);
	*names_slot(s, name, n) = s->n;
	s->at[s->n] = (uint32_t)s->text.len;
	spar_str_add(&s->text, name, n);
	spar_str_addc(&s->text, 0);
	return s->n++;
}

static void names_release(struct spar_osint_names *s)
{
	spar_str_release(&s->text);
	free(s->at);
	free(s->slots);
}

/* ---- building ---- */

void spar_osint_graph_init(struct spar_osint_graph *g)
{
	*g = (struct spar_osint_graph){.nodes = {.text = SPAR_STR_INIT}, .relations = {.text = SPAR_STR_INIT}};
}

void spar_osint_graph_release(struct spar_osint_graph *g)
{
	names_release(&g->nodes);
	names_release(&g->relations);
	free(g->kinds);
	free(g->edges);
	free(g->confidence);
	free(g->slots);
	free(g->out_at);
	free(g->out);
	free(g->in_at);
	free(g->in);
	spar_osint_graph_init(g);
}

/* By the text before the first underscore; anything else is a user. */
static enum spar_osint_kind kind_of(const char *name, size_t n)
{
	static const struct {
		const char *prefix;
		enum spar_osint_kind kind;
	} short_forms[] = {{"loc", SPAR_OSINT_LOCATION}, {"thr", SPAR_OSINT_THREAD}};
	const char *end = memchr(name, '_', n);
	size_t len = end ? (size_t)(end - name) : 0;
	for (int k = 0; k < SPAR_OSINT_KINDS; k++)
		if (strlen(kinds[k]) == len && !strncmp(kinds[k], name, len))
			return (enum spar_osint_kind)k;
	for (size_t i = 0; i < sizeof short_forms / sizeof *short_forms; i++)
		if (len == 3 && !strncmp(short_forms[i].prefix, name, 3))
			return short_forms[i].kind;
	return SPAR_OSINT_USER;
}

int32_t spar_osint_graph_name(struct spar_osint_graph *g, const char *name, size_t n)
{
	int32_t before = g->nodes.n, node = names_add(&g->nodes, name, n);
	if (g->nodes.n == before)
		return node;
	if (g->kinds_cap < g->nodes.cap)
		g->kinds = spar_realloc(g->kinds, (size_t)(g->kinds_cap = g->nodes.cap));
	g->kinds[node] = (uint8_t)kind_of(name, n);
	return node;
}

int32_t spar_osint_graph_relation(struct spar_osint_graph *g, const char *name, size_t n)
{
	return names_add(&g->relations, name, n);
}

static bool same_edge(struct spar_osint_edge a, struct spar_osint_edge b)
{
	return a.src == b.src && a.rel == b.rel && a.dst == b.dst;
}

static int32_t *edge_slot(const struct spar_osint_graph *g, struct spar_osint_edge e)
{
	uint32_t i = hash_bytes(&e, sizeof e) & (g->n_slots - 1);
	while (g->slots[i] >= 0 && !same_edge(g->edges[g->slots[i]], e))
		i = (i + 1) & (g->n_slots - 1);
	return &g->slots[i];
}

static void edges_grow(struct spar_osint_graph *g)
{
	g->edges_cap = g->edges_cap ? 2 * g->edges_cap : 256;
	g->edges = spar_realloc(g->edges, (size_t)g->edges_cap * sizeof *g->edges);
	g->confidence = spar_realloc(g->confidence, (size_t)g->edges_cap * sizeof *g->confidence);
	free(g->slots);
	g->n_slots = 2 * (uint32_t)g->edges_cap;
	g->slots = new_slots(g->n_slots);
	for (int32_t i = 0; i < g->n_edges; i++)
		*edge_slot(g, g->edges[i]) = i;
}

bool spar_osint_graph_add(struct spar_osint_graph *g, struct spar_osint_edge e, float confidence)
{
	if (e.src < 0 || e.rel < 0 || e.dst < 0 || spar_osint_edge_find(g, e) >= 0)
		return false;
	if (g->n_edges == g->edges_cap)
		edges_grow(g);
	*edge_slot(g, e) = g->n_edges;
	g->confidence[g->n_edges] = confidence;
	g->edges[g->n_edges++] = e;
	return true;
}

/* Stable counting sort of the edge indices `from` (NULL: 0, 1, ...) by a member of the edges, of `n_keys` values. The
 * starts of the values' ranges go to `at` (n_keys + 1). */
static void sort_edges(const struct spar_osint_graph *g, const int32_t *from, size_t member, int32_t n_keys,
		       int32_t *at, int32_t *to)
{
#define KEY(i) (*(const int32_t *)((const char *)&g->edges[from ? from[i] : i] + member))
	memset(at, 0, ((size_t)n_keys + 1) * sizeof *at);
	for (int32_t i = 0; i < g->n_edges; i++)
		at[KEY(i) + 1]++;
	for (int32_t k = 0; k < n_keys; k++)
		at[k + 1] += at[k];
	for (int32_t i = 0; i < g->n_edges; i++)
		to[at[KEY(i)]++] = from ? from[i] : i;
	for (int32_t k = n_keys; k > 0; k--)
		at[k] = at[k - 1];
	at[0] = 0;
#undef KEY
}

void spar_osint_graph_index(struct spar_osint_graph *g)
{
	size_t n = (size_t)g->n_edges + !g->n_edges, n_nodes = (size_t)g->nodes.n + 1;
	int32_t *by_relation = spar_malloc(n * sizeof *by_relation);
	int32_t *at = spar_malloc(((size_t)g->relations.n + 1) * sizeof *at);
	g->out = spar_realloc(g->out, n * sizeof *g->out);
	g->in = spar_realloc(g->in, n * sizeof *g->in);
	g->out_at = spar_realloc(g->out_at, n_nodes * sizeof *g->out_at);
	g->in_at = spar_realloc(g->in_at, n_nodes * sizeof *g->in_at);
	sort_edges(g, NULL, offsetof(struct spar_osint_edge, rel), g->relations.n, at, by_relation);
	sort_edges(g, by_relation, offsetof(struct spar_osint_edge, src), g->nodes.n, g->out_at, g->out);
	sort_edges(g, by_relation, offsetof(struct spar_osint_edge, dst), g->nodes.n, g->in_at, g->in);
	free(by_relation);
	free(at);
}

/* ---- looking up ---- */

int32_t spar_osint_node(const struct spar_osint_graph *g, const char *name, size_t n)
{
	return names_find(&g->nodes, name, n);
}

int32_t spar_osint_relation(const struct spar_osint_graph *g, const char *name, size_t n)
{
	return names_find(&g->relations, name, n);
}

int32_t spar_osint_edge_find(const struct spar_osint_graph *g, struct spar_osint_edge e)
{
	return g->n_slots ? *edge_slot(g, e) : -1;
}

const char *spar_osint_node_name(const struct spar_osint_graph *g, int32_t node)
{
	return node < 0 ? "" : name_of(&g->nodes, node);
}

const char *spar_osint_relation_name(const struct spar_osint_graph *g, int32_t relation)
{
	return relation < 0 ? "" : name_of(&g->relations, relation);
}

const char *spar_osint_kind_name(enum spar_osint_kind kind)
{
	return kinds[kind];
}

/* Where in [from, to) of a node's edges, sorted by relation, those of `rel` or later ones begin. */
static int32_t lower_bound(const struct spar_osint_graph *g, const int32_t *list, int32_t from, int32_t to, int32_t rel)
{
	while (from < to) {
		int32_t mid = from + (to - from) / 2;
		if (g->edges[list[mid]].rel < rel)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

static const int32_t *of_relation(const struct spar_osint_graph *g, const int32_t *at, const int32_t *list,
				  int32_t node, int32_t rel, int32_t *n)
{
	*n = 0;
	if (node < 0 || rel < 0)
		return NULL;
	int32_t from = lower_bound(g, list, at[node], at[node + 1], rel);
	*n = lower_bound(g, list, from, at[node + 1], rel + 1) - from;
	return list + from;
}

const int32_t *spar_osint_out(const struct spar_osint_graph *g, int32_t src, int32_t rel, int32_t *n)
{
	return of_relation(g, g->out_at, g->out, src, rel, n);
}

const int32_t *spar_osint_in(const struct spar_osint_graph *g, int32_t dst, int32_t rel, int32_t *n)
{
	return of_relation(g, g->in_at, g->in, dst, rel, n);
}

/* ---- questions ---- */

struct walk {
	const struct spar_osint_graph *g;
	const struct spar_osint_signature *q;
	struct spar_osint_ends *ends;
	int32_t path[SPAR_OSINT_HOPS_MAX];
	int left; /* walks that may still be looked at */
};

static void arrive(struct walk *w, int32_t node)
{
	struct spar_osint_ends *e = w->ends;
	if (!e->n_paths) {
		e->end = node;
		memcpy(e->path, w->path, sizeof e->path);
	}
	if (e->n_ends == 0 || (e->n_ends == 1 && node != e->end))
		e->n_ends++;
	if (e->n_paths < 2)
		e->n_paths++;
}

static void follow(struct walk *w, int32_t node, int hop)
{
	int32_t n;
	const int32_t *edges = w->q->inverse ? spar_osint_in(w->g, node, w->q->relations[hop], &n)
					     : spar_osint_out(w->g, node, w->q->relations[hop], &n);
	for (int32_t i = 0; i < n && w->ends->n_ends < 2; i++) {
		if (w->left-- <= 0) {
			w->ends->n_ends = w->ends->n_paths = 2;
			return;
		}
		const struct spar_osint_edge *e = &w->g->edges[edges[i]];
		w->path[hop] = edges[i];
		if (hop + 1 == w->q->hops)
			arrive(w, w->q->inverse ? e->src : e->dst);
		else
			follow(w, e->dst, hop + 1);
	}
}

void spar_osint_solve(const struct spar_osint_graph *g, const struct spar_osint_signature *q,
		      struct spar_osint_ends *out)
{
	*out = (struct spar_osint_ends){.end = -1};
	struct walk w = {.g = g, .q = q, .ends = out, .left = WALKS_MAX};
	if (q->hops)
		follow(&w, q->start, 0);
}

bool spar_osint_signature_of(const struct spar_osint_edge *edges, size_t n, struct spar_osint_signature *q)
{
	*q = (struct spar_osint_signature){.start = -1};
	if (n < 1 || n > SPAR_OSINT_HOPS_MAX)
		return false;
	for (size_t i = 1; i < n; i++)
		if (edges[i].src < 0 || edges[i].src != edges[i - 1].dst)
			return false;
	q->start = edges[0].src;
	for (size_t i = 0; i < n; i++)
		q->relations[i] = edges[i].rel;
	q->hops = (int)n;
	return true;
}
