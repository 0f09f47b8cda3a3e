/* client.h - an environment program as a co-process (protocol: spar-env(7)). Many sessions, one or more processes.
 *
 *	spar_env_open(&env, "spar env-cern", 60.0, &err);        // starts it, sends describe
 *	spar_env_send(env, request, "task cern-4242", &err);      // queue one request
 *	spar_env_recv(env, &reply, true, &err);                   // replies come in the order of the requests
 *	spar_env_close(env);
 * Requests are written and replies read with poll, so neither side can block the other. SIGPIPE is not raised, and
 * what the process does about it is left alone. A reply must repeat what it has of its request's id, op and session.
 */
#ifndef SPAR_ENV_CLIENT_H
#define SPAR_ENV_CLIENT_H

#include "base/err.h"
#include <jv.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spar_env; /* opaque */

/*! Run `command` through sh -c, in a process group of its own, and describe it. timeout_s is the limit for each wait
 *  for a reply. PATH gets the running tool's bin folder in front, so "spar env-cern" is found. SPAR_FAIL and *out
 *  NULL if it does not start or does not speak the protocol. */
int spar_env_open(struct spar_env **out, const char *command, double timeout_s, struct spar_err *err);

/*! The describe reply (borrowed). */
jv spar_env_about(const struct spar_env *env);

/*! Queue a request (a JSON object, consumed; an `id` is put in); `what` names the record in errors and is copied.
 *  SPAR_FAIL if the environment wrote a line that nobody asked for, or failed before. */
int spar_env_send(struct spar_env *env, jv request, const char *what, struct spar_err *err);

/*! 1: *reply is the oldest outstanding request's answer (caller jv_free's), its `error` checked to be null and its
 *  fields' kinds checked; 0: none yet (only with wait false, or nothing outstanding); < 0: the env broke the
 *  protocol, died or timed out - the message names the environment, the line or the exit status, and the record.
 *  SPAR_INPUT if the reply is an `error` (the request was refused; the environment goes on), SPAR_FAIL if it is of no
 *  more use. */
int spar_env_recv(struct spar_env *env, jv *reply, bool wait, struct spar_err *err);

/*! Number of requests not answered yet. */
size_t spar_env_outstanding(const struct spar_env *env);

/*! Close its stdin, wait 2 s, SIGTERM, wait 2 s, SIGKILL. NULL is fine. */
void spar_env_close(struct spar_env *env);

#endif
