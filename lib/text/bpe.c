#include "text/bpe.h"
#include "record/record.h"
#include "text/chars.h"
#include <stdlib.h>
#include <string.h>

#define INSIDE_BITS 20

static struct spar_bpe_merge *merge_slot(const struct spar_bpe *b, uint64_t pair)
{
	uint64_t h = pair * 0x9E3779B97F4A7C15; /* 2^64 over the golden ratio: Fibonacci hashing */
	for (size_t i = (size_t)(h ^ h >> 32);; i++) {
		struct spar_bpe_merge *slot = &b->merges[i & (b->n_merges - 1)];
		if (slot->pair == pair || slot->pair == UINT64_MAX)
			return slot;
	}
}

/* The place of two neighbouring characters in `inside`. Two pairs may share one: that only forgoes a cut. */
static size_t inside_bit(int32_t left, int32_t right)
{
	uint64_t h = ((uint64_t)left << 32 | (uint32_t)right) * 0x9E3779B97F4A7C15;
	return (size_t)(h >> (64 - INSIDE_BITS));
}

/* The character (a byte under a byte-level vocabulary) at text[at]; its length. */
static size_t unit_at(const struct spar_vocab *v, const char *text, size_t n, size_t at, int32_t *c)
{
	if (!v->byte_level)
		return spar_char_at(text, n, at, c);
	*c = (uint8_t)text[at];
	return 1;
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

static int load_vocab(struct spar_vocab *v, jv model, struct spar_err *err)
{
	jv vocab;
	if (spar_get_kind(model, "model", "vocab", JV_KIND_OBJECT, &vocab, err) < 0)
		return -err->code;
	int rc = 0;
	for (int i = jv_object_iter(vocab); rc == 0 && jv_object_iter_valid(vocab, i);
	     i = jv_object_iter_next(vocab, i)) {
		jv key = jv_object_iter_key(vocab, i), value = jv_object_iter_value(vocab, i);
		int32_t id = -1;
		rc = vocab_id(value, jv_string_value(key), &id, err);
		if (rc == 0)
			rc = spar_vocab_add(v, jv_string_value(key), (size_t)jv_string_length_bytes(jv_copy(key)), id,
					    err);
		jv_free(value);
		jv_free(key);
	}
	jv_free(vocab);
	spar_vocab_index(v);
	return rc;
}

/* The two halves of a merge, "a b" or ["a","b"], as byte strings: the left one is the first *left bytes of `out`. */
static bool merge_halves(const struct spar_vocab *v, jv merge, struct spar_str *out, size_t *left)
{
	spar_str_clear(out);
	if (jv_get_kind(merge) == JV_KIND_STRING) {
		const char *s = jv_string_value(merge), *blank = strchr(s, ' ');
		if (!blank || strchr(blank + 1, ' ') || !spar_vocab_read(v, s, (size_t)(blank - s), out))
			return false;
		*left = out->len;
		return spar_vocab_read(v, blank + 1, strlen(blank + 1), out);
	}
	if (jv_get_kind(merge) != JV_KIND_ARRAY || jv_array_length(jv_copy(merge)) != 2)
		return false;
	bool ok = true;
	for (int half = 0; half < 2; half++) {
		jv s = jv_array_get(jv_copy(merge), half);
		ok = ok && jv_get_kind(s) == JV_KIND_STRING &&
		     spar_vocab_read(v, jv_string_value(s), (size_t)jv_string_length_bytes(jv_copy(s)), out);
		if (!half)
			*left = out->len;
		jv_free(s);
	}
	return ok;
}

static int add_merge(struct spar_bpe *b, jv merge, int rank, struct spar_str *text, struct spar_err *err)
{
	size_t at = 0;
	if (!merge_halves(b->vocab, merge, text, &at))
		return spar_fail(err, SPAR_INPUT, ".model.merges[%d]: not two tokens", rank);
	int32_t left = spar_vocab_id(b->vocab, text->data, at);
	int32_t right = spar_vocab_id(b->vocab, text->data + at, text->len - at);
	int32_t both = spar_vocab_id(b->vocab, text->data, text->len);
	if (left < 0 || right < 0 || both < 0)
		return spar_fail(err, SPAR_INPUT, ".model.merges[%d]: a token of it is not in the vocabulary", rank);
	uint64_t pair = (uint64_t)left << 32 | (uint64_t)right;
	*merge_slot(b, pair) = (struct spar_bpe_merge){pair, (uint32_t)rank, both};
	int32_t before = -1, c;
	for (size_t i = 0; i < text->len; before = c) {
		i += unit_at(b->vocab, text->data, text->len, i, &c);
		size_t bit = inside_bit(before, c);
		b->inside[bit / 8] |= (uint8_t)(1u << bit % 8);
	}
	return 0;
}

static int load_merges(struct spar_bpe *b, jv model, struct spar_err *err)
{
	jv merges;
	if (spar_get_kind(model, "model", "merges", JV_KIND_ARRAY, &merges, err) < 0)
		return -err->code;
	int n = jv_array_length(jv_copy(merges)), rc = 0;
	for (b->n_merges = 16; b->n_merges < 2 * (size_t)n;)
		b->n_merges *= 2;
	b->merges = spar_malloc(b->n_merges * sizeof *b->merges);
	for (size_t i = 0; i < b->n_merges; i++)
		b->merges[i].pair = UINT64_MAX;
	b->inside = spar_calloc(1, (1u << INSIDE_BITS) / 8);
	struct spar_str text = SPAR_STR_INIT;
	for (int i = 0; rc == 0 && i < n; i++) {
		jv merge = jv_array_get(jv_copy(merges), i);
		rc = add_merge(b, merge, i, &text, err);
		jv_free(merge);
	}
	spar_str_release(&text);
	jv_free(merges);
	return rc;
}

/* Options that would change the ids and that nothing here honours: named, not passed over. */
static int refuse_options(jv model, struct spar_err *err)
{
	static const char *const unsupported[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix"};
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

int spar_bpe_load(struct spar_bpe *b, struct spar_vocab *vocab, jv model, struct spar_err *err)
{
	const struct {
		const char *key;
		bool *value;
	} flags[] = {
	    {"ignore_merges", &b->ignore_merges}, {"fuse_unk", &b->fuse_unk}, {"byte_fallback", &b->byte_fallback}};
	const char *unk;
	size_t len;
	b->vocab = vocab;
	b->unk = -1;
	if (refuse_options(model, err) < 0 || load_vocab(vocab, model, err) < 0 || load_merges(b, model, err) < 0)
		return -err->code;
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
		if (spar_has(model, flags[i].key) &&
		    spar_get_bool(model, "model", flags[i].key, flags[i].value, err) < 0)
			return -err->code;
	if (!spar_has(model, "unk_token"))
		return 0;
	if (spar_get_str(model, "model", "unk_token", &unk, &len, err) < 0)
		return -err->code;
	b->unk = spar_vocab_id(vocab, unk, len);
	return b->unk < 0 ? spar_fail(err, SPAR_INPUT, ".model.unk_token: '%s' is not in the vocabulary", unk) : 0;
}

void spar_bpe_release(struct spar_bpe *b)
{
	free(b->merges);
	free(b->inside);
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
	if (w->n_heap == w->heap_cap) {
		w->heap_cap = w->heap_cap ? 2 * w->heap_cap : 64;
		w->heap = spar_realloc(w->heap, w->heap_cap * sizeof *w->heap);
	}
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

/* Merge the symbols gathered so far, append their ids and begin anew. */
static void finish_symbols(const struct spar_bpe *b, struct spar_bpe_work *w, struct spar_ids *out)
{
	struct spar_bpe_symbol *s = w->symbols;
	if (!w->n)
		return;
	s[w->n - 1].next = -1;
	for (size_t i = 0; i < w->n; i++)
		offer(b, w, (int32_t)i);
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
	w->n = 0;
}

static void add_symbol(struct spar_bpe_work *w, int32_t id)
{
	if (w->n == w->cap) {
		w->cap = w->cap ? 2 * w->cap : 64;
		w->symbols = spar_realloc(w->symbols, w->cap * sizeof *w->symbols);
	}
	w->symbols[w->n] = (struct spar_bpe_symbol){id, (int32_t)w->n - 1, (int32_t)w->n + 1};
	w->n++;
}

/* The tokens of a character's bytes, for one that has none itself; false if one of them has none either. */
static bool add_bytes(const struct spar_bpe *b, struct spar_bpe_work *w, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (b->vocab->of_byte[(uint8_t)s[i]] < 0)
			return false;
	for (size_t i = 0; i < n; i++)
		add_symbol(w, b->vocab->of_byte[(uint8_t)s[i]]);
	return true;
}

/* May a token reach from one character over to the next? -1: what stands there is no single character's token. */
static bool is_inside(const struct spar_bpe *b, int32_t left, int32_t right)
{
	size_t bit = inside_bit(left, right);
	return left < 0 || right < 0 || b->inside[bit / 8] >> bit % 8 & 1;
}

void spar_bpe_word(const struct spar_bpe *b, struct spar_bpe_work *w, const char *word, size_t n, struct spar_ids *out)
{
	int32_t whole = b->ignore_merges || n == 1 ? spar_vocab_id(b->vocab, word, n) : -1, before = -1, c;
	bool was_unk = false;
	if (whole >= 0) {
		spar_ids_add(out, &whole, 1);
		return;
	}
	for (size_t i = 0, len; i < n; i += len) {
		len = unit_at(b->vocab, word, n, i, &c);
		int32_t id = b->vocab->byte_level ? b->vocab->of_byte[c] : spar_vocab_id(b->vocab, word + i, len);
		if (id >= 0) {
			if (!is_inside(b, before, c)) /* what is before is final */
				finish_symbols(b, w, out);
			add_symbol(w, id);
			before = c;
			was_unk = false;
		} else if (b->byte_fallback && !b->vocab->byte_level && add_bytes(b, w, word + i, len)) {
			before = -1;
			was_unk = false;
		} else if (b->unk >= 0) {
			if (!was_unk || !b->fuse_unk)
				add_symbol(w, b->unk);
			before = -1;
			was_unk = true;
		}
	}
	finish_symbols(b, w, out);
}
