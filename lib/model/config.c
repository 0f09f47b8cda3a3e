/* config.c - config.json read by a table of families; see config.h */
#include "model/config.h"
#include "base/file.h"
#include "model/config_read.h"
#include "record/object.h"
#include "record/record.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- families ---- */

/* How the keys of config.json are called. */
struct keys {
	const char *layers, *hidden, *inner, *heads, *context, *eps, *activation;
};
static const struct keys usual_keys = {
    "num_hidden_layers",       "hidden_size",  "intermediate_size", "num_attention_heads",
    "max_position_embeddings", "rms_norm_eps", "hidden_act"};
static const struct keys gemma_keys = {
    "num_hidden_layers",       "hidden_size",  "intermediate_size", "num_attention_heads",
    "max_position_embeddings", "rms_norm_eps", "hidden_activation"};
static const struct keys gpt2_keys = {
    "n_layer", "n_embd", "n_inner", "n_head", "n_positions", "layer_norm_epsilon", "activation_function"};

/* What a family always has, and which keys tell more of it. */
enum {
	HAS_QKV_BIAS = 1 << 0,
	HAS_ATTENTION_BIAS_KEY = 1 << 1, /* attention_bias: of q, k, v and o */
	HAS_MLP_BIAS_KEY = 1 << 2,
	HAS_QK_NORM = 1 << 3,
	HAS_POST_NORMS = 1 << 4,
	HAS_EMBEDDING_SCALE = 1 << 5, /* sqrt(hidden size) */
	HAS_TIED_HEAD = 1 << 6,       /* if tie_word_embeddings is absent */
	HAS_CAP_KEYS = 1 << 7,        /* query_pre_attn_scalar and the caps of scores and logits */
	HAS_CAPS = 1 << 8,            /* which are on if absent */
	HAS_GEMMA = HAS_ATTENTION_BIAS_KEY | HAS_EMBEDDING_SCALE | HAS_TIED_HEAD,
	IS_GPT2 = 1 << 9,
};
/* Which layers are windowed, unless layer_types lists them. */
enum windowed {
	WINDOWED_NONE,
	WINDOWED_ALL,
	WINDOWED_LAST,     /* if use_sliding_window: those from max_window_layers on */
	WINDOWED_UNTURNED, /* if use_sliding_window: those without rotary positions */
	WINDOWED_PATTERN,  /* all but every n-th */
};

static const struct family {
	const char *model_type;
	const struct keys *keys;
	unsigned has;
	/* What is meant where config.json says nothing: */
	const char *activation;
	double theta, local_theta; /* of rotary positions; local: of windowed layers, where they have their own */
	size_t context, head_dim;  /* head_dim 0: hidden size / heads */
	enum windowed windowed;
	size_t window, pattern;
	enum spar_norm norm;
} families[] = {
    {"llama", &usual_keys, HAS_ATTENTION_BIAS_KEY | HAS_MLP_BIAS_KEY, "silu", .theta = 1e4, .context = 2048},
    {"mistral", &usual_keys, 0, "silu", .theta = 1e4, .context = 131072, .windowed = WINDOWED_ALL, .window = 4096},
    {"qwen2", &usual_keys, HAS_QKV_BIAS, "silu", .theta = 1e4, .context = 32768, .windowed = WINDOWED_LAST,
     .window = 4096},
    {"qwen3", &usual_keys, HAS_ATTENTION_BIAS_KEY | HAS_QK_NORM, "silu", .theta = 1e4, .context = 32768,
     .head_dim = 128, .windowed = WINDOWED_LAST, .window = 4096},
    {"smollm3", &usual_keys, HAS_ATTENTION_BIAS_KEY | HAS_MLP_BIAS_KEY | HAS_TIED_HEAD, "silu", .theta = 2e6,
     .context = 32768, .windowed = WINDOWED_UNTURNED, .pattern = 4},
    {"gemma", &usual_keys, HAS_GEMMA, "gelu_pytorch_tanh", .theta = 1e4, .context = 8192, .head_dim = 256,
     .norm = SPAR_NORM_RMS_PLUS_ONE},
    {"gemma2", &gemma_keys, HAS_GEMMA | HAS_POST_NORMS | HAS_CAP_KEYS | HAS_CAPS, "gelu_pytorch_tanh", .theta = 1e4,
     .context = 8192, .head_dim = 256, .windowed = WINDOWED_PATTERN, .window = 4096, .pattern = 2,
     .norm = SPAR_NORM_RMS_PLUS_ONE},
    {"gemma3_text", &gemma_keys, HAS_GEMMA | HAS_POST_NORMS | HAS_CAP_KEYS | HAS_QK_NORM, "gelu_pytorch_tanh",
     .theta = 1e6, .local_theta = 1e4, .context = 131072, .head_dim = 256, .windowed = WINDOWED_PATTERN, .window = 4096,
     .pattern = 6, .norm = SPAR_NORM_RMS_PLUS_ONE},
    {"gpt2", &gpt2_keys, IS_GPT2 | HAS_QKV_BIAS | HAS_TIED_HEAD, "gelu_new", .context = 1024, .norm = SPAR_NORM_LAYER},
};
#define N_FAMILIES (sizeof families / sizeof *families)

/* Keys that do not change what a model computes, or that are read elsewhere. Dropout rates are of the training that made
 * the model. */
static const char *const harmless[] = {
    "architectures", "transformers_version", "torch_dtype", "dtype", "use_cache", "_name_or_path", "name_or_path",
    "model_name", "auto_map", "tokenizer_class", "bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id",
    "sep_token_id", "decoder_start_token_id", "attention_dropout", "attn_pdrop", "embd_pdrop", "resid_pdrop",
    "hidden_dropout", "summary_*", "pretraining_tp", "task_specific_params", "problem_type", "id2label", "label2id",
    "gradient_checkpointing", "return_dict", "output_attentions", "output_hidden_states", "chunk_size_feed_forward",
    "n_ctx", "attn_implementation", "_attn_implementation*", "cache_implementation", "is_llama_config",
    "transformers.js_config", "unsloth*", "reorder_and_upcast_attn", "_commit_hash", "do_sample", "max_length",
    "temperature", "top_k", "top_p", "repetition_penalty",
    /* one of a pair, or a neighbour's, where it is not read: */
    "hidden_act", "hidden_activation", "max_window_layers", NULL};

static int unknown_family(const char *type, struct spar_err *err)
{
	char list[200] = "";
	for (size_t i = 0, n = 0; i < N_FAMILIES && n < sizeof list; i++)
		n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", families[i].model_type);
	return spar_fail(err, SPAR_INPUT, ".model_type: '%.40s' is not supported (%s are)", type, list);
}

/* ---- sizes ---- */

static int read_heads(struct spar_config *c, const struct family *f, struct spar_reading *r, struct spar_err *err)
{
	int rc;
	if ((rc = spar_reading_size(r, f->keys->heads, 0, &c->n_heads, err)) < 0)
		return rc;
	c->n_kv_heads = c->n_heads;
	c->head_dim = f->head_dim ? f->head_dim : c->hidden_size / c->n_heads;
	if (!f->head_dim && !spar_has(r->obj, "head_dim") && c->hidden_size % c->n_heads)
		return spar_reading_fail(r, f->keys->hidden, err, "%zu is not a multiple of .%s, %zu", c->hidden_size,
					 f->keys->heads, c->n_heads);
	if (f->has & IS_GPT2)
		return 0;
	if ((rc = spar_reading_size(r, "num_key_value_heads", c->n_heads, &c->n_kv_heads, err)) < 0 ||
	    (rc = spar_reading_size(r, "head_dim", c->head_dim ? c->head_dim : 1, &c->head_dim, err)) < 0)
		return rc;
	if (c->n_heads % c->n_kv_heads)
		return spar_reading_fail(r, f->keys->heads, err, "%zu is not a multiple of .num_key_value_heads, %zu",
					 c->n_heads, c->n_kv_heads);
	if (c->head_dim % 2)
		return spar_reading_fail(r, "head_dim", err, "%zu is odd: rotary positions need pairs", c->head_dim);
	return 0;
}

static int read_sizes(struct spar_config *c, const struct family *f, struct spar_reading *r, struct spar_err *err)
{
	const struct keys *k = f->keys;
	int rc;
	if ((rc = spar_reading_size(r, k->layers, 0, &c->n_layers, err)) < 0 ||
	    (rc = spar_reading_size(r, k->hidden, 0, &c->hidden_size, err)) < 0 ||
	    (rc = spar_reading_size(r, k->inner, f->has & IS_GPT2 ? 4 * c->hidden_size : 0, &c->intermediate_size,
				    err)) < 0 ||
	    (rc = spar_reading_size(r, "vocab_size", 0, &c->vocab_size, err)) < 0 ||
	    (rc = spar_reading_size(r, k->context, f->context, &c->max_position, err)) < 0)
		return rc;
	if (c->n_layers > SPAR_MAX_LAYERS)
		return spar_reading_fail(r, k->layers, err, "%zu is more than %d", c->n_layers, SPAR_MAX_LAYERS);
	return read_heads(c, f, r, err);
}

/* ---- what is in a layer ---- */

static int read_activation(struct spar_config *c, const struct family *f, struct spar_reading *r, struct spar_err *err)
{
	static const struct {
		const char *name;
		enum spar_activation activation;
	} names[] = {{"silu", SPAR_ACTIVATION_SILU},
		     {"swish", SPAR_ACTIVATION_SILU},
		     {"gelu_new", SPAR_ACTIVATION_GELU_TANH},
		     {"gelu_pytorch_tanh", SPAR_ACTIVATION_GELU_TANH}};
	const char *name;
	int rc = spar_reading_str(r, f->keys->activation, f->activation, &name, err);
	if (rc < 0)
		return rc;
	if (!strcmp(f->model_type, "gemma") && !strcmp(name, "gelu"))
		name = f->activation; /* old files of the first Gemma say so and mean this */
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp(name, names[i].name)) {
			c->activation = names[i].activation;
			return 0;
		}
	return spar_reading_fail(r, f->keys->activation, err,
				 "'%.40s' is not supported (silu, gelu_new and gelu_pytorch_tanh are)", name);
}

static int read_parts(struct spar_config *c, const struct family *f, struct spar_reading *r, struct spar_err *err)
{
	bool bias = false;
	double eps;
	int rc;
	c->norm = f->norm;
	c->qk_norm = f->has & HAS_QK_NORM;
	c->post_norms = f->has & HAS_POST_NORMS;
	c->embedding_scale = f->has & HAS_EMBEDDING_SCALE ? sqrt((double)c->hidden_size) : 0;
	if ((rc = read_activation(c, f, r, err)) < 0 ||
	    (rc = spar_reading_positive(r, f->keys->eps, f->has & IS_GPT2 ? 1e-5 : 1e-6, &eps, err)) < 0 ||
	    (rc = spar_reading_positive(r, "initializer_range", 0.02, &c->initializer_range, err)) < 0 ||
	    (rc = spar_reading_flag(r, "tie_word_embeddings", f->has & HAS_TIED_HEAD, &c->tie_word_embeddings, err)) <
		0 ||
	    (f->has & HAS_ATTENTION_BIAS_KEY && (rc = spar_reading_flag(r, "attention_bias", false, &bias, err)) < 0) ||
	    (f->has & HAS_MLP_BIAS_KEY && (rc = spar_reading_flag(r, "mlp_bias", false, &c->mlp_bias, err)) < 0))
		return rc;
	c->norm_eps = (float)eps;
	c->qkv_bias = bias || f->has & HAS_QKV_BIAS;
	c->o_bias = bias;
	if (!(f->has & HAS_CAP_KEYS))
		return 0;
	if ((rc = spar_reading_positive(r, "query_pre_attn_scalar", 256, &c->query_scalar, err)) < 0 ||
	    (rc = spar_reading_positive_or_none(r, "attn_logit_softcapping", f->has & HAS_CAPS ? 50 : 0,
						&c->attention_cap, err)) < 0)
		return rc;
	return spar_reading_positive_or_none(r, "final_logit_softcapping", f->has & HAS_CAPS ? 30 : 0, &c->logit_cap,
					     err);
}

static int read_gpt2(struct spar_config *c, struct spar_reading *r, struct spar_err *err)
{
	bool scaled;
	int rc = spar_reading_flag(r, "scale_attn_weights", true, &scaled, err);
	if (rc < 0)
		return rc;
	c->naming = SPAR_NAMING_GPT2;
	c->plain_mlp = c->o_bias = c->mlp_bias = c->learned_positions = true;
	c->query_scalar = scaled ? 0 : 1;
	for (size_t i = 0; i < c->n_layers; i++)
		c->layers[i].rope = -1;
	return 0;
}

/* ---- what differs between layers ---- */

/* An array with an entry for each layer at least. *out is a NEW reference. */
static int get_list(const struct spar_config *c, struct spar_reading *r, const char *key, jv *out, struct spar_err *err)
{
	int rc = spar_get_kind(r->obj, "", key, JV_KIND_ARRAY, out, err);
	if (rc == 0 && (size_t)jv_array_length(jv_copy(*out)) < c->n_layers) {
		jv_free(*out);
		rc = spar_reading_fail(r, key, err, "fewer entries than layers");
	}
	return rc;
}

/* SmolLM3: every n-th layer turns nothing, or those with a 0 in the list. */
static int read_unturned(struct spar_config *c, const struct family *f, struct spar_reading *r, struct spar_err *err)
{
	size_t interval;
	jv list;
	int rc = spar_reading_size(r, "no_rope_layer_interval", f->pattern, &interval, err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < c->n_layers; i++)
		c->layers[i].rope = (i + 1) % interval ? 0 : -1;
	if (!spar_reading_has(r, "no_rope_layers"))
		return 0;
	if ((rc = get_list(c, r, "no_rope_layers", &list, err)) < 0)
		return rc;
	for (size_t i = 0; i < c->n_layers && rc == 0; i++) {
		jv v = jv_array_get(jv_copy(list), (int)i);
		double turns = jv_get_kind(v) == JV_KIND_NUMBER ? jv_number_value(v) : -1;
		if (turns != 0 && turns != 1)
			rc = spar_reading_fail(r, "no_rope_layers", err, "entry %zu is neither 0 nor 1", i);
		c->layers[i].rope = turns == 1 ? 0 : -1;
		jv_free(v);
	}
	jv_free(list);
	return rc;
}

static int read_layer_types(struct spar_config *c, struct spar_reading *r, struct spar_err *err)
{
	jv list;
	int rc = get_list(c, r, "layer_types", &list, err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < c->n_layers && rc == 0; i++) {
		jv v = jv_array_get(jv_copy(list), (int)i);
		const char *type = jv_get_kind(v) == JV_KIND_STRING ? jv_string_value(v) : "?";
		c->layers[i].windowed = !strcmp(type, "sliding_attention");
		if (!c->layers[i].windowed && strcmp(type, "full_attention") != 0)
			rc = spar_reading_fail(r, "layer_types", err, "'%.40s' is not supported", type);
		else if (c->layers[i].windowed && !c->window)
			rc = spar_reading_fail(r, "layer_types", err, "'%s' without a .sliding_window", type);
		jv_free(v);
	}
	jv_free(list);
	return rc;
}

static int read_windows(struct spar_config *c, const struct family *f, struct spar_reading *r, struct spar_err *err)
{
	bool use = true;
	size_t first = 0, pattern = f->pattern;
	int rc;
	if ((rc = spar_reading_size_or_none(r, "sliding_window", f->window, &c->window, err)) < 0)
		return rc;
	if (f->windowed == WINDOWED_LAST || f->windowed == WINDOWED_UNTURNED) {
		if ((rc = spar_reading_flag(r, "use_sliding_window", false, &use, err)) < 0)
			return rc;
		c->window = use ? c->window : 0;
	}
	if (f->windowed == WINDOWED_LAST && (rc = spar_reading_size(r, "max_window_layers", 28, &first, err)) < 0)
		return rc;
	if (f->windowed == WINDOWED_PATTERN && f->local_theta > 0 &&
	    ((rc = spar_reading_size(r, "_sliding_window_pattern", pattern, &pattern, err)) < 0 ||
	     (rc = spar_reading_size(r, "sliding_window_pattern", pattern, &pattern, err)) < 0))
		return rc;
	if (f->windowed != WINDOWED_ALL && spar_reading_has(r, "layer_types"))
		return read_layer_types(c, r, err);
	for (size_t i = 0; i < c->n_layers && c->window; i++)
		c->layers[i].windowed = f->windowed == WINDOWED_UNTURNED  ? c->layers[i].rope < 0
					: f->windowed == WINDOWED_PATTERN ? (i + 1) % pattern != 0
									  : i >= first;
	return 0;
}

static int read_layers(struct spar_config *c, const struct family *f, struct spar_reading *r, struct spar_err *err)
{
	int rc = 0;
	if (f->has & IS_GPT2)
		return read_gpt2(c, r, err);
	if ((rc = spar_config_read_ropes(c, r, f->theta, f->local_theta, err)) < 0 ||
	    (f->windowed == WINDOWED_UNTURNED && (rc = read_unturned(c, f, r, err)) < 0) ||
	    (f->windowed != WINDOWED_NONE && (rc = read_windows(c, f, r, err)) < 0))
		return rc;
	for (size_t i = 0; i < c->n_layers && f->local_theta > 0; i++)
		c->layers[i].rope = c->layers[i].windowed;
	return 0;
}

/* ---- the whole ---- */

static int read_config(struct spar_config *c, jv obj, struct spar_err *err)
{
	struct spar_reading r = {.obj = obj, .path = ""};
	const struct family *f = families;
	const char *type;
	int rc = spar_reading_str(&r, "model_type", "", &type, err);
	if (rc < 0)
		return rc;
	while (f < families + N_FAMILIES && strcmp(type, f->model_type) != 0)
		f++;
	if (f == families + N_FAMILIES)
		return unknown_family(type, err);
	snprintf(c->model_type, sizeof c->model_type, "%s", type);
	if (spar_reading_has(&r, "quantization_config"))
		return spar_fail(err, SPAR_INPUT, ".quantization_config: quantized weights are not supported");
	if ((rc = read_sizes(c, f, &r, err)) < 0 || (rc = read_parts(c, f, &r, err)) < 0 ||
	    (rc = read_layers(c, f, &r, err)) < 0)
		return rc;
	return spar_reading_end(&r, harmless, err);
}

int spar_config_load(struct spar_config *c, const char *dir, struct spar_err *err)
{
	*c = (struct spar_config){.eos = -1};
	char *path = spar_path_join(dir, "config.json");
	jv obj = jv_invalid();
	int rc = spar_object_read(path, &obj, err);
	if (rc == 0 && (rc = read_config(c, obj, err)) < 0)
		spar_fail_at(err, "%s", path);
	if (rc == 0)
		rc = spar_config_load_ends(c, dir, obj, err);
	jv_free(obj);
	free(path);
	return rc;
}

double spar_config_score_scale(const struct spar_config *c)
{
	return 1 / sqrt(c->query_scalar > 0 ? c->query_scalar : (double)c->head_dim);
}
