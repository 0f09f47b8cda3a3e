/* Model folders: what a config may say, which tensors must be there, end tokens, adapters and their scale, merging. The
 * toy has one layer of width 2 and one inner unit, so that every value can be worked out by hand. */
#include "model/model.h"
#include "base/file.h"
#include "unit.h"
#include <stdlib.h>
#include <unistd.h>

static char dir[] = "/tmp/spar-model.XXXXXX";

static const char *at(const char *name)
{
	static char path[256];
	snprintf(path, sizeof path, "%s/%s", dir, name);
	return path;
}

static void put(const char *name, const char *text)
{
	CHECK(spar_file_write(at(name), text, strlen(text), NULL) == 0);
}

#define SHAPE \
	"\"model_type\":\"llama\",\"num_hidden_layers\":1,\"hidden_size\":2,\"intermediate_size\":1,\"vocab_size\":3," \
	"\"num_attention_heads\":1"
#define TIED SHAPE ",\"tie_word_embeddings\":true"

/* The message of what `rc` failed with, behind the path. */
static const char *told(int rc, const struct spar_err *err)
{
	if (rc == 0)
		return "ok";
	CHECK(err->code == SPAR_INPUT);
	const char *colon = strstr(err->msg, ": ");
	return colon ? colon + 2 : err->msg;
}

static const char *loaded(struct spar_config *c, const char *config)
{
	static struct spar_err err;
	put("m/config.json", config);
	return told(spar_config_load(c, at("m"), &err), &err);
}

static const char *opened(struct spar_model *m, const char *name)
{
	static struct spar_err err;
	return told(spar_model_open(m, at(name), &err), &err);
}

/* ---- config ---- */

static void configs(void)
{
	static const struct {
		const char *config, *result;
	} rows[] = {
	    {"{" SHAPE "}", "ok"},
	    {"{" SHAPE ",\"rope_scaling\":null,\"hidden_act\":\"silu\"}", "ok"},
	    {"{" SHAPE ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8}}",
	     ".rope_scaling.low_freq_factor: expected number, got nothing"},
	    {"{" SHAPE ",\"rope_scaling\":{\"rope_type\":\"dynamic\",\"factor\":8}}",
	     ".rope_scaling.rope_type: 'dynamic' is not supported (default, linear, llama3 and yarn are)"},
	    {"{" SHAPE ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":8,\"slope\":1}}",
	     ".rope_scaling.slope: not supported"},
	    {"{" SHAPE ",\"rope_parameters\":{\"partial_rotary_factor\":0.5}}",
	     ".rope_parameters.partial_rotary_factor: 0.5 is not supported (only 1 is)"},
	    {"{" SHAPE ",\"hidden_act\":\"gelu\"}",
	     ".hidden_act: 'gelu' is not supported (silu, gelu_new and gelu_pytorch_tanh are)"},
	    {"{" SHAPE ",\"attention_bias\":true}", "ok"},
	    {"{" SHAPE ",\"sliding_window\":null,\"use_cache\":true,\"summary_type\":\"x\"}", "ok"},
	    {"{" SHAPE ",\"sliding_window\":16}", ".sliding_window: not supported"},
	    {"{" SHAPE ",\"a_later_feature\":1}", ".a_later_feature: not supported"},
	    {"{" SHAPE ",\"num_key_value_heads\":2}",
	     ".num_attention_heads: 1 is not a multiple of .num_key_value_heads, 2"},
	    {"{" SHAPE ",\"head_dim\":3}", ".head_dim: 3 is odd: rotary positions need pairs"},
	    {"{" SHAPE ",\"hidden_size\":0}", ".hidden_size: 0 is not in [1, 16777216]"},
	    {"{" SHAPE ",\"num_hidden_layers\":16777216}", ".num_hidden_layers: 16777216 is more than 512"},
	    {"{" SHAPE ",\"rms_norm_eps\":0}", ".rms_norm_eps: 0 is not positive"},
	    {"{" SHAPE ",\"quantization_config\":{}}", ".quantization_config: quantized weights are not supported"},
	    {"{" SHAPE ",\"eos_token_id\":3}", ".eos_token_id: 3 is no token of a vocabulary of 3"},
	    {"{" SHAPE ",\"eos_token_id\":[1,\"2\"]}", ".eos_token_id[1]: expected number, got string"},
	    {"{\"model_type\":\"mamba\"}", ".model_type: 'mamba' is not supported (llama, mistral, qwen2, qwen3, "
					   "smollm3, gemma, gemma2, gemma3_text, "
					   "gpt2 are)"},
	    {"{", "not JSON at byte 1: unexpected end"},
	    {"[]", "expected object, got array"},
	};
	struct spar_config c;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		CHECK_STR(loaded(&c, rows[i].config), rows[i].result);
	CHECK_STR(loaded(&c, "{" SHAPE "}"), "ok");
	CHECK(c.n_kv_heads == 1 && c.head_dim == 2 && c.max_position == 2048 && !c.tie_word_embeddings);
	CHECK(c.ropes[0].theta == 10000 && c.norm_eps == 1e-6f && c.eos == -1 && c.n_end == 0);
	CHECK_STR(loaded(&c, "{" SHAPE ",\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":5e5}}"), "ok");
	CHECK(c.ropes[0].theta == 5e5);
}

/* What well-known models say in their config.json beside their sizes. */
static void known_configs(void)
{
	static const char *const rows[] = {
	    /* SmolLM2 */
	    "\"model_type\":\"llama\",\"is_llama_config\":true,\"rope_interleaved\":false,\"pretraining_tp\":1,"
	    "\"transformers.js_config\":{\"kv_cache_dtype\":{\"fp16\":\"float16\"}},\"torch_dtype\":\"bfloat16\"",
	    /* Llama 3.2 */
	    "\"model_type\":\"llama\",\"rope_theta\":500000.0,\"rope_scaling\":{\"factor\":32.0,\"high_freq_factor\":4."
	    "0,"
	    "\"low_freq_factor\":1.0,\"original_max_position_embeddings\":8192,\"rope_type\":\"llama3\"}",
	    /* Qwen 2.5 with long context */
	    "\"model_type\":\"qwen2\",\"max_window_layers\":21,\"sliding_window\":32768,\"use_mrope\":false,"
	    "\"use_sliding_window\":false,\"rope_scaling\":{\"factor\":4.0,\"original_max_position_embeddings\":32768,"
	    "\"type\":\"yarn\"}",
	    /* SmolLM3 */
	    "\"model_type\":\"smollm3\",\"layer_types\":[\"full_attention\"],\"max_window_layers\":28,"
	    "\"no_rope_layer_interval\":4,\"no_rope_layers\":[1],\"pretraining_tp\":2,\"sliding_window\":null,"
	    "\"use_sliding_window\":false,\"mlp_bias\":false",
	    /* Gemma 2 and 3 */
	    "\"model_type\":\"gemma2\",\"cache_implementation\":\"hybrid\",\"hidden_act\":\"gelu_pytorch_tanh\","
	    "\"hidden_activation\":\"gelu_pytorch_tanh\",\"final_logit_softcapping\":30.0,\"sliding_window\":4096",
	    "\"model_type\":\"gemma3_text\",\"rope_local_base_freq\":10000,\"rope_theta\":1000000,\"rope_scaling\":"
	    "null,"
	    "\"sliding_window\":512,\"sliding_window_pattern\":6,\"attn_logit_softcapping\":null",
	};
	struct spar_config c;
	char config[1024];
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		snprintf(config, sizeof config, "{%s,%s}", strchr(SHAPE, ',') + 1, rows[i]);
		CHECK_STR(loaded(&c, config), "ok");
	}
	CHECK(c.layers[0].windowed && c.layers[0].rope == 1 && c.ropes[0].theta == 1e6 && c.ropes[1].theta == 1e4);
	CHECK_STR(
	    loaded(&c,
		   "{\"model_type\":\"gpt2\",\"n_embd\":2,\"n_head\":2,\"n_layer\":2,\"n_ctx\":1024,"
		   "\"n_positions\":1024,\"vocab_size\":50257,\"eos_token_id\":50256,\"summary_type\":\"cls_index\","
		   "\"task_specific_params\":{\"text-generation\":{\"do_sample\":true}},\"attn_pdrop\":0.1}"),
	    "ok");
	CHECK(c.intermediate_size == 8 && c.head_dim == 1 && c.layers[1].rope == -1 && c.tie_word_embeddings);
}

/* The end set is the union of both files and the tokenizer's, which comes first. */
static void end_tokens(void)
{
	struct spar_config c;
	struct spar_err err;
	put("m/generation_config.json", "{\"eos_token_id\":[2,1]}");
	CHECK_STR(loaded(&c, "{" SHAPE ",\"eos_token_id\":1}"), "ok");
	CHECK(c.n_end == 2 && spar_config_is_end(&c, 1) && spar_config_is_end(&c, 2) && !spar_config_is_end(&c, 0));
	CHECK(c.eos == 2);
	CHECK(spar_config_add_eos(&c, -1, &err) == 0 && c.eos == 2 && c.n_end == 2);
	CHECK(spar_config_add_eos(&c, 0, &err) == 0 && c.eos == 0 && c.n_end == 3 && c.end_ids[0] == 0);
	CHECK(spar_config_add_eos(&c, 1, &err) == 0 && c.eos == 1 && c.n_end == 3 && c.end_ids[0] == 1);
	CHECK(spar_config_add_eos(&c, 3, &err) == -(int)SPAR_INPUT);
	CHECK_STR(err.msg, ".eos_token: 3 is no token of a vocabulary of 3");
	spar_dir_remove(at("m"), NULL);
	spar_dir_make(at("m"), NULL);
}

/* ---- weights ---- */

/* model.safetensors with every matrix full of `value`, and the head of an untied model or of `tied_head` full of `head`. */
static void put_weights(const char *name, const char *config, float value, bool tied_head, float head)
{
	char path[128];
	snprintf(path, sizeof path, "%s/config.json", name);
	CHECK(spar_dir_make(at(name), NULL) == 0);
	put(path, config);
	struct spar_config c;
	size_t n;
	CHECK(spar_config_load(&c, at(name), NULL) == 0);
	c.tie_word_embeddings = c.tie_word_embeddings && !tied_head;
	struct spar_param *p = spar_config_params(&c, &n);
	float **w = spar_calloc(n, sizeof *w);
	for (size_t i = 0; i < n; i++) {
		w[i] = spar_calloc(spar_param_elements(&p[i]), sizeof **w);
		for (size_t k = 0; k < spar_param_elements(&p[i]); k++)
			w[i][k] = p[i].kind == SPAR_PARAM_HEAD ? head : value;
	}
	CHECK(spar_model_write_weights(at(name), &c, w, SPAR_F32, NULL) == 0);
	for (size_t i = 0; i < n; i++)
		free(w[i]);
	free(w);
	free(p);
}

/* B31: tied and not, one head or two. */
static void heads(void)
{
	struct spar_model m;
	put_weights("m", "{" TIED "}", 1, false, 0);
	CHECK_STR(opened(&m, "m"), "ok");
	CHECK(!*m.note && strlen(m.hash) == 16);
	spar_model_close(&m);
	put("m/config.json", "{" SHAPE "}");
	CHECK_STR(opened(&m, "m"), "no tensor 'lm_head.weight'");
	put_weights("m", "{" TIED "}", 1, true, 1); /* the head twice, equal */
	CHECK_STR(opened(&m, "m"), "ok");
	CHECK(*m.note);
	spar_model_close(&m);
	put_weights("m", "{" TIED "}", 1, true, 2); /* and different */
	CHECK_STR(opened(&m, "m"),
		  "tensor 'lm_head.weight' differs from the embedding that .tie_word_embeddings says it is");
	put_weights("m", "{" SHAPE "}", 1, false, 2);
	CHECK_STR(opened(&m, "m"), "ok");
	spar_model_close(&m);
	put("m/config.json", "{" SHAPE ",\"intermediate_size\":5}");
	CHECK_STR(opened(&m, "m"), "tensor 'model.layers.0.mlp.gate_proj.weight': shape [1,2], not [5,2]");
	put_weights("m", "{" SHAPE ",\"num_hidden_layers\":2}", 1, false, 2);
	put("m/config.json", "{" SHAPE "}");
	CHECK_STR(opened(&m, "m"), "tensor 'model.layers.1.input_layernorm.weight' has no place in this model");
}

static void hashes(void)
{
	struct spar_model a, b, c;
	put_weights("a", "{" TIED "}", 1, false, 0);
	put_weights("b", "{" TIED "}", 1, false, 0);
	put_weights("c", "{" TIED "}", -1, false, 0); /* signs alone: the highest bit of each word */
	struct spar_str from = SPAR_STR_INIT;
	spar_str_adds(&from, at("b/model.safetensors"));
	CHECK(rename(from.data, at("b/shard.safetensors")) == 0);
	spar_str_release(&from);
	put("b/model.safetensors.index.json", "{\"weight_map\":{\"model.norm.weight\":\"shard.safetensors\"}}");
	CHECK_STR(opened(&a, "a"), "ok");
	CHECK_STR(opened(&b, "b"), "ok");
	CHECK_STR(opened(&c, "c"), "ok");
	CHECK_STR(a.hash, b.hash);
	CHECK(strcmp(a.hash, c.hash) != 0);
	spar_model_close(&a);
	spar_model_close(&b);
	spar_model_close(&c);
}

/* ---- adapters ---- */

static bool hits(const struct spar_lora_config *l, const char *name, enum spar_param_kind kind)
{
	struct spar_param p = {.kind = kind};
	snprintf(p.name, sizeof p.name, "%s", name);
	return spar_lora_hits(l, &p);
}

static void lora_options(void)
{
	struct spar_lora_config l;
	struct spar_err err = {0};
	CHECK(spar_lora_parse(&l, "r=8,alpha=16,dropout=0,targets=q_proj+down_proj", &err) == 0);
	CHECK(l.r == 8 && l.alpha == 16 && l.dropout == 0 && l.n_targets == 2 && spar_lora_scale(&l, NULL) == 2);
	CHECK(hits(&l, "model.layers.7.self_attn.q_proj.weight", SPAR_PARAM_LINEAR));
	CHECK(!hits(&l, "model.layers.7.self_attn.q_proj.bias", SPAR_PARAM_BIAS));
	CHECK(!hits(&l, "model.layers.7.self_attn.k_proj.weight", SPAR_PARAM_LINEAR));
	CHECK(!hits(&l, "model.xq_proj.weight", SPAR_PARAM_LINEAR));
	spar_lora_release(&l);
	CHECK(spar_lora_parse(&l, "", &err) == 0 && l.r == 16 && l.alpha == 32 && l.dropout == 0.05 &&
	      l.n_targets == 4);
	spar_lora_release(&l);
	CHECK(spar_lora_parse(&l, "r=16,alpha=8,rslora=true,targets=all-linear", &err) == 0 &&
	      spar_lora_scale(&l, NULL) == 2);
	CHECK(hits(&l, "model.layers.0.mlp.up_proj.weight", SPAR_PARAM_LINEAR));
	CHECK(!hits(&l, "model.layers.0.mlp.up_proj.bias", SPAR_PARAM_BIAS));
	CHECK(!hits(&l, "lm_head.weight", SPAR_PARAM_HEAD));
	CHECK(!hits(&l, "model.layers.0.input_layernorm.weight", SPAR_PARAM_NORM));
	spar_lora_release(&l);
	static const char *const wrong[] = {"r=0",       "r",        "rank=4",       "alpha=-1",
					    "dropout=1", "targets=", "targets=a++b", "rslora=2"};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		CHECK(spar_lora_parse(&l, wrong[i], &err) == -SPAR_USAGE);
		CHECK(!strncmp(err.msg, "lora: '", 7));
	}
}

/* An adapter of ones on down_proj (2, 1) of the base "a", with the rank that `l` says; B A is the rank everywhere, times
 * b_value. */
static void put_adapter(const struct spar_lora_config *l, float b_value)
{
	const struct spar_param down = {.name = "model.layers.0.mlp.down_proj.weight", .rows = 2, .cols = 1},
				*p = &down;
	float a[8] = {1, 1, 1, 1, 1, 1, 1, 1}, b[16];
	for (size_t i = 0; i < 16; i++)
		b[i] = b_value;
	CHECK(spar_dir_make(at("lora"), NULL) == 0);
	CHECK(spar_lora_write(at("lora"), "../a", l, &p, (float *[]){a}, (float *[]){b}, 1, NULL) == 0);
}

/* down_proj's first element with and without the adapter. */
static void check_merged(double merged, double base)
{
	struct spar_model m;
	size_t n;
	CHECK_STR(opened(&m, "lora"), "ok");
	if (!m.dir)
		return;
	struct spar_param *p = spar_config_params(&m.config, &n);
	for (size_t i = 0; i < n; i++) {
		float w[8];
		bool hit = strstr(p[i].name, "down_proj") != NULL;
		CHECK(spar_model_fetch(&m, &p[i], false, w, NULL) == 0 && w[0] == (float)(hit ? merged : base));
		CHECK(spar_model_fetch(&m, &p[i], true, w, NULL) == 0 && w[0] == (float)base);
	}
	free(p);
	spar_model_close(&m);
}

/* One adapter after the other, with the base left open: as if each had been opened by itself. */
static void next_adapter(void)
{
	struct spar_model m, fresh;
	struct spar_lora_config l;
	put_weights("a", "{" TIED "}", 1, false, 0);
	CHECK(spar_lora_parse(&l, "r=4,alpha=8,targets=down_proj", NULL) == 0);
	put_adapter(&l, 1);
	CHECK_STR(opened(&m, "lora"), "ok");
	put_adapter(&l, 2);
	const struct spar_safetensors *base = m.weights;
	CHECK(spar_model_next(&m, at("lora"), NULL) == 0 && m.weights == base);
	CHECK_STR(opened(&fresh, "lora"), "ok");
	CHECK_STR(m.hash, fresh.hash);
	spar_model_close(&fresh);
	CHECK(spar_file_write(at("lora/adapter_model.safetensors"), "none", 4, NULL) == 0);
	CHECK(spar_model_next(&m, at("lora"), NULL) < 0 && m.weights == base); /* the one before stays */
	CHECK(spar_model_next(&m, at("a"), NULL) == 0 && !m.has_adapter);
	CHECK_STR(opened(&fresh, "a"), "ok");
	CHECK_STR(m.hash, fresh.hash);
	spar_model_close(&fresh);
	spar_model_close(&m);
	spar_lora_release(&l);
}

/* B29: the scale, and what must be refused because it would load and do nothing, or something else. */
static void adapters(void)
{
	struct spar_model m;
	struct spar_lora_config l;
	put_weights("a", "{" TIED "}", 1, false, 0);
	CHECK(spar_lora_parse(&l, "r=4,alpha=8,targets=down_proj", NULL) == 0);
	put_adapter(&l, 1);
	check_merged(9, 1);
	l.use_rslora = true;
	put_adapter(&l, 1);
	check_merged(17, 1);
	l.use_rslora = false;
	/* rules for single modules: alpha 6 and r 2 on A (2, 1) of ones: scale 3, merged 1 + 3 * 2 */
	struct spar_lora_rule rank = {"down_proj", 2}, alpha = {"mlp\\.d.*", 6};
	l.ranks = &rank;
	l.alphas = &alpha;
	l.n_ranks = l.n_alphas = 1;
	put_adapter(&l, 1);
	check_merged(7, 1);
	rank.pattern = alpha.pattern = "own_proj"; /* no end of the name behind a dot */
	put_adapter(&l, 1);
	check_merged(9, 1);
	l.n_ranks = l.n_alphas = 0;
	l.ranks = l.alphas = NULL;
	l.alpha = 0;
	put_adapter(&l, 1);
	check_merged(1, 1);
	CHECK_STR(opened(&m, "lora"), "ok");
	CHECK(strstr(m.note, "lora_alpha is 0"));
	spar_model_close(&m);
	l.r = 2; /* config and tensors disagree */
	put_adapter(&l, 1);
	put("lora/adapter_config.json",
	    "{\"r\":4,\"lora_alpha\":8,\"target_modules\":[\"down_proj\"],\"base_model_name_or_path\":\"../a\"}");
	CHECK_STR(opened(&m, "lora"),
		  "lora_A or lora_B: tensor 'model.layers.0.mlp.down_proj.weight': shape [2,1], not [4,1]");
	l.r = 4;
	put_adapter(&l, 1);
	spar_lora_release(&l);
	static const struct {
		const char *config, *result;
	} rows[] = {
	    {"{\"lora_alpha\":8,\"target_modules\":[\"down_proj\"]}", ".r: "},
	    {"{\"r\":4,\"target_modules\":[\"down_proj\"]}", ".lora_alpha: "},
	    {"{\"r\":4,\"lora_alpha\":8,\"target_modules\":[\"down_proj\"],\"use_dora\":true}",
	     ".use_dora: not supported"},
	    {"{\"r\":4,\"lora_alpha\":8,\"target_modules\":[\"down_proj\"],\"bias\":\"all\"}",
	     ".bias: 'all' is not supported"},
	    {"{\"r\":4,\"lora_alpha\":8,\"target_modules\":[\"down_proj\"],\"fan_in_fan_out\":true,"
	     "\"base_model_name_or_path\":\"../a\"}",
	     ".fan_in_fan_out: true, but 'model.layers.0.mlp.down_proj.weight' is stored (out, in)"},
	    {"{\"r\":4,\"lora_alpha\":8,\"target_modules\":[\"down_proj\"],\"modules_to_save\":[\"lm_head\"]}",
	     ".modules_to_save: not"},
	    {"{\"r\":4,\"lora_alpha\":8,\"target_modules\":[\"down_proj\"],\"layer_replication\":[[0,1]]}",
	     ".layer_replication: not"},
	    {"{\"r\":4,\"lora_alpha\":8,\"target_modules\":[\"down_proj\"],\"alpha_pattern\":{\"x\":-1}}",
	     ".alpha_pattern: 'x' is not given a number in [0, 1e+09]"},
	    {"{\"r\":4,\"lora_alpha\":8,\"target_modules\":[\"down_proj\"],\"rank_pattern\":{\"x\":1.5}}",
	     ".rank_pattern: 'x': 1.5 is no whole number"},
	    {"{\"r\":4,\"lora_alpha\":8,\"target_modules\":[\"down_proj\"],\"rank_pattern\":{\"(\":1}}",
	     ".rank_pattern: '(' is no regular expression that is understood"},
	    {"{\"r\":4,\"lora_alpha\":8,\"target_modules\":[\"down_proj\"],\"base_model_name_or_path\":\"../a\","
	     "\"rank_pattern\":{\"down_proj\":4,\"down.*\":4}}",
	     ".rank_pattern: both '"},
	    {"{\"r\":4,\"lora_alpha\":8,\"target_modules\":\".*down_proj\",\"base_model_name_or_path\":\"../a\"}",
	     "ok"},
	    {"{\"r\":4,\"lora_alpha\":8,\"target_modules\":\"down_proj\",\"base_model_name_or_path\":\"../a\"}",
	     "2 tensors, but .target_modules makes 0: 'base_model.model.model.layers.0.mlp.down_proj.lora_A.weight' "
	     "finds no "
	     "module"},
	    {"{\"r\":4,\"lora_alpha\":8,\"target_modules\":[\"down_proj\"],\"a_later_variant\":{\"x\":1}}",
	     ".a_later_variant: not"},
	    {"{\"r\":4,\"lora_alpha\":8,\"target_modules\":[\"down_proj\"],\"init_lora_weights\":\"pissa\"}",
	     ".init_lora_weights: 'pissa'"},
	    {"{\"r\":4,\"lora_alpha\":8,\"target_modules\":[\"down_proj\"]}", ".base_model_name_or_path: no folder ''"},
	    {"{\"r\":4,\"lora_alpha\":8,\"target_modules\":[\"up_proj\"],\"base_model_name_or_path\":\"../a\"}",
	     "lora_A or lora_B: no tensor 'model.layers.0.mlp.up_proj.weight'"},
	    {"{\"r\":4,\"lora_alpha\":8,\"target_modules\":[\"k\"],\"base_model_name_or_path\":\"../a\"}",
	     "2 tensors, but .target_modules makes 0"},
	    {"{\"r\":4,\"lora_alpha\":8,\"target_modules\":[\"norm\"],\"base_model_name_or_path\":\"../a\"}",
	     ".target_modules: 'model.norm.weight' is not a linear layer"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		put("lora/adapter_config.json", rows[i].config);
		const char *result = opened(&m, "lora");
		CHECK(!strncmp(result, rows[i].result, strlen(rows[i].result)));
		if (strncmp(result, rows[i].result, strlen(rows[i].result)) != 0)
			printf("row %zu: %s\n", i, result);
		if (!strcmp(result, "ok"))
			spar_model_close(&m);
	}
}

/* Case B27: 1.00390625 and a change of 0.0005 added in float32 round to 1.0078125 in bfloat16; rounded first, to 1. */
static void merged_once(void)
{
	struct spar_model m;
	struct spar_lora_config l;
	put_weights("a", "{" TIED ",\"torch_dtype\":\"float32\",\"attention_dropout\":1.0}", 1.00390625f, false, 0);
	CHECK(spar_lora_parse(&l, "r=4,alpha=4,targets=down_proj", NULL) == 0);
	put_adapter(&l, 0.0005f / 4);
	spar_lora_release(&l);
	CHECK_STR(opened(&m, "lora"), "ok");
	CHECK(spar_dir_make(at("merged"), NULL) == 0);
	CHECK(spar_model_merge(&m, at("merged"), SPAR_BF16, NULL) == 0);
	spar_model_close(&m);
	CHECK_STR(opened(&m, "merged"), "ok");
	const struct spar_tensor_view *v = spar_safetensors_find(m.weights, "model.layers.0.mlp.down_proj.weight");
	float w[2];
	CHECK(v->dtype == SPAR_BF16 && spar_tensor_view_f32(v, w, NULL) == 0 && w[0] == 1.0078125f);
	spar_model_close(&m);
	struct spar_str config = SPAR_STR_INIT;
	CHECK(spar_file_read(at("merged/config.json"), 4096, &config, NULL) == 0);
	CHECK_STR(config.data, "{" TIED ",\"torch_dtype\":\"bfloat16\",\"attention_dropout\":1.0}");
	spar_str_release(&config);
}

int main(void)
{
	if (!mkdtemp(dir) || spar_dir_make(at("m"), NULL) < 0)
		return 1;
	configs();
	known_configs();
	end_tokens();
	heads();
	hashes();
	lora_options();
	next_adapter();
	adapters();
	merged_once();
	spar_dir_remove(dir, NULL);
	return unit_done();
}
