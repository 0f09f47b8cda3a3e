/* tree.h - the cache of keys and values: a radix tree over token ids.
 *
 * A node is a run of ids that no other path shares; its keys and values lie in blocks of SPAR_LANES positions, aligned on
 * absolute positions, so cutting a node in two copies one block at most. A node that starts inside a block has the positions
 * before it in its first block too, copied: a path is a list of whole blocks, and what is stored at a position goes into all
 * blocks that hold it (spar_node_child_shares). What is in a block is the attention's business.
 * A cursor is a place in the tree: the end of the first `n` tokens of a live sequence, inside or at the end of `node`.
 * A node where no cursor stands and which has no children may be evicted; the one that became so first goes first.
 */
#ifndef SPAR_MODEL_ENGINE_TREE_H
#define SPAR_MODEL_ENGINE_TREE_H

#include "model/engine/kernel.h"

struct spar_node {
	struct spar_node *parent, *children, *next; /* next: sibling */
	struct spar_node *older, *newer;            /* neighbours among the evictable; NULL otherwise */
	size_t start, n, room;                      /* positions [start, start + n); room of ids */
	int32_t *ids;                               /* (n) */
	void **blocks; /* [i]: positions from (start / SPAR_LANES + i) * SPAR_LANES; of them the path's are valid */
	size_t n_blocks;
	size_t n_cursors;
};

struct spar_cursor {
	struct spar_node *node;
	size_t n;
	struct spar_cursor *prev, *next; /* all cursors of a tree */
};

struct spar_tree {
	struct spar_node root;                   /* no ids */
	struct spar_node evictable;              /* head of a ring: newer is the first to go */
	struct spar_cursor cursors;              /* head of a ring */
	size_t block_size, max_blocks, n_blocks; /* bytes of a block; blocks that may be and are in use or free */
	void (*forget)(void *owner,
		       const struct spar_node *node); /* before a node's positions go; NULL: nothing to do */
	void *owner;
	void *free_blocks;       /* a list through their first words */
	struct spar_slab *slabs; /* blocks are allocated many at a time; the newest has the fresh ones */
	size_t n_fresh;          /* blocks of it that never were in use */
	int threads;             /* for zeroing them */
};

void spar_tree_init(struct spar_tree *t, size_t block_size, size_t max_blocks, int threads);
/*! Frees all nodes; their blocks are kept for others. No cursor may be open. The tree is empty and usable afterwards. */
void spar_tree_clear(struct spar_tree *t);
/*! Frees the blocks too. */
void spar_tree_release(struct spar_tree *t);

void spar_cursor_open(struct spar_tree *t, struct spar_cursor *c);
void spar_cursor_close(struct spar_tree *t, struct spar_cursor *c);

/*! Move the cursor over those of ids[0..n) which are there already; returns how many. */
size_t spar_cursor_follow(struct spar_tree *t, struct spar_cursor *c, const int32_t *ids, size_t n);

/*! Put ids[0..n) behind the cursor, which stands at their end afterwards; ids[0] must not follow it already. Evicts what
 *  it must. Returns how many found room: fewer than n if the live sequences fill the cache. */
size_t spar_cursor_grow(struct spar_tree *t, struct spar_cursor *c, const int32_t *ids, size_t n);

/*! The node of position `pos` on the path that ends at `node`. */
static inline const struct spar_node *spar_node_of(const struct spar_node *node, size_t pos)
{
	while (node->start > pos)
		node = node->parent;
	return node;
}

/*! Whether a child's first block holds its parent's position `pos`, the parent's being one of that block. */
static inline bool spar_node_child_shares(const struct spar_node *child, size_t pos)
{
	return child->start / SPAR_LANES == pos / SPAR_LANES;
}

static inline void *spar_node_block(const struct spar_node *node, size_t pos)
{
	return node->blocks[pos / SPAR_LANES - node->start / SPAR_LANES];
}

/*! The blocks of the first n_keys positions of the path that ends in `node`: each from the deepest node that has positions
 *  in it, where all of them are. */
static inline void spar_node_path(const struct spar_node *node, size_t n_keys, const void **blocks)
{
	for (size_t i = (n_keys + SPAR_LANES - 1) / SPAR_LANES; i-- > 0;) {
		while (node->start >= (i + 1) * SPAR_LANES)
			node = node->parent;
		blocks[i] = spar_node_block(node, i * SPAR_LANES);
	}
}

#endif
