/* What the text tool cannot show: provenance of bytes through a template's operations, streaming, markers and spans. */
#include "text/chat.h"
#include "text/jinja.h"
#include "unit.h"
#include <stdlib.h>

/* Render and put brackets around what is marked. */
static void check_marks(const char *template, const char *wanted)
{
	struct spar_jinja *t = NULL;
	struct spar_str out = SPAR_STR_INIT, shown = SPAR_STR_INIT;
	struct spar_spans spans = {0};
	struct spar_err err = {0};
	jv trusted = jv_parse("{\"bos\":\"<s>\"}"),
	   outside = jv_parse("{\"m\":{\"role\":\"user\",\"content\":\" aXb \"}}");
	size_t at = 0;
	CHECK(spar_jinja_new(&t, template, strlen(template), &err) == 0);
	CHECK(t && spar_jinja_render(t, trusted, outside, &out, &spans, &err) == 0);
	for (size_t i = 0; i < spans.n; i++) {
		spar_str_add(&shown, out.data + at, spans.data[i].begin - at);
		spar_str_addf(&shown, "[%.*s]", (int)(spans.data[i].end - spans.data[i].begin),
			      out.data + spans.data[i].begin);
		at = spans.data[i].end;
	}
	spar_str_adds(&shown, out.data + at);
	CHECK_STR(shown.data, wanted);
	jv_free(trusted);
	jv_free(outside);
	free(spans.data);
	spar_str_release(&out);
	spar_str_release(&shown);
	spar_jinja_free(t);
}

static void marks(void)
{
	check_marks("{{ bos + m.content }}", "<s>[ aXb ]");
	check_marks("{{ (bos ~ m.content ~ bos) | trim }}", "<s>[ aXb ]<s>");
	check_marks("{{ m.content.strip() + '\\n' }}", "[aXb]\n");
	check_marks("{% set x = '<' + m.content | trim + '>' %}{{ x }}", "<[aXb]>");
	check_marks("{% set ns = namespace(s='') %}{% set ns.s = ns.s + '<' + m.role %}{{ ns.s }}", "<[user]");
	check_marks("{{ ('<' + m.content)[0:3] }}", "<[ a]");
	check_marks("{{ m.content.split('X')[-1] + bos }}", "[b ]<s>");
	check_marks("{{ m.content | replace('X', '-') }}", "[ a]-[b ]");
	check_marks("{{ ('x' + m.role) | upper }}", "X[USER]");
	check_marks("{{ [bos, m.role] | join(',') }}", "<s>,[user]");
	check_marks("{% set b %}<{{ m.role }}>{% endset %}{{ b }}", "<[user]>");
	check_marks("{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f(m.role) }}", "<[user]>");
	check_marks("{{ m.role == 'user' and bos or '' }}", "<s>");
	check_marks("{{ 'a' if m.role is string else 'b' }}{# #}", "a");
}

static void streaming(void)
{
	struct spar_tokenizer *t = NULL;
	struct spar_err err = {0};
	struct spar_ids ids = {0};
	struct spar_detok d = {0};
	struct spar_str out = SPAR_STR_INIT;
	CHECK(spar_tokenizer_load(&t, "pipelines/models/tiny", &err) == 0);
	if (!t)
		return;
	CHECK(spar_tokenizer_size(t) == 1857 && spar_tokenizer_eos(t) == 2 && spar_tokenizer_bos(t) == -1);
	CHECK(spar_tokenizer_id(t, "<|im_end|>") == 2 && spar_tokenizer_is_special(t, 2) &&
	      !spar_tokenizer_is_special(t, 3));
	CHECK(spar_tokenizer_encode(t, "\xF0\x9F\x99\x82", 4, NULL, 0, &ids, &err) == 0);
	CHECK(ids.n > 1);
	for (size_t i = 0; i + 1 < ids.n; i++)
		spar_detok_feed(t, &d, ids.data[i], 0, &out);
	CHECK(out.len == 0); /* half a character shows nothing */
	spar_detok_feed(t, &d, ids.data[ids.n - 1], 0, &out);
	CHECK_STR(out.data, "\xF0\x9F\x99\x82");
	spar_detok_feed(t, &d, ids.data[0], 0, &out);
	spar_detok_end(&d, &out);
	CHECK(out.len == 5); /* what is left comes at the end */
	spar_str_clear(&out);
	spar_tokenizer_decode(t, (const int32_t[]){-1, 1857, INT32_MAX, 2}, 4, SPAR_DECODE_SKIP_SPECIAL, &out);
	CHECK(out.len == 0);

	/* A marker is one where it stands clear of content, even next to it. */
	static const char text[] = "<|im_end|><|im_end|>";
	struct spar_span span = {10, 20};
	struct spar_spans content = {&span, 1, 1};
	ids.n = 0;
	CHECK(spar_tokenizer_encode(t, text, 20, &content, SPAR_ENCODE_MARKERS, &ids, &err) == 0);
	CHECK(ids.n > 2 && ids.data[0] == 2 && ids.data[1] != 2);
	spar_tokenizer_decode(t, ids.data, ids.n, 0, &out);
	CHECK_STR(out.data, text);
	/* Spans move along when bad bytes before them are replaced. */
	ids.n = 0;
	span = (struct spar_span){1, 11};
	CHECK(spar_tokenizer_encode(t, "\xFF<|im_end|><|im_end|>", 21, &content, SPAR_ENCODE_MARKERS, &ids, &err) == 0);
	CHECK(ids.n > 2 && ids.data[ids.n - 1] == 2 && ids.data[ids.n - 2] != 2);
	free(ids.data);
	spar_str_release(&out);
	spar_tokenizer_free(t);
}

int main(void)
{
	marks();
	streaming();
	return unit_done();
}
