/* self_play_check.c - what values may be, alone and together, see self_play_keys.h */
#include "rl/self_play_keys.h"
#include "base/str.h"
#include "record/record.h"

#include <math.h>
#include <string.h>

/* ---- paths ---- */

jv spar_play_path(const char *path)
{
	return jv_string_split(jv_string(path), jv_string("."));
}

jv spar_play_get(jv config, const char *path)
{
	return jv_getpath(jv_copy(config), spar_play_path(path));
}

double spar_play_number(jv config, const char *path)
{
	jv v = spar_play_get(config, path);
	double d = jv_number_value(v);
	jv_free(v);
	return d;
}

bool spar_play_is_word(jv config, const char *path, const char *word)
{
	jv v = spar_play_get(config, path);
	bool same = !strcmp(jv_string_value(v), word);
	jv_free(v);
	return same;
}

/* ---- one value ---- */

static int check_number(const struct spar_play_key *key, jv v, struct spar_err *err)
{
	double d = jv_number_value(v);
	if (key->kind == SPAR_PLAY_INT && d != floor(d))
		return spar_fail(err, SPAR_INPUT, "%s: expected a whole number, got %.17g", key->path, d);
	if (!(d >= key->min && d <= key->max))
		return spar_fail(err, SPAR_INPUT, "%s: %.17g is not within %.17g and %.17g", key->path, d, key->min,
				 key->max);
	return 0;
}

static int check_name(const struct spar_play_key *key, jv v, struct spar_err *err)
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

static int check_list(const struct spar_play_key *key, jv v, struct spar_err *err)
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

int spar_play_check_value(const struct spar_play_key *key, jv v, struct spar_err *err)
{
	static const jv_kind wanted[] = {JV_KIND_NUMBER, JV_KIND_NUMBER, JV_KIND_TRUE,
					 JV_KIND_STRING, JV_KIND_STRING, JV_KIND_ARRAY};
	static const char *const names[] = {"number", "number", "boolean", "string", "string", "array"};
	jv_kind kind = jv_get_kind(v) == JV_KIND_FALSE ? JV_KIND_TRUE : jv_get_kind(v);
	if (kind != wanted[key->kind])
		return spar_fail(err, SPAR_INPUT, "%s: expected %s, got %s", key->path, names[key->kind],
				 spar_kind_name(v));
	switch (key->kind) {
	case SPAR_PLAY_INT:
	case SPAR_PLAY_NUM:
		return check_number(key, v, err);
	case SPAR_PLAY_NAME:
		return check_name(key, v, err);
	case SPAR_PLAY_LIST:
		return check_list(key, v, err);
	default:
		return 0;
	}
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
		v[i] = spar_play_number(config, s.data);
	}
	spar_str_clear(&s);
	spar_str_addf(&s, "%s.dataloader_persistent_workers", block);
	jv persistent = spar_play_get(config, s.data);
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
	jv a = spar_play_get(config, "generator_phase.model_name_or_path"),
	   b = spar_play_get(config, "answerer_phase.model_name_or_path");
	bool same = jv_equal(a, b), shared = spar_play_is_word(config, "model_topology", "shared");
	bool named = !spar_play_is_word(config, "shared_model_name_or_path", "");
	if (named && !shared)
		return spar_fail(err, SPAR_INPUT, "shared_model_name_or_path: given, but model_topology is dual");
	if (shared && !named && !same)
		return spar_fail(err, SPAR_INPUT,
				 "shared_model_name_or_path: model_topology is shared, and the phases name two models");
	return 0;
}

static int check_subdirs(jv config, struct spar_err *err)
{
	jv a = spar_play_get(config, "generator_phase.output_subdir"),
	   b = spar_play_get(config, "answerer_phase.output_subdir");
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
	double hops = spar_play_number(config, "swarm_v2.validation.max_path_hops");
	for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
		if (spar_play_number(config, edges[i]) < hops)
			return spar_fail(err, SPAR_INPUT, "%s: %g edges do not hold a path of max_path_hops %g",
					 edges[i], spar_play_number(config, edges[i]), hops);
	for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
		if (spar_play_number(config, nodes[i]) < hops + 1)
			return spar_fail(err, SPAR_INPUT, "%s: %g nodes do not hold a path of max_path_hops %g",
					 nodes[i], spar_play_number(config, nodes[i]), hops);
	return 0;
}

int spar_play_check(jv config, struct spar_err *err)
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
	if (rc == 0 && spar_play_number(config, "generated_tasks_per_round") >
			   spar_play_number(config, "generator_prompts_per_round"))
		rc = spar_fail(
		    err, SPAR_INPUT,
		    "generated_tasks_per_round: %g tasks do not come of generator_prompts_per_round %g prompts",
		    spar_play_number(config, "generated_tasks_per_round"),
		    spar_play_number(config, "generator_prompts_per_round"));
	if (rc == 0 && spar_play_number(config, "generator_reward_weights.validity") == 0)
		rc = spar_fail(err, SPAR_INPUT,
			       "generator_reward_weights.validity: at 0 an invalid task would be worth a valid one");
	return rc;
}
