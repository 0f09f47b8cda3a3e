#include "text/tokenizer.h"
#include "base/file.h"
#include "record/object.h"
#include "record/record.h"
#include "text/added.h"
#include "text/bpe.h"
#include "text/pretok.h"
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define TEXT_MAX ((size_t)1 << 30) /* bytes of one text: positions inside a word are 32-bit */

struct spar_tokenizer {
	int normalize; /* utf8proc options, -1: none */
	struct spar_added added;
	struct spar_pretok pretok;
	struct spar_bpe bpe;
	struct spar_ids before, behind;              /* what the post-processor adds */
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

void spar_spans_add(struct spar_spans *v, size_t begin, size_t end)
{
	if (v->n == v->cap) {
		v->cap = v->cap ? 2 * v->cap : 64;
		v->data = spar_realloc(v->data, v->cap * sizeof *v->data);
	}
	v->data[v->n++] = (struct spar_span){begin, end};
}

/* ---- loading: one function for each part of tokenizer.json ---- */

/* obj[key], or JSON null if it is not there. A NEW reference. */
static jv part(jv obj, const char *key)
{
	jv v = jv_object_get(jv_copy(obj), jv_string(key));
	if (jv_is_valid(v))
		return v;
	jv_free(v);
	return jv_null();
}

/* Visit a node, or each node of a Sequence of them (nested ones are refused by `visit`, which knows no Sequence). */
static int each_node(jv node, const char *path, const char *list_key,
		     int (*visit)(struct spar_tokenizer *t, jv node, const char *type, struct spar_err *err),
		     struct spar_tokenizer *t, struct spar_err *err)
{
	const char *type;
	size_t len;
	if (jv_get_kind(node) != JV_KIND_OBJECT)
		return spar_fail(err, SPAR_INPUT, ".%s: %s is not supported", path, spar_kind_name(node));
	if (spar_get_str(node, path, "type", &type, &len, err) < 0)
		return -err->code;
	if (strcmp(type, "Sequence") != 0)
		return visit(t, node, type, err);
	jv list;
	if (spar_get_kind(node, path, list_key, JV_KIND_ARRAY, &list, err) < 0)
		return -err->code;
	int n = jv_array_length(jv_copy(list)), rc = 0;
	for (int i = 0; rc == 0 && i < n; i++) {
		jv item = jv_array_get(jv_copy(list), i);
		if (jv_get_kind(item) != JV_KIND_OBJECT)
			rc = spar_fail(err, SPAR_INPUT, ".%s[%d]: expected object, got %s", path, i,
				       spar_kind_name(item));
		else if ((rc = spar_get_str(item, path, "type", &type, &len, err)) == 0)
			rc = visit(t, item, type, err);
		jv_free(item);
	}
	jv_free(list);
	return rc;
}

static int load_normalizer(struct spar_tokenizer *t, jv node, const char *type, struct spar_err *err)
{
	static const struct {
		const char *name;
		int options;
	} forms[] = {{"NFC", UTF8PROC_STABLE | UTF8PROC_COMPOSE},
		     {"NFD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE},
		     {"NFKC", UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
		     {"NFKD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT}};
	(void)node;
	if (t->normalize >= 0)
		return spar_fail(err, SPAR_INPUT, ".normalizer: more than one is not supported");
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
		if (!strcmp(type, forms[i].name))
			t->normalize = forms[i].options;
	return t->normalize < 0 ? spar_fail(err, SPAR_INPUT, ".normalizer: %s is not supported", type) : 0;
}

static int load_decoder(struct spar_tokenizer *t, jv node, const char *type, struct spar_err *err)
{
	(void)t, (void)node;
	return strcmp(type, "ByteLevel") ? spar_fail(err, SPAR_INPUT, ".decoder: %s is not supported", type) : 0;
}

/* One piece of a template: {"Sequence":{..}} switches to what stands behind the text, {"SpecialToken":{"id":name}} adds
 * the ids listed under that name. */
static int load_template_piece(jv node, jv piece, struct spar_ids *side[2], bool *behind, struct spar_err *err)
{
	static const char path[] = "post_processor.single";
	jv token = jv_invalid(), names = jv_invalid(), entry = jv_invalid();
	int32_t *ids = NULL;
	const char *name;
	size_t len, n;
	if (jv_get_kind(piece) != JV_KIND_OBJECT)
		return spar_fail(err, SPAR_INPUT, ".%s: expected objects, got %s", path, spar_kind_name(piece));
	if (spar_has(piece, "Sequence")) {
		*behind = true;
		return 0;
	}
	int rc = spar_get_kind(piece, path, "SpecialToken", JV_KIND_OBJECT, &token, err);
	if (rc == 0)
		rc = spar_get_str(token, path, "id", &name, &len, err);
	if (rc == 0)
		rc = spar_get_kind(node, "post_processor", "special_tokens", JV_KIND_OBJECT, &names, err);
	if (rc == 0)
		rc = spar_get_kind(names, "post_processor.special_tokens", name, JV_KIND_OBJECT, &entry, err);
	if (rc == 0)
		rc = spar_get_ids(entry, "post_processor.special_tokens", "ids", &ids, &n, err);
	if (rc == 0)
		spar_ids_add(side[*behind], ids, n);
	free(ids);
	jv_free(entry);
	jv_free(names);
	jv_free(token);
	return rc;
}

static int load_template(struct spar_tokenizer *t, jv node, struct spar_err *err)
{
	jv single;
	if (spar_get_kind(node, "post_processor", "single", JV_KIND_ARRAY, &single, err) < 0)
		return -err->code;
	struct spar_ids before = {0}, behind = {0};
	bool past = false;
	int n = jv_array_length(jv_copy(single)), rc = 0;
	for (int i = 0; rc == 0 && i < n; i++) {
		jv piece = jv_array_get(jv_copy(single), i);
		rc = load_template_piece(node, piece, (struct spar_ids *[]){&before, &behind}, &past, err);
		jv_free(piece);
	}
	jv_free(single);
	/* A later processor of a Sequence wraps what the earlier ones made. */
	spar_ids_add(&before, t->before.data, t->before.n);
	spar_ids_add(&t->behind, behind.data, behind.n);
	free(t->before.data);
	free(behind.data);
	t->before = before;
	return rc;
}

static int load_post_processor(struct spar_tokenizer *t, jv node, const char *type, struct spar_err *err)
{
	if (!strcmp(type, "ByteLevel")) /* it moves offsets, not ids */
		return 0;
	if (!strcmp(type, "TemplateProcessing"))
		return load_template(t, node, err);
	return spar_fail(err, SPAR_INPUT, ".post_processor: %s is not supported", type);
}

static int load_parts(struct spar_tokenizer *t, jv root, struct spar_err *err)
{
	jv normalizer = part(root, "normalizer"), pretok = part(root, "pre_tokenizer"), model = part(root, "model");
	jv post = part(root, "post_processor"), decoder = part(root, "decoder");
	int rc = 0;
	if (jv_get_kind(normalizer) != JV_KIND_NULL)
		rc = each_node(normalizer, "normalizer", "normalizers", load_normalizer, t, err);
	if (rc == 0)
		rc = spar_pretok_load(&t->pretok, pretok, err);
	if (rc == 0 && jv_get_kind(post) != JV_KIND_NULL)
		rc = each_node(post, "post_processor", "processors", load_post_processor, t, err);
	if (rc == 0)
		rc = each_node(decoder, "decoder", "decoders", load_decoder, t, err);
	if (rc == 0 && jv_get_kind(model) != JV_KIND_OBJECT)
		rc = spar_fail(err, SPAR_INPUT, ".model: expected object, got %s", spar_kind_name(model));
	if (rc == 0)
		rc = spar_added_load(&t->added, root, t->normalize, err);
	if (rc == 0)
		rc = spar_bpe_load(&t->bpe, model, err);
	jv_free(decoder);
	jv_free(post);
	jv_free(model);
	jv_free(pretok);
	jv_free(normalizer);
	return rc;
}

static int index_ids(struct spar_tokenizer *t, struct spar_err *err)
{
	t->size = t->bpe.n_tokens;
	for (size_t i = 0; i < t->added.n; i++)
		if ((size_t)t->added.items[i].id >= t->size)
			t->size = (size_t)t->added.items[i].id + 1;
	t->added_by_id = spar_calloc(t->size + 1, sizeof *t->added_by_id);
	for (size_t i = 0; i < t->added.n; i++)
		t->added_by_id[t->added.items[i].id] = &t->added.items[i];
	const struct spar_ids *sides[] = {&t->before, &t->behind};
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
	t->normalize = t->bos = t->eos = -1;
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
	spar_added_release(&t->added);
	spar_pretok_release(&t->pretok);
	spar_bpe_release(&t->bpe);
	free(t->before.data);
	free(t->behind.data);
	free(t->added_by_id);
	free(t);
}

/* ---- encoding ---- */

/* What one call needs beside the tokenizer. */
struct encoder {
	const struct spar_tokenizer *t;
	struct spar_ids *out;
	struct spar_err *err;
	struct spar_pieces pieces[2];
	struct spar_bpe_work work;
};

/* Text without markers. */
static int encode_plain(struct encoder *e, const char *text, size_t n)
{
	if (!n)
		return 0;
	if (spar_pretok_run(&e->t->pretok, text, n, e->pieces, e->err) < 0)
		return -e->err->code;
	const struct spar_pieces *words = &e->pieces[0];
	for (size_t i = 0, begin = 0; i < words->n; begin = words->ends[i++])
		spar_bpe_word(&e->t->bpe, &e->work, words->text.data + begin, words->ends[i] - begin, e->out);
	return 0;
}

typedef int encode_stretch(struct encoder *e, const char *text, size_t n);

/* Cut out the markers the filter lets through; what stands between goes to `rest`. */
static int encode_around(struct encoder *e, const struct spar_added_filter *filter, const char *text, size_t n,
			 encode_stretch *rest)
{
	size_t done = 0;
	struct spar_added_match m;
	while (done < n && spar_added_find(&e->t->added, filter, text, n, done, &m)) {
		if (rest(e, text + done, m.begin - done) < 0)
			return -e->err->code;
		spar_ids_add(e->out, &m.token->id, 1);
		done = m.end;
	}
	return rest(e, text + done, n - done);
}

/* Between the markers of the text as it came: normalize, then those of normalized text, none of which is special. */
static int encode_normalized(struct encoder *e, const char *text, size_t n)
{
	const struct spar_added_filter filter = {.normalized = true};
	utf8proc_uint8_t *changed;
	if (!n)
		return 0;
	utf8proc_ssize_t len = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, &changed,
					    (utf8proc_option_t)e->t->normalize);
	if (len < 0)
		return spar_fail(e->err, SPAR_INPUT, "text cannot be normalized: %s", utf8proc_errmsg(len));
	int rc = encode_around(e, &filter, (char *)changed, (size_t)len, encode_plain);
	free(changed);
	return rc;
}

/* The text with U+FFFD for each bad part, and the spans moved along. False, and nothing done, if it is all well-formed. */
static bool repair(const char *text, size_t n, const struct spar_spans *spans, struct spar_str *out,
		   struct spar_spans *moved)
{
	size_t bad = 0, n_edges = 0;
	bool ok = true;
	while (bad < n && (bad += spar_utf8_step(text + bad, n - bad, &ok), ok))
		;
	if (ok)
		return false;
	if (spans) {
		moved->data = spar_malloc((spans->n + 1) * sizeof *moved->data);
		moved->n = spans->n;
	}
	for (size_t i = 0; i <= n;) {
		for (; n_edges < 2 * moved->n; n_edges++) { /* edges at or before i that have no place yet */
			const struct spar_span *from = &spans->data[n_edges / 2];
			struct spar_span *to = &moved->data[n_edges / 2];
			if ((n_edges % 2 ? from->end : from->begin) > i)
				break;
			*(n_edges % 2 ? &to->end : &to->begin) = out->len;
		}
		if (i == n)
			break;
		size_t step = spar_utf8_step(text + i, n - i, &ok);
		if (ok)
			spar_str_add(out, text + i, step);
		else
			spar_str_adds(out, "\xEF\xBF\xBD");
		i += step;
	}
	return true;
}

int spar_tokenizer_encode(const struct spar_tokenizer *t, const char *text, size_t n, const struct spar_spans *content,
			  int flags, struct spar_ids *out, struct spar_err *err)
{
	if (n > TEXT_MAX)
		return spar_fail(err, SPAR_INPUT, "text of %zu bytes: more than the limit of %zu", n, TEXT_MAX);
	struct encoder e = {
	    .t = t, .out = out, .err = err, .pieces = {{SPAR_STR_INIT, NULL, 0, 0}, {SPAR_STR_INIT, NULL, 0, 0}}};
	struct spar_str repaired = SPAR_STR_INIT;
	struct spar_spans moved = {0};
	if (repair(text, n, content, &repaired, &moved)) {
		text = repaired.data;
		n = repaired.len;
		content = content ? &moved : NULL;
	}
	struct spar_added_filter filter = {.special = flags & SPAR_ENCODE_MARKERS, .content = content};
	if (flags & SPAR_ENCODE_ADD)
		spar_ids_add(out, t->before.data, t->before.n);
	int rc = encode_around(&e, &filter, text, n, t->normalize >= 0 ? encode_normalized : encode_plain);
	if (rc == 0 && flags & SPAR_ENCODE_ADD)
		spar_ids_add(out, t->behind.data, t->behind.n);
	spar_pieces_release(&e.pieces[0]);
	spar_pieces_release(&e.pieces[1]);
	spar_bpe_work_release(&e.work);
	spar_str_release(&repaired);
	free(moved.data);
	return rc;
}

/* ---- decoding ---- */

static void add_text(const struct spar_tokenizer *t, int32_t id, int flags, struct spar_str *out)
{
	if (id < 0 || (size_t)id >= t->size)
		return;
	const struct spar_added_token *added = t->added_by_id[id];
	if (added) {
		if (!added->special || !(flags & SPAR_DECODE_SKIP_SPECIAL))
			spar_str_add(out, added->text, added->len);
	} else if ((size_t)id < t->bpe.n_tokens) {
		spar_str_add(out, t->bpe.bytes.data + t->bpe.tokens[id].begin, t->bpe.tokens[id].len);
	}
}

void spar_tokenizer_decode(const struct spar_tokenizer *t, const int32_t *ids, size_t n, int flags,
			   struct spar_str *out)
{
	for (size_t i = 0; i < n; i++)
		add_text(t, ids[i], flags, out);
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
	add_text(t, id, flags, &d->pending);
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
	d->begun = false;
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
	return spar_bpe_id(&t->bpe, s, n);
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
