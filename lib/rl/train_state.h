/* train_state.h - what a training run needs to go on as if it had never stopped, beside the policy itself:
 *	DIR/state.json          step counters, seed, what was trained on
 *	DIR/state.safetensors   weight.NAME, moment1.NAME, moment2.NAME, all float32
 *	DIR/metrics.jsonl       the metric records so far
 * Nothing is pickled. Everything random is a function of the seed and these counters. */
#ifndef SPAR_RL_TRAIN_STATE_H
#define SPAR_RL_TRAIN_STATE_H

#include "base/err.h"
#include "base/str.h"
#include "model/graph.h"
#include <stdbool.h>
#include <stdint.h>

struct spar_train_state {
	uint64_t step;       /* optimizer steps behind us, skipped ones included */
	uint64_t adam_step;  /* those that changed something: AdamW's bias correction */
	uint64_t batches;    /* batches of the input behind us: the data position, and the policy's version */
	uint64_t num_tokens; /* of all sequences so far, before sharing */
	uint64_t seed;
	char data[17];           /* hash of the data set (SFT), "" for a stream */
	struct spar_str metrics; /* lines */
};

void spar_train_state_init(struct spar_train_state *s);
void spar_train_state_release(struct spar_train_state *s);

/*! Write into `dir`, which exists. */
int spar_train_state_save(const struct spar_train_state *s, const struct spar_graph *g, const char *dir,
			  struct spar_err *err);

/*! Read back into both. SPAR_INPUT if what is trained has other names or sizes, or the seed is another; then `g` may be
 *  half filled and must not be used. */
int spar_train_state_load(struct spar_train_state *s, struct spar_graph *g, const char *dir, struct spar_err *err);

/*! Bytes of a saved state: the elements that are trained, three times. */
size_t spar_train_state_bytes(const struct spar_graph *g);

#endif
