/* group.h - rollouts gathered into the groups they were sampled in.
 *
 *	struct spar_groups groups = {0};
 *	spar_groups_add(&groups, rec, &group, &err);    // takes the record's content; group: the one it completed, or NULL
 *	... use group->members[0..n), in order of sample ...
 *	spar_groups_drop(&groups, group);               // also releases the records
 *	for (group = groups.first; group; group = group->next) ...      // the open ones, oldest first
 *	spar_groups_release(&groups);
 *
 * Memory: the open groups only. A group is complete when all of its `group_size` samples are there; records without
 * `group_size` make a group that stays open until the caller closes it, numbered by arrival if they have no `sample`. */
#ifndef SPAR_RL_GROUP_H
#define SPAR_RL_GROUP_H

#include "base/err.h"
#include "record/record.h"
#include <stdint.h>

struct spar_member {
	struct spar_record rec;
	int64_t sample;
	double reward;    /* NaN: none (null, or the episode failed) */
	double advantage; /* the caller's to fill, as is group.equal */
};

struct spar_group {
	struct spar_group *next, *prev;
	char *name;
	int64_t size;                /* -1: not said */
	int64_t version;             /* of the policy; -1: not said */
	char *hash;                  /* of its weights; NULL: not said */
	struct spar_member *members; /* sorted by sample */
	size_t n;
	bool equal; /* rewards that teach nothing by comparison */
};

struct spar_groups {
	struct spar_group *first, *last;
	void *by_name; /* search tree */
	bool unscored; /* rewards are not looked at: they need not be there */
};

/*! Move the record into its group; `rec` is empty afterwards. SPAR_INPUT, with `rec` untouched, if a field is missing or the
 *  group has this sample already or came from another version of the policy; the message names the group. */
int spar_groups_add(struct spar_groups *g, struct spar_record *rec, struct spar_group **complete, struct spar_err *err);

/*! 0 if the group has all its samples; else SPAR_INPUT: the message lists the missing ones. */
int spar_group_check(const struct spar_group *group, struct spar_err *err);

void spar_groups_drop(struct spar_groups *g, struct spar_group *group);
void spar_groups_release(struct spar_groups *g);

#endif
