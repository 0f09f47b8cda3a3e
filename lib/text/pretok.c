/* pretok.c - Sequence, Split, Digits and ByteLevel nodes. Every node cuts the pieces of the one before it further; the byte
 * alphabet of ByteLevel is the model's business (bpe.c works on bytes). */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pretok.h"

#include "record/record.h"
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/* GPT-2's pattern, which ByteLevel with use_regex stands for (openai/gpt-2, encoder.py). */
#define GPT2_PATTERN "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* Each node is a pattern: what it matches, and what lies between matches, are pieces of their own. */
struct spar_pretok {
	pcre2_code **nodes;
	size_t n;
};

void spar_spans_add(struct spar_spans *v, size_t begin, size_t end)
{
	if (v->n == v->cap) {
		v->cap = v->cap ? 2 * v->cap : 64;
		v->data = spar_realloc(v->data, v->cap * sizeof *v->data);
	}
	v->data[v->n++] = (struct spar_span){begin, end};
}

static int add_pattern(struct spar_pretok *p, const char *pattern, size_t n, bool literal, struct spar_err *err)
{
	int code;
	size_t at;
	uint32_t flags = PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK | (literal ? PCRE2_LITERAL : 0);
	pcre2_code *re =
	    pcre2_compile((PCRE2_SPTR)pattern, n, literal ? flags & ~(uint32_t)PCRE2_UCP : flags, &code, &at, NULL);
	if (!re) {
		PCRE2_UCHAR message[128] = "";
		pcre2_get_error_message(code, message, sizeof message);
		return spar_fail(err, SPAR_INPUT, "pre_tokenizer: the pattern cannot be used: %s at offset %zu",
				 (char *)message, at);
	}
	pcre2_jit_compile(re, PCRE2_JIT_COMPLETE);
	p->nodes = spar_realloc(p->nodes, (p->n + 1) * sizeof *p->nodes);
	p->nodes[p->n++] = re;
	return 0;
}

static int no_such(struct spar_err *err, const char *what, const char *name)
{
	return spar_fail(err, SPAR_INPUT, "pre_tokenizer: %s %s is not supported", what, name);
}

static int add_split(struct spar_pretok *p, jv node, struct spar_err *err)
{
	const char *behavior, *text;
	size_t n;
	jv pattern;
	if (spar_get_str(node, "pre_tokenizer", "behavior", &behavior, &n, err) < 0)
		return -SPAR_INPUT;
	if (strcmp(behavior, "Isolated")) /* then "invert" changes nothing: matches and gaps are pieces alike */
		return no_such(err, "behavior", behavior);
	if (spar_get_kind(node, "pre_tokenizer", "pattern", JV_KIND_OBJECT, &pattern, err) < 0)
		return -SPAR_INPUT;
	bool regex = spar_has(pattern, "Regex");
	int rc = spar_get_str(pattern, "pre_tokenizer.pattern", regex ? "Regex" : "String", &text, &n, err);
	if (rc == 0)
		rc = add_pattern(p, text, n, !regex, err);
	jv_free(pattern);
	return rc;
}

static bool flag(jv node, const char *key, bool absent)
{
	jv v = jv_object_get(jv_copy(node), jv_string(key));
	jv_kind k = jv_get_kind(v);
	jv_free(v);
	return k == JV_KIND_TRUE || (k != JV_KIND_FALSE && absent);
}

static int add_node(struct spar_pretok *p, jv node, int depth, struct spar_err *err);

static int add_sequence(struct spar_pretok *p, jv node, int depth, struct spar_err *err)
{
	jv list;
	if (spar_get_kind(node, "pre_tokenizer", "pretokenizers", JV_KIND_ARRAY, &list, err) < 0)
		return -SPAR_INPUT;
	int rc = 0;
	jv_array_foreach(list, i, item)
	{
		if (rc == 0)
			rc = add_node(p, item, depth + 1, err);
		jv_free(item);
	}
	jv_free(list);
	return rc;
}

/* `node` is borrowed. */
static int add_node(struct spar_pretok *p, jv node, int depth, struct spar_err *err)
{
	const char *type;
	size_t n;
	if (jv_get_kind(node) != JV_KIND_OBJECT || depth > 8)
		return spar_fail(err, SPAR_INPUT, "pre_tokenizer: expected an object");
	if (spar_get_str(node, "pre_tokenizer", "type", &type, &n, err) < 0)
		return -SPAR_INPUT;
	if (!strcmp(type, "Sequence"))
		return add_sequence(p, node, depth, err);
	if (!strcmp(type, "Split"))
		return add_split(p, node, err);
	if (!strcmp(type, "Digits"))
		return flag(node, "individual_digits", false) ? add_pattern(p, "\\p{N}", 5, false, err)
							      : add_pattern(p, "\\p{N}+", 6, false, err);
	if (strcmp(type, "ByteLevel"))
		return no_such(err, "type", type);
	if (flag(node, "add_prefix_space", true))
		return no_such(err, "option", "add_prefix_space");
	return flag(node, "use_regex", true) ? add_pattern(p, GPT2_PATTERN, strlen(GPT2_PATTERN), false, err) : 0;
}

int spar_pretok_new(struct spar_pretok **out, jv node, struct spar_err *err)
{
	struct spar_pretok *p = spar_calloc(1, sizeof *p);
	*out = NULL;
	int rc = jv_get_kind(node) == JV_KIND_NULL || !jv_is_valid(node) ? 0 : add_node(p, node, 0, err);
	if (rc < 0) {
		spar_pretok_free(p);
		return rc;
	}
	*out = p;
	return 0;
}

void spar_pretok_free(struct spar_pretok *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n; i++)
		pcre2_code_free(p->nodes[i]);
	free(p->nodes);
	free(p);
}

/* Cut one piece at the matches: matches and gaps are pieces of their own. Matching sees the piece alone, as look-ahead
 * must not see beyond it. */
static int cut(const pcre2_code *pattern, pcre2_match_data *match, const char *text, struct spar_span piece,
	       struct spar_spans *out, struct spar_err *err)
{
	PCRE2_SPTR s = (PCRE2_SPTR)text + piece.begin;
	size_t n = piece.end - piece.begin, at = 0, done = 0;
	while (at < n) {
		int rc = pcre2_match(pattern, s, n, at, PCRE2_NO_UTF_CHECK, match, NULL);
		if (rc == PCRE2_ERROR_NOMATCH)
			break;
		if (rc < 0)
			return spar_fail(err, SPAR_INPUT, "pre_tokenizer: the pattern gave up on this text (error %d)",
					 rc);
		size_t *o = pcre2_get_ovector_pointer(match);
		if (o[1] == o[0]) { /* empty match: step over a character */
			bool ok;
			at = o[1] + spar_utf8_step((const char *)s + o[1], n - o[1], &ok);
			continue;
		}
		if (o[0] > done)
			spar_spans_add(out, piece.begin + done, piece.begin + o[0]);
		spar_spans_add(out, piece.begin + o[0], piece.begin + o[1]);
		at = done = o[1];
	}
	if (done < n)
		spar_spans_add(out, piece.begin + done, piece.end);
	return 0;
}

int spar_pretok_run(const struct spar_pretok *p, const char *text, size_t n, struct spar_spans *pieces,
		    struct spar_err *err)
{
	struct spar_spans now = {0}, next = {0};
	int rc = 0;
	if (n)
		spar_spans_add(&now, 0, n);
	for (size_t i = 0; i < p->n && rc == 0; i++) {
		pcre2_match_data *match = pcre2_match_data_create_from_pattern(p->nodes[i], NULL);
		next.n = 0;
		for (size_t j = 0; j < now.n && rc == 0; j++)
			rc = cut(p->nodes[i], match, text, now.data[j], &next, err);
		pcre2_match_data_free(match);
		struct spar_spans t = now;
		now = next;
		next = t;
	}
	for (size_t j = 0; j < now.n && rc == 0; j++)
		spar_spans_add(pieces, now.data[j].begin, now.data[j].end);
	free(now.data);
	free(next.data);
	return rc;
}
