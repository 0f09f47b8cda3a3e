/* pack.h - the prefix tree of a set of token sequences, laid out flat: each distinct prefix token stands once.
 *
 * Nodes are in depth-first order, so the subtree below any segment is one contiguous range. A segment is a maximal run of
 * tokens without a branch; its queries attend to all tokens of its ancestor segments and causally to its own.
 * A target asks for log p(token | path to node); equal (node, token) pairs of several sequences are one target.
 */
#ifndef SPAR_MODEL_PACK_H
#define SPAR_MODEL_PACK_H

#include <stddef.h>
#include <stdint.h>

struct spar_segment {
	int32_t parent;     /* index of the parent segment (smaller than this one's), -1: a root */
	size_t begin, n;    /* its nodes: [begin, begin + n) */
	size_t subtree_end; /* nodes of this segment and everything below it: [begin, subtree_end) */
	size_t depth;       /* position of its first token: 0 for a root */
};

struct spar_pack {
	size_t n_nodes;
	int32_t *tokens;    /* (n_nodes) */
	int32_t *positions; /* (n_nodes) depth in the tree = position in the sequence */
	struct spar_segment *segments;
	size_t n_segments;
	size_t n_targets;
	int32_t *target_node; /* (n_targets) ascending: the node whose hidden state predicts */
	int32_t *target_id;   /* (n_targets) the token predicted */
	size_t n_refs;        /* loss tokens of all sequences, in the order they were added */
	int32_t *ref_target;  /* (n_refs) index of the target this loss token reads */
	size_t n_tokens_in;   /* tokens before sharing: the work that sharing saved is n_tokens_in - n_nodes */
};

struct spar_pack_builder; /* opaque */
struct spar_pack_builder *spar_pack_begin(void);

/*! Add a sequence of n tokens of which those with mask[i] != 0 (i >= 1) are loss tokens: each becomes a ref, in order.
 *  Nodes that no target needs (behind the last loss token) are not made. Returns the index of its first ref. */
size_t spar_pack_add(struct spar_pack_builder *b, const int32_t *ids, const uint8_t *mask, size_t n);

/*! Distinct nodes so far: what a micro-batch budget is measured in. */
size_t spar_pack_nodes(const struct spar_pack_builder *b);

/*! Lay out; consumes the builder. share = 0 keeps every sequence on its own (the slow twin for tests). */
struct spar_pack *spar_pack_end(struct spar_pack_builder *b, int share);
void spar_pack_free(struct spar_pack *p);

#endif
