#include "model/engine/tree.h"
#include "base/err.h"
#include "base/pages.h"
#include <stdlib.h>

#define SLAB_SIZE ((size_t)8 << 20)  /* bytes of cache that are allocated at once */
#define PIECE_SIZE ((size_t)2 << 20) /* of a slab: what a thread zeroes at once */

/* ---- which nodes may go ---- */

static bool listed(const struct spar_node *node)
{
	return node->newer != NULL;
}

static void unlist(struct spar_node *node)
{
	node->older->newer = node->newer;
	node->newer->older = node->older;
	node->older = node->newer = NULL;
}

/* Call after anything that changed the node's cursors or children. */
static void relist(struct spar_tree *t, struct spar_node *node)
{
	bool may_go = !node->n_cursors && !node->children && node != &t->root;
	if (may_go && !listed(node)) {
		node->newer = &t->evictable;
		node->older = t->evictable.older;
		node->older->newer = node->newer->older = node;
	} else if (!may_go && listed(node)) {
		unlist(node);
	}
}

static void free_node(struct spar_tree *t, struct spar_node *node)
{
	if (t->forget)
		t->forget(t->owner, node);
	for (size_t i = 0; i < node->n_blocks; i++) {
		*(void **)node->blocks[i] = t->free_blocks;
		t->free_blocks = node->blocks[i];
	}
	free(node->blocks);
	free(node->ids);
	free(node);
}

static void evict(struct spar_tree *t, struct spar_node *node)
{
	struct spar_node *parent = node->parent, **link = &parent->children;
	while (*link != node)
		link = &(*link)->next;
	*link = node->next;
	unlist(node);
	free_node(t, node);
	relist(t, parent);
}

struct spar_slab {
	struct spar_slab *next;
	char *blocks;
};

/* The system finds and clears memory when it is first touched, which takes longer than all else here: threads share it. */
static void zero(char *slab, size_t size, int threads)
{
#pragma omp parallel for num_threads(threads)
	for (size_t at = 0; at < size; at += PIECE_SIZE)
		memset(slab + at, 0, size - at < PIECE_SIZE ? size - at : PIECE_SIZE);
}

/* A block of zeros that never was in use, or NULL. */
static void *take_fresh(struct spar_tree *t)
{
	if (t->n_blocks == t->max_blocks)
		return NULL;
	if (!t->n_fresh) {
		size_t left = t->max_blocks - t->n_blocks, n = SLAB_SIZE / t->block_size;
		n = n < 1 ? 1 : n < left ? n : left;
		char *blocks = spar_pages_alloc(n * t->block_size);
		if (!blocks)
			return NULL;
		zero(blocks, n * t->block_size, t->threads);
		struct spar_slab *slab = spar_malloc(sizeof *slab);
		*slab = (struct spar_slab){t->slabs, blocks};
		t->slabs = slab;
		t->n_fresh = n;
	}
	t->n_blocks++;
	return t->slabs->blocks + --t->n_fresh * t->block_size;
}

/* A block of zeros, or NULL: lanes that are never written must not hold NaN, which times 0 is NaN. */
static void *take_block(struct spar_tree *t)
{
	void *block = t->free_blocks ? NULL : take_fresh(t);
	if (block)
		return block;
	while (!t->free_blocks && t->evictable.newer != &t->evictable)
		evict(t, t->evictable.newer);
	if (!(block = t->free_blocks))
		return NULL;
	t->free_blocks = *(void **)block;
	return memset(block, 0, t->block_size);
}

/* ---- the tree ---- */

void spar_tree_init(struct spar_tree *t, size_t block_size, size_t max_blocks, int threads)
{
	*t = (struct spar_tree){.block_size = block_size, .max_blocks = max_blocks, .threads = threads};
	t->evictable.older = t->evictable.newer = &t->evictable;
	t->cursors.prev = t->cursors.next = &t->cursors;
}

void spar_tree_clear(struct spar_tree *t)
{
	while (t->evictable.newer != &t->evictable)
		evict(t, t->evictable.newer);
}

void spar_tree_release(struct spar_tree *t)
{
	spar_tree_clear(t);
	for (struct spar_slab *slab; (slab = t->slabs);) {
		t->slabs = slab->next;
		free(slab->blocks);
		free(slab);
	}
	*t = (struct spar_tree){0};
}

static void add_block(struct spar_node *node, void *block)
{
	if ((node->n_blocks & (node->n_blocks - 1)) == 0) /* full at powers of two */
		node->blocks =
		    spar_realloc(node->blocks, (node->n_blocks ? 2 * node->n_blocks : 1) * sizeof *node->blocks);
	node->blocks[node->n_blocks++] = block;
}

static struct spar_node *add_child(struct spar_node *parent)
{
	struct spar_node *node = spar_calloc(1, sizeof *node);
	node->parent = parent;
	node->start = parent->start + parent->n;
	node->next = parent->children;
	parent->children = node;
	return node;
}

static void move_cursor(struct spar_tree *t, struct spar_cursor *c, struct spar_node *to)
{
	struct spar_node *from = c->node;
	from->n_cursors--;
	to->n_cursors++;
	c->node = to;
	relist(t, to);
	relist(t, from);
}

/* Cut a node before position `at`: what lies behind becomes its only child. Returns -1 if there is no block for that. */
static int split(struct spar_tree *t, struct spar_node *upper, size_t at)
{
	void *copy = NULL;
	if (at % SPAR_LANES) {
		if (!(copy = take_block(t)))
			return -1;
		memcpy(copy, spar_node_block(upper, at), t->block_size);
	}
	struct spar_node *children = upper->children;
	size_t n_upper = at - upper->start;
	upper->children = NULL;
	struct spar_node *lower = add_child(upper);
	lower->start = at;
	lower->children = children;
	for (struct spar_node *child = children; child; child = child->next)
		child->parent = lower;
	lower->n = lower->room = upper->n - n_upper;
	lower->ids = spar_malloc(lower->n * sizeof *lower->ids);
	memcpy(lower->ids, upper->ids + n_upper, lower->n * sizeof *lower->ids);
	upper->n = n_upper;
	size_t keep = (at - 1) / SPAR_LANES - upper->start / SPAR_LANES + 1, n_blocks = upper->n_blocks;
	void **blocks = upper->blocks;
	upper->blocks = NULL;
	upper->n_blocks = 0;
	if (copy)
		add_block(lower, copy);
	for (size_t i = 0; i < n_blocks; i++)
		add_block(i < keep ? upper : lower, blocks[i]);
	free(blocks);
	for (struct spar_cursor *c = t->cursors.next; c != &t->cursors; c = c->next)
		if (c->node == upper && c->n > at)
			move_cursor(t, c, lower);
	relist(t, lower);
	relist(t, upper);
	return 0;
}

/* ---- cursors ---- */

void spar_cursor_open(struct spar_tree *t, struct spar_cursor *c)
{
	*c = (struct spar_cursor){.node = &t->root, .prev = t->cursors.prev, .next = &t->cursors};
	c->prev->next = c->next->prev = c;
	t->root.n_cursors++;
}

void spar_cursor_close(struct spar_tree *t, struct spar_cursor *c)
{
	c->prev->next = c->next;
	c->next->prev = c->prev;
	c->node->n_cursors--;
	relist(t, c->node);
}

size_t spar_cursor_follow(struct spar_tree *t, struct spar_cursor *c, const int32_t *ids, size_t n)
{
	size_t done = 0;
	while (done < n) {
		struct spar_node *node = c->node;
		size_t at = c->n - node->start;
		while (done < n && at < node->n && node->ids[at] == ids[done])
			at++, done++;
		c->n = node->start + at;
		if (done == n || at < node->n)
			break;
		struct spar_node *child = node->children;
		while (child && child->ids[0] != ids[done])
			child = child->next;
		if (!child)
			break;
		move_cursor(t, c, child);
	}
	return done;
}

size_t spar_cursor_grow(struct spar_tree *t, struct spar_cursor *c, const int32_t *ids, size_t n)
{
	struct spar_node *node = c->node;
	if (c->n < node->start + node->n && split(t, node, c->n) < 0)
		return 0;
	bool fresh = node == &t->root || node->children;
	void *block = NULL;
	if (fresh) {
		if (!(block = take_block(t))) /* before the node is there: eviction must not meet it */
			return 0;
		if (c->n % SPAR_LANES)
			memcpy(block, spar_node_block(node, c->n - 1), t->block_size);
		node = add_child(node);
		add_block(node, block);
		move_cursor(t, c, node);
	}
	size_t done = 0;
	for (; done < n; done++) {
		size_t index = c->n / SPAR_LANES - node->start / SPAR_LANES;
		if (index == node->n_blocks) {
			if (!(block = take_block(t)))
				break;
			add_block(node, block);
		}
		if (node->n == node->room)
			node->ids =
			    spar_realloc(node->ids, (node->room = node->room ? 2 * node->room : 4) * sizeof *node->ids);
		node->ids[node->n++] = ids[done];
		c->n++;
	}
	return done;
}
