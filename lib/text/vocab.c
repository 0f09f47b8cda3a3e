#include "text/vocab.h"
#include "text/chars.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the byte-level alphabet: a printable character stands for each byte ---- */

static bool is_printable(int byte)
{
	return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

/* The byte a character stands for, or -1. Printable bytes stand for themselves; the n-th other byte is U+0100 + n. */
static int byte_of(int32_t c)
{
	if (c < 0x100)
		return is_printable(c) ? c : -1;
	int nth = c - 0x100;
	for (int byte = 0; byte < 0x100; byte++)
		if (!is_printable(byte) && nth-- == 0)
			return byte;
	return -1;
}

bool spar_vocab_read(const struct spar_vocab *v, const char *s, size_t n, struct spar_str *out)
{
	size_t before = out->len;
	if (!v->byte_level)
		spar_str_add(out, s, n);
	for (size_t i = 0; v->byte_level && i < n;) {
		int32_t c;
		i += spar_char_at(s, n, i, &c);
		int byte = byte_of(c);
		if (byte < 0) {
			out->len = before;
			return false;
		}
		spar_str_addc(out, byte);
	}
	return n > 0;
}

/* ---- by text: open addressing, at least twice as large as what goes in ---- */

static size_t hash_bytes(const char *s, size_t n)
{
	uint64_t h = 0xCBF29CE484222325; /* FNV-1a */
	for (size_t i = 0; i < n; i++)
		h = (h ^ (uint8_t)s[i]) * 0x100000001B3;
	return (size_t)(h ^ h >> 32);
}

/* The slot that holds these bytes, or the free one where they belong. */
static int32_t *text_slot(const struct spar_vocab *v, const char *s, size_t n)
{
	for (size_t i = hash_bytes(s, n);; i++) {
		int32_t *slot = &v->by_text[i & (v->n_by_text - 1)];
		if (*slot < 0)
			return slot;
		const struct spar_vocab_token *t = &v->tokens[*slot];
		if (t->len == n && !memcmp(v->bytes.data + t->begin, s, n))
			return slot;
	}
}

int32_t spar_vocab_id(const struct spar_vocab *v, const char *bytes, size_t n)
{
	return *text_slot(v, bytes, n);
}

int spar_vocab_add(struct spar_vocab *v, const char *s, size_t n, int32_t id, struct spar_err *err)
{
	if ((size_t)id >= v->cap) {
		size_t more = (size_t)id + 1 + (size_t)id / 2;
		v->tokens = spar_realloc(v->tokens, more * sizeof *v->tokens);
		memset(v->tokens + v->cap, 0, (more - v->cap) * sizeof *v->tokens);
		v->cap = more;
	}
	struct spar_vocab_token *t = &v->tokens[id];
	if (t->there)
		return spar_fail(err, SPAR_INPUT, ".model.vocab: id %d is given twice", (int)id);
	t->there = true;
	t->begin = v->bytes.len;
	t->in_words = spar_vocab_read(v, s, n, &v->bytes);
	if (!t->in_words)
		spar_str_add(&v->bytes, s, n);
	t->len = v->bytes.len - t->begin;
	if ((size_t)id >= v->n)
		v->n = (size_t)id + 1;
	return 0;
}

void spar_vocab_index(struct spar_vocab *v)
{
	v->n_by_text = 16;
	while (v->n_by_text < 2 * v->n)
		v->n_by_text *= 2;
	v->by_text = spar_malloc(v->n_by_text * sizeof *v->by_text);
	memset(v->by_text, 0xFF, v->n_by_text * sizeof *v->by_text);
	for (size_t i = 0; i < v->n; i++)
		if (v->tokens[i].in_words)
			*text_slot(v, v->bytes.data + v->tokens[i].begin, v->tokens[i].len) = (int32_t)i;
	for (int byte = 0; byte < 256; byte++) {
		char name[8] = {(char)byte};
		int n = v->byte_level ? 1 : snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
		v->of_byte[byte] = spar_vocab_id(v, name, (size_t)n);
	}
}

void spar_vocab_release(struct spar_vocab *v)
{
	if (v->bytes.data)
		spar_str_release(&v->bytes);
	free(v->tokens);
	free(v->by_text);
}
