/* play.c - see play.h */
#include "rl/play.h"
#include "record/record.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct spar_play *spar_play_new(const struct spar_task *task, int64_t sample)
{
	struct spar_play *p = spar_calloc(1, sizeof *p);
	p->task = task;
	p->sample = sample;
	p->first = jv_invalid();
	return p;
}

void spar_play_rewind(struct spar_play *p)
{
	for (size_t i = 0; i < p->n_turns; i++) {
		spar_turn_release(&p->turns[i].tokens);
		spar_str_release(&p->turns[i].text);
		jv_free(p->turns[i].reply);
	}
	free(p->turns);
	jv_free(p->first);
	p->turns = NULL;
	p->n_turns = 0;
	p->first = jv_invalid();
}

void spar_play_free(struct spar_play *p)
{
	if (!p)
		return;
	spar_play_rewind(p);
	free(p->error);
	free(p);
}

struct spar_play_turn *spar_play_turn(struct spar_play *p, size_t most, bool cut)
{
	p->turns = spar_realloc(p->turns, (p->n_turns + 1) * sizeof *p->turns);
	struct spar_play_turn *t = &p->turns[p->n_turns++];
	*t = (struct spar_play_turn){.text = SPAR_STR_INIT, .reply = jv_invalid()};
	t->tokens.completion_ids = spar_calloc(most + 1, sizeof *t->tokens.completion_ids);
	t->tokens.logprobs = spar_calloc(most + 1, sizeof *t->tokens.logprobs);
	t->tokens.kept_mass = cut ? spar_calloc(most + 1, sizeof *t->tokens.kept_mass) : NULL;
	return t;
}

const struct spar_str *spar_play_text(const struct spar_play *p)
{
	static const struct spar_str none = SPAR_STR_INIT;
	return p->n_turns ? &p->turns[p->n_turns - 1].text : &none;
}

/* ---- JSON ---- */

static void add_ids(struct spar_str *out, const char *key, const int32_t *ids, size_t n)
{
	spar_str_addf(out, "\"%s\":[", key);
	for (size_t i = 0; i < n; i++)
		spar_str_addf(out, i ? ",%" PRId32 : "%" PRId32, ids[i]);
	spar_str_addc(out, ']');
}

static void add_floats(struct spar_str *out, const char *key, const float *v, size_t n)
{
	spar_str_addf(out, ",\"%s\":[", key);
	for (size_t i = 0; i < n; i++) {
		if (i)
			spar_str_addc(out, ',');
		spar_str_add_float(out, v[i]);
	}
	spar_str_addc(out, ']');
}

/* The member of an environment's reply as text; nothing if it is not there. */
static void add_member(struct spar_str *out, jv object, const char *key)
{
	if (!spar_has(object, key))
		return;
	jv text = jv_dump_string(jv_object_get(jv_copy(object), jv_string(key)), 0);
	spar_str_addf(out, out->data[out->len - 1] == '{' ? "\"%s\":" : ",\"%s\":", key);
	spar_str_adds(out, jv_string_value(text));
	jv_free(text);
}

static void add_turn(struct spar_str *out, const struct spar_play_turn *t)
{
	const struct spar_turn *k = &t->tokens;
	spar_str_addc(out, '{');
	add_ids(out, "prompt_ids", k->prompt_ids, k->n_prompt);
	spar_str_addc(out, ',');
	add_ids(out, "completion_ids", k->completion_ids, k->n_completion);
	add_floats(out, "logprobs", k->logprobs, k->n_completion);
	if (k->kept_mass)
		add_floats(out, "kept_mass", k->kept_mass, k->n_completion);
	spar_str_adds(out, ",\"completion\":");
	spar_str_add_json(out, t->text.data, t->text.len);
	spar_str_addf(out, ",\"finish_reason\":\"%s\"", spar_finish_name(k->finish));
	if (jv_is_valid(t->reply)) {
		spar_str_adds(out, ",\"env\":{");
		add_member(out, t->reply, "reward");
		add_member(out, t->reply, "done");
		add_member(out, t->reply, "info");
		spar_str_addc(out, '}');
	}
	spar_str_addc(out, '}');
}

static double number_or_0(jv object, const char *key)
{
	double v = 0;
	return spar_get_double(object, "", key, &v, NULL) < 0 ? 0 : v;
}

/* How the episode ended: from the last reply's info; the return is the sum of rewards where info has none. */
static void add_env(struct spar_str *out, const struct spar_play *p)
{
	jv last = p->n_turns ? p->turns[p->n_turns - 1].reply : jv_invalid();
	if (p->error || !jv_is_valid(p->first)) {
		spar_str_adds(out, "null");
		return;
	}
	if (!jv_is_valid(last))
		last = p->first;
	jv info = jv_object_get(jv_copy(last), jv_string("info"));
	double sum = number_or_0(p->first, "reward");
	for (size_t i = 0; i < p->n_turns; i++)
		sum += number_or_0(p->turns[i].reply, "reward");
	spar_str_adds(out, "{\"return\":");
	spar_str_add_double(out, spar_has(info, "return") ? number_or_0(info, "return") : sum);
	add_member(out, info, "success");
	add_member(out, info, "end");
	add_member(out, last, "info");
	spar_str_addc(out, '}');
	jv_free(info);
}

void spar_play_json(const struct spar_play *p, struct spar_str *out)
{
	spar_str_adds(out, "\"turns\":[");
	for (size_t i = 0; i < p->n_turns; i++) {
		if (i)
			spar_str_addc(out, ',');
		add_turn(out, &p->turns[i]);
	}
	spar_str_adds(out, "],\"env\":");
	add_env(out, p);
	if (p->error) {
		spar_str_adds(out, ",\"error\":");
		spar_str_add_json(out, p->error, strlen(p->error));
	}
}

void spar_play_record(const struct spar_play *p, int64_t group_size, int64_t step, const struct spar_str *line,
		      const struct spar_str *how, struct spar_str *out)
{
	spar_str_adds(out, "{\"type\":\"rollout\",\"group\":");
	spar_str_add_json(out, p->task->id, strlen(p->task->id));
	spar_str_addf(out, ",\"sample\":%" PRId64 ",\"group_size\":%" PRId64, p->sample, group_size);
	if (step >= 0)
		spar_str_addf(out, ",\"step\":%" PRId64, step);
	spar_str_adds(out, ",\"task\":");
	spar_str_add(out, line->data, line->len);
	spar_str_addc(out, ',');
	spar_str_add(out, how->data, how->len);
	spar_play_json(p, out);
	spar_str_addc(out, '}');
}
