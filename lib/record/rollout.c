/* rollout.c - see rollout.h */
#include "record/rollout.h"
#include "base/err.h"
#include "record/record.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const finish_names[] = {"stop", "length", "env", "error"};

const char *spar_finish_name(enum spar_finish f)
{
	return finish_names[f];
}

static int get_finish(jv turn, const char *path, enum spar_finish *out, struct spar_err *err)
{
	const char *name;
	size_t len;
	int rc = spar_get_str(turn, path, "finish_reason", &name, &len, err);
	if (rc < 0)
		return rc;
	for (int i = SPAR_FINISH_STOP; i <= SPAR_FINISH_ERROR; i++)
		if (!strcmp(name, finish_names[i])) {
			*out = (enum spar_finish)i;
			return 0;
		}
	return spar_fail(err, SPAR_INPUT, ".%s.finish_reason: expected stop, length, env or error", path);
}

static int same_length(const char *path, const char *key, size_t n, size_t n_ids, struct spar_err *err)
{
	if (n == n_ids)
		return 0;
	return spar_fail(err, SPAR_INPUT, ".%s.%s: %zu values for %zu completion_ids", path, key, n, n_ids);
}

/* A log-probability is at most 0; a kept mass is a probability that is not 0. */
static int check_range(const char *path, const char *key, const float *v, size_t n, float above, float most,
		       struct spar_err *err)
{
	for (size_t i = 0; i < n; i++)
		if (!(v[i] > above && v[i] <= most))
			return spar_fail(err, SPAR_INPUT, ".%s.%s[%zu]: %g is out of range", path, key, i,
					 (double)v[i]);
	return 0;
}

static int read_turn(struct spar_turn *t, jv turn, const char *path, struct spar_err *err)
{
	size_t n;
	int rc;
	if (jv_get_kind(turn) != JV_KIND_OBJECT)
		return spar_fail(err, SPAR_INPUT, ".%s: expected object, got %s", path, spar_kind_name(turn));
	if ((rc = spar_get_ids(turn, path, "prompt_ids", &t->prompt_ids, &t->n_prompt, err)) < 0 ||
	    (rc = spar_get_ids(turn, path, "completion_ids", &t->completion_ids, &t->n_completion, err)) < 0 ||
	    (rc = spar_get_floats(turn, path, "logprobs", &t->logprobs, &n, err)) < 0 ||
	    (rc = same_length(path, "logprobs", n, t->n_completion, err)) < 0 ||
	    (rc = check_range(path, "logprobs", t->logprobs, n, -HUGE_VALF, 0, err)) < 0)
		return rc;
	if (spar_has(turn, "kept_mass") &&
	    ((rc = spar_get_floats(turn, path, "kept_mass", &t->kept_mass, &n, err)) < 0 ||
	     (rc = same_length(path, "kept_mass", n, t->n_completion, err)) < 0 ||
	     (rc = check_range(path, "kept_mass", t->kept_mass, n, 0, 1, err)) < 0))
		return rc;
	return get_finish(turn, path, &t->finish, err);
}

static int read_turns(struct spar_rollout *r, jv object, struct spar_err *err)
{
	jv turns;
	int rc = spar_get_kind(object, "", "turns", JV_KIND_ARRAY, &turns, err);
	if (rc < 0)
		return rc;
	size_t n = (size_t)jv_array_length(jv_copy(turns));
	r->turns = spar_calloc(n ? n : 1, sizeof *r->turns);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		char path[32];
		snprintf(path, sizeof path, "turns[%zu]", i);
		jv turn = jv_array_get(jv_copy(turns), (int)i);
		r->n_turns++; /* counted first: release frees what a failure left */
		rc = read_turn(&r->turns[i], turn, path, err);
		jv_free(turn);
	}
	jv_free(turns);
	return rc;
}

/* Members of an object that may be absent. */
static int get_inner(jv object, const char *key, jv *out, struct spar_err *err)
{
	*out = jv_invalid();
	return spar_has(object, key) ? spar_get_kind(object, "", key, JV_KIND_OBJECT, out, err) : 0;
}

static int read_how(struct spar_rollout *r, jv object, struct spar_err *err)
{
	jv policy = jv_invalid(), sampling = jv_invalid();
	int rc = get_inner(object, "policy", &policy, err);
	if (rc == 0 && jv_is_valid(policy) && spar_has(policy, "version"))
		rc = spar_get_i64(policy, "policy", "version", &r->version, err);
	if (rc == 0 && (rc = get_inner(object, "sampling", &sampling, err)) == 0 && jv_is_valid(sampling) &&
	    spar_has(sampling, "temperature"))
		rc = spar_get_double(sampling, "sampling", "temperature", &r->temperature, err);
	jv_free(policy);
	jv_free(sampling);
	return rc;
}

static int get_optional(jv object, const char *key, bool *has, double *out, struct spar_err *err)
{
	*has = spar_has(object, key);
	return *has ? spar_get_double(object, "", key, out, err) : 0;
}

static int read_rewards(struct spar_rollout *r, jv object, struct spar_err *err)
{
	jv rewards;
	if (!spar_has(object, "rewards"))
		return 0;
	int rc = spar_get_kind(object, "", "rewards", JV_KIND_OBJECT, &rewards, err);
	if (rc < 0)
		return rc;
	jv names = jv_keys(jv_copy(rewards));
	size_t n = (size_t)jv_array_length(jv_copy(names));
	r->rewards = spar_calloc(n + 1, sizeof *r->rewards);
	for (; rc == 0 && r->n_rewards < n; r->n_rewards++) {
		struct spar_reward *one = &r->rewards[r->n_rewards];
		jv name = jv_array_get(jv_copy(names), (int)r->n_rewards);
		*one = (struct spar_reward){spar_strdup(jv_string_value(name)), NAN};
		if (spar_has(rewards, one->name))
			rc = spar_get_double(rewards, "rewards", one->name, &one->value, err);
		jv_free(name);
	}
	jv_free(names);
	jv_free(rewards);
	return rc;
}

int spar_rollout_read(struct spar_rollout *r, jv object, struct spar_err *err)
{
	*r = (struct spar_rollout){.version = -1, .temperature = 1};
	const char *group;
	size_t len;
	int rc;
	if ((rc = spar_get_str(object, "", "group", &group, &len, err)) < 0)
		goto fail;
	r->group = spar_strdup(group);
	if ((rc = spar_get_i64(object, "", "sample", &r->sample, err)) < 0 ||
	    (rc = spar_get_i64(object, "", "group_size", &r->group_size, err)) < 0 ||
	    (rc = read_how(r, object, err)) < 0 || (rc = read_rewards(r, object, err)) < 0 ||
	    (rc = get_optional(object, "reward", &r->has_reward, &r->reward, err)) < 0 ||
	    (rc = get_optional(object, "advantage", &r->has_advantage, &r->advantage, err)) < 0)
		goto fail;
	r->failed = spar_has(object, "error");
	/* The turns of a failed episode are for people to look at: they may be cut anywhere. */
	if (!r->failed && (rc = read_turns(r, object, err)) < 0)
		goto fail;
	return 0;
fail:
	spar_rollout_release(r);
	return rc;
}

void spar_turn_release(struct spar_turn *t)
{
	free(t->prompt_ids);
	free(t->completion_ids);
	free(t->logprobs);
	free(t->kept_mass);
	*t = (struct spar_turn){0};
}

void spar_rewards_free(struct spar_reward *r, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(r[i].name);
	free(r);
}

void spar_rollout_release(struct spar_rollout *r)
{
	spar_rewards_free(r->rewards, r->n_rewards);
	for (size_t i = 0; i < r->n_turns; i++)
		spar_turn_release(&r->turns[i]);
	free(r->turns);
	free(r->group);
	*r = (struct spar_rollout){.version = -1};
}
