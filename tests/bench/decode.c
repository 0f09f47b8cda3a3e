/* decode - tokens per second of the engine, sampling included: sequences in groups that share a prompt, random weights in the
 * shape of a 135M-parameter Llama (or --tiny). One JSON line per measurement.
 *	decode [--tiny] [--threads N] [--kernel NAME] [--dtype float32|bfloat16] [--groups N] [--prompt-tokens N]
 *	       [--new-tokens N] [--rounds N] [N_SEQUENCES...]	(one group, 350, 64, 2; 1 8 64)
 * All is done in two rounds, as a trainer does it, with new weights and an empty cache; the last one is measured. The first
 * has the system find the cache's memory, which others do before they begin.
 */
#include "base/opt.h"
#include "base/philox.h"
#include "model/engine.h"
#include "model/sample.h"
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct work {
	int64_t groups, prompt_tokens, new_tokens, rounds; /* sequence i is in group i % groups */
};

struct times {
	double prompt_s, decode_s;
	double *steps_s; /* (new_tokens), sorted */
};

static const struct spar_config llama_135m = {
    .n_layers = 30,
    .hidden_size = 576,
    .intermediate_size = 1536,
    .vocab_size = 49152,
    .n_heads = 9,
    .n_kv_heads = 3,
    .head_dim = 64,
    .max_position = 2048,
    .norm_eps = 1e-5f,
    .ropes = {{.theta = 100000}, {.theta = 100000}},
    .tie_word_embeddings = true,
};

static const struct spar_config tiny = {
    .n_layers = 4,
    .hidden_size = 128,
    .intermediate_size = 384,
    .vocab_size = 1024,
    .n_heads = 4,
    .n_kv_heads = 2,
    .head_dim = 32,
    .max_position = 2048,
    .norm_eps = 1e-5f,
    .ropes = {{.theta = 10000}, {.theta = 10000}},
    .tie_word_embeddings = true,
};

/* In place of lib/model/model.c, which reads folders: small random weights, norms of one. */
int spar_model_fetch(const struct spar_model *m, const struct spar_param *p, bool base_only, float *out,
		     struct spar_err *err)
{
	(void)m, (void)base_only, (void)err;
	uint32_t state = 1;
	for (size_t i = 0; i < spar_param_elements(p); i++) {
		state = state * 1664525 + 1013904223;
		out[i] = p->cols ? ((float)(state >> 8) * 0x1p-23f - 1) * 0.05f : 1;
	}
	return 0;
}

/* Sample the next token of every sequence and append it. */
static void extend(struct spar_seq **seqs, size_t n, const float *logits, size_t vocab, float *scratch, uint32_t step)
{
	const struct spar_sampling how = {.temperature = 1, .top_p = 1};
#pragma omp parallel for schedule(static)
	for (size_t i = 0; i < n; i++) {
		struct spar_rng rng;
		struct spar_sampled token = {0, 0, 0};
		spar_rng_init(&rng, 1, "decode", 6);
		spar_sample(logits + i * vocab, vocab, &how, spar_rng_uniform(&rng, (uint32_t)i, step, 0, 0),
			    scratch + (size_t)omp_get_thread_num() * 2 * vocab, &token);
		spar_seq_append(seqs[i], &token.id, 1);
	}
}

/* What the sequences of a group begin with; another prompt for another number of sequences: nothing is cached. */
static void begin(struct spar_seq *seq, const struct work *w, int64_t group, size_t vocab, size_t n)
{
	for (int64_t i = 0; i < w->prompt_tokens; i++) {
		int32_t id = (int32_t)(((size_t)(i * 7919 + group * 104729) + n) % vocab);
		spar_seq_append(seq, &id, 1);
	}
}

static int by_size(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;
	return (a > b) - (a < b);
}

/* The sequences' prompts and then their new tokens. */
static int generate(struct spar_engine *e, const struct work *w, size_t vocab, size_t n, struct times *t,
		    struct spar_err *err)
{
	struct spar_seq **seqs = spar_calloc(n, sizeof *seqs);
	float *logits = spar_malloc(n * vocab * sizeof *logits),
	      *scratch = spar_malloc((size_t)omp_get_max_threads() * 2 * vocab * sizeof *scratch);
	for (size_t i = 0; i < n; i++) {
		seqs[i] = spar_seq_new(e);
		begin(seqs[i], w, (int64_t)i % w->groups, vocab, n);
	}
	double start = spar_clock_s();
	int rc = spar_engine_run(e, seqs, n, logits, err);
	t->prompt_s = spar_clock_s() - start;
	t->decode_s = 0;
	for (int64_t step = 0; rc == 0 && step < w->new_tokens; step++) {
		start = spar_clock_s();
		extend(seqs, n, logits, vocab, scratch, (uint32_t)step);
		rc = spar_engine_run(e, seqs, n, logits, err);
		t->decode_s += t->steps_s[step] = spar_clock_s() - start;
	}
	qsort(t->steps_s, (size_t)w->new_tokens, sizeof *t->steps_s, by_size);
	for (size_t i = 0; i < n; i++)
		spar_seq_free(seqs[i]);
	free(seqs);
	free(logits);
	free(scratch);
	return rc;
}

static int measure(struct spar_engine *e, const struct spar_model *m, const struct work *w, size_t n, const char *dtype,
		   struct spar_err *err)
{
	struct times t = {.steps_s = spar_calloc((size_t)w->new_tokens, sizeof *t.steps_s)};
	struct spar_engine_stats stats;
	int rc = 0;
	for (int64_t round = 0; rc == 0 && round < w->rounds; round++)
		if ((rc = spar_engine_reload(e, m, err)) == 0)
			rc = generate(e, w, m->config.vocab_size, n, &t, err);
	spar_engine_stats(e, &stats);
	if (rc == 0)
		printf("{\"bench\":\"decode\",\"kernel\":\"%s\",\"dtype\":\"%s\",\"sequences\":%zu,\"groups\":%lld,"
		       "\"prompt_tokens\":%lld,\"prompt_s\":%.4f,\"decode_s\":%.4f,\"prompt_tokens_per_s\":%.0f,"
		       "\"tokens_per_s\":%.0f,\"median_step_tokens_per_s\":%.0f,\"fastest_step_tokens_per_s\":%.0f,"
		       "\"weight_bytes\":%zu,\"kv_bytes\":%zu}\n",
		       stats.kernel, dtype, n, (long long)w->groups, (long long)w->prompt_tokens, t.prompt_s,
		       t.decode_s, (double)(w->groups * w->prompt_tokens) / t.prompt_s,
		       (double)n * (double)w->new_tokens / t.decode_s, (double)n / t.steps_s[w->new_tokens / 2],
		       (double)n / t.steps_s[0], stats.weight_bytes, stats.kv_bytes);
	fflush(stdout);
	free(t.steps_s);
	return rc;
}

int main(int argc, char **argv)
{
	bool small = false;
	int64_t threads = 0;
	int dtype = 1;
	const char *kernel = NULL;
	struct work w = {.groups = 1, .prompt_tokens = 350, .new_tokens = 64, .rounds = 2};
	static const char *const dtypes[] = {"float32", "bfloat16", NULL};
	const struct spar_opt table[] = {
	    SPAR_OPT_FLAG("tiny", 0, &small, "a model of 1M parameters"),
	    SPAR_OPT_INT("threads", 't', &threads, 0, 4096, "N", "threads (0: all cores)"),
	    SPAR_OPT_STR("kernel", 'k', &kernel, "NAME", "kernel (the best)"),
	    SPAR_OPT_CHOICE("dtype", 'd', &dtype, dtypes, "TYPE", "float32 or bfloat16 (bfloat16)"),
	    SPAR_OPT_INT("groups", 'g', &w.groups, 1, 4096, "N", "groups that the sequences are spread over (1)"),
	    SPAR_OPT_INT("prompt-tokens", 0, &w.prompt_tokens, 1, 1900, "N", "of each group's prompt (350)"),
	    SPAR_OPT_INT("new-tokens", 0, &w.new_tokens, 1, 100, "N", "of each sequence (64)"),
	    SPAR_OPT_INT("rounds", 0, &w.rounds, 1, 1000, "N", "of which the last is measured (2)"),
	    SPAR_OPT_END,
	};
	static const struct spar_usage usage = {"decode", "[options] [n_sequences...]", "Measures the engine."};
	int rest = spar_opt_parse(&usage, table, argc, argv);
	if (rest < 0)
		return -1 - rest;
	struct spar_model m = {.dir = "random", .config = small ? tiny : llama_135m};
	struct spar_engine_opt opt = {.dtype = dtype ? SPAR_BF16 : SPAR_F32, .threads = (int)threads, .kernel = kernel};
	struct spar_err err = {0};
	struct spar_engine *e = NULL;
	int rc = spar_engine_new(&e, &m, &opt, &err);
	static char *standard[] = {"1", "8", "64", NULL};
	for (char **arg = argv[rest] ? argv + rest : standard; rc == 0 && *arg; arg++) {
		int64_t n = 0;
		if (spar_parse_i64(*arg, 1, 4096, &n) < 0)
			rc = spar_fail(&err, SPAR_USAGE, "%s: not a number of sequences", *arg);
		else
			rc = measure(e, &m, &w, (size_t)n, dtypes[dtype], &err);
	}
	spar_engine_free(e);
	return rc < 0 ? spar_die("decode", &err) : 0;
}
