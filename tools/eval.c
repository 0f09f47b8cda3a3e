/* spar eval - what models and policies are worth on held-out tasks. Tasks in, rows and a summary out. */
#include "base/file.h"
#include "base/opt.h"
#include "base/progress.h"
#include "record/record.h"
#include "rl/evaluation.h"
#include "rl/outcome.h"
#include "rl/task.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const struct spar_usage usage = {
    "eval", "[--model=DIR [--original=DIR]] [--policy=NAME]... [options] [FILE] <tasks >rows",
    "Play every task with each model and policy, one after the other, and compare. Rollout records in the input are "
    "judged as they are. One row for each episode, then a record with the summary; a table goes to standard error."};

/* The last record; the same object without "type" in the file `path` (NULL: none); the table for a person. */
static int put_summary(struct spar_evaluation *e, struct spar_filter *f, const char *path)
{
	struct spar_str json = SPAR_STR_INIT, line = SPAR_STR_INIT, table = SPAR_STR_INIT;
	spar_evaluation_sum(e, &json, &table);
	spar_str_addf(&line, "{\"type\":\"eval\",\"summary\":%s}", json.data);
	int rc = spar_filter_put_line(f, line.data, line.len);
	spar_str_addc(&json, '\n');
	if (rc == 0 && path)
		rc = spar_file_write(path, json.data, json.len, &f->err);
	if (!f->quiet)
		fputs(table.data, stderr);
	spar_str_release(&json);
	spar_str_release(&line);
	spar_str_release(&table);
	return rc;
}

static int run(struct spar_filter *f, const struct spar_evaluation_opt *opt, const char *path, const char *summary,
	       bool strict)
{
	struct spar_evaluation *e = NULL;
	struct spar_progress progress;
	uint64_t n_failed = 0, n = 0;
	enum spar_exit code = SPAR_OK;
	spar_progress_begin(&progress, usage.tool, "episodes", 0, f->quiet);
	const struct spar_listener on = spar_progress_listener(&progress);
	int rc = spar_evaluation_new(&e, opt, f, &on, &f->err);
	if (rc == 0 && (rc = spar_filter_open(f, path)) == 0 && (rc = spar_evaluation_read(e)) == 0)
		rc = spar_evaluation_play(e);
	spar_progress_end(&progress);
	if (rc == 0)
		rc = put_summary(e, f, summary);
	if (rc == 0 && strict && spar_evaluation_regressed(e))
		rc = spar_fail(&f->err, SPAR_FAIL, "worse than the original");
	if (e)
		code = spar_evaluation_failures(e, &n_failed, &n);
	spar_evaluation_free(e);
	rc = spar_filter_finish(f, rc);
	if (n_failed)
		fprintf(stderr, "%s: %" PRIu64 " of %" PRIu64 " episodes failed and are not counted\n", usage.tool,
			n_failed, n);
	return rc == SPAR_OK && n_failed && !f->skip_bad ? (int)code : rc;
}

int main(int argc, char **argv)
{
	struct spar_filter f = SPAR_FILTER_INIT(usage.tool);
	struct spar_evaluation_opt o = SPAR_EVALUATION_DEFAULTS;
	const char *summary = NULL;
	bool strict = false;
	const struct spar_opt table[] = {
	    SPAR_OPT_GROUP("what is evaluated"),
	    SPAR_OPT_STR("model", 'm', &o.model, "DIR",
			 "model folder, PEFT adapter or policy directory: 'finetuned' in the rows"),
	    SPAR_OPT_STR("original", 'o', &o.original, "DIR", "the model to compare with: 'original' in the rows"),
	    SPAR_OPT_STR("original-records", 0, &o.original_records, "FILE",
			 "rollouts to compare those in the input with, task by task"),
	    SPAR_OPT_LIST("policy", 'p', &o.policies, "NAME",
			  "a built-in policy of the environment (random, heuristic, oracle); any number of them"),
	    SPAR_OPT_INT("num-generations", 'n', &o.samples, 1, 1e6, "N", "samples of each task (1)"),
	    SPAR_OPT_STR("messages", 0, &o.messages, "JQ",
			 "prompt of a task: messages or a text (" SPAR_TASK_PROMPT ")"),
	    SPAR_OPT_STR("success", 0, &o.judge, "JQ",
			 "true, false or null of a rollout (what env.success says, else whether the reward reaches 1)"),
	    SPAR_OPT_STR("pass-at", 'k', &o.pass_at, "LIST", "also pass@k for these k, such as 1,2,4"),
	    SPAR_OPT_STR("summary", 0, &summary, "FILE", "write the summary here too"),
	    SPAR_OPT_FLAG("fail-on-regression", 0, &strict,
			  "exit 1 if the success rate is below the original's, interval and all"),
	    SPAR_OPT_DOUBLE("temperature", 0, &o.sampler.sampling.temperature, 0, 1e6, "X", "0 is greedy (0)"),
	    SPAR_SAMPLER_OPTIONS(o.sampler),
	    SPAR_OPT_GROUP("records"),
	    SPAR_FILTER_OPTIONS(f),
	    SPAR_OPT_END};
	o.sampler.sampling.temperature = 0;
	int rest = spar_opt_parse(&usage, table, argc, argv), rc;
	if (rest < 0)
		rc = -1 - rest;
	else if (rest + 1 < argc)
		rc = spar_usage_error(&usage, "one input file at most, got '%s' too", argv[rest + 1]);
	else if (spar_sampler_settle_device(&o.sampler, usage.tool, argv, &f.err) < 0)
		rc = spar_filter_finish(&f, -(int)f.err.code);
	else
		rc = run(&f, &o, argv[rest], summary, strict);
	free(o.policies.items);
	return rc;
}
