/* sampler.h - many episodes at once: a model (or a built-in policy of the environment) plays, turn by turn.
 *
 *	struct spar_sampler_opt opt = SPAR_SAMPLER_DEFAULTS;
 *	spar_sampler_new(&s, &opt, &err);
 *	for (;;) {
 *		while (there are tasks && !spar_sampler_full(s))
 *			spar_sampler_add(s, &task, sample, &err);       // task: borrowed until its play is taken
 *		rc = spar_sampler_step(s, &err);                         // one token for every sequence
 *		while ((play = spar_sampler_take(s)))                    // whole episodes, in the order they were added
 *			..., spar_play_free(play);
 *		if (rc <= 0)
 *			break;                                          // 0: nothing is left to do
 *	}
 *	spar_sampler_free(s);
 *
 * Up to `concurrency` episodes are under way. When one ends or waits for the environment the others go on, and the next one
 * takes its place. An episode that is done before an older one is held until that is taken; at most 4 * concurrency are.
 *
 * Draws are keyed by (seed, task id; sample, turn, position), and logits do not depend on the batch (engine.h): an episode is
 * the same whatever is sampled beside it, and however fast the environment replies.
 *
 * An episode that cannot go on ends with `error`: a prompt that does not fit, a template that refuses, an environment that
 * answers wrongly, late or not at all. The environment is then started afresh and the other episodes that were in it
 * are played again from their start, with the same draws; after three such losses with no episode finished in between the
 * sampler gives up. One thread calls. */
#ifndef SPAR_RL_SAMPLER_H
#define SPAR_RL_SAMPLER_H

#include "base/err.h"
#include "base/listener.h"
#include "base/opt.h"
#include "model/engine/device.h"
#include "model/sample.h"
#include "rl/play.h"
#include "rl/task.h"
#include "text/tokenizer.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spar_sampler_opt {
	const char *model; /* folder; NULL: `actor` plays, or a model comes with spar_sampler_load */
	const char *actor; /* built-in policy of the environment, asked by the oracle request */
	const char *env;   /* command of the environment; NULL: none */
	double env_timeout_s;
	struct spar_sampling sampling;
	uint64_t seed;
	int64_t max_completion; /* tokens of one completion */
	int64_t max_length;     /* tokens of prompt and completion; 0: what the model takes */
	int64_t max_turns;      /* an episode that is not done by then fails ... */
	bool cut_long;          /* ... or, with this, just ends */
	int64_t concurrency;
	int dtype;                   /* index into spar_sampler_dtypes */
	const char *device;          /* "cpu" or, for new_device, "cuda", "cuda:1" */
	spar_device_new *new_device; /* what computes in place of the C kernels (engine/device.h); NULL: nothing */
	int64_t threads;             /* 0: all cores */
	int64_t kv_cache_mib;        /* 0: a quarter of memory, at most 4 GiB */
	const int32_t *forced;       /* (n_forced) the first tokens of every completion, instead of draws; NULL: none */
	size_t n_forced;
	bool encode_only;        /* no weights are read: only spar_sampler_encode works */
	struct spar_listener on; /* warned of what is odd with the first model that is opened */
};
extern const char *const spar_sampler_dtypes[]; /* "float32", "bfloat16", NULL */

/* Tools that sample start in milliseconds, without libtorch. Each has a twin below spar-torch/ beside its folder, made of the
 * same source with SPAR_TORCH, in which tensors compute. */
#ifdef SPAR_TORCH
#include "model/graph.h"
#define SPAR_SAMPLER_NEW_DEVICE spar_graph_device
#else
#define SPAR_SAMPLER_NEW_DEVICE NULL
#endif

/* clang-format off */
#define SPAR_SAMPLER_DEFAULTS \
	{.env_timeout_s = 60, .sampling = {.temperature = 1, .top_p = 1}, .max_completion = 512, .max_turns = 256, \
	 .concurrency = 64, .device = "cpu", .new_device = SPAR_SAMPLER_NEW_DEVICE}
/* clang-format on */
#define SPAR_SAMPLER_OPTIONS(o) \
	SPAR_OPT_GROUP("environment"), \
	    SPAR_OPT_STR("env", 'e', &(o).env, "CMD", \
			 "the environment's command, for tasks that have `env` or a seed"), \
	    SPAR_OPT_DOUBLE("env-timeout", 0, &(o).env_timeout_s, 0.001, 1e9, "S", \
			    "seconds to wait for a reply (60)"), \
	    SPAR_OPT_INT("max-turns", 0, &(o).max_turns, 1, 1e9, "N", "an episode not done by then fails (256)"), \
	    SPAR_OPT_GROUP("sampling"), \
	    SPAR_OPT_INT("max-completion-length", 0, &(o).max_completion, 1, 1e9, "N", \
			 "tokens of a completion (512)"), \
	    SPAR_OPT_INT("max-model-length", 0, &(o).max_length, 0, 1e9, "N", \
			 "tokens of prompt and completion; 0: what the model takes (0)"), \
	    SPAR_OPT_DOUBLE("top-p", 0, &(o).sampling.top_p, 0, 1, "X", \
			    "smallest set of tokens with this mass; 1: all (1)"), \
	    SPAR_OPT_INT("top-k", 0, &(o).sampling.top_k, 0, 1e9, "N", "most probable tokens only; 0: all (0)"), \
	    SPAR_OPT_DOUBLE("min-p", 0, &(o).sampling.min_p, 0, 1, "X", \
			    "tokens with at least this share of the best one's probability; 0: all (0)"), \
	    SPAR_OPT_U64("seed", 's', &(o).seed, "N", "of the random draws (0)"), SPAR_OPT_GROUP("machine"), \
	    SPAR_OPT_INT("concurrency", 'c', &(o).concurrency, 1, 65536, "N", "episodes under way at once (64)"), \
	    SPAR_OPT_STR("device", 0, &(o).device, "NAME", "cpu, cuda or cuda:N (cpu)"), \
	    SPAR_OPT_CHOICE("dtype", 0, &(o).dtype, spar_sampler_dtypes, "TYPE", "float32 or bfloat16 (float32)"), \
	    SPAR_OPT_INT("threads", 't', &(o).threads, 0, 4096, "N", "0: all cores (0)"), \
	    SPAR_OPT_INT("kv-cache-size", 0, &(o).kv_cache_mib, 0, 1e9, "MIB", \
			 "memory for keys and values; 0: a quarter of it all, at most 4096 (0)")

struct spar_sampler; /* opaque */

/*! First of all in a tool that samples: 0, or with a device that it cannot use itself it becomes its twin (tool: its name). */
int spar_sampler_settle_device(const struct spar_sampler_opt *o, const char *tool, char **argv, struct spar_err *err);

/*! `opt` is copied, what it points to is borrowed (`model`: not beyond this call). The environment is started when the first task
 *  needs it; no more episodes are under way in it than the sessions it says it holds. */
int spar_sampler_new(struct spar_sampler **out, const struct spar_sampler_opt *opt, struct spar_err *err);
void spar_sampler_free(struct spar_sampler *s);

/*! The weights of `dir` from now on. No play may be under way or held. */
int spar_sampler_load(struct spar_sampler *s, const char *dir, struct spar_err *err);

/*! Hash of the weights; "" without a model. Borrowed. */
const char *spar_sampler_hash(const struct spar_sampler *s);

bool spar_sampler_full(const struct spar_sampler *s);

/*! Plays that were added and not taken. */
size_t spar_sampler_held(const struct spar_sampler *s);

/*! SPAR_INPUT if the task is not for this sampler (an environment is needed, or another one); SPAR_FAIL if the environment
 *  does not start. */
int spar_sampler_add(struct spar_sampler *s, const struct spar_task *task, int64_t sample, struct spar_err *err);

/*! 1: went on by one token or reply; 0: every play is done; < 0: failed as a whole. */
int spar_sampler_step(struct spar_sampler *s, struct spar_err *err);

/*! The oldest play, if it is done; the caller frees it. Else NULL. */
struct spar_play *spar_sampler_take(struct spar_sampler *s);

/*! What the environment calls itself; "env" if it does not say. Borrowed. */
const char *spar_sampler_env_name(const struct spar_sampler *s);

/*! Tokens sampled so far. */
uint64_t spar_sampler_tokens(const struct spar_sampler *s);

/*! The task's first prompt: rendered text (messages only) and ids, appended. The limits are checked as when sampling. */
int spar_sampler_encode(struct spar_sampler *s, const struct spar_task *task, struct spar_str *text,
			struct spar_ids *ids, struct spar_err *err);

/*! Append the member "sampling" (spar-records(5)), without braces around. */
void spar_sampler_json(const struct spar_sampler *s, struct spar_str *out);

#endif
