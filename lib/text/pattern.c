#include "text/pattern.h"
#include "base/str.h"
#include "record/record.h"
#include "text/younger.h"
#include <string.h>

/* Unicode's White_Space, and all else. */
#define SPACES "\\x09-\\x0d\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define NOT_SPACES \
	"\\x00-\\x08\\x0e-\\x1f\\x21-\\x84\\x86-\\x9f\\xa1-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}" \
	"\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}"

static int refuse(struct spar_err *err, const char *what, size_t n)
{
	return spar_fail(err, SPAR_INPUT, "regex feature '%.*s' is not supported", (int)n, what);
}

/* What belongs to a category of one or two letters, as it stands inside a set. */
static void add_category(const char *category, size_t n, struct spar_str *out)
{
	spar_str_addf(out, "\\p{%.*s}", (int)n, category);
	for (size_t i = 0; i < spar_n_younger; i++)
		if (!strncmp(spar_younger[i].category, category, n))
			spar_str_addf(out, "\\x{%x}-\\x{%x}", (unsigned)spar_younger[i].low,
				      (unsigned)spar_younger[i].high);
}

/* Classes that are spelt out, in a set or alone; the length of the one at p, 0: it is none, or a negative code. */
static int add_class(const char *p, bool in_set, struct spar_str *out, struct spar_err *err)
{
	static const char *const word[] = {"L", "M", "Nd", "Pc"};
	bool complement = p[1] < 'a';
	char c = (char)(p[1] | 0x20);
	if (c != 's' && c != 'w' && c != 'd')
		return 0;
	if (in_set && complement && c != 's')
		return refuse(err, p, 2);
	if (!in_set)
		spar_str_adds(out, complement ? "[^" : "[");
	if (c == 's')
		spar_str_adds(out, in_set && complement ? NOT_SPACES : SPACES);
	else if (c == 'd')
		add_category("Nd", 2, out);
	else
		spar_str_adds(out, "\\xb2\\xb3\\xb9\\xbc-\\xbe"); /* Oniguruma's words hold these numbers too */
	for (size_t i = 0; c == 'w' && i < sizeof word / sizeof *word; i++)
		add_category(word[i], strlen(word[i]), out);
	if (!in_set)
		spar_str_addc(out, ']');
	return 2;
}

/* A property \p{..} of len bytes: a category of one or two letters, or a script. */
static void add_property(const char *p, size_t len, bool in_set, struct spar_str *out)
{
	bool caret = len > 4 && p[3] == '^', complement = (p[1] == 'P') != caret;
	const char *name = p + 3 + caret;
	size_t n = len - 4 - caret;
	if (n > 2) {
		spar_str_addf(out, "\\%c{sc:%.*s}", complement ? 'P' : 'p', (int)n, name);
	} else if (in_set && complement) { /* with the younger ones: a set cannot leave out what it holds */
		spar_str_addf(out, "\\P{%.*s}", (int)n, name);
	} else {
		if (!in_set)
			spar_str_adds(out, complement ? "[^" : "[");
		add_category(name, n, out);
		if (!in_set)
			spar_str_addc(out, ']');
	}
}

/* One escape at p, n bytes left; returns its length or a negative code. */
static int add_escape(const char *p, size_t n, bool in_set, struct spar_str *out, struct spar_err *err)
{
	char c = n > 1 ? p[1] : 0;
	int rc = n > 1 ? add_class(p, in_set, out, err) : 0;
	if (rc != 0)
		return rc;
	bool code_point = c == 'x' && n > 2 && p[2] == '{';
	bool punctuation = c > ' ' && c < 0x7F && strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", c);
	if (!c || !(strchr("rntf", c) || ((c == 'p' || c == 'P') && n > 2 && p[2] == '{') || code_point || punctuation))
		return refuse(err, p, n > 1 ? 2 : 1);
	const char *brace = n > 2 && p[2] == '{' && strchr("pPx", c) ? memchr(p, '}', n) : NULL;
	size_t len = brace ? (size_t)(brace - p) + 1 : 2;
	if (brace && c != 'x')
		add_property(p, len, in_set, out);
	else
		spar_str_add(out, p, len);
	return (int)len;
}

/* The opening of a group at p: only those that mean the same in both syntaxes. */
static int check_group(const char *p, size_t n, struct spar_err *err)
{
	static const char *const known[] = {"?:", "?=", "?!", "?<=", "?<!", "?>", "?i:", "?i)", "?-i:"};
	if (n < 2 || (p[1] != '?' && p[1] != '*'))
		return 0;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (n > strlen(known[i]) && !memcmp(p + 1, known[i], strlen(known[i])))
			return 0;
	return refuse(err, p, n < 4 ? n : 4);
}

static int translate(const char *p, size_t n, struct spar_str *out, struct spar_err *err)
{
	bool in_set = false;
	for (size_t i = 0; i < n;) {
		const char *at = p + i;
		size_t left = n - i;
		if (*at == '\\') {
			int step = add_escape(at, left, in_set, out, err);
			if (step < 0)
				return step;
			i += (size_t)step;
			continue;
		}
		if (in_set) {
			if (*at == '[' || (left > 1 && !memcmp(at, "&&", 2)))
				return refuse(err, at, left > 1 ? 2 : 1); /* nested sets, intersections, [:names:] */
			in_set = *at != ']';
		} else if (*at == '[') {
			in_set = true;
			size_t skip = left > 1 && at[1] == '^' ? 2 : 1; /* a ] right here is a character of the set */
			if (left > skip && at[skip] == ']')
				return refuse(err, at, skip + 1);
			spar_str_add(out, at, skip);
			i += skip;
			continue;
		} else if (*at == '(') {
			if (check_group(at, left, err) < 0)
				return -err->code;
		} else if (left > 1 && (!memcmp(at, "}+", 2) || !memcmp(at, "{,", 2))) {
			return refuse(err, at, 2);
		}
		spar_str_addc(out, *at);
		i++;
	}
	return 0;
}

pcre2_code *spar_pattern_compile(const char *pattern, size_t n, bool literal, struct spar_err *err)
{
	struct spar_str text = SPAR_STR_INIT;
	pcre2_code *code = NULL;
	if (literal)
		spar_str_add(&text, pattern, n);
	if (!literal && translate(pattern, n, &text, err) < 0)
		goto out;
	int number;
	size_t offset;
	uint32_t options =
	    literal ? PCRE2_LITERAL | PCRE2_UTF : PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_AUTO_CAPTURE;
	pcre2_compile_context *context = pcre2_compile_context_create(NULL);
	pcre2_set_newline(context, PCRE2_NEWLINE_LF);
	code = pcre2_compile((PCRE2_SPTR)text.data, text.len, options, &number, &offset, context);
	pcre2_compile_context_free(context);
	if (code) {
		pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); /* where there is none, the interpreter runs */
	} else {
		char why[256];
		pcre2_get_error_message(number, (PCRE2_UCHAR *)why, sizeof why);
		spar_fail(err, SPAR_INPUT, "regex is not supported: %s", why);
	}
out:
	spar_str_release(&text);
	return code;
}

/* 1: [*begin, *end) is the first match at or after `from`, 0: none. */
static int find(const pcre2_code *code, pcre2_match_data *data, const char *text, size_t n, size_t from, size_t *begin,
		size_t *end, struct spar_err *err)
{
	int rc = pcre2_match(code, (PCRE2_SPTR)text, n, from, PCRE2_NO_UTF_CHECK, data, NULL);
	if (rc == PCRE2_ERROR_JIT_STACKLIMIT) /* the interpreter keeps its stack on the heap */
		rc = pcre2_match(code, (PCRE2_SPTR)text, n, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, NULL);
	if (rc == PCRE2_ERROR_NOMATCH)
		return 0;
	if (rc < 0) {
		char why[256];
		pcre2_get_error_message(rc, (PCRE2_UCHAR *)why, sizeof why);
		return spar_fail(err, SPAR_INPUT, "regex at byte %zu of a stretch of %zu: %s", from, n, why);
	}
	const PCRE2_SIZE *offsets = pcre2_get_ovector_pointer(data);
	*begin = offsets[0];
	*end = offsets[1];
	return 1;
}

int spar_pattern_each(const pcre2_code *code, pcre2_match_data *data, const char *text, size_t n, spar_stretch_fn *each,
		      void *ctx, struct spar_err *err)
{
	size_t done = 0, from = 0, begin, end;
	int rc = 0, found = 1;
	while (from <= n && (found = find(code, data, text, n, from, &begin, &end, err)) > 0) {
		if (begin > done && (rc = each(ctx, text + done, begin - done, false)) < 0)
			return rc;
		if ((rc = each(ctx, text + begin, end - begin, true)) < 0)
			return rc;
		done = from = end;
		if (begin == end) { /* an empty match: look on behind the next character */
			bool ok;
			from += end < n ? spar_utf8_step(text + end, n - end, &ok) : 1;
		}
	}
	if (found >= 0 && done < n)
		rc = each(ctx, text + done, n - done, false);
	return found < 0 ? found : rc;
}

pcre2_code *spar_pattern_load(jv node, const char *path, struct spar_err *err)
{
	jv pattern;
	const char *text;
	size_t len;
	pcre2_code *code = NULL;
	if (spar_get_kind(node, path, "pattern", JV_KIND_OBJECT, &pattern, err) < 0)
		return NULL;
	bool literal = spar_has(pattern, "String");
	if (spar_get_str(pattern, path, literal ? "String" : "Regex", &text, &len, err) == 0) {
		code = spar_pattern_compile(text, len, literal, err);
		if (!code)
			spar_fail_at(err, ".%s", path);
	}
	jv_free(pattern);
	return code;
}
