/* charsmap.h - SentencePiece's table of replacements, as the Precompiled normalizer carries it. Internal to lib/text.
 *
 * The table is base64 of: the size of a trie in bytes (uint32), the trie, and what to put for the strings in it: texts, each
 * ended by a zero byte. The trie is a double array of uint32 units, as the darts-clone library lays them out: from a unit at
 * `at`, byte b leads to the one at (at ^ offset ^ b), if the label of that is b. Bits of a unit: 0-7 its label, 8 whether the
 * unit at (at ^ offset) holds a value, 9 whether the offset, 10-31, is to be shifted by eight more. A unit that holds a value has
 * bit 31 set, so that no byte leads to it, and the place of its text below. All numbers are little-endian.
 */
#ifndef SPAR_TEXT_CHARSMAP_H
#define SPAR_TEXT_CHARSMAP_H

#include "base/err.h"
#include <stddef.h>
#include <stdint.h>

struct spar_charsmap {
	uint32_t *units;
	size_t n_units;
	char *texts; /* (size), the last one ended too */
	size_t size;
};

/*! Read a table. Errors name no place, that is the caller's. Release `m` also after a failure; it must start as {0}. */
int spar_charsmap_load(struct spar_charsmap *m, const char *base64, size_t n, struct spar_err *err);
void spar_charsmap_release(struct spar_charsmap *m);

/*! The text to put for the shortest string of the table that s[0..n) begins with; NULL: none. Borrowed. */
const char *spar_charsmap_find(const struct spar_charsmap *m, const char *s, size_t n);

#endif
