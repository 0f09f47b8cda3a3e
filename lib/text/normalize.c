#include "text/normalize.h"
#include "record/record.h"
#include "text/chars.h"
#include "text/steps.h"
#include "text/younger.h"
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static const char path[] = "normalizer";

/* A kind of step: how its node is read, and what it appends to `out` for `in`. */
struct spar_normalizer_kind {
	const char *name;
	int (*load)(struct spar_normalizer_step *s, jv node, struct spar_err *err);
	int (*run)(const struct spar_normalizer_step *s, const struct spar_marked *in, struct spar_marked *out,
		   struct spar_err *err);
};

static void copy(const struct spar_marked *in, size_t begin, size_t end, struct spar_marked *out)
{
	spar_marked_slice(out, in->text.data, &in->marks, begin, end);
}

/* ---- Unicode's normalization forms ---- */

static int load_form(struct spar_normalizer_step *s, jv node, struct spar_err *err)
{
	static const struct {
		const char *name;
		int options;
	} forms[] = {{"NFC", UTF8PROC_COMPOSE},
		     {"NFD", UTF8PROC_DECOMPOSE},
		     {"NFKC", UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
		     {"NFKD", UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT}};
	(void)node, (void)err;
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
		if (!strcmp(s->kind->name, forms[i].name))
			s->form = UTF8PROC_STABLE | forms[i].options;
	return 0;
}

static int map_form(const struct spar_normalizer_step *s, const struct spar_marked *in, size_t begin, size_t end,
		    struct spar_marked *out, struct spar_err *err)
{
	utf8proc_uint8_t *changed;
	if (begin == end)
		return 0;
	utf8proc_ssize_t len = utf8proc_map((const utf8proc_uint8_t *)in->text.data + begin,
					    (utf8proc_ssize_t)(end - begin), &changed, (utf8proc_option_t)s->form);
	if (len < 0)
		return spar_fail(err, SPAR_INPUT, "text cannot be normalized: %s", utf8proc_errmsg(len));
	size_t same = len && changed[0] < 0x80 && changed[0] == (uint8_t)in->text.data[begin]; /* it did not compose */
	copy(in, begin, begin + same, out);
	spar_marked_add(out, (char *)changed + same, (size_t)len - same,
			spar_spans_touch(&in->marks, begin + same, end));
	free(changed);
	return 0;
}

/* ASCII stays as it is, but for one character before others that may compose with it: only what stands between is given to
 * utf8proc, so that plain text costs a scan, and marks move with their stretch. */
static int run_form(const struct spar_normalizer_step *s, const struct spar_marked *in, struct spar_marked *out,
		    struct spar_err *err)
{
	const char *text = in->text.data;
	size_t n = in->text.len, done = 0, at = 0; /* [0, done) is in `out`, [done, at) will be as it is */
	int rc = 0;
	while (rc == 0 && at < n) {
		int32_t c;
		size_t end = at, len = 0;
		while (end < n && text[end] & 0x80 &&
		       (len = spar_char_at(text, n, end, &c), !spar_char_has_younger_form(c)))
			end += len;
		if (end == at) {
			at += text[at] & 0x80 ? len : 1;
			continue;
		}
		size_t begin = at > done && !(text[at - 1] & 0x80) ? at - 1 : at;
		copy(in, done, begin, out);
		rc = map_form(s, in, begin, end, out, err);
		done = at = end;
	}
	copy(in, done, n, out);
	return rc;
}

/* ---- Prepend, Replace ---- */

static int load_put(struct spar_normalizer_step *s, jv node, const char *key, struct spar_err *err)
{
	const char *text;
	size_t len;
	if (spar_get_str(node, path, key, &text, &len, err) < 0)
		return -err->code;
	spar_str_add(&s->put, text, len);
	return 0;
}

static int load_prepend(struct spar_normalizer_step *s, jv node, struct spar_err *err)
{
	return load_put(s, node, "prepend", err);
}

static int run_prepend(const struct spar_normalizer_step *s, const struct spar_marked *in, struct spar_marked *out,
		       struct spar_err *err)
{
	(void)err;
	spar_marked_add(out, s->put.data, in->text.len ? s->put.len : 0, false);
	copy(in, 0, in->text.len, out);
	return 0;
}

static int load_replace(struct spar_normalizer_step *s, jv node, struct spar_err *err)
{
	s->pattern = spar_pattern_load(node, path, err);
	return s->pattern ? load_put(s, node, "content", err) : -(int)err->code;
}

struct replacing {
	const struct spar_normalizer_step *step;
	const struct spar_marked *in;
	struct spar_marked *out;
};

static int replace_stretch(void *ctx, const char *text, size_t n, bool matched)
{
	struct replacing *r = ctx;
	size_t begin = (size_t)(text - r->in->text.data);
	if (matched)
		spar_marked_add(r->out, r->step->put.data, r->step->put.len,
				spar_spans_touch(&r->in->marks, begin, begin + n));
	else
		copy(r->in, begin, begin + n, r->out);
	return 0;
}

static int run_replace(const struct spar_normalizer_step *s, const struct spar_marked *in, struct spar_marked *out,
		       struct spar_err *err)
{
	pcre2_match_data *data = pcre2_match_data_create(1, NULL);
	struct replacing r = {s, in, out};
	int rc = spar_pattern_each(s->pattern, data, in->text.data, in->text.len, replace_stretch, &r, err);
	pcre2_match_data_free(data);
	return rc;
}

/* ---- Lowercase, StripAccents: character by character ---- */

static int load_nothing(struct spar_normalizer_step *s, jv node, struct spar_err *err)
{
	(void)s, (void)node, (void)err;
	return 0;
}

static int run_lowercase(const struct spar_normalizer_step *s, const struct spar_marked *in, struct spar_marked *out,
			 struct spar_err *err)
{
	(void)s, (void)err;
	for (size_t i = 0, len; i < in->text.len; i += len) {
		int32_t c;
		utf8proc_uint8_t bytes[4];
		len = spar_char_at(in->text.data, in->text.len, i, &c);
		bool marked = spar_spans_touch(&in->marks, i, i + len);
		utf8proc_ssize_t n = utf8proc_encode_char(utf8proc_tolower(c), bytes);
		spar_marked_add(out, (char *)bytes, (size_t)n, marked);
		if (c == 0x130) /* the one letter whose small form is two: i and a dot above */
			spar_marked_add(out, "\xCC\x87", 2, marked);
	}
	return 0;
}

static int run_strip_accents(const struct spar_normalizer_step *s, const struct spar_marked *in,
			     struct spar_marked *out, struct spar_err *err)
{
	(void)s, (void)err;
	for (size_t i = 0, len; i < in->text.len; i += len) {
		int32_t c;
		len = spar_char_at(in->text.data, in->text.len, i, &c);
		if (utf8proc_category(c) != UTF8PROC_CATEGORY_MN)
			copy(in, i, i + len, out);
	}
	return 0;
}

/* ---- Strip ---- */

static int load_strip(struct spar_normalizer_step *s, jv node, struct spar_err *err)
{
	int rc = spar_get_bool(node, path, "strip_left", &s->left, err);
	return rc < 0 ? rc : spar_get_bool(node, path, "strip_right", &s->right, err);
}

static int run_strip(const struct spar_normalizer_step *s, const struct spar_marked *in, struct spar_marked *out,
		     struct spar_err *err)
{
	size_t begin = 0, end = in->text.len, step;
	int32_t c;
	(void)err;
	while (s->left && begin < end && (step = spar_char_at(in->text.data, end, begin, &c), spar_char_is_space(c)))
		begin += step;
	while (s->right && end > begin && (step = spar_char_before(in->text.data, end, &c), spar_char_is_space(c)))
		end = step;
	copy(in, begin, end, out);
	return 0;
}

/* ---- Precompiled: a table of replacements, for whole user-perceived characters and for single ones ---- */

#define LONGEST 5  /* bytes of a user-perceived character that is looked up whole */
#define MARK 0x300 /* a mark of all versions of Unicode */

static int load_map(struct spar_normalizer_step *s, jv node, struct spar_err *err)
{
	const char *table;
	size_t n;
	struct spar_err why = {0};
	if (spar_get_str(node, path, "precompiled_charsmap", &table, &n, err) < 0)
		return -err->code;
	if (spar_charsmap_load(&s->map, table, n, &why) < 0)
		return spar_fail(err, SPAR_INPUT, ".%s.precompiled_charsmap: %s", path, why.msg);
	return 0;
}

/* The end of the user-perceived character that begins at `at`. */
static size_t cluster_end(const struct spar_str *text, size_t at)
{
	int32_t c, next, state = 0;
	size_t end = at + spar_char_at(text->data, text->len, at, &c);
	while (end < text->len) {
		size_t len = spar_char_at(text->data, text->len, end, &next);
		if (spar_char_is_younger_mark(next))
			next = MARK;
		if (utf8proc_grapheme_break_stateful(c, next, &state))
			break;
		c = next;
		end += len;
	}
	return end;
}

/* [begin, end) as the table has it. False: it has nothing. */
static bool map_stretch(const struct spar_charsmap *map, const struct spar_marked *in, size_t begin, size_t end,
			struct spar_marked *out)
{
	const char *put = spar_charsmap_find(map, in->text.data + begin, end - begin);
	if (put)
		spar_marked_add(out, put, strlen(put), spar_spans_touch(&in->marks, begin, end));
	return put;
}

static int run_map(const struct spar_normalizer_step *s, const struct spar_marked *in, struct spar_marked *out,
		   struct spar_err *err)
{
	(void)err;
	for (size_t i = 0, end; i < in->text.len; i = end) {
		end = cluster_end(&in->text, i);
		if (end - i <= LONGEST && map_stretch(&s->map, in, i, end, out))
			continue;
		for (size_t k = i, len; k < end; k += len) {
			int32_t c;
			len = spar_char_at(in->text.data, in->text.len, k, &c);
			if (!map_stretch(&s->map, in, k, k + len, out))
				copy(in, k, k + len, out);
		}
	}
	return 0;
}

/* ---- all steps ---- */

static const struct spar_normalizer_kind kinds[] = {{"NFC", load_form, run_form},
						    {"NFD", load_form, run_form},
						    {"NFKC", load_form, run_form},
						    {"NFKD", load_form, run_form},
						    {"Prepend", load_prepend, run_prepend},
						    {"Replace", load_replace, run_replace},
						    {"Lowercase", load_nothing, run_lowercase},
						    {"StripAccents", load_nothing, run_strip_accents},
						    {"Strip", load_strip, run_strip},
						    {"Precompiled", load_map, run_map}};

static int load_step(void *ctx, jv node, const char *type, struct spar_err *err)
{
	struct spar_normalizer *z = ctx;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (!strcmp(type, kinds[i].name)) {
			z->steps = spar_realloc(z->steps, (z->n + 1) * sizeof *z->steps);
			struct spar_normalizer_step *s = &z->steps[z->n++];
			*s = (struct spar_normalizer_step){.kind = &kinds[i], .put = SPAR_STR_INIT};
			return s->kind->load(s, node, err);
		}
	return spar_fail(err, SPAR_INPUT, ".%s: %s is not supported", path, type);
}

int spar_normalizer_load(struct spar_normalizer *z, jv node, struct spar_err *err)
{
	return spar_steps_load(node, path, "normalizers", load_step, z, err);
}

void spar_normalizer_release(struct spar_normalizer *z)
{
	for (size_t i = 0; i < z->n; i++) {
		spar_str_release(&z->steps[i].put);
		pcre2_code_free(z->steps[i].pattern);
		spar_charsmap_release(&z->steps[i].map);
	}
	free(z->steps);
}

int spar_normalizer_run(const struct spar_normalizer *z, struct spar_marked *text, struct spar_err *err)
{
	struct spar_marked out = SPAR_MARKED_INIT;
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < z->n; i++) {
		spar_marked_clear(&out);
		rc = z->steps[i].kind->run(&z->steps[i], text, &out, err);
		struct spar_marked before = *text;
		*text = out;
		out = before;
	}
	spar_marked_release(&out);
	return rc;
}
