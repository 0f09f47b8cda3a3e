#include "text/added.h"
#include "record/record.h"
#include "text/bpe.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static int get_flag(jv token, const char *path, const char *key, bool absent, bool *out, struct spar_err *err)
{
	*out = absent;
	return spar_has(token, key) ? spar_get_bool(token, path, key, out, err) : 0;
}

static int load_token(struct spar_added_token *t, jv token, size_t index, int normalize, struct spar_err *err)
{
	char path[64];
	const char *text;
	int64_t id;
	snprintf(path, sizeof path, "added_tokens[%zu]", index);
	if (jv_get_kind(token) != JV_KIND_OBJECT)
		return spar_fail(err, SPAR_INPUT, ".%s: expected object, got %s", path, spar_kind_name(token));
	if (spar_get_i64(token, path, "id", &id, err) < 0 ||
	    spar_get_str(token, path, "content", &text, &t->len, err) < 0 ||
	    get_flag(token, path, "special", false, &t->special, err) < 0 ||
	    get_flag(token, path, "single_word", false, &t->single_word, err) < 0 ||
	    get_flag(token, path, "lstrip", false, &t->lstrip, err) < 0 ||
	    get_flag(token, path, "rstrip", false, &t->rstrip, err) < 0 ||
	    get_flag(token, path, "normalized", !t->special, &t->normalized, err) < 0)
		return -err->code;
	if (id < 0 || id >= SPAR_TOKEN_MAX)
		return spar_fail(err, SPAR_INPUT, ".%s.id: %lld is not in [0, %d)", path, (long long)id,
				 (int)SPAR_TOKEN_MAX);
	if (!t->len)
		return spar_fail(err, SPAR_INPUT, ".%s.content: is empty", path);
	if (t->special && t->normalized && normalize >= 0) /* where content begins and ends would be lost */
		return spar_fail(err, SPAR_INPUT, ".%s: a special token of normalized text is not supported", path);
	t->id = (int32_t)id;
	if (t->normalized && normalize >= 0) {
		utf8proc_uint8_t *changed;
		utf8proc_ssize_t len = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)t->len, &changed,
						    (utf8proc_option_t)normalize);
		if (len <= 0)
			return spar_fail(err, SPAR_INPUT, ".%s.content: cannot be normalized", path);
		t->text = (char *)changed;
		t->len = (size_t)len;
	} else {
		t->text = spar_malloc(t->len + 1);
		memcpy(t->text, text, t->len + 1);
	}
	return 0;
}

static int by_first_byte_longest_first(const void *a, const void *b)
{
	const struct spar_added_token *x = a, *y = b;
	uint8_t cx = (uint8_t)*x->text, cy = (uint8_t)*y->text;
	if (cx != cy)
		return cx < cy ? -1 : 1;
	if (x->len != y->len)
		return x->len > y->len ? -1 : 1;
	return memcmp(x->text, y->text, x->len);
}

int spar_added_load(struct spar_added *a, jv root, int normalize, struct spar_err *err)
{
	if (!spar_has(root, "added_tokens"))
		return 0;
	jv list;
	if (spar_get_kind(root, "", "added_tokens", JV_KIND_ARRAY, &list, err) < 0)
		return -err->code;
	size_t n = (size_t)jv_array_length(jv_copy(list));
	a->items = spar_calloc(n + 1, sizeof *a->items);
	int rc = 0;
	while (rc == 0 && a->n < n) {
		jv token = jv_array_get(jv_copy(list), (int)a->n);
		rc = load_token(&a->items[a->n], token, a->n, normalize, err);
		a->n += rc == 0;
		jv_free(token);
	}
	jv_free(list);
	qsort(a->items, a->n, sizeof *a->items, by_first_byte_longest_first);
	for (size_t i = 0; i < a->n; i++)
		a->first[(uint8_t)*a->items[i].text + 1]++;
	for (size_t c = 0; c < 256; c++)
		a->first[c + 1] += a->first[c];
	return rc;
}

void spar_added_release(struct spar_added *a)
{
	for (size_t i = 0; i < a->n; i++)
		free(a->items[i].text);
	free(a->items);
}

/* ---- matching ---- */

/* Does [begin, end) share a byte with a span? */
static bool touches(const struct spar_spans *spans, size_t begin, size_t end)
{
	if (!spans)
		return false;
	size_t low = 0, high = spans->n; /* the first span that ends behind begin */
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (spans->data[mid].end <= begin)
			low = mid + 1;
		else
			high = mid;
	}
	return low < spans->n && spans->data[low].begin < end;
}

static bool is_word(utf8proc_int32_t c)
{
	switch (utf8proc_category(c)) {
	case UTF8PROC_CATEGORY_LU:
	case UTF8PROC_CATEGORY_LL:
	case UTF8PROC_CATEGORY_LT:
	case UTF8PROC_CATEGORY_LM:
	case UTF8PROC_CATEGORY_LO:
	case UTF8PROC_CATEGORY_MN:
	case UTF8PROC_CATEGORY_MC:
	case UTF8PROC_CATEGORY_ME:
	case UTF8PROC_CATEGORY_ND:
	case UTF8PROC_CATEGORY_NL:
	case UTF8PROC_CATEGORY_PC:
		return true;
	default:
		return false;
	}
}

static bool is_space(utf8proc_int32_t c)
{
	if ((c >= '\t' && c <= '\r') || c == 0x85)
		return true;
	utf8proc_category_t category = utf8proc_category(c);
	return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

/* The character that starts at text[at]; its length. */
static size_t char_at(const char *text, size_t n, size_t at, utf8proc_int32_t *c)
{
	utf8proc_ssize_t len = utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(n - at), c);
	return len > 0 ? (size_t)len : 1;
}

/* Where the character that ends at text[at] starts. */
static size_t char_before(const char *text, size_t at, utf8proc_int32_t *c)
{
	size_t begin = at - 1;
	while (begin && at - begin < 4 && ((uint8_t)text[begin] & 0xC0) == 0x80)
		begin--;
	char_at(text, at, begin, c);
	return begin;
}

static bool fits(const struct spar_added_token *t, const struct spar_added_filter *f, const char *text, size_t n,
		 size_t at)
{
	size_t end = at + t->len;
	utf8proc_int32_t c;
	if (end > n || memcmp(text + at, t->text, t->len) != 0 || t->normalized != f->normalized)
		return false;
	if (t->special && (!f->special || touches(f->content, at, end)))
		return false;
	if (!t->single_word)
		return true;
	if (at && (char_before(text, at, &c), is_word(c)))
		return false;
	return end == n || (char_at(text, n, end, &c), !is_word(c));
}

bool spar_added_find(const struct spar_added *a, const struct spar_added_filter *filter, const char *text, size_t n,
		     size_t from, struct spar_added_match *m)
{
	for (size_t at = from; at < n; at++) {
		uint8_t byte = (uint8_t)text[at];
		for (size_t i = a->first[byte]; i < a->first[byte + 1]; i++) {
			const struct spar_added_token *t = &a->items[i];
			utf8proc_int32_t c;
			size_t step;
			if (!fits(t, filter, text, n, at))
				continue;
			*m = (struct spar_added_match){t, at, at + t->len};
			while (t->lstrip && m->begin > from && (step = char_before(text, m->begin, &c), is_space(c)))
				m->begin = step;
			while (t->rstrip && m->end < n && (step = char_at(text, n, m->end, &c), is_space(c)))
				m->end += step;
			return true;
		}
	}
	return false;
}
