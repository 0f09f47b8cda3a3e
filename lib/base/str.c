#include "base/str.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char spar_str_empty[] = "";

void spar_str_init(struct spar_str *s)
{
	*s = (struct spar_str)SPAR_STR_INIT;
}

void spar_str_release(struct spar_str *s)
{
	if (s->cap)
		free(s->data);
	spar_str_init(s);
}

void spar_str_clear(struct spar_str *s)
{
	s->len = 0;
	if (s->cap)
		s->data[0] = 0;
}

void spar_str_reserve(struct spar_str *s, size_t more)
{
	if (s->cap - s->len > more) /* one byte stays for the NUL */
		return;
	size_t cap = s->cap + s->cap / 2 + 32;
	if (cap < s->len + more + 1)
		cap = s->len + more + 1;
	s->data = spar_realloc(s->cap ? s->data : NULL, cap);
	s->data[s->len] = 0;
	s->cap = cap;
}

void spar_str_add(struct spar_str *s, const void *bytes, size_t n)
{
	if (!n)
		return;
	spar_str_reserve(s, n);
	memcpy(s->data + s->len, bytes, n);
	s->len += n;
	s->data[s->len] = 0;
}

void spar_str_adds(struct spar_str *s, const char *cstr)
{
	spar_str_add(s, cstr, strlen(cstr));
}

void spar_str_addc(struct spar_str *s, int c)
{
	char byte = (char)c;
	spar_str_add(s, &byte, 1);
}

void spar_str_addf(struct spar_str *s, const char *fmt, ...)
{
	va_list ap, again;
	va_start(ap, fmt);
	va_copy(again, ap);
	int n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n > 0) {
		spar_str_reserve(s, (size_t)n);
		vsnprintf(s->data + s->len, (size_t)n + 1, fmt, again);
		s->len += (size_t)n;
	}
	va_end(again);
}

char *spar_str_detach(struct spar_str *s)
{
	spar_str_reserve(s, 0);
	char *data = s->data;
	spar_str_init(s);
	return data;
}

/* Well-formed sequences: Unicode 15, table 3-7. The first byte gives the length and the range of the second. */
size_t spar_utf8_step(const char *s, size_t n, bool *ok)
{
	const uint8_t *p = (const uint8_t *)s;
	uint8_t low = 0x80, high = 0xBF;
	size_t len;
	*ok = false;
	if (p[0] < 0x80) {
		*ok = true;
		return 1;
	}
	if (p[0] >= 0xC2 && p[0] <= 0xDF) {
		len = 2;
	} else if ((p[0] & 0xF0) == 0xE0) {
		len = 3;
		low = p[0] == 0xE0 ? 0xA0 : 0x80;
		high = p[0] == 0xED ? 0x9F : 0xBF;
	} else if (p[0] >= 0xF0 && p[0] <= 0xF4) {
		len = 4;
		low = p[0] == 0xF0 ? 0x90 : 0x80;
		high = p[0] == 0xF4 ? 0x8F : 0xBF;
	} else {
		return 1;
	}
	for (size_t i = 1; i < len; i++) {
		if (i == n || p[i] < low || p[i] > high)
			return i;
		low = 0x80;
		high = 0xBF;
	}
	*ok = true;
	return len;
}

static void add_escape(struct spar_str *s, unsigned char c)
{
	static const char letters[] = {
	    ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r', ['"'] = '"', ['\\'] = '\\'};
	if (c < sizeof letters && letters[c])
		spar_str_add(s, (char[]){'\\', letters[c]}, 2);
	else
		spar_str_addf(s, "\\u%04x", c);
}

void spar_str_add_json(struct spar_str *s, const void *bytes, size_t n)
{
	const char *p = bytes;
	size_t plain = 0, i = 0; /* p[plain..i) needs no change and is not written yet */
	spar_str_reserve(s, n + 2);
	spar_str_addc(s, '"');
	while (i < n) {
		unsigned char c = (unsigned char)p[i];
		bool ok = true;
		size_t len = c < 0x80 ? 1 : spar_utf8_step(p + i, n - i, &ok);
		bool escape = c < 0x20 || c == '"' || c == '\\' || c == 0x7F;
		if (ok && !escape) {
			i += len;
			continue;
		}
		spar_str_add(s, p + plain, i - plain);
		if (escape)
			add_escape(s, c);
		else
			spar_str_adds(s, "\xEF\xBF\xBD");
		i += len;
		plain = i;
	}
	spar_str_add(s, p + plain, n - plain);
	spar_str_addc(s, '"');
}

/* %g drops trailing zeros, so the first precision that reads back is the shortest; below the normal range fewer digits
 * than the type's usual ones can do. No tool sets a locale, so the point is a point. */
void spar_str_add_double(struct spar_str *s, double v)
{
	char text[32];
	if (!isfinite(v)) {
		spar_str_adds(s, "null");
		return;
	}
	for (int digits = fabs(v) < DBL_MIN ? 1 : DBL_DIG; digits <= 17; digits++) {
		snprintf(text, sizeof text, "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	spar_str_adds(s, text);
}

void spar_str_add_float(struct spar_str *s, float v)
{
	char text[32];
	if (!isfinite(v)) {
		spar_str_adds(s, "null");
		return;
	}
	for (int digits = fabsf(v) < FLT_MIN ? 1 : FLT_DIG; digits <= 9; digits++) {
		snprintf(text, sizeof text, "%.*g", digits, (double)v);
		if (strtof(text, NULL) == v)
			break;
	}
	spar_str_adds(s, text);
}
