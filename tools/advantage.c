/* spar advantage - compare each rollout's reward with those of its group. */
#include "base/opt.h"
#include "record/record.h"
#include "rl/advantage.h"
#include "rl/group.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const struct spar_usage usage = {
    "advantage", "[options] [FILE]",
    "Gather scored rollouts into their groups and add `advantage`, the reward relative to the group. A group is "
    "emitted, in "
    "order of sample, as soon as it is whole; with --scale-rewards=batch at the batch record that ends its batch."};

#define SCALE_BY_BASELINE -1

struct opts {
	int scale, baseline;
	double eps;
	bool population, drop;
};

struct counts {
	uint64_t groups, rollouts, zero_std, equal, single, unrewarded, dropped;
};

struct work {
	struct spar_filter f;
	struct opts opt;
	struct spar_groups groups;
	struct counts n;
};

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* The rewards of the open groups, sorted so that the sum does not depend on the order of lines. */
static double batch_std(const struct spar_groups *groups, bool population)
{
	double *reward = NULL;
	size_t n = 0;
	for (const struct spar_group *g = groups->first; g; g = g->next) {
		reward = spar_realloc(reward, (n + g->n) * sizeof *reward);
		for (size_t i = 0; i < g->n; i++)
			if (!isnan(g->members[i].reward))
				reward[n++] = g->members[i].reward;
	}
	if (n)
		qsort(reward, n, sizeof *reward, by_value);
	double std = spar_reward_std(reward, n, population);
	free(reward);
	return std;
}

/* The group's advantages, counted and written. The group is gone afterwards. */
static int emit(struct work *w, struct spar_group *group, double std_of_batch)
{
	double *adv = spar_malloc(group->n * sizeof *adv);
	uint64_t rewarded = 0;
	int rc = 0;
	for (size_t i = 0; i < group->n; i++) {
		adv[i] = group->members[i].reward;
		rewarded += !isnan(adv[i]);
	}
	bool equal = spar_advantage(adv, group->n, w->opt.scale, w->opt.baseline, std_of_batch, w->opt.population,
				    w->opt.eps, adv);
	w->n.groups++;
	w->n.rollouts += group->n;
	w->n.equal += equal;
	w->n.single += group->n == 1;
	w->n.unrewarded += !rewarded;
	if (w->opt.scale == SPAR_SCALE_BATCH ? std_of_batch == 0 : equal)
		w->n.zero_std += group->n;
	if (equal && w->opt.drop) {
		w->n.dropped++;
	} else {
		for (size_t i = 0; rc == 0 && i < group->n; i++) {
			spar_record_set_double(&group->members[i].rec, "advantage", adv[i]);
			rc = spar_filter_put(&w->f, &group->members[i].rec);
		}
	}
	free(adv);
	spar_groups_drop(&w->groups, group);
	return rc;
}

/* An incomplete group is refused whole: without its missing members its mean would be another. */
static int refuse(struct work *w, struct spar_group *group)
{
	struct spar_err why = w->f.err;
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < group->n; i++) {
		w->f.err = why;
		rc = spar_filter_reject(&w->f, &group->members[i].rec);
	}
	spar_groups_drop(&w->groups, group);
	return rc;
}

/* The end of a batch: what is open must be whole now. */
static int close_batch(struct work *w)
{
	struct spar_group *group, *next;
	int rc = 0;
	for (group = w->groups.first; rc == 0 && group; group = next) {
		next = group->next;
		if (spar_group_check(group, &w->f.err) < 0)
			rc = refuse(w, group);
	}
	double std = rc == 0 && w->opt.scale == SPAR_SCALE_BATCH ? batch_std(&w->groups, w->opt.population) : 0;
	while (rc == 0 && w->groups.first)
		rc = emit(w, w->groups.first, std);
	return rc;
}

static int take(struct work *w, struct spar_record *rec)
{
	struct spar_group *complete;
	int rc = 0;
	if (*rec->type && !spar_record_is(rec, "rollout")) {
		if (spar_record_is(rec, "batch"))
			rc = close_batch(w);
		return rc < 0 ? rc : spar_filter_put(&w->f, rec);
	}
	if (spar_groups_add(&w->groups, rec, &complete, &w->f.err) < 0)
		return spar_filter_reject(&w->f, rec);
	return complete && w->opt.scale != SPAR_SCALE_BATCH ? emit(w, complete, 0) : 0;
}

static void summary(const struct counts *n)
{
	fprintf(stderr, "advantage: %" PRIu64 " groups, %" PRIu64 " rollouts, frac_reward_zero_std %.4g", n->groups,
		n->rollouts, n->rollouts ? (double)n->zero_std / (double)n->rollouts : 0);
	fprintf(stderr, "; %" PRIu64 " groups with equal rewards", n->equal);
	if (n->single)
		fprintf(stderr, ", %" PRIu64 " of one rollout", n->single);
	if (n->unrewarded)
		fprintf(stderr, ", %" PRIu64 " without any reward", n->unrewarded);
	if (n->dropped)
		fprintf(stderr, ", %" PRIu64 " dropped", n->dropped);
	fputc('\n', stderr);
}

int main(int argc, char **argv)
{
	struct work w = {.f = SPAR_FILTER_INIT("advantage"), .opt = {.scale = SCALE_BY_BASELINE, .eps = 1e-4}};
	struct spar_record *rec;
	const struct spar_opt table[] = {
	    SPAR_OPT_CHOICE("scale-rewards", 's', &w.opt.scale, spar_scale_names, "MODE",
			    "divide by the std of the group, of the batch, or none (group; none with rloo)"),
	    SPAR_OPT_CHOICE("baseline", 'b', &w.opt.baseline, spar_baseline_names, "KIND",
			    "subtract the group's mean, or rloo: the mean of the others (mean)"),
	    SPAR_OPT_FLAG("population-std", 0, &w.opt.population, "std over n, not over n-1"),
	    SPAR_OPT_DOUBLE("std-epsilon", 0, &w.opt.eps, 0, 1, "X", "added to the std (0.0001)"),
	    SPAR_OPT_FLAG("drop-zero-variance", 0, &w.opt.drop, "do not emit groups whose rewards are all equal"),
	    SPAR_FILTER_OPTIONS(w.f),
	    SPAR_OPT_END};
	int rest = spar_opt_parse(&usage, table, argc, argv), rc;
	if (rest < 0)
		return -1 - rest;
	if (rest + 1 < argc)
		return spar_usage_error(&usage, "one input file at most, got '%s' too", argv[rest + 1]);
	if (w.opt.scale == SCALE_BY_BASELINE)
		w.opt.scale = w.opt.baseline == SPAR_BASELINE_RLOO ? SPAR_SCALE_NONE : SPAR_SCALE_GROUP;
	rc = spar_filter_open(&w.f, argv[rest]);
	while (rc >= 0 && (rc = spar_filter_next(&w.f, &rec)) > 0)
		rc = take(&w, rec);
	if (rc == 0)
		rc = close_batch(&w);
	spar_groups_release(&w.groups);
	rc = spar_filter_finish(&w.f, rc);
	if (rc == SPAR_OK && !w.f.quiet)
		summary(&w.n);
	return rc;
}
