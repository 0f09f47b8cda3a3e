/* spar advantage - compare each rollout's reward with those of its group. */
#include "base/opt.h"
#include "record/record.h"
#include "rl/judge.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static const struct spar_usage usage = {
    "advantage", "[options] [FILE]",
    "Gather scored rollouts into their groups and add `advantage`, the reward relative to what was to be expected. A "
    "group is emitted, in order of sample, as soon as it is whole; where the rest of the batch counts too, at the "
    "batch "
    "record that ends it."};

struct counts {
	uint64_t groups, rollouts, zero_std, equal, single, unrewarded, dropped;
};

struct work {
	struct spar_filter f;
	struct spar_judge_opt opt;
	bool drop;
	struct spar_judge judge;
	struct spar_groups groups;
	struct counts n;
};

/* The group's advantages, counted and written. The group is gone afterwards. */
static int emit(struct work *w, struct spar_group *group, bool zero_std)
{
	uint64_t rewarded = 0;
	int rc = 0;
	for (size_t i = 0; i < group->n; i++)
		rewarded += !isnan(group->members[i].reward);
	w->n.groups++;
	w->n.rollouts += group->n;
	w->n.equal += group->equal;
	w->n.single += group->n == 1;
	w->n.unrewarded += !rewarded;
	w->n.zero_std += zero_std ? group->n : 0;
	w->n.dropped += group->equal && w->drop;
	for (size_t i = 0; rc == 0 && i < group->n && !(group->equal && w->drop); i++) {
		spar_record_set_double(&group->members[i].rec, "advantage", group->members[i].advantage);
		rc = spar_filter_put(&w->f, &group->members[i].rec);
	}
	spar_groups_drop(&w->groups, group);
	return rc;
}

/* Why is in the error. A group is refused whole: without some of its members its mean would be another. */
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
	double std = -1;
	int rc = 0;
	for (group = w->groups.first; rc == 0 && group; group = next) {
		next = group->next;
		if (spar_group_check(group, &w->f.err) < 0 || spar_judge_group(&w->judge, group, &w->f.err) < 0)
			rc = refuse(w, group);
	}
	if (rc == 0 && spar_judge_waits(&w->judge))
		rc = spar_judge_batch(&w->judge, &w->groups, &std, &w->f.err);
	while (rc == 0 && w->groups.first)
		rc = emit(w, w->groups.first, std < 0 ? w->groups.first->equal : std == 0);
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
	if (spar_judge_check(&w->judge, rec->value, &w->f.err) < 0 ||
	    spar_groups_add(&w->groups, rec, &complete, &w->f.err) < 0)
		return spar_filter_reject(&w->f, rec);
	if (!complete || spar_judge_waits(&w->judge))
		return 0;
	if (spar_judge_group(&w->judge, complete, &w->f.err) < 0)
		return refuse(w, complete);
	return emit(w, complete, complete->equal);
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
	struct work w = {.f = SPAR_FILTER_INIT("advantage"), .opt = {.scale = -1, .epsilon = -1, .decay = 0.95}};
	struct spar_judge_opt *o = &w.opt;
	struct spar_record *rec;
	const struct spar_opt table[] = {
	    SPAR_OPT_CHOICE("estimator", 'e', &o->estimator, spar_estimator_names, "KIND",
			    "what a reward is compared with (grpo)"),
	    SPAR_OPT_CHOICE("scale-rewards", 's', &o->scale, spar_scale_names, "MODE",
			    "divide by the std of the group, of the batch, or not (group; none with rloo)"),
	    SPAR_OPT_CHOICE("convention", 'c', &o->convention, spar_convention_names, "SYSTEM",
			    "whose epsilon and group of one (trl)"),
	    SPAR_OPT_FLAG("population-std", 0, &o->population, "std over n, not over n-1"),
	    SPAR_OPT_DOUBLE("std-epsilon", 0, &o->epsilon, 0, 1, "X", "added to the std (trl 0.0001, verl 0.000001)"),
	    SPAR_OPT_CHOICE("multi-objective-aggregation", 0, &o->aggregation, spar_aggregation_names, "ORDER",
			    "of several rewards (sum_then_normalize)"),
	    SPAR_OPT_STR("reward-weights", 0, &o->weights, "LIST",
			 "NAME=X,...: take these of `rewards` (`reward`, or all alike)"),
	    SPAR_OPT_DOUBLE("decay", 0, &o->decay, 0, 1, "X", "rae: of the running mean of a role (0.95)"),
	    SPAR_OPT_STR("state", 0, &o->state, "FILE", "rae: keep the running means here from run to run"),
	    SPAR_OPT_FLAG("drop-zero-variance", 0, &w.drop, "do not emit groups whose rewards are all equal"),
	    SPAR_FILTER_OPTIONS(w.f),
	    SPAR_OPT_END};
	int rest = spar_opt_parse(&usage, table, argc, argv), rc;
	if (rest < 0)
		return -1 - rest;
	if (rest + 1 < argc)
		return spar_usage_error(&usage, "one input file at most, got '%s' too", argv[rest + 1]);
	rc = spar_judge_init(&w.judge, o, &w.f.err);
	if (rc == 0)
		rc = spar_filter_open(&w.f, argv[rest]);
	while (rc >= 0 && (rc = spar_filter_next(&w.f, &rec)) > 0)
		rc = take(&w, rec);
	if (rc == 0)
		rc = close_batch(&w);
	spar_groups_release(&w.groups);
	spar_judge_release(&w.judge);
	rc = spar_filter_finish(&w.f, rc);
	if (rc == SPAR_OK && !w.f.quiet)
		summary(&w.n);
	return rc;
}
