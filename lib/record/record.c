#include "record/record.h"
#include "base/json.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 256
#define EXACT_MAX 9007199254740992.0 /* 2^53: whole numbers up to here are exact in a double */
#define REASONS_SHOWN 10             /* bad records whose reason is printed; all are counted */

struct spar_edit {
	char *key, *json;
	size_t n;       /* bytes of json */
	size_t at, len; /* what it replaces in the line; len 0: nothing, it is added at the end */
};

/* ---- one record ---- */

void spar_record_init(struct spar_record *r)
{
	*r = (struct spar_record){.text = SPAR_STR_INIT, .value = jv_invalid(), .type = ""};
}

static void drop_edits(struct spar_record *r)
{
	for (size_t i = 0; i < r->n_edits; i++) {
		free(r->edits[i].key);
		free(r->edits[i].json);
	}
	r->n_edits = 0;
}

void spar_record_release(struct spar_record *r)
{
	drop_edits(r);
	free(r->edits);
	jv_free(r->value);
	spar_str_release(&r->text);
	spar_record_init(r);
}

static size_t skip_blanks(const char *text, size_t n, size_t at)
{
	while (at < n && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r'))
		at++;
	return at;
}

static int scan(const char *line, size_t len, struct spar_err *err)
{
	const char *what = NULL;
	size_t begin = skip_blanks(line, len, 0), at = 0;
	size_t n = spar_json_skip(line + begin, len - begin, DEPTH_MAX, false, &what, &at);
	if (!n)
		return spar_fail(err, SPAR_INPUT, "not JSON: byte %zu: %s", begin + at + 1, what);
	size_t end = skip_blanks(line, len, begin + n);
	if (end != len)
		return spar_fail(err, SPAR_INPUT, "not JSON: byte %zu: more than one value on the line", end + 1);
	return 0;
}

/* libjq's message quotes the whole line behind "(while parsing": cut it. */
static int parse_failed(jv invalid, struct spar_err *err)
{
	jv message = jv_invalid_get_msg(invalid);
	const char *text = jv_get_kind(message) == JV_KIND_STRING ? jv_string_value(message) : "libjq refuses it";
	const char *quote = strstr(text, " (while parsing");
	int rc = spar_fail(err, SPAR_INPUT, "not JSON: %.*s", quote ? (int)(quote - text) : 200, text);
	jv_free(message);
	return rc;
}

int spar_record_parse(struct spar_record *r, const char *line, size_t len, struct spar_err *err)
{
	drop_edits(r);
	jv_free(r->value);
	r->value = jv_invalid();
	r->type = "";
	spar_str_clear(&r->text);
	spar_str_add(&r->text, line, len);
	int rc = len > INT_MAX ? spar_fail(err, SPAR_INPUT, "longer than %d bytes", INT_MAX) : scan(line, len, err);
	if (rc < 0)
		return rc;
	jv value = jv_parse_sized(line, (int)len);
	if (!jv_is_valid(value))
		return parse_failed(value, err);
	r->value = value;
	if (jv_get_kind(value) != JV_KIND_OBJECT)
		return spar_fail(err, SPAR_INPUT, "expected object, got %s", spar_kind_name(value));
	if (jv_object_has(jv_copy(value), jv_string("type"))) {
		size_t n;
		return spar_get_str(value, "", "type", &r->type, &n, err);
	}
	return 0;
}

bool spar_record_is(const struct spar_record *r, const char *type)
{
	return !strcmp(r->type, type);
}

/* Whether the raw text of a key (between its quotes) spells `key`. */
static bool same_key(const char *raw, size_t n, const char *key)
{
	if (!memchr(raw, '\\', n))
		return strlen(key) == n && !memcmp(raw, key, n);
	jv plain = jv_parse_sized(raw - 1, (int)n + 2);
	bool same = jv_get_kind(plain) == JV_KIND_STRING && !strcmp(jv_string_value(plain), key);
	jv_free(plain);
	return same;
}

/* Where the last member of that name has its value. */
static void find_member(const struct spar_record *r, struct spar_edit *e)
{
	struct spar_json_members m;
	size_t begin = skip_blanks(r->text.data, r->text.len, 0);
	spar_json_members_init(&m, r->text.data + begin, r->text.len - begin);
	while (spar_json_members_next(&m)) {
		if (same_key(m.key, m.key_len, e->key)) {
			e->at = (size_t)(m.value - r->text.data);
			e->len = m.value_len;
		}
	}
}

void spar_record_set(struct spar_record *r, const char *key, const char *json, size_t n)
{
	struct spar_edit *e = r->edits;
	while (e < r->edits + r->n_edits && strcmp(e->key, key) != 0)
		e++;
	if (e == r->edits + r->n_edits) {
		r->edits = spar_realloc(r->edits, (r->n_edits + 1) * sizeof *r->edits);
		e = &r->edits[r->n_edits++];
		*e = (struct spar_edit){.key = spar_strdup(key)};
		if (jv_object_has(jv_copy(r->value), jv_string(key)))
			find_member(r, e);
	}
	free(e->json);
	e->json = spar_malloc(n);
	memcpy(e->json, json, n);
	e->n = n;
}

void spar_record_set_double(struct spar_record *r, const char *key, double v)
{
	struct spar_str s = SPAR_STR_INIT;
	spar_str_add_double(&s, v);
	spar_record_set(r, key, s.data, s.len);
	spar_str_release(&s);
}

void spar_record_set_str(struct spar_record *r, const char *key, const char *cstr)
{
	struct spar_str s = SPAR_STR_INIT;
	spar_str_add_json(&s, cstr, strlen(cstr));
	spar_record_set(r, key, s.data, s.len);
	spar_str_release(&s);
}

/* The replacement that comes first at or after `from`, or NULL. */
static const struct spar_edit *next_edit(const struct spar_record *r, size_t from)
{
	const struct spar_edit *first = NULL;
	for (const struct spar_edit *e = r->edits; e < r->edits + r->n_edits; e++)
		if (e->len && e->at >= from && (!first || e->at < first->at))
			first = e;
	return first;
}

void spar_record_text(const struct spar_record *r, struct spar_str *out)
{
	const char *text = r->text.data;
	size_t done = 0, brace = r->text.len;
	const struct spar_edit *e;
	while (brace && text[--brace] != '}')
		;
	while ((e = next_edit(r, done))) {
		spar_str_add(out, text + done, e->at - done);
		spar_str_add(out, e->json, e->n);
		done = e->at + e->len;
	}
	spar_str_add(out, text + done, brace - done);
	bool empty = jv_object_length(jv_copy(r->value)) == 0;
	for (e = r->edits; e < r->edits + r->n_edits; e++) {
		if (e->len)
			continue;
		if (!empty)
			spar_str_addc(out, ',');
		empty = false;
		spar_str_add_json(out, e->key, strlen(e->key));
		spar_str_addc(out, ':');
		spar_str_add(out, e->json, e->n);
	}
	spar_str_add(out, text + brace, r->text.len - brace);
}

/* ---- the filter loop ---- */

int spar_filter_open(struct spar_filter *f, const char *path)
{
	int rc = 0;
	spar_record_init(&f->rec);
	spar_str_init(&f->line);
	if (f->rejects && !f->skip_bad)
		rc = spar_fail(&f->err, SPAR_USAGE, "--rejects needs --skip-bad");
	if (rc == 0)
		rc = spar_reader_open(&f->in, path, &f->err);
	if (rc == 0)
		rc = spar_writer_open(&f->out, NULL, &f->err);
	if (rc == 0 && f->save)
		rc = spar_writer_open(&f->save_out, f->save, &f->err);
	if (rc == 0 && f->rejects)
		rc = spar_writer_open(&f->rejects_out, f->rejects, &f->err);
	return rc;
}

int spar_filter_next(struct spar_filter *f, struct spar_record **rec)
{
	for (;;) {
		const char *line;
		size_t len;
		/* Never wait for input while holding what those downstream could work on. */
		if (!spar_reader_ready(f->in, 0) && spar_writer_flush(f->out, &f->err) < 0)
			return -f->err.code;
		int rc = spar_reader_next(f->in, &line, &len, &f->err);
		if (rc <= 0)
			return rc;
		f->n_in++;
		f->rec.line = spar_reader_line(f->in);
		if (spar_record_parse(&f->rec, line, len, &f->err) == 0) {
			*rec = &f->rec;
			return 1;
		}
		if ((rc = spar_filter_reject(f, &f->rec)) < 0)
			return rc;
	}
}

int spar_filter_put_line(struct spar_filter *f, const char *line, size_t n)
{
	int rc = spar_writer_put(f->out, line, n, &f->err);
	if (rc == 0 && f->save_out)
		rc = spar_writer_put(f->save_out, line, n, &f->err);
	f->n_out += rc == 0;
	return rc;
}

int spar_filter_put(struct spar_filter *f, const struct spar_record *rec)
{
	int rc;
	if (rec->n_edits) {
		spar_str_clear(&f->line);
		spar_record_text(rec, &f->line);
		rc = spar_filter_put_line(f, f->line.data, f->line.len);
	} else {
		rc = spar_filter_put_line(f, rec->text.data, rec->text.len);
	}
	return rc == 0 && spar_record_is(rec, "batch") ? spar_filter_flush(f) : rc;
}

int spar_filter_flush(struct spar_filter *f)
{
	int rc = f->save_out ? spar_writer_flush(f->save_out, &f->err) : 0;
	return rc < 0 ? rc : spar_writer_flush(f->out, &f->err);
}

static void say(struct spar_filter *f)
{
	if (f->n_said++ < REASONS_SHOWN)
		spar_warn(f->tool, "%s", f->err.msg);
	f->err = (struct spar_err){0};
}

void spar_filter_complain(struct spar_filter *f, const struct spar_record *rec)
{
	spar_fail_at(&f->err, "%s:%zu", spar_reader_name(f->in), rec->line);
	say(f);
}

int spar_filter_reject(struct spar_filter *f, const struct spar_record *rec)
{
	int rc = spar_fail_at(&f->err, "%s:%zu", spar_reader_name(f->in), rec->line);
	if (!f->skip_bad)
		return rc;
	f->n_bad++;
	say(f);
	return f->rejects_out ? spar_writer_put(f->rejects_out, rec->text.data, rec->text.len, &f->err) : 0;
}

static void close_writer(struct spar_writer *w, bool whole, struct spar_err *err)
{
	struct spar_err late = {0};
	if (w && whole)
		spar_writer_close(w, &late);
	else
		spar_writer_abort(w);
	if (late.code && !err->code)
		*err = late;
}

int spar_filter_finish(struct spar_filter *f, int rc)
{
	bool whole = rc >= 0;
	if (whole)
		f->err = (struct spar_err){0};
	close_writer(f->out, whole, &f->err);
	whole = whole && !f->err.code;
	close_writer(f->save_out, whole, &f->err);
	close_writer(f->rejects_out, whole, &f->err);
	spar_reader_close(f->in);
	spar_record_release(&f->rec);
	spar_str_release(&f->line);
	if (f->n_bad)
		fprintf(stderr, "%s: %" PRIu64 " of %" PRIu64 " records refused\n", f->tool, f->n_bad, f->n_in);
	return f->err.code ? spar_die(f->tool, &f->err) : SPAR_OK;
}

/* ---- accessors ---- */

const char *spar_kind_name(jv v)
{
	switch (jv_get_kind(v)) {
	case JV_KIND_NULL:
		return "null";
	case JV_KIND_FALSE:
	case JV_KIND_TRUE:
		return "boolean";
	case JV_KIND_NUMBER:
		return "number";
	case JV_KIND_STRING:
		return "string";
	case JV_KIND_ARRAY:
		return "array";
	case JV_KIND_OBJECT:
		return "object";
	default:
		return "nothing";
	}
}

/* `v` is borrowed. */
static int mismatch(const char *path, const char *key, const char *expected, jv v, struct spar_err *err)
{
	return spar_fail(err, SPAR_INPUT, "%s%s.%s: expected %s, got %s", *path ? "." : "", path, key, expected,
			 spar_kind_name(v));
}

/* A NEW reference; invalid if the key is not there. */
static jv member(jv obj, const char *key)
{
	if (jv_get_kind(obj) != JV_KIND_OBJECT)
		return jv_invalid();
	return jv_object_get(jv_copy(obj), jv_string(key));
}

int spar_get_kind(jv obj, const char *path, const char *key, jv_kind kind, jv *out, struct spar_err *err)
{
	jv v = member(obj, key);
	if (jv_get_kind(v) == kind) {
		*out = v;
		return 0;
	}
	const char *expected = kind == JV_KIND_OBJECT   ? "object"
			       : kind == JV_KIND_ARRAY  ? "array"
			       : kind == JV_KIND_STRING ? "string"
			       : kind == JV_KIND_NUMBER ? "number"
			       : kind == JV_KIND_NULL   ? "null"
							: "boolean";
	int rc = mismatch(path, key, expected, v, err);
	jv_free(v);
	return rc;
}

int spar_get_double(jv obj, const char *path, const char *key, double *out, struct spar_err *err)
{
	jv v;
	int rc = spar_get_kind(obj, path, key, JV_KIND_NUMBER, &v, err);
	if (rc < 0)
		return rc;
	*out = jv_number_value(v); /* the scanner let only numbers through; 1e999 reads as the largest double */
	jv_free(v);
	return 0;
}

int spar_get_i64(jv obj, const char *path, const char *key, int64_t *out, struct spar_err *err)
{
	double v;
	int rc = spar_get_double(obj, path, key, &v, err);
	if (rc < 0)
		return rc;
	if (!(fabs(v) <= EXACT_MAX) || v != floor(v))
		return spar_fail(err, SPAR_INPUT, "%s%s.%s: expected a whole number within 2^53, got %.17g",
				 *path ? "." : "", path, key, v);
	*out = (int64_t)v;
	return 0;
}

int spar_get_u64(jv obj, const char *path, const char *key, uint64_t *out, struct spar_err *err)
{
	jv v = member(obj, key);
	int rc = 0;
	if (jv_get_kind(v) == JV_KIND_STRING) {
		if (spar_parse_u64(jv_string_value(v), out) < 0)
			rc = spar_fail(err, SPAR_INPUT, "%s%s.%s: expected a whole number below 2^64, got \"%.40s\"",
				       *path ? "." : "", path, key, jv_string_value(v));
	} else if (jv_get_kind(v) != JV_KIND_NUMBER) {
		rc = mismatch(path, key, "number or decimal string", v, err);
	} else {
		double d = jv_number_value(v);
		if (d >= 0 && d <= EXACT_MAX && d == floor(d))
			*out = (uint64_t)d;
		else
			rc = spar_fail(
			    err, SPAR_INPUT,
			    "%s%s.%s: expected a whole number from 0 to 2^53 (larger ones as a string), got %.17g",
			    *path ? "." : "", path, key, d);
	}
	jv_free(v);
	return rc;
}

int spar_get_bool(jv obj, const char *path, const char *key, bool *out, struct spar_err *err)
{
	jv v = member(obj, key);
	int rc = 0;
	if (jv_get_kind(v) == JV_KIND_TRUE || jv_get_kind(v) == JV_KIND_FALSE)
		*out = jv_get_kind(v) == JV_KIND_TRUE;
	else
		rc = mismatch(path, key, "boolean", v, err);
	jv_free(v);
	return rc;
}

int spar_get_str(jv obj, const char *path, const char *key, const char **out, size_t *len, struct spar_err *err)
{
	jv v;
	int rc = spar_get_kind(obj, path, key, JV_KIND_STRING, &v, err);
	if (rc < 0)
		return rc;
	*out = jv_string_value(v);
	*len = (size_t)jv_string_length_bytes(jv_copy(v));
	jv_free(v); /* obj holds the string */
	return 0;
}

/* The array's elements as numbers, one by one through `take`, which returns what it expected or NULL. */
static int get_numbers(jv obj, const char *path, const char *key, void **out, size_t *n, size_t size,
		       const char *(*take)(double v, void *to), struct spar_err *err)
{
	jv array;
	int rc = spar_get_kind(obj, path, key, JV_KIND_ARRAY, &array, err);
	if (rc < 0)
		return rc;
	int len = jv_array_length(jv_copy(array));
	char *items = malloc(len ? (size_t)len * size : 1);
	if (!items)
		rc = spar_fail(err, SPAR_FAIL, "%s%s.%s: no memory for %d numbers", *path ? "." : "", path, key, len);
	for (int i = 0; rc == 0 && i < len; i++) {
		jv v = jv_array_get(jv_copy(array), i);
		const char *expected = "number";
		bool number = jv_get_kind(v) == JV_KIND_NUMBER;
		if (number)
			expected = take(jv_number_value(v), items + (size_t)i * size);
		if (number && expected)
			rc = spar_fail(err, SPAR_INPUT, "%s%s.%s[%d]: expected %s, got %.9g", *path ? "." : "", path,
				       key, i, expected, jv_number_value(v));
		else if (!number)
			rc = spar_fail(err, SPAR_INPUT, "%s%s.%s[%d]: expected number, got %s", *path ? "." : "", path,
				       key, i, spar_kind_name(v));
		jv_free(v);
	}
	jv_free(array);
	if (rc < 0) {
		free(items);
		return rc;
	}
	*out = items;
	*n = (size_t)len;
	return 0;
}

static const char *take_id(double v, void *to)
{
	if (!(v >= 0 && v <= INT32_MAX) || v != floor(v))
		return "a token id";
	*(int32_t *)to = (int32_t)v;
	return NULL;
}

static const char *take_float(double v, void *to)
{
	float f = (float)v;
	if (!isfinite(f))
		return "a number within float range";
	*(float *)to = f;
	return NULL;
}

static const char *take_double(double v, void *to)
{
	if (!isfinite(v))
		return "a finite number";
	*(double *)to = v;
	return NULL;
}

int spar_get_ids(jv obj, const char *path, const char *key, int32_t **out, size_t *n, struct spar_err *err)
{
	void *items;
	int rc = get_numbers(obj, path, key, &items, n, sizeof **out, take_id, err);
	if (rc == 0)
		*out = items;
	return rc;
}

int spar_get_floats(jv obj, const char *path, const char *key, float **out, size_t *n, struct spar_err *err)
{
	void *items;
	int rc = get_numbers(obj, path, key, &items, n, sizeof **out, take_float, err);
	if (rc == 0)
		*out = items;
	return rc;
}

int spar_get_doubles(jv obj, const char *path, const char *key, double **out, size_t *n, struct spar_err *err)
{
	void *items;
	int rc = get_numbers(obj, path, key, &items, n, sizeof **out, take_double, err);
	if (rc == 0)
		*out = items;
	return rc;
}

bool spar_has(jv obj, const char *key)
{
	jv v = member(obj, key);
	bool there = jv_is_valid(v) && jv_get_kind(v) != JV_KIND_NULL;
	jv_free(v);
	return there;
}
