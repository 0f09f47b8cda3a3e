/* osint_score_record.c - what scored records say and get, see osint_score_parts.h */
#include "rl/osint_score_parts.h"

#include <string.h>

#define WORKERS_WORTH 0.05 /* what a reward gains from worker agents at most */
#define PARL_MOST 0.44     /* the largest bonus of spar_osint_reference_parl */

/* ---- writing down ---- */

static const char *const names[] = {
    [SPAR_OSINT_ANSWERER] = "osint-answerer", [SPAR_OSINT_GENERATOR] = "osint-generator"};

void spar_osint_put_number(struct spar_str *out, const char *key, double v)
{
	spar_str_addf(out, ",\"%s\":", key);
	spar_str_add_double(out, v);
}

void spar_osint_put_reward(const struct spar_osint_scorer *s, struct spar_record *rec, double reward,
			   const struct spar_str *verdict)
{
	struct spar_str rewards = SPAR_STR_INIT;
	spar_str_addf(&rewards, "{\"%s\":", names[s->opt.role]);
	spar_str_add_double(&rewards, reward);
	spar_str_addc(&rewards, '}');
	spar_record_set(rec, "rewards", rewards.data, rewards.len);
	spar_record_set_double(rec, "reward", reward);
	spar_record_set(rec, "verdict", verdict->data, verdict->len);
	spar_str_release(&rewards);
}

void spar_osint_put_reasons(struct spar_str *out, unsigned reasons, const char *(*name)(unsigned bit))
{
	bool some = false;
	spar_str_adds(out, ",\"reasons\":[");
	for (unsigned bit = 1; bit && bit <= reasons; bit <<= 1) {
		if (reasons & bit)
			spar_str_addf(out, "%s\"%s\"", some ? "," : "", name(bit));
		some = some || reasons & bit;
	}
	spar_str_addc(out, ']');
}

/* ---- worker agents: counted from what ran ---- */

/* An agent has finished that was not cut off and said something. */
static bool has_finished(jv agent)
{
	const char *text, *reason;
	size_t n;
	bool finished = false;
	jv turns = jv_object_get(jv_copy(agent), jv_string("turns"));
	if (spar_get_str(agent, "", "completion", &text, &n, NULL) == 0 && n && jv_get_kind(turns) == JV_KIND_ARRAY &&
	    jv_array_length(jv_copy(turns))) {
		jv last = jv_array_get(jv_copy(turns), jv_array_length(jv_copy(turns)) - 1);
		finished = spar_get_str(last, "", "finish_reason", &reason, &n, NULL) == 0 && !strcmp(reason, "stop");
		jv_free(last);
	}
	jv_free(turns);
	return finished;
}

double spar_osint_worker_bonus(jv task)
{
	jv workers = jv_object_get(jv_copy(task), jv_string("workers"));
	struct spar_osint_telemetry t = SPAR_OSINT_TELEMETRY;
	jv list = jv_get_kind(workers) == JV_KIND_OBJECT ? jv_array_append(jv_array(), workers) : workers;
	int n = jv_get_kind(list) == JV_KIND_ARRAY ? jv_array_length(jv_copy(list)) : 0;
	for (int i = 0; i < n; i++) {
		jv one = jv_array_get(jv_copy(list), i);
		t.spawned++;
		t.finished += has_finished(one);
		jv_free(one);
	}
	jv_free(list);
	t.breadth = t.spawned;
	t.depth = t.spawned > 0;
	return t.spawned > 0 ? WORKERS_WORTH * spar_osint_reference_parl(&t, n).aux / PARL_MOST : 0;
}

/* ---- the judge ---- */

void spar_osint_each_judged(jv rollout, void (*see)(void *ctx, const char *text, size_t n), void *ctx)
{
	jv judge = jv_object_get(jv_copy(rollout), jv_string("judge"));
	jv list = jv_get_kind(judge) == JV_KIND_OBJECT ? jv_array_append(jv_array(), judge) : judge;
	int n = jv_get_kind(list) == JV_KIND_ARRAY ? jv_array_length(jv_copy(list)) : 0;
	for (int i = 0; i < n; i++) {
		jv one = jv_array_get(jv_copy(list), i);
		const char *text;
		size_t len;
		if (jv_get_kind(one) == JV_KIND_OBJECT && !spar_has(one, "error") &&
		    spar_get_str(one, "", "completion", &text, &len, NULL) == 0)
			see(ctx, text, len);
		jv_free(one);
	}
	jv_free(list);
}
