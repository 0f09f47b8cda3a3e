/* bag.c - see bag.h */
#include "env/osint/bag.h"
#include "env/osint/token.h"
#include <math.h>
#include <stdint.h>

enum { PLACES = sizeof(struct spar_osint_bag) / sizeof(double) };

void spar_osint_bag_add(struct spar_osint_bag *bag, const char *text, size_t n)
{
	struct spar_osint_token t = {text, n, NULL, 0};
	while (spar_osint_token_next(&t)) {
		uint32_t h = 2166136261u; /* FNV-1a */
		for (size_t i = 0; i < t.len; i++) {
			char c = t.at[i];
			h = (h ^ (unsigned char)(c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c)) * 16777619u;
		}
		bag->counts[h % PLACES]++;
	}
}

double spar_osint_bag_cosine(const struct spar_osint_bag *a, const struct spar_osint_bag *b)
{
	double dot = 0, aa = 0, bb = 0;
	for (int i = 0; i < PLACES; i++) {
		dot += a->counts[i] * b->counts[i];
		aa += a->counts[i] * a->counts[i];
		bb += b->counts[i] * b->counts[i];
	}
	return aa > 0 && bb > 0 ? dot / sqrt(aa * bb) : 0;
}
