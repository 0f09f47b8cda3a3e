/* forward.h - a batch of rows through the layers.
 *
 * One parallel region holds the whole pass. A layer is eight phases (team.h): norm, qkv, rotate and store, attention, o,
 * norm, gate and up, down; two more where norms stand behind o and down. A trace is written between them. Buffers are made once.
 */
#ifndef SPAR_MODEL_ENGINE_FORWARD_H
#define SPAR_MODEL_ENGINE_FORWARD_H

#include "model/engine/attention.h"
#include "model/engine/team.h"
#include "model/engine/trace.h"
#include "model/engine/weights.h"

#define SPAR_FORWARD_ROWS 256 /* most rows of a pass */

struct spar_forward {
	const struct spar_config *config;
	const struct spar_weights *weights;
	const struct spar_kernel *kernel;
	spar_gemm_fn *gemm;
	void (*activate)(const float *gate, const float *up, size_t n, void *act);
	float embedding_scale; /* as the dtype has it */
	int threads;
	struct spar_team team;
	struct spar_attention attention;
	struct spar_forward_fetch *fetches;  /* (threads) */
	size_t hidden, qkv, attended, inner; /* widths of the buffers' rows: padded to SPAR_PANEL, the padding is 0 */
	float *x;         /* (ROWS, hidden) the residual stream; after a pass the last layer's output */
	void *normed;     /* (ROWS, hidden) acts */
	float *branch;    /* (ROWS, hidden) what is to be added to x, where it is normed first; scratch of a norm */
	float *projected; /* (ROWS, qkv) */
	void *q;          /* attention.h's order, acts */
	void *mixed;      /* (ROWS, attended) acts: what attention gave */
	void *gated;      /* (ROWS, inner) acts */
	const struct spar_row *rows;    /* of the present pass */
	const struct spar_trace *trace; /* NULL: none */
	float *cosine[2], *sine[2];     /* of each of the config's ropes, (n_angles, head_dim / 2) */
	size_t n_angles;
};

/*! All is borrowed and must outlive the struct. */
int spar_forward_init(struct spar_forward *f, const struct spar_config *c, const struct spar_weights *w,
		      const struct spar_kernel *kernel, int threads, struct spar_err *err);
void spar_forward_release(struct spar_forward *f);

/*! Compute rows[0..n), n <= SPAR_FORWARD_ROWS, into x, leaving a trace if one is wanted (NULL: none); a row's path must be in
 *  the cache or among these rows. */
void spar_forward_run(struct spar_forward *f, const struct spar_row *rows, size_t n, const struct spar_trace *trace);

/*! Logits (n, vocab_size) of n <= SPAR_FORWARD_ROWS rows of x's shape; those at or above `limit` become -inf. */
void spar_forward_head(struct spar_forward *f, const float *x, size_t n, size_t limit, float *logits);

#endif
