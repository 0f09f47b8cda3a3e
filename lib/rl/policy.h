/* policy.h - the policy directory: the only edge of the dataflow that is not a pipe.
 *
 *	P/v000012/           a model folder (checkpoint or adapter), whole: the policy after 12 steps
 *	P/v000012/trainer/   trainer state (only on versions that can be resumed from)
 *	P/latest -> v000012  renamed into place after v000012 is synced
 *	P/lock               held (fcntl) by the running update
 *	P/session.json       {"pid":..., "step":..., "ended":...} written by update after it has settled where it starts from
 *
 * update: spar_policy_claim (takes the lock; versions that are newer than the newest resumable one or unfinished are
 * removed), spar_policy_ready, spar_policy_begin and _publish per step, spar_policy_end, and spar_policy_close when its
 * input has ended. rollout: spar_policy_attach (waits for a claimed session and gives the step to start from), then
 * spar_policy_wait(version). The lock tells it when its update has died, the session when no more versions will come:
 * update holds the lock until its input has ended, that is, until rollout has seen it.
 */
#ifndef SPAR_RL_POLICY_H
#define SPAR_RL_POLICY_H

#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

struct spar_policy; /* opaque */

/*! Trainer's side. *step: the version that `latest` names after settling, or -1 if the folder is new (publish version 0
 *  then, and call spar_policy_ready). SPAR_FAIL if another process holds the lock (names its pid). */
int spar_policy_claim(struct spar_policy **out, const char *dir, int64_t *step, struct spar_err *err);

/*! Say that sampling may begin at `step`: writes session.json. */
int spar_policy_ready(struct spar_policy *p, int64_t step, struct spar_err *err);

/*! A fresh folder to write version `step` into; the caller frees the string. */
char *spar_policy_begin(struct spar_policy *p, int64_t step, struct spar_err *err);

/*! Say that no version after the latest will come. */
int spar_policy_end(struct spar_policy *p, struct spar_err *err);

/*! Rename it to vNNNNNN, move `latest`; remove older versions that nobody needs (keeps the newest `keep` and those that
 *  are multiples of `keep_every` (0: none)), never the newest resumable one. `tmp` is consumed, also on failure. */
int spar_policy_publish(struct spar_policy *p, char *tmp, int64_t step, int64_t keep, int64_t keep_every,
			struct spar_err *err);

/*! Sampler's side: wait up to timeout_s for a session; *step = the step it starts at. */
int spar_policy_attach(struct spar_policy **out, const char *dir, double timeout_s, int64_t *step,
		       struct spar_err *err);

/*! Wait until version >= `step` is published: *version and *path (caller frees) of the latest. Returns 1; 0 if update ended
 *  properly before reaching it; < 0: timed out, or update died. */
int spar_policy_wait(struct spar_policy *p, int64_t step, double timeout_s, int64_t *version, char **path,
		     struct spar_err *err);

/*! Path of the latest version of a policy directory, or `dir` itself if it is a plain model folder; caller frees. */
char *spar_policy_resolve(const char *dir, int64_t *version, struct spar_err *err);

/*! The folder with the tokenizer and template of `dir`: of a policy its latest version, of an adapter its base; caller frees.
 *  NULL on failure. */
int spar_policy_text_dir(char **out, const char *dir, struct spar_err *err);

void spar_policy_close(struct spar_policy *p); /* a trainer's: releases the lock. NULL is fine */

#endif
