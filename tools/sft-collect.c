/* spar sft-collect - demonstrations: episodes played by one of an environment's own policies, as sft records. */
#include "base/file.h"
#include "base/opt.h"
#include "base/progress.h"
#include "env/client.h"
#include "record/record.h"
#include "text/chat.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TOOL "sft-collect"

enum { WINDOW_MAX = 64 }; /* episodes in the making at once */

enum state { STATE_RESET, STATE_ASK, STATE_STEP, STATE_OVER };

/* An episode in the making; its session is named after its place in the window. */
struct episode {
	enum state state; /* what was requested last */
	uint64_t seed;
	char *name;       /* "cern-4242-easy" */
	char *difficulty; /* as the environment resolved it */
	jv messages;      /* that the next action answers */
	struct spar_str completion;
	struct spar_str records; /* lines */
	int64_t n_records;
	double total; /* sum of rewards */
	bool success;
};

struct collect {
	/* options */
	const char *command, *policy, *difficulty, *model, *summary, *save;
	int64_t episodes, max_steps;
	uint64_t seed;
	double timeout_s;
	bool all, quiet;
	/* state */
	struct spar_env *env;
	struct spar_chat *chat; /* NULL: no prompts are rendered */
	struct spar_writer *out, *copy;
	const char *env_name;
	struct episode window[WINDOW_MAX]; /* episode i is at i % size */
	int64_t size, begun, done;         /* done: written, in order */
	int64_t asked[WINDOW_MAX];         /* places of the outstanding requests, oldest first */
	size_t n_asked;
	struct spar_str held; /* while no episode has succeeded: what to fall back on */
	/* figures */
	int64_t n_success, n_steps, n_success_steps;
	double total;
	bool fallback;
};

/* ---- records ---- */

/* The step that was just answered, as a record: the prompt it was shown and what the policy wrote. */
static int add_record(const struct collect *c, struct episode *e, struct spar_err *err)
{
	struct spar_str *out = &e->records;
	spar_str_addf(out, "{\"type\":\"sft\",\"id\":\"%s/%" PRId64 "\"", e->name, e->n_records);
	jv messages = jv_dump_string(jv_copy(e->messages), 0);
	spar_str_addf(out, ",\"messages\":%s", jv_string_value(messages));
	jv_free(messages);
	if (c->chat) {
		struct spar_str prompt = SPAR_STR_INIT;
		int rc = spar_chat_render(c->chat, e->messages, true, jv_invalid(), &prompt, NULL, err);
		if (rc < 0) {
			spar_str_release(&prompt);
			return spar_fail_at(err, "%s/%" PRId64, e->name, e->n_records);
		}
		spar_str_adds(out, ",\"prompt\":");
		spar_str_add_json(out, prompt.data, prompt.len);
		spar_str_release(&prompt);
	}
	spar_str_adds(out, ",\"completion\":");
	spar_str_add_json(out, e->completion.data, e->completion.len);
	spar_str_addf(out, ",\"step\":%" PRId64, e->n_records);
	spar_str_adds(out, ",\"difficulty\":");
	spar_str_add_json(out, e->difficulty, strlen(e->difficulty));
	spar_str_addf(out, ",\"seed\":\"%" PRIu64 "\"}\n", e->seed);
	e->n_records++;
	return 0;
}

/* `lines` is whole lines. */
static int put_lines(struct collect *c, const struct spar_str *lines, struct spar_err *err)
{
	if (!lines->len)
		return 0;
	int rc = spar_writer_put(c->out, lines->data, lines->len - 1, err);
	return rc < 0 || !c->copy ? rc : spar_writer_put(c->copy, lines->data, lines->len - 1, err);
}

/* ---- episodes ---- */

static int send(struct collect *c, int64_t at, enum state state, jv request, struct spar_err *err)
{
	char session[24];
	snprintf(session, sizeof session, "%" PRId64, at);
	c->window[at].state = state;
	c->asked[c->n_asked++] = at;
	request = jv_object_set(request, jv_string("session"), jv_string(session));
	return spar_env_send(c->env, request, c->window[at].name, err);
}

static jv request_of(const char *op)
{
	return jv_object_set(jv_object(), jv_string("op"), jv_string(op));
}

static int begin_episode(struct collect *c, struct spar_err *err)
{
	int64_t at = c->begun % c->size;
	struct episode *e = &c->window[at];
	struct spar_str name = SPAR_STR_INIT;
	*e = (struct episode){.seed = c->seed + (uint64_t)c->begun, .messages = jv_invalid()};
	spar_str_init(&e->completion);
	spar_str_init(&e->records);
	spar_str_addf(&name, "%s-%" PRIu64, c->env_name, e->seed);
	e->name = spar_str_detach(&name);
	c->begun++;
	struct spar_str seed = SPAR_STR_INIT;
	spar_str_addf(&seed, "%" PRIu64, e->seed);
	jv request = jv_object_set(request_of("reset"), jv_string("seed"), jv_string(seed.data));
	spar_str_release(&seed);
	request = jv_object_set(request, jv_string("difficulty"), jv_string(c->difficulty));
	request = jv_object_set(request, jv_string("max_steps"), jv_number((double)c->max_steps));
	return send(c, at, STATE_RESET, request, err);
}

static void end_episode(struct episode *e)
{
	free(e->name);
	free(e->difficulty);
	jv_free(e->messages);
	spar_str_release(&e->completion);
	spar_str_release(&e->records);
	*e = (struct episode){.messages = jv_invalid()};
}

/* What the environment said after the reset: the episode's full name. */
static void name_episode(const struct collect *c, struct episode *e, jv reply)
{
	const char *difficulty = c->difficulty;
	size_t n;
	struct spar_str name = SPAR_STR_INIT;
	jv info = jv_object_get(jv_copy(reply), jv_string("info"));
	if (jv_get_kind(info) == JV_KIND_OBJECT)
		spar_get_str(info, "info", "difficulty", &difficulty, &n, NULL);
	e->difficulty = spar_strdup(difficulty);
	spar_str_addf(&name, "%s-%s", e->name, difficulty);
	free(e->name);
	e->name = spar_str_detach(&name);
	jv_free(info);
}

static bool succeeded(jv reply)
{
	bool success = false;
	jv info = jv_object_get(jv_copy(reply), jv_string("info"));
	if (jv_get_kind(info) == JV_KIND_OBJECT)
		spar_get_bool(info, "info", "success", &success, NULL);
	jv_free(info);
	return success;
}

/* The reply to the request of the episode at `at`, borrowed. */
static int on_reply(struct collect *c, int64_t at, jv reply, struct spar_err *err)
{
	struct episode *e = &c->window[at];
	if (e->state == STATE_ASK) {
		jv text = jv_object_get(jv_copy(reply), jv_string("text"));
		spar_str_clear(&e->completion);
		spar_str_add(&e->completion, jv_string_value(text), (size_t)jv_string_length_bytes(jv_copy(text)));
		return send(c, at, STATE_STEP, jv_object_set(request_of("step"), jv_string("text"), text), err);
	}
	bool done = false;
	double reward = 0;
	spar_get_bool(reply, "", "done", &done, NULL);
	if (e->state == STATE_RESET) {
		name_episode(c, e, reply);
	} else {
		if (add_record(c, e, err) < 0)
			return -1;
		spar_get_double(reply, "", "reward", &reward, NULL);
		e->total += reward;
	}
	if (done || e->n_records == c->max_steps) {
		e->success = done && succeeded(reply);
		e->state = STATE_OVER;
		return 0;
	}
	jv_free(e->messages);
	e->messages = jv_object_get(jv_copy(reply), jv_string("messages"));
	jv ask = jv_object_set(request_of("oracle"), jv_string("policy"), jv_string(c->policy));
	return send(c, at, STATE_ASK, ask, err);
}

/* Count the oldest episode, which is over, and write what is wanted of it. */
static int finish_episode(struct collect *c, struct spar_err *err)
{
	struct episode *e = &c->window[c->done++ % c->size];
	int rc = 0;
	if (e->success && !c->n_success)
		spar_str_release(&c->held);
	c->n_success += e->success;
	c->n_steps += e->n_records;
	c->n_success_steps += e->success ? e->n_records : 0;
	c->total += e->total;
	if (c->all || e->success)
		rc = put_lines(c, &e->records, err);
	else if (!c->n_success)
		spar_str_add(&c->held, e->records.data, e->records.len);
	end_episode(e);
	return rc;
}

static int collect_all(struct collect *c, struct spar_err *err)
{
	struct spar_progress progress;
	int rc = 0;
	spar_progress_begin(&progress, TOOL, "episodes", (uint64_t)c->episodes, c->quiet);
	while (rc == 0 && c->done < c->episodes) {
		while (rc == 0 && c->begun < c->episodes && c->begun - c->done < c->size)
			rc = begin_episode(c, err);
		jv reply = jv_invalid();
		if (rc < 0)
			break;
		if ((rc = spar_env_recv(c->env, &reply, true, err)) < 0) {
			err->code = SPAR_FAIL; /* refused or broken: there is no input to blame */
			break;
		}
		int64_t at = c->asked[0];
		memmove(c->asked, c->asked + 1, --c->n_asked * sizeof *c->asked);
		rc = on_reply(c, at, reply, err);
		jv_free(reply);
		while (rc == 0 && c->done < c->begun && c->window[c->done % c->size].state == STATE_OVER)
			rc = finish_episode(c, err);
		spar_progress_tick(&progress, (uint64_t)c->done, "%" PRId64 " successful", c->n_success);
	}
	spar_progress_end(&progress);
	if (rc == 0 && !c->n_success && !c->all) {
		c->fallback = true;
		spar_warn(TOOL,
			  "no episode succeeded (is --max-steps=%" PRId64 " too small?): all %" PRId64
			  " steps are kept",
			  c->max_steps, c->n_steps);
		rc = put_lines(c, &c->held, err);
	}
	return rc;
}

/* ---- summary ---- */

static double four_decimals(double v)
{
	return round(v * 1e4) / 1e4;
}

static int write_summary(const struct collect *c, struct spar_err *err)
{
	struct spar_str s = SPAR_STR_INIT;
	double n = (double)c->episodes;
	spar_str_addf(&s, "{\n  \"num_episodes\": %" PRId64 ",\n  \"num_successful_episodes\": %" PRId64, c->episodes,
		      c->n_success);
	spar_str_adds(&s, ",\n  \"oracle_success_rate\": ");
	spar_str_add_double(&s, four_decimals((double)c->n_success / n));
	spar_str_adds(&s, ",\n  \"mean_oracle_reward\": ");
	spar_str_add_double(&s, four_decimals(c->total / n));
	spar_str_addf(&s, ",\n  \"num_transitions_total\": %" PRId64 ",\n  \"num_transitions_successful\": %" PRId64,
		      c->n_steps, c->n_success_steps);
	spar_str_adds(&s, c->fallback ? ",\n  \"fallback_used\": true\n}\n" : "\n}\n");
	int rc = spar_file_write(c->summary, s.data, s.len, err);
	spar_str_release(&s);
	return rc;
}

/* ---- main ---- */

static int open_all(struct collect *c, struct spar_err *err)
{
	size_t n;
	int64_t max_sessions = WINDOW_MAX;
	bool no_template = false;
	if (c->model && !spar_dir_exists(c->model))
		return spar_fail(err, SPAR_FAIL, "%s: no such folder", c->model);
	if (c->model && spar_chat_load(&c->chat, c->model, &no_template, err) < 0)
		return -1;
	if (no_template)
		spar_warn(TOOL, "%s has no chat template: prompts are \"role: content\" lines", c->model);
	if (spar_env_open(&c->env, c->command, c->timeout_s, err) < 0)
		return -1;
	c->env_name = "env";
	spar_get_str(spar_env_about(c->env), "", "env", &c->env_name, &n, NULL);
	spar_get_i64(spar_env_about(c->env), "", "max_sessions", &max_sessions, NULL);
	c->size = max_sessions < 1 ? 1 : max_sessions < WINDOW_MAX ? max_sessions : WINDOW_MAX;
	if (spar_writer_open(&c->out, NULL, err) < 0)
		return -1;
	return c->save ? spar_writer_open(&c->copy, c->save, err) : 0;
}

/* Close what is open; nothing is claimed to be whole unless rc is 0. */
static int close_all(struct collect *c, int rc, struct spar_err *err)
{
	struct spar_writer *writers[] = {c->out, c->copy};
	for (int i = 0; i < 2; i++) {
		if (writers[i] && rc < 0)
			spar_writer_abort(writers[i]);
		else if (writers[i])
			rc = spar_writer_close(writers[i], err);
	}
	if (rc == 0 && c->summary)
		rc = write_summary(c, err);
	for (int64_t i = c->done; i < c->begun; i++)
		end_episode(&c->window[i % c->size]);
	spar_str_release(&c->held);
	spar_env_close(c->env);
	spar_chat_free(c->chat);
	return rc;
}

int main(int argc, char **argv)
{
	struct collect c = {.command = "spar env-cern --oracle",
			    .policy = "oracle",
			    .difficulty = "mixed",
			    .episodes = 200,
			    .max_steps = 8,
			    .seed = 4242,
			    .timeout_s = 60,
			    .held = SPAR_STR_INIT};
	struct spar_err err = {0};
	const struct spar_opt table[] = {
	    SPAR_OPT_STR("env", 0, &c.command, "CMD", "environment program (spar env-cern --oracle)"),
	    SPAR_OPT_STR("policy", 0, &c.policy, "NAME", "the environment's policy that plays (oracle)"),
	    SPAR_OPT_INT("episodes", 'n', &c.episodes, 1, INT32_MAX, "N", "episodes to play (200)"),
	    SPAR_OPT_U64("seed", 0, &c.seed, "N", "seed of the first; episode i has N + i (4242)"),
	    SPAR_OPT_STR("difficulty", 0, &c.difficulty, "NAME", "what to ask the environment for (mixed)"),
	    SPAR_OPT_INT("max-steps", 0, &c.max_steps, 1, 1 << 20, "N", "steps of an episode (8)"),
	    SPAR_OPT_STR("model", 'm', &c.model, "DIR", "also render each prompt with this model's chat template"),
	    SPAR_OPT_FLAG("all", 0, &c.all, "keep failed episodes too"),
	    SPAR_OPT_STR("summary", 0, &c.summary, "FILE", "write the figures there as JSON"),
	    SPAR_OPT_STR("save", 0, &c.save, "FILE", "keep a copy of what is emitted; zstd if FILE ends in .zst"),
	    SPAR_OPT_DOUBLE("env-timeout", 0, &c.timeout_s, 0.001, 86400, "S", "seconds to wait for a reply (60)"),
	    SPAR_OPT_FLAG("quiet", 'q', &c.quiet, "no progress"),
	    SPAR_OPT_END};
	static const struct spar_usage usage = {
	    TOOL, "[options] >records",
	    "Play episodes with a policy built into the environment and write each step as an sft record: the prompt "
	    "it was shown "
	    "and what it answered. Only episodes that succeeded are kept; if none did, all are, with a warning."};
	int rest = spar_opt_parse(&usage, table, argc, argv);
	if (rest < 0)
		return -1 - rest;
	if (rest < argc)
		return spar_usage_error(&usage, "takes no operands: %s", argv[rest]);
	if (c.seed > UINT64_MAX - (uint64_t)c.episodes)
		return spar_usage_error(&usage, "--seed: the last episode's seed would not fit in 64 bits");
	int rc = open_all(&c, &err);
	if (rc == 0)
		rc = collect_all(&c, &err);
	rc = close_all(&c, rc, &err);
	return rc < 0 ? spar_die(TOOL, &err) : SPAR_OK;
}
