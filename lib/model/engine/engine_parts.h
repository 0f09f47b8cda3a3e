/* engine_parts.h - what the files of the engine share; nobody else includes it. engine.c: life, sequences and runs;
 * engine/compute.c: the rows of a run; engine/teach.c: sequences and trees that are known already. */
#ifndef SPAR_MODEL_ENGINE_PARTS_H
#define SPAR_MODEL_ENGINE_PARTS_H

#include "model/engine.h"
#include "model/engine/forward.h"

#define SPAR_NONE SIZE_MAX

struct spar_seq {
	struct spar_engine *engine;
	int32_t *ids;
	size_t n, room;
	size_t n_run; /* tokens that had their turn in a run; the others are pending */
	struct spar_cursor cursor;
	/* Of the present run: */
	size_t last_plan; /* the row of the last token; SPAR_NONE: it was cached */
	size_t head;      /* which row of logits is this sequence's: equal sequences share one */
};

/* A row of a run. Its node is looked up when all sequences have entered the tree: till then nodes may be cut. */
struct spar_plan {
	const struct spar_seq *seq;
	const struct spar_node *node;
	size_t pos;
	bool fresh;
	size_t head;          /* the row of logits it gives, or SPAR_NONE */
	size_t node_of_trace; /* attention.h */
};

struct spar_engine {
	struct spar_config config;
	struct spar_weights weights;
	struct spar_forward forward;
	struct spar_device_rows *device; /* NULL: weights and forward compute */
	size_t width;                    /* of a row of x */
	struct spar_tree tree;
	size_t kv_block_size; /* bytes of the keys and values that a block of the tree has, or stands for on a device */
	size_t vocab_limit;   /* logits at or above are -inf */
	int threads;
	struct spar_plan *plans; /* (n_plans) of the present run */
	size_t n_plans, plans_room;
	float *device_x; /* (rows, width) of the last pass */
	float *heads;    /* (n_heads, width): what becomes logits */
	size_t n_heads, heads_room;
	uint64_t tokens_computed, tokens_reused, runs;
};

/*! What a sequence must be to have its pending tokens computed. */
int spar_engine_check(const struct spar_engine *e, const struct spar_seq *s, struct spar_err *err);
/*! A row for position `pos` of a sequence. */
void spar_engine_plan(struct spar_engine *e, const struct spar_seq *s, size_t pos, bool fresh);
/*! Give the pending tokens their places in the tree, and rows to those that are new to it. */
int spar_engine_enter(struct spar_engine *e, struct spar_seq *s, struct spar_err *err);
/*! Compute all planned rows and gather those that are to become logits. */
int spar_engine_compute(struct spar_engine *e, const struct spar_trace *trace, struct spar_err *err);
/*! Logits of n rows of heads. */
int spar_engine_logits(struct spar_engine *e, const float *heads, size_t n, float *logits, struct spar_err *err);

#endif
