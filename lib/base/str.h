/* str.h - a growing byte string. Always NUL-terminated at data[len] (NULs inside are allowed and counted).
 *
 *	struct spar_str s = SPAR_STR_INIT;
 *	spar_str_add(&s, "abc", 3);
 *	spar_str_release(&s);
 */
#ifndef SPAR_BASE_STR_H
#define SPAR_BASE_STR_H

#include "base/err.h"
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct spar_str {
	char *data; /* never NULL; points to a static "" while empty and unallocated */
	size_t len; /* bytes, without the NUL */
	size_t cap; /* bytes allocated; 0 while data is static */
};
extern char spar_str_empty[];
/* clang-format off */
#define SPAR_STR_INIT {spar_str_empty, 0, 0}
/* clang-format on */

void spar_str_init(struct spar_str *s);
void spar_str_release(struct spar_str *s);              /* frees, leaves it initialised */
void spar_str_clear(struct spar_str *s);                /* len = 0, keeps the memory */
void spar_str_reserve(struct spar_str *s, size_t more); /* room for `more` bytes behind len */
void spar_str_add(struct spar_str *s, const void *bytes, size_t n);
void spar_str_adds(struct spar_str *s, const char *cstr);
void spar_str_addc(struct spar_str *s, int c);
void spar_str_addf(struct spar_str *s, const char *fmt, ...) SPAR_PRINTF(2, 3);
char *spar_str_detach(struct spar_str *s); /* the caller frees; s is empty again */

/*! Length in bytes of the character that starts at s[0], n >= 1: 1 to 4 and *ok true when it is well-formed UTF-8; else
 *  *ok false and the length of the maximal bad part (what one U+FFFD stands for). */
size_t spar_utf8_step(const char *s, size_t n, bool *ok);

/*! Append `n` bytes as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD (one for each maximal bad
 *  part); control characters and DEL are escaped; everything else is written as it is. */
void spar_str_add_json(struct spar_str *s, const void *bytes, size_t n);

/*! Append a finite double in the shortest form that reads back equal ("%.17g" at worst; whole numbers without ".0").
 *  A non-finite value appends null: it is the caller's fault to let one come here. */
void spar_str_add_double(struct spar_str *s, double v);

/*! Append a finite float in the shortest form that reads back equal as a float ("%.9g" at worst). */
void spar_str_add_float(struct spar_str *s, float v);

#endif
