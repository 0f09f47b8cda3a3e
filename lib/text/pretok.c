#include "text/pretok.h"
#include "record/record.h"
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 16

static const char byte_level_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static struct spar_pretok_step *add_step(struct spar_pretok *p)
{
	p->steps = spar_realloc(p->steps, (p->n + 1) * sizeof *p->steps);
	p->steps[p->n] = (struct spar_pretok_step){0};
	return &p->steps[p->n++];
}

static int set_pattern(struct spar_pretok_step *step, const char *pattern, size_t n, bool literal, struct spar_err *err)
{
	step->pattern = spar_pattern_compile(pattern, n, literal, err);
	return step->pattern ? 0 : spar_fail_at(err, ".pre_tokenizer");
}

static int load_byte_level(struct spar_pretok *p, jv node, struct spar_err *err)
{
	struct spar_pretok_step *step = add_step(p);
	bool use_regex = true; /* as in files from before the option */
	if (spar_get_bool(node, "pre_tokenizer", "add_prefix_space", &step->prefix_space, err) < 0 ||
	    (spar_has(node, "use_regex") && spar_get_bool(node, "pre_tokenizer", "use_regex", &use_regex, err) < 0))
		return -err->code;
	return use_regex ? set_pattern(step, byte_level_pattern, sizeof byte_level_pattern - 1, false, err) : 0;
}

static int load_digits(struct spar_pretok *p, jv node, struct spar_err *err)
{
	struct spar_pretok_step *step = add_step(p);
	bool individual;
	if (spar_get_bool(node, "pre_tokenizer", "individual_digits", &individual, err) < 0)
		return -err->code;
	step->cut = individual ? SPAR_CUT_ISOLATED : SPAR_CUT_CONTIGUOUS;
	return set_pattern(step, "\\p{N}", 5, false, err);
}

static int load_split(struct spar_pretok *p, jv node, struct spar_err *err)
{
	static const char *const behaviors[] = {[SPAR_CUT_ISOLATED] = "Isolated",
						[SPAR_CUT_REMOVED] = "Removed",
						[SPAR_CUT_WITH_PREVIOUS] = "MergedWithPrevious",
						[SPAR_CUT_WITH_NEXT] = "MergedWithNext",
						[SPAR_CUT_CONTIGUOUS] = "Contiguous"};
	struct spar_pretok_step *step = add_step(p);
	const char *name, *text;
	size_t len;
	if (spar_get_str(node, "pre_tokenizer", "behavior", &name, &len, err) < 0 ||
	    spar_get_bool(node, "pre_tokenizer", "invert", &step->invert, err) < 0)
		return -err->code;
	while (step->cut <= SPAR_CUT_CONTIGUOUS && strcmp(behaviors[step->cut], name) != 0)
		step->cut++;
	if (step->cut > SPAR_CUT_CONTIGUOUS)
		return spar_fail(err, SPAR_INPUT, ".pre_tokenizer.behavior: %s is not supported", name);
	jv pattern;
	if (spar_get_kind(node, "pre_tokenizer", "pattern", JV_KIND_OBJECT, &pattern, err) < 0)
		return -err->code;
	bool literal = spar_has(pattern, "String");
	int rc = spar_get_str(pattern, "pre_tokenizer.pattern", literal ? "String" : "Regex", &text, &len, err);
	if (rc == 0)
		rc = set_pattern(step, text, len, literal, err);
	jv_free(pattern);
	return rc;
}

static int load_node(struct spar_pretok *p, jv node, int depth, bool *byte_level, struct spar_err *err);

static int load_sequence(struct spar_pretok *p, jv node, int depth, bool *byte_level, struct spar_err *err)
{
	jv list;
	if (depth == DEPTH_MAX)
		return spar_fail(err, SPAR_INPUT, ".pre_tokenizer: nested deeper than %d", DEPTH_MAX);
	if (spar_get_kind(node, "pre_tokenizer", "pretokenizers", JV_KIND_ARRAY, &list, err) < 0)
		return -err->code;
	int n = jv_array_length(jv_copy(list)), rc = 0;
	for (int i = 0; rc == 0 && i < n; i++) {
		jv item = jv_array_get(jv_copy(list), i);
		rc = load_node(p, item, depth + 1, byte_level, err);
		jv_free(item);
	}
	jv_free(list);
	return rc;
}

static int load_node(struct spar_pretok *p, jv node, int depth, bool *byte_level, struct spar_err *err)
{
	const char *type;
	size_t len;
	if (jv_get_kind(node) != JV_KIND_OBJECT)
		return spar_fail(err, SPAR_INPUT, ".pre_tokenizer: %s is not supported", spar_kind_name(node));
	if (spar_get_str(node, "pre_tokenizer", "type", &type, &len, err) < 0)
		return -err->code;
	if (!strcmp(type, "Sequence"))
		return load_sequence(p, node, depth, byte_level, err);
	if (*byte_level) /* it would see the byte-level alphabet in place of the text */
		return spar_fail(err, SPAR_INPUT, ".pre_tokenizer: %s behind ByteLevel is not supported", type);
	if (!strcmp(type, "Digits"))
		return load_digits(p, node, err);
	if (!strcmp(type, "Split"))
		return load_split(p, node, err);
	if (!strcmp(type, "ByteLevel")) {
		*byte_level = true;
		return load_byte_level(p, node, err);
	}
	return spar_fail(err, SPAR_INPUT, ".pre_tokenizer: %s is not supported", type);
}

int spar_pretok_load(struct spar_pretok *p, jv node, struct spar_err *err)
{
	bool byte_level = false;
	int rc = load_node(p, node, 0, &byte_level, err);
	if (rc == 0 && !byte_level)
		rc = spar_fail(err, SPAR_INPUT, ".pre_tokenizer: one without ByteLevel is not supported");
	return rc;
}

void spar_pretok_release(struct spar_pretok *p)
{
	for (size_t i = 0; i < p->n; i++)
		pcre2_code_free(p->steps[i].pattern);
	free(p->steps);
}

void spar_pieces_release(struct spar_pieces *p)
{
	spar_str_release(&p->text);
	free(p->ends);
}

/* What has been added to the text since the last end is a piece. */
static void end_piece(struct spar_pieces *p)
{
	if (p->text.len == (p->n ? p->ends[p->n - 1] : 0))
		return;
	if (p->n == p->cap) {
		p->cap = p->cap ? 2 * p->cap : 256;
		p->ends = spar_realloc(p->ends, p->cap * sizeof *p->ends);
	}
	p->ends[p->n++] = p->text.len;
}

/* The stretches of a piece, in order: those that match the pattern and those between. A cut keeps them or joins them. */
struct cutter {
	const struct spar_pretok_step *step;
	struct spar_pieces *out;
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

static void add_stretch(struct cutter *c, const char *text, size_t n, bool matched)
{
	matched ^= c->step->invert;
	if (c->begun && !joined(c->step->cut, c->last_matched, matched))
		end_piece(c->out);
	c->begun = true;
	c->last_matched = matched;
	if (!matched || c->step->cut != SPAR_CUT_REMOVED)
		spar_str_add(&c->out->text, text, n);
}

static int cut_piece(const struct spar_pretok_step *step, pcre2_match_data *data, const char *text, size_t n,
		     struct spar_pieces *out, struct spar_err *err)
{
	struct cutter c = {.step = step, .out = out};
	size_t done = 0, from = 0, begin, end;
	while (from <= n) {
		int found = spar_pattern_find(step->pattern, data, text, n, from, &begin, &end, err);
		if (found < 0)
			return found;
		if (!found)
			break;
		if (begin > done)
			add_stretch(&c, text + done, begin - done, false);
		add_stretch(&c, text + begin, end - begin, true);
		done = from = end;
		if (begin == end) { /* an empty match: look on behind the next character */
			bool ok;
			from += end < n ? spar_utf8_step(text + end, n - end, &ok) : 1;
		}
	}
	if (done < n)
		add_stretch(&c, text + done, n - done, false);
	end_piece(out);
	return 0;
}

static int run_step(const struct spar_pretok_step *step, const struct spar_pieces *in, struct spar_pieces *out,
		    struct spar_err *err)
{
	pcre2_match_data *data = step->pattern ? pcre2_match_data_create(1, NULL) : NULL;
	struct spar_str spaced = SPAR_STR_INIT;
	int rc = 0;
	spar_str_clear(&out->text);
	out->n = 0;
	for (size_t i = 0, begin = 0; rc == 0 && i < in->n; begin = in->ends[i++]) {
		const char *piece = in->text.data + begin;
		size_t n = in->ends[i] - begin;
		if (step->prefix_space && *piece != ' ') {
			spar_str_clear(&spaced);
			spar_str_addc(&spaced, ' ');
			spar_str_add(&spaced, piece, n++);
			piece = spaced.data;
		}
		if (data) {
			rc = cut_piece(step, data, piece, n, out, err);
		} else {
			spar_str_add(&out->text, piece, n);
			end_piece(out);
		}
	}
	spar_str_release(&spaced);
	pcre2_match_data_free(data);
	return rc;
}

int spar_pretok_run(const struct spar_pretok *p, const char *text, size_t n, struct spar_pieces pieces[2],
		    struct spar_err *err)
{
	int rc = 0;
	spar_str_clear(&pieces[0].text);
	pieces[0].n = 0;
	spar_str_add(&pieces[0].text, text, n);
	end_piece(&pieces[0]);
	for (size_t i = 0; rc == 0 && i < p->n; i++) {
		rc = run_step(&p->steps[i], &pieces[0], &pieces[1], err);
		struct spar_pieces swap = pieces[0];
		pieces[0] = pieces[1];
		pieces[1] = swap;
	}
	return rc;
}
