/* token.h - the words of a text as env-osint sees them: runs of letters, digits and underscores, so that user_1 is no
 * part of user_12. */
#ifndef SPAR_ENV_OSINT_TOKEN_H
#define SPAR_ENV_OSINT_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

struct spar_osint_token {
	const char *text; /* what is left */
	size_t n;
	const char *at; /* the token; borrowed */
	size_t len;
};

static inline bool spar_osint_token_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/*! False at the end of the text. */
static inline bool spar_osint_token_next(struct spar_osint_token *t)
{
	while (t->n && !spar_osint_token_byte(*t->text))
		t->text++, t->n--;
	t->at = t->text;
	while (t->n && spar_osint_token_byte(*t->text))
		t->text++, t->n--;
	t->len = (size_t)(t->text - t->at);
	return t->len > 0;
}

#endif
