/* engine.h - inference, on the CPU in plain C: weights packed once, keys and values in a prefix tree. (Or with the same tree
 * elsewhere: engine/device.h.)
 *
 * A sequence is a list of token ids. Sequences that begin alike share the keys and values of what they have in common:
 * the engine finds that out by itself (a radix tree over ids), so samples of a group, the system text of an environment
 * and the earlier turns of an episode are computed once. Nobody above has to think about it.
 *
 *	spar_engine_new(&e, &model, &opt, &err);
 *	struct spar_seq *s = spar_seq_new(e);
 *	spar_seq_append(s, ids, n);                       // not computed yet
 *	spar_engine_run(e, seqs, n_seqs, logits, &err);    // computes all that is pending, in one batch of rows
 *	... sample from logits[i] ..., spar_seq_append(s, &token, 1), run again ...
 *	spar_seq_free(s);                                  // its tail stays cached until room is needed
 *
 * A row's logits do not depend on what else is in the batch nor on how the tree is cut into segments: every sum runs in an
 * order fixed by position. Memory: weights + kv_cache_size.
 */
#ifndef SPAR_MODEL_ENGINE_H
#define SPAR_MODEL_ENGINE_H

#include "base/err.h"
#include "model/engine/device.h"
#include "model/engine/trace.h"
#include "model/model.h"
#include "model/pack.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spar_engine; /* opaque; one thread calls, OpenMP threads work */
struct spar_seq;    /* opaque */

struct spar_engine_opt {
	enum spar_dtype dtype; /* SPAR_F32 or SPAR_BF16: of weights and cache; sums are float32 */
	int threads;           /* 0: all cores */
	size_t kv_cache_size;  /* bytes; 0: a quarter of memory, at most 4 GiB */
	size_t
	    vocab_limit; /* logits at or above this id become -inf (tokenizer smaller than the table, B05); 0: none */
	const char *kernel;          /* NULL: best the processor has; "portable", "avx2", "avx512bf16", ... for tests */
	spar_device_new *new_device; /* NULL: the C kernels compute; else what this makes (no trace, no refill) ... */
	const char *device;          /* ... on "cuda", "cuda:1" */
};

int spar_engine_new(struct spar_engine **out, const struct spar_model *m, const struct spar_engine_opt *opt,
		    struct spar_err *err);
void spar_engine_free(struct spar_engine *e);

/*! New weights of the same shape: packs them again, in place, and empties the cache. No sequence may be alive. After a
 *  failure to read them (not after a refusal: SPAR_INPUT for another shape) the engine is good for spar_engine_free only. */
int spar_engine_reload(struct spar_engine *e, const struct spar_model *m, struct spar_err *err);

/*! New values of parameters, in place: `make` fills `out`, or returns 1 where they are what they were. As a reload else. */
int spar_engine_refill(struct spar_engine *e, spar_model_make *make, const void *from, struct spar_err *err);

struct spar_seq *spar_seq_new(struct spar_engine *e);
void spar_seq_free(struct spar_seq *s);
void spar_seq_append(struct spar_seq *s, const int32_t *ids, size_t n); /* copied */
size_t spar_seq_len(const struct spar_seq *s);

/*! Compute every pending token of seqs[0..n) and give the logits after each sequence's last token:
 *  logits is (n, vocab_size) row-major float32, caller's. Each sequence must have at least one pending token (if all its
 *  tokens were found in the cache, the last one is computed again). SPAR_INPUT if a sequence exceeds max_position or an id
 *  the vocabulary; SPAR_FAIL if the cache cannot hold the live sequences. */
int spar_engine_run(struct spar_engine *e, struct spar_seq *const *seqs, size_t n, float *logits, struct spar_err *err);

/*! For tests and eval: log-probabilities of ids[1..n) given what stands before each, float32 log-softmax at `temperature`. */
int spar_engine_logprobs(struct spar_engine *e, const int32_t *ids, size_t n, double temperature, float *out,
			 struct spar_err *err);

/*! The layers over a prefix tree, leaving a trace (node by node). Empties the cache, before and after. No sequence may be alive. */
int spar_engine_trace(struct spar_engine *e, const struct spar_pack *p, const struct spar_trace *t,
		      struct spar_err *err);
/*! Logits (n, vocab_size) of rows of a trace's output, (n, hidden_size). */
void spar_engine_head(struct spar_engine *e, const float *x, size_t n, float *logits);

struct spar_engine_stats {
	uint64_t tokens_computed, tokens_reused, runs;
	size_t kv_bytes, weight_bytes;
	const char *kernel;
};
void spar_engine_stats(const struct spar_engine *e, struct spar_engine_stats *out);

#endif
