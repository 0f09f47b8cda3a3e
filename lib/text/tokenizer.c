/* tokenizer.c - see tokenizer.h: added tokens cut the text, what is between them is normalized, cut by the pre-tokenizer
 * and encoded by BPE. */
#include "text/tokenizer.h"

#include "base/file.h"
#include "record/object.h"
#include "record/record.h"
#include "text/bpe.h"
#include "text/pretok.h"
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

struct added {
	char *text;
	size_t n;
	int32_t id;
	bool single_word, lstrip, rstrip, special;
};

struct spar_tokenizer {
	struct spar_bpe *bpe;
	struct spar_pretok *pretok;
	struct added *added; /* longest first */
	size_t n_added;
	bool starts[256]; /* bytes that an added token starts with */
	bool nfc;
	struct spar_ids prefix, suffix; /* what the post-processor puts around a text */
	int32_t eos, bos;
	size_t size;
};

void spar_ids_add(struct spar_ids *v, const int32_t *ids, size_t n)
{
	if (v->n + n > v->cap) {
		v->cap = 2 * v->cap > v->n + n ? 2 * v->cap : v->n + n + 32;
		v->data = spar_realloc(v->data, v->cap * sizeof *v->data);
	}
	if (n)
		memcpy(v->data + v->n, ids, n * sizeof *ids);
	v->n += n;
}

/* ---- loading ---- */

static int load_flag(jv node, const char *key, bool *out, struct spar_err *err)
{
	*out = false;
	return spar_has(node, key) ? spar_get_bool(node, "added_tokens", key, out, err) : 0;
}

static int load_added_one(struct added *a, jv node, struct spar_err *err)
{
	const char *text;
	int64_t id = 0;
	if (jv_get_kind(node) != JV_KIND_OBJECT)
		return spar_fail(err, SPAR_INPUT, ".added_tokens: expected objects");
	int rc = spar_get_str(node, "added_tokens", "content", &text, &a->n, err);
	if (rc == 0)
		rc = spar_get_i64(node, "added_tokens", "id", &id, err);
	if (rc == 0 && (id < 0 || id >= 1 << 24 || a->n == 0))
		rc = spar_fail(err, SPAR_INPUT, ".added_tokens: an id or a content is out of range");
	if (rc < 0)
		return rc;
	a->id = (int32_t)id;
	a->text = spar_malloc(a->n + 1);
	memcpy(a->text, text, a->n + 1);
	if ((rc = load_flag(node, "single_word", &a->single_word, err)) == 0 &&
	    (rc = load_flag(node, "lstrip", &a->lstrip, err)) == 0 &&
	    (rc = load_flag(node, "rstrip", &a->rstrip, err)) == 0)
		rc = load_flag(node, "special", &a->special, err);
	return rc;
}

static int longest_first(const void *a, const void *b)
{
	size_t x = ((const struct added *)a)->n, y = ((const struct added *)b)->n;
	return x < y ? 1 : x > y ? -1 : 0;
}

static int load_added(struct spar_tokenizer *t, jv root, struct spar_err *err)
{
	jv list;
	if (!spar_has(root, "added_tokens"))
		return 0;
	if (spar_get_kind(root, "", "added_tokens", JV_KIND_ARRAY, &list, err) < 0)
		return -SPAR_INPUT;
	int rc = 0;
	t->added = spar_calloc((size_t)jv_array_length(jv_copy(list)) + 1, sizeof *t->added);
	jv_array_foreach(list, i, node)
	{
		if (rc == 0)
			rc = load_added_one(&t->added[t->n_added++], node, err);
		jv_free(node);
	}
	jv_free(list);
	qsort(t->added, t->n_added, sizeof *t->added, longest_first);
	for (size_t i = 0; rc == 0 && i < t->n_added; i++) {
		t->starts[(unsigned char)t->added[i].text[0]] = true;
		if ((size_t)t->added[i].id >= t->size)
			t->size = (size_t)t->added[i].id + 1;
	}
	return rc;
}

/* The type of an optional node of the root: "" when it is absent or null. The caller frees *node. */
static int node_type(jv root, const char *key, jv *node, const char **type, struct spar_err *err)
{
	size_t n;
	*node = jv_null();
	*type = "";
	if (!spar_has(root, key))
		return 0;
	if (spar_get_kind(root, "", key, JV_KIND_OBJECT, node, err) < 0)
		return -SPAR_INPUT;
	return spar_get_str(*node, key, "type", type, &n, err);
}

static int not_supported(struct spar_err *err, const char *where, const char *type)
{
	return spar_fail(err, SPAR_INPUT, ".%s: type %s is not supported", where, type);
}

static int load_normalizer(struct spar_tokenizer *t, jv root, struct spar_err *err)
{
	jv node;
	const char *type;
	int rc = node_type(root, "normalizer", &node, &type, err);
	t->nfc = !strcmp(type, "NFC");
	if (rc == 0 && *type && !t->nfc)
		rc = not_supported(err, "normalizer", type);
	jv_free(node);
	return rc;
}

static int load_decoder(jv root, struct spar_err *err)
{
	jv node;
	const char *type;
	int rc = node_type(root, "decoder", &node, &type, err);
	if (rc == 0 && *type && strcmp(type, "ByteLevel"))
		rc = not_supported(err, "decoder", type);
	jv_free(node);
	return rc;
}

/* TemplateProcessing's "single": special tokens before and after {"Sequence": ...}. `node` is borrowed. */
static int load_template(struct spar_tokenizer *t, jv node, struct spar_err *err)
{
	jv single;
	bool behind = false;
	if (spar_get_kind(node, "post_processor", "single", JV_KIND_ARRAY, &single, err) < 0)
		return -SPAR_INPUT;
	int rc = 0;
	jv_array_foreach(single, i, item)
	{
		jv special = jv_get_kind(item) == JV_KIND_OBJECT
				 ? jv_object_get(jv_copy(item), jv_string("SpecialToken"))
				 : jv_null();
		if (jv_get_kind(special) == JV_KIND_OBJECT) {
			const char *name;
			size_t n;
			if (rc == 0 &&
			    (rc = spar_get_str(special, "post_processor.single", "id", &name, &n, err)) == 0) {
				int32_t id = spar_tokenizer_id(t, name);
				if (id < 0)
					rc = spar_fail(err, SPAR_INPUT, ".post_processor: %s is no token", name);
				else
					spar_ids_add(behind ? &t->suffix : &t->prefix, &id, 1);
			}
		} else {
			behind = true;
		}
		jv_free(special);
		jv_free(item);
	}
	jv_free(single);
	return rc;
}

/* `node` is borrowed. */
static int load_post(struct spar_tokenizer *t, jv node, int depth, struct spar_err *err)
{
	const char *type;
	size_t n;
	jv list;
	if (jv_get_kind(node) != JV_KIND_OBJECT || depth > 4)
		return spar_fail(err, SPAR_INPUT, ".post_processor: expected an object");
	if (spar_get_str(node, "post_processor", "type", &type, &n, err) < 0)
		return -SPAR_INPUT;
	if (!strcmp(type, "ByteLevel")) /* trims offsets only */
		return 0;
	if (!strcmp(type, "TemplateProcessing"))
		return load_template(t, node, err);
	if (strcmp(type, "Sequence"))
		return not_supported(err, "post_processor", type);
	if (spar_get_kind(node, "post_processor", "processors", JV_KIND_ARRAY, &list, err) < 0)
		return -SPAR_INPUT;
	int rc = 0;
	jv_array_foreach(list, i, item)
	{
		if (rc == 0)
			rc = load_post(t, item, depth + 1, err);
		jv_free(item);
	}
	jv_free(list);
	return rc;
}

/* eos_token and the like: a string, or {"content": string}; null or absent: -1. */
static int32_t named_token(const struct spar_tokenizer *t, jv config, const char *key)
{
	int32_t id = -1;
	jv v = jv_object_get(jv_copy(config), jv_string(key));
	if (jv_get_kind(v) == JV_KIND_OBJECT)
		v = jv_object_get(v, jv_string("content"));
	if (jv_get_kind(v) == JV_KIND_STRING)
		id = spar_tokenizer_id(t, jv_string_value(v));
	jv_free(v);
	return id;
}

static int load_config(struct spar_tokenizer *t, const char *dir, struct spar_err *err)
{
	char *path = spar_path_join(dir, "tokenizer_config.json");
	jv config;
	int rc = 0;
	t->eos = t->bos = -1;
	if (spar_file_exists(path) && (rc = spar_object_read(path, &config, err)) == 0) {
		t->eos = named_token(t, config, "eos_token");
		t->bos = named_token(t, config, "bos_token");
		jv_free(config);
	}
	free(path);
	return rc;
}

static int load_root(struct spar_tokenizer *t, jv root, struct spar_err *err)
{
	jv model;
	int rc = spar_get_kind(root, "", "model", JV_KIND_OBJECT, &model, err);
	if (rc < 0)
		return rc;
	rc = spar_bpe_new(&t->bpe, model, err);
	jv_free(model);
	if (rc < 0)
		return rc;
	t->size = spar_bpe_size(t->bpe);
	if ((rc = load_added(t, root, err)) < 0 || (rc = load_normalizer(t, root, err)) < 0 ||
	    (rc = load_decoder(root, err)) < 0)
		return rc;
	jv node = jv_object_get(jv_copy(root), jv_string("pre_tokenizer"));
	rc = spar_pretok_new(&t->pretok, node, err);
	jv_free(node);
	if (rc == 0 && spar_has(root, "post_processor")) {
		node = jv_object_get(jv_copy(root), jv_string("post_processor"));
		rc = load_post(t, node, 0, err);
		jv_free(node);
	}
	return rc;
}

int spar_tokenizer_load(struct spar_tokenizer **out, const char *dir, struct spar_err *err)
{
	char *path = spar_path_join(dir, "tokenizer.json");
	struct spar_tokenizer *t = spar_calloc(1, sizeof *t);
	jv root;
	*out = NULL;
	int rc = spar_object_read(path, &root, err);
	if (rc == 0) {
		rc = load_root(t, root, err);
		jv_free(root);
		if (rc < 0)
			spar_fail_at(err, "%s", path);
	}
	if (rc == 0)
		rc = load_config(t, dir, err);
	free(path);
	if (rc < 0)
		spar_tokenizer_free(t);
	else
		*out = t;
	return rc;
}

void spar_tokenizer_free(struct spar_tokenizer *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n_added; i++)
		free(t->added[i].text);
	free(t->added);
	free(t->prefix.data);
	free(t->suffix.data);
	spar_bpe_free(t->bpe);
	spar_pretok_free(t->pretok);
	free(t);
}

/* ---- encoding ---- */

static int encode_stretch(const struct spar_tokenizer *t, const char *text, size_t n, struct spar_ids *out,
			  struct spar_err *err)
{
	struct spar_spans pieces = {0};
	utf8proc_uint8_t *normal = NULL;
	if (n == 0)
		return 0;
	if (t->nfc) {
		utf8proc_ssize_t len = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, &normal,
						    UTF8PROC_STABLE | UTF8PROC_COMPOSE);
		if (len < 0)
			return spar_fail(err, SPAR_INPUT, "normalization failed: %s", utf8proc_errmsg(len));
		text = (const char *)normal;
		n = (size_t)len;
	}
	int rc = spar_pretok_run(t->pretok, text, n, &pieces, err);
	for (size_t i = 0; i < pieces.n && rc == 0; i++)
		rc = spar_bpe_encode(t->bpe, text + pieces.data[i].begin, pieces.data[i].end - pieces.data[i].begin,
				     out, err);
	free(pieces.data);
	free(normal);
	return rc;
}

static bool is_word_byte(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
	       (unsigned char)c >= 128;
}

static bool touches(const struct spar_spans *content, size_t begin, size_t end)
{
	for (size_t i = 0; content && i < content->n && content->data[i].begin < end; i++)
		if (content->data[i].end > begin)
			return true;
	return false;
}

/* The added token that stands at `at`: the longest. */
static const struct added *added_at(const struct spar_tokenizer *t, const char *text, size_t n, size_t at,
				    const struct spar_spans *content, int flags)
{
	if (!t->starts[(unsigned char)text[at]])
		return NULL;
	for (size_t i = 0; i < t->n_added; i++) {
		const struct added *a = &t->added[i];
		if (a->n > n - at || memcmp(a->text, text + at, a->n))
			continue;
		if (a->special && (!(flags & SPAR_ENCODE_MARKERS) || touches(content, at, at + a->n)))
			continue;
		if (a->single_word &&
		    ((at && is_word_byte(text[at - 1])) || (at + a->n < n && is_word_byte(text[at + a->n]))))
			continue;
		return a;
	}
	return NULL;
}

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static int encode_utf8(const struct spar_tokenizer *t, const char *text, size_t n, const struct spar_spans *content,
		       int flags, struct spar_ids *out, struct spar_err *err)
{
	size_t from = 0;
	int rc = 0;
	for (size_t at = 0; at < n && rc == 0;) {
		const struct added *a = added_at(t, text, n, at, content, flags);
		if (!a) {
			at++;
			continue;
		}
		size_t end = at;
		while (a->lstrip && end > from && is_blank(text[end - 1]))
			end--;
		rc = encode_stretch(t, text + from, end - from, out, err);
		spar_ids_add(out, &a->id, 1);
		at += a->n;
		while (a->rstrip && at < n && is_blank(text[at]))
			at++;
		from = at;
	}
	return rc < 0 ? rc : encode_stretch(t, text + from, n - from, out, err);
}

static bool is_utf8(const char *text, size_t n)
{
	bool ok = true;
	for (size_t i = 0; i < n && ok;)
		i += spar_utf8_step(text + i, n - i, &ok);
	return ok;
}

int spar_tokenizer_encode(const struct spar_tokenizer *t, const char *text, size_t n, const struct spar_spans *content,
			  int flags, struct spar_ids *out, struct spar_err *err)
{
	struct spar_str clean = SPAR_STR_INIT;
	if (!is_utf8(text, n)) { /* spans are of rendered text, which is always valid */
		for (size_t i = 0; i < n;) {
			bool ok;
			size_t k = spar_utf8_step(text + i, n - i, &ok);
			spar_str_add(&clean, ok ? text + i : "\xef\xbf\xbd", ok ? k : 3);
			i += k;
		}
		text = clean.data;
		n = clean.len;
	}
	if (flags & SPAR_ENCODE_ADD)
		spar_ids_add(out, t->prefix.data, t->prefix.n);
	int rc = encode_utf8(t, text, n, content, flags, out, err);
	if (rc == 0 && flags & SPAR_ENCODE_ADD)
		spar_ids_add(out, t->suffix.data, t->suffix.n);
	spar_str_release(&clean);
	return rc;
}

/* ---- decoding ---- */

static const struct added *added_with_id(const struct spar_tokenizer *t, int32_t id)
{
	for (size_t i = 0; i < t->n_added; i++)
		if (t->added[i].id == id)
			return &t->added[i];
	return NULL;
}

static void add_token_text(const struct spar_tokenizer *t, int32_t id, int flags, struct spar_str *out)
{
	const struct added *a = added_with_id(t, id);
	size_t n = 0;
	if (a) {
		if (!a->special || !(flags & SPAR_DECODE_SKIP_SPECIAL))
			spar_str_add(out, a->text, a->n);
		return;
	}
	const char *bytes = spar_bpe_bytes(t->bpe, id, &n);
	if (bytes)
		spar_str_add(out, bytes, n);
}

void spar_tokenizer_decode(const struct spar_tokenizer *t, const int32_t *ids, size_t n, int flags,
			   struct spar_str *out)
{
	for (size_t i = 0; i < n; i++)
		add_token_text(t, ids[i], flags, out);
}

/* Bytes at the end that may be the beginning of a character. */
static size_t unfinished(const struct spar_str *s)
{
	for (size_t back = 1; back <= 3 && back <= s->len; back++) {
		unsigned char c = (unsigned char)s->data[s->len - back];
		if (c >= 0xc0) {
			size_t need = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
			return need > back ? back : 0;
		}
		if (c < 0x80)
			return 0;
	}
	return 0;
}

void spar_detok_feed(const struct spar_tokenizer *t, struct spar_detok *d, int32_t id, int flags, struct spar_str *out)
{
	if (!d->begun) {
		spar_str_init(&d->pending);
		d->begun = true;
	}
	add_token_text(t, id, flags, &d->pending);
	size_t keep = unfinished(&d->pending), give = d->pending.len - keep;
	spar_str_add(out, d->pending.data, give);
	char rest[4];
	memcpy(rest, d->pending.data + give, keep);
	spar_str_clear(&d->pending);
	spar_str_add(&d->pending, rest, keep);
}

void spar_detok_end(struct spar_detok *d, struct spar_str *out)
{
	if (!d->begun)
		return;
	spar_str_add(out, d->pending.data, d->pending.len);
	spar_str_release(&d->pending);
	d->begun = false;
}

/* ---- facts ---- */

size_t spar_tokenizer_size(const struct spar_tokenizer *t)
{
	return t->size;
}

int32_t spar_tokenizer_id(const struct spar_tokenizer *t, const char *s)
{
	size_t n = strlen(s);
	for (size_t i = 0; i < t->n_added; i++)
		if (t->added[i].n == n && !memcmp(t->added[i].text, s, n))
			return t->added[i].id;
	return spar_bpe_find(t->bpe, s, n);
}

bool spar_tokenizer_is_special(const struct spar_tokenizer *t, int32_t id)
{
	const struct added *a = added_with_id(t, id);
	return a && a->special;
}

int32_t spar_tokenizer_eos(const struct spar_tokenizer *t)
{
	return t->eos;
}

int32_t spar_tokenizer_bos(const struct spar_tokenizer *t)
{
	return t->bos;
}
