/* chars.h - characters of well-formed UTF-8 and the classes that tokenizers ask for. Internal to lib/text. */
#ifndef SPAR_TEXT_CHARS_H
#define SPAR_TEXT_CHARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool spar_char_is_space(int32_t c); /* Unicode's White_Space */
bool spar_char_is_word(int32_t c);  /* \w of Unicode's UTS 18: alphabetic, mark, decimal, connector, joiner */

/*! The character that starts at text[at], at < n; its length in bytes. */
size_t spar_char_at(const char *text, size_t n, size_t at, int32_t *c);
/*! Where the character that ends at text[at], at > 0, starts. */
size_t spar_char_before(const char *text, size_t at, int32_t *c);

#endif
