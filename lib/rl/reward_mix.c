#include "rl/reward_mix.h"
#include "base/opt.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WEIGHT_MAX 1e9

void spar_reward_mix_release(struct spar_reward_mix *m)
{
	for (size_t i = 0; i < m->n; i++)
		free(m->names[i]);
	free(m->names);
	free(m->weights);
	*m = (struct spar_reward_mix){0};
}

static void add(struct spar_reward_mix *m, const char *name, double weight)
{
	m->names = spar_realloc(m->names, (m->n + 1) * sizeof *m->names);
	m->weights = spar_realloc(m->weights, (m->n + 1) * sizeof *m->weights);
	m->names[m->n] = spar_strdup(name);
	m->weights[m->n++] = weight;
}

int spar_reward_mix_parse(struct spar_reward_mix *m, const char *text, struct spar_err *err)
{
	char *copy = spar_strdup(text), *rest = copy, *item;
	int rc = 0;
	while (rc == 0 && (item = rest)) {
		double weight = 0;
		char *equals, *comma = strchr(item, ',');
		rest = comma ? comma + 1 : NULL;
		if (comma)
			*comma = 0;
		equals = strrchr(item, '=');
		if (equals)
			*equals = 0;
		if (!equals || equals == item || spar_parse_double(equals + 1, -WEIGHT_MAX, WEIGHT_MAX, &weight) < 0)
			rc = spar_fail(err, SPAR_USAGE, "--reward-weights: expected NAME=WEIGHT,..., got '%s'", text);
		else
			add(m, item, weight);
	}
	free(copy);
	if (rc < 0)
		spar_reward_mix_release(m);
	return rc;
}

int spar_reward_mix_check(const struct spar_reward_mix *m, jv record, struct spar_err *err)
{
	jv rewards;
	if (spar_has(record, "error"))
		return 0;
	int rc = spar_get_kind(record, "", "rewards", JV_KIND_OBJECT, &rewards, err);
	if (rc < 0)
		return rc;
	jv_object_foreach(rewards, name, value)
	{
		double unused;
		if (rc == 0 && jv_get_kind(value) != JV_KIND_NULL)
			rc = spar_get_double(rewards, "rewards", jv_string_value(name), &unused, err);
		jv_free(name);
		jv_free(value);
	}
	for (size_t i = 0; rc == 0 && i < m->n; i++)
		if (!jv_object_has(jv_copy(rewards), jv_string(m->names[i])))
			rc = spar_fail(err, SPAR_INPUT, ".rewards.%s: missing, but --reward-weights names it",
				       m->names[i]);
	jv_free(rewards);
	return rc;
}

/* A NEW reference; empty if the episode failed. */
static jv rewards_of(const struct spar_member *member)
{
	if (spar_has(member->rec.value, "error"))
		return jv_object();
	return jv_object_get(jv_copy(member->rec.value), jv_string("rewards"));
}

/* The reward of this name; NaN if it is null or not there. */
static double reward_of(const struct spar_member *member, const char *name)
{
	jv v = jv_object_get(rewards_of(member), jv_string(name));
	double reward = jv_get_kind(v) == JV_KIND_NUMBER ? jv_number_value(v) : NAN;
	jv_free(v);
	return reward;
}

/* The names of a group's rewards in order, each with weight 1. */
static struct spar_reward_mix all_names(const struct spar_group *group)
{
	struct spar_reward_mix m = {0};
	jv all = jv_object();
	for (size_t i = 0; i < group->n; i++)
		all = jv_object_merge(all, rewards_of(&group->members[i]));
	jv names = jv_keys(all);
	jv_array_foreach(names, i, name)
	{
		add(&m, jv_string_value(name), 1);
		jv_free(name);
	}
	jv_free(names);
	return m;
}

void spar_reward_mix_sum(const struct spar_reward_mix *m, struct spar_group *group)
{
	struct spar_reward_mix own = {0};
	if (!m->n) {
		own = all_names(group);
		m = &own;
	}
	for (size_t i = 0; i < group->n; i++) {
		double sum = 0;
		size_t n = 0;
		for (size_t k = 0; k < m->n; k++) {
			double reward = reward_of(&group->members[i], m->names[k]);
			if (!isnan(reward)) {
				sum += m->weights[k] * reward;
				n++;
			}
		}
		group->members[i].reward = n ? sum : NAN;
	}
	spar_reward_mix_release(&own);
}

bool spar_reward_mix_advantage(const struct spar_reward_mix *m, const struct spar_advantage_rules *r,
			       const struct spar_group *group, double *adv)
{
	struct spar_reward_mix own = {0};
	if (!m->n) {
		own = all_names(group);
		m = &own;
	}
	double *column = spar_malloc((group->n + 1) * sizeof *column);
	bool equal = true;
	for (size_t i = 0; i < group->n; i++)
		adv[i] = 0;
	for (size_t k = 0; k < m->n; k++) {
		for (size_t i = 0; i < group->n; i++)
			column[i] = reward_of(&group->members[i], m->names[k]);
		equal &= spar_advantage_group(r, column, group->n, column);
		for (size_t i = 0; i < group->n; i++)
			adv[i] += m->weights[k] * column[i];
	}
	free(column);
	spar_reward_mix_release(&own);
	return equal;
}
