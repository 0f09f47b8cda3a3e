/* model.c - see model.h */
#include "model/model.h"
#include "base/file.h"
#include "base/str.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG_MAX ((size_t)16 << 20)

/* ---- what the weights are: a hash ---- */

/* FNV-1a's multiply over 8-byte words, with a shift so that high bits reach low ones too. */
static uint64_t mix(uint64_t h, uint64_t word)
{
	h = (h ^ word) * 0x100000001b3;
	return h ^ h >> 32;
}

static uint64_t hash_bytes(uint64_t h, const void *data, size_t n)
{
	const uint8_t *p = data;
	uint64_t word;
	h = mix(h, n);
	for (; n >= 8; n -= 8, p += 8) {
		memcpy(&word, p, 8);
		h = mix(h, word);
	}
	word = 0;
	if (n)
		memcpy(&word, p, n);
	return mix(h, word);
}

#define HASH_START 0xcbf29ce484222325

static uint64_t hash_tensor(const struct spar_tensor_view *v)
{
	uint64_t h = hash_bytes(HASH_START, v->name, strlen(v->name));
	h = hash_bytes(mix(h, v->dtype), v->shape, (size_t)v->n_dims * sizeof *v->shape);
	return hash_bytes(h, v->data, v->n_bytes);
}

/* Tensors are hashed side by side and folded in order of name. */
static uint64_t hash_tensors(uint64_t h, const struct spar_safetensors *s)
{
	size_t n = spar_safetensors_count(s);
	uint64_t *each = spar_calloc(n + 1, sizeof *each);
#pragma omp parallel for schedule(dynamic)
	for (size_t i = 0; i < n; i++)
		each[i] = hash_tensor(spar_safetensors_at(s, i));
	h = hash_bytes(h, each, n * sizeof *each);
	free(each);
	return h;
}

static uint64_t hash_scales(uint64_t h, const struct spar_model *m)
{
	size_t n;
	struct spar_param *params = spar_config_params(&m->config, &n);
	for (size_t i = 0; i < n; i++)
		if (spar_lora_hits(&m->lora, &params[i])) {
			double scale = spar_lora_scale(&m->lora, &params[i]);
			h = hash_bytes(h, &scale, sizeof scale);
		}
	free(params);
	return h;
}

static int hash_base(struct spar_model *m, struct spar_err *err)
{
	struct spar_str config = SPAR_STR_INIT;
	char *path = spar_path_join(m->base_dir, "config.json");
	int rc = spar_file_read(path, CONFIG_MAX, &config, err);
	m->base_hash = hash_tensors(hash_bytes(HASH_START, config.data, config.len), m->weights);
	spar_str_release(&config);
	free(path);
	return rc;
}

static void hash_model(struct spar_model *m)
{
	uint64_t h = m->has_adapter ? hash_tensors(hash_scales(m->base_hash, m), m->adapter) : m->base_hash;
	snprintf(m->hash, sizeof m->hash, "%016llx", (unsigned long long)h);
}

/* ---- the base: every parameter there, with its shape ---- */

static bool is_float(enum spar_dtype t)
{
	return t == SPAR_F32 || t == SPAR_F16 || t == SPAR_BF16 || t == SPAR_F64;
}

/* `cols` 0: a vector. */
static int check_tensor(const struct spar_tensor_view *v, const char *name, size_t rows, size_t cols,
			struct spar_err *err)
{
	if (!v)
		return spar_fail(err, SPAR_INPUT, "no tensor '%s'", name);
	if (v->n_dims != (cols ? 2 : 1) || v->shape[0] != rows || (cols && v->shape[1] != cols)) {
		char got[128] = "";
		for (int d = 0, n = 0; d < v->n_dims && n < (int)sizeof got; d++)
			n += snprintf(got + n, sizeof got - (size_t)n, "%s%zu", d ? "," : "", v->shape[d]);
		return spar_fail(err, SPAR_INPUT,
				 cols ? "tensor '%s': shape [%s], not [%zu,%zu]" : "tensor '%s': shape [%s], not [%zu]",
				 name, got, rows, cols);
	}
	if (!is_float(v->dtype))
		return spar_fail(err, SPAR_INPUT, "tensor '%s': %s is no type for weights", name,
				 spar_dtype_name(v->dtype));
	return 0;
}

/* A checkpoint of the model without its head leaves out the first word of the names ("h.0.ln_1.weight"). */
static const char *short_name(const char *name)
{
	const char *dot = strchr(name, '.');
	return strncmp(name, "lm_head.", strlen("lm_head.")) != 0 && dot ? dot + 1 : name;
}

const struct spar_tensor_view *spar_model_find(const struct spar_model *m, const struct spar_param *p)
{
	const struct spar_tensor_view *v = spar_safetensors_find(m->weights, p->name);
	return v ? v : spar_safetensors_find(m->weights, short_name(p->name));
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct spar_param *)a)->name, ((const struct spar_param *)b)->name);
}

/* Old checkpoints keep what follows from the config: rotary frequencies, and GPT-2's causal mask. */
static bool is_buffer(const char *name)
{
	static const char *const tails[] = {".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias"};
	size_t len = strlen(name);
	for (size_t i = 0; i < sizeof tails / sizeof *tails; i++)
		if (len > strlen(tails[i]) && !strcmp(name + len - strlen(tails[i]), tails[i]))
			return true;
	return false;
}

/* Is the tensor one of the parameters (sorted by name), under its whole name or its short one? */
static bool has_place(const struct spar_config *c, const struct spar_param *params, size_t n, const char *name)
{
	static const char *const heads[] = {"", "model.", "transformer."};
	for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
		struct spar_param key = {.rows = 0};
		snprintf(key.name, sizeof key.name, "%s%s", heads[i], name);
		if (bsearch(&key, params, n, sizeof *params, compare_names))
			return true;
	}
	return is_buffer(name) || (c->tie_word_embeddings && !strcmp(name, "lm_head.weight"));
}

/* A tied model may carry its head, if it equals the embedding (B31). */
static int check_tied_head(struct spar_model *m, const struct spar_tensor_view *embed, struct spar_err *err)
{
	const struct spar_tensor_view *head = spar_safetensors_find(m->weights, "lm_head.weight");
	if (!head || !m->config.tie_word_embeddings)
		return 0;
	if (head->dtype != embed->dtype || head->n_bytes != embed->n_bytes ||
	    memcmp(head->data, embed->data, head->n_bytes))
		return spar_fail(
		    err, SPAR_INPUT,
		    "tensor 'lm_head.weight' differs from the embedding that .tie_word_embeddings says it is");
	snprintf(m->note, sizeof m->note, "tied head stands twice, as lm_head.weight too: read once");
	return 0;
}

static int check_param(const struct spar_tensor_view *v, const struct spar_param *p, struct spar_err *err)
{
	return p->transposed ? check_tensor(v, p->name, p->cols, p->rows, err)
			     : check_tensor(v, p->name, p->rows, p->cols, err);
}

static int check_base(struct spar_model *m, struct spar_err *err)
{
	size_t n;
	struct spar_param *params = spar_config_params(&m->config, &n);
	int rc = 0;
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = check_param(spar_model_find(m, &params[i]), &params[i], err);
	if (rc == 0)
		rc = check_tied_head(m, spar_model_find(m, &params[0]), err);
	qsort(params, n, sizeof *params, compare_names);
	for (size_t i = 0; i < spar_safetensors_count(m->weights) && rc == 0; i++) {
		const char *name = spar_safetensors_at(m->weights, i)->name;
		if (!has_place(&m->config, params, n, name))
			rc = spar_fail(err, SPAR_INPUT, "tensor '%.100s' has no place in this model", name);
	}
	free(params);
	return rc < 0 ? spar_fail_at(err, "%s", m->base_dir) : 0;
}

/* ---- the adapter ---- */

#define ADAPTER_PREFIX "base_model.model."

/* lora_A (`which` 'A') or lora_B of a parameter, or NULL. */
static const struct spar_tensor_view *adapter_tensor(const struct spar_model *m, const struct spar_param *p, char which)
{
	char name[sizeof p->name + 64];
	snprintf(name, sizeof name, ADAPTER_PREFIX "%.*s.lora_%c.weight", (int)spar_param_module_length(p), p->name,
		 which);
	return spar_safetensors_find(m->adapter, name);
}

/* One parameter that the targets hit. */
static int check_hit(const struct spar_model *m, const struct spar_param *p, struct spar_err *err)
{
	size_t r = spar_lora_rank(&m->lora, p);
	int rc = spar_lora_check_rules(&m->lora, p, err);
	if (rc < 0)
		return rc;
	if (p->kind != SPAR_PARAM_LINEAR && p->kind != SPAR_PARAM_HEAD)
		return spar_fail(err, SPAR_INPUT, ".target_modules: '%s' is not a linear layer", p->name);
	if (m->lora.fan_in_fan_out && !p->transposed)
		return spar_fail(err, SPAR_INPUT, ".fan_in_fan_out: true, but '%s' is stored (out, in)", p->name);
	if ((rc = check_tensor(adapter_tensor(m, p, 'A'), p->name, r, p->cols, err)) < 0 ||
	    (rc = check_tensor(adapter_tensor(m, p, 'B'), p->name, p->rows, r, err)) < 0)
		spar_fail_at(err, "lora_A or lora_B");
	return rc;
}

/* The first tensor of the adapter that no hit parameter asks for. */
static const char *homeless(const struct spar_model *m, const struct spar_param *params, size_t n)
{
	for (size_t i = 0; i < spar_safetensors_count(m->adapter); i++) {
		const struct spar_tensor_view *v = spar_safetensors_at(m->adapter, i);
		bool found = false;
		for (size_t k = 0; k < n && !found; k++)
			found = spar_lora_hits(&m->lora, &params[k]) &&
				(v == adapter_tensor(m, &params[k], 'A') || v == adapter_tensor(m, &params[k], 'B'));
		if (!found)
			return v->name;
	}
	return "";
}

/* Every module that the targets hit has both matrices; no tensor is left over. */
static int check_adapter(struct spar_model *m, struct spar_err *err)
{
	size_t n, n_homes = 0;
	struct spar_param *params = spar_config_params(&m->config, &n);
	int rc = 0;
	for (size_t i = 0; i < n && rc == 0; i++)
		if (spar_lora_hits(&m->lora, &params[i])) {
			rc = check_hit(m, &params[i], err);
			n_homes += 2;
		}
	if (rc == 0 && n_homes != spar_safetensors_count(m->adapter))
		rc = spar_fail(err, SPAR_INPUT, "%zu tensors, but .target_modules makes %zu: '%.100s' finds no module",
			       spar_safetensors_count(m->adapter), n_homes, homeless(m, params, n));
	free(params);
	if (rc == 0 && m->lora.alpha == 0)
		snprintf(m->note, sizeof m->note, "lora_alpha is 0: the adapter changes nothing");
	return rc < 0 ? spar_fail_at(err, "%s", m->dir) : 0;
}

/* The base folder that the adapter in `dir` names: absolute, beside the adapter, or in the working folder. */
static int find_base(char **out, const char *dir, const char *name, struct spar_err *err)
{
	if (name && *name) {
		*out = *name == '/' ? spar_strdup(name) : spar_path_join(dir, name);
		if (spar_dir_exists(*out))
			return 0;
		free(*out);
		*out = spar_strdup(name);
		if (spar_dir_exists(name))
			return 0;
		free(*out);
		*out = NULL;
	}
	return spar_fail(err, SPAR_INPUT, "%s/adapter_config.json: .base_model_name_or_path: no folder '%.200s'", dir,
			 name ? name : "");
}

static bool is_adapter(const char *dir)
{
	char *path = spar_path_join(dir, "adapter_config.json");
	bool is = spar_file_exists(path);
	free(path);
	return is;
}

/* The base folder; and what the adapter is, if there is one. */
static int read_base(char **out, const char *dir, struct spar_lora_config *l, bool *has_adapter, struct spar_err *err)
{
	char *named = NULL;
	*out = NULL;
	*has_adapter = is_adapter(dir);
	if (!*has_adapter) {
		*out = spar_strdup(dir);
		return 0;
	}
	int rc = spar_lora_read(l, dir, &named, err);
	if (rc == 0)
		rc = find_base(out, dir, named, err);
	free(named);
	return rc;
}

int spar_model_base_dir(char **out, const char *dir, struct spar_err *err)
{
	struct spar_lora_config l = {0};
	bool has_adapter;
	int rc = read_base(out, dir, &l, &has_adapter, err);
	spar_lora_release(&l);
	return rc;
}

static int open_adapter(struct spar_model *m, struct spar_err *err)
{
	char *path = spar_path_join(m->dir, "adapter_model.safetensors");
	int rc = spar_safetensors_open(&m->adapter, path, err);
	free(path);
	return rc;
}

int spar_model_open(struct spar_model *m, const char *dir, struct spar_err *err)
{
	*m = (struct spar_model){.dir = spar_strdup(dir)};
	int rc = read_base(&m->base_dir, dir, &m->lora, &m->has_adapter, err);
	if (rc < 0 || (m->has_adapter && (rc = open_adapter(m, err)) < 0) ||
	    (rc = spar_config_load(&m->config, m->base_dir, err)) < 0 ||
	    (rc = spar_safetensors_open(&m->weights, m->base_dir, err)) < 0 || (rc = check_base(m, err)) < 0 ||
	    (m->has_adapter && (rc = check_adapter(m, err)) < 0) || (rc = hash_base(m, err)) < 0)
		spar_model_close(m);
	else
		hash_model(m);
	return rc;
}

/* The adapter in next->dir, on the base that `m` has open. */
static int change_adapter(struct spar_model *m, struct spar_model *next, struct spar_err *err)
{
	int rc = open_adapter(next, err);
	next->config = m->config;
	next->weights = m->weights;
	next->base_hash = m->base_hash;
	if (rc == 0)
		rc = check_adapter(next, err);
	if (rc == 0)
		hash_model(next);
	(rc == 0 ? m : next)->weights = NULL;
	return rc;
}

int spar_model_next(struct spar_model *m, const char *dir, struct spar_err *err)
{
	struct spar_model next = {.dir = spar_strdup(dir)};
	int rc = read_base(&next.base_dir, dir, &next.lora, &next.has_adapter, err);
	bool same_base = rc == 0 && next.has_adapter && m->weights && !strcmp(next.base_dir, m->base_dir);
	if (same_base)
		rc = change_adapter(m, &next, err);
	spar_model_close(rc == 0 && same_base ? m : &next);
	if (rc == 0 && same_base)
		*m = next;
	else if (rc == 0) {
		spar_model_close(m);
		rc = spar_model_open(m, dir, err);
	}
	return rc;
}

void spar_model_close(struct spar_model *m)
{
	spar_safetensors_close(m->weights);
	spar_safetensors_close(m->adapter);
	spar_lora_release(&m->lora);
	free(m->dir);
	free(m->base_dir);
	*m = (struct spar_model){0};
}

void spar_model_leave(const struct spar_model *m)
{
	spar_safetensors_leave(m->weights);
	spar_safetensors_leave(m->adapter);
}

/* ---- weights in float32 ---- */

/* A block of columns at a time: the products are summed first, then scaled, as PEFT does when it merges. */
void spar_lora_add(float *w, const float *b, const float *a, size_t rows, size_t cols, size_t r, float scale)
{
#pragma omp parallel for
	for (size_t i = 0; i < rows; i++)
		for (size_t j0 = 0; j0 < cols; j0 += 256) {
			size_t n = cols - j0 < 256 ? cols - j0 : 256;
			float sum[256] = {0};
			for (size_t k = 0; k < r; k++)
#pragma omp simd
				for (size_t j = 0; j < n; j++)
					sum[j] += b[i * r + k] * a[k * cols + j0 + j];
			for (size_t j = 0; j < n; j++)
				w[i * cols + j0 + j] += scale * sum[j];
		}
}

static int add_adapter(const struct spar_model *m, const struct spar_param *p, float *w, struct spar_err *err)
{
	const struct spar_tensor_view *va = adapter_tensor(m, p, 'A'), *vb = adapter_tensor(m, p, 'B');
	if (!va || !vb)
		return 0;
	float *a = malloc(va->n_elements * sizeof *a), *b = malloc(vb->n_elements * sizeof *b);
	int rc = a && b ? 0 : spar_fail(err, SPAR_FAIL, "no memory for the adapter of '%s'", p->name);
	if (rc == 0 && (rc = spar_tensor_view_f32(va, a, err)) == 0 && (rc = spar_tensor_view_f32(vb, b, err)) == 0)
		spar_lora_add(w, b, a, p->rows, p->cols, spar_lora_rank(&m->lora, p),
			      (float)spar_lora_scale(&m->lora, p));
	free(a);
	free(b);
	return rc;
}

static int fetch_transposed(const struct spar_tensor_view *v, const struct spar_param *p, float *out,
			    struct spar_err *err)
{
	float *stored = malloc(spar_param_elements(p) * sizeof *stored);
	int rc =
	    stored ? spar_tensor_view_f32(v, stored, err) : spar_fail(err, SPAR_FAIL, "no memory for '%s'", p->name);
	if (rc == 0)
		spar_transpose(stored, p->cols, p->rows, out);
	free(stored);
	return rc;
}

int spar_model_fetch(const struct spar_model *m, const struct spar_param *p, bool base_only, float *out,
		     struct spar_err *err)
{
	const struct spar_tensor_view *v = spar_model_find(m, p);
	if (!v)
		return spar_fail(err, SPAR_INPUT, "%s: no tensor '%s'", m->base_dir, p->name);
	int rc = p->transposed ? fetch_transposed(v, p, out, err) : spar_tensor_view_f32(v, out, err);
	return rc < 0 || !m->has_adapter || base_only ? rc : add_adapter(m, p, out, err);
}
