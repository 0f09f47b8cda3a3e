#include "text/unigram.h"
#include "record/record.h"
#include "text/chars.h"
#include <math.h>
#include <stdlib.h>

/* ---- loading ---- */

static int load_piece(struct spar_unigram *u, struct spar_vocab *vocab, jv piece, int id, struct spar_err *err)
{
	bool pair = jv_get_kind(piece) == JV_KIND_ARRAY && jv_array_length(jv_copy(piece)) == 2;
	jv text = pair ? jv_array_get(jv_copy(piece), 0) : jv_null();
	jv score = pair ? jv_array_get(jv_copy(piece), 1) : jv_null();
	int rc = 0;
	if (jv_get_kind(text) != JV_KIND_STRING || jv_get_kind(score) != JV_KIND_NUMBER) {
		rc = spar_fail(err, SPAR_INPUT, ".model.vocab[%d]: expected a string and a number", id);
	} else {
		size_t n = (size_t)jv_string_length_bytes(jv_copy(text));
		u->scores[id] = jv_number_value(score);
		u->unk_score = u->scores[id] < u->unk_score ? u->scores[id] : u->unk_score;
		rc = spar_vocab_add(vocab, jv_string_value(text), n, id, err);
		if (rc == 0 && n)
			spar_trie_add(&u->trie, jv_string_value(text), n, id);
	}
	jv_free(score);
	jv_free(text);
	return rc;
}

int spar_unigram_load(struct spar_unigram *u, struct spar_vocab *vocab, jv model, struct spar_err *err)
{
	jv list;
	int64_t unk = -1;
	u->vocab = vocab;
	if (spar_get_kind(model, "model", "vocab", JV_KIND_ARRAY, &list, err) < 0)
		return -err->code;
	int n = jv_array_length(jv_copy(list)), rc = 0;
	if (n > SPAR_TOKEN_MAX)
		rc = spar_fail(err, SPAR_INPUT, ".model.vocab: more than %d tokens", (int)SPAR_TOKEN_MAX);
	u->scores = spar_calloc((size_t)n + 1, sizeof *u->scores);
	u->unk_score = INFINITY;
	for (int i = 0; rc == 0 && i < n; i++) {
		jv piece = jv_array_get(jv_copy(list), i);
		rc = load_piece(u, vocab, piece, i, err);
		jv_free(piece);
	}
	jv_free(list);
	spar_vocab_index(vocab);
	u->unk_score -= 10;
	if (rc == 0 && spar_has(model, "byte_fallback"))
		rc = spar_get_bool(model, "model", "byte_fallback", &u->byte_fallback, err);
	if (rc == 0 && spar_has(model, "unk_id"))
		rc = spar_get_i64(model, "model", "unk_id", &unk, err);
	if (rc == 0 && (unk < -1 || unk >= n))
		rc = spar_fail(err, SPAR_INPUT, ".model.unk_id: %lld is not in the vocabulary", (long long)unk);
	u->unk = (int32_t)unk;
	return rc;
}

void spar_unigram_release(struct spar_unigram *u)
{
	spar_trie_release(&u->trie);
	free(u->scores);
}

/* ---- the best way through a word ---- */

/* The best way that ends at a byte of the word. */
struct spar_unigram_end {
	double score;  /* -INFINITY: none yet */
	int32_t id;    /* of the last token; -1: a character without a token */
	int32_t begin; /* where it begins */
};

void spar_unigram_work_release(struct spar_unigram_work *w)
{
	free(w->ends);
	free(w->reversed.data);
	*w = (struct spar_unigram_work){0};
}

static void offer(struct spar_unigram_end *end, double score, int32_t id, size_t begin)
{
	if (score > end->score)
		*end = (struct spar_unigram_end){score, id, (int32_t)begin};
}

static void find_ends(const struct spar_unigram *u, struct spar_unigram_end *ends, const char *word, size_t n)
{
	for (size_t i = 0; i <= n; i++)
		ends[i] = (struct spar_unigram_end){i ? -INFINITY : 0, -1, 0};
	for (size_t at = 0, len; at < n; at += len) {
		int32_t c, node = 0;
		bool single = false; /* a token of just this character */
		len = spar_char_at(word, n, at, &c);
		for (size_t end = at; end < n && (node = spar_trie_step(&u->trie, node, word[end])) >= 0;) {
			int32_t id = spar_trie_value(&u->trie, node);
			end++;
			if (id < 0)
				continue;
			offer(&ends[end], ends[at].score + u->scores[id], id, at);
			single |= end == at + len;
		}
		if (!single)
			offer(&ends[at + len], ends[at].score + u->unk_score, -1, at);
	}
}

/* What stands for word[begin..end), in which no character has a token. */
static int add_unknown(const struct spar_unigram *u, struct spar_ids *reversed, const char *word, size_t begin,
		       size_t end, struct spar_err *err)
{
	bool bytes = u->byte_fallback;
	for (size_t i = begin; bytes && i < end; i++)
		bytes = u->vocab->of_byte[(uint8_t)word[i]] >= 0;
	if (!bytes && u->unk < 0)
		return spar_fail(err, SPAR_INPUT, "a character of the text has no token, and the model no unk_id");
	if (!bytes)
		spar_ids_add(reversed, &u->unk, 1);
	for (size_t i = end; bytes && i > begin; i--)
		spar_ids_add(reversed, &u->vocab->of_byte[(uint8_t)word[i - 1]], 1);
	return 0;
}

int spar_unigram_word(const struct spar_unigram *u, struct spar_unigram_work *w, const char *word, size_t n,
		      struct spar_ids *out, struct spar_err *err)
{
	if (w->cap < n + 1) {
		w->cap = n + n / 2 + 64;
		w->ends = spar_realloc(w->ends, w->cap * sizeof *w->ends);
	}
	find_ends(u, w->ends, word, n);
	w->reversed.n = 0;
	int rc = 0;
	for (size_t end = n, begin; rc == 0 && end; end = begin) {
		begin = (size_t)w->ends[end].begin;
		if (w->ends[end].id >= 0) {
			spar_ids_add(&w->reversed, &w->ends[end].id, 1);
			continue;
		}
		while (begin && w->ends[begin].id < 0)
			begin = (size_t)w->ends[begin].begin;
		rc = add_unknown(u, &w->reversed, word, begin, end, err);
	}
	for (size_t i = w->reversed.n; rc == 0 && i; i--)
		spar_ids_add(out, &w->reversed.data[i - 1], 1);
	return rc;
}
