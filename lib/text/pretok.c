#include "text/pretok.h"
#include "record/record.h"
#include "text/steps.h"
#include <stdlib.h>
#include <string.h>

static const char path[] = "pre_tokenizer";

#define WORD \
	"\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}" \
	"\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"

static const char byte_level_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* ---- loading: a function for each kind ---- */

static int set_pattern(struct spar_pretok_step *s, const char *pattern, bool literal, struct spar_err *err)
{
	s->pattern = spar_pattern_compile(pattern, strlen(pattern), literal, err);
	return s->pattern ? 0 : spar_fail_at(err, ".%s", path);
}

static int load_byte_level(struct spar_pretok_step *s, jv node, struct spar_err *err)
{
	bool prefix_space, use_regex = true; /* as in files from before the option */
	if (spar_get_bool(node, path, "add_prefix_space", &prefix_space, err) < 0 ||
	    (spar_has(node, "use_regex") && spar_get_bool(node, path, "use_regex", &use_regex, err) < 0))
		return -err->code;
	spar_str_adds(&s->prefix, " ");
	s->prefix_when = prefix_space ? SPAR_PREFIX_ALWAYS : SPAR_PREFIX_NEVER;
	return use_regex ? set_pattern(s, byte_level_pattern, false, err) : 0;
}

static int load_digits(struct spar_pretok_step *s, jv node, struct spar_err *err)
{
	bool individual;
	if (spar_get_bool(node, path, "individual_digits", &individual, err) < 0)
		return -err->code;
	s->cut = individual ? SPAR_CUT_ISOLATED : SPAR_CUT_CONTIGUOUS;
	return set_pattern(s, "\\p{N}", false, err);
}

/* Which of `names` (NULL at the end) node[key] is. */
static int one_of(jv node, const char *key, const char *const *names, struct spar_err *err)
{
	const char *name;
	size_t len;
	if (spar_get_str(node, path, key, &name, &len, err) < 0)
		return -err->code;
	for (int i = 0; names[i]; i++)
		if (!strcmp(names[i], name))
			return i;
	return spar_fail(err, SPAR_INPUT, ".%s.%s: %s is not supported", path, key, name);
}

static int load_behavior(struct spar_pretok_step *s, jv node, struct spar_err *err)
{
	static const char *const names[] = {[SPAR_CUT_ISOLATED] = "Isolated",
					    [SPAR_CUT_REMOVED] = "Removed",
					    [SPAR_CUT_WITH_PREVIOUS] = "MergedWithPrevious",
					    [SPAR_CUT_WITH_NEXT] = "MergedWithNext",
					    [SPAR_CUT_CONTIGUOUS] = "Contiguous",
					    NULL};
	int cut = one_of(node, "behavior", names, err);
	s->cut = cut < 0 ? SPAR_CUT_ISOLATED : (enum spar_cut)cut;
	return cut < 0 ? cut : 0;
}

static int load_split(struct spar_pretok_step *s, jv node, struct spar_err *err)
{
	if (load_behavior(s, node, err) < 0 || spar_get_bool(node, path, "invert", &s->invert, err) < 0)
		return -err->code;
	s->pattern = spar_pattern_load(node, path, err);
	return s->pattern ? 0 : -err->code;
}

static int load_metaspace(struct spar_pretok_step *s, jv node, struct spar_err *err)
{
	static const char *const schemes[] = {
	    [SPAR_PREFIX_NEVER] = "never", [SPAR_PREFIX_FIRST] = "first", [SPAR_PREFIX_ALWAYS] = "always", NULL};
	const char *mark;
	size_t len;
	bool add_prefix = true, split = true; /* as in files from before prepend_scheme */
	int scheme = SPAR_PREFIX_ALWAYS;
	if (spar_get_str(node, path, "replacement", &mark, &len, err) < 0 ||
	    (spar_has(node, "add_prefix_space") &&
	     spar_get_bool(node, path, "add_prefix_space", &add_prefix, err) < 0) ||
	    (spar_has(node, "split") && spar_get_bool(node, path, "split", &split, err) < 0) ||
	    (spar_has(node, "prepend_scheme") && (scheme = one_of(node, "prepend_scheme", schemes, err)) < 0))
		return -err->code;
	if (!len)
		return spar_fail(err, SPAR_INPUT, ".%s.replacement: is empty", path);
	if (!spar_has(node, "prepend_scheme") && !add_prefix)
		scheme = SPAR_PREFIX_NEVER;
	spar_str_add(&s->blank, mark, len);
	spar_str_add(&s->prefix, mark, len);
	s->prefix_when = (enum spar_prefix)scheme;
	s->cut = SPAR_CUT_WITH_NEXT;
	return split ? set_pattern(s, mark, true, err) : 0;
}

static int load_whitespace(struct spar_pretok_step *s, jv node, struct spar_err *err)
{
	(void)node;
	s->invert = true;
	s->cut = SPAR_CUT_REMOVED;
	return set_pattern(s, "[" WORD "]+|[^" WORD "\\s]+", false, err);
}

static int load_whitespace_split(struct spar_pretok_step *s, jv node, struct spar_err *err)
{
	(void)node;
	s->cut = SPAR_CUT_REMOVED;
	return set_pattern(s, "\\s", false, err);
}

static int load_punctuation(struct spar_pretok_step *s, jv node, struct spar_err *err)
{
	if (spar_has(node, "behavior") && load_behavior(s, node, err) < 0)
		return -err->code;
	return set_pattern(s, "[\\p{P}$+<=>^`|~]", false, err); /* all signs of ASCII count */
}

static int load_delimiter(struct spar_pretok_step *s, jv node, struct spar_err *err)
{
	const char *delimiter;
	size_t len;
	if (spar_get_str(node, path, "delimiter", &delimiter, &len, err) < 0)
		return -err->code;
	s->cut = SPAR_CUT_REMOVED;
	return set_pattern(s, delimiter, true, err);
}

static int load_step(void *ctx, jv node, const char *type, struct spar_err *err)
{
	static const struct {
		const char *name;
		int (*load)(struct spar_pretok_step *s, jv node, struct spar_err *err);
	} kinds[] = {{"ByteLevel", load_byte_level},    {"Split", load_split},
		     {"Digits", load_digits},           {"Metaspace", load_metaspace},
		     {"Whitespace", load_whitespace},   {"WhitespaceSplit", load_whitespace_split},
		     {"Punctuation", load_punctuation}, {"CharDelimiterSplit", load_delimiter}};
	struct spar_pretok *p = ctx;
	if (p->byte_level) /* it would see the byte-level alphabet in place of the text */
		return spar_fail(err, SPAR_INPUT, ".%s: %s behind ByteLevel is not supported", path, type);
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (!strcmp(type, kinds[i].name)) {
			p->steps = spar_realloc(p->steps, (p->n + 1) * sizeof *p->steps);
			struct spar_pretok_step *s = &p->steps[p->n++];
			*s = (struct spar_pretok_step){.blank = SPAR_STR_INIT, .prefix = SPAR_STR_INIT};
			p->byte_level = kinds[i].load == load_byte_level;
			return kinds[i].load(s, node, err);
		}
	return spar_fail(err, SPAR_INPUT, ".%s: %s is not supported", path, type);
}

int spar_pretok_load(struct spar_pretok *p, jv node, struct spar_err *err)
{
	return spar_steps_load(node, path, "pretokenizers", load_step, p, err);
}

void spar_pretok_release(struct spar_pretok *p)
{
	for (size_t i = 0; i < p->n; i++) {
		spar_str_release(&p->steps[i].blank);
		spar_str_release(&p->steps[i].prefix);
		pcre2_code_free(p->steps[i].pattern);
	}
	free(p->steps);
}

/* ---- running: each piece a step cuts off goes through the steps behind it at once, so that nothing is collected ---- */

void spar_pretok_work_init(struct spar_pretok_work *w, const struct spar_pretok *p)
{
	w->n = p->n;
	w->steps = spar_calloc(p->n + 1, sizeof *w->steps);
	for (size_t i = 0; i < p->n; i++) {
		spar_str_init(&w->steps[i].text);
		w->steps[i].data = pcre2_match_data_create(1, NULL);
	}
}

void spar_pretok_work_release(struct spar_pretok_work *w)
{
	for (size_t i = 0; i < w->n; i++) {
		spar_str_release(&w->steps[i].text);
		pcre2_match_data_free(w->steps[i].data);
	}
	free(w->steps);
}

struct running {
	const struct spar_pretok *p;
	struct spar_pretok_work *work;
	spar_word_fn *word;
	void *ctx;
	struct spar_err *err;
};

static int run_step(struct running *r, size_t step, const char *text, size_t n, bool first);

/* The stretches of a text in order, those that match and those between: a cut keeps them apart or joins them. */
struct cutter {
	struct running *r;
	size_t step;
	const char *text; /* all of it */
	bool first;       /* it is the beginning of the whole text */
	const char *piece;
	size_t len; /* of the piece so far */
	bool begun, last_matched;
};

static bool joined(enum spar_cut cut, bool before, bool now)
{
	switch (cut) {
	case SPAR_CUT_WITH_PREVIOUS:
		return !before && now;
	case SPAR_CUT_WITH_NEXT:
		return before && !now;
	case SPAR_CUT_CONTIGUOUS:
		return before == now;
	default:
		return false;
	}
}

static int end_piece(struct cutter *c)
{
	if (!c->len)
		return 0;
	return run_step(c->r, c->step + 1, c->piece, c->len, c->first && c->piece == c->text);
}

static int add_stretch(void *ctx, const char *s, size_t n, bool matched)
{
	struct cutter *c = ctx;
	const struct spar_pretok_step *step = &c->r->p->steps[c->step];
	matched ^= step->invert;
	if (!c->begun || !joined(step->cut, c->last_matched, matched)) {
		int rc = end_piece(c);
		if (rc < 0)
			return rc;
		c->piece = s;
		c->len = 0;
	}
	c->begun = true;
	c->last_matched = matched;
	c->len += matched && step->cut == SPAR_CUT_REMOVED ? 0 : n;
	return 0;
}

/* The text as a step wants it before its cut: blanks replaced, the prefix put before it. */
static void dress(const struct spar_pretok_step *s, struct spar_str *out, const char **text, size_t *n, bool first)
{
	bool prefix = s->prefix_when == SPAR_PREFIX_ALWAYS || (s->prefix_when == SPAR_PREFIX_FIRST && first);
	const char *begin = *text, *end = begin + *n;
	if (s->blank.len && *begin == ' ')
		prefix = false;
	else if (prefix && *n >= s->prefix.len && !memcmp(begin, s->prefix.data, s->prefix.len))
		prefix = false;
	if (!prefix && (!s->blank.len || !memchr(begin, ' ', *n)))
		return;
	spar_str_clear(out);
	if (prefix)
		spar_str_add(out, s->prefix.data, s->prefix.len);
	while (begin < end) {
		const char *blank = s->blank.len ? memchr(begin, ' ', (size_t)(end - begin)) : NULL;
		spar_str_add(out, begin, (size_t)((blank ? blank : end) - begin));
		if (blank)
			spar_str_add(out, s->blank.data, s->blank.len);
		begin = blank ? blank + 1 : end;
	}
	*text = out->data;
	*n = out->len;
}

static int run_step(struct running *r, size_t step, const char *text, size_t n, bool first)
{
	if (step == r->p->n)
		return r->word(r->ctx, text, n);
	const struct spar_pretok_step *s = &r->p->steps[step];
	struct spar_pretok_scratch *scratch = &r->work->steps[step];
	dress(s, &scratch->text, &text, &n, first);
	if (!s->pattern)
		return run_step(r, step + 1, text, n, first);
	struct cutter c = {.r = r, .step = step, .text = text, .first = first};
	int rc = spar_pattern_each(s->pattern, scratch->data, text, n, add_stretch, &c, r->err);
	return rc < 0 ? rc : end_piece(&c);
}

int spar_pretok_run(const struct spar_pretok *p, struct spar_pretok_work *w, const char *text, size_t n, bool first,
		    spar_word_fn *word, void *ctx, struct spar_err *err)
{
	struct running r = {p, w, word, ctx, err};
	return n ? run_step(&r, 0, text, n, first) : 0;
}
