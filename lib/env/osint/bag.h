/* bag.h - how alike two texts are, by the words they share: for the memory of env-osint's agents. */
#ifndef SPAR_ENV_OSINT_BAG_H
#define SPAR_ENV_OSINT_BAG_H

#include <stddef.h>

/* How often each word occurs, by its hash: words that share a place count as one. Begins as zeros. */
struct spar_osint_bag {
	double counts[256];
};

/*! Count the words (token.h) of a text too, whatever their case. */
void spar_osint_bag_add(struct spar_osint_bag *bag, const char *text, size_t n);

/*! Cosine of two bags: 0 (no word in common, or none at all) to 1. */
double spar_osint_bag_cosine(const struct spar_osint_bag *a, const struct spar_osint_bag *b);

#endif
