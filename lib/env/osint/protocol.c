/* protocol.c - the game as a table of functions, see episode.h */
#include "env/osint/episode.h"

static int reset(void *e, const void *game, const struct spar_proto_reset *how, struct spar_err *err)
{
	return spar_osint_episode_reset(e, game, how, err);
}

static void release(void *e)
{
	spar_osint_episode_release(e);
}

static void step(void *e, jv action)
{
	spar_osint_episode_step(e, action);
}

static bool done(const void *e)
{
	return ((const struct spar_osint_episode *)e)->end != SPAR_OSINT_RUNNING;
}

static void view(const void *e, bool oracle, struct spar_str *out)
{
	spar_osint_episode_view(e, oracle, out);
}

static void oracle(const void *e, struct spar_str *out)
{
	spar_osint_oracle(e, out);
}

static void solver(const void *e, struct spar_str *out)
{
	spar_osint_solver(e, out);
}

static const struct spar_proto_policy policies[] = {
    {"oracle", true, oracle}, {"solver", false, solver}, {NULL, false, NULL}};

const struct spar_proto_env spar_osint_protocol = {
    .name = "osint",
    .version = "1",
    .difficulties = spar_osint_difficulties,
    .policies = policies,
    .default_seed = SPAR_OSINT_SEED,
    .max_steps_limit = SPAR_OSINT_STEPS_MAX,
    .session_size = sizeof(struct spar_osint_episode),
    .takes_options = true,
    .schema = spar_osint_action_schema,
    .reset = reset,
    .release = release,
    .step = step,
    .done = done,
    .view = view,
};
