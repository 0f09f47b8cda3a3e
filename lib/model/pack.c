#include "model/pack.h"
#include "base/err.h"
#include <stdlib.h>

/* A trie node. Children hang in a list in the order they came. */
struct node {
	int32_t token, parent, depth;
	int32_t first_child, next_sibling; /* -1: none */
};

/* A loss token: `token` is predicted at trie node `node`. */
struct ref {
	int32_t node, token;
};

/* What is left of a sequence: its last node (-1: it needed none) and its refs. */
struct path {
	int32_t leaf;
	size_t first_ref, n_refs;
};

struct spar_pack_builder {
	struct node *nodes;
	struct ref *refs;
	struct path *paths;
	size_t n_nodes, cap_nodes, n_refs, cap_refs, n_paths, cap_paths;
	size_t n_tokens_in;
	int32_t first_root;
};

struct spar_pack_builder *spar_pack_begin(void)
{
	struct spar_pack_builder *b = spar_calloc(1, sizeof *b);
	b->first_root = -1;
	return b;
}

/* Room for element number n. */
static void *grow(void *items, size_t n, size_t *cap, size_t size)
{
	if (n < *cap)
		return items;
	*cap = *cap ? 2 * *cap : 64;
	return spar_realloc(items, *cap * size);
}

/* The child of `parent` (-1: a root) that holds `token`, made if it is not there. */
static int32_t child(struct spar_pack_builder *b, int32_t parent, int32_t token)
{
	int32_t last = -1, at = parent < 0 ? b->first_root : b->nodes[parent].first_child;
	for (; at >= 0; last = at, at = b->nodes[at].next_sibling)
		if (b->nodes[at].token == token)
			return at;
	b->nodes = grow(b->nodes, b->n_nodes, &b->cap_nodes, sizeof *b->nodes);
	at = (int32_t)b->n_nodes++;
	b->nodes[at] = (struct node){token, parent, parent < 0 ? 0 : b->nodes[parent].depth + 1, -1, -1};
	if (last >= 0)
		b->nodes[last].next_sibling = at;
	else if (parent >= 0)
		b->nodes[parent].first_child = at;
	else
		b->first_root = at;
	return at;
}

size_t spar_pack_add(struct spar_pack_builder *b, const int32_t *ids, const uint8_t *mask, size_t n)
{
	struct path path = {-1, b->n_refs, 0};
	size_t last = n ? n - 1 : 0; /* of the loss tokens: it is predicted, but nothing is predicted from it */
	while (last > 0 && !mask[last])
		last--;
	for (size_t i = 0; i < last; i++) {
		path.leaf = child(b, path.leaf, ids[i]);
		if (!mask[i + 1])
			continue;
		b->refs = grow(b->refs, b->n_refs, &b->cap_refs, sizeof *b->refs);
		b->refs[b->n_refs++] = (struct ref){path.leaf, ids[i + 1]};
	}
	path.n_refs = b->n_refs - path.first_ref;
	b->n_tokens_in += last;
	b->paths = grow(b->paths, b->n_paths, &b->cap_paths, sizeof *b->paths);
	b->paths[b->n_paths++] = path;
	return path.first_ref;
}

size_t spar_pack_nodes(const struct spar_pack_builder *b)
{
	return b->n_nodes;
}

static void add_segment(struct spar_pack *p, int32_t parent, size_t depth)
{
	p->segments[p->n_segments++] =
	    (struct spar_segment){.parent = parent, .begin = p->n_nodes, .n = 0, .subtree_end = 0, .depth = depth};
}

/* Put a trie node at the end of the last segment; returns its place. */
static int32_t add_node(struct spar_pack *p, const struct node *node)
{
	p->tokens[p->n_nodes] = node->token;
	p->positions[p->n_nodes] = node->depth;
	p->segments[p->n_segments - 1].n++;
	return (int32_t)p->n_nodes++;
}

/* Depth first through the trie: a node that is an only child continues its parent's segment, any other opens one.
 * The place of each loss token's node goes to at_ref. */
static void lay_shared(const struct spar_pack_builder *b, struct spar_pack *p, int32_t *at_ref)
{
	int32_t *place = spar_malloc((b->n_nodes + 1) * sizeof *place);
	int32_t *segment_of = spar_malloc((b->n_nodes + 1) * sizeof *segment_of);
	int32_t at = b->first_root;
	while (at >= 0) {
		const struct node *node = &b->nodes[at];
		const struct node *up = node->parent < 0 ? NULL : &b->nodes[node->parent];
		if (!up || up->first_child != at || node->next_sibling >= 0)
			add_segment(p, up ? segment_of[node->parent] : -1, (size_t)node->depth);
		segment_of[at] = (int32_t)p->n_segments - 1;
		place[at] = add_node(p, node);
		if (node->first_child >= 0) {
			at = node->first_child;
			continue;
		}
		while (at >= 0 && b->nodes[at].next_sibling < 0)
			at = b->nodes[at].parent;
		if (at >= 0)
			at = b->nodes[at].next_sibling;
	}
	for (size_t i = 0; i < b->n_refs; i++)
		at_ref[i] = place[b->refs[i].node];
	free(segment_of);
	free(place);
}

/* Each sequence as a root segment of its own. */
static void lay_apart(const struct spar_pack_builder *b, struct spar_pack *p, int32_t *at_ref)
{
	for (size_t i = 0; i < b->n_paths; i++) {
		const struct path *path = &b->paths[i];
		if (path->leaf < 0)
			continue;
		add_segment(p, -1, 0);
		size_t begin = p->n_nodes, n = (size_t)b->nodes[path->leaf].depth + 1;
		p->n_nodes += n;
		p->segments[p->n_segments - 1].n = n;
		for (int32_t at = path->leaf; at >= 0; at = b->nodes[at].parent) {
			size_t k = begin + (size_t)b->nodes[at].depth;
			p->tokens[k] = b->nodes[at].token;
			p->positions[k] = b->nodes[at].depth;
		}
		for (size_t r = path->first_ref; r < path->first_ref + path->n_refs; r++)
			at_ref[r] = (int32_t)begin + b->nodes[b->refs[r].node].depth;
	}
}

/* Children stand behind their parents: going backwards, each subtree is complete when it is met. */
static void close_subtrees(struct spar_pack *p)
{
	for (size_t i = p->n_segments; i-- > 0;) {
		struct spar_segment *s = &p->segments[i];
		if (s->subtree_end < s->begin + s->n)
			s->subtree_end = s->begin + s->n;
		if (s->parent >= 0 && p->segments[s->parent].subtree_end < s->subtree_end)
			p->segments[s->parent].subtree_end = s->subtree_end;
	}
}

struct wanted {
	int32_t node, token;
	size_t ref;
};

static int by_node_and_token(const void *a, const void *b)
{
	const struct wanted *x = a, *y = b;
	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	return (x->token > y->token) - (x->token < y->token);
}

/* Equal (node, token) pairs become one target. */
static void make_targets(const struct spar_pack_builder *b, struct spar_pack *p, const int32_t *at_ref)
{
	struct wanted *w = spar_malloc((b->n_refs + 1) * sizeof *w);
	for (size_t i = 0; i < b->n_refs; i++)
		w[i] = (struct wanted){at_ref[i], b->refs[i].token, i};
	qsort(w, b->n_refs, sizeof *w, by_node_and_token);
	p->n_refs = b->n_refs;
	p->target_node = spar_malloc((b->n_refs + 1) * sizeof *p->target_node);
	p->target_id = spar_malloc((b->n_refs + 1) * sizeof *p->target_id);
	p->ref_target = spar_malloc((b->n_refs + 1) * sizeof *p->ref_target);
	for (size_t i = 0; i < b->n_refs; i++) {
		if (!i || by_node_and_token(&w[i - 1], &w[i]) != 0) {
			p->target_node[p->n_targets] = w[i].node;
			p->target_id[p->n_targets++] = w[i].token;
		}
		p->ref_target[w[i].ref] = (int32_t)p->n_targets - 1;
	}
	free(w);
}

struct spar_pack *spar_pack_end(struct spar_pack_builder *b, int share)
{
	struct spar_pack *p = spar_calloc(1, sizeof *p);
	size_t n_nodes = share ? b->n_nodes : b->n_tokens_in, n_segments = share ? b->n_nodes : b->n_paths;
	int32_t *at_ref = spar_malloc((b->n_refs + 1) * sizeof *at_ref);
	p->n_tokens_in = b->n_tokens_in;
	p->tokens = spar_malloc((n_nodes + 1) * sizeof *p->tokens);
	p->positions = spar_malloc((n_nodes + 1) * sizeof *p->positions);
	p->segments = spar_malloc((n_segments + 1) * sizeof *p->segments);
	(share ? lay_shared : lay_apart)(b, p, at_ref);
	close_subtrees(p);
	make_targets(b, p, at_ref);
	free(at_ref);
	free(b->nodes);
	free(b->refs);
	free(b->paths);
	free(b);
	return p;
}

void spar_pack_free(struct spar_pack *p)
{
	if (!p)
		return;
	free(p->tokens);
	free(p->positions);
	free(p->segments);
	free(p->target_node);
	free(p->target_id);
	free(p->ref_target);
	free(p);
}
