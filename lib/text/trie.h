/* trie.h - a set of byte strings with a number for each, walked byte by byte. Internal to lib/text.
 *
 *	struct spar_trie t = {0};
 *	spar_trie_add(&t, "abc", 3, 7);
 *	for (int32_t node = 0; i < n && (node = spar_trie_step(&t, node, text[i++])) >= 0;)
 *		if (spar_trie_value(&t, node) >= 0) ...     // text up to i is in the set
 *	spar_trie_release(&t);
 * Node 0 is the empty string. Thread-safe once filled.
 */
#ifndef SPAR_TEXT_TRIE_H
#define SPAR_TEXT_TRIE_H

#include <stddef.h>
#include <stdint.h>

struct spar_trie {
	struct spar_trie_edge {
		uint64_t from; /* node << 8 | byte, UINT64_MAX: a free slot */
		int32_t to;
	} * edges; /* hash table, a power of two, at most half full */
	size_t n_slots, n_nodes, cap;
	int32_t *values; /* (n_nodes) -1: only a prefix */
};

void spar_trie_add(struct spar_trie *t, const char *s, size_t n, int32_t value); /* the last one counts; n > 0 */
int32_t spar_trie_step(const struct spar_trie *t, int32_t node, char byte);      /* -1: no string goes on so */
int32_t spar_trie_value(const struct spar_trie *t, int32_t node);
void spar_trie_release(struct spar_trie *t);

#endif
