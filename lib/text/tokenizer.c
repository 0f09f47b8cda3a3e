#include "text/tokenizer.h"
#include "base/file.h"
#include "record/object.h"
#include "record/record.h"
#include "text/added.h"
#include "text/bpe.h"
#include "text/decode.h"
#include "text/marked.h"
#include "text/normalize.h"
#include "text/postproc.h"
#include "text/pretok.h"
#include "text/unigram.h"
#include "text/vocab.h"
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX ((size_t)1 << 30) /* bytes of one text: positions inside a word are 32-bit */

struct spar_tokenizer {
	struct spar_normalizer normalizer;
	struct spar_added added;
	struct spar_pretok pretok;
	struct spar_vocab vocab;
	bool is_unigram; /* which of the two models is loaded */
	struct spar_bpe bpe;
	struct spar_unigram unigram;
	struct spar_postproc postproc;
	struct spar_decoder decoder;
	const struct spar_added_token **added_by_id; /* (size) NULL where an id is not an added token */
	size_t size;                                 /* highest id + 1 */
	int32_t bos, eos;
};

void spar_ids_add(struct spar_ids *v, const int32_t *ids, size_t n)
{
	if (!n)
		return;
	if (v->cap - v->n < n) {
		v->cap = v->cap + v->cap / 2 + n + 16;
		v->data = spar_realloc(v->data, v->cap * sizeof *v->data);
	}
	memcpy(v->data + v->n, ids, n * sizeof *ids);
	v->n += n;
}

/* ---- loading: one function for each part of tokenizer.json ---- */

static int load_normalizer(struct spar_tokenizer *t, jv node, struct spar_err *err)
{
	return spar_normalizer_load(&t->normalizer, node, err);
}

static int load_pretok(struct spar_tokenizer *t, jv node, struct spar_err *err)
{
	int rc = spar_pretok_load(&t->pretok, node, err);
	t->vocab.byte_level = t->pretok.byte_level;
	return rc;
}

static int load_postproc(struct spar_tokenizer *t, jv node, struct spar_err *err)
{
	return spar_postproc_load(&t->postproc, node, err);
}

static int load_decoder(struct spar_tokenizer *t, jv node, struct spar_err *err)
{
	return spar_decoder_load(&t->decoder, node, t->pretok.byte_level, err);
}

static int load_model(struct spar_tokenizer *t, jv node, struct spar_err *err)
{
	const char *type = "BPE";
	size_t len;
	if (jv_get_kind(node) != JV_KIND_OBJECT)
		return spar_fail(err, SPAR_INPUT, ".model: expected object, got %s", spar_kind_name(node));
	if (spar_has(node, "type") && spar_get_str(node, "model", "type", &type, &len, err) < 0)
		return -err->code;
	t->is_unigram = !strcmp(type, "Unigram");
	if (t->is_unigram)
		return spar_unigram_load(&t->unigram, &t->vocab, node, err);
	if (!strcmp(type, "BPE"))
		return spar_bpe_load(&t->bpe, &t->vocab, node, err);
	return spar_fail(err, SPAR_INPUT, ".model.type: %s is not supported", type);
}

/* An absent part is as good as null. */
static int load_parts(struct spar_tokenizer *t, jv root, struct spar_err *err)
{
	static const struct {
		const char *key;
		int (*load)(struct spar_tokenizer *t, jv node, struct spar_err *err);
	} parts[] = {{"normalizer", load_normalizer},
		     {"pre_tokenizer", load_pretok},
		     {"post_processor", load_postproc},
		     {"decoder", load_decoder},
		     {"model", load_model}};
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < sizeof parts / sizeof *parts; i++) {
		jv node =
		    spar_has(root, parts[i].key) ? jv_object_get(jv_copy(root), jv_string(parts[i].key)) : jv_null();
		rc = parts[i].load(t, node, err);
		jv_free(node);
	}
	return rc < 0 ? rc : spar_added_load(&t->added, root, &t->normalizer, err);
}

static int index_ids(struct spar_tokenizer *t, struct spar_err *err)
{
	t->size = t->vocab.n;
	for (size_t i = 0; i < t->added.n; i++)
		if ((size_t)t->added.items[i].id >= t->size)
			t->size = (size_t)t->added.items[i].id + 1;
	t->added_by_id = spar_calloc(t->size + 1, sizeof *t->added_by_id);
	for (size_t i = 0; i < t->added.n; i++)
		t->added_by_id[t->added.items[i].id] = &t->added.items[i];
	const struct spar_ids *sides[] = {&t->postproc.before, &t->postproc.behind};
	for (int side = 0; side < 2; side++)
		for (size_t i = 0; i < sides[side]->n; i++)
			if ((size_t)sides[side]->data[i] >= t->size)
				return spar_fail(err, SPAR_INPUT, ".post_processor: id %d is not in the vocabulary",
						 (int)sides[side]->data[i]);
	return 0;
}

static int load_file(struct spar_tokenizer *t, const char *path, struct spar_err *err)
{
	jv root;
	if (spar_object_read(path, &root, err) < 0)
		return -err->code;
	int rc = load_parts(t, root, err);
	jv_free(root);
	if (rc == 0)
		rc = index_ids(t, err);
	return rc < 0 ? spar_fail_at(err, "%s", path) : 0;
}

/* A token of tokenizer_config.json: a string, an object with "content", or null. */
static int config_token(const struct spar_tokenizer *t, jv config, const char *key, int32_t *id, struct spar_err *err)
{
	if (!spar_has(config, key))
		return 0;
	jv v = spar_object_token(config, key);
	int rc = 0;
	if (jv_get_kind(v) == JV_KIND_STRING) {
		*id = spar_tokenizer_id(t, jv_string_value(v));
		if (*id < 0)
			rc = spar_fail(err, SPAR_INPUT, ".%s: '%s' is not in tokenizer.json", key, jv_string_value(v));
	} else if (jv_get_kind(v) != JV_KIND_NULL) {
		rc = spar_fail(err, SPAR_INPUT, ".%s: expected string or null", key);
	}
	jv_free(v);
	return rc;
}

static int load_config(struct spar_tokenizer *t, const char *path, struct spar_err *err)
{
	jv config;
	if (!spar_file_exists(path))
		return 0;
	if (spar_object_read(path, &config, err) < 0)
		return -err->code;
	int rc = config_token(t, config, "bos_token", &t->bos, err);
	if (rc == 0)
		rc = config_token(t, config, "eos_token", &t->eos, err);
	jv_free(config);
	return rc < 0 ? spar_fail_at(err, "%s", path) : 0;
}

int spar_tokenizer_load(struct spar_tokenizer **out, const char *dir, struct spar_err *err)
{
	struct spar_tokenizer *t = spar_calloc(1, sizeof *t);
	spar_str_init(&t->vocab.bytes);
	t->bos = t->eos = -1;
	char *file = spar_path_join(dir, "tokenizer.json"), *config = spar_path_join(dir, "tokenizer_config.json");
	int rc = load_file(t, file, err);
	if (rc == 0)
		rc = load_config(t, config, err);
	free(config);
	free(file);
	if (rc < 0) {
		spar_tokenizer_free(t);
		t = NULL;
	}
	*out = t;
	return rc;
}

void spar_tokenizer_free(struct spar_tokenizer *t)
{
	if (!t)
		return;
	spar_normalizer_release(&t->normalizer);
	spar_added_release(&t->added);
	spar_pretok_release(&t->pretok);
	spar_vocab_release(&t->vocab);
	spar_bpe_release(&t->bpe);
	spar_unigram_release(&t->unigram);
	spar_postproc_release(&t->postproc);
	spar_decoder_release(&t->decoder);
	free(t->added_by_id);
	free(t);
}

/* ---- encoding ---- */

/* What one call needs beside the tokenizer. */
struct encoder {
	const struct spar_tokenizer *t;
	struct spar_ids *out;
	struct spar_err *err;
	struct spar_added_filter filter; /* for the text as it came */
	struct spar_pretok_work pretok;
	struct spar_bpe_work bpe;
	struct spar_unigram_work unigram;
};

/* A stretch of a text with its marks: bytes [begin, end). `first`: it is where the whole text begins. */
struct stretch {
	const char *text;
	const struct spar_spans *marks;
	size_t begin, end;
	bool first;
};

static int encode_word(void *ctx, const char *word, size_t n)
{
	struct encoder *e = ctx;
	if (e->t->is_unigram)
		return spar_unigram_word(&e->t->unigram, &e->unigram, word, n, e->out, e->err);
	spar_bpe_word(&e->t->bpe, &e->bpe, word, n, e->out);
	return 0;
}

/* Text without markers. */
static int encode_plain(struct encoder *e, struct stretch s)
{
	return spar_pretok_run(&e->t->pretok, &e->pretok, s.text + s.begin, s.end - s.begin, s.first, encode_word, e,
			       e->err);
}

/* Cut out the markers the filter lets through of text[0..n); what stands between goes to `rest`. */
static int encode_around(struct encoder *e, const struct spar_added_filter *filter, const char *text, size_t n,
			 bool first, int (*rest)(struct encoder *e, struct stretch s))
{
	size_t done = 0, from = 0;
	struct spar_added_match m;
	while (from < n && spar_added_find(&e->t->added, filter, text, n, from, done, &m)) {
		if (m.begin > done &&
		    rest(e, (struct stretch){text, filter->content, done, m.begin, first && !done}) < 0)
			return -e->err->code;
		spar_ids_add(e->out, &m.token->id, 1);
		done = m.end;
		from = m.next;
	}
	return done < n ? rest(e, (struct stretch){text, filter->content, done, n, first && !done}) : 0;
}

/* Between the markers of the text as it came: normalize, then those of normalized text. */
static int encode_normalized(struct encoder *e, struct stretch s)
{
	struct spar_marked text = SPAR_MARKED_INIT;
	struct spar_added_filter filter = e->filter;
	spar_marked_slice(&text, s.text, s.marks, s.begin, s.end);
	int rc = spar_normalizer_run(&e->t->normalizer, &text, e->err);
	filter.normalized = true;
	filter.content = s.marks ? &text.marks : NULL;
	if (rc == 0)
		rc = encode_around(e, &filter, text.text.data, text.text.len, s.first, encode_plain);
	spar_marked_release(&text);
	return rc;
}

/* The text with U+FFFD for each bad part, its marks moved along. False, and nothing done, if it is all well-formed. */
static bool repair(const char *text, size_t n, const struct spar_spans *marks, struct spar_marked *out)
{
	size_t step;
	bool ok = true;
	for (size_t i = 0; ok && i < n; i += step)
		step = spar_utf8_step(text + i, n - i, &ok);
	if (ok)
		return false;
	for (size_t i = 0; i < n; i += step) {
		step = spar_utf8_step(text + i, n - i, &ok);
		if (ok)
			spar_marked_slice(out, text, marks, i, i + step);
		else
			spar_marked_add(out, "\xEF\xBF\xBD", 3, spar_spans_touch(marks, i, i + step));
	}
	return true;
}

int spar_tokenizer_encode(const struct spar_tokenizer *t, const char *text, size_t n, const struct spar_spans *content,
			  int flags, struct spar_ids *out, struct spar_err *err)
{
	if (n > TEXT_MAX)
		return spar_fail(err, SPAR_INPUT, "text of %zu bytes: more than the limit of %zu", n, TEXT_MAX);
	struct spar_err inner = {0};
	struct encoder e = {.t = t, .out = out, .err = &inner};
	struct spar_marked repaired = SPAR_MARKED_INIT;
	if (repair(text, n, content, &repaired)) {
		text = repaired.text.data;
		n = repaired.text.len;
		content = content ? &repaired.marks : NULL;
	}
	spar_pretok_work_init(&e.pretok, &t->pretok);
	e.filter = (struct spar_added_filter){.special = flags & SPAR_ENCODE_MARKERS, .content = content};
	if (flags & SPAR_ENCODE_ADD)
		spar_ids_add(out, t->postproc.before.data, t->postproc.before.n);
	int rc = encode_around(&e, &e.filter, text, n, true, encode_normalized);
	if (rc == 0 && flags & SPAR_ENCODE_ADD)
		spar_ids_add(out, t->postproc.behind.data, t->postproc.behind.n);
	spar_pretok_work_release(&e.pretok);
	spar_bpe_work_release(&e.bpe);
	spar_unigram_work_release(&e.unigram);
	spar_marked_release(&repaired);
	return rc < 0 ? spar_fail(err, inner.code, "%s", inner.msg) : 0;
}

/* ---- decoding ---- */

static void add_text(const struct spar_tokenizer *t, struct spar_detok *d, int32_t id, int flags, struct spar_str *out)
{
	if (id < 0 || (size_t)id >= t->size)
		return;
	const struct spar_added_token *added = t->added_by_id[id];
	if (added && added->special && flags & SPAR_DECODE_SKIP_SPECIAL)
		return;
	if (added)
		spar_decoder_feed(&t->decoder, d, added->text, added->len, out);
	else if ((size_t)id < t->vocab.n && t->vocab.tokens[id].there)
		spar_decoder_feed(&t->decoder, d, t->vocab.bytes.data + t->vocab.tokens[id].begin,
				  t->vocab.tokens[id].len, out);
}

void spar_tokenizer_decode(const struct spar_tokenizer *t, const int32_t *ids, size_t n, int flags,
			   struct spar_str *out)
{
	struct spar_detok state = {0};
	for (size_t i = 0; i < n; i++)
		add_text(t, &state, ids[i], flags, out);
}

/* How many bytes at the end of s are the beginning of a character that may still be completed. */
static size_t unfinished(const char *s, size_t n)
{
	for (size_t len = 1; len < 4 && len <= n; len++) {
		uint8_t c = (uint8_t)s[n - len];
		if ((c & 0xC0) == 0x80)
			continue;
		bool ok;
		size_t whole = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC2 ? 2 : 1;
		return len < whole && spar_utf8_step(s + n - len, len, &ok) == len ? len : 0;
	}
	return 0;
}

void spar_detok_feed(const struct spar_tokenizer *t, struct spar_detok *d, int32_t id, int flags, struct spar_str *out)
{
	if (!d->begun) {
		spar_str_init(&d->pending);
		d->begun = true;
	}
	add_text(t, d, id, flags, &d->pending);
	size_t keep = unfinished(d->pending.data, d->pending.len), whole = d->pending.len - keep;
	char tail[4] = {0};
	memcpy(tail, d->pending.data + whole, keep);
	spar_str_add(out, d->pending.data, whole);
	spar_str_clear(&d->pending);
	spar_str_add(&d->pending, tail, keep);
}

void spar_detok_end(struct spar_detok *d, struct spar_str *out)
{
	if (!d->begun)
		return;
	spar_str_add(out, d->pending.data, d->pending.len);
	spar_str_release(&d->pending);
	*d = (struct spar_detok){0};
}

/* ---- questions ---- */

size_t spar_tokenizer_size(const struct spar_tokenizer *t)
{
	return t->size;
}

int32_t spar_tokenizer_id(const struct spar_tokenizer *t, const char *s)
{
	size_t n = strlen(s);
	for (size_t i = 0; i < t->added.n; i++)
		if (t->added.items[i].len == n && !memcmp(t->added.items[i].text, s, n))
			return t->added.items[i].id;
	return spar_vocab_id(&t->vocab, s, n);
}

bool spar_tokenizer_is_special(const struct spar_tokenizer *t, int32_t id)
{
	return id >= 0 && (size_t)id < t->size && t->added_by_id[id] && t->added_by_id[id]->special;
}

int32_t spar_tokenizer_eos(const struct spar_tokenizer *t)
{
	return t->eos;
}

int32_t spar_tokenizer_bos(const struct spar_tokenizer *t)
{
	return t->bos;
}
