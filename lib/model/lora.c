/* lora.c - low-rank adapters in PEFT's layout; see model.h. The update of a weight W (out, in) is scale * B A with
 * B (out, r), A (r, in) and scale = alpha / r, or alpha / sqrt(r) for rank-stabilised LoRA (Kalajdzievski 2023). */
#include "base/file.h"
#include "base/opt.h"
#include "base/str.h"
#include "model/model.h"
#include "record/object.h"
#include "record/record.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define R_MAX (1 << 16)
#define ALPHA_MAX 1e9

double spar_lora_scale(const struct spar_lora_config *l)
{
	return l->alpha / (l->use_rslora ? sqrt(l->r) : l->r);
}

void spar_lora_release(struct spar_lora_config *l)
{
	for (size_t i = 0; i < l->n_targets; i++)
		free(l->targets[i]);
	free(l->targets);
	*l = (struct spar_lora_config){0};
}

void spar_lora_copy(struct spar_lora_config *to, const struct spar_lora_config *from)
{
	*to = *from;
	to->targets = spar_calloc(from->n_targets + 1, sizeof *to->targets);
	for (size_t i = 0; i < from->n_targets; i++)
		to->targets[i] = spar_strdup(from->targets[i]);
}

static int add_target(struct spar_lora_config *l, const char *name, size_t len)
{
	if (!len)
		return -1;
	struct spar_str s = SPAR_STR_INIT;
	spar_str_add(&s, name, len);
	l->targets = spar_realloc(l->targets, (l->n_targets + 1) * sizeof *l->targets);
	l->targets[l->n_targets++] = spar_str_detach(&s);
	return 0;
}

bool spar_lora_hits(const struct spar_lora_config *l, const struct spar_param *p)
{
	size_t len = spar_param_module_length(p);
	if (p->kind == SPAR_PARAM_BIAS || l->all_linear)
		return p->kind == SPAR_PARAM_LINEAR;
	for (size_t i = 0; i < l->n_targets; i++) {
		size_t n = strlen(l->targets[i]);
		if (n <= len && !memcmp(p->name + len - n, l->targets[i], n) &&
		    (n == len || p->name[len - n - 1] == '.'))
			return true;
	}
	return false;
}

/* ---- from the command line ---- */

static int parse_targets(struct spar_lora_config *l, const char *value)
{
	l->all_linear = !strcmp(value, "all-linear");
	if (l->all_linear)
		return 0;
	for (;; value++) {
		size_t n = strcspn(value, "+");
		if (add_target(l, value, n) < 0)
			return -1;
		value += n;
		if (!*value)
			return 0;
	}
}

static int parse_part(struct spar_lora_config *l, const char *key, const char *value)
{
	int64_t r = 0;
	int rc = -1;
	if (!strcmp(key, "r")) {
		rc = spar_parse_i64(value, 1, R_MAX, &r);
		l->r = (int)r;
	} else if (!strcmp(key, "alpha")) {
		rc = spar_parse_double(value, 0, ALPHA_MAX, &l->alpha);
	} else if (!strcmp(key, "dropout")) {
		rc = spar_parse_double(value, 0, 0.999, &l->dropout);
	} else if (!strcmp(key, "rslora")) {
		l->use_rslora = !strcmp(value, "true");
		rc = l->use_rslora || !strcmp(value, "false") ? 0 : -1;
	} else if (!strcmp(key, "targets") && !l->n_targets) {
		rc = parse_targets(l, value);
	}
	return rc;
}

int spar_lora_parse(struct spar_lora_config *l, const char *text, struct spar_err *err)
{
	*l = (struct spar_lora_config){.r = 16, .alpha = 32, .dropout = 0.05};
	char *copy = spar_strdup(text), *rest = copy;
	int rc = 0;
	for (char *part; rc == 0 && (part = strtok_r(rest, ",", &rest));) {
		char *value = strchr(part, '=');
		if (value)
			*value++ = 0;
		if (!value || parse_part(l, part, value) < 0)
			rc = spar_fail(err, SPAR_USAGE,
				       "lora: '%.60s%s%.60s' is not r=N, alpha=X, dropout=X, rslora=true|false or "
				       "targets=NAME+NAME",
				       part, value ? "=" : "", value ? value : "");
	}
	free(copy);
	if (rc == 0 && !l->n_targets && !l->all_linear)
		rc = parse_targets(l, "q_proj+k_proj+v_proj+o_proj");
	if (rc < 0)
		spar_lora_release(l);
	return rc;
}

/* ---- from adapter_config.json ---- */

/* Keys that do not change what a saved adapter computes, or that are read elsewhere. Any other key that is on may be a
 * variant of LoRA that is not done here (DoRA, patterns, bias, ... and those still to be invented), and is refused. */
static bool is_harmless(const char *key)
{
	static const char *const keys[] = {"peft_type",
					   "bias",
					   "r",
					   "lora_alpha",
					   "lora_dropout",
					   "use_rslora",
					   "target_modules",
					   "init_lora_weights",
					   "base_model_name_or_path",
					   "task_type",
					   "auto_mapping",
					   "inference_mode",
					   "peft_version",
					   "revision",
					   "runtime_config",
					   "layers_pattern",
					   "megatron_core",
					   "qalora_group_size",
					   "eva_config",
					   "corda_config",
					   "loftq_config",
					   "ensure_weight_tying"};
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (!strcmp(key, keys[i]))
			return true;
	return false;
}

/* A key that, if it is there, has one of these values. */
static int need_one_of(jv obj, const char *key, const char *const *allowed, struct spar_err *err)
{
	const char *s;
	size_t len;
	int rc = spar_get_str(obj, "", key, &s, &len, err);
	if (rc < 0)
		return rc;
	for (; *allowed; allowed++)
		if (!strcmp(s, *allowed))
			return 0;
	return spar_fail(err, SPAR_INPUT, ".%s: '%.40s' is not supported", key, s);
}

static int refuse_features(jv obj, struct spar_err *err)
{
	static const char *const lora[] = {"LORA", NULL}, *const none[] = {"none", NULL};
	static const char *const beginnings[] = {"gaussian", "eva", "orthogonal",
						 NULL}; /* the others change the base too */
	int rc = 0;
	jv_object_foreach(obj, key, value)
	{
		if (rc == 0 && !is_harmless(jv_string_value(key)) && !spar_object_is_off(value))
			rc = spar_fail(err, SPAR_INPUT, ".%.80s: not supported", jv_string_value(key));
		if (rc == 0 && !strcmp(jv_string_value(key), "init_lora_weights") &&
		    jv_get_kind(value) == JV_KIND_STRING)
			rc = need_one_of(obj, "init_lora_weights", beginnings, err);
		jv_free(key);
		jv_free(value);
	}
	if (rc == 0 && spar_has(obj, "peft_type"))
		rc = need_one_of(obj, "peft_type", lora, err);
	if (rc == 0 && spar_has(obj, "bias"))
		rc = need_one_of(obj, "bias", none, err);
	return rc;
}

static int read_targets(struct spar_lora_config *l, jv obj, struct spar_err *err)
{
	jv v = jv_object_get(jv_copy(obj), jv_string("target_modules"));
	int rc = 0;
	if (jv_get_kind(v) == JV_KIND_STRING) {
		l->all_linear = !strcmp(jv_string_value(v), "all-linear");
		if (!l->all_linear)
			rc = spar_fail(err, SPAR_INPUT, ".target_modules: a pattern ('%.60s') is not supported",
				       jv_string_value(v));
	} else if (jv_get_kind(v) == JV_KIND_ARRAY) {
		for (int i = 0, n = jv_array_length(jv_copy(v)); i < n && rc == 0; i++) {
			jv name = jv_array_get(jv_copy(v), i);
			if (jv_get_kind(name) != JV_KIND_STRING ||
			    add_target(l, jv_string_value(name), (size_t)jv_string_length_bytes(jv_copy(name))) < 0)
				rc = spar_fail(err, SPAR_INPUT, ".target_modules[%d]: not a module name", i);
			jv_free(name);
		}
	} else {
		rc = spar_fail(err, SPAR_INPUT, ".target_modules: expected array, got %s",
			       jv_is_valid(v) ? spar_kind_name(v) : "nothing");
	}
	jv_free(v);
	return rc;
}

static int read_numbers(struct spar_lora_config *l, jv obj, struct spar_err *err)
{
	int64_t r;
	int rc;
	if ((rc = spar_get_i64(obj, "", "r", &r, err)) < 0 ||
	    (rc = spar_get_double(obj, "", "lora_alpha", &l->alpha, err)) < 0)
		return rc;
	if (spar_has(obj, "lora_dropout") && (rc = spar_get_double(obj, "", "lora_dropout", &l->dropout, err)) < 0)
		return rc;
	if (spar_has(obj, "use_rslora") && (rc = spar_get_bool(obj, "", "use_rslora", &l->use_rslora, err)) < 0)
		return rc;
	if (r < 1 || r > R_MAX)
		return spar_fail(err, SPAR_INPUT, ".r: %lld is not in [1, %d]", (long long)r, R_MAX);
	if (!(l->alpha >= 0 && l->alpha <= ALPHA_MAX))
		return spar_fail(err, SPAR_INPUT, ".lora_alpha: %g is not in [0, %g]", l->alpha, ALPHA_MAX);
	if (!(l->dropout >= 0 && l->dropout < 1))
		return spar_fail(err, SPAR_INPUT, ".lora_dropout: %g is not in [0, 1)", l->dropout);
	l->r = (int)r;
	return 0;
}

int spar_lora_read(struct spar_lora_config *l, const char *dir, char **base, struct spar_err *err)
{
	*l = (struct spar_lora_config){0};
	*base = NULL;
	char *path = spar_path_join(dir, "adapter_config.json");
	const char *s;
	size_t len;
	jv obj = jv_invalid();
	int rc = spar_object_read(path, &obj, err);
	if (rc < 0)
		goto out;
	if ((rc = refuse_features(obj, err)) == 0 && (rc = read_numbers(l, obj, err)) == 0 &&
	    (rc = read_targets(l, obj, err)) == 0 && spar_has(obj, "base_model_name_or_path") &&
	    (rc = spar_get_str(obj, "", "base_model_name_or_path", &s, &len, err)) == 0)
		*base = spar_strdup(s);
	if (rc < 0) {
		spar_fail_at(err, "%s", path);
		spar_lora_release(l);
	}
out:
	jv_free(obj);
	free(path);
	return rc;
}

/* ---- writing ---- */

static void config_text(struct spar_str *s, const struct spar_lora_config *l, const char *base_dir)
{
	spar_str_adds(
	    s, "{\n  \"peft_type\": \"LORA\",\n  \"task_type\": \"CAUSAL_LM\",\n  \"base_model_name_or_path\": ");
	spar_str_add_json(s, base_dir, strlen(base_dir));
	spar_str_addf(s, ",\n  \"r\": %d,\n  \"lora_alpha\": ", l->r);
	spar_str_add_double(s, l->alpha);
	spar_str_adds(s, ",\n  \"lora_dropout\": ");
	spar_str_add_double(s, l->dropout);
	spar_str_addf(s, ",\n  \"use_rslora\": %s,\n  \"target_modules\": ", l->use_rslora ? "true" : "false");
	if (l->all_linear)
		spar_str_adds(s, "\"all-linear\"");
	for (size_t i = 0; !l->all_linear && i < l->n_targets; i++) {
		spar_str_adds(s, i ? ", " : "[");
		spar_str_add_json(s, l->targets[i], strlen(l->targets[i]));
	}
	spar_str_addf(s, "%s,\n  \"bias\": \"none\",\n  \"fan_in_fan_out\": false,\n  \"inference_mode\": true\n}\n",
		      l->all_linear ? "" : "]");
}

int spar_lora_write(const char *dir, const char *base_dir, const struct spar_lora_config *l,
		    const char *const *module_names, const size_t *in, const size_t *out, float *const *a,
		    float *const *b, size_t n, struct spar_err *err)
{
	static const char *const meta[] = {"format", "pt", NULL};
	struct spar_tensor_view *views = spar_calloc(2 * n, sizeof *views);
	struct spar_str s = SPAR_STR_INIT;
	char *weights = spar_path_join(dir, "adapter_model.safetensors"),
	     *config = spar_path_join(dir, "adapter_config.json");
	size_t r = (size_t)l->r;
	for (size_t i = 0; i < 2 * n; i++) {
		size_t m = i / 2;
		bool is_a = i % 2 == 0;
		spar_str_addf(&s, "base_model.model.%s.lora_%c.weight", module_names[m], is_a ? 'A' : 'B');
		views[i] = (struct spar_tensor_view){.name = spar_str_detach(&s),
						     .dtype = SPAR_F32,
						     .n_dims = 2,
						     .shape = {is_a ? r : out[m], is_a ? in[m] : r},
						     .data = is_a ? a[m] : b[m]};
	}
	int rc = spar_safetensors_write(weights, views, 2 * n, meta, 0, err);
	if (rc == 0) {
		config_text(&s, l, base_dir);
		rc = spar_file_write(config, s.data, s.len, err);
	}
	for (size_t i = 0; i < 2 * n; i++)
		free((char *)views[i].name);
	free(views);
	free(weights);
	free(config);
	spar_str_release(&s);
	return rc;
}
