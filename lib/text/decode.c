#include "text/decode.h"
#include "record/record.h"
#include "text/steps.h"
#include <stdlib.h>
#include <string.h>

/* A token, or a further part of one, on its way through the steps. */
struct part {
	const char *text;
	size_t n;
	bool begins; /* a new token */
};

struct feeding {
	const struct spar_decoder *d;
	struct spar_detok *state;
	struct spar_str *out;
};

struct spar_decoder_kind {
	const char *name;
	int (*load)(struct spar_decoder_step *s, jv node, struct spar_err *err);
	void (*run)(const struct feeding *f, size_t step, struct part part);
};

static void run(const struct feeding *f, size_t step, struct part part)
{
	if (step == f->d->n)
		spar_str_add(f->out, part.text, part.n);
	else
		f->d->steps[step].kind->run(f, step, part);
}

/* ---- the steps: what each does with a part, given what it remembers ---- */

static void run_join(const struct feeding *f, size_t step, struct part part)
{
	struct spar_detok_step *state = &f->state->steps[step];
	if (part.begins && state->begun)
		run(f, step + 1, (struct part){" ", 1, true});
	state->begun = true;
	run(f, step + 1, part);
}

/* From here on all is one token. */
static void run_fuse(const struct feeding *f, size_t step, struct part part)
{
	struct spar_detok_step *state = &f->state->steps[step];
	part.begins = !state->begun;
	state->begun = true;
	run(f, step + 1, part);
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte that a token <0x00> to <0xFF> stands for, -1: it is none. */
static int fallback_byte(const char *s, size_t n)
{
	if (n != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>' || hex_digit(s[3]) < 0 || hex_digit(s[4]) < 0)
		return -1;
	return hex_digit(s[3]) * 16 + hex_digit(s[4]);
}

/* Neighbouring bytes are one token. */
static void run_byte_fallback(const struct feeding *f, size_t step, struct part part)
{
	struct spar_detok_step *state = &f->state->steps[step];
	int value = part.begins ? fallback_byte(part.text, part.n) : -1;
	char byte = (char)value;
	if (value >= 0)
		part = (struct part){&byte, 1, !state->begun};
	state->begun = value >= 0;
	run(f, step + 1, part);
}

static void run_metaspace(const struct feeding *f, size_t step, struct part part)
{
	const struct spar_decoder_step *s = &f->d->steps[step];
	struct spar_detok_step *state = &f->state->steps[step];
	struct spar_str text = SPAR_STR_INIT;
	state->count += part.begins;
	for (size_t i = 0; i < part.n;) {
		bool mark = part.n - i >= s->text.len && !memcmp(part.text + i, s->text.data, s->text.len);
		if (!mark)
			spar_str_addc(&text, part.text[i]);
		else if (s->keeps_first || state->count > 1)
			spar_str_addc(&text, ' ');
		i += mark ? s->text.len : 1;
	}
	run(f, step + 1, (struct part){text.data, text.len, part.begins});
	spar_str_release(&text);
}

struct replacing {
	const struct spar_decoder_step *step;
	struct spar_str text;
};

static int replace_stretch(void *ctx, const char *text, size_t n, bool matched)
{
	struct replacing *r = ctx;
	spar_str_add(&r->text, matched ? r->step->text.data : text, matched ? r->step->text.len : n);
	return 0;
}

/* A token that is not UTF-8, or is too much work for its pattern, stays as it is. */
static void run_replace(const struct feeding *f, size_t step, struct part part)
{
	const struct spar_decoder_step *s = &f->d->steps[step];
	struct replacing r = {s, SPAR_STR_INIT};
	pcre2_match_data *data = pcre2_match_data_create(1, NULL);
	bool ok = true;
	for (size_t i = 0; ok && i < part.n;)
		i += spar_utf8_step(part.text + i, part.n - i, &ok);
	if (ok && spar_pattern_each(s->pattern, data, part.text, part.n, replace_stretch, &r, NULL) == 0)
		part = (struct part){r.text.data, r.text.len, part.begins};
	run(f, step + 1, part);
	pcre2_match_data_free(data);
	spar_str_release(&r.text);
}

/* At a token's beginning at most `start` go; at its end `stop` are held back until more of it comes. */
static void run_strip(const struct feeding *f, size_t step, struct part part)
{
	const struct spar_decoder_step *s = &f->d->steps[step];
	struct spar_detok_step *state = &f->state->steps[step];
	struct spar_str text = SPAR_STR_INIT;
	size_t len = s->text.len, skip = 0, held = 0;
	if (part.begins) {
		state->count = s->start;
		state->held = 0;
	}
	for (; state->count && part.n - skip >= len && !memcmp(part.text + skip, s->text.data, len); skip += len)
		state->count--;
	if (part.n > skip)
		state->count = 0; /* the beginning is over */
	for (size_t i = 0; i < state->held; i++)
		spar_str_add(&text, s->text.data, len);
	spar_str_add(&text, part.text + skip, part.n - skip);
	while (held < s->stop && text.len >= (held + 1) * len &&
	       !memcmp(text.data + text.len - (held + 1) * len, s->text.data, len))
		held++;
	state->held = held;
	run(f, step + 1, (struct part){text.data, text.len - held * len, part.begins});
	spar_str_release(&text);
}

/* ---- loading ---- */

static int load_nothing(struct spar_decoder_step *s, jv node, struct spar_err *err)
{
	(void)s, (void)node, (void)err;
	return 0;
}

static int load_text(struct spar_decoder_step *s, jv node, const char *key, struct spar_err *err)
{
	const char *text;
	size_t len;
	if (spar_get_str(node, "decoder", key, &text, &len, err) < 0)
		return -err->code;
	spar_str_add(&s->text, text, len);
	return 0;
}

static int load_mark(struct spar_decoder_step *s, jv node, const char *key, struct spar_err *err)
{
	if (load_text(s, node, key, err) < 0)
		return -err->code;
	return s->text.len ? 0 : spar_fail(err, SPAR_INPUT, ".decoder.%s: is empty", key);
}

static int load_metaspace(struct spar_decoder_step *s, jv node, struct spar_err *err)
{
	const char *scheme = "always";
	size_t len;
	bool add_prefix = true;
	if (load_mark(s, node, "replacement", err) < 0 ||
	    (spar_has(node, "prepend_scheme") &&
	     spar_get_str(node, "decoder", "prepend_scheme", &scheme, &len, err) < 0) ||
	    (spar_has(node, "add_prefix_space") &&
	     spar_get_bool(node, "decoder", "add_prefix_space", &add_prefix, err) < 0))
		return -err->code;
	s->keeps_first = spar_has(node, "prepend_scheme") ? !strcmp(scheme, "never") : !add_prefix;
	return 0;
}

static int load_replace(struct spar_decoder_step *s, jv node, struct spar_err *err)
{
	s->pattern = spar_pattern_load(node, "decoder", err);
	return s->pattern ? load_text(s, node, "content", err) : -(int)err->code;
}

static int load_strip(struct spar_decoder_step *s, jv node, struct spar_err *err)
{
	int64_t start, stop;
	if (load_mark(s, node, "content", err) < 0 || spar_get_i64(node, "decoder", "start", &start, err) < 0 ||
	    spar_get_i64(node, "decoder", "stop", &stop, err) < 0)
		return -err->code;
	if (start < 0 || stop < 0 || start > 1 << 20 || stop > 1 << 20)
		return spar_fail(err, SPAR_INPUT, ".decoder: Strip's start or stop is out of range");
	s->start = (size_t)start;
	s->stop = (size_t)stop;
	return 0;
}

static const struct spar_decoder_kind join = {"null", load_nothing, run_join};
static const struct spar_decoder_kind kinds[] = {
    {"ByteLevel", load_nothing, run_fuse},  {"ByteFallback", load_nothing, run_byte_fallback},
    {"Fuse", load_nothing, run_fuse},       {"Metaspace", load_metaspace, run_metaspace},
    {"Replace", load_replace, run_replace}, {"Strip", load_strip, run_strip}};

static int add_step(struct spar_decoder *d, const struct spar_decoder_kind *kind, jv node, struct spar_err *err)
{
	if (d->n == SPAR_DECODE_STEPS)
		return spar_fail(err, SPAR_INPUT, ".decoder: more than %d steps", SPAR_DECODE_STEPS);
	struct spar_decoder_step *s = &d->steps[d->n++];
	*s = (struct spar_decoder_step){.kind = kind, .text = SPAR_STR_INIT};
	return kind->load(s, node, err);
}

static int load_step(void *ctx, jv node, const char *type, struct spar_err *err)
{
	struct spar_decoder *d = ctx;
	bool fused = false;
	for (size_t i = 0; i < d->n; i++)
		fused |= d->steps[i].kind->run == run_fuse;
	if (!strcmp(type, "ByteLevel") ? !d->byte_level || d->n : d->byte_level && !d->n)
		return spar_fail(err, SPAR_INPUT, ".decoder: %s does not fit the pre_tokenizer", type);
	if (!strcmp(type, "Replace") && fused) /* a match could reach over tokens that are yet to come */
		return spar_fail(err, SPAR_INPUT, ".decoder: Replace behind Fuse is not supported");
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (!strcmp(type, kinds[i].name))
			return add_step(d, &kinds[i], node, err);
	return spar_fail(err, SPAR_INPUT, ".decoder: %s is not supported", type);
}

int spar_decoder_load(struct spar_decoder *d, jv node, bool byte_level, struct spar_err *err)
{
	*d = (struct spar_decoder){.byte_level = byte_level};
	if (jv_get_kind(node) != JV_KIND_NULL)
		return spar_steps_load(node, "decoder", "decoders", load_step, d, err);
	return byte_level ? load_step(d, node, "null", err) : add_step(d, &join, node, err);
}

void spar_decoder_release(struct spar_decoder *d)
{
	for (size_t i = 0; i < d->n; i++) {
		spar_str_release(&d->steps[i].text);
		pcre2_code_free(d->steps[i].pattern);
	}
}

void spar_decoder_feed(const struct spar_decoder *d, struct spar_detok *s, const char *token, size_t n,
		       struct spar_str *out)
{
	const struct feeding f = {d, s, out};
	run(&f, 0, (struct part){token, n, true});
}
