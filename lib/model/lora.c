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

static void release_rules(struct spar_lora_rule *rules, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(rules[i].pattern);
	free(rules);
}

void spar_lora_release(struct spar_lora_config *l)
{
	for (size_t i = 0; i < l->n_targets; i++)
		free(l->targets[i]);
	free(l->targets);
	free(l->target_pattern);
	release_rules(l->ranks, l->n_ranks);
	release_rules(l->alphas, l->n_alphas);
	*l = (struct spar_lora_config){0};
}

static struct spar_lora_rule *copy_rules(const struct spar_lora_rule *from, size_t n)
{
	struct spar_lora_rule *to = spar_calloc(n + 1, sizeof *to);
	for (size_t i = 0; i < n; i++)
		to[i] = (struct spar_lora_rule){spar_strdup(from[i].pattern), from[i].value};
	return to;
}

void spar_lora_copy(struct spar_lora_config *to, const struct spar_lora_config *from)
{
	*to = *from;
	to->targets = spar_calloc(from->n_targets + 1, sizeof *to->targets);
	for (size_t i = 0; i < from->n_targets; i++)
		to->targets[i] = spar_strdup(from->targets[i]);
	to->target_pattern = from->target_pattern ? spar_strdup(from->target_pattern) : NULL;
	to->ranks = copy_rules(from->ranks, from->n_ranks);
	to->alphas = copy_rules(from->alphas, from->n_alphas);
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
					   "rank_pattern",
					   "alpha_pattern",
					   "fan_in_fan_out",
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
			l->target_pattern = spar_strdup(jv_string_value(v));
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

/* Rules of `key`, an object of pattern: value in [least, most]. */
static int read_rules(struct spar_lora_rule **rules, size_t *n, jv obj, const char *key, double least, double most,
		      struct spar_err *err)
{
	jv patterns;
	if (!spar_has(obj, key))
		return 0;
	int rc = spar_get_kind(obj, "", key, JV_KIND_OBJECT, &patterns, err);
	if (rc < 0)
		return rc;
	*rules = spar_calloc((size_t)jv_object_length(jv_copy(patterns)) + 1, sizeof **rules);
	jv_object_foreach(patterns, pattern, value)
	{
		double v = jv_get_kind(value) == JV_KIND_NUMBER ? jv_number_value(value) : NAN;
		if (rc == 0 && !(v >= least && v <= most))
			rc = spar_fail(err, SPAR_INPUT, ".%s: '%.60s' is not given a number in [%g, %g]", key,
				       jv_string_value(pattern), least, most);
		if (rc == 0)
			(*rules)[(*n)++] = (struct spar_lora_rule){spar_strdup(jv_string_value(pattern)), v};
		jv_free(pattern);
		jv_free(value);
	}
	jv_free(patterns);
	return rc;
}

static int read_patterns(struct spar_lora_config *l, jv obj, struct spar_err *err)
{
	int rc;
	if ((rc = read_rules(&l->ranks, &l->n_ranks, obj, "rank_pattern", 1, R_MAX, err)) < 0 ||
	    (rc = read_rules(&l->alphas, &l->n_alphas, obj, "alpha_pattern", 0, ALPHA_MAX, err)) < 0)
		return rc;
	for (size_t i = 0; i < l->n_ranks; i++)
		if (l->ranks[i].value != floor(l->ranks[i].value))
			return spar_fail(err, SPAR_INPUT, ".rank_pattern: '%.60s': %g is no whole number",
					 l->ranks[i].pattern, l->ranks[i].value);
	if (spar_has(obj, "fan_in_fan_out") &&
	    (rc = spar_get_bool(obj, "", "fan_in_fan_out", &l->fan_in_fan_out, err)) < 0)
		return rc;
	return spar_lora_check_patterns(l, err);
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
	    (rc = read_targets(l, obj, err)) == 0 && (rc = read_patterns(l, obj, err)) == 0 &&
	    spar_has(obj, "base_model_name_or_path") &&
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

static void add_rules(struct spar_str *s, const char *key, const struct spar_lora_rule *rules, size_t n)
{
	spar_str_addf(s, ",\n  \"%s\": {", key);
	for (size_t i = 0; i < n; i++) {
		spar_str_adds(s, i ? ", " : "");
		spar_str_add_json(s, rules[i].pattern, strlen(rules[i].pattern));
		spar_str_adds(s, ": ");
		spar_str_add_double(s, rules[i].value);
	}
	spar_str_addc(s, '}');
}

static void add_targets(struct spar_str *s, const struct spar_lora_config *l)
{
	const char *pattern = l->all_linear ? "all-linear" : l->target_pattern;
	if (pattern)
		spar_str_add_json(s, pattern, strlen(pattern));
	for (size_t i = 0; !pattern && i < l->n_targets; i++) {
		spar_str_adds(s, i ? ", " : "[");
		spar_str_add_json(s, l->targets[i], strlen(l->targets[i]));
	}
	spar_str_adds(s, pattern ? "" : "]");
}

static void config_text(struct spar_str *s, const struct spar_lora_config *l, const char *base_dir, bool transposed)
{
	spar_str_adds(
	    s, "{\n  \"peft_type\": \"LORA\",\n  \"task_type\": \"CAUSAL_LM\",\n  \"base_model_name_or_path\": ");
	spar_str_add_json(s, base_dir, strlen(base_dir));
	spar_str_addf(s, ",\n  \"r\": %d,\n  \"lora_alpha\": ", l->r);
	spar_str_add_double(s, l->alpha);
	spar_str_adds(s, ",\n  \"lora_dropout\": ");
	spar_str_add_double(s, l->dropout);
	spar_str_addf(s, ",\n  \"use_rslora\": %s,\n  \"target_modules\": ", l->use_rslora ? "true" : "false");
	add_targets(s, l);
	if (l->n_ranks)
		add_rules(s, "rank_pattern", l->ranks, l->n_ranks);
	if (l->n_alphas)
		add_rules(s, "alpha_pattern", l->alphas, l->n_alphas);
	spar_str_addf(s, ",\n  \"bias\": \"none\",\n  \"fan_in_fan_out\": %s,\n  \"inference_mode\": true\n}\n",
		      transposed ? "true" : "false");
}

/* lora_A or lora_B of a parameter's module. The name is malloc'ed. */
static struct spar_tensor_view factor(const struct spar_lora_config *l, const struct spar_param *p, char which,
				      const float *values)
{
	struct spar_str name = SPAR_STR_INIT;
	size_t r = spar_lora_rank(l, p);
	spar_str_addf(&name, "base_model.model.%.*s.lora_%c.weight", (int)spar_param_module_length(p), p->name, which);
	return (struct spar_tensor_view){.name = spar_str_detach(&name),
					 .dtype = SPAR_F32,
					 .n_dims = 2,
					 .shape = {which == 'A' ? r : p->rows, which == 'A' ? p->cols : r},
					 .data = values};
}

int spar_lora_write(const char *dir, const char *base_dir, const struct spar_lora_config *l,
		    const struct spar_param *const *modules, float *const *a, float *const *b, size_t n,
		    struct spar_err *err)
{
	static const char *const meta[] = {"format", "pt", NULL};
	struct spar_tensor_view *views = spar_calloc(2 * n, sizeof *views);
	struct spar_str s = SPAR_STR_INIT;
	char *weights = spar_path_join(dir, "adapter_model.safetensors"),
	     *config = spar_path_join(dir, "adapter_config.json");
	for (size_t i = 0; i < n; i++) {
		views[2 * i] = factor(l, modules[i], 'A', a[i]);
		views[2 * i + 1] = factor(l, modules[i], 'B', b[i]);
	}
	int rc = spar_safetensors_write(weights, views, 2 * n, meta, 0, err);
	if (rc == 0) {
		config_text(&s, l, base_dir, n && modules[0]->transposed);
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
