#include "text/charsmap.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

#define VALUE (UINT32_C(1) << 31)

/* The six bits of a base64 digit; -1: it is none. */
static int digit(char c)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c ? strchr(digits, c) : NULL;
	return at ? (int)(at - digits) : -1;
}

static int decode(const char *s, size_t n, struct spar_str *out, struct spar_err *err)
{
	uint32_t bits = 0;
	while (n && s[n - 1] == '=')
		n--;
	for (size_t i = 0; i < n; i++) {
		int d = digit(s[i]);
		if (d < 0)
			return spar_fail(err, SPAR_INPUT, "not base64");
		bits = bits << 6 | (uint32_t)d;
		if (i % 4)
			spar_str_addc(out, (char)(bits >> (6 - i % 4 * 2)));
	}
	return 0;
}

static uint32_t number_at(const char *s)
{
	const uint8_t *b = (const uint8_t *)s;
	return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static int read_table(struct spar_charsmap *m, const struct spar_str *bytes, struct spar_err *err)
{
	size_t trie = bytes->len < 4 ? 0 : number_at(bytes->data);
	if (!trie || trie % 4 || trie > bytes->len - 4)
		return spar_fail(err, SPAR_INPUT, "a trie of %zu bytes in a table of %zu", trie, bytes->len);
	m->n_units = trie / 4;
	m->size = bytes->len - 4 - trie;
	m->units = spar_calloc(m->n_units, sizeof *m->units);
	m->texts = spar_calloc(m->size + 1, 1);
	memcpy(m->texts, bytes->data + 4 + trie, m->size);
	for (size_t i = 0; i < m->n_units; i++) {
		m->units[i] = number_at(bytes->data + 4 + 4 * i);
		if (m->units[i] & VALUE && (m->units[i] & ~VALUE) > m->size)
			return spar_fail(err, SPAR_INPUT, "a text at byte %u of %zu", m->units[i] & ~VALUE, m->size);
	}
	return 0;
}

int spar_charsmap_load(struct spar_charsmap *m, const char *base64, size_t n, struct spar_err *err)
{
	struct spar_str bytes = SPAR_STR_INIT;
	int rc = decode(base64, n, &bytes, err);
	if (rc == 0)
		rc = read_table(m, &bytes, err);
	spar_str_release(&bytes);
	return rc;
}

void spar_charsmap_release(struct spar_charsmap *m)
{
	free(m->units);
	free(m->texts);
}

static size_t offset(uint32_t unit)
{
	return (size_t)(unit >> 10) << (unit >> 6 & 8);
}

const char *spar_charsmap_find(const struct spar_charsmap *m, const char *s, size_t n)
{
	size_t at = offset(m->units[0]);
	for (size_t i = 0; i < n && s[i]; i++) {
		uint8_t byte = (uint8_t)s[i];
		at ^= byte;
		if (at >= m->n_units || (m->units[at] & (VALUE | 0xFF)) != byte)
			return NULL;
		uint32_t unit = m->units[at];
		at ^= offset(unit);
		if (unit >> 8 & 1)
			return at < m->n_units && m->units[at] & VALUE ? m->texts + (m->units[at] & ~VALUE) : NULL;
	}
	return NULL;
}
