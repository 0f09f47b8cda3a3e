/* spar rollout - sample completions and whole episodes. Tasks in, rollouts out. */
#include "base/opt.h"
#include "base/progress.h"
#include "record/record.h"
#include "rl/producer.h"
#include "rl/task.h"
#include <inttypes.h>
#include <stdio.h>

static const struct spar_usage usage = {
    "rollout", "--model=DIR | --policy=DIR [options] [FILE] <tasks >rollouts",
    "Let a model answer each task several times: one completion, or an episode of an environment. Rollouts are written "
    "in the order of tasks and samples. With --policy the model is the newest version that a running update has "
    "published, and a batch waits for the version it needs."};

static int run(struct spar_filter *f, const struct spar_producer_opt *opt, const char *path)
{
	struct spar_producer *p = NULL;
	struct spar_progress progress;
	uint64_t n_failed = 0, n = 0;
	enum spar_exit code = SPAR_OK;
	spar_progress_begin(&progress, usage.tool, "episodes", 0, f->quiet);
	const struct spar_listener on = spar_progress_listener(&progress);
	int rc = spar_producer_new(&p, opt, f, &on, &f->err);
	if (rc == 0 && (rc = spar_filter_open(f, path)) == 0)
		rc = opt->encode_only ? spar_producer_encode(p) : spar_producer_run(p);
	spar_progress_end(&progress);
	if (p)
		code = spar_producer_failures(p, &n_failed, &n);
	spar_producer_free(p);
	rc = spar_filter_finish(f, rc);
	if (n_failed)
		fprintf(stderr, "%s: %" PRIu64 " of %" PRIu64 " episodes failed (error)\n", usage.tool, n_failed, n);
	return rc == SPAR_OK && n_failed && !f->skip_bad ? (int)code : rc;
}

int main(int argc, char **argv)
{
	struct spar_filter f = SPAR_FILTER_INIT(usage.tool);
	struct spar_producer_opt o = SPAR_PRODUCER_DEFAULTS;
	const struct spar_opt table[] = {
	    SPAR_OPT_GROUP("what is sampled"),
	    SPAR_OPT_STR("model", 'm', &o.sampler.model, "DIR",
			 "model folder, also a PEFT adapter or a policy directory: its latest version"),
	    SPAR_OPT_STR("policy", 'p', &o.policy, "DIR", "follow the policy that a running update publishes here"),
	    SPAR_OPT_INT("lag", 0, &o.lag, 0, 1e9, "N", "versions that a batch may be behind (0)"),
	    SPAR_OPT_DOUBLE("policy-timeout", 0, &o.policy_timeout_s, 0, 1e9, "S",
			    "seconds to wait for a version (3600)"),
	    SPAR_OPT_INT("batch", 'b', &o.batch, 0, 1e9, "N",
			 "tasks of a batch, with a batch record after each; 0: none (0; with --policy 8)"),
	    SPAR_OPT_INT("max-steps", 0, &o.max_steps, 0, 1e15, "N", "stop before batch N; 0: at the end of input (0)"),
	    SPAR_OPT_INT("num-generations", 'n', &o.group_size, 0, 1e6, "N",
			 "samples of each task; 0: 8, or 1 with --into (0)"),
	    SPAR_OPT_STR("messages", 0, &o.messages, "JQ",
			 "prompt of a record: messages or a text (" SPAR_TASK_PROMPT ")"),
	    SPAR_OPT_STR("into", 0, &o.into, "KEY", "pass the record on with what was sampled in KEY"),
	    SPAR_OPT_FLAG("step-time", 0, &o.step_time,
			  "say in batch records what sampling took: no two runs are the same then"),
	    SPAR_OPT_DOUBLE("temperature", 0, &o.sampler.sampling.temperature, 0, 1e6, "X", "0 is greedy (1)"),
	    SPAR_OPT_STR("force-ids", 0, &o.force_ids, "IDS", "begin every completion with these ids, a JSON array"),
	    SPAR_OPT_FLAG("dry-run", 0, &o.encode_only, "only add prompt and prompt_ids to each task"),
	    SPAR_SAMPLER_OPTIONS(o.sampler),
	    SPAR_OPT_GROUP("records"),
	    SPAR_FILTER_OPTIONS(f),
	    SPAR_OPT_END};
	int rest = spar_opt_parse(&usage, table, argc, argv);
	if (rest < 0)
		return -1 - rest;
	if (!o.sampler.model == !o.policy || (o.encode_only && !o.sampler.model))
		return spar_usage_error(&usage, "give --model=DIR or --policy=DIR%s",
					o.encode_only ? " (--dry-run: a model)" : "");
	if (rest + 1 < argc)
		return spar_usage_error(&usage, "one input file at most, got '%s' too", argv[rest + 1]);
	if (spar_sampler_settle_device(&o.sampler, usage.tool, argv, &f.err) < 0)
		return spar_filter_finish(&f, -(int)f.err.code);
	return run(&f, &o, argv[rest]);
}
