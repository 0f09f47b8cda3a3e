#include "rl/self_play.h"
#include "record/object.h"
#include "record/record.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum kind { INT, NUM, BOOL, STR, NAME, LIST };

/* One key. STR is free text; NAME is a word that goes into file names and command lines. */
struct key {
	const char *path;
	enum kind kind;
	double min, max;      /* of numbers */
	const char *fallback; /* the default, as JSON */
	const char *choices;  /* of a NAME: " a b "; NULL: any */
	const char *idle;     /* why it has no effect here; NULL: it has one */
};

#define COUNT 1e9 /* no count is larger */
#define NOT_PYTHON "it steers machinery that is not here"

#define SWARM(block, agents, breadth) \
	{block ".shared_context", BOOL, 0, 0, "true", NULL, "the prompt always carries the context"}, \
	    {block ".max_agents", INT, 1, 64, agents, NULL, NULL}, \
	    {block ".max_breadth", INT, 1, 64, breadth, NULL, NULL}, \
	    {block ".max_depth", INT, 1, 64, "2", NULL, NULL}, \
	    {block ".planner_rounds", INT, 1, 64, "2", NULL, "workers run once"}, \
	{ \
		block ".tools_per_agent", INT, 1, 64, "2", NULL, "workers call no tools" \
	}

#define PHASE(block, rate, length, subdir) \
	{block ".model_name_or_path", NAME, 0, 0, "\"Qwen/Qwen2.5-0.5B-Instruct\"", NULL, NULL}, \
	    {block ".learning_rate", NUM, 0, 1, rate, NULL, NULL}, \
	    {block ".max_steps", INT, 1, COUNT, "64", NULL, NULL}, \
	    {block ".per_device_train_batch_size", INT, 1, COUNT, "2", NULL, NULL}, \
	    {block ".gradient_accumulation_steps", INT, 1, COUNT, "4", NULL, NULL}, \
	    {block ".num_generations", INT, 1, 4096, "4", NULL, NULL}, \
	    {block ".max_completion_length", INT, 1, COUNT, length, NULL, NULL}, \
	    {block ".temperature", NUM, 0, 1e6, "1.0", NULL, NULL}, {block ".top_p", NUM, 0, 1, "1.0", NULL, NULL}, \
	    {block ".repetition_penalty", NUM, 1, 1e6, "1.0", NULL, "it fights JSON, which must repeat names"}, \
	    {block ".beta", NUM, 0, 1e6, "0.01", NULL, NULL}, {block ".epsilon", NUM, 0, 1, "0.2", NULL, NULL}, \
	    {block ".num_iterations", INT, 1, 1000, "1", NULL, NULL}, \
	    {block ".loss_type", NAME, 0, 0, "\"dapo\"", " grpo bnpo dr_grpo dapo cispo sapo luspo vespo ", NULL}, \
	    {block ".scale_rewards", NAME, 0, 0, "\"none\"", " group batch none ", NULL}, \
	    {block ".logging_steps", INT, 1, COUNT, "10", NULL, "every step is logged"}, \
	    {block ".save_steps", INT, 1, COUNT, "50", NULL, NULL}, \
	    {block ".save_total_limit", INT, 1, COUNT, "2", NULL, NULL}, \
	    {block ".output_subdir", NAME, 0, 0, "\"" subdir "\"", NULL, NULL}, \
	    {block ".optim", STR, 0, 0, "\"adamw_torch_fused\"", NULL, "AdamW it is"}, \
	    {block ".bf16", BOOL, 0, 0, "true", NULL, NULL}, {block ".tf32", BOOL, 0, 0, "true", NULL, NOT_PYTHON}, \
	    {block ".gradient_checkpointing", BOOL, 0, 0, "false", NULL, NOT_PYTHON}, \
	    {block ".dataloader_num_workers", INT, 0, COUNT, "2", NULL, NOT_PYTHON}, \
	    {block ".dataloader_persistent_workers", BOOL, 0, 0, "true", NULL, NOT_PYTHON}, \
	    {block ".dataloader_prefetch_factor", INT, 1, COUNT, "2", NULL, NOT_PYTHON}, \
	    {block ".generation_batch_size", INT, 1, COUNT, "8", NULL, NULL}, \
	    {block ".max_prompt_length", INT, 32, COUNT, "1024", NULL, NULL}, \
	    {block ".use_vllm", BOOL, 0, 0, "false", NULL, NOT_PYTHON}, \
	{ \
		block ".vllm_mode", NAME, 0, 0, "\"colocate\"", " colocate server ", NOT_PYTHON \
	}

/* clang-format off */
static const struct key keys[] = {
	{"rounds", INT, 1, 999, "3", NULL, NULL},
	{"output_dir", NAME, 0, 0, "\"artifacts/self_play\"", NULL, NULL},
	{"dry_run", BOOL, 0, 0, "true", NULL, NULL},
	{"wandb_enabled", BOOL, 0, 0, "false", NULL, "metrics are files: spar report shows them"},
	{"wandb_project", STR, 0, 0, "\"osint-self-play\"", NULL, NULL},
	{"wandb_entity", STR, 0, 0, "\"\"", NULL, NULL},
	{"wandb_run_name_prefix", STR, 0, 0, "\"self-play\"", NULL, NULL},
	{"canonical_graph_mode", NAME, 0, 0, "\"generate\"", " generate fixed ", NULL},
	{"pipeline_mode", NAME, 0, 0, "\"legacy\"", " legacy swarm_v2 ", NULL},
	{"model_topology", NAME, 0, 0, "\"dual\"", " dual shared ", NULL},
	{"phase_schedule", NAME, 0, 0, "\"generator_answerer\"",
	 " generator_answerer answerer_generator_answerer ", NULL},
	{"tuning_mode", NAME, 0, 0, "\"full\"", " full lora ", NULL},
	{"shared_model_name_or_path", NAME, 0, 0, "\"\"", NULL, NULL},
	{"seed_tasks_per_round", INT, 1, COUNT, "16", NULL, NULL},
	{"generated_tasks_per_round", INT, 1, COUNT, "24", NULL, NULL},
	{"generator_prompts_per_round", INT, 1, COUNT, "24", NULL, NULL},
	{"max_graph_context_nodes", INT, 1, COUNT, "100", NULL, NULL},
	{"max_graph_context_edges", INT, 1, COUNT, "100", NULL, NULL},
	{"max_support_edges", INT, 1, COUNT, "8", NULL, NULL},
	{"answerer_judge_max_new_tokens", INT, 1, COUNT, "48", NULL, NULL},
	{"generated_task_max_new_tokens", INT, 32, COUNT, "512", NULL, NULL},
	{"post_training_eval_questions", INT, 1, COUNT, "24", NULL, NULL},
	{"post_training_eval_answer_max_new_tokens", INT, 1, COUNT, "128", NULL, NULL},
	{"generator_reward_weights.validity", NUM, 0, 1e6, "0.45", NULL, NULL},
	{"generator_reward_weights.hardness", NUM, 0, 1e6, "0.20", NULL, NULL},
	{"generator_reward_weights.diversity", NUM, 0, 1e6, "0.15", NULL, NULL},
	{"generator_reward_weights.consistency", NUM, 0, 1e6, "0.20", NULL, NULL},
	{"lora.r", INT, 1, 65536, "16", NULL, NULL},
	{"lora.alpha", INT, 1, 65536, "32", NULL, NULL},
	{"lora.dropout", NUM, 0, 0.99, "0.05", NULL, NULL},
	{"lora.target_modules", LIST, 0, 0, "[\"q_proj\",\"k_proj\",\"v_proj\",\"o_proj\"]", NULL, NULL},
	{"lora.bias", NAME, 0, 0, "\"none\"", " none ", NULL},
	{"lora.task_type", NAME, 0, 0, "\"CAUSAL_LM\"", " CAUSAL_LM ", NULL},
	SWARM("swarm_v2.generator_swarm", "4", "3"),
	SWARM("swarm_v2.answerer_swarm", "3", "2"),
	{"swarm_v2.validation.max_support_edges", INT, 1, COUNT, "8", NULL, NULL},
	{"swarm_v2.validation.max_path_hops", INT, 1, 4, "4", NULL, NULL},
	{"swarm_v2.validation.max_context_nodes", INT, 1, COUNT, "14", NULL, NULL},
	{"swarm_v2.validation.max_context_edges", INT, 1, COUNT, "8", NULL, NULL},
	{"swarm_v2.validation.duplicate_similarity_threshold", NUM, 0, 1, "0.8", NULL, NULL},
	{"swarm_v2.shared_context.shared_by_default", BOOL, 0, 0, "true", NULL, "the prompt always carries the context"},
	{"swarm_v2.shared_context.max_nodes", INT, 1, COUNT, "14", NULL, NULL},
	{"swarm_v2.shared_context.max_edges", INT, 1, COUNT, "8", NULL, NULL},
	{"swarm_v2.shared_context.target_pressure", NUM, 0, 1, "0.85", NULL, NULL},
	PHASE("generator_phase", "5e-6", "384", "generator"),
	PHASE("answerer_phase", "3e-6", "192", "answerer"),
	/* spar's own */
	{"seed", INT, 0, 1000000000, "7", NULL, NULL},
	{"profile", NAME, 0, 0, "\"sound\"", " sound reference ", NULL},
	{"strict_asserts", BOOL, 0, 0, "false", NULL, NULL},
	{"max_fallback_share", NUM, 0, 1, "0.5", NULL, NULL},
	{"judge_samples", INT, 1, 4096, "4", NULL, NULL},
	{"environment.n_users", INT, 4, 512, "40", NULL, NULL},
	{"environment.alias_density", NUM, 0, 1, "0.35", NULL, NULL},
	{"environment.noise_level", NUM, 0, 1, "0.15", NULL, NULL},
	{"environment.red_herring_rate", NUM, 0, 1, "0.1", NULL, NULL},
	{"environment.seed_file", NAME, 0, 0, "\"\"", NULL, NULL},
	{"warm_start.episodes", INT, 0, COUNT, "0", NULL, NULL},
	{"warm_start.epochs", NUM, 0, 1e6, "1", NULL, NULL},
	{"warm_start.learning_rate", NUM, 0, 1, "1e-5", NULL, NULL},
	{"warm_start.batch_size", INT, 1, COUNT, "8", NULL, NULL},
	{"post_training_eval_heldout_questions", INT, 1, COUNT, "200", NULL, NULL},
	{"post_training_eval_samples", INT, 1, 4096, "1", NULL, NULL},
};
/* clang-format on */

#define N_KEYS (sizeof keys / sizeof *keys)

/* ---- paths ---- */

static jv path_of(const char *path)
{
	return jv_string_split(jv_string(path), jv_string("."));
}

/* A NEW reference. */
static jv get(jv config, const char *path)
{
	return jv_getpath(jv_copy(config), path_of(path));
}

static double number(jv config, const char *path)
{
	jv v = get(config, path);
	double d = jv_number_value(v);
	jv_free(v);
	return d;
}

static bool is_word(jv config, const char *path, const char *word)
{
	jv v = get(config, path);
	bool same = !strcmp(jv_string_value(v), word);
	jv_free(v);
	return same;
}

static const struct key *find(const char *path)
{
	for (size_t i = 0; i < N_KEYS; i++)
		if (!strcmp(keys[i].path, path))
			return &keys[i];
	return NULL;
}

static bool is_block(const char *path)
{
	size_t n = strlen(path);
	for (size_t i = 0; i < N_KEYS; i++)
		if (!strncmp(keys[i].path, path, n) && keys[i].path[n] == '.')
			return true;
	return false;
}

/* How many letters have to be changed, put in or left out (Levenshtein); 99 when a text is too long to compare. */
static int distance(const char *a, const char *b)
{
	int row[64];
	size_t n = strlen(b);
	if (n >= 64)
		return 99;
	for (size_t j = 0; j <= n; j++)
		row[j] = (int)j;
	for (size_t i = 0; a[i]; i++) {
		int diagonal = row[0];
		row[0] = (int)i + 1;
		for (size_t j = 0; j < n; j++) {
			int change = diagonal + (a[i] != b[j]), least = row[j] < row[j + 1] ? row[j] : row[j + 1];
			diagonal = row[j + 1];
			row[j + 1] = change < least + 1 ? change : least + 1;
		}
	}
	return row[n];
}

static int unknown(const char *path, struct spar_err *err)
{
	const char *nearest = NULL;
	int least = 4;
	for (size_t i = 0; i < N_KEYS; i++) {
		int d = distance(path, keys[i].path);
		if (d < least) {
			least = d;
			nearest = keys[i].path;
		}
	}
	return nearest ? spar_fail(err, SPAR_INPUT, "%s: no such key; did you mean %s", path, nearest)
		       : spar_fail(err, SPAR_INPUT, "%s: no such key", path);
}

/* ---- one value ---- */

static int check_number(const struct key *key, jv v, struct spar_err *err)
{
	double d = jv_number_value(v);
	if (key->kind == INT && d != floor(d))
		return spar_fail(err, SPAR_INPUT, "%s: expected a whole number, got %.17g", key->path, d);
	if (!(d >= key->min && d <= key->max))
		return spar_fail(err, SPAR_INPUT, "%s: %.17g is not within %.17g and %.17g", key->path, d, key->min,
				 key->max);
	return 0;
}

static int check_name(const struct key *key, jv v, struct spar_err *err)
{
	const char *s = jv_string_value(v);
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+@=,:");
	if (s[n])
		return spar_fail(err, SPAR_INPUT, "%s: '%s': '%c' cannot stand in a name", key->path, s, s[n]);
	const char *at = key->choices && n ? strstr(key->choices, s) : NULL;
	if (key->choices && !(at && at[-1] == ' ' && at[n] == ' '))
		return spar_fail(err, SPAR_INPUT, "%s: '%s' is none of%.*s", key->path, s,
				 (int)strlen(key->choices) - 1, key->choices);
	return 0;
}

static int check_list(const struct key *key, jv v, struct spar_err *err)
{
	int rc = 0;
	if (!jv_array_length(jv_copy(v)))
		return spar_fail(err, SPAR_INPUT, "%s: it is empty", key->path);
	jv_array_foreach(v, i, item)
	{
		if (rc == 0)
			rc = jv_get_kind(item) == JV_KIND_STRING
				 ? check_name(key, item, err)
				 : spar_fail(err, SPAR_INPUT, "%s[%d]: expected string, got %s", key->path, i,
					     spar_kind_name(item));
		jv_free(item);
	}
	return rc;
}

/* `v` is borrowed. */
static int check_value(const struct key *key, jv v, struct spar_err *err)
{
	static const jv_kind wanted[] = {JV_KIND_NUMBER, JV_KIND_NUMBER, JV_KIND_TRUE,
					 JV_KIND_STRING, JV_KIND_STRING, JV_KIND_ARRAY};
	static const char *const names[] = {"number", "number", "boolean", "string", "string", "array"};
	jv_kind kind = jv_get_kind(v) == JV_KIND_FALSE ? JV_KIND_TRUE : jv_get_kind(v);
	if (kind != wanted[key->kind])
		return spar_fail(err, SPAR_INPUT, "%s: expected %s, got %s", key->path, names[key->kind],
				 spar_kind_name(v));
	switch (key->kind) {
	case INT:
	case NUM:
		return check_number(key, v, err);
	case NAME:
		return check_name(key, v, err);
	case LIST:
		return check_list(key, v, err);
	default:
		return 0;
	}
}

/* ---- the whole ---- */

static jv defaults(void)
{
	jv config = jv_object();
	for (size_t i = 0; i < N_KEYS; i++)
		config = jv_setpath(config, path_of(keys[i].path), jv_parse(keys[i].fallback));
	return config;
}

static int put(jv *config, const char *path, jv v, struct spar_err *err);

/* `block` is borrowed; `path` ends in a dot, or is "" at the top. */
static int put_members(jv *config, const char *path, jv block, struct spar_err *err)
{
	struct spar_str inner = SPAR_STR_INIT;
	int rc = 0;
	for (int i = jv_object_iter(block); rc == 0 && jv_object_iter_valid(block, i);
	     i = jv_object_iter_next(block, i)) {
		jv name = jv_object_iter_key(block, i);
		spar_str_clear(&inner);
		spar_str_addf(&inner, "%s%s", path, jv_string_value(name));
		rc = put(config, inner.data, jv_object_iter_value(block, i), err);
		jv_free(name);
	}
	spar_str_release(&inner);
	return rc;
}

/* Put the value at `path` (consumed), a key's or a block, into the configuration. */
static int put(jv *config, const char *path, jv v, struct spar_err *err)
{
	const struct key *key = find(path);
	struct spar_str block = SPAR_STR_INIT;
	int rc;
	if (key && (rc = check_value(key, v, err)) == 0) {
		*config = jv_setpath(*config, path_of(path), v);
		return 0;
	}
	spar_str_addf(&block, "%s.", path);
	if (!key && !is_block(path))
		rc = unknown(path, err);
	else if (!key && jv_get_kind(v) != JV_KIND_OBJECT)
		rc = spar_fail(err, SPAR_INPUT, "%s: expected object, got %s", path, spar_kind_name(v));
	else if (!key)
		rc = put_members(config, block.data, v, err);
	spar_str_release(&block);
	jv_free(v);
	return rc;
}

/* The blocks that follow a key at the top unless they say otherwise. */
static int put_all(jv *config, jv given, struct spar_err *err)
{
	int rc = put_members(config, "", given, err);
	static const char *const inner = "swarm_v2.validation.max_support_edges";
	jv said = jv_getpath(jv_copy(given), path_of(inner));
	if (rc == 0 && jv_get_kind(said) != JV_KIND_NUMBER)
		*config = jv_setpath(*config, path_of(inner), get(*config, "max_support_edges"));
	jv_free(said);
	return rc;
}

/* "KEY=JSON", or "KEY=text" when it is no JSON. */
static int put_set(jv *config, const char *set, struct spar_err *err)
{
	size_t n = strcspn(set, "=");
	if (!set[n])
		return spar_fail(err, SPAR_USAGE, "--set: expected KEY=VALUE, got '%s'", set);
	char *path = spar_strdup(set);
	path[n] = 0;
	jv v = jv_parse(set + n + 1);
	if (!jv_is_valid(v)) {
		jv_free(v);
		v = jv_string(set + n + 1);
	}
	int rc = put(config, path, v, err);
	free(path);
	if (rc == 0)
		return 0;
	err->code = SPAR_USAGE;
	return spar_fail_at(err, "--set");
}

/* ---- what cannot both be meant ---- */

static int check_phase(jv config, const char *block, struct spar_err *err)
{
	struct spar_str s = SPAR_STR_INIT;
	double v[6];
	static const char *const names[] = {"per_device_train_batch_size",
					    "gradient_accumulation_steps",
					    "num_generations",
					    "dataloader_num_workers",
					    "temperature",
					    "learning_rate"};
	for (size_t i = 0; i < 6; i++) {
		spar_str_clear(&s);
		spar_str_addf(&s, "%s.%s", block, names[i]);
		v[i] = number(config, s.data);
	}
	spar_str_clear(&s);
	spar_str_addf(&s, "%s.dataloader_persistent_workers", block);
	jv persistent = get(config, s.data);
	bool persists = jv_get_kind(persistent) == JV_KIND_TRUE;
	jv_free(persistent);
	spar_str_release(&s);
	if (v[2] < 2)
		return spar_fail(err, SPAR_INPUT, "%s.num_generations: a group of %g has nothing to be compared with",
				 block, v[2]);
	if (fmod(v[0] * v[1], v[2]) != 0)
		return spar_fail(err, SPAR_INPUT,
				 "%s.num_generations: a step of %g completions (per_device_train_batch_size %g, "
				 "gradient_accumulation_steps %g) is no whole number of groups of %g",
				 block, v[0] * v[1], v[0], v[1], v[2]);
	if (persists && v[3] == 0)
		return spar_fail(err, SPAR_INPUT,
				 "%s.dataloader_persistent_workers: true, but dataloader_num_workers is 0", block);
	if (v[4] == 0)
		return spar_fail(err, SPAR_INPUT, "%s.temperature: greedy samples of a group are all equal", block);
	if (v[5] == 0)
		return spar_fail(err, SPAR_INPUT, "%s.learning_rate: nothing is learned at 0", block);
	return 0;
}

static int check_models(jv config, struct spar_err *err)
{
	jv a = get(config, "generator_phase.model_name_or_path"), b = get(config, "answerer_phase.model_name_or_path");
	bool same = jv_equal(a, b), shared = is_word(config, "model_topology", "shared");
	bool named = !is_word(config, "shared_model_name_or_path", "");
	if (named && !shared)
		return spar_fail(err, SPAR_INPUT, "shared_model_name_or_path: given, but model_topology is dual");
	if (shared && !named && !same)
		return spar_fail(err, SPAR_INPUT,
				 "shared_model_name_or_path: model_topology is shared, and the phases name two models");
	return 0;
}

static int check_subdirs(jv config, struct spar_err *err)
{
	jv a = get(config, "generator_phase.output_subdir"), b = get(config, "answerer_phase.output_subdir");
	int rc = 0;
	if (strchr(jv_string_value(a), '/') || strchr(jv_string_value(b), '/') || !*jv_string_value(a) ||
	    !*jv_string_value(b))
		rc = spar_fail(err, SPAR_INPUT, "output_subdir: expected the name of a folder in the round's folder");
	else if (!strcmp(jv_string_value(a), jv_string_value(b)))
		rc = spar_fail(err, SPAR_INPUT, "answerer_phase.output_subdir: generator_phase writes to '%s' too",
			       jv_string_value(b));
	jv_free(a);
	jv_free(b);
	return rc;
}

/* A path of the most hops must fit into every budget, else no task of that length could be valid. */
static int check_budgets(jv config, struct spar_err *err)
{
	static const char *const edges[] = {"swarm_v2.validation.max_support_edges",
					    "swarm_v2.validation.max_context_edges",
					    "swarm_v2.shared_context.max_edges"};
	static const char *const nodes[] = {"swarm_v2.validation.max_context_nodes",
					    "swarm_v2.shared_context.max_nodes"};
	double hops = number(config, "swarm_v2.validation.max_path_hops");
	for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
		if (number(config, edges[i]) < hops)
			return spar_fail(err, SPAR_INPUT, "%s: %g edges do not hold a path of max_path_hops %g",
					 edges[i], number(config, edges[i]), hops);
	for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
		if (number(config, nodes[i]) < hops + 1)
			return spar_fail(err, SPAR_INPUT, "%s: %g nodes do not hold a path of max_path_hops %g",
					 nodes[i], number(config, nodes[i]), hops);
	return 0;
}

static int check_together(jv config, struct spar_err *err)
{
	int rc = check_phase(config, "generator_phase", err);
	if (rc == 0)
		rc = check_phase(config, "answerer_phase", err);
	if (rc == 0)
		rc = check_models(config, err);
	if (rc == 0)
		rc = check_subdirs(config, err);
	if (rc == 0)
		rc = check_budgets(config, err);
	if (rc == 0 && number(config, "generated_tasks_per_round") > number(config, "generator_prompts_per_round"))
		rc = spar_fail(
		    err, SPAR_INPUT,
		    "generated_tasks_per_round: %g tasks do not come of generator_prompts_per_round %g prompts",
		    number(config, "generated_tasks_per_round"), number(config, "generator_prompts_per_round"));
	if (rc == 0 && number(config, "generator_reward_weights.validity") == 0)
		rc = spar_fail(err, SPAR_INPUT,
			       "generator_reward_weights.validity: at 0 an invalid task would be worth a valid one");
	return rc;
}

int spar_self_play_read(jv *out, const char *path, const struct spar_opt_list *sets, struct spar_err *err)
{
	jv given, config;
	int rc = spar_object_read(path, &given, err);
	if (rc < 0)
		return rc;
	config = defaults();
	rc = put_all(&config, given, err);
	jv_free(given);
	if (rc < 0)
		spar_fail_at(err, "%s", path);
	for (size_t i = 0; rc == 0 && i < sets->n; i++)
		rc = put_set(&config, sets->items[i], err);
	if (rc == 0 && (rc = check_together(config, err)) < 0)
		spar_fail_at(err, "%s", path);
	if (rc == 0)
		*out = config;
	else
		jv_free(config);
	return rc;
}

void spar_self_play_warn(jv config, void (*warn)(void *ctx, const char *text), void *ctx)
{
	struct spar_str text = SPAR_STR_INIT;
	for (size_t i = 0; i < N_KEYS; i++) {
		if (!keys[i].idle)
			continue;
		if (!jv_equal(get(config, keys[i].path), jv_parse(keys[i].fallback))) {
			spar_str_clear(&text);
			spar_str_addf(&text, "%s has no effect: %s", keys[i].path, keys[i].idle);
			warn(ctx, text.data);
		}
	}
	spar_str_release(&text);
}

static void add_value(const struct key *key, jv v, struct spar_str *out)
{
	if (key->kind == INT || key->kind == NUM)
		spar_str_add_double(out, jv_number_value(v));
	else if (key->kind == BOOL)
		spar_str_adds(out, jv_get_kind(v) == JV_KIND_TRUE ? "1" : "");
	else if (key->kind == NAME)
		spar_str_adds(out, jv_string_value(v));
	else
		jv_array_foreach(v, i, item)
		{
			spar_str_addf(out, "%s%s", i ? "+" : "", jv_string_value(item));
			jv_free(item);
		}
}

void spar_self_play_variables(jv config, struct spar_str *out)
{
	for (size_t i = 0; i < N_KEYS; i++) {
		if (keys[i].kind == STR || keys[i].idle)
			continue;
		for (const char *c = keys[i].path; *c; c++)
			spar_str_addc(out, *c == '.' ? '_' : toupper((unsigned char)*c));
		spar_str_adds(out, "='");
		jv v = get(config, keys[i].path);
		add_value(&keys[i], v, out);
		jv_free(v);
		spar_str_adds(out, "'\n");
	}
}
