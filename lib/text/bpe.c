#include "text/bpe.h"
#include "record/record.h"
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* ---- the byte-level alphabet: a printable character stands for each byte ---- */

static bool is_printable(int byte)
{
	return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

/* The byte a character stands for, or -1. Printable bytes stand for themselves; the n-th other byte is U+0100 + n. */
static int byte_of(utf8proc_int32_t c)
{
	if (c < 0x100)
		return is_printable(c) ? c : -1;
	int nth = c - 0x100;
	for (int byte = 0; byte < 0x100; byte++)
		if (!is_printable(byte) && nth-- == 0)
			return byte;
	return -1;
}

/* Read a token as written in the file, appended to `out` as bytes; false (and nothing appended) if a character is not of
 * the alphabet. */
static bool read_byte_level(const char *s, size_t n, struct spar_str *out)
{
	size_t before = out->len;
	for (size_t i = 0; i < n;) {
		utf8proc_int32_t c;
		utf8proc_ssize_t step =
		    utf8proc_iterate((const utf8proc_uint8_t *)s + i, (utf8proc_ssize_t)(n - i), &c);
		int byte = step > 0 ? byte_of(c) : -1;
		if (byte < 0) {
			out->len = before;
			return false;
		}
		spar_str_addc(out, byte);
		i += (size_t)step;
	}
	return true;
}

/* ---- hash tables: open addressing, a power of two at least twice as large as what goes in ---- */

static size_t table_size(size_t n)
{
	size_t size = 16;
	while (size < 2 * n)
		size *= 2;
	return size;
}

static size_t hash_bytes(const char *s, size_t n)
{
	uint64_t h = 0xCBF29CE484222325; /* FNV-1a */
	for (size_t i = 0; i < n; i++)
		h = (h ^ (uint8_t)s[i]) * 0x100000001B3;
	return (size_t)(h ^ h >> 32);
}

static size_t hash_pair(uint64_t pair)
{
	pair *= 0x9E3779B97F4A7C15; /* 2^64 over the golden ratio: Fibonacci hashing */
	return (size_t)(pair ^ pair >> 32);
}

/* The slot that holds these bytes, or the free one where they belong. */
static int32_t *text_slot(const struct spar_bpe *b, const char *s, size_t n)
{
	for (size_t i = hash_bytes(s, n);; i++) {
		int32_t *slot = &b->by_text[i & (b->n_by_text - 1)];
		if (*slot < 0)
			return slot;
		const struct spar_bpe_token *t = &b->tokens[*slot];
		if (t->len == n && !memcmp(b->bytes.data + t->begin, s, n))
			return slot;
	}
}

static struct spar_bpe_merge *merge_slot(const struct spar_bpe *b, uint64_t pair)
{
	for (size_t i = hash_pair(pair);; i++) {
		struct spar_bpe_merge *slot = &b->merges[i & (b->n_merges - 1)];
		if (slot->pair == pair || slot->pair == UINT64_MAX)
			return slot;
	}
}

int32_t spar_bpe_id(const struct spar_bpe *b, const char *bytes, size_t n)
{
	return *text_slot(b, bytes, n);
}

/* ---- loading ---- */

static int vocab_id(jv id, const char *token, int32_t *out, struct spar_err *err)
{
	double v = jv_get_kind(id) == JV_KIND_NUMBER ? jv_number_value(id) : -1;
	if (!(v >= 0 && v < SPAR_TOKEN_MAX) || v != (int32_t)v)
		return spar_fail(err, SPAR_INPUT, ".model.vocab: the id of '%s' is not a whole number in [0, %d)",
				 token, (int)SPAR_TOKEN_MAX);
	*out = (int32_t)v;
	return 0;
}

static int add_token(struct spar_bpe *b, const char *s, size_t n, int32_t id, size_t *cap, struct spar_err *err)
{
	if ((size_t)id >= *cap) {
		size_t more = (size_t)id + 1 + (size_t)id / 2;
		b->tokens = spar_realloc(b->tokens, more * sizeof *b->tokens);
		memset(b->tokens + *cap, 0, (more - *cap) * sizeof *b->tokens);
		*cap = more;
	}
	struct spar_bpe_token *t = &b->tokens[id];
	if (t->there)
		return spar_fail(err, SPAR_INPUT, ".model.vocab: id %d is given twice", (int)id);
	t->there = true;
	t->begin = b->bytes.len;
	t->byte_level = n && read_byte_level(s, n, &b->bytes);
	if (!t->byte_level)
		spar_str_add(&b->bytes, s, n);
	t->len = b->bytes.len - t->begin;
	if ((size_t)id >= b->n_tokens)
		b->n_tokens = (size_t)id + 1;
	return 0;
}

static int load_vocab(struct spar_bpe *b, jv model, struct spar_err *err)
{
	jv vocab;
	if (spar_get_kind(model, "model", "vocab", JV_KIND_OBJECT, &vocab, err) < 0)
		return -err->code;
	size_t cap = 0;
	int rc = 0;
	for (int i = jv_object_iter(vocab); rc == 0 && jv_object_iter_valid(vocab, i);
	     i = jv_object_iter_next(vocab, i)) {
		jv key = jv_object_iter_key(vocab, i), value = jv_object_iter_value(vocab, i);
		int32_t id = -1;
		rc = vocab_id(value, jv_string_value(key), &id, err);
		if (rc == 0)
			rc = add_token(b, jv_string_value(key), (size_t)jv_string_length_bytes(jv_copy(key)), id, &cap,
				       err);
		jv_free(value);
		jv_free(key);
	}
	jv_free(vocab);
	if (rc < 0)
		return rc;
	b->n_by_text = table_size(b->n_tokens);
	b->by_text = spar_malloc(b->n_by_text * sizeof *b->by_text);
	memset(b->by_text, 0xFF, b->n_by_text * sizeof *b->by_text);
	for (size_t i = 0; i < b->n_tokens; i++)
		if (b->tokens[i].byte_level)
			*text_slot(b, b->bytes.data + b->tokens[i].begin, b->tokens[i].len) = (int32_t)i;
	for (int byte = 0; byte < 256; byte++)
		b->of_byte[byte] = spar_bpe_id(b, (char[]){(char)byte}, 1);
	return 0;
}

/* The two halves of a merge, "a b" or ["a","b"], as byte strings: the left one is the first *left bytes of `out`. */
static bool merge_halves(jv merge, struct spar_str *out, size_t *left)
{
	spar_str_clear(out);
	if (jv_get_kind(merge) == JV_KIND_STRING) {
		const char *s = jv_string_value(merge), *blank = strchr(s, ' ');
		if (!blank || strchr(blank + 1, ' ') || !read_byte_level(s, (size_t)(blank - s), out))
			return false;
		*left = out->len;
		return read_byte_level(blank + 1, strlen(blank + 1), out);
	}
	if (jv_get_kind(merge) != JV_KIND_ARRAY || jv_array_length(jv_copy(merge)) != 2)
		return false;
	bool ok = true;
	for (int half = 0; half < 2; half++) {
		jv s = jv_array_get(jv_copy(merge), half);
		*left = half ? *left : 0;
		ok = ok && jv_get_kind(s) == JV_KIND_STRING &&
		     read_byte_level(jv_string_value(s), (size_t)jv_string_length_bytes(jv_copy(s)), out);
		if (!half)
			*left = out->len;
		jv_free(s);
	}
	return ok;
}

static int load_merges(struct spar_bpe *b, jv model, struct spar_err *err)
{
	jv merges;
	if (spar_get_kind(model, "model", "merges", JV_KIND_ARRAY, &merges, err) < 0)
		return -err->code;
	int n = jv_array_length(jv_copy(merges)), rc = 0;
	b->n_merges = table_size((size_t)n);
	b->merges = spar_malloc(b->n_merges * sizeof *b->merges);
	for (size_t i = 0; i < b->n_merges; i++)
		b->merges[i].pair = UINT64_MAX;
	struct spar_str text = SPAR_STR_INIT;
	for (int i = 0; rc == 0 && i < n; i++) {
		jv merge = jv_array_get(jv_copy(merges), i);
		size_t at = 0;
		if (!merge_halves(merge, &text, &at)) {
			rc = spar_fail(err, SPAR_INPUT, ".model.merges[%d]: not two byte-level tokens", i);
		} else {
			int32_t left = spar_bpe_id(b, text.data, at),
				right = spar_bpe_id(b, text.data + at, text.len - at);
			int32_t both = spar_bpe_id(b, text.data, text.len);
			if (left < 0 || right < 0 || both < 0)
				rc = spar_fail(err, SPAR_INPUT,
					       ".model.merges[%d]: a token of it is not in the vocabulary", i);
			else {
				uint64_t pair = (uint64_t)left << 32 | (uint64_t)right;
				*merge_slot(b, pair) = (struct spar_bpe_merge){pair, (uint32_t)i, both};
			}
		}
		jv_free(merge);
	}
	spar_str_release(&text);
	jv_free(merges);
	return rc;
}

/* Options that would change the ids and that nothing here honours: named, not passed over. */
static int refuse_options(jv model, struct spar_err *err)
{
	static const char *const unsupported[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix",
						  "byte_fallback"};
	for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++) {
		jv v = jv_object_get(jv_copy(model), jv_string(unsupported[i]));
		jv_kind kind = jv_get_kind(v);
		bool off = kind == JV_KIND_INVALID || kind == JV_KIND_NULL || kind == JV_KIND_FALSE ||
			   (kind == JV_KIND_NUMBER && jv_number_value(v) == 0) ||
			   (kind == JV_KIND_STRING && !*jv_string_value(v));
		jv_free(v);
		if (!off)
			return spar_fail(err, SPAR_INPUT, ".model.%s: not supported", unsupported[i]);
	}
	return 0;
}

int spar_bpe_load(struct spar_bpe *b, jv model, struct spar_err *err)
{
	spar_str_init(&b->bytes);
	b->unk = -1;
	const char *type = "BPE", *unk = NULL;
	size_t len;
	if (spar_has(model, "type") && spar_get_str(model, "model", "type", &type, &len, err) < 0)
		return -err->code;
	if (strcmp(type, "BPE") != 0)
		return spar_fail(err, SPAR_INPUT, ".model.type: %s is not supported", type);
	if (refuse_options(model, err) < 0 || load_vocab(b, model, err) < 0 || load_merges(b, model, err) < 0)
		return -err->code;
	if (spar_has(model, "ignore_merges") &&
	    spar_get_bool(model, "model", "ignore_merges", &b->ignore_merges, err) < 0)
		return -err->code;
	if (spar_has(model, "fuse_unk") && spar_get_bool(model, "model", "fuse_unk", &b->fuse_unk, err) < 0)
		return -err->code;
	if (!spar_has(model, "unk_token"))
		return 0;
	if (spar_get_str(model, "model", "unk_token", &unk, &len, err) < 0)
		return -err->code;
	b->unk = spar_bpe_id(b, unk, len);
	return b->unk < 0 ? spar_fail(err, SPAR_INPUT, ".model.unk_token: '%s' is not in the vocabulary", unk) : 0;
}

void spar_bpe_release(struct spar_bpe *b)
{
	if (b->bytes.data)
		spar_str_release(&b->bytes);
	free(b->tokens);
	free(b->by_text);
	free(b->merges);
}

/* ---- merging a word ---- */

struct spar_bpe_symbol {
	int32_t id;
	int32_t prev, next; /* places of the neighbours, -1: none */
};

void spar_bpe_work_release(struct spar_bpe_work *w)
{
	free(w->symbols);
	free(w->heap);
	*w = (struct spar_bpe_work){0};
}

/* The heap holds candidates, rank << 32 | place of the left symbol, least first: lowest rank, then leftmost. A candidate
 * whose symbols were merged away meanwhile is recognised and dropped when it comes up. */
static void heap_push(struct spar_bpe_work *w, uint64_t value)
{
	size_t i = w->n_heap++;
	for (; i && w->heap[(i - 1) / 2] > value; i = (i - 1) / 2)
		w->heap[i] = w->heap[(i - 1) / 2];
	w->heap[i] = value;
}

static uint64_t heap_pop(struct spar_bpe_work *w)
{
	uint64_t top = w->heap[0], last = w->heap[--w->n_heap];
	size_t i = 0, child;
	while ((child = 2 * i + 1) < w->n_heap) {
		if (child + 1 < w->n_heap && w->heap[child + 1] < w->heap[child])
			child++;
		if (w->heap[child] >= last)
			break;
		w->heap[i] = w->heap[child];
		i = child;
	}
	w->heap[i] = last;
	return top;
}

/* The merge of the symbol at `at` with the next one, NULL: none. */
static const struct spar_bpe_merge *merge_at(const struct spar_bpe *b, const struct spar_bpe_symbol *s, int32_t at)
{
	if (at < 0 || s[at].id < 0 || s[at].next < 0)
		return NULL;
	uint64_t pair = (uint64_t)s[at].id << 32 | (uint64_t)s[s[at].next].id;
	const struct spar_bpe_merge *m = merge_slot(b, pair);
	return m->pair == pair ? m : NULL;
}

static void offer(const struct spar_bpe *b, struct spar_bpe_work *w, int32_t at)
{
	const struct spar_bpe_merge *m = merge_at(b, w->symbols, at);
	if (m)
		heap_push(w, (uint64_t)m->rank << 32 | (uint64_t)at);
}

static void reserve(struct spar_bpe_work *w, size_t n)
{
	if (n <= w->cap)
		return;
	w->cap = n + n / 2;
	w->symbols = spar_realloc(w->symbols, w->cap * sizeof *w->symbols);
	w->heap =
	    spar_realloc(w->heap, 3 * w->cap * sizeof *w->heap); /* n - 1 at first, two for each of n - 1 merges */
}

void spar_bpe_word(const struct spar_bpe *b, struct spar_bpe_work *w, const char *word, size_t n, struct spar_ids *out)
{
	int32_t whole = b->ignore_merges || n == 1 ? spar_bpe_id(b, word, n) : -1;
	if (whole >= 0) {
		spar_ids_add(out, &whole, 1);
		return;
	}
	reserve(w, n);
	struct spar_bpe_symbol *s = w->symbols;
	int32_t len = 0;
	for (size_t i = 0; i < n; i++) {
		int32_t id = b->of_byte[(uint8_t)word[i]];
		if (id < 0 && (b->unk < 0 || (b->fuse_unk && len && s[len - 1].id == b->unk)))
			continue;
		s[len] = (struct spar_bpe_symbol){id < 0 ? b->unk : id, len - 1, len + 1};
		len++;
	}
	if (!len)
		return;
	s[len - 1].next = -1;
	w->n_heap = 0;
	for (int32_t i = 0; i < len; i++)
		offer(b, w, i);
	while (w->n_heap) {
		uint64_t top = heap_pop(w);
		int32_t at = (int32_t)(top & UINT32_MAX);
		const struct spar_bpe_merge *m = merge_at(b, s, at);
		if (!m || m->rank != top >> 32)
			continue;
		int32_t gone = s[at].next;
		s[at].id = m->id;
		s[at].next = s[gone].next;
		s[gone].id = -1;
		if (s[at].next >= 0)
			s[s[at].next].prev = at;
		offer(b, w, s[at].prev);
		offer(b, w, at);
	}
	for (int32_t at = 0; at >= 0; at = s[at].next)
		spar_ids_add(out, &s[at].id, 1);
}
