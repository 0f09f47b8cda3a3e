#include "rl/osint_text.h"
#include "base/json.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { DEPTH_MAX = 64 };

/* ---- objects ---- */

struct best {
	const char *const *keys;
	jv object;
	int n_keys;
};

/* Outer before inner, in the order of the text. */
static void consider(struct best *best, jv value)
{
	if (jv_get_kind(value) == JV_KIND_OBJECT) {
		int n = 0;
		for (const char *const *k = best->keys; *k; k++)
			n += jv_object_has(jv_copy(value), jv_string(*k));
		if (!jv_is_valid(best->object) || n > best->n_keys) {
			jv_free(best->object);
			best->object = jv_copy(value);
			best->n_keys = n;
		}
		jv_object_foreach(value, name, member)
		{
			jv_free(name);
			consider(best, member);
			jv_free(member);
		}
	} else if (jv_get_kind(value) == JV_KIND_ARRAY) {
		jv_array_foreach(value, i, item)
		{
			consider(best, item);
			jv_free(item);
		}
	}
}

/* Set, for each '{' from `at` on, the end of its balanced span. Strings are skipped, quotes outside of objects are prose.
 * Returns where the first object that never ends begins, or n. */
static size_t find_spans(const char *text, size_t at, size_t n, size_t *end, size_t *open)
{
	size_t depth = 0;
	bool in_string = false;
	for (size_t i = at; i < n; i++) {
		if (in_string && text[i] == '\\')
			i++;
		else if (text[i] == '"')
			in_string = depth && !in_string;
		else if (!in_string && text[i] == '{')
			open[depth++] = i;
		else if (!in_string && text[i] == '}' && depth)
			end[open[--depth]] = i + 1;
	}
	return depth ? open[0] : n;
}

/* For each '{' the end of its span, 0 if it has none. What follows an object that never ends is looked at anew, as its
 * quotes may be out of step; not for ever, so that the time stays linear. */
static size_t *spans(const char *text, size_t n)
{
	size_t *end = spar_calloc(n + 1, sizeof *end), *open = spar_malloc((n + 1) * sizeof *open), at = 0;
	for (int tries = 0; at < n && tries < DEPTH_MAX; tries++)
		at = find_spans(text, at, n, end, open) + 1;
	free(open);
	return end;
}

jv spar_osint_text_object(const char *text, size_t n, const char *const *keys)
{
	struct best best = {.keys = keys, .object = jv_invalid()};
	size_t *end = spans(text, n);
	for (size_t i = 0; i < n; i++) {
		size_t len = end[i] ? end[i] - i : 0;
		/* a span that is no JSON is left for those inside it; each byte is scanned at most DEPTH_MAX times */
		if (!len || spar_json_skip(text + i, len, DEPTH_MAX, true, NULL, NULL) != len)
			continue;
		jv value = jv_parse_sized(text + i, (int)len);
		consider(&best, value);
		jv_free(value);
		i += len - 1;
	}
	free(end);
	return best.object;
}

/* ---- answers ---- */

/* As a scripting language prints it. `v` is consumed. */
static void add_printed(struct spar_str *out, jv v)
{
	switch (jv_get_kind(v)) {
	case JV_KIND_STRING:
		spar_str_adds(out, jv_string_value(v));
		break;
	case JV_KIND_NULL:
		spar_str_adds(out, "None");
		break;
	case JV_KIND_TRUE:
	case JV_KIND_FALSE:
		spar_str_adds(out, jv_get_kind(v) == JV_KIND_TRUE ? "True" : "False");
		break;
	default: {
		jv text = jv_dump_string(jv_copy(v), 0);
		spar_str_adds(out, jv_string_value(text));
		jv_free(text);
	}
	}
	jv_free(v);
}

/* What follows the word "answer" and ':' or '=' on its line. */
static bool labelled(const char *text, size_t n, struct spar_str *out)
{
	for (size_t i = 0; i + 6 < n; i++) {
		if (strncasecmp(text + i, "answer", 6) != 0)
			continue;
		size_t at = i + 6, end;
		while (at < n && isspace((unsigned char)text[at]))
			at++;
		if (at == n || (text[at] != ':' && text[at] != '='))
			continue;
		for (at++; at < n && isspace((unsigned char)text[at]);)
			at++;
		for (end = at; end < n && text[end] != '\n';)
			end++;
		if (end == at)
			continue;
		spar_str_add(out, text + at, end - at);
		return true;
	}
	return false;
}

static void last_line(const char *text, size_t n, struct spar_str *out)
{
	while (n && isspace((unsigned char)text[n - 1]))
		n--;
	size_t at = n;
	while (at && text[at - 1] != '\n')
		at--;
	spar_str_add(out, text + at, n - at);
}

void spar_osint_text_answer(const char *text, size_t n, struct spar_str *out)
{
	static const char *const keys[] = {"answer", NULL};
	jv object = spar_osint_text_object(text, n, keys);
	if (jv_is_valid(object) && jv_object_has(jv_copy(object), jv_string("answer")))
		add_printed(out, jv_object_get(jv_copy(object), jv_string("answer")));
	jv_free(object);
	spar_osint_normalize(out);
	if (out->len)
		return;
	if (!labelled(text, n, out))
		last_line(text, n, out);
	spar_osint_normalize(out);
}

/* ---- looks ---- */

static size_t count_up_to(const char *text, size_t n, char c, size_t most)
{
	size_t found = 0;
	for (size_t i = 0; i < n && found < most; i++)
		found += text[i] == c;
	return found;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sort and drop repetitions; returns how many are left. The texts are borrowed. */
static size_t unique(char **words, size_t n)
{
	size_t kept = 0;
	if (n)
		qsort(words, n, sizeof *words, by_text);
	for (size_t i = 0; i < n; i++)
		if (!kept || strcmp(words[kept - 1], words[i]) != 0)
			words[kept++] = words[i];
	return kept;
}

/* Distinct words between blanks. */
static size_t distinct_words(const char *text, size_t n)
{
	char *copy = spar_calloc(n + 1, 1), **words = spar_malloc((n / 2 + 1) * sizeof *words), *state;
	size_t count = 0;
	memcpy(copy, text, n);
	for (char *w = strtok_r(copy, " \t\r\n\v\f", &state); w; w = strtok_r(NULL, " \t\r\n\v\f", &state))
		words[count++] = w;
	count = unique(words, count);
	free(words);
	free(copy);
	return count;
}

double spar_osint_text_signal(const char *text, size_t n)
{
	static const char *const keys[] = {"\"question\"",   "\"answer\"",    "\"supporting_edges\"",
					   "\"tool_trace\"", "\"task_type\"", "\"orchestrator\""};
	size_t head = 0, chars = 0;
	double signal = 0;
	for (size_t i = 0; i < n; i++) {
		bool begins = ((unsigned char)text[i] & 0xc0) != 0x80;
		chars += begins;
		if (chars <= 512)
			head = i + 1;
	}
	if (!distinct_words(text, head) && strspn(text, " \t\r\n\v\f") == n)
		return 0;
	signal += 0.03 * (double)(count_up_to(text, n, '{', 2) + count_up_to(text, n, '}', 2));
	signal += 0.01 * (double)(count_up_to(text, n, '[', 4) + count_up_to(text, n, ']', 4));
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		signal += strstr(text, keys[i]) ? 0.015 : 0;
	signal += fmin(0.04, (double)distinct_words(text, head) / 800) + fmin(0.03, (double)chars / 8000);
	return fmin(0.25, signal);
}

/* ---- words ---- */

size_t spar_osint_text_word(const char *text, size_t n, size_t *at)
{
	size_t i = *at, len = 0;
	while (i < n && !isalnum((unsigned char)text[i]) && text[i] != '_')
		i++;
	while (i + len < n && (isalnum((unsigned char)text[i + len]) || text[i + len] == '_'))
		len++;
	*at = i;
	return len;
}

/* The distinct words of a text in lower case, sorted. They lie in *copy; the caller frees both. */
static size_t word_set(const char *text, char **copy, char ***out)
{
	size_t n = strlen(text), at = 0, len, count = 0;
	*copy = spar_strdup(text);
	*out = spar_malloc((n / 2 + 1) * sizeof **out);
	for (char *c = *copy; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	while ((len = spar_osint_text_word(*copy, n, &at))) {
		(*out)[count++] = *copy + at;
		at += len;
		if (at < n)
			(*copy)[at++] = 0;
	}
	return unique(*out, count);
}

double spar_osint_text_jaccard(const char *a, const char *b)
{
	char *copy[2], **words[2];
	size_t n = word_set(a, &copy[0], &words[0]), m = word_set(b, &copy[1], &words[1]), both = 0;
	for (size_t i = 0, j = 0; i < n && j < m;) {
		int order = strcmp(words[0][i], words[1][j]);
		both += order == 0;
		i += order <= 0;
		j += order >= 0;
	}
	for (int k = 0; k < 2; k++) {
		free(copy[k]);
		free(words[k]);
	}
	return n + m ? (double)both / (double)(n + m - both) : 1;
}

/* ---- numbers ---- */

static double number_of(jv v, double fallback)
{
	double d = fallback;
	if (jv_get_kind(v) == JV_KIND_TRUE || jv_get_kind(v) == JV_KIND_FALSE)
		d = jv_get_kind(v) == JV_KIND_TRUE;
	else if (jv_get_kind(v) == JV_KIND_NUMBER)
		d = jv_number_value(v);
	else if (jv_get_kind(v) == JV_KIND_STRING) {
		const char *s = jv_string_value(v), *digit = strpbrk(s, "0123456789");
		if (digit)
			d = strtod(digit > s && (digit[-1] == '-' || digit[-1] == '.') ? digit - 1 : digit, NULL);
	}
	jv_free(v);
	return isfinite(d) ? trunc(d) : fallback;
}

static double member(jv object, const char *key, double fallback, double least)
{
	double d = fallback;
	if (jv_get_kind(object) == JV_KIND_OBJECT)
		d = number_of(jv_object_get(jv_copy(object), jv_string(key)), fallback);
	return fmax(least, d);
}

struct spar_osint_telemetry spar_osint_text_telemetry(jv orchestrator)
{
	return (struct spar_osint_telemetry){.spawned = member(orchestrator, "spawn_count", 0, 0),
					     .finished = member(orchestrator, "finished_subtasks", 0, 0),
					     .critical = member(orchestrator, "critical_steps", 1, 1),
					     .breadth = member(orchestrator, "breadth", 0, 0),
					     .depth = member(orchestrator, "depth", 0, 0)};
}

/* ---- edges ---- */

/* A string that points into its parent (borrowed), "" if `v` (consumed) is none. */
static const char *text_of(jv v)
{
	const char *s = jv_get_kind(v) == JV_KIND_STRING ? jv_string_value(v) : "";
	jv_free(v);
	return s;
}

static struct spar_osint_triple edge_of(jv row)
{
	if (jv_get_kind(row) == JV_KIND_ARRAY && jv_array_length(jv_copy(row)) == 3)
		return (struct spar_osint_triple){text_of(jv_array_get(jv_copy(row), 0)),
						  text_of(jv_array_get(jv_copy(row), 1)),
						  text_of(jv_array_get(jv_copy(row), 2))};
	if (jv_get_kind(row) == JV_KIND_OBJECT)
		return (struct spar_osint_triple){text_of(jv_object_get(jv_copy(row), jv_string("src"))),
						  text_of(jv_object_get(jv_copy(row), jv_string("rel"))),
						  text_of(jv_object_get(jv_copy(row), jv_string("dst")))};
	return (struct spar_osint_triple){"", "", ""};
}

size_t spar_osint_text_edges(jv rows, size_t most, struct spar_osint_triple **out)
{
	size_t n = jv_get_kind(rows) == JV_KIND_ARRAY ? (size_t)jv_array_length(jv_copy(rows)) : 0, count = 0;
	n = n < most ? n : most;
	*out = spar_malloc((n + 1) * sizeof **out);
	for (size_t i = 0; i < n; i++) {
		jv row = jv_array_get(jv_copy(rows), (int)i);
		struct spar_osint_triple e = edge_of(row);
		if (*e.src && *e.rel && *e.dst)
			(*out)[count++] = e;
		jv_free(row);
	}
	return count;
}
