/* spar env-osint - questions over knowledge graphs, to be answered or to be asked, as an environment program
 * (spar-env(7)). */
#include "base/opt.h"
#include "env/osint/episode.h"
#include "env/osint/taskset.h"
#include "record/print.h"
#include <unistd.h>

#define TOOL "env-osint"

static int next_task(void *set, struct spar_str *line, struct spar_err *err)
{
	return spar_osint_taskset_next(set, line, err);
}

/* Seeded questions are the training's: no evaluation may see them. */
static int open_seeding(struct spar_osint_seeding *s, const char *path, struct spar_osint_game *game,
			struct spar_osint_taskset *set, struct spar_err *err)
{
	int rc = spar_osint_seeding_read(s, path, err);
	if (rc < 0)
		return rc;
	if (s->idle)
		spar_warn(TOOL, "%s: there are keys without effect, such as %s", path, s->example);
	game->source.seeded_edges = s->edges;
	if (set->messages && !set->levels && game->role == SPAR_OSINT_ANSWERER &&
	    game->source.split == SPAR_OSINT_TRAIN)
		set->seeding = s;
	return 0;
}

int main(int argc, char **argv)
{
	static const char *const contexts[] = {"shown", "hidden", NULL}, *const variants[] = {"vanilla", "ntm", NULL};
	struct spar_osint_game game = SPAR_OSINT_GAME;
	struct spar_proto_options opt = {
	    .difficulty = SPAR_OSINT_MIXED, .max_steps = SPAR_OSINT_STEPS, .max_sessions = 4096};
	struct spar_osint_taskset set = {.seed = SPAR_OSINT_SEED};
	int role = game.role, split = game.source.split, profile = game.profile, hidden = false;
	int64_t max_edges = game.max_edges, n_users = 0;
	uint64_t graph_seed = UINT64_MAX;
	const char *metaqa_dir = NULL, *seed_file = NULL;
	struct spar_osint_seeding seeding = {0};
	int variant = 0;
	struct spar_osint_metaqa metaqa;
	struct spar_err err = {0};
	const struct spar_opt table[] = {
	    SPAR_PROTO_OPTIONS(opt, spar_osint_difficulties, SPAR_OSINT_STEPS_MAX, "8"),
	    SPAR_OPT_GROUP("the game; a reset's options may say otherwise"),
	    SPAR_OPT_CHOICE("role", 0, &role, spar_osint_roles, "NAME",
			    "answerer or generator: who the model is (answerer)"),
	    SPAR_OPT_CHOICE("split", 0, &split, spar_osint_splits, "NAME",
			    "train, validation or test: which graphs (train)"),
	    SPAR_OPT_CHOICE("context", 0, &hidden, contexts, "NAME",
			    "shown, or hidden: then tools must find it (shown)"),
	    SPAR_OPT_INT("max-edges", 0, &max_edges, 8, SPAR_OSINT_CONTEXT_MAX, "N", "edges of a context (20)"),
	    SPAR_OPT_U64("graph-seed", 0, &graph_seed, "N", "all tasks of this one graph (each has its own)"),
	    SPAR_OPT_INT("n-users", 0, &n_users, 4, 512, "N", "users of a graph (24; 40 with --levels)"),
	    SPAR_OPT_DOUBLE("alias-density", 0, &game.source.alias_density, 0, 1, "P",
			    "share of them with an alias (0.35)"),
	    SPAR_OPT_DOUBLE("noise-level", 0, &game.noise.rumours, 0, 1, "P", "share of posts told as rumours (0.15)"),
	    SPAR_OPT_DOUBLE("red-herring-rate", 0, &game.noise.red_herrings, 0, 1, "P",
			    "profiles of nobody for each user (0.1)"),
	    SPAR_OPT_STR("seed-file", 0, &seed_file, "FILE",
			 "edges that are in every graph, and questions that come first of --tasks (none)"),
	    SPAR_OPT_CHOICE("profile", 0, &profile, spar_osint_profiles, "NAME",
			    "sound, or reference: the original's rewards, to compare with (sound)"),
	    SPAR_OPT_STR("metaqa", 0, &metaqa_dir, "DIR", "questions of the MetaQA data set there, in place of ours"),
	    SPAR_OPT_CHOICE("metaqa-variant", 0, &variant, variants, "NAME", "vanilla or ntm (vanilla)"),
	    SPAR_OPT_GROUP("task records instead"),
	    SPAR_OPT_INT("tasks", 0, &set.n, 1, INT32_MAX, "N", "write N task records and exit"),
	    SPAR_OPT_U64("seed", 0, &set.seed, "N", "seed of the first task; the i-th after it has N + i (7)"),
	    SPAR_OPT_FLAG("messages", 0, &set.messages, "prompts with their truth, in place of episodes to be played"),
	    SPAR_OPT_FLAG("own-graph", 0, &set.own_graph,
			  "with --messages: a generator's prompt says that it may propose edges of its own"),
	    SPAR_OPT_FLAG("levels", 0, &set.levels,
			  "a benchmark: a third each easy, medium and hard, of one graph, no question twice"),
	    SPAR_OPT_END};
	static const struct spar_usage usage = {
	    TOOL, "[options] <requests >replies",
	    "Questions over knowledge graphs, to be answered or to be asked: the environment side of the line protocol "
	    "of spar-env(7), one JSON object per line, many sessions in one process."};
	int rest = spar_opt_parse(&usage, table, argc, argv);
	if (rest < 0)
		return -1 - rest;
	if (rest < argc)
		return spar_usage_error(&usage, "takes no operands: %s", argv[rest]);
	if (set.n && set.seed > UINT64_MAX - (uint64_t)set.n)
		return spar_usage_error(&usage, "--seed: the last task's seed would not fit in 64 bits");
	if (metaqa_dir && seed_file)
		return spar_usage_error(&usage, "--seed-file: MetaQA's graph takes none");
	if (metaqa_dir && role == SPAR_OSINT_GENERATOR)
		return spar_usage_error(&usage, "--metaqa: there is no generator for its questions");
	game.role = (enum spar_osint_role)role;
	game.source.split = (enum spar_osint_split)split;
	game.profile = (enum spar_osint_profile)profile;
	game.hidden = hidden;
	game.max_edges = (int)max_edges;
	game.source.n_users = n_users ? (int)n_users : set.levels ? 40 : 24;
	game.one_graph = graph_seed != UINT64_MAX;
	game.source.seed = game.one_graph ? graph_seed : 0;
	int rc = 0;
	if (metaqa_dir) {
		rc = spar_osint_metaqa_open(&metaqa, metaqa_dir, variants[variant], game.source.split, &err);
		if (rc == 0 && metaqa.n_skipped)
			spar_warn(TOOL, "%zu questions are left out: kb.txt does not hold what they are about",
				  metaqa.n_skipped);
		game.metaqa = &metaqa;
	}
	if (rc == 0 && seed_file)
		rc = open_seeding(&seeding, seed_file, &game, &set, &err);
	set.game = game;
	set.difficulty = opt.difficulty;
	set.max_steps = opt.max_steps;
	struct spar_proto_env env = spar_osint_protocol;
	env.world = &game;
	if (rc == 0)
		rc = set.n ? spar_print_lines(next_task, &set, &err)
			   : spar_proto_serve(&env, &opt, STDIN_FILENO, STDOUT_FILENO, &err);
	spar_osint_taskset_release(&set);
	if (metaqa_dir)
		spar_osint_metaqa_release(&metaqa);
	spar_osint_seeding_release(&seeding);
	return rc < 0 ? spar_die(TOOL, &err) : SPAR_OK;
}
