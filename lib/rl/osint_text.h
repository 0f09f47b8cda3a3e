/* osint_text.h - how the studied original reads what a model wrote (profile `reference`): any object anywhere in the text, an
 * answer out of any text, numbers out of words. Linear in the text, never fails; nothing deeper than 64 is an object. */
#ifndef SPAR_RL_OSINT_TEXT_H
#define SPAR_RL_OSINT_TEXT_H

#include "base/str.h"
#include "env/osint/reference.h"
#include <jv.h>

/*! Of all objects in the text, inner ones too, the first with most of `keys` (NULL-terminated). A NEW reference; invalid
 *  if there is none. */
jv spar_osint_text_object(const char *text, size_t n, const char *const *keys);

/*! Append the answer as the original finds it: a member "answer", else what follows "answer:" or "answer =", else the last
 *  line that is not blank; normalised. */
void spar_osint_text_answer(const char *text, size_t n, struct spar_str *out);

/*! What it pays for the looks of an invalid text: braces, brackets, quoted keys, words and length; 0 to 0.25. */
double spar_osint_text_signal(const char *text, size_t n);

/*! The next word ([A-Za-z0-9_]+) from *at on: its length, 0 at the end. */
size_t spar_osint_text_word(const char *text, size_t n, size_t *at);

/*! Size of the intersection over that of the union of the words of two texts, in lower case; both empty: 1. */
double spar_osint_text_jaccard(const char *a, const char *b);

/*! Telemetry in an `orchestrator` object (borrowed; any kind): words count by the number in them, null by the default. */
struct spar_osint_telemetry spar_osint_text_telemetry(jv orchestrator);

/*! The edges in an array (borrowed; any kind), at most `most`: those with non-empty names. They point into it; the caller
 *  frees the array. */
size_t spar_osint_text_edges(jv rows, size_t most, struct spar_osint_triple **out);

#endif
