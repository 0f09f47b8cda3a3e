/* The search tree of <search.h> is in the XSI part of POSIX. */
#define _XOPEN_SOURCE 700
#include "rl/group.h"
#include "base/str.h"

#include <inttypes.h>
#include <math.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#define GROUP_SIZE_MAX 1000000
#define MISSING_SHOWN 16

/* What a record says about where it belongs. Strings are borrowed from it. */
struct place {
	const char *group, *hash;      /* hash NULL: not said */
	int64_t sample, size, version; /* -1: not said */
	double reward;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct spar_group *)a)->name, ((const struct spar_group *)b)->name);
}

static int read_policy(jv record, struct place *p, struct spar_err *err)
{
	jv policy;
	size_t len;
	if (!spar_has(record, "policy"))
		return 0;
	int rc = spar_get_kind(record, "", "policy", JV_KIND_OBJECT, &policy, err);
	if (rc < 0)
		return rc;
	if (spar_has(policy, "version"))
		rc = spar_get_i64(policy, "policy", "version", &p->version, err);
	if (rc == 0 && spar_has(policy, "hash"))
		rc = spar_get_str(policy, "policy", "hash", &p->hash, &len, err);
	jv_free(policy); /* the record holds it */
	return rc;
}

static int read_reward(jv record, double *out, struct spar_err *err)
{
	*out = NAN;
	if (spar_has(record, "error"))
		return 0;
	jv v = jv_object_get(jv_copy(record), jv_string("reward"));
	bool null = jv_get_kind(v) == JV_KIND_NULL;
	jv_free(v);
	return null ? 0 : spar_get_double(record, "", "reward", out, err);
}

static int read_place(jv record, bool unscored, struct place *p, struct spar_err *err)
{
	size_t len;
	*p = (struct place){.sample = -1, .size = -1, .version = -1, .reward = NAN};
	int rc = spar_get_str(record, "", "group", &p->group, &len, err);
	if (rc == 0 && spar_has(record, "sample"))
		rc = spar_get_i64(record, "", "sample", &p->sample, err);
	if (rc == 0 && spar_has(record, "group_size")) {
		rc = spar_get_i64(record, "", "group_size", &p->size, err);
		if (rc == 0 && (p->size < 1 || p->size > GROUP_SIZE_MAX))
			rc = spar_fail(err, SPAR_INPUT, ".group_size: expected 1 to %d, got %" PRId64, GROUP_SIZE_MAX,
				       p->size);
		if (rc == 0 && (p->sample < 0 || p->sample >= p->size))
			rc = spar_fail(err, SPAR_INPUT,
				       ".sample: expected 0 to %" PRId64 " (group_size - 1), got %" PRId64, p->size - 1,
				       p->sample);
	}
	if (rc == 0)
		rc = read_policy(record, p, err);
	return rc == 0 && !unscored ? read_reward(record, &p->reward, err) : rc;
}

/* Index of the first member whose sample is not below `sample`. */
static size_t position(const struct spar_group *group, int64_t sample)
{
	size_t low = 0, high = group->n;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (group->members[middle].sample < sample)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int check_place(const struct spar_group *group, const struct place *p, struct spar_err *err)
{
	size_t at = position(group, p->sample);
	if (p->size != group->size)
		return spar_fail(err, SPAR_INPUT, "group %s: group_size is %" PRId64 " here and %" PRId64 " before",
				 group->name, p->size, group->size);
	if (at < group->n && group->members[at].sample == p->sample)
		return spar_fail(err, SPAR_INPUT, "group %s: sample %" PRId64 " is there twice", group->name,
				 p->sample);
	if (p->version >= 0 && group->version >= 0 && p->version != group->version)
		return spar_fail(err, SPAR_INPUT,
				 "group %s: sample %" PRId64 " is from policy version %" PRId64
				 ", others from %" PRId64,
				 group->name, p->sample, p->version, group->version);
	if (p->hash && group->hash && strcmp(p->hash, group->hash) != 0)
		return spar_fail(err, SPAR_INPUT,
				 "group %s: sample %" PRId64 " is from other weights (policy hash %s, others %s)",
				 group->name, p->sample, p->hash, group->hash);
	return 0;
}

static struct spar_group *open_group(struct spar_groups *g, const struct place *p)
{
	struct spar_group *group = spar_calloc(1, sizeof *group);
	group->name = spar_strdup(p->group);
	group->size = p->size;
	group->version = -1;
	group->prev = g->last;
	*(g->last ? &g->last->next : &g->first) = group;
	g->last = group;
	if (!tsearch(group, &g->by_name, by_name))
		abort(); /* out of memory */
	return group;
}

int spar_groups_add(struct spar_groups *g, struct spar_record *rec, struct spar_group **complete, struct spar_err *err)
{
	struct place p;
	*complete = NULL;
	int rc = read_place(rec->value, g->unscored, &p, err);
	if (rc < 0)
		return rc;
	struct spar_group key = {.name = (char *)p.group};
	struct spar_group **found = tfind(&key, &g->by_name, by_name), *group = found ? *found : NULL;
	if (group && p.sample < 0)
		p.sample = group->members[group->n - 1].sample + 1;
	else if (p.sample < 0)
		p.sample = 0;
	if (group && (rc = check_place(group, &p, err)) < 0)
		return rc;
	if (!group)
		group = open_group(g, &p);
	if (group->version < 0)
		group->version = p.version;
	if (!group->hash && p.hash)
		group->hash = spar_strdup(p.hash);
	size_t at = position(group, p.sample);
	group->members = spar_realloc(group->members, (group->n + 1) * sizeof *group->members);
	memmove(group->members + at + 1, group->members + at, (group->n - at) * sizeof *group->members);
	group->members[at] = (struct spar_member){.rec = *rec, .sample = p.sample, .reward = p.reward};
	group->n++;
	spar_record_init(rec);
	if (group->size > 0 && group->n == (size_t)group->size)
		*complete = group;
	return 0;
}

int spar_group_check(const struct spar_group *group, struct spar_err *err)
{
	struct spar_str missing = SPAR_STR_INIT;
	size_t at = 0, n = 0;
	for (int64_t sample = 0; sample < group->size; sample++) {
		if (at < group->n && group->members[at].sample == sample)
			at++;
		else if (n++ < MISSING_SHOWN)
			spar_str_addf(&missing, "%s%" PRId64, n > 1 ? ", " : "", sample);
	}
	int rc = !n ? 0
		    : spar_fail(err, SPAR_INPUT, "group %s: %zu of %" PRId64 " samples missing: %s%s", group->name, n,
				group->size, missing.data, n > MISSING_SHOWN ? ", ..." : "");
	spar_str_release(&missing);
	return rc;
}

void spar_groups_drop(struct spar_groups *g, struct spar_group *group)
{
	tdelete(group, &g->by_name, by_name);
	*(group->prev ? &group->prev->next : &g->first) = group->next;
	*(group->next ? &group->next->prev : &g->last) = group->prev;
	for (size_t i = 0; i < group->n; i++)
		spar_record_release(&group->members[i].rec);
	free(group->members);
	free(group->hash);
	free(group->name);
	free(group);
}

void spar_groups_release(struct spar_groups *g)
{
	while (g->first)
		spar_groups_drop(g, g->first);
}
