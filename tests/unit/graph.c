/* The training graph over small models: against one sequence at a time, the engine, slopes, and AdamW worked out by hand. */
#include "base/file.h"
#include "base/philox.h"
#include "model/engine.h"
#include "model/graph.h"
#include "small_model.h"
#include "unit.h"
#include <stdlib.h>
#include <unistd.h>

enum { VOCAB = 29, SEQUENCES = 9, LEVELS = 4, MAX_LEN = 400, MAX_REFS = SEQUENCES * MAX_LEN };

static struct spar_rng rng;
static struct spar_err err;

static uint32_t below(uint32_t n, uint32_t a, uint32_t b, uint32_t c)
{
	return (uint32_t)(spar_rng_uniform(&rng, a, b, c, 0) * n);
}

static void make_model(const char *dir, bool tied)
{
	char config[512];
	snprintf(config, sizeof config,
		 "{\"model_type\":\"llama\",\"vocab_size\":%d,\"hidden_size\":16,\"intermediate_size\":24,"
		 "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":2,\"hidden_act\":\"silu\","
		 "\"max_position_embeddings\":2048,\"rms_norm_eps\":1e-5,\"rope_theta\":10000.0,"
		 "\"tie_word_embeddings\":%s,\"eos_token_id\":2}",
		 VOCAB, tied ? "true" : "false");
	CHECK(spar_dir_make(dir, &err) == 0);
	small_model(dir, config, true, &rng);
}

/* Sequence i of tree t: at each level one of two branches, whose tokens depend on the branches taken so far. */
static size_t sequence(uint32_t t, uint32_t i, int32_t *ids, uint8_t *mask)
{
	size_t n = 0;
	uint32_t path = 1;
	for (uint32_t level = 0; level < LEVELS; level++) {
		path = 2 * path + (level ? below(2, 2, t, i * LEVELS + level) : 0);
		uint32_t len = 1 + below(t == 0 && level == 1 ? 320 : 9, 3, t, path);
		for (uint32_t k = 0; k < len; k++, n++) {
			ids[n] = (int32_t)below(VOCAB, 4, t * 1000 + path, k);
			mask[n] = (uint8_t)below(2, 5, t * 1000 + path, k);
		}
	}
	mask[n - 1] = 1;
	return n;
}

static struct spar_pack *make_pack(uint32_t tree, int share)
{
	struct spar_pack_builder *b = spar_pack_begin();
	for (uint32_t i = 0; i < SEQUENCES; i++) {
		int32_t ids[MAX_LEN];
		uint8_t mask[MAX_LEN];
		spar_pack_add(b, ids, mask, sequence(tree, i, ids, mask));
	}
	return spar_pack_end(b, share);
}

static size_t total(const struct spar_graph *g)
{
	size_t n = 0;
	for (size_t i = 0; i < spar_graph_count(g); i++)
		n += spar_graph_elements(g, i);
	return n;
}

static float *all(const struct spar_graph *g, enum spar_graph_what what)
{
	float *out = spar_malloc(total(g) * sizeof *out), *at = out;
	for (size_t i = 0; i < spar_graph_count(g); at += spar_graph_elements(g, i++))
		CHECK(spar_graph_get(g, i, what, at, &err) == 0);
	return out;
}

/* The loss is a fixed random weighting of the loss tokens' logprobs, which are left in ref_logprobs (n_refs). */
static double loss(struct spar_graph *g, const struct spar_pack *p, enum spar_graph_mode mode, float *ref_logprobs)
{
	float *logprobs = spar_malloc(p->n_targets * sizeof *logprobs);
	float *dlogprobs = spar_calloc(p->n_targets, sizeof *dlogprobs);
	double sum = 0;
	CHECK(spar_graph_forward(g, p, 0.8, mode, logprobs, NULL, NULL, &err) == 0);
	for (size_t i = 0; i < p->n_refs; i++) {
		double weight = i % 5 ? spar_rng_normal(&rng, 6, (uint32_t)i, 0, 0) / (double)p->n_refs : 0;
		ref_logprobs[i] = logprobs[p->ref_target[i]];
		dlogprobs[p->ref_target[i]] += (float)weight;
		sum += weight * ref_logprobs[i];
	}
	if (mode == SPAR_GRAPH_TRAIN)
		CHECK(spar_graph_backward(g, dlogprobs, NULL, &err) == 0);
	free(logprobs);
	free(dlogprobs);
	return sum;
}

static float worst(const float *a, const float *b, size_t n)
{
	float most = 0;
	for (size_t i = 0; i < n; i++)
		most = fmaxf(most, fabsf(a[i] - b[i]));
	return most;
}

/* Each trained tensor's part of a and b is the same but for rounding. */
static void check_same_gradients(const struct spar_graph *g, const float *a, const float *b)
{
	for (size_t i = 0, n; i < spar_graph_count(g); i++, a += n, b += n) {
		double norm = 0, difference = 0;
		n = spar_graph_elements(g, i);
		for (size_t k = 0; k < n; k++) {
			norm += (double)b[k] * b[k];
			difference += ((double)a[k] - b[k]) * ((double)a[k] - b[k]);
		}
		CHECK(norm > 0 && difference <= 1e-10 * norm);
	}
}

/* Loss and every gradient do not depend on whether prefixes are shared. */
static void check_sharing(struct spar_graph *g)
{
	static float shared[MAX_REFS], apart[MAX_REFS];
	for (uint32_t tree = 0; tree < 4; tree++) {
		struct spar_pack *p = make_pack(tree, 1), *q = make_pack(tree, 0);
		CHECK(p->n_refs == q->n_refs && p->n_nodes < q->n_nodes);
		double one = loss(g, p, SPAR_GRAPH_TRAIN, shared);
		float *dshared = all(g, SPAR_GRAPH_GRAD);
		spar_graph_zero(g);
		CHECK_NEAR(loss(g, q, SPAR_GRAPH_TRAIN, apart), one, 1e-6 + 1e-5 * fabs(one));
		float *dapart = all(g, SPAR_GRAPH_GRAD);
		spar_graph_zero(g);
		CHECK(worst(shared, apart, p->n_refs) < 2e-5);
		check_same_gradients(g, dshared, dapart);
		free(dshared);
		free(dapart);
		spar_pack_free(p);
		spar_pack_free(q);
	}
}

/* Set every B of an adapter to something. */
static void fill_b(struct spar_graph *g)
{
	for (size_t i = 0; i < spar_graph_count(g); i++) {
		size_t n = spar_graph_elements(g, i);
		float *b = spar_malloc(n * sizeof *b);
		for (size_t k = 0; k < n; k++)
			b[k] = (float)(0.2 * spar_rng_normal(&rng, 7, (uint32_t)i, (uint32_t)k, 0));
		if (strstr(spar_graph_name(g, i), ".lora_B"))
			CHECK(spar_graph_set(g, i, SPAR_GRAPH_WEIGHT, b, &err) == 0);
		free(b);
	}
}

/* ---- the forward by tensors, and the engine's, which leaves what the backward goes by ---- */

/* The same loss, entropies and gradients of both. */
static void check_twins_of(struct spar_graph *twins[2])
{
	struct spar_pack *p = make_pack(0, 1);
	size_t n = p->n_targets;
	float *values = spar_malloc(6 * n * sizeof *values), *grads[2];
	float *dlogprobs = spar_calloc(2 * n, sizeof *dlogprobs);
	for (size_t i = 0; i < 2 * n; i++)
		dlogprobs[i] = i % 3 ? (float)spar_rng_normal(&rng, 8, (uint32_t)i, 0, 0) : 0;
	for (int twin = 0; twin < 2; twin++) {
		float *at = values + 3 * n * (size_t)twin;
		CHECK(spar_graph_forward(twins[twin], p, 0.8, SPAR_GRAPH_TRAIN, at, at + n, at + 2 * n, &err) == 0);
		CHECK(spar_graph_backward(twins[twin], dlogprobs, dlogprobs + n, &err) == 0);
		grads[twin] = all(twins[twin], SPAR_GRAPH_GRAD);
		spar_graph_zero(twins[twin]);
	}
	CHECK(worst(values, values + 3 * n, 3 * n) < 2e-5);
	check_same_gradients(twins[0], grads[0], grads[1]);
	free(grads[0]);
	free(grads[1]);
	free(values);
	free(dlogprobs);
	spar_pack_free(p);
}

static void check_twins(const struct spar_model *m)
{
	struct spar_lora_config l;
	CHECK(spar_lora_parse(&l, "r=3,alpha=6,targets=all-linear", &err) == 0);
	for (int lora = 0; lora < 2; lora++) {
		struct spar_graph *twins[2];
		struct spar_graph_opt opt = {.lora = lora ? &l : NULL, .seed = 3, .threads = 2};
		for (int tensors = 0; tensors < 2; tensors++) {
			opt.tensors = tensors;
			CHECK(spar_graph_new(&twins[tensors], m, &opt, &err) == 0);
			if (lora)
				fill_b(twins[tensors]);
		}
		check_twins_of(twins);
		spar_graph_free(twins[0]);
		spar_graph_free(twins[1]);
	}
	spar_lora_release(&l);
}

/* What is saved is sampled with the very log-probabilities that the trainer had, in either type, after a step too. */
static void check_sampler(const struct spar_model *m, const char *dir)
{
	int32_t ids[MAX_LEN];
	uint8_t mask[MAX_LEN];
	float got[MAX_LEN], sampled[MAX_LEN];
	size_t n = sequence(0, 0, ids, mask);
	memset(mask, 1, n);
	struct spar_pack_builder *b = spar_pack_begin();
	spar_pack_add(b, ids, mask, n);
	struct spar_pack *p = spar_pack_end(b, 1);
	struct spar_lora_config l;
	CHECK(spar_lora_parse(&l, "r=3,alpha=6,targets=all-linear", &err) == 0);
	for (int way = 0; way < 4; way++) {
		enum spar_dtype dtype = way & 1 ? SPAR_BF16 : SPAR_F32;
		struct spar_graph_opt opt = {.dtype = dtype, .threads = 2, .lora = way & 2 ? &l : NULL};
		struct spar_adamw how = {1e-2, 0.9, 0.99, 1e-8, 0.1, 1, 1};
		struct spar_step_report report;
		struct spar_graph *g;
		struct spar_model saved;
		struct spar_engine *e;
		char *out = spar_path_join(dir, "sampled");
		CHECK(spar_graph_new(&g, m, &opt, &err) == 0);
		CHECK(spar_graph_forward(g, p, 0.8, SPAR_GRAPH_TRAIN, got, NULL, NULL, &err) == 0);
		CHECK(spar_graph_backward(g, got, NULL, &err) == 0);
		CHECK(spar_graph_step(g, &how, &report, &err) == 0 && report.n_changed > 0);
		CHECK(spar_graph_forward(g, p, 0.8, SPAR_GRAPH_INFER, got, NULL, NULL, &err) == 0);
		CHECK(spar_dir_make(out, &err) == 0);
		CHECK(spar_graph_save(g, out, false, dtype, m->dir, &err) == 0);
		CHECK(spar_model_open(&saved, out, &err) == 0);
		CHECK(spar_engine_new(&e, &saved, &(struct spar_engine_opt){.dtype = dtype}, &err) == 0);
		CHECK(spar_engine_logprobs(e, ids, n, 0.8, sampled, &err) == 0);
		for (size_t i = 0; i + 1 < n; i++)
			CHECK(got[p->ref_target[i]] == sampled[i]);
		spar_engine_free(e);
		spar_model_close(&saved);
		spar_graph_free(g);
		CHECK(spar_dir_remove(out, &err) == 0);
		free(out);
	}
	spar_lora_release(&l);
	spar_pack_free(p);
}

/* Nor on whether the layers are run again for the backward: all weights, and an adapter with dropout; twice, as a graph
 * is used. */
static void check_checkpointing(const struct spar_model *m)
{
	static float kept[MAX_REFS], again[MAX_REFS];
	struct spar_pack *p = make_pack(0, 1);
	struct spar_lora_config l;
	CHECK(spar_lora_parse(&l, "r=3,alpha=6,dropout=0.3,targets=q_proj+down_proj", &err) == 0);
	for (int way = 0; way < 3; way++) {
		bool lora = way == 1;
		struct spar_graph *g = NULL, *h = NULL;
		struct spar_graph_opt opt = {.lora = lora ? &l : NULL, .seed = 3, .tensors = way == 2};
		CHECK(spar_graph_new(&g, m, &opt, &err) == 0);
		opt.checkpointing = true;
		CHECK(spar_graph_new(&h, m, &opt, &err) == 0);
		if (lora) {
			fill_b(g);
			fill_b(h);
		}
		for (int round = 0; round < 2; round++) {
			CHECK_NEAR(loss(h, p, SPAR_GRAPH_TRAIN, again), loss(g, p, SPAR_GRAPH_TRAIN, kept), 1e-9);
			CHECK(worst(kept, again, p->n_refs) == 0);
			float *a = all(g, SPAR_GRAPH_GRAD), *b = all(h, SPAR_GRAPH_GRAD);
			check_same_gradients(g, a, b);
			free(a);
			free(b);
		}
		spar_graph_free(g);
		spar_graph_free(h);
	}
	spar_lora_release(&l);
	spar_pack_free(p);
}

/* Along its gradient the loss rises as the gradient says. */
static void check_slope(struct spar_graph *g)
{
	static float logprobs[MAX_REFS];
	struct spar_pack *p = make_pack(1, 1);
	loss(g, p, SPAR_GRAPH_TRAIN, logprobs);
	for (size_t i = 0; i < spar_graph_count(g); i++) {
		size_t n = spar_graph_elements(g, i);
		float *w = spar_malloc(n * sizeof *w), *d = spar_malloc(n * sizeof *d),
		      *moved = spar_malloc(n * sizeof *w);
		double square = 0, ends[2];
		CHECK(spar_graph_get(g, i, SPAR_GRAPH_WEIGHT, w, &err) == 0);
		CHECK(spar_graph_get(g, i, SPAR_GRAPH_GRAD, d, &err) == 0);
		for (size_t k = 0; k < n; k++)
			square += (double)d[k] * d[k];
		double h = 3e-3 / sqrt(square);
		for (int side = 0; side < 2; side++) {
			for (size_t k = 0; k < n; k++)
				moved[k] = (float)(w[k] + (side ? h : -h) * d[k]);
			CHECK(spar_graph_set(g, i, SPAR_GRAPH_WEIGHT, moved, &err) == 0);
			ends[side] = loss(g, p, SPAR_GRAPH_INFER, logprobs);
		}
		CHECK(spar_graph_set(g, i, SPAR_GRAPH_WEIGHT, w, &err) == 0);
		CHECK_NEAR((ends[1] - ends[0]) / (2 * h * square), 1, 2e-2);
		free(w);
		free(d);
		free(moved);
	}
	spar_graph_zero(g);
	spar_pack_free(p);
}

/* The engine computes the same distribution, temperature and vocabulary limit included. */
static void check_engine(const struct spar_model *m)
{
	int32_t ids[MAX_LEN];
	uint8_t mask[MAX_LEN];
	float got[MAX_LEN], entropies[MAX_LEN], best[MAX_LEN], want[MAX_LEN],
	    *logits = spar_malloc(VOCAB * sizeof *logits);
	size_t n = sequence(2, 0, ids, mask);
	for (size_t i = 0; i < n; i++)
		ids[i] %= VOCAB - 5;
	memset(mask, 1, n);
	struct spar_graph *g = NULL;
	struct spar_engine *e = NULL;
	CHECK(spar_graph_new(&g, m, &(struct spar_graph_opt){.frozen = true, .vocab_limit = VOCAB - 5}, &err) == 0);
	CHECK(spar_engine_new(&e, m, &(struct spar_engine_opt){.dtype = SPAR_F32, .vocab_limit = VOCAB - 5}, &err) ==
	      0);
	CHECK(spar_graph_count(g) == 0);
	struct spar_pack_builder *b = spar_pack_begin();
	spar_pack_add(b, ids, mask, n);
	struct spar_pack *p = spar_pack_end(b, 1);
	CHECK(spar_graph_forward(g, p, 0.7, SPAR_GRAPH_TRAIN, got, entropies, best, &err) == 0);
	CHECK(spar_engine_logprobs(e, ids, n, 0.7, want, &err) == 0);
	CHECK(p->n_targets == n - 1 && worst(got, want, n - 1) == 0);

	/* entropy of the last target's distribution, from the engine's logits */
	struct spar_seq *s = spar_seq_new(e);
	spar_seq_append(s, ids, n - 1);
	CHECK(spar_engine_run(e, &s, 1, logits, &err) == 0);
	double sum = 0, entropy = 0;
	float top = logits[0];
	for (int i = 0; i < VOCAB - 5; i++) {
		sum += exp(logits[i] / 0.7);
		top = fmaxf(top, logits[i]);
	}
	for (int i = 0; i < VOCAB - 5; i++)
		entropy -= exp(logits[i] / 0.7) / sum * (logits[i] / 0.7 - log(sum));
	CHECK_NEAR(entropies[n - 2], entropy, 1e-4);
	CHECK_NEAR(best[n - 2], top / 0.7 - log(sum), 1e-4);
	spar_seq_free(s);

	p->target_id[0] = VOCAB - 5;
	CHECK(spar_graph_forward(g, p, 1, SPAR_GRAPH_INFER, got, NULL, NULL, &err) == -SPAR_INPUT);
	free(logits);
	spar_pack_free(p);
	spar_engine_free(e);
	spar_graph_free(g);
}

/* ---- sampling by tensors ---- */

enum { COMPANY = 12, TOKENS = 60, ROUNDS = 50 };

/* Sequences that branch off each other, fed in portions, some freed and begun again, through the C kernels and through
 * tensors over the same tree, whose cache here is so small that what is not alive must go and its numbers come again. */
static void check_device(const struct spar_model *m, enum spar_dtype dtype, double tolerance)
{
	int32_t ids[COMPANY][TOKENS];
	size_t cache_size = (size_t)(dtype == SPAR_F32 ? 2 : 1) * 46000;
	struct spar_engine *engines[2];
	struct spar_seq *seqs[2][COMPANY];
	float *logits[2];
	double worst_seen = 0;
	for (int tensors = 0; tensors < 2; tensors++) {
		struct spar_engine_opt opt = {.dtype = dtype, .threads = 2, .vocab_limit = VOCAB - 2};
		if (tensors) {
			opt.new_device = spar_graph_device;
			opt.kv_cache_size = cache_size;
		}
		CHECK(spar_engine_new(&engines[tensors], m, &opt, &err) == 0);
		logits[tensors] = spar_malloc(COMPANY * VOCAB * sizeof(float));
		for (size_t i = 0; i < COMPANY; i++)
			seqs[tensors][i] = spar_seq_new(engines[tensors]);
	}
	for (uint32_t i = 0; i < COMPANY; i++) {
		for (uint32_t k = 0; k < TOKENS; k++)
			ids[i][k] = (int32_t)below(4, 20, i, k);
		if (i)
			memcpy(ids[i], ids[below(i, 21, i, 0)], below(TOKENS, 22, i, 0) * sizeof **ids);
	}
	for (uint32_t round = 0; round < ROUNDS; round++) {
		struct spar_seq *batch[2][COMPANY];
		size_t n = 0;
		for (uint32_t i = 0; i < COMPANY; i++) {
			size_t len = spar_seq_len(seqs[0][i]), more = 1 + below(6, 23, round, i);
			bool again = len == TOKENS || below(10, 24, round, i) == 0;
			for (uint32_t k = below(TOKENS, 25, round, i); again && k < TOKENS; k++)
				ids[i][k] = (int32_t)below(4, 26, round * COMPANY + i, k);
			for (int tensors = 0; tensors < 2; tensors++) {
				if (again) {
					spar_seq_free(seqs[tensors][i]);
					seqs[tensors][i] = spar_seq_new(engines[tensors]);
				}
				size_t from = again ? 0 : len;
				spar_seq_append(seqs[tensors][i], ids[i] + from,
						more < TOKENS - from ? more : TOKENS - from);
				batch[tensors][n] = seqs[tensors][i];
			}
			n++;
		}
		for (int tensors = 0; tensors < 2; tensors++)
			CHECK(spar_engine_run(engines[tensors], batch[tensors], n, logits[tensors], &err) == 0);
		for (size_t i = 0; i < n * VOCAB; i++)
			if (i % VOCAB < VOCAB - 2)
				worst_seen = fmax(worst_seen, fabs((double)logits[0][i] - logits[1][i]));
			else
				CHECK(logits[1][i] == -INFINITY);
		if (round == ROUNDS / 2) { /* new weights: those it has, here */
			for (int tensors = 0; tensors < 2; tensors++) {
				for (size_t i = 0; i < COMPANY; i++) {
					spar_seq_free(seqs[tensors][i]);
					seqs[tensors][i] = NULL;
				}
				CHECK(spar_engine_reload(engines[tensors], m, &err) == 0);
				for (size_t i = 0; i < COMPANY; i++)
					seqs[tensors][i] = spar_seq_new(engines[tensors]);
			}
		}
	}
	struct spar_engine_stats stats;
	spar_engine_stats(engines[1], &stats);
	CHECK_NEAR(worst_seen, 0, tolerance);
	CHECK_STR(stats.kernel, "tensors");
	CHECK(stats.tokens_reused > 0 && stats.tokens_computed > 45 * 16); /* more than there is room for */
	CHECK(stats.kv_bytes > cache_size / 2 && stats.kv_bytes <= cache_size);
	for (int tensors = 0; tensors < 2; tensors++) {
		for (size_t i = 0; i < COMPANY; i++)
			spar_seq_free(seqs[tensors][i]);
		spar_engine_free(engines[tensors]);
		free(logits[tensors]);
	}
}

/* Two clipped AdamW steps against the formulas. */
static void check_adamw(struct spar_graph *g, const struct spar_model *m)
{
	static float logprobs[MAX_REFS];
	struct spar_pack *p = make_pack(3, 1);
	size_t n = total(g), n_params;
	struct spar_param *params = spar_config_params(&m->config, &n_params);
	double *m1 = spar_calloc(n, sizeof *m1), *m2 = spar_calloc(n, sizeof *m2);
	CHECK(spar_graph_count(g) == n_params);
	for (unsigned step = 1; step <= 2; step++) {
		struct spar_adamw how = {1e-2, 0.9, 0.99, 1e-8, 0.1, 1e-3, step};
		struct spar_step_report report;
		float *w = all(g, SPAR_GRAPH_WEIGHT), *after;
		loss(g, p, SPAR_GRAPH_TRAIN, logprobs);
		float *d = all(g, SPAR_GRAPH_GRAD);
		CHECK(spar_graph_step(g, &how, &report, &err) == 0);
		after = all(g, SPAR_GRAPH_WEIGHT);
		double norm = 0, most = 0;
		size_t changed = 0;
		for (size_t i = 0; i < n; i++)
			norm += (double)d[i] * d[i];
		norm = sqrt(norm);
		CHECK_NEAR(report.grad_norm / norm, 1, 1e-5);
		CHECK(report.finite && report.n_trained == n && norm > how.max_grad_norm);
		for (size_t i = 0, at = 0; i < n_params; i++)
			for (size_t k = spar_param_elements(&params[i]); k > 0; k--, at++) {
				double c = d[at] * how.max_grad_norm / (norm + 1e-6), x = w[at];
				m1[at] = 0.9 * m1[at] + 0.1 * c;
				m2[at] = 0.99 * m2[at] + 0.01 * c * c;
				x *= params[i].cols ? 1 - 1e-2 * 0.1 : 1;
				x -= 1e-2 * (m1[at] / (1 - pow(0.9, step))) /
				     (sqrt(m2[at] / (1 - pow(0.99, step))) + 1e-8);
				most = fmax(most, fabs(x - after[at]));
				changed += after[at] != w[at];
			}
		CHECK(most < 1e-5);
		CHECK(report.n_changed == changed && changed > n / 2);
		free(w);
		free(d);
		free(after);
	}
	free(m1);
	free(m2);
	free(params);
	spar_pack_free(p);
}

/* A gradient that is not finite changes nothing and is dropped; a rate of 0 changes nothing and says so. */
static void check_refused_steps(struct spar_graph *g)
{
	struct spar_pack *p = make_pack(2, 1);
	float *logprobs = spar_malloc(p->n_targets * sizeof *logprobs), *before = all(g, SPAR_GRAPH_WEIGHT);
	struct spar_adamw how = {0, 0.9, 0.99, 1e-8, 0, 0, 3};
	struct spar_step_report report;
	for (int finite = 0; finite < 2; finite++) {
		CHECK(spar_graph_forward(g, p, 1, SPAR_GRAPH_TRAIN, logprobs, NULL, NULL, &err) == 0);
		for (size_t i = 0; i < p->n_targets; i++)
			logprobs[i] = finite ? 1 : INFINITY;
		CHECK(spar_graph_backward(g, logprobs, NULL, &err) == 0);
		how.learning_rate = finite ? 0 : 1;
		CHECK(spar_graph_step(g, &how, &report, &err) == 0);
		CHECK(report.finite == finite && report.n_changed == 0);
		float *after = all(g, SPAR_GRAPH_WEIGHT), *grads = all(g, SPAR_GRAPH_GRAD);
		CHECK(memcmp(before, after, total(g) * sizeof *after) == 0);
		for (size_t i = 0; i < total(g); i++)
			if (grads[i] != 0) {
				CHECK(!"gradients were dropped");
				break;
			}
		free(after);
		free(grads);
	}
	free(before);
	free(logprobs);
	spar_pack_free(p);
}

/* The logprobs of what `dir` holds. */
static void from_folder(const char *dir, const struct spar_pack *p, float *logprobs)
{
	struct spar_model m;
	struct spar_graph *g = NULL;
	CHECK(spar_model_open(&m, dir, &err) == 0);
	CHECK(spar_graph_new(&g, &m, &(struct spar_graph_opt){.frozen = true}, &err) == 0);
	loss(g, p, SPAR_GRAPH_INFER, logprobs);
	spar_graph_free(g);
	spar_model_close(&m);
}

static void check_lora(const struct spar_model *m, const char *dir)
{
	static float base[MAX_REFS], adapted[MAX_REFS], other[MAX_REFS];
	struct spar_pack *p = make_pack(1, 1);
	struct spar_lora_config l;
	struct spar_graph *g = NULL, *again = NULL;
	from_folder(m->dir, p, base);
	CHECK(spar_lora_parse(&l, "r=3,alpha=6,dropout=0.5,targets=q_proj+down_proj", &err) == 0);
	CHECK(spar_graph_new(&g, m, &(struct spar_graph_opt){.lora = &l, .seed = 5}, &err) == 0);
	CHECK(spar_graph_count(g) == 8 && !spar_graph_lora(g)->all_linear);
	CHECK_STR(spar_graph_name(g, 0), "model.layers.0.self_attn.q_proj.lora_A");
	loss(g, p, SPAR_GRAPH_INFER, adapted);
	CHECK(worst(base, adapted, p->n_refs) == 0); /* B is 0 */
	float *a = spar_malloc(3 * 16 * sizeof *a), most = 0;
	CHECK(spar_graph_get(g, 0, SPAR_GRAPH_WEIGHT, a, &err) == 0);
	for (int i = 0; i < 3 * 16; i++)
		most = fmaxf(most, fabsf(a[i]));
	CHECK(most <= 0.25 && most > 0.2); /* uniform below 1 / sqrt(16) */
	free(a);

	fill_b(g);
	loss(g, p, SPAR_GRAPH_INFER, adapted);
	CHECK(worst(base, adapted, p->n_refs) > 1e-2);
	loss(g, p, SPAR_GRAPH_REFERENCE, other);
	CHECK(worst(base, other, p->n_refs) == 0);

	/* dropout: a function of seed, step and how many forwards there were */
	static float first[MAX_REFS], second[MAX_REFS];
	spar_graph_reseed(g, 4);
	loss(g, p, SPAR_GRAPH_TRAIN, first);
	loss(g, p, SPAR_GRAPH_TRAIN, second);
	CHECK(worst(first, second, p->n_refs) > 1e-3 && worst(first, adapted, p->n_refs) > 1e-3);
	spar_graph_reseed(g, 4);
	loss(g, p, SPAR_GRAPH_TRAIN, other);
	CHECK(memcmp(first, other, p->n_refs * sizeof *first) == 0);
	spar_graph_zero(g);

	/* saved as an adapter, merged, and trained on */
	char *adapter = spar_path_join(dir, "adapter"), *merged = spar_path_join(dir, "merged");
	CHECK(spar_dir_make(adapter, &err) == 0 && spar_dir_make(merged, &err) == 0);
	CHECK(spar_graph_save(g, adapter, false, SPAR_F32, m->dir, &err) == 0);
	CHECK(spar_graph_save(g, merged, true, SPAR_F32, m->dir, &err) == 0);
	from_folder(adapter, p, other);
	CHECK(worst(adapted, other, p->n_refs) == 0);
	from_folder(merged, p, other);
	CHECK(worst(adapted, other, p->n_refs) == 0);
	struct spar_model continued;
	l.dropout = 0;
	CHECK(spar_model_open(&continued, adapter, &err) == 0);
	CHECK(spar_graph_new(&again, &continued, &(struct spar_graph_opt){.lora = &l}, &err) == 0);
	loss(again, p, SPAR_GRAPH_INFER, other);
	CHECK(worst(adapted, other, p->n_refs) == 0);
	loss(again, p, SPAR_GRAPH_REFERENCE, other);
	CHECK(worst(base, other, p->n_refs) == 0);
	check_sharing(again);
	check_slope(again);
	spar_graph_free(again);
	spar_model_close(&continued);
	spar_graph_free(g);
	spar_lora_release(&l);

	/* targets that do not exist */
	CHECK(spar_lora_parse(&l, "r=2,alpha=2,targets=query", &err) == 0);
	CHECK(spar_graph_new(&g, m, &(struct spar_graph_opt){.lora = &l}, &err) == 0);
	CHECK(spar_graph_lora(g)->all_linear && spar_graph_count(g) == 2 * 7 * 2);
	spar_graph_free(g);
	spar_lora_release(&l);
	free(adapter);
	free(merged);
	spar_pack_free(p);
}

/* Products in bfloat16 stay near those in float32. */
static void check_bf16(const struct spar_model *m)
{
	static float whole[MAX_REFS], half[MAX_REFS];
	struct spar_pack *p = make_pack(0, 1);
	struct spar_graph *g = NULL;
	struct spar_lora_config l;
	from_folder(m->dir, p, whole);
	CHECK(spar_lora_parse(&l, "r=3,alpha=6,targets=q_proj", &err) == 0);
	for (int way = 0; way < 4; way++) {
		struct spar_graph_opt opt = {.dtype = SPAR_BF16, .lora = way & 1 ? &l : NULL, .tensors = way & 2};
		CHECK(spar_graph_new(&g, m, &opt, &err) == 0);
		loss(g, p, SPAR_GRAPH_TRAIN, half);
		double mean = 0;
		for (size_t i = 0; i < p->n_refs; i++)
			mean += fabsf(whole[i] - half[i]) / (double)p->n_refs;
		CHECK(mean > 0 && mean < 0.05);
		spar_graph_free(g);
	}
	spar_lora_release(&l);
	spar_pack_free(p);
}

int main(void)
{
	char dir[] = "/tmp/graph.XXXXXX";
	static float saved[MAX_REFS], present[MAX_REFS];
	spar_rng_init(&rng, 11, "graph", 5);
	CHECK(mkdtemp(dir) != NULL);
	for (int tied = 0; tied < 2; tied++) {
		char *path = spar_path_join(dir, tied ? "tied" : "apart"), *out = spar_path_join(dir, "out");
		struct spar_model m;
		struct spar_graph *g = NULL;
		make_model(path, tied);
		CHECK(spar_model_open(&m, path, &err) == 0);
		CHECK(spar_graph_new(&g, &m, &(struct spar_graph_opt){.threads = 2}, &err) == 0);
		struct spar_graph *by_tensors = NULL;
		CHECK(spar_graph_new(&by_tensors, &m, &(struct spar_graph_opt){.threads = 2, .tensors = true}, &err) ==
		      0);
		check_sharing(g);
		check_sharing(by_tensors);
		check_twins(&m);
		check_device(&m, SPAR_F32, 2e-5);
		check_device(&m, SPAR_BF16, 0.4);
		check_sampler(&m, dir);
		check_checkpointing(&m);
		check_slope(g);
		check_slope(by_tensors);
		spar_graph_free(by_tensors);
		check_engine(&m);
		check_adamw(g, &m);
		check_refused_steps(g);
		struct spar_pack *p = make_pack(1, 1);
		CHECK(spar_dir_make(out, &err) == 0);
		CHECK(spar_graph_save(g, out, false, SPAR_F32, NULL, &err) == 0);
		loss(g, p, SPAR_GRAPH_INFER, present);
		from_folder(out, p, saved);
		CHECK(worst(present, saved, p->n_refs) == 0);
		if (tied)
			check_lora(&m, dir);
		check_bf16(&m);
		spar_pack_free(p);
		spar_graph_free(g);
		spar_model_close(&m);
		free(path);
		free(out);
	}
	CHECK(spar_dir_remove(dir, &err) == 0);
	return unit_done();
}
