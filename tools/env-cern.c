/* spar env-cern - a collider search for one hidden particle, as an environment program (spar-env(7)). */
#include "base/opt.h"
#include "env/cern/cern.h"
#include "env/proto.h"
#include "record/stream.h"
#include <inttypes.h>
#include <unistd.h>

#define TOOL "env-cern"

static const char *const difficulties[] = {"easy", "medium", "hard", "mixed", NULL};

/* ---- the game as a table of functions ---- */

static int reset(void *s, const void *world, const struct spar_proto_reset *how, struct spar_err *err)
{
	(void)world, (void)err;
	spar_cern_reset(s, how->seed, how->difficulty, (int)how->max_steps);
	return 0;
}

static void step(void *s, jv action)
{
	spar_cern_step(s, action);
}

static bool done(const void *s)
{
	return ((const struct spar_cern *)s)->end != SPAR_CERN_RUNNING;
}

static void view(const void *s, bool oracle, struct spar_str *out)
{
	spar_cern_view(s, oracle, out);
}

static void write_action(struct spar_cern_action a, struct spar_str *out)
{
	spar_cern_action_write(&a, out);
}

static void oracle(const void *s, struct spar_str *out)
{
	write_action(spar_cern_oracle(s), out);
}

static void heuristic(const void *s, struct spar_str *out)
{
	write_action(spar_cern_heuristic(s), out);
}

static void random_action(const void *s, struct spar_str *out)
{
	write_action(spar_cern_random(s), out);
}

static const struct spar_proto_policy policies[] = {
    {"oracle", true, oracle}, {"heuristic", false, heuristic}, {"random", false, random_action}, {NULL, false, NULL}};

static const struct spar_proto_env game = {
    .name = "cern",
    .version = "1",
    .system = spar_cern_system,
    .difficulties = difficulties,
    .policies = policies,
    .default_seed = SPAR_CERN_SEED,
    .max_steps_limit = SPAR_CERN_STEPS_MAX,
    .session_size = sizeof(struct spar_cern),
    .schema = spar_cern_action_schema,
    .reset = reset,
    .step = step,
    .done = done,
    .view = view,
};

/* ---- task records ---- */

/* What `spar rollout --env 'spar env-cern'` resets an episode from. */
static int write_tasks(int64_t n, uint64_t seed, const struct spar_proto_options *opt, struct spar_err *err)
{
	struct spar_writer *out;
	struct spar_str line = SPAR_STR_INIT;
	int rc = spar_writer_open(&out, NULL, err);
	if (rc < 0)
		return rc;
	for (int64_t i = 0; i < n && rc == 0; i++, seed++) {
		uint64_t level =
		    opt->difficulty == SPAR_CERN_MIXED ? seed % SPAR_CERN_DIFFICULTIES : (uint64_t)opt->difficulty;
		spar_str_clear(&line);
		spar_str_addf(&line, "{\"type\":\"task\",\"id\":\"cern-%" PRIu64 "-%s\",\"env\":\"cern\",", seed,
			      difficulties[level]);
		spar_str_addf(&line, "\"seed\":\"%" PRIu64 "\",\"difficulty\":\"%s\",\"max_steps\":%" PRId64 "}", seed,
			      difficulties[level], opt->max_steps);
		rc = spar_writer_put(out, line.data, line.len, err);
	}
	spar_str_release(&line);
	if (rc == 0)
		return spar_writer_close(out, err);
	spar_writer_abort(out);
	return rc;
}

int main(int argc, char **argv)
{
	struct spar_proto_options opt = {
	    .difficulty = SPAR_CERN_MIXED, .max_steps = SPAR_CERN_STEPS, .max_sessions = 4096};
	int64_t tasks = 0;
	uint64_t seed = SPAR_CERN_SEED;
	struct spar_err err = {0};
	const struct spar_opt table[] = {
	    SPAR_PROTO_OPTIONS(opt, difficulties, SPAR_CERN_STEPS_MAX, "8"), SPAR_OPT_GROUP("task records instead"),
	    SPAR_OPT_INT("tasks", 0, &tasks, 1, INT32_MAX, "N", "write N task records and exit"),
	    SPAR_OPT_U64("seed", 0, &seed, "N", "seed of the first task; the i-th after it has N + i (4242)"),
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
	if (tasks && seed > UINT64_MAX - (uint64_t)tasks)
		return spar_usage_error(&usage, "--seed: the last task's seed would not fit in 64 bits");
	int rc = tasks ? write_tasks(tasks, seed, &opt, &err)
		       : spar_proto_serve(&game, &opt, STDIN_FILENO, STDOUT_FILENO, &err);
	return rc < 0 ? spar_die(TOOL, &err) : SPAR_OK;
}
