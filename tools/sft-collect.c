/* spar sft-collect - demonstrations: episodes played by one of an environment's own policies, as sft records. */
#include "base/file.h"
#include "base/opt.h"
#include "base/progress.h"
#include "model/model.h"
#include "record/stream.h"
#include "rl/demonstration.h"
#include "rl/policy.h"
#include "rl/prompt.h"
#include "rl/sampler.h"
#include "rl/task.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct spar_usage usage = {
    "sft-collect", "[options] >records",
    "Play episodes with a policy built into the environment and write each step as an sft record: the prompt it was "
    "shown "
    "and what it answered. Only episodes that succeeded are kept; if none did, all are, with a warning."};

enum { WINDOW = 64 }; /* episodes in the making at once */

struct collect {
	struct spar_sampler_opt opt;
	const char *difficulty;
	int64_t episodes;
	uint64_t seed;
	struct spar_chat *chat; /* NULL: no prompts are rendered */
	struct spar_writer *out, *copy;
	struct spar_collection kept;
};

/* ---- episodes ---- */

/* Whole lines. */
static int put(const struct collect *c, const struct spar_str *lines, struct spar_err *err)
{
	int rc = lines->len ? spar_writer_put(c->out, lines->data, lines->len - 1, err) : 0;
	return rc == 0 && lines->len && c->copy ? spar_writer_put(c->copy, lines->data, lines->len - 1, err) : rc;
}

static int add(struct collect *c, const struct spar_play *p, const char *env, struct spar_err *err)
{
	struct spar_str name = SPAR_STR_INIT, lines = SPAR_STR_INIT;
	struct spar_demonstration d;
	if (p->error) /* refused or broken: there is no input to blame */
		return spar_fail(err, SPAR_FAIL, "%s", p->error);
	spar_str_addf(&name, "%s-%s", env, p->task->id);
	int rc = spar_demonstration_make(&d, p, name.data, c->difficulty, p->task->id, c->chat, err);
	if (rc == 0) {
		spar_collection_add(&c->kept, &d, &lines);
		rc = put(c, &lines, err);
	}
	spar_demonstration_release(&d);
	spar_str_release(&lines);
	spar_str_release(&name);
	return rc;
}

static int collect(struct collect *c, const struct spar_listener *on, struct spar_err *err)
{
	struct spar_task tasks[WINDOW]; /* episode i is at i % WINDOW */
	struct spar_sampler *s;
	int64_t begun = 0, done = 0;
	int rc = spar_sampler_new(&s, &c->opt, err);
	while (rc == 0 && done < c->episodes) {
		for (; rc == 0 && begun < c->episodes && begun - done < WINDOW; begun++) {
			struct spar_task *task = &tasks[begun % WINDOW];
			spar_task_episode(task, c->seed + (uint64_t)begun, c->difficulty, c->opt.max_turns);
			rc = spar_sampler_add(s, task, 0, err);
		}
		if (rc < 0 || (rc = spar_sampler_step(s, err)) < 0)
			break;
		rc = 0;
		for (struct spar_play *p; rc == 0 && (p = spar_sampler_take(s)); done++) {
			rc = add(c, p, spar_sampler_env_name(s), err);
			spar_play_free(p);
			spar_task_release(&tasks[done % WINDOW]);
		}
		spar_listener_progress(on, (uint64_t)done, (uint64_t)c->episodes, "%zu successful", c->kept.n_success);
	}
	spar_sampler_free(s);
	for (; done < begun; done++)
		spar_task_release(&tasks[done % WINDOW]);
	return rc;
}

/* If nothing succeeded, what was held back until now is better than nothing. */
static int end(struct collect *c, const struct spar_listener *on, struct spar_err *err)
{
	struct spar_str lines = SPAR_STR_INIT;
	spar_collection_end(&c->kept, &lines);
	if (c->kept.fallback)
		spar_listener_warn(
		    on, "no episode succeeded (is --max-steps=%" PRId64 " too small?): all %zu steps are kept",
		    c->opt.max_turns, c->kept.n_steps);
	int rc = put(c, &lines, err);
	spar_str_release(&lines);
	return rc;
}

/* ---- main ---- */

static int open_chat(struct collect *c, const char *model, const struct spar_listener *on, struct spar_err *err)
{
	bool no_template = false;
	char *base;
	int rc = spar_policy_text_dir(&base, model, err);
	if (rc == 0)
		rc = spar_chat_load(&c->chat, base, &no_template, err);
	if (no_template)
		spar_listener_warn(on, "%s: " SPAR_PROMPT_NO_TEMPLATE, base);
	free(base);
	return rc;
}

/* Nothing is claimed to be whole unless rc is 0. */
static int close_all(struct collect *c, int rc, const char *summary, struct spar_err *err)
{
	struct spar_writer *writers[] = {c->out, c->copy};
	struct spar_str figures = SPAR_STR_INIT;
	for (int i = 0; i < 2; i++) {
		if (writers[i] && rc < 0)
			spar_writer_abort(writers[i]);
		else if (writers[i])
			rc = spar_writer_close(writers[i], err);
	}
	spar_collection_json(&c->kept, &figures);
	if (rc == 0 && summary)
		rc = spar_file_write(summary, figures.data, figures.len, err);
	spar_str_release(&figures);
	spar_str_release(&c->kept.held);
	spar_chat_free(c->chat);
	return rc;
}

static int run(struct collect *c, const char *model, const char *save, const char *summary, bool quiet)
{
	struct spar_err err = {0};
	struct spar_progress progress;
	spar_progress_begin(&progress, usage.tool, "episodes", (uint64_t)c->episodes, quiet);
	const struct spar_listener on = spar_progress_listener(&progress);
	int rc = model ? open_chat(c, model, &on, &err) : 0;
	if (rc == 0)
		rc = spar_writer_open(&c->out, NULL, &err);
	if (rc == 0 && save)
		rc = spar_writer_open(&c->copy, save, &err);
	if (rc == 0)
		rc = collect(c, &on, &err);
	spar_progress_end(&progress);
	if (rc == 0)
		rc = end(c, &on, &err);
	rc = close_all(c, rc, summary, &err);
	return rc < 0 ? spar_die(usage.tool, &err) : SPAR_OK;
}

int main(int argc, char **argv)
{
	struct collect c = {.opt = SPAR_SAMPLER_DEFAULTS,
			    .difficulty = "mixed",
			    .episodes = 200,
			    .seed = 4242,
			    .kept = {.held = SPAR_STR_INIT}};
	const char *model = NULL, *save = NULL, *summary = NULL;
	bool quiet = false;
	c.opt.env = "spar env-cern --oracle";
	c.opt.actor = "oracle";
	c.opt.max_turns = 8;
	c.opt.cut_long = true;
	const struct spar_opt table[] = {
	    SPAR_OPT_STR("env", 0, &c.opt.env, "CMD", "environment program (spar env-cern --oracle)"),
	    SPAR_OPT_STR("policy", 0, &c.opt.actor, "NAME", "the environment's policy that plays (oracle)"),
	    SPAR_OPT_INT("episodes", 'n', &c.episodes, 1, INT32_MAX, "N", "episodes to play (200)"),
	    SPAR_OPT_U64("seed", 0, &c.seed, "N", "seed of the first; episode i has N + i (4242)"),
	    SPAR_OPT_STR("difficulty", 0, &c.difficulty, "NAME", "what to ask the environment for (mixed)"),
	    SPAR_OPT_INT("max-steps", 0, &c.opt.max_turns, 1, 1 << 20, "N", "steps of an episode (8)"),
	    SPAR_OPT_STR("model", 'm', &model, "DIR", "also render each prompt with this model's chat template"),
	    SPAR_OPT_FLAG("all", 0, &c.kept.all, "keep failed episodes too"),
	    SPAR_OPT_STR("summary", 0, &summary, "FILE", "write the figures there as JSON"),
	    SPAR_OPT_STR("save", 0, &save, "FILE", "keep a copy of what is emitted; zstd if FILE ends in .zst"),
	    SPAR_OPT_DOUBLE("env-timeout", 0, &c.opt.env_timeout_s, 0.001, 86400, "S",
			    "seconds to wait for a reply (60)"),
	    SPAR_OPT_FLAG("quiet", 'q', &quiet, "no progress"),
	    SPAR_OPT_END};
	int rest = spar_opt_parse(&usage, table, argc, argv);
	if (rest < 0)
		return -1 - rest;
	if (rest < argc)
		return spar_usage_error(&usage, "takes no operands: %s", argv[rest]);
	if (c.seed > UINT64_MAX - (uint64_t)c.episodes)
		return spar_usage_error(&usage, "--seed: the last episode's seed would not fit in 64 bits");
	return run(&c, model, save, summary, quiet);
}
