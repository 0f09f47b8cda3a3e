/* The engine against its twin, and against itself: a float32 row must not depend on what was computed beside or before. */
#include "engine_twin.h"
#include "base/philox.h"
#include "model/engine.h"
#include "model/engine/kernel.h"
#include "unit.h"

#define N_TOKENS 60
#define MAX_VOCAB 101

static struct spar_engine *open_engine(const struct spar_model *m, struct spar_engine_opt opt)
{
	struct spar_err err = {0};
	struct spar_engine *e = NULL;
	CHECK(spar_engine_new(&e, m, &opt, &err) == 0);
	return e;
}

/* ids of a small alphabet, so that sequences meet. */
static void random_ids(uint64_t seed, int32_t *ids, size_t n, size_t alphabet)
{
	struct spar_rng rng;
	spar_rng_init(&rng, seed, "ids", 3);
	for (size_t i = 0; i < n; i++)
		ids[i] = (int32_t)(spar_rng_uniform(&rng, (uint32_t)i, 0, 0, 0) * (double)alphabet);
}

/* ---- the twin ---- */

static void against_twin(const struct spar_model *m, const char *kernel, enum spar_dtype dtype, double tolerance)
{
	size_t vocab = m->config.vocab_size;
	int32_t ids[N_TOKENS];
	random_ids(1, ids, N_TOKENS, vocab);
	struct twin t;
	twin_init(&t, m, dtype == SPAR_BF16);
	double *want = spar_malloc(N_TOKENS * vocab * sizeof *want);
	twin_logits(&t, ids, N_TOKENS, want);

	struct spar_engine *e = open_engine(m, (struct spar_engine_opt){.dtype = dtype, .kernel = kernel});
	float got[MAX_VOCAB];
	struct spar_err err = {0};
	struct spar_seq *s = spar_seq_new(e);
	const size_t stops[] = {1, 2, 16, 17, 37, N_TOKENS};
	double worst = 0;
	for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
		spar_seq_append(s, ids + spar_seq_len(s), stops[i] - spar_seq_len(s));
		CHECK(spar_engine_run(e, &s, 1, got, &err) == 0);
		for (size_t j = 0; j < vocab; j++)
			worst = fmax(worst, fabs(got[j] - want[(stops[i] - 1) * vocab + j]));
	}
	printf("%s %s: at most %.2g from the twin\n", kernel, spar_dtype_name(dtype), worst);
	CHECK_NEAR(worst, 0, tolerance);
	CHECK(worst > 0);
	spar_seq_free(s);
	spar_engine_free(e);
	twin_release(&t);
	free(want);
}

/* ---- invariance ---- */

#define N_SEQS 14
#define SMALL 300000 /* bytes of cache: some sequences must go before others can come */
#define TOO_SMALL 200000

/* Logits after every token of ids, computed alone and token by token. */
static float *alone(const struct spar_model *m, const char *kernel, enum spar_dtype dtype, const int32_t *ids, size_t n)
{
	struct spar_engine *e =
	    open_engine(m, (struct spar_engine_opt){.dtype = dtype, .kernel = kernel, .threads = 1});
	float *logits = spar_malloc(n * m->config.vocab_size * sizeof *logits);
	struct spar_seq *s = spar_seq_new(e);
	for (size_t i = 0; i < n; i++) {
		spar_seq_append(s, ids + i, 1);
		CHECK(spar_engine_run(e, &s, 1, logits + i * m->config.vocab_size, NULL) == 0);
	}
	spar_seq_free(s);
	spar_engine_free(e);
	return logits;
}

/* Sequences that branch at random places, fed in random portions, in random company, some freed and begun again: every row
 * has the bits it has alone. A small cache evicts what is not alive; one that is too small makes runs fail, and what comes
 * after them must still be right. */
static void in_company(const struct spar_model *m, const char *kernel, enum spar_dtype dtype, int threads,
		       size_t cache_size, uint64_t seed)
{
	size_t vocab = m->config.vocab_size;
	int32_t ids[N_SEQS][N_TOKENS];
	float *want[N_SEQS], *got = spar_malloc(N_SEQS * vocab * sizeof *got);
	struct spar_seq *seqs[N_SEQS];
	struct spar_rng rng;
	spar_rng_init(&rng, seed, "company", 7);
	struct spar_engine *e =
	    open_engine(m, (struct spar_engine_opt){
			       .dtype = dtype, .kernel = kernel, .threads = threads, .kv_cache_size = cache_size});
	for (uint32_t i = 0; i < N_SEQS; i++) {
		random_ids(seed + i, ids[i], N_TOKENS, 4);
		if (i) /* branch off an earlier one */
			memcpy(ids[i], ids[(size_t)(spar_rng_uniform(&rng, i, 0, 0, 0) * i)],
			       (size_t)(spar_rng_uniform(&rng, i, 1, 0, 0) * N_TOKENS) * sizeof **ids);
		want[i] = alone(m, kernel, dtype, ids[i], N_TOKENS);
		seqs[i] = spar_seq_new(e);
	}
	size_t n_wrong = 0, n_rows = 0, n_failed = 0;
	for (uint32_t round = 1; round <= 60; round++) {
		struct spar_seq *batch[N_SEQS];
		uint32_t who[N_SEQS], n = 0;
		for (uint32_t i = 0; i < N_SEQS; i++) {
			double u = spar_rng_uniform(&rng, round, i, 0, 1);
			size_t len = spar_seq_len(seqs[i]), more = 1 + (size_t)(u * u * u * 40);
			if (u < 0.1 || len == N_TOKENS) {
				spar_seq_free(seqs[i]);
				seqs[i] = spar_seq_new(e);
				len = 0;
			} else if (u < 0.4) {
				continue;
			}
			more = more < N_TOKENS - len ? more : N_TOKENS - len;
			spar_seq_append(seqs[i], ids[i] + len, more);
			batch[n] = seqs[i];
			who[n++] = i;
		}
		struct spar_err err = {0};
		int rc = spar_engine_run(e, batch, n, got, &err);
		CHECK(rc == 0 || (rc == -SPAR_FAIL && cache_size));
		n_failed += rc < 0;
		for (uint32_t b = 0; rc == 0 && b < n; b++, n_rows++)
			n_wrong += memcmp(got + b * vocab, want[who[b]] + (spar_seq_len(batch[b]) - 1) * vocab,
					  vocab * sizeof *got) != 0;
	}
	printf("%s, %d threads, cache %zu: %zu rows, %zu wrong, %zu runs failed\n", kernel ? kernel : "best", threads,
	       cache_size, n_rows, n_wrong, n_failed);
	CHECK(n_rows > 200 && n_wrong == 0);
	CHECK((n_failed > 0) == (cache_size == TOO_SMALL));
	struct spar_engine_stats stats;
	spar_engine_stats(e, &stats);
	CHECK(stats.tokens_reused > 0);
	CHECK(!cache_size || (stats.kv_bytes <= cache_size && stats.kv_bytes > cache_size - cache_size / 8));
	for (size_t i = 0; i < N_SEQS; i++) {
		spar_seq_free(seqs[i]);
		free(want[i]);
	}
	spar_engine_free(e);
	free(got);
}

/* A prompt of several passes, cut where a pass does not end. */
static void long_prompt(const struct spar_model *m)
{
	enum { N = 500 };
	size_t vocab = m->config.vocab_size;
	int32_t ids[N];
	random_ids(2, ids, N, vocab);
	float *want = alone(m, NULL, SPAR_F32, ids, N), *got = spar_malloc(vocab * sizeof *got);
	struct spar_engine *e = open_engine(m, (struct spar_engine_opt){0});
	struct spar_seq *s = spar_seq_new(e);
	for (size_t at = 0, n = 403; at < N; at += n, n = N - at) {
		spar_seq_append(s, ids + at, n);
		CHECK(spar_engine_run(e, &s, 1, got, NULL) == 0);
		CHECK(!memcmp(got, want + (at + n - 1) * vocab, vocab * sizeof *got));
	}
	spar_seq_free(s);
	spar_engine_free(e);
	free(want);
	free(got);
}

/* ---- sharing ---- */

static uint64_t computed(const struct spar_engine *e)
{
	struct spar_engine_stats stats;
	spar_engine_stats(e, &stats);
	return stats.tokens_computed;
}

static void sharing(const struct spar_model *m)
{
	size_t vocab = m->config.vocab_size;
	int32_t ids[N_TOKENS + 1];
	random_ids(3, ids, N_TOKENS, vocab);
	struct spar_engine *e = open_engine(m, (struct spar_engine_opt){0});
	struct spar_seq *group[8];
	float *logits = spar_malloc(8 * vocab * sizeof *logits);
	for (size_t i = 0; i < 8; i++) {
		group[i] = spar_seq_new(e);
		spar_seq_append(group[i], ids, i == 5 ? 20 : 30); /* one of them is a beginning of the others */
	}
	CHECK(spar_engine_run(e, group, 8, logits, NULL) == 0);
	CHECK(computed(e) <= 31);
	for (size_t i = 1; i < 8; i++)
		CHECK((memcmp(logits, logits + i * vocab, vocab * sizeof *logits) == 0) == (i != 5));

	uint64_t before = computed(e);
	for (int32_t i = 0; i < 8; i++)
		spar_seq_append(group[i], &i, 1);
	CHECK(spar_engine_run(e, group, 8, logits, NULL) == 0);
	CHECK(computed(e) - before == 8);
	for (size_t i = 0; i < 8; i++)
		spar_seq_free(group[i]);

	before = computed(e); /* the next turn of one of them: only what is new */
	ids[30] = 7;
	struct spar_seq *s = spar_seq_new(e);
	spar_seq_append(s, ids, 40);
	CHECK(spar_engine_run(e, &s, 1, logits, NULL) == 0);
	CHECK(computed(e) - before == 9);
	before = computed(e); /* all is cached: the last token again, same bits */
	struct spar_seq *again = spar_seq_new(e);
	spar_seq_append(again, ids, 40);
	CHECK(spar_engine_run(e, &again, 1, logits + vocab, NULL) == 0);
	CHECK(computed(e) - before == 1);
	CHECK(!memcmp(logits, logits + vocab, vocab * sizeof *logits));
	spar_seq_free(again);
	spar_seq_free(s);
	spar_engine_free(e);
	free(logits);
}

/* ---- failing, and going on ---- */

static void refusals(const struct spar_model *m)
{
	size_t vocab = m->config.vocab_size;
	int32_t ids[600];
	random_ids(4, ids, 600, vocab);
	float *logits = spar_malloc(2 * vocab * sizeof *logits), *want = alone(m, NULL, SPAR_F32, ids, 20);
	struct spar_err err = {0};
	struct spar_engine *e = NULL;
	struct spar_engine_opt opt = {.kernel = "abacus"};
	CHECK(spar_engine_new(&e, m, &opt, &err) == -SPAR_USAGE && !e);
	CHECK(strstr(err.msg, "abacus") != NULL);
	opt = (struct spar_engine_opt){.dtype = SPAR_I64};
	CHECK(spar_engine_new(&e, m, &opt, &err) == -SPAR_USAGE && !e);

	opt = (struct spar_engine_opt){.kv_cache_size = 1 << 17, .vocab_limit = vocab - 3};
	e = open_engine(m, opt);
	struct spar_seq *s = spar_seq_new(e);
	CHECK(spar_engine_run(e, &s, 1, logits, &err) == -SPAR_FAIL);
	spar_seq_append(s, ids, 513);
	CHECK(spar_engine_run(e, &s, 1, logits, &err) == -SPAR_INPUT);
	CHECK_STR(err.msg, "513 tokens do not fit the model's context of 512");
	spar_seq_free(s);
	s = spar_seq_new(e);
	spar_seq_append(s, (int32_t[]){1, (int32_t)vocab}, 2);
	CHECK(spar_engine_run(e, &s, 1, logits, &err) == -SPAR_INPUT);
	spar_seq_free(s);
	s = spar_seq_new(e);
	spar_seq_append(s, (int32_t[]){-1}, 1);
	CHECK(spar_engine_run(e, &s, 1, logits, &err) == -SPAR_INPUT);
	spar_seq_free(s);

	struct spar_seq *two[2] = {spar_seq_new(e), spar_seq_new(e)};
	spar_seq_append(two[0], ids, 20);
	spar_seq_append(two[1], ids + 20, 500);
	CHECK(spar_engine_run(e, two, 2, logits, &err) == -SPAR_FAIL);
	CHECK_STR(err.msg, "a cache of 131072 bytes cannot hold the live sequences");
	spar_seq_free(two[1]);
	CHECK(spar_engine_run(e, two, 1, logits, &err) == 0); /* the other can go on */
	CHECK(!memcmp(logits, want + 19 * vocab, (vocab - 3) * sizeof *logits));
	CHECK(logits[vocab - 4] > -INFINITY);
	CHECK(logits[vocab - 3] == -INFINITY && logits[vocab - 1] == -INFINITY);
	spar_seq_free(two[0]);
	spar_engine_free(e);
	free(logits);
	free(want);
}

static void teacher_forcing(const struct spar_model *m)
{
	size_t vocab = m->config.vocab_size;
	int32_t ids[N_TOKENS];
	random_ids(5, ids, N_TOKENS, vocab);
	float *want = alone(m, NULL, SPAR_F32, ids, N_TOKENS), got[N_TOKENS - 1];
	struct spar_engine *e = open_engine(m, (struct spar_engine_opt){0});
	for (int round = 0; round < 2; round++) { /* then from the cache */
		CHECK(spar_engine_logprobs(e, ids, N_TOKENS, 0.7, got, NULL) == 0);
		for (size_t i = 0; i + 1 < N_TOKENS; i++) {
			const float *row = want + i * vocab;
			double target = row[ids[i + 1]] / 0.7, odds = 0; /* sum of p / p[target] */
			for (size_t j = 0; j < vocab; j++)
				odds += exp(row[j] / 0.7 - target);
			CHECK_NEAR(exp(got[i]) * odds, 1, 1e-5);
		}
	}
	spar_engine_free(e);
	free(want);
}

static void new_weights(struct spar_model m)
{
	size_t vocab = m.config.vocab_size;
	int32_t ids[20];
	random_ids(6, ids, 20, vocab);
	float *old = alone(&m, NULL, SPAR_F32, ids, 20), logits[MAX_VOCAB];
	struct spar_engine *e = open_engine(&m, (struct spar_engine_opt){0});
	struct spar_seq *s = spar_seq_new(e);
	spar_seq_append(s, ids, 20);
	CHECK(spar_engine_run(e, &s, 1, logits, NULL) == 0);
	m.has_adapter = true;
	struct spar_err err = {0};
	CHECK(spar_engine_reload(e, &m, &err) == -SPAR_FAIL); /* s is alive */
	spar_seq_free(s);
	CHECK(spar_engine_reload(e, &m, &err) == 0);
	float *now = alone(&m, NULL, SPAR_F32, ids, 20);
	s = spar_seq_new(e);
	spar_seq_append(s, ids, 20);
	CHECK(spar_engine_run(e, &s, 1, logits, NULL) == 0);
	CHECK(!memcmp(logits, now + 19 * vocab, vocab * sizeof *logits));
	CHECK(memcmp(old, now, vocab * sizeof *old) != 0);
	spar_seq_free(s);
	m.config.n_layers++;
	CHECK(spar_engine_reload(e, &m, &err) == -SPAR_INPUT);
	spar_engine_free(e);
	free(old);
	free(now);
}

/* An adapter comes, another one follows, and none: on one base only what they change is read again. */
static void adapters(struct spar_model m)
{
	size_t vocab = m.config.vocab_size;
	int32_t ids[20];
	float logits[3][MAX_VOCAB];
	char *q = "q_proj", *down = "down_proj";
	random_ids(7, ids, 20, vocab);
	m.base_hash = 7;
	struct spar_engine *e = open_engine(&m, (struct spar_engine_opt){0});
	for (size_t i = 0; i < 3; i++) {
		m.has_adapter = i < 2;
		m.lora.targets = i ? &down : &q;
		m.lora.n_targets = m.has_adapter;
		CHECK(spar_engine_reload(e, &m, NULL) == 0);
		float *want = alone(&m, NULL, SPAR_F32, ids, 20);
		struct spar_seq *s = spar_seq_new(e);
		spar_seq_append(s, ids, 20);
		CHECK(spar_engine_run(e, &s, 1, logits[i], NULL) == 0);
		CHECK(!memcmp(logits[i], want + 19 * vocab, vocab * sizeof *want));
		CHECK(!i || memcmp(logits[i], logits[i - 1], vocab * sizeof *want) != 0);
		spar_seq_free(s);
		free(want);
	}
	spar_engine_free(e);
}

/* All that other families have and Llama has not; two of three layers see seven positions, one turns nothing. */
static struct spar_model everything(void)
{
	struct spar_model m = twin_model(3, 40, 52, 101, 6, 2, 10, true);
	struct spar_config *c = &m.config;
	c->qkv_bias = c->o_bias = c->mlp_bias = c->qk_norm = c->post_norms = true;
	c->norm = SPAR_NORM_RMS_PLUS_ONE;
	c->activation = SPAR_ACTIVATION_GELU_TANH;
	c->embedding_scale = 6;
	c->attention_cap = c->logit_cap = 3;
	c->window = 7;
	c->layers[0].windowed = c->layers[2].windowed = true;
	c->layers[1].rope = -1;
	return m;
}

int main(void)
{
	struct spar_model models[] = {
	    twin_model(2, 40, 52, 101, 6, 2, 10, true),   /* padded heads, odd ends of panels */
	    twin_model(3, 64, 100, 96, 4, 4, 16, false),  /* a head of its own; no grouped queries */
	    twin_model(1, 48, 96, 50, 14, 1, 20, true),   /* more queries for a key than a tile holds */
	    twin_model(2, 144, 200, 101, 9, 3, 64, true), /* several panels, wide heads */
	};
	const struct spar_kernel *kernel;
	for (size_t k = 0; (kernel = spar_kernel_at(k)); k++) {
		if (!spar_kernel_usable(kernel)) {
			printf("%s: this processor does not have it\n", kernel->name);
			continue;
		}
		for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
			against_twin(&models[i], kernel->name, SPAR_BF16, 0.2);
			in_company(&models[i], kernel->name, SPAR_BF16, 2, 0, 50 + i);
			if (!kernel->f32.gemm)
				continue;
			against_twin(&models[i], kernel->name, SPAR_F32, 1e-4);
			in_company(&models[i], kernel->name, SPAR_F32, 2, 0, 10 + i);
		}
	}
	in_company(&models[0], "portable", SPAR_F32, 3, SMALL, 99);
	in_company(&models[0], "portable", SPAR_F32, 3, TOO_SMALL, 99);
	struct spar_model other = everything();
	in_company(&other, NULL, SPAR_F32, 2, 0, 30);
	in_company(&other, "portable", SPAR_F32, 3, 3 * SMALL / 2, 31);
	long_prompt(&other);
	long_prompt(&models[0]);
	sharing(&models[0]);
	refusals(&models[0]);
	teacher_forcing(&models[1]);
	new_weights(models[0]);
	adapters(models[0]);
	return unit_done();
}
