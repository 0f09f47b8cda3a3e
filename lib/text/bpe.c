/* bpe.c - see bpe.h. */
#include "text/bpe.h"

#include "record/record.h"
#include <stdlib.h>
#include <string.h>

struct token {
	char *text;  /* as written in the file, (text_n) bytes of UTF-8 */
	char *bytes; /* what it stands for */
	size_t text_n, n;
};

struct merge {
	uint64_t pair; /* left id << 32 | right id; UINT64_MAX: free */
	int32_t rank, id;
};

struct spar_bpe {
	struct token *tokens;
	size_t size;
	int32_t *by_text; /* hash table of ids by text; -1: free */
	size_t by_text_cap;
	struct merge *merges; /* hash table by pair */
	size_t merges_cap;
	int32_t byte_id[256]; /* the token of each single byte, -1: none */
	bool ignore_merges;
};

/* ---- the byte alphabet: printable bytes stand for themselves, the others for U+0100 and up, in order ---- */

static bool is_printable_byte(int b)
{
	return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
}

/* code point -> byte, -1 outside the alphabet */
static int byte_of(uint32_t c)
{
	if (c < 256)
		return is_printable_byte((int)c) ? (int)c : -1;
	int n = 0;
	for (int b = 0; b < 256 && c < 256 + 68; b++)
		if (!is_printable_byte(b) && n++ == (int)c - 256)
			return b;
	return -1;
}

static uint32_t code_point(const char *s, size_t n)
{
	const unsigned char *u = (const unsigned char *)s;
	if (n == 1)
		return u[0];
	if (n == 2)
		return ((u[0] & 31u) << 6) | (u[1] & 63u);
	if (n == 3)
		return ((u[0] & 15u) << 12) | ((u[1] & 63u) << 6) | (u[2] & 63u);
	return ((u[0] & 7u) << 18) | ((u[1] & 63u) << 12) | ((u[2] & 63u) << 6) | (u[3] & 63u);
}

/* Text of a token to its bytes; a token with a character outside the alphabet (an added one) stands for itself. */
static void set_bytes(struct token *t)
{
	t->bytes = spar_malloc(t->text_n + 1);
	t->n = 0;
	for (size_t i = 0; i < t->text_n;) {
		bool ok;
		size_t k = spar_utf8_step(t->text + i, t->text_n - i, &ok);
		int byte = byte_of(code_point(t->text + i, k));
		if (byte < 0) {
			memcpy(t->bytes, t->text, t->text_n);
			t->n = t->text_n;
			return;
		}
		t->bytes[t->n++] = (char)byte;
		i += k;
	}
}

/* ---- hash tables ---- */

static uint64_t hash_bytes(const char *s, size_t n)
{
	uint64_t h = 0xcbf29ce484222325u;
	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)s[i]) * 0x100000001b3u;
	return h ^ (h >> 29);
}

static size_t slot_of_text(const struct spar_bpe *b, const char *s, size_t n)
{
	size_t i = hash_bytes(s, n) & (b->by_text_cap - 1);
	while (b->by_text[i] >= 0) {
		const struct token *t = &b->tokens[b->by_text[i]];
		if (t->text_n == n && !memcmp(t->text, s, n))
			break;
		i = (i + 1) & (b->by_text_cap - 1);
	}
	return i;
}

static struct merge *slot_of_pair(const struct spar_bpe *b, int32_t left, int32_t right)
{
	uint64_t pair = ((uint64_t)(uint32_t)left << 32) | (uint32_t)right;
	size_t i = ((pair * 0x9e3779b97f4a7c15u) >> 20) & (b->merges_cap - 1);
	while (b->merges[i].pair != UINT64_MAX && b->merges[i].pair != pair)
		i = (i + 1) & (b->merges_cap - 1);
	return &b->merges[i];
}

static size_t table_size(size_t n)
{
	size_t cap = 64;
	while (cap < 2 * n + 2)
		cap *= 2;
	return cap;
}

int32_t spar_bpe_find(const struct spar_bpe *b, const char *text, size_t n)
{
	return b->by_text[slot_of_text(b, text, n)];
}

/* ---- loading ---- */

static int load_vocab(struct spar_bpe *b, jv vocab, struct spar_err *err)
{
	jv_object_foreach(vocab, key, value)
	{
		double id = jv_get_kind(value) == JV_KIND_NUMBER ? jv_number_value(value) : -1;
		jv_free(value);
		jv_free(key);
		if (!(id >= 0 && id < (1 << 24) && id == (int32_t)id))
			return spar_fail(err, SPAR_INPUT, ".model.vocab: an id is not a whole number in 0..2^24");
		if ((size_t)id >= b->size)
			b->size = (size_t)id + 1;
	}
	b->tokens = spar_calloc(b->size + 1, sizeof *b->tokens);
	b->by_text_cap = table_size(b->size);
	b->by_text = spar_malloc(b->by_text_cap * sizeof *b->by_text);
	memset(b->by_text, 0xff, b->by_text_cap * sizeof *b->by_text);
	jv_object_foreach(vocab, key, value)
	{
		struct token *t = &b->tokens[(size_t)jv_number_value(value)];
		size_t n = (size_t)jv_string_length_bytes(jv_copy(key));
		bool twice = t->text != NULL;
		if (!twice) {
			t->text = spar_malloc(n + 1);
			memcpy(t->text, jv_string_value(key), n + 1);
			t->text_n = n;
			set_bytes(t);
			b->by_text[slot_of_text(b, t->text, n)] = (int32_t)jv_number_value(value);
			if (t->n == 1 && b->byte_id[(unsigned char)t->bytes[0]] < 0)
				b->byte_id[(unsigned char)t->bytes[0]] = (int32_t)jv_number_value(value);
		}
		jv_free(value);
		jv_free(key);
		if (twice)
			return spar_fail(err, SPAR_INPUT, ".model.vocab: an id stands twice");
	}
	return 0;
}

/* "a b", or ["a", "b"]. */
static int add_merge(struct spar_bpe *b, jv item, int32_t rank, struct spar_err *err)
{
	const char *left = NULL, *right = NULL;
	size_t left_n = 0, right_n = 0;
	if (jv_get_kind(item) == JV_KIND_STRING) {
		left = jv_string_value(item);
		right = strchr(left, ' ');
		if (right) {
			left_n = (size_t)(right++ - left);
			right_n = strlen(right);
		}
	} else if (jv_get_kind(item) == JV_KIND_ARRAY && jv_array_length(jv_copy(item)) == 2) {
		jv l = jv_array_get(jv_copy(item), 0), r = jv_array_get(jv_copy(item), 1);
		if (jv_get_kind(l) == JV_KIND_STRING && jv_get_kind(r) == JV_KIND_STRING) {
			left = jv_string_value(l); /* both live on in `item` */
			right = jv_string_value(r);
			left_n = strlen(left);
			right_n = strlen(right);
		}
		jv_free(l);
		jv_free(r);
	}
	if (!left_n || !right_n)
		return spar_fail(err, SPAR_INPUT, ".model.merges[%d]: expected two tokens", (int)rank);
	char *joined = spar_malloc(left_n + right_n + 1);
	memcpy(joined, left, left_n);
	memcpy(joined + left_n, right, right_n);
	int32_t l = spar_bpe_find(b, left, left_n), r = spar_bpe_find(b, right, right_n),
		id = spar_bpe_find(b, joined, left_n + right_n);
	free(joined);
	if (l < 0 || r < 0 || id < 0)
		return spar_fail(err, SPAR_INPUT, ".model.merges[%d]: a token of it is not in the vocabulary",
				 (int)rank);
	struct merge *m = slot_of_pair(b, l, r);
	if (m->pair == UINT64_MAX)
		*m = (struct merge){((uint64_t)(uint32_t)l << 32) | (uint32_t)r, rank, id};
	return 0;
}

static int load_merges(struct spar_bpe *b, jv merges, struct spar_err *err)
{
	b->merges_cap = table_size((size_t)jv_array_length(jv_copy(merges)));
	b->merges = spar_malloc(b->merges_cap * sizeof *b->merges);
	memset(b->merges, 0xff, b->merges_cap * sizeof *b->merges);
	int rc = 0;
	jv_array_foreach(merges, i, item)
	{
		if (rc == 0)
			rc = add_merge(b, item, i, err);
		jv_free(item);
	}
	return rc;
}

/* Options that change ids, and the only values of them that are done. */
static int check_options(jv model, struct spar_err *err)
{
	static const char *const off[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback",
					  NULL};
	for (size_t i = 0; off[i]; i++) {
		jv v = jv_object_get(jv_copy(model), jv_string(off[i]));
		jv_kind k = jv_get_kind(v);
		bool fine = !jv_is_valid(v) || k == JV_KIND_NULL || k == JV_KIND_FALSE ||
			    (k == JV_KIND_STRING && !*jv_string_value(v));
		jv_free(v);
		if (!fine)
			return spar_fail(err, SPAR_INPUT, ".model.%s: not supported", off[i]);
	}
	return 0;
}

int spar_bpe_new(struct spar_bpe **out, jv model, struct spar_err *err)
{
	const char *type;
	size_t n;
	jv vocab = jv_null(), merges = jv_null();
	struct spar_bpe *b = spar_calloc(1, sizeof *b);
	memset(b->byte_id, 0xff, sizeof b->byte_id);
	*out = NULL;
	int rc = spar_has(model, "type") ? spar_get_str(model, "model", "type", &type, &n, err) : (type = "BPE", 0);
	if (rc == 0 && strcmp(type, "BPE"))
		rc = spar_fail(err, SPAR_INPUT, ".model.type: %s is not supported", type);
	if (rc == 0)
		rc = check_options(model, err);
	if (rc == 0)
		rc = spar_get_kind(model, "model", "vocab", JV_KIND_OBJECT, &vocab, err);
	if (rc == 0)
		rc = spar_get_kind(model, "model", "merges", JV_KIND_ARRAY, &merges, err);
	if (rc == 0)
		rc = load_vocab(b, vocab, err);
	if (rc == 0)
		rc = load_merges(b, merges, err);
	if (rc == 0 && spar_has(model, "ignore_merges"))
		rc = spar_get_bool(model, "model", "ignore_merges", &b->ignore_merges, err);
	jv_free(vocab);
	jv_free(merges);
	if (rc < 0)
		spar_bpe_free(b);
	else
		*out = b;
	return rc;
}

void spar_bpe_free(struct spar_bpe *b)
{
	if (!b)
		return;
	for (size_t i = 0; b->tokens && i < b->size; i++) {
		free(b->tokens[i].text);
		free(b->tokens[i].bytes);
	}
	free(b->tokens);
	free(b->by_text);
	free(b->merges);
	free(b);
}

const char *spar_bpe_bytes(const struct spar_bpe *b, int32_t id, size_t *n)
{
	if (id < 0 || (size_t)id >= b->size || !b->tokens[id].text)
		return NULL;
	*n = b->tokens[id].n;
	return b->tokens[id].bytes;
}

size_t spar_bpe_size(const struct spar_bpe *b)
{
	return b->size;
}

/* ---- encoding: symbols in a linked list, possible merges in a heap by (rank, place) ---- */

struct symbol {
	int32_t id; /* -1: merged into the one before */
	int32_t prev, next;
};

struct candidate {
	int32_t rank, at;
	int32_t left, right; /* ids when it was found: stale if they have changed */
};

struct heap {
	struct candidate *data;
	size_t n;
};

static bool before(const struct candidate *a, const struct candidate *b)
{
	return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void heap_push(struct heap *h, struct candidate c)
{
	size_t i = h->n++;
	for (; i && before(&c, &h->data[(i - 1) / 2]); i = (i - 1) / 2)
		h->data[i] = h->data[(i - 1) / 2];
	h->data[i] = c;
}

static struct candidate heap_pop(struct heap *h)
{
	struct candidate top = h->data[0], last = h->data[--h->n];
	size_t i = 0;
	for (;;) {
		size_t child = 2 * i + 1;
		if (child >= h->n)
			break;
		if (child + 1 < h->n && before(&h->data[child + 1], &h->data[child]))
			child++;
		if (!before(&h->data[child], &last))
			break;
		h->data[i] = h->data[child];
		i = child;
	}
	h->data[i] = last;
	return top;
}

static void consider(const struct spar_bpe *b, struct heap *h, const struct symbol *s, int32_t at)
{
	if (at < 0 || s[at].next < 0)
		return;
	const struct merge *m = slot_of_pair(b, s[at].id, s[s[at].next].id);
	if (m->pair != UINT64_MAX)
		heap_push(h, (struct candidate){m->rank, at, s[at].id, s[s[at].next].id});
}

static void merge_all(const struct spar_bpe *b, struct symbol *s, size_t n, struct heap *h)
{
	for (size_t i = 0; i + 1 < n; i++)
		consider(b, h, s, (int32_t)i);
	while (h->n) {
		struct candidate c = heap_pop(h);
		int32_t next = s[c.at].next;
		if (s[c.at].id != c.left || next < 0 || s[next].id != c.right)
			continue;
		s[c.at].id = slot_of_pair(b, c.left, c.right)->id;
		s[next].id = -1;
		s[c.at].next = s[next].next;
		if (s[next].next >= 0)
			s[s[next].next].prev = c.at;
		consider(b, h, s, s[c.at].prev);
		consider(b, h, s, c.at);
	}
}

/* The token that stands for exactly these bytes. */
static int32_t whole_piece(const struct spar_bpe *b, const char *piece, size_t n)
{
	struct spar_str text = SPAR_STR_INIT;
	for (size_t i = 0; i < n; i++) {
		int byte = (unsigned char)piece[i];
		uint32_t c = (uint32_t)byte;
		if (!is_printable_byte(byte)) {
			c = 256;
			for (int k = 0; k < byte; k++)
				c += !is_printable_byte(k);
		}
		if (c >= 128)
			spar_str_addc(&text, (int)(0xc0 | (c >> 6)));
		spar_str_addc(&text, (int)(c >= 128 ? 0x80 | (c & 63) : c));
	}
	int32_t id = spar_bpe_find(b, text.data, text.len);
	spar_str_release(&text);
	return id;
}

int spar_bpe_encode(const struct spar_bpe *b, const char *piece, size_t n, struct spar_ids *out, struct spar_err *err)
{
	if (n > INT32_MAX / 8)
		return spar_fail(err, SPAR_INPUT, "a piece of text is longer than %d bytes", INT32_MAX / 8);
	if (b->ignore_merges) {
		int32_t id = whole_piece(b, piece, n);
		if (id >= 0) {
			spar_ids_add(out, &id, 1);
			return 0;
		}
	}
	struct symbol few[64], *s = n <= 64 ? few : spar_malloc(n * sizeof *s);
	struct candidate few_candidates[3 * 64];
	struct heap h = {n <= 64 ? few_candidates : spar_malloc(3 * n * sizeof *h.data),
			 0}; /* each merge adds at most two */
	int rc = 0;
	for (size_t i = 0; i < n && rc == 0; i++) {
		s[i] = (struct symbol){b->byte_id[(unsigned char)piece[i]], (int32_t)i - 1,
				       i + 1 < n ? (int32_t)i + 1 : -1};
		if (s[i].id < 0)
			rc = spar_fail(err, SPAR_INPUT, "the vocabulary has no token for byte %d",
				       (unsigned char)piece[i]);
	}
	if (rc == 0) {
		merge_all(b, s, n, &h);
		for (int32_t i = 0; i >= 0; i = s[i].next)
			spar_ids_add(out, &s[i].id, 1);
	}
	if (n > 64) {
		free(s);
		free(h.data);
	}
	return rc;
}
