#include "text/added.h"
#include "record/record.h"
#include "text/chars.h"
#include "text/vocab.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int get_flag(jv token, const char *path, const char *key, bool absent, bool *out, struct spar_err *err)
{
	*out = absent;
	return spar_has(token, key) ? spar_get_bool(token, path, key, out, err) : 0;
}

static int load_token(struct spar_added_token *t, jv token, const char *path, struct spar_err *err)
{
	const char *text;
	int64_t id;
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
	t->id = (int32_t)id;
	t->text = spar_malloc(t->len + 1);
	memcpy(t->text, text, t->len + 1);
	return 0;
}

/* Put item number i where it is looked up, in the form it will have in the text. */
static int index_token(struct spar_added *a, size_t i, const struct spar_normalizer *z, struct spar_err *err)
{
	const struct spar_added_token *t = &a->items[i];
	struct spar_marked text = SPAR_MARKED_INIT;
	spar_marked_add(&text, t->text, t->len, false);
	int rc = t->normalized ? spar_normalizer_run(z, &text, err) : 0;
	if (rc == 0 && text.text.len) {
		a->begins[t->normalized][(uint8_t)*text.text.data] = true;
		spar_trie_add(&a->tries[t->normalized], text.text.data, text.text.len, (int32_t)i);
	}
	spar_marked_release(&text);
	return rc;
}

int spar_added_load(struct spar_added *a, jv root, const struct spar_normalizer *z, struct spar_err *err)
{
	jv list;
	if (!spar_has(root, "added_tokens"))
		return 0;
	if (spar_get_kind(root, "", "added_tokens", JV_KIND_ARRAY, &list, err) < 0)
		return -err->code;
	size_t n = (size_t)jv_array_length(jv_copy(list));
	a->items = spar_calloc(n + 1, sizeof *a->items);
	int rc = 0;
	for (; rc == 0 && a->n < n; a->n++) {
		char path[64];
		jv token = jv_array_get(jv_copy(list), (int)a->n);
		snprintf(path, sizeof path, "added_tokens[%zu]", a->n);
		rc = load_token(&a->items[a->n], token, path, err);
		jv_free(token);
	}
	jv_free(list);
	for (size_t i = a->n; rc == 0 && i > 0; i--) /* of equal ones the first counts */
		if ((rc = index_token(a, i - 1, z, err)) < 0)
			spar_fail_at(err, ".added_tokens[%zu].content", i - 1);
	return rc;
}

void spar_added_release(struct spar_added *a)
{
	for (size_t i = 0; i < a->n; i++)
		free(a->items[i].text);
	free(a->items);
	spar_trie_release(&a->tries[0]);
	spar_trie_release(&a->tries[1]);
}

/* ---- matching ---- */

/* The longest token at text[at] that the filter lets through; its length, 0: none. */
static size_t longest_at(const struct spar_added *a, const struct spar_added_filter *f, const char *text, size_t n,
			 size_t at, const struct spar_added_token **token)
{
	const struct spar_trie *trie = &a->tries[f->normalized];
	size_t longest = 0;
	int32_t node = 0;
	if (!a->begins[f->normalized][(uint8_t)text[at]])
		return 0;
	for (size_t end = at; end < n && (node = spar_trie_step(trie, node, text[end])) >= 0;) {
		int32_t i = spar_trie_value(trie, node);
		end++;
		if (i < 0 || (a->items[i].special && (!f->special || spar_spans_touch(f->content, at, end))))
			continue;
		longest = end - at;
		*token = &a->items[i];
	}
	return longest;
}

static bool stands_alone(const char *text, size_t n, size_t begin, size_t end)
{
	int32_t c;
	if (begin && (spar_char_before(text, begin, &c), spar_char_is_word(c)))
		return false;
	return end == n || (spar_char_at(text, n, end, &c), !spar_char_is_word(c));
}

bool spar_added_find(const struct spar_added *a, const struct spar_added_filter *filter, const char *text, size_t n,
		     size_t from, size_t done, struct spar_added_match *m)
{
	for (size_t at = from, len; at < n; at += len ? len : 1) {
		const struct spar_added_token *t;
		int32_t c;
		size_t step;
		len = longest_at(a, filter, text, n, at, &t);
		if (!len || (t->single_word && !stands_alone(text, n, at, at + len)))
			continue;
		*m = (struct spar_added_match){t, at, at + len, at + len};
		while (t->lstrip && m->begin > done &&
		       (step = spar_char_before(text, m->begin, &c), spar_char_is_space(c)))
			m->begin = step;
		while (t->rstrip && m->end < n && (step = spar_char_at(text, n, m->end, &c), spar_char_is_space(c)))
			m->end += step;
		return true;
	}
	return false;
}
