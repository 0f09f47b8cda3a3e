/* json.h - a strict scanner of JSON text (RFC 8259). It only finds where values begin and end; values are read by libjq.
 * libjq accepts NaN, rounds integers and cannot say where a key stood: this can. Linear time, no allocation. */
#ifndef SPAR_BASE_JSON_H
#define SPAR_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>

/*! Scan the one value that starts at text[0] (no blanks before it). Returns its length in bytes, or 0 with *what set to a
 *  short reason ("unexpected end", "bad number", "nested deeper than 256", ...) and *at to the offset. Strings must be
 *  valid UTF-8 unless `any_bytes`; lone surrogate escapes are let pass. `what` and `at` may be NULL. */
size_t spar_json_skip(const char *text, size_t n, int max_depth, bool any_bytes, const char **what, size_t *at);

/* Walk over the top-level members of an object without building it.
 *	struct spar_json_members m;
 *	spar_json_members_init(&m, text, n);            // text[0] must be '{' and the object valid (skip it first)
 *	while (spar_json_members_next(&m)) ... m.key, m.key_len (raw, between the quotes), m.value, m.value_len
 */
struct spar_json_members {
	const char *text;
	size_t n, pos;
	const char *key, *value;
	size_t key_len, value_len;
};
void spar_json_members_init(struct spar_json_members *m, const char *object, size_t n);
bool spar_json_members_next(struct spar_json_members *m);

#endif
