/* import.c - see import.h */
#include "model/import.h"
#include "base/file.h"
#include "base/str.h"
#include "model/config.h"
#include "model/gguf_names.h"
#include "model/model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- small JSON ---- */

static void add_text(struct spar_str *s, struct spar_gguf_text t)
{
	spar_str_add_json(s, t.data, t.len);
}

static bool text_is(struct spar_gguf_text t, const char *s)
{
	return t.len == strlen(s) && !memcmp(t.data, s, t.len);
}

static int write_json(const char *dir, const char *name, const struct spar_str *s, struct spar_err *err)
{
	char *path = spar_path_join(dir, name);
	int rc = spar_file_write(path, s->data, s->len, err);
	free(path);
	return rc;
}

/* ---- config.json, generation_config.json: each member brings the comma before it ---- */

static int add_size(struct spar_str *s, const struct spar_gguf *g, const char *key, const char *name,
		    struct spar_err *err)
{
	uint64_t v;
	int rc = spar_gguf_u64(g, key, &v, err);
	if (rc == 0)
		spar_str_addf(s, ",\n  \"%s\": %llu", name, (unsigned long long)v);
	return rc;
}

static int add_number(struct spar_str *s, const struct spar_gguf *g, const char *key, const char *name,
		      struct spar_err *err)
{
	double v;
	int rc = spar_gguf_double(g, key, &v, err);
	if (rc == 0) {
		spar_str_addf(s, ",\n  \"%s\": ", name);
		spar_str_add_float(s, (float)v); /* stored as float32: 1e-05, not 9.999999747378752e-06 */
	}
	return rc;
}

/* Keys that change what the model computes in ways that the folder we write would not say. */
static int refuse_features(const struct spar_gguf *g, struct spar_err *err)
{
	static const char *const refused[] = {"llama.rope.scaling.factor", "llama.rope.scale_linear",
					      "llama.expert_count", "llama.attention.sliding_window",
					      "llama.attention.scale"};
	struct spar_gguf_text architecture;
	int rc = spar_gguf_str(g, "general.architecture", &architecture, err);
	if (rc < 0)
		return rc;
	if (!text_is(architecture, "llama"))
		return spar_fail(err, SPAR_INPUT, "general.architecture: '%.*s' is not supported (only 'llama' is)",
				 (int)(architecture.len < 40 ? architecture.len : 40), architecture.data);
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
		if (spar_gguf_has(g, refused[i]))
			return spar_fail(err, SPAR_INPUT, "%s: not supported", refused[i]);
	return 0;
}

/* The width of a head, and that rotary positions cover all of it. */
static int add_head_dim(struct spar_str *s, const struct spar_gguf *g, struct spar_err *err)
{
	uint64_t hidden, heads, dim, rotary;
	int rc;
	if ((rc = spar_gguf_u64(g, "llama.embedding_length", &hidden, err)) < 0 ||
	    (rc = spar_gguf_u64(g, "llama.attention.head_count", &heads, err)) < 0)
		return rc;
	dim = heads ? hidden / heads : 0;
	if (spar_gguf_has(g, "llama.attention.key_length") &&
	    (rc = spar_gguf_u64(g, "llama.attention.key_length", &dim, err)) < 0)
		return rc;
	rotary = dim;
	if (spar_gguf_has(g, "llama.rope.dimension_count") &&
	    (rc = spar_gguf_u64(g, "llama.rope.dimension_count", &rotary, err)) < 0)
		return rc;
	if (rotary != dim)
		return spar_fail(err, SPAR_INPUT,
				 "llama.rope.dimension_count: %llu of %llu: partial rotary positions are not supported",
				 (unsigned long long)rotary, (unsigned long long)dim);
	spar_str_addf(s, ",\n  \"head_dim\": %llu", (unsigned long long)dim);
	return 0;
}

/* Ids that both config.json and generation_config.json carry. */
static int add_token_ids(struct spar_str *s, const struct spar_gguf *g, struct spar_err *err)
{
	static const char *const names[][2] = {{"tokenizer.ggml.bos_token_id", "bos_token_id"},
					       {"tokenizer.ggml.eos_token_id", "eos_token_id"},
					       {"tokenizer.ggml.padding_token_id", "pad_token_id"}};
	int rc = 0;
	for (size_t i = 0; i < 3 && rc == 0; i++)
		if (spar_gguf_has(g, names[i][0]))
			rc = add_size(s, g, names[i][0], names[i][1], err);
	return rc;
}

static int config_json(struct spar_str *s, const struct spar_gguf *g, enum spar_dtype dtype, struct spar_err *err)
{
	const struct spar_gguf_tensor *embed = spar_gguf_find(g, "token_embd.weight");
	int rc;
	if (!embed)
		return spar_fail(err, SPAR_INPUT, "no tensor 'token_embd.weight'");
	const char *kv = "llama.attention.head_count_kv";
	spar_str_adds(s, "{\n  \"architectures\": [\"LlamaForCausalLM\"],\n  \"model_type\": \"llama\"");
	if ((rc = add_size(s, g, "llama.block_count", "num_hidden_layers", err)) < 0 ||
	    (rc = add_size(s, g, "llama.embedding_length", "hidden_size", err)) < 0 ||
	    (rc = add_size(s, g, "llama.feed_forward_length", "intermediate_size", err)) < 0 ||
	    (rc = add_size(s, g, "llama.attention.head_count", "num_attention_heads", err)) < 0 ||
	    (rc = add_size(s, g, spar_gguf_has(g, kv) ? kv : "llama.attention.head_count", "num_key_value_heads",
			   err)) < 0 ||
	    (rc = add_head_dim(s, g, err)) < 0 ||
	    (rc = add_size(s, g, "llama.context_length", "max_position_embeddings", err)) < 0 ||
	    (rc = add_number(s, g, "llama.attention.layer_norm_rms_epsilon", "rms_norm_eps", err)) < 0)
		return rc;
	if (!spar_gguf_has(g, "llama.rope.freq_base"))
		spar_str_adds(s, ",\n  \"rope_theta\": 10000");
	else if ((rc = add_number(s, g, "llama.rope.freq_base", "rope_theta", err)) < 0)
		return rc;
	if ((rc = add_token_ids(s, g, err)) < 0)
		return rc;
	spar_str_addf(s,
		      ",\n  \"vocab_size\": %zu,\n  \"hidden_act\": \"silu\",\n  \"rope_scaling\": null,\n"
		      "  \"attention_bias\": false,\n  \"mlp_bias\": false,\n  \"tie_word_embeddings\": %s,\n"
		      "  \"torch_dtype\": \"%s\"\n}\n",
		      embed->rows, spar_gguf_find(g, "output.weight") ? "false" : "true",
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

/* ---- tokenizer.json ---- */

#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true}"

static int check_tokenizer(const struct spar_gguf *g, struct spar_err *err)
{
	struct spar_gguf_text model, pre;
	uint64_t add_bos = 0;
	int rc;
	if ((rc = spar_gguf_str(g, "tokenizer.ggml.model", &model, err)) < 0 ||
	    (rc = spar_gguf_str(g, "tokenizer.ggml.pre", &pre, err)) < 0 ||
	    (spar_gguf_has(g, "tokenizer.ggml.add_bos_token") &&
	     (rc = spar_gguf_u64(g, "tokenizer.ggml.add_bos_token", &add_bos, err)) < 0))
		return rc;
	if (!text_is(model, "gpt2"))
		return spar_fail(err, SPAR_INPUT, "tokenizer.ggml.model: '%.*s' is not supported (only 'gpt2' is)",
				 (int)(model.len < 40 ? model.len : 40), model.data);
	if (!spar_gguf_pre_tokenizer(pre))
		return spar_fail(err, SPAR_INPUT, "tokenizer.ggml.pre: '%.*s' is not known",
				 (int)(pre.len < 40 ? pre.len : 40), pre.data);
	if (add_bos)
		return spar_fail(err, SPAR_INPUT, "tokenizer.ggml.add_bos_token: true is not supported");
	return 0;
}

struct vocab {
	struct spar_gguf_text *tokens, *merges;
	int32_t *types;
	size_t n, n_merges;
};

static int read_vocab(struct vocab *v, const struct spar_gguf *g, struct spar_err *err)
{
	size_t n_types;
	int rc;
	if ((rc = spar_gguf_strs(g, "tokenizer.ggml.tokens", &v->tokens, &v->n, err)) < 0 ||
	    (rc = spar_gguf_strs(g, "tokenizer.ggml.merges", &v->merges, &v->n_merges, err)) < 0 ||
	    (rc = spar_gguf_ints(g, "tokenizer.ggml.token_type", &v->types, &n_types, err)) < 0)
		return rc;
	if (n_types != v->n)
		return spar_fail(err, SPAR_INPUT, "tokenizer.ggml.token_type: %zu types for %zu tokens", n_types, v->n);
	return 0;
}

static void add_added_tokens(struct spar_str *s, const struct vocab *v)
{
	const char *sep = "";
	for (size_t i = 0; i < v->n; i++) {
		if (v->types[i] != SPAR_GGUF_TOKEN_CONTROL && v->types[i] != SPAR_GGUF_TOKEN_USER)
			continue;
		spar_str_addf(s, "%s{\"id\":%zu,\"content\":", sep, i);
		add_text(s, v->tokens[i]);
		spar_str_addf(
		    s, ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":%s}",
		    v->types[i] == SPAR_GGUF_TOKEN_CONTROL ? "true" : "false");
		sep = ",\n";
	}
}

static void tokenizer_json(struct spar_str *s, const struct vocab *v, const char *pre)
{
	spar_str_adds(s, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[\n");
	add_added_tokens(s, v);
	spar_str_addf(
	    s,
	    "],\n\"normalizer\":null,\n\"pre_tokenizer\":%s,\n\"post_processor\":null,\n\"decoder\":%s,\n"
	    "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,\"continuing_subword_prefix\":null,"
	    "\"end_of_word_suffix\":null,\"fuse_unk\":false,\"byte_fallback\":false,\"ignore_merges\":false,\n"
	    "\"vocab\":{",
	    pre, BYTE_LEVEL);
	const char *sep = "\n";
	for (size_t i = 0; i < v->n; i++) {
		if (v->types[i] == SPAR_GGUF_TOKEN_UNUSED)
			continue;
		spar_str_adds(s, sep);
		add_text(s, v->tokens[i]);
		spar_str_addf(s, ":%zu", i);
		sep = ",\n";
	}
	spar_str_adds(s, "},\n\"merges\":[");
	for (size_t i = 0; i < v->n_merges; i++) {
		spar_str_adds(s, i ? ",\n" : "\n");
		add_text(s, v->merges[i]);
	}
	spar_str_adds(s, "]}}\n");
}

static int tokenizer_config_json(struct spar_str *s, const struct spar_gguf *g, const struct vocab *v,
				 struct spar_err *err)
{
	static const char *const names[][2] = {{"tokenizer.ggml.bos_token_id", "bos_token"},
					       {"tokenizer.ggml.eos_token_id", "eos_token"},
					       {"tokenizer.ggml.unknown_token_id", "unk_token"},
					       {"tokenizer.ggml.padding_token_id", "pad_token"}};
	uint64_t id;
	int rc;
	spar_str_adds(
	    s, "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n  \"clean_up_tokenization_spaces\": false");
	for (size_t i = 0; i < 4; i++) {
		if (!spar_gguf_has(g, names[i][0]))
			continue;
		if ((rc = spar_gguf_u64(g, names[i][0], &id, err)) < 0)
			return rc;
		if (id >= v->n)
			return spar_fail(err, SPAR_INPUT, "%s: %llu is no token of %zu", names[i][0],
					 (unsigned long long)id, v->n);
		spar_str_addf(s, ",\n  \"%s\": ", names[i][1]);
		add_text(s, v->tokens[id]);
	}
	struct spar_gguf_text template;
	if (spar_gguf_has(g, "tokenizer.chat_template")) {
		if ((rc = spar_gguf_str(g, "tokenizer.chat_template", &template, err)) < 0)
			return rc;
		spar_str_adds(s, ",\n  \"chat_template\": ");
		add_text(s, template);
	}
	rc = add_size(s, g, "llama.context_length", "model_max_length", err);
	spar_str_adds(s, "\n}\n");
	return rc;
}

static int write_tokenizer(const struct spar_gguf *g, const char *dir, struct spar_err *err)
{
	struct vocab v = {0};
	struct spar_str s = SPAR_STR_INIT;
	struct spar_gguf_text pre = {0};
	int rc = check_tokenizer(g, err);
	if (rc == 0 && (rc = spar_gguf_str(g, "tokenizer.ggml.pre", &pre, err)) == 0 &&
	    (rc = read_vocab(&v, g, err)) == 0) {
		tokenizer_json(&s, &v, spar_gguf_pre_tokenizer(pre));
		rc = write_json(dir, "tokenizer.json", &s, err);
	}
	spar_str_clear(&s);
	if (rc == 0 && (rc = tokenizer_config_json(&s, g, &v, err)) == 0)
		rc = write_json(dir, "tokenizer_config.json", &s, err);
	free(v.tokens);
	free(v.merges);
	free(v.types);
	spar_str_release(&s);
	return rc;
}

/* ---- weights ---- */

struct source {
	const struct spar_gguf *gguf;
	const struct spar_config *config;
};

static int make_param(const void *from, const struct spar_param *p, float *out, struct spar_err *err)
{
	const struct source *source = from;
	const struct spar_config *c = source->config;
	char name[96] = "";
	spar_gguf_param_name(p, name, sizeof name);
	const struct spar_gguf_tensor *t = spar_gguf_find(source->gguf, name);
	if (!t || t->rows != p->rows || t->cols != p->cols)
		return spar_fail(err, SPAR_INPUT, "tensor '%s': %s", name,
				 t ? "shape is not what the metadata say" : "not there");
	bool is_q = p->part == SPAR_PART_Q, is_k = p->part == SPAR_PART_K;
	if (!is_q && !is_k)
		return spar_gguf_f32(t, out, err);
	float *paired = malloc(t->n_elements * sizeof *paired);
	int rc = paired ? spar_gguf_f32(t, paired, err) : spar_fail(err, SPAR_FAIL, "no memory for tensor '%s'", name);
	if (rc == 0)
		spar_gguf_unpair_rows(paired, out, is_q ? c->n_heads : c->n_kv_heads, c->head_dim, p->cols);
	free(paired);
	return rc;
}

static int write_weights(const struct spar_gguf *g, const char *dir, enum spar_dtype dtype, struct spar_err *err)
{
	struct spar_config c;
	size_t n;
	int rc = spar_config_load(&c, dir, err);
	if (rc < 0)
		return rc;
	free(spar_config_params(&c, &n));
	if (n != spar_gguf_count(g))
		return spar_fail(err, SPAR_INPUT, "%zu tensors where the metadata ask for %zu", spar_gguf_count(g), n);
	struct source source = {g, &c};
	return spar_model_write_made(dir, &c, dtype, make_param, &source, err);
}

int spar_import_gguf(const struct spar_gguf *g, const char *dir, enum spar_dtype dtype, struct spar_err *err)
{
	struct spar_str s = SPAR_STR_INIT;
	int rc = refuse_features(g, err);
	if (rc == 0 && (rc = config_json(&s, g, dtype, err)) == 0)
		rc = write_json(dir, "config.json", &s, err);
	spar_str_clear(&s);
	if (rc == 0 && (rc = generation_config_json(&s, g, err)) == 0)
		rc = write_json(dir, "generation_config.json", &s, err);
	spar_str_release(&s);
	if (rc == 0 && (rc = write_tokenizer(g, dir, err)) == 0)
		rc = write_weights(g, dir, dtype, err);
	return rc;
}
