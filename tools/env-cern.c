/* spar env-cern - a collider search for one hidden particle, as an environment program (spar-env(7)). */
#include "base/opt.h"
#include "env/cern/cern.h"
#include "env/cern/protocol.h"
#include "record/print.h"
#include <inttypes.h>
#include <unistd.h>

#define TOOL "env-cern"

/* What `spar rollout --env 'spar env-cern'` resets an episode from. */
struct tasks {
	int64_t n, done, max_steps;
	uint64_t seed;
	int difficulty;
};

static int next_task(void *ctx, struct spar_str *line, struct spar_err *err)
{
	struct tasks *t = ctx;
	(void)err;
	if (t->done == t->n)
		return 0;
	uint64_t seed = t->seed + (uint64_t)t->done++;
	uint64_t level = t->difficulty == SPAR_CERN_MIXED ? seed % SPAR_CERN_DIFFICULTIES : (uint64_t)t->difficulty;
	spar_str_clear(line);
	spar_str_addf(line, "{\"type\":\"task\",\"id\":\"cern-%" PRIu64 "-%s\",\"env\":\"cern\",", seed,
		      spar_cern_protocol.difficulties[level]);
	spar_str_addf(line, "\"seed\":\"%" PRIu64 "\",\"difficulty\":\"%s\",\"max_steps\":%" PRId64 "}", seed,
		      spar_cern_protocol.difficulties[level], t->max_steps);
	return 1;
}

int main(int argc, char **argv)
{
	struct spar_proto_options opt = {
	    .difficulty = SPAR_CERN_MIXED, .max_steps = SPAR_CERN_STEPS, .max_sessions = 4096};
	struct tasks tasks = {.seed = SPAR_CERN_SEED};
	struct spar_err err = {0};
	const struct spar_opt table[] = {
	    SPAR_PROTO_OPTIONS(opt, spar_cern_protocol.difficulties, SPAR_CERN_STEPS_MAX, "8"),
	    SPAR_OPT_GROUP("task records instead"),
	    SPAR_OPT_INT("tasks", 0, &tasks.n, 1, INT32_MAX, "N", "write N task records and exit"),
	    SPAR_OPT_U64("seed", 0, &tasks.seed, "N", "seed of the first task; the i-th after it has N + i (4242)"),
	    SPAR_OPT_END};
	static const struct spar_usage usage = {
	    TOOL, "[options] <requests >replies",
	    "A collider search for one hidden particle: the environment side of the line "
	    "protocol of spar-env(7), one JSON object per line, many sessions in one process."};
	int rest = spar_opt_parse(&usage, table, argc, argv);
	if (rest < 0)
		return -1 - rest;
	if (rest < argc)
		return spar_usage_error(&usage, "takes no operands: %s", argv[rest]);
	if (tasks.n && tasks.seed > UINT64_MAX - (uint64_t)tasks.n)
		return spar_usage_error(&usage, "--seed: the last task's seed would not fit in 64 bits");
	tasks.difficulty = opt.difficulty;
	tasks.max_steps = opt.max_steps;
	int rc = tasks.n ? spar_print_lines(next_task, &tasks, &err)
			 : spar_proto_serve(&spar_cern_protocol, &opt, STDIN_FILENO, STDOUT_FILENO, &err);
	return rc < 0 ? spar_die(TOOL, &err) : SPAR_OK;
}
