/* import.c - see import.h */
#include "model/import.h"
#include "base/file.h"
#include "model/gguf_names.h"
#include "model/import_parts.h"
#include "model/model.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct import {
	const struct spar_gguf *g;
	const struct spar_gguf_architecture *a;
	char key[128];
	uint64_t hidden, heads, head_dim, layers, context;
};

/* "llama.block_count": valid until the next call. */
static const char *key(struct import *im, const char *rest)
{
	snprintf(im->key, sizeof im->key, "%s.%s", im->a->name, rest);
	return im->key;
}

static bool is_gpt2(const struct import *im)
{
	return !strcmp(im->a->name, "gpt2");
}

/* ---- what the metadata say ---- */

/* A member of the architecture's and where config.json has it, in GPT-2's case too. */
static const struct member {
	const char *rest, *name, *gpt2;
	bool needed, fraction;
} members[] = {
    {"block_count", "num_hidden_layers", "n_layer", true, false},
    {"embedding_length", "hidden_size", "n_embd", true, false},
    {"feed_forward_length", "intermediate_size", "n_inner", true, false},
    {"attention.head_count", "num_attention_heads", "n_head", true, false},
    {"context_length", "max_position_embeddings", "n_positions", true, false},
    {"attention.head_count_kv", "num_key_value_heads", NULL, false, false},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", NULL, false, true},
    {"attention.layer_norm_epsilon", "layer_norm_epsilon", "layer_norm_epsilon", false, true},
    {"attention.sliding_window", "sliding_window", NULL, false, false},
    {"attn_logit_softcapping", "attn_logit_softcapping", NULL, false, true},
    {"final_logit_softcapping", "final_logit_softcapping", NULL, false, true},
    {"rope.freq_base", "rope_theta", NULL, false, true},
    {"rope.freq_base_swa", "rope_local_base_freq", NULL, false, true}, /* of windowed layers: Gemma 3 */
};
#define N_MEMBERS (sizeof members / sizeof *members)

/* Those that are read elsewhere, or say nothing new. */
static const char *const others[] = {"vocab_size",
				     "attention.key_length",
				     "attention.value_length",
				     "rope.dimension_count",
				     "rope.scaling.type",
				     "rope.scaling.factor",
				     "rope.scaling.original_context_length",
				     "rope.scaling.finetuned",
				     "tensor_data_layout"};

static bool is_known(const char *rest, size_t len)
{
	for (size_t i = 0; i < N_MEMBERS; i++)
		if (len == strlen(members[i].rest) && !memcmp(rest, members[i].rest, len))
			return true;
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (len == strlen(others[i]) && !memcmp(rest, others[i], len))
			return true;
	return false;
}

static int find_architecture(struct import *im, struct spar_err *err)
{
	struct spar_gguf_text name;
	int rc = spar_gguf_str(im->g, "general.architecture", &name, err);
	if (rc < 0)
		return rc;
	for (const struct spar_gguf_architecture *a = spar_gguf_architectures; a->name; a++)
		if (spar_gguf_text_is(name, a->name)) {
			im->a = a;
			return 0;
		}
	return spar_fail(err, SPAR_INPUT, "general.architecture: '%.*s' is not supported",
			 (int)(name.len < 40 ? name.len : 40), name.data);
}

/* Keys of the architecture's that are on and not known may change what the model computes. */
static int refuse_unknown(const struct import *im, struct spar_err *err)
{
	size_t n = strlen(im->a->name);
	for (size_t i = 0; i < spar_gguf_n_keys(im->g); i++) {
		struct spar_gguf_text k = spar_gguf_key(im->g, i);
		if (k.len > n && !memcmp(k.data, im->a->name, n) && k.data[n] == '.' && !spar_gguf_is_zero(im->g, i) &&
		    !is_known(k.data + n + 1, k.len - n - 1))
			return spar_fail(err, SPAR_INPUT, "%.*s: not supported", (int)(k.len < 100 ? k.len : 100),
					 k.data);
	}
	return 0;
}

static int get_or(struct import *im, const char *rest, uint64_t absent, uint64_t *out, struct spar_err *err)
{
	*out = absent;
	return spar_gguf_has(im->g, key(im, rest)) ? spar_gguf_u64(im->g, im->key, out, err) : 0;
}

static int read_sizes(struct import *im, struct spar_err *err)
{
	uint64_t values, rotary;
	int rc;
	if ((rc = spar_gguf_u64(im->g, key(im, "embedding_length"), &im->hidden, err)) < 0 ||
	    (rc = spar_gguf_u64(im->g, key(im, "attention.head_count"), &im->heads, err)) < 0 ||
	    (rc = spar_gguf_u64(im->g, key(im, "block_count"), &im->layers, err)) < 0 ||
	    (rc = spar_gguf_u64(im->g, key(im, "context_length"), &im->context, err)) < 0)
		return rc;
	uint64_t even = im->heads ? im->hidden / im->heads : 0;
	if ((rc = get_or(im, "attention.key_length", even, &im->head_dim, err)) < 0 ||
	    (rc = get_or(im, "attention.value_length", im->head_dim, &values, err)) < 0)
		return rc;
	if (values != im->head_dim)
		return spar_fail(err, SPAR_INPUT, "%s: not equal to key_length", key(im, "attention.value_length"));
	if ((rc = get_or(im, "rope.dimension_count", im->head_dim, &rotary, err)) < 0)
		return rc;
	if (rotary != im->head_dim)
		return spar_fail(err, SPAR_INPUT, "%s: %llu of %llu: partial rotary positions are not supported",
				 key(im, "rope.dimension_count"), (unsigned long long)rotary,
				 (unsigned long long)im->head_dim);
	return 0;
}

/* ---- config.json, generation_config.json: each member brings the comma before it ---- */

int spar_import_write(const char *dir, const char *name, const struct spar_str *s, struct spar_err *err)
{
	char *path = spar_path_join(dir, name);
	int rc = spar_file_write(path, s->data, s->len, err);
	free(path);
	return rc;
}

static int add_member(struct spar_str *s, struct import *im, const struct member *m, struct spar_err *err)
{
	const char *name = is_gpt2(im) ? m->gpt2 : m->name;
	uint64_t whole;
	double v;
	int rc = 0;
	if (!name || (!m->needed && !spar_gguf_has(im->g, key(im, m->rest))))
		return 0;
	spar_str_addf(s, ",\n  \"%s\": ", name);
	if (m->fraction && (rc = spar_gguf_double(im->g, key(im, m->rest), &v, err)) == 0) {
		size_t at = s->len;
		spar_str_add_float(s, (float)v); /* stored as float32: 1e-05, not 9.999999747378752e-06 */
		spar_str_adds(s, strpbrk(s->data + at, ".e") ? "" : ".0"); /* some readers tell 30 from 30.0 */
	}
	if (!m->fraction && (rc = spar_gguf_u64(im->g, key(im, m->rest), &whole, err)) == 0)
		spar_str_addf(s, "%llu", (unsigned long long)whole);
	return rc;
}

/* Ids that both config.json and generation_config.json carry. */
static int add_token_ids(struct spar_str *s, const struct spar_gguf *g, struct spar_err *err)
{
	static const char *const names[][2] = {{"tokenizer.ggml.bos_token_id", "bos_token_id"},
					       {"tokenizer.ggml.eos_token_id", "eos_token_id"},
					       {"tokenizer.ggml.padding_token_id", "pad_token_id"}};
	uint64_t id;
	int rc = 0;
	for (size_t i = 0; i < 3 && rc == 0; i++)
		if (spar_gguf_has(g, names[i][0]) && (rc = spar_gguf_u64(g, names[i][0], &id, err)) == 0)
			spar_str_addf(s, ",\n  \"%s\": %llu", names[i][1], (unsigned long long)id);
	return rc;
}

/* Llama 3's scaling is stored as what each frequency is divided by: say which of its parameters give these numbers. */
static int add_llama3(struct spar_str *s, const struct import *im, const struct spar_gguf_tensor *t,
		      struct spar_err *err)
{
	static const int factors[] = {8, 32};
	size_t n = im->head_dim / 2;
	if (t->cols || t->rows != n)
		return spar_fail(err, SPAR_INPUT, "tensor 'rope_freqs.weight': not of %zu numbers", n);
	float *stored = spar_calloc(3 * n + 1, sizeof *stored), *plain = stored + n, *scaled = plain + n;
	double theta = 10000;
	int rc = spar_gguf_f32(t, stored, err);
	if (rc == 0 && spar_gguf_has(im->g, "llama.rope.freq_base"))
		rc = spar_gguf_double(im->g, "llama.rope.freq_base", &theta, err);
	bool found = false;
	for (size_t i = 0; i < 2 && rc == 0 && !found; i++) {
		struct spar_rope rope = {.theta = theta, .factor = factors[i], .original_context = 8192};
		rope.low_freq_factor = 1;
		rope.high_freq_factor = 4;
		spar_rope_frequencies(&rope, im->head_dim, plain);
		rope.type = SPAR_ROPE_LLAMA3;
		spar_rope_frequencies(&rope, im->head_dim, scaled);
		found = true;
		for (size_t k = 0; k < n && found; k++)
			found = fabsf(plain[k] / scaled[k] - stored[k]) <= 1e-3f * stored[k];
		if (found)
			spar_str_addf(s,
				      ",\n  \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": %d, "
				      "\"low_freq_factor\": 1, "
				      "\"high_freq_factor\": 4, \"original_max_position_embeddings\": 8192}",
				      factors[i]);
	}
	free(stored);
	if (rc == 0 && !found)
		rc = spar_fail(err, SPAR_INPUT, "tensor 'rope_freqs.weight': factors of no scaling that is known");
	return rc;
}

static int add_rope_scaling(struct spar_str *s, struct import *im, struct spar_err *err)
{
	const struct spar_gguf_tensor *t = spar_gguf_find(im->g, "rope_freqs.weight");
	struct spar_gguf_text type;
	double factor;
	uint64_t original;
	int rc;
	if (t)
		return add_llama3(s, im, t, err);
	if (!spar_gguf_has(im->g, key(im, "rope.scaling.type")))
		return 0;
	if ((rc = spar_gguf_str(im->g, im->key, &type, err)) < 0 || spar_gguf_text_is(type, "none"))
		return rc;
	bool yarn = spar_gguf_text_is(type, "yarn");
	if (!yarn && !spar_gguf_text_is(type, "linear"))
		return spar_fail(err, SPAR_INPUT, "%s: '%.*s' is not supported", im->key,
				 (int)(type.len < 40 ? type.len : 40), type.data);
	if ((rc = spar_gguf_double(im->g, key(im, "rope.scaling.factor"), &factor, err)) < 0 ||
	    (rc = get_or(im, "rope.scaling.original_context_length", im->context, &original, err)) < 0)
		return rc;
	spar_str_addf(s, ",\n  \"rope_scaling\": {\"rope_type\": \"%s\", \"factor\": ", yarn ? "yarn" : "linear");
	spar_str_add_float(s, (float)factor);
	if (yarn)
		spar_str_addf(s, ", \"original_max_position_embeddings\": %llu", (unsigned long long)original);
	spar_str_addc(s, '}');
	return 0;
}

/* What follows from the architecture alone, or from which tensors there are. */
static void add_implied(struct spar_str *s, const struct import *im)
{
	bool biases = spar_gguf_find(im->g, "blk.0.attn_output.bias") != NULL;
	if (is_gpt2(im))
		return;
	spar_str_addf(s, ",\n  \"head_dim\": %llu", (unsigned long long)im->head_dim);
	if (biases)
		spar_str_adds(s, ",\n  \"attention_bias\": true");
	if (spar_gguf_find(im->g, "blk.0.ffn_down.bias"))
		spar_str_adds(s, ",\n  \"mlp_bias\": true");
	/* The largest of Gemma 2 and of 3 scale scores by the hidden size over the heads. */
	if (!strcmp(im->a->name, "gemma2") || !strcmp(im->a->name, "gemma3"))
		spar_str_addf(
		    s, ",\n  \"query_pre_attn_scalar\": %llu",
		    (unsigned long long)(im->layers == 46 || im->layers == 62 ? im->hidden / im->heads : im->head_dim));
}

static int config_json(struct spar_str *s, struct import *im, enum spar_dtype dtype, struct spar_err *err)
{
	const struct spar_gguf_tensor *embed = spar_gguf_find(im->g, "token_embd.weight");
	int rc = embed ? 0 : spar_fail(err, SPAR_INPUT, "no tensor 'token_embd.weight'");
	spar_str_addf(s, "{\n  \"architectures\": [\"%s\"],\n  \"model_type\": \"%s\"", im->a->class,
		      im->a->model_type);
	for (size_t i = 0; i < N_MEMBERS && rc == 0; i++)
		rc = add_member(s, im, &members[i], err);
	if (rc < 0)
		return rc;
	if (!is_gpt2(im) && !spar_gguf_has(im->g, key(im, "rope.freq_base")))
		spar_str_adds(s, ",\n  \"rope_theta\": 10000");
	add_implied(s, im);
	if ((rc = add_rope_scaling(s, im, err)) < 0 || (rc = add_token_ids(s, im->g, err)) < 0)
		return rc;
	spar_str_addf(s, ",\n  \"vocab_size\": %zu,\n  \"tie_word_embeddings\": %s,\n  \"torch_dtype\": \"%s\"\n}\n",
		      embed->rows, spar_gguf_find(im->g, "output.weight") ? "false" : "true",
		      dtype == SPAR_BF16 ? "bfloat16" : "float32");
	return 0;
}

static int generation_config_json(struct spar_str *s, const struct spar_gguf *g, struct spar_err *err)
{
	int rc = add_token_ids(s, g, err);
	if (!s->len)
		spar_str_addc(s, ',');
	*s->data = '{'; /* where the first comma stood */
	spar_str_adds(s, "\n}\n");
	return rc;
}

/* ---- weights ---- */

struct source {
	const struct import *import;
	const struct spar_config *config;
};

static int make_param(const void *from, const struct spar_param *p, float *out, struct spar_err *err)
{
	const struct source *source = from;
	const struct spar_gguf_architecture *a = source->import->a;
	const struct spar_config *c = source->config;
	char name[96] = "";
	spar_gguf_param_name(p, name, sizeof name);
	const struct spar_gguf_tensor *t = spar_gguf_find(source->import->g, name);
	if (!t || t->rows != p->rows || t->cols != p->cols)
		return spar_fail(err, SPAR_INPUT, "tensor '%s': %s", name,
				 t ? "shape is not what the metadata say" : "not there");
	int rc = spar_gguf_f32(t, out, err);
	for (size_t i = 0; i < p->rows && a->plus_one && p->kind == SPAR_PARAM_NORM; i++)
		out[i] -= 1;
	if (rc < 0 || !a->paired || (p->part != SPAR_PART_Q && p->part != SPAR_PART_K))
		return rc;
	float *paired = malloc(t->n_elements * sizeof *paired);
	if (!paired)
		return spar_fail(err, SPAR_FAIL, "no memory for tensor '%s'", name);
	memcpy(paired, out, t->n_elements * sizeof *paired);
	spar_gguf_unpair_rows(paired, out, p->rows / c->head_dim, c->head_dim, p->cols ? p->cols : 1);
	free(paired);
	return 0;
}

static int write_weights(const struct import *im, const char *dir, enum spar_dtype dtype, struct spar_err *err)
{
	struct spar_config c;
	size_t n, n_extra = spar_gguf_find(im->g, "rope_freqs.weight") != NULL;
	int rc = spar_config_load(&c, dir, err);
	if (rc < 0)
		return rc;
	free(spar_config_params(&c, &n));
	if (n + n_extra != spar_gguf_count(im->g))
		return spar_fail(err, SPAR_INPUT, "%zu tensors where the metadata ask for %zu", spar_gguf_count(im->g),
				 n + n_extra);
	struct source source = {im, &c};
	return spar_model_write_made(dir, &c, dtype, make_param, &source, err);
}

int spar_import_gguf(const struct spar_gguf *g, const char *dir, enum spar_dtype dtype, struct spar_err *err)
{
	struct import im = {.g = g};
	struct spar_str s = SPAR_STR_INIT;
	int rc;
	if ((rc = find_architecture(&im, err)) == 0 && (rc = refuse_unknown(&im, err)) == 0 &&
	    (rc = read_sizes(&im, err)) == 0 && (rc = config_json(&s, &im, dtype, err)) == 0)
		rc = spar_import_write(dir, "config.json", &s, err);
	spar_str_clear(&s);
	if (rc == 0 && (rc = generation_config_json(&s, g, err)) == 0)
		rc = spar_import_write(dir, "generation_config.json", &s, err);
	spar_str_release(&s);
	if (rc == 0 && (rc = spar_import_text(g, im.context, dir, err)) == 0)
		rc = write_weights(&im, dir, dtype, err);
	return rc;
}
