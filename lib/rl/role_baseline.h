/* role_baseline.h - role-conditioned advantage estimation (SPIRAL, 2506.24119): each role of a self-play has a running mean
 * of its rewards, b <- decay b + (1 - decay) R, from 0, and an advantage is R - b after R has entered b. */
#ifndef SPAR_RL_ROLE_BASELINE_H
#define SPAR_RL_ROLE_BASELINE_H

#include "base/err.h"
#include <jv.h>

struct spar_role_baselines {
	double decay;
	jv by_role; /* object: role -> baseline */
};
void spar_role_baselines_init(struct spar_role_baselines *b, double decay);
void spar_role_baselines_release(struct spar_role_baselines *b);

/*! Go on from a file that save wrote; a file that is not there is an empty one. */
int spar_role_baselines_load(struct spar_role_baselines *b, const char *path, struct spar_err *err);
int spar_role_baselines_save(const struct spar_role_baselines *b, const char *path, struct spar_err *err);

/*! The record's `role`, or its task's, or "" if neither has one (borrowed from the record). SPAR_INPUT if it is no string. */
int spar_role_of(jv record, const char **role, struct spar_err *err);

/*! Take in a reward; returns the advantage. The order of calls matters. */
double spar_role_advantage(struct spar_role_baselines *b, const char *role, double reward);

#endif
