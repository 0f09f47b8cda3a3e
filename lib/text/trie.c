#include "text/trie.h"
#include "base/err.h"
#include <stdlib.h>

static struct spar_trie_edge *slot(const struct spar_trie *t, uint64_t from)
{
	uint64_t h = from * 0x9E3779B97F4A7C15; /* 2^64 over the golden ratio: Fibonacci hashing */
	for (size_t i = (size_t)(h ^ h >> 32);; i++) {
		struct spar_trie_edge *e = &t->edges[i & (t->n_slots - 1)];
		if (e->from == from || e->from == UINT64_MAX)
			return e;
	}
}

static void grow(struct spar_trie *t)
{
	struct spar_trie old = *t;
	t->n_slots = old.n_slots ? 2 * old.n_slots : 1024;
	t->edges = spar_malloc(t->n_slots * sizeof *t->edges);
	for (size_t i = 0; i < t->n_slots; i++)
		t->edges[i].from = UINT64_MAX;
	for (size_t i = 0; i < old.n_slots; i++)
		if (old.edges[i].from != UINT64_MAX)
			*slot(t, old.edges[i].from) = old.edges[i];
	free(old.edges);
}

static int32_t new_node(struct spar_trie *t)
{
	if (t->n_nodes == t->cap) {
		t->cap = t->cap ? 2 * t->cap : 512;
		t->values = spar_realloc(t->values, t->cap * sizeof *t->values);
	}
	t->values[t->n_nodes] = -1;
	return (int32_t)t->n_nodes++;
}

void spar_trie_add(struct spar_trie *t, const char *s, size_t n, int32_t value)
{
	int32_t node = t->n_nodes ? 0 : new_node(t);
	for (size_t i = 0; i < n; i++) {
		uint64_t from = (uint64_t)node << 8 | (uint8_t)s[i];
		if (2 * (t->n_nodes + 1) > t->n_slots)
			grow(t);
		struct spar_trie_edge *e = slot(t, from);
		if (e->from == UINT64_MAX)
			*e = (struct spar_trie_edge){from, new_node(t)};
		node = e->to;
	}
	t->values[node] = value;
}

int32_t spar_trie_step(const struct spar_trie *t, int32_t node, char byte)
{
	uint64_t from = (uint64_t)node << 8 | (uint8_t)byte;
	const struct spar_trie_edge *e = t->n_slots ? slot(t, from) : NULL;
	return e && e->from == from ? e->to : -1;
}

int32_t spar_trie_value(const struct spar_trie *t, int32_t node)
{
	return t->values[node];
}

void spar_trie_release(struct spar_trie *t)
{
	free(t->edges);
	free(t->values);
	*t = (struct spar_trie){0};
}
