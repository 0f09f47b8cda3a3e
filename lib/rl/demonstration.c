/* demonstration.c - see demonstration.h */
#include "rl/demonstration.h"
#include "record/record.h"
#include <math.h>
#include <string.h>

/* What all records of an episode share. */
struct episode {
	const char *name, *difficulty, *seed;
	const struct spar_chat *chat;
};

static int add_prompt(struct spar_str *out, const struct spar_chat *chat, jv messages, struct spar_err *err)
{
	struct spar_str prompt = SPAR_STR_INIT;
	int rc = spar_chat_render(chat, messages, true, jv_invalid(), &prompt, NULL, err);
	if (rc == 0) {
		spar_str_adds(out, ",\"prompt\":");
		spar_str_add_json(out, prompt.data, prompt.len);
	}
	spar_str_release(&prompt);
	return rc;
}

/* `shown` is the reply that the step answered. */
static int add_step(struct spar_demonstration *d, const struct episode *e, jv shown, const struct spar_str *text,
		    struct spar_err *err)
{
	struct spar_str *out = &d->lines;
	jv messages = jv_object_get(jv_copy(shown), jv_string("messages"));
	jv dumped = jv_dump_string(jv_copy(messages), 0);
	spar_str_addf(out, "{\"type\":\"sft\",\"id\":\"%s-%s/%zu\",\"messages\":", e->name, e->difficulty, d->n_steps);
	spar_str_adds(out, jv_string_value(dumped));
	int rc = e->chat ? add_prompt(out, e->chat, messages, err) : 0;
	spar_str_adds(out, ",\"completion\":");
	spar_str_add_json(out, text->data, text->len);
	spar_str_addf(out, ",\"step\":%zu,\"difficulty\":", d->n_steps);
	spar_str_add_json(out, e->difficulty, strlen(e->difficulty));
	spar_str_addf(out, ",\"seed\":\"%s\"}\n", e->seed);
	jv_free(dumped);
	jv_free(messages);
	if (rc < 0)
		return spar_fail_at(err, "%s-%s/%zu", e->name, e->difficulty, d->n_steps);
	d->n_steps++;
	return 0;
}

/* Member `info` of a reply, {} if there is none. */
static jv info_of(jv reply)
{
	jv info;
	return spar_get_kind(reply, "", "info", JV_KIND_OBJECT, &info, NULL) == 0 ? info : jv_object();
}

static bool succeeded(jv reply)
{
	bool done = false, success = false;
	jv info = info_of(reply);
	spar_get_bool(reply, "", "done", &done, NULL);
	spar_get_bool(info, "info", "success", &success, NULL);
	jv_free(info);
	return done && success;
}

int spar_demonstration_make(struct spar_demonstration *d, const struct spar_play *p, const char *name,
			    const char *difficulty, const char *seed, const struct spar_chat *chat,
			    struct spar_err *err)
{
	struct episode e = {name, difficulty, seed, chat};
	jv info = info_of(p->first), shown = p->first;
	size_t len;
	int rc = 0;
	*d = (struct spar_demonstration){.lines = SPAR_STR_INIT};
	spar_get_str(info, "info", "difficulty", &e.difficulty, &len, NULL);
	for (size_t i = 0; rc == 0 && i < p->n_turns; shown = p->turns[i++].reply) {
		double reward = 0;
		rc = add_step(d, &e, shown, &p->turns[i].text, err);
		spar_get_double(p->turns[i].reply, "", "reward", &reward, NULL);
		d->total += reward;
	}
	d->success = succeeded(shown);
	jv_free(info);
	return rc;
}

void spar_demonstration_release(struct spar_demonstration *d)
{
	spar_str_release(&d->lines);
}

/* ---- which are kept ---- */

void spar_collection_add(struct spar_collection *c, const struct spar_demonstration *d, struct spar_str *out)
{
	if (d->success && !c->n_success)
		spar_str_release(&c->held);
	c->n_episodes++;
	c->n_success += d->success;
	c->n_steps += d->n_steps;
	c->n_success_steps += d->success ? d->n_steps : 0;
	c->total += d->total;
	if (c->all || d->success)
		spar_str_add(out, d->lines.data, d->lines.len);
	else if (!c->n_success)
		spar_str_add(&c->held, d->lines.data, d->lines.len);
}

void spar_collection_end(struct spar_collection *c, struct spar_str *out)
{
	c->fallback = !c->n_success && !c->all;
	spar_str_add(out, c->held.data, c->held.len);
	spar_str_release(&c->held);
}

static double four_decimals(double v)
{
	return round(v * 1e4) / 1e4;
}

void spar_collection_json(const struct spar_collection *c, struct spar_str *out)
{
	double n = (double)c->n_episodes;
	spar_str_addf(out, "{\n  \"num_episodes\": %zu,\n  \"num_successful_episodes\": %zu", c->n_episodes,
		      c->n_success);
	spar_str_adds(out, ",\n  \"oracle_success_rate\": ");
	spar_str_add_double(out, four_decimals((double)c->n_success / n));
	spar_str_adds(out, ",\n  \"mean_oracle_reward\": ");
	spar_str_add_double(out, four_decimals(c->total / n));
	spar_str_addf(out, ",\n  \"num_transitions_total\": %zu,\n  \"num_transitions_successful\": %zu", c->n_steps,
		      c->n_success_steps);
	spar_str_adds(out, c->fallback ? ",\n  \"fallback_used\": true\n}\n" : "\n}\n");
}
