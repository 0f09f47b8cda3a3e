/* config.c - see config.h */
#include "model/config.h"
#include "base/file.h"
#include "record/object.h"
#include "record/record.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LAYERS 4096
#define SIZE_LIMIT (1 << 24) /* of any one size in a config: a product of two fits easily in 64 bits */

/* An optional whole number in [1, SIZE_LIMIT]; `absent` 0 means it must be there. */
static int get_size(jv obj, const char *key, size_t absent, size_t *out, struct spar_err *err)
{
	int64_t v;
	if (absent && !spar_has(obj, key)) {
		*out = absent;
		return 0;
	}
	int rc = spar_get_i64(obj, "", key, &v, err);
	if (rc < 0)
		return rc;
	if (v < 1 || v > SIZE_LIMIT)
		return spar_fail(err, SPAR_INPUT, ".%s: %lld is not in [1, %d]", key, (long long)v, SIZE_LIMIT);
	*out = (size_t)v;
	return 0;
}

static int get_positive(jv obj, const char *path, const char *key, double absent, double *out, struct spar_err *err)
{
	*out = absent;
	if (!spar_has(obj, key))
		return 0;
	int rc = spar_get_double(obj, path, key, out, err);
	if (rc == 0 && !(*out > 0))
		rc = spar_fail(err, SPAR_INPUT, ".%s: %g is not positive", key, *out);
	return rc;
}

static int get_flag(jv obj, const char *key, bool absent, bool *out, struct spar_err *err)
{
	*out = absent;
	return spar_has(obj, key) ? spar_get_bool(obj, "", key, out, err) : 0;
}

/* A string that must have one value; absent counts as that value. */
static int need_str(jv obj, const char *path, const char *key, const char *want, struct spar_err *err)
{
	const char *s;
	size_t len;
	if (!spar_has(obj, key))
		return 0;
	int rc = spar_get_str(obj, path, key, &s, &len, err);
	if (rc == 0 && strcmp(s, want) != 0)
		rc = spar_fail(err, SPAR_INPUT, "%s%s.%s: '%.40s' is not supported (only '%s' is)", *path ? "." : "",
			       path, key, s, want);
	return rc;
}

/* Rotary positions stand as rope_theta with rope_scaling, or (newer files) together in rope_parameters. */
static int read_rope(struct spar_config *c, jv obj, struct spar_err *err)
{
	static const char *const places[] = {"rope_scaling", "rope_parameters"};
	int rc = get_positive(obj, "", "rope_theta", 10000, &c->rope_theta, err);
	for (size_t i = 0; i < 2 && rc == 0; i++) {
		jv rope;
		if (!spar_has(obj, places[i]))
			continue;
		if ((rc = spar_get_kind(obj, "", places[i], JV_KIND_OBJECT, &rope, err)) < 0)
			break;
		if ((rc = need_str(rope, places[i], "type", "default", err)) == 0 &&
		    (rc = need_str(rope, places[i], "rope_type", "default", err)) == 0)
			rc = get_positive(rope, places[i], "rope_theta", c->rope_theta, &c->rope_theta, err);
		jv_free(rope);
	}
	return rc;
}

static int read_shape(struct spar_config *c, jv obj, struct spar_err *err)
{
	int rc;
	if ((rc = get_size(obj, "num_hidden_layers", 0, &c->n_layers, err)) < 0 ||
	    (rc = get_size(obj, "hidden_size", 0, &c->hidden_size, err)) < 0 ||
	    (rc = get_size(obj, "intermediate_size", 0, &c->intermediate_size, err)) < 0 ||
	    (rc = get_size(obj, "vocab_size", 0, &c->vocab_size, err)) < 0 ||
	    (rc = get_size(obj, "num_attention_heads", 0, &c->n_heads, err)) < 0 ||
	    (rc = get_size(obj, "num_key_value_heads", c->n_heads, &c->n_kv_heads, err)) < 0 ||
	    (rc = get_size(obj, "max_position_embeddings", 2048, &c->max_position, err)) < 0)
		return rc;
	if (c->n_layers > MAX_LAYERS)
		return spar_fail(err, SPAR_INPUT, ".num_hidden_layers: %zu is more than %d", c->n_layers, MAX_LAYERS);
	if (!spar_has(obj, "head_dim") && c->hidden_size % c->n_heads)
		return spar_fail(err, SPAR_INPUT, ".hidden_size: %zu is not a multiple of .num_attention_heads, %zu",
				 c->hidden_size, c->n_heads);
	if ((rc = get_size(obj, "head_dim", c->hidden_size / c->n_heads ? c->hidden_size / c->n_heads : 1, &c->head_dim,
			   err)) < 0)
		return rc;
	if (c->n_heads % c->n_kv_heads)
		return spar_fail(err, SPAR_INPUT,
				 ".num_attention_heads: %zu is not a multiple of .num_key_value_heads, %zu", c->n_heads,
				 c->n_kv_heads);
	if (c->head_dim % 2)
		return spar_fail(err, SPAR_INPUT, ".head_dim: %zu is odd: rotary positions need pairs", c->head_dim);
	return 0;
}

static int read_config(struct spar_config *c, jv obj, struct spar_err *err)
{
	const char *type;
	size_t len;
	int rc = spar_get_str(obj, "", "model_type", &type, &len, err);
	if (rc < 0)
		return rc;
	if (strcmp(type, "llama") != 0)
		return spar_fail(err, SPAR_INPUT, ".model_type: '%.40s' is not supported (only 'llama' is)", type);
	snprintf(c->model_type, sizeof c->model_type, "%s", type);
	if (spar_has(obj, "quantization_config"))
		return spar_fail(err, SPAR_INPUT, ".quantization_config: quantized weights are not supported");
	double eps;
	if ((rc = read_shape(c, obj, err)) < 0 || (rc = need_str(obj, "", "hidden_act", "silu", err)) < 0 ||
	    (rc = read_rope(c, obj, err)) < 0 || (rc = get_positive(obj, "", "rms_norm_eps", 1e-6, &eps, err)) < 0 ||
	    (rc = get_positive(obj, "", "initializer_range", 0.02, &c->initializer_range, err)) < 0 ||
	    (rc = get_flag(obj, "tie_word_embeddings", false, &c->tie_word_embeddings, err)) < 0 ||
	    (rc = get_flag(obj, "attention_bias", false, &c->attention_bias, err)) < 0 ||
	    (rc = get_flag(obj, "mlp_bias", false, &c->mlp_bias, err)) < 0)
		return rc;
	if (c->attention_bias || c->mlp_bias)
		return spar_fail(err, SPAR_INPUT, ".%s: true is not supported",
				 c->attention_bias ? "attention_bias" : "mlp_bias");
	c->rms_norm_eps = (float)eps;
	return 0;
}

/* ---- end tokens ---- */

static int add_end(struct spar_config *c, double id, const char *key, struct spar_err *err)
{
	if (!(id >= 0 && id < (double)c->vocab_size) || id != (double)(int32_t)id)
		return spar_fail(err, SPAR_INPUT, ".%s: %.17g is no token of a vocabulary of %zu", key, id,
				 c->vocab_size);
	if (spar_config_is_end(c, (int32_t)id))
		return 0;
	if (c->n_end == SPAR_MAX_END)
		return spar_fail(err, SPAR_INPUT, ".%s: more than %d end tokens", key, SPAR_MAX_END);
	c->end_ids[c->n_end++] = (int32_t)id;
	return 0;
}

/* `eos_token_id` is one id or a list. */
static int add_ends(struct spar_config *c, jv obj, struct spar_err *err)
{
	static const char key[] = "eos_token_id";
	if (!spar_has(obj, key))
		return 0;
	jv v = jv_object_get(jv_copy(obj), jv_string(key));
	int rc = 0;
	if (jv_get_kind(v) == JV_KIND_NUMBER)
		rc = add_end(c, jv_number_value(v), key, err);
	else if (jv_get_kind(v) == JV_KIND_ARRAY)
		jv_array_foreach(v, i, item)
		{
			if (rc == 0 && jv_get_kind(item) != JV_KIND_NUMBER)
				rc = spar_fail(err, SPAR_INPUT, ".%s[%d]: expected number, got %s", key, i,
					       spar_kind_name(item));
			else if (rc == 0)
				rc = add_end(c, jv_number_value(item), key, err);
			jv_free(item);
		}
	else
		rc = spar_fail(err, SPAR_INPUT, ".%s: expected number or array, got %s", key, spar_kind_name(v));
	jv_free(v);
	return rc;
}

int spar_config_add_eos(struct spar_config *c, int32_t id, struct spar_err *err)
{
	struct spar_config without = *c;
	if (id < 0)
		return 0;
	c->n_end = 0;
	int rc = add_end(c, id, "eos_token", err);
	for (size_t i = 0; rc == 0 && i < without.n_end; i++)
		rc = add_end(c, without.end_ids[i], "eos_token", err);
	if (rc == 0)
		c->eos = id;
	return rc;
}

/* ---- files ---- */

static int at_path(struct spar_err *err, const char *path, int rc)
{
	return rc < 0 ? spar_fail_at(err, "%s", path) : rc;
}

static int load_generation_config(struct spar_config *c, const char *dir, struct spar_err *err)
{
	char *path = spar_path_join(dir, "generation_config.json");
	jv obj = jv_invalid();
	int rc = 0;
	if (spar_file_exists(path) && (rc = spar_object_read(path, &obj, err)) == 0)
		rc = at_path(err, path, add_ends(c, obj, err));
	jv_free(obj);
	free(path);
	return rc;
}

int spar_config_load(struct spar_config *c, const char *dir, struct spar_err *err)
{
	*c = (struct spar_config){.eos = -1};
	char *path = spar_path_join(dir, "config.json");
	jv obj = jv_invalid();
	int rc = spar_object_read(path, &obj, err);
	if (rc < 0)
		goto out;
	if ((rc = at_path(err, path, read_config(c, obj, err))) < 0 || (rc = load_generation_config(c, dir, err)) < 0 ||
	    (rc = at_path(err, path, add_ends(c, obj, err))) < 0)
		goto out;
	if (c->eos < 0 && c->n_end)
		c->eos = c->end_ids[0];
out:
	jv_free(obj);
	free(path);
	return rc;
}

bool spar_config_is_end(const struct spar_config *c, int32_t id)
{
	for (size_t i = 0; i < c->n_end; i++)
		if (c->end_ids[i] == id)
			return true;
	return false;
}

void spar_config_rotary(const struct spar_config *c, size_t first, size_t end, float *cosines, float *sines)
{
	size_t half = c->head_dim / 2;
	for (size_t i = 0; i < half; i++) {
		float frequency = 1 / (float)pow(c->rope_theta, 2.0 * (double)i / (double)c->head_dim);
		for (size_t pos = first; pos < end; pos++) {
			float angle = (float)pos * frequency;
			cosines[(pos - first) * half + i] = cosf(angle);
			sines[(pos - first) * half + i] = sinf(angle);
		}
	}
}

/* ---- the weights ---- */

static void add_param(struct spar_param **p, enum spar_param_kind kind, int layer, const char *name, size_t rows,
		      size_t cols)
{
	**p = (struct spar_param){.kind = kind, .rows = rows, .cols = cols, .layer = layer};
	if (layer < 0)
		snprintf((*p)->name, sizeof(*p)->name, "%s.weight", name);
	else
		snprintf((*p)->name, sizeof(*p)->name, "model.layers.%d.%s.weight", layer, name);
	++*p;
}

struct spar_param *spar_config_params(const struct spar_config *c, size_t *n)
{
	size_t hidden = c->hidden_size, inner = c->intermediate_size;
	size_t q = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;
	struct spar_param *params = spar_calloc(3 + 9 * c->n_layers, sizeof *params), *p = params;
	add_param(&p, SPAR_PARAM_EMBED, -1, "model.embed_tokens", c->vocab_size, hidden);
	for (int i = 0; i < (int)c->n_layers; i++) {
		add_param(&p, SPAR_PARAM_LINEAR, i, "self_attn.q_proj", q, hidden);
		add_param(&p, SPAR_PARAM_LINEAR, i, "self_attn.k_proj", kv, hidden);
		add_param(&p, SPAR_PARAM_LINEAR, i, "self_attn.v_proj", kv, hidden);
		add_param(&p, SPAR_PARAM_LINEAR, i, "self_attn.o_proj", hidden, q);
		add_param(&p, SPAR_PARAM_LINEAR, i, "mlp.gate_proj", inner, hidden);
		add_param(&p, SPAR_PARAM_LINEAR, i, "mlp.up_proj", inner, hidden);
		add_param(&p, SPAR_PARAM_LINEAR, i, "mlp.down_proj", hidden, inner);
		add_param(&p, SPAR_PARAM_NORM, i, "input_layernorm", hidden, 0);
		add_param(&p, SPAR_PARAM_NORM, i, "post_attention_layernorm", hidden, 0);
	}
	add_param(&p, SPAR_PARAM_NORM, -1, "model.norm", hidden, 0);
	if (!c->tie_word_embeddings)
		add_param(&p, SPAR_PARAM_HEAD, -1, "lm_head", c->vocab_size, hidden);
	*n = (size_t)(p - params);
	return params;
}
