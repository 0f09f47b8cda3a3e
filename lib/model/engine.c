#include "model/engine.h"
#include "model/engine/engine_parts.h"
#include <omp.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- life ---- */

static size_t default_cache_size(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	size_t quarter = pages > 0 && page > 0 ? (size_t)pages * (size_t)page / 4 : SIZE_MAX, most = (size_t)4 << 30;
	return quarter < most ? quarter : most;
}

static int start_kernels(struct spar_engine *e, const struct spar_model *m, const struct spar_engine_opt *opt,
			 struct spar_err *err)
{
	const struct spar_kernel *kernel = spar_kernel_find(opt->kernel, opt->dtype);
	if (!kernel)
		return spar_fail(err, SPAR_USAGE, "kernel \"%s\" is not known, or not for this processor or %s",
				 opt->kernel, spar_dtype_name(opt->dtype));
	int rc = spar_weights_load(&e->weights, m, opt->dtype, e->threads, err);
	if (rc == 0)
		rc = spar_forward_init(&e->forward, &e->config, &e->weights, kernel, e->threads, err);
	e->width = e->forward.hidden;
	return rc;
}

static void forget(void *engine, const struct spar_node *node)
{
	struct spar_engine *e = engine;
	e->device->forget(e->device, node);
}

/* Blocks as many as `size` bytes of keys and values allow. */
static void start_tree(struct spar_engine *e, size_t size)
{
	e->kv_block_size =
	    e->device ? SPAR_LANES * e->device->position_size : spar_attention_block_size(&e->forward.attention);
	spar_tree_init(&e->tree, e->device ? SPAR_DEVICE_BLOCK : e->kv_block_size, size / e->kv_block_size, e->threads);
	if (e->device) {
		e->tree.forget = forget;
		e->tree.owner = e;
	}
}

static int start(struct spar_engine *e, const struct spar_model *m, const struct spar_engine_opt *opt,
		 struct spar_err *err)
{
	if (opt->dtype != SPAR_F32 && opt->dtype != SPAR_BF16)
		return spar_fail(err, SPAR_USAGE, "the engine computes in F32 or BF16, not %s",
				 spar_dtype_name(opt->dtype));
	e->config = m->config;
	e->vocab_limit = opt->vocab_limit ? opt->vocab_limit : m->config.vocab_size;
	e->threads = opt->threads > 0 ? opt->threads : omp_get_max_threads();
	e->width = m->config.hidden_size;
	int rc = opt->new_device ? opt->new_device(&e->device, m, opt, err) : start_kernels(e, m, opt, err);
	if (rc == 0)
		start_tree(e, opt->kv_cache_size ? opt->kv_cache_size : default_cache_size());
	return rc;
}

int spar_engine_new(struct spar_engine **out, const struct spar_model *m, const struct spar_engine_opt *opt,
		    struct spar_err *err)
{
	struct spar_err local = {0};
	struct spar_engine *e = *out = spar_calloc(1, sizeof *e);
	spar_tree_init(&e->tree, 0, 0, 1);
	int rc = start(e, m, opt, err ? err : &local);
	if (rc < 0) {
		spar_engine_free(e);
		*out = NULL;
	}
	return rc;
}

void spar_engine_free(struct spar_engine *e)
{
	if (!e)
		return;
	spar_tree_release(&e->tree);
	if (e->device)
		e->device->free(e->device);
	spar_forward_release(&e->forward);
	spar_weights_release(&e->weights);
	free(e->plans);
	free(e->device_x);
	free(e->heads);
	free(e);
}

int spar_engine_reload(struct spar_engine *e, const struct spar_model *m, struct spar_err *err)
{
	const struct spar_config *a = &e->config, *b = &m->config;
	if (strcmp(a->model_type, b->model_type) != 0 || a->n_layers != b->n_layers ||
	    a->hidden_size != b->hidden_size || a->intermediate_size != b->intermediate_size ||
	    a->vocab_size != b->vocab_size || a->n_heads != b->n_heads || a->n_kv_heads != b->n_kv_heads ||
	    a->head_dim != b->head_dim || a->tie_word_embeddings != b->tie_word_embeddings)
		return spar_fail(err, SPAR_INPUT, "%s: the new weights have another shape", m->dir);
	if (e->tree.cursors.next != &e->tree.cursors)
		return spar_fail(err, SPAR_FAIL, "%s: weights cannot change while sequences are alive", m->dir);
	spar_tree_clear(&e->tree);
	return e->device ? e->device->reload(e->device, m, err) : spar_weights_reload(&e->weights, m, err);
}

int spar_engine_refill(struct spar_engine *e, spar_model_make *make, const void *from, struct spar_err *err)
{
	spar_tree_clear(&e->tree);
	return spar_weights_refill(&e->weights, &e->config, make, from, err);
}

/* ---- sequences ---- */

struct spar_seq *spar_seq_new(struct spar_engine *e)
{
	struct spar_seq *s = spar_calloc(1, sizeof *s);
	s->engine = e;
	spar_cursor_open(&e->tree, &s->cursor);
	return s;
}

void spar_seq_free(struct spar_seq *s)
{
	if (!s)
		return;
	spar_cursor_close(&s->engine->tree, &s->cursor);
	free(s->ids);
	free(s);
}

void spar_seq_append(struct spar_seq *s, const int32_t *ids, size_t n)
{
	if (s->n + n > s->room) {
		s->room = s->n + n + (s->n + n) / 2 + 16;
		s->ids = spar_realloc(s->ids, s->room * sizeof *s->ids);
	}
	memcpy(s->ids + s->n, ids, n * sizeof *ids);
	s->n += n;
}

size_t spar_seq_len(const struct spar_seq *s)
{
	return s->n;
}

/* ---- a run ---- */

/* Decide which row of logits is seqs[i]'s: that of an equal sequence before it, or a new one. */
static void ask_for_head(struct spar_engine *e, struct spar_seq *const *seqs, size_t i)
{
	struct spar_seq *s = seqs[i];
	for (size_t j = 0; s->cursor.node->n_cursors > 1 && j < i; j++)
		if (seqs[j]->cursor.node == s->cursor.node && seqs[j]->cursor.n == s->cursor.n) {
			s->head = seqs[j]->head;
			return;
		}
	if (s->last_plan == SPAR_NONE) {
		spar_engine_plan(e, s, s->n - 1, false);
		s->last_plan = e->n_plans - 1;
	}
	s->head = e->plans[s->last_plan].head = e->n_heads++;
}

int spar_engine_run(struct spar_engine *e, struct spar_seq *const *seqs, size_t n, float *logits, struct spar_err *err)
{
	size_t vocab = e->config.vocab_size;
	int rc = 0;
	for (size_t i = 0; i < n; i++)
		if ((rc = spar_engine_check(e, seqs[i], err)) < 0)
			return rc;
	e->n_plans = e->n_heads = 0;
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = spar_engine_enter(e, seqs[i], err);
	for (size_t i = 0; i < n && rc == 0; i++)
		ask_for_head(e, seqs, i);
	int computed =
	    spar_engine_compute(e, NULL, err); /* after a failure too: what has entered the tree must be true */
	if (rc == 0 && (rc = computed) == 0)
		rc = spar_engine_logits(e, e->heads, e->n_heads, logits, err);
	if (rc < 0)
		return rc;
	for (size_t i = n; i-- > 0;) { /* head <= i, so no row is overwritten before it was copied */
		if (seqs[i]->head != i)
			memcpy(logits + i * vocab, logits + seqs[i]->head * vocab, vocab * sizeof *logits);
		seqs[i]->n_run = seqs[i]->n;
	}
	return 0;
}

void spar_engine_stats(const struct spar_engine *e, struct spar_engine_stats *out)
{
	*out = (struct spar_engine_stats){
	    .tokens_computed = e->tokens_computed,
	    .tokens_reused = e->tokens_reused,
	    .runs = e->runs,
	    .kv_bytes = e->tree.n_blocks * e->kv_block_size,
	    .weight_bytes = e->weights.size_bytes,
	    .kernel = e->device ? "tensors" : e->forward.kernel->name,
	};
}
