/* protocol.c - the game as a table of functions, see protocol.h */
#include "env/cern/protocol.h"
#include "env/cern/cern.h"

static const char *const difficulties[] = {"easy", "medium", "hard", "mixed", NULL};

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

const struct spar_proto_env spar_cern_protocol = {
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
