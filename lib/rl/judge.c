#include "rl/judge.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const spar_aggregation_names[] = {"sum_then_normalize", "normalize_then_sum", NULL};

/* ---- options ---- */

static int check_options(const struct spar_judge_opt *o, struct spar_err *err)
{
	bool gdpo = o->aggregation == SPAR_NORMALIZE_THEN_SUM;
	if (o->scale >= 0 && o->estimator > SPAR_EST_LEAVE_ONE_OUT)
		return spar_fail(err, SPAR_USAGE, "--scale-rewards has no part in --estimator=%s",
				 spar_estimator_names[o->estimator]);
	if (gdpo && (o->scale >= 0 || o->estimator != SPAR_EST_GRPO))
		return spar_fail(err, SPAR_USAGE, "normalize_then_sum goes without --estimator and --scale-rewards");
	if (o->state && o->estimator != SPAR_EST_RAE)
		return spar_fail(err, SPAR_USAGE, "--state is for --estimator=rae");
	return 0;
}

int spar_judge_init(struct spar_judge *j, const struct spar_judge_opt *o, struct spar_err *err)
{
	*j = (struct spar_judge){.state = o->state};
	spar_advantage_rules_init(&j->rules, (enum spar_estimator)o->estimator, (enum spar_convention)o->convention);
	spar_role_baselines_init(&j->roles, o->decay);
	j->rules.population = o->population;
	j->rules.whiten_batch = o->aggregation == SPAR_NORMALIZE_THEN_SUM;
	j->mixes = o->weights || j->rules.whiten_batch;
	if (o->scale >= 0)
		j->rules.scale = o->scale;
	if (o->epsilon >= 0)
		j->rules.epsilon = o->epsilon;
	int rc = check_options(o, err);
	if (rc == 0 && o->weights)
		rc = spar_reward_mix_parse(&j->mix, o->weights, err);
	if (rc == 0 && o->state)
		rc = spar_role_baselines_load(&j->roles, o->state, err);
	return rc;
}

void spar_judge_release(struct spar_judge *j)
{
	spar_reward_mix_release(&j->mix);
	spar_role_baselines_release(&j->roles);
}

/* ---- a group ---- */

static bool by_role(const struct spar_judge *j)
{
	return j->rules.estimator == SPAR_EST_RAE;
}

int spar_judge_check(const struct spar_judge *j, jv record, struct spar_err *err)
{
	const char *role;
	int rc = j->mixes ? spar_reward_mix_check(&j->mix, record, err) : 0;
	return rc == 0 && by_role(j) ? spar_role_of(record, &role, err) : rc;
}

/* A share of the mean makes sense for rewards that are not negative. */
static int check_signs(const struct spar_group *group, struct spar_err *err)
{
	for (size_t i = 0; i < group->n; i++)
		if (group->members[i].reward < 0)
			return spar_fail(err, SPAR_INPUT, "group %s: max_rl takes no negative reward, such as %.9g",
					 group->name, group->members[i].reward);
	return 0;
}

int spar_judge_group(const struct spar_judge *j, struct spar_group *group, struct spar_err *err)
{
	if (j->mixes)
		spar_reward_mix_sum(&j->mix, group);
	if (j->rules.estimator == SPAR_EST_MAX_RL && check_signs(group, err) < 0)
		return -(int)SPAR_INPUT;
	double *v = spar_malloc((group->n + 1) * sizeof *v);
	for (size_t i = 0; i < group->n; i++)
		v[i] = group->members[i].reward;
	group->equal = j->rules.whiten_batch ? spar_reward_mix_advantage(&j->mix, &j->rules, group, v)
					     : spar_advantage_group(&j->rules, v, group->n, v);
	for (size_t i = 0; i < group->n; i++)
		group->members[i].advantage = v[i];
	free(v);
	return 0;
}

/* ---- a batch ---- */

bool spar_judge_waits(const struct spar_judge *j)
{
	return by_role(j) || spar_advantage_spans_batch(&j->rules);
}

/* Completion tokens of an episode; 1 for a record that has no turns. */
static double count_tokens(const struct spar_record *rec)
{
	jv turns = jv_object_get(jv_copy(rec->value), jv_string("turns"));
	bool there = jv_get_kind(turns) == JV_KIND_ARRAY;
	double n = there ? 0 : 1;
	if (!there) {
		jv_free(turns);
		return n;
	}
	jv_array_foreach(turns, i, turn)
	{
		jv ids = jv_get(turn, jv_string("completion_ids"));
		n += jv_get_kind(ids) == JV_KIND_ARRAY ? jv_array_length(jv_copy(ids)) : 0;
		jv_free(ids);
	}
	jv_free(turns);
	return n;
}

static double judge_together(const struct spar_judge *j, struct spar_groups *groups)
{
	struct spar_advantage_member *all = NULL;
	size_t n = 0;
	for (struct spar_group *g = groups->first; g; g = g->next) {
		all = spar_realloc(all, (n + g->n) * sizeof *all);
		for (size_t i = 0; i < g->n; i++) {
			struct spar_member *m = &g->members[i];
			all[n++] = (struct spar_advantage_member){m->reward, count_tokens(&m->rec), &m->advantage};
		}
	}
	double std = n ? spar_advantage_batch(&j->rules, all, n) : 0;
	free(all);
	return std;
}

static int by_name(const void *a, const void *b)
{
	return strcmp((*(struct spar_group *const *)a)->name, (*(struct spar_group *const *)b)->name);
}

/* In order of group and sample. */
static int judge_by_role(struct spar_judge *j, struct spar_groups *groups, struct spar_err *err)
{
	struct spar_group **sorted = NULL;
	const char *role;
	size_t n = 0;
	int rc = 0;
	for (struct spar_group *g = groups->first; g; g = g->next) {
		sorted = spar_realloc(sorted, (n + 1) * sizeof *sorted);
		sorted[n++] = g;
	}
	if (n)
		qsort(sorted, n, sizeof *sorted, by_name);
	for (size_t k = 0; k < n; k++)
		for (size_t i = 0; rc == 0 && i < sorted[k]->n; i++) {
			struct spar_member *m = &sorted[k]->members[i];
			rc = spar_role_of(m->rec.value, &role, err);
			if (rc == 0 && !isnan(m->reward))
				m->advantage = spar_role_advantage(&j->roles, role, m->reward);
		}
	free(sorted);
	return rc == 0 && j->state ? spar_role_baselines_save(&j->roles, j->state, err) : rc;
}

int spar_judge_batch(struct spar_judge *j, struct spar_groups *groups, double *std, struct spar_err *err)
{
	*std = -1;
	if (by_role(j))
		return judge_by_role(j, groups, err);
	*std = judge_together(j, groups);
	return 0;
}
