/* prompt.c - see prompt.h */
#include "rl/prompt.h"
#include <stdlib.h>
#include <string.h>

int spar_prompter_load(struct spar_prompter *p, const char *dir, struct spar_err *err)
{
	*p = (struct spar_prompter){0};
	int rc = spar_tokenizer_load(&p->tokenizer, dir, err);
	if (rc == 0)
		rc = spar_chat_load(&p->chat, dir, &p->no_template, err);
	if (rc < 0)
		spar_prompter_release(p);
	return rc;
}

void spar_prompter_release(struct spar_prompter *p)
{
	spar_chat_free(p->chat);
	spar_tokenizer_free(p->tokenizer);
	*p = (struct spar_prompter){0};
}

static int check_room(const struct spar_prompter *p, const struct spar_ids *ids, struct spar_err *err)
{
	if (!ids->n)
		return spar_fail(err, SPAR_INPUT, "the prompt is empty");
	if (ids->n >= p->limit)
		return spar_fail(err, SPAR_INPUT, "a prompt of %zu ids leaves no room in a context of %zu", ids->n,
				 p->limit);
	return 0;
}

int spar_prompt_encode(const struct spar_prompter *p, jv prompt, struct spar_str *text, struct spar_ids *ids,
		       struct spar_err *err)
{
	int rc;
	if (jv_get_kind(prompt) == JV_KIND_STRING) {
		const char *raw = jv_string_value(prompt);
		size_t n = (size_t)jv_string_length_bytes(jv_copy(prompt));
		if (text)
			spar_str_add(text, raw, n);
		rc = spar_tokenizer_encode(p->tokenizer, raw, n, NULL, SPAR_ENCODE_MARKERS | SPAR_ENCODE_ADD, ids, err);
	} else {
		rc = spar_chat_encode(p->chat, p->tokenizer, prompt, true, false, text, ids, err);
	}
	return rc < 0 ? rc : check_room(p, ids, err);
}

/* ---- later turns ---- */

static bool is_answer(jv message, jv said)
{
	if (jv_get_kind(message) != JV_KIND_OBJECT)
		return false;
	bool of_assistant = jv_equal(jv_object_get(jv_copy(message), jv_string("role")), jv_string("assistant"));
	return jv_equal(jv_object_get(jv_copy(message), jv_string("content")), jv_copy(said)) && of_assistant;
}

/* Is the conversation `before`, the answer, and more? Borrows all three. */
static bool goes_on(jv before, jv said, jv messages)
{
	if (jv_get_kind(before) != JV_KIND_ARRAY || jv_get_kind(messages) != JV_KIND_ARRAY)
		return false;
	int n = jv_array_length(jv_copy(before));
	if (jv_array_length(jv_copy(messages)) <= n ||
	    !jv_equal(jv_array_slice(jv_copy(messages), 0, n), jv_copy(before)))
		return false;
	jv answer = jv_array_get(jv_copy(messages), n);
	bool is = is_answer(answer, said);
	jv_free(answer);
	return is;
}

/* The spans behind `at`, counted from there. */
static void move_spans(struct spar_spans *spans, size_t at)
{
	size_t n = 0;
	for (size_t i = 0; i < spans->n; i++) {
		struct spar_span s = spans->data[i];
		if (s.end > at)
			spans->data[n++] = (struct spar_span){s.begin > at ? s.begin - at : 0, s.end - at};
	}
	spans->n = n;
}

/* `whole` must begin with `old`, which the model has read and written; what follows is new. */
static int encode_rest(const struct spar_prompter *p, const struct spar_str *old, const struct spar_str *whole,
		       struct spar_spans *spans, struct spar_ids *ids, struct spar_err *err)
{
	size_t same = 0;
	while (same < old->len && same < whole->len && old->data[same] == whole->data[same])
		same++;
	if (same < old->len)
		return spar_fail(err, SPAR_INPUT,
				 "the chat template does not keep the turns before as they were: byte %zu differs",
				 same);
	move_spans(spans, old->len);
	return spar_tokenizer_encode(p->tokenizer, whole->data + old->len, whole->len - old->len, spans,
				     SPAR_ENCODE_MARKERS, ids, err);
}

static int encode_on(const struct spar_prompter *p, jv before, const struct spar_turn *last, jv said, jv messages,
		     struct spar_ids *ids, struct spar_err *err)
{
	struct spar_str old = SPAR_STR_INIT, whole = SPAR_STR_INIT;
	struct spar_spans spans = {0};
	int rc = spar_chat_render(p->chat, before, true, jv_invalid(), &old, NULL, err);
	if (rc == 0)
		rc = spar_chat_render(p->chat, messages, true, jv_invalid(), &whole, &spans, err);
	if (rc == 0) {
		spar_str_add(&old, jv_string_value(said), (size_t)jv_string_length_bytes(jv_copy(said)));
		spar_ids_add(ids, last->prompt_ids, last->n_prompt);
		/* the template writes the end of a turn itself, also where the model was cut off or chose another */
		spar_ids_add(ids, last->completion_ids, last->n_completion - (last->finish == SPAR_FINISH_STOP));
		rc = encode_rest(p, &old, &whole, &spans, ids, err);
	}
	spar_str_release(&old);
	spar_str_release(&whole);
	free(spans.data);
	return rc < 0 ? rc : check_room(p, ids, err);
}

int spar_prompt_extend(const struct spar_prompter *p, jv before, const struct spar_turn *last,
		       const struct spar_str *text, jv messages, struct spar_ids *ids, struct spar_err *err)
{
	/* libjq puts U+FFFD in place of bad bytes, as it did in what the environment was sent */
	jv said = jv_string_sized(text->data, (int)text->len);
	int rc = goes_on(before, said, messages) ? encode_on(p, before, last, said, messages, ids, err)
						 : spar_prompt_encode(p, messages, NULL, ids, err);
	jv_free(said);
	return rc;
}
