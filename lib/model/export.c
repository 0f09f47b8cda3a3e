/* export.c - see export.h */
#include "model/export.h"
#include "base/file.h"
#include "model/export_tokenizer.h"
#include "model/gguf_names.h"
#include "model/gguf_write.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gguf_export {
	const struct spar_model *m;
	const struct spar_gguf_architecture *a;
	struct spar_gguf_head head;
	enum spar_dtype dtype; /* of matrices */
	char key[128];
};

/* ---- shape ---- */

#define UNTURNED_EVERY 4 /* llama.cpp's SmolLM3 turns nothing in every fourth layer */

/* Mistral without its windows is a Llama. */
static const struct spar_gguf_architecture *find_architecture(const char *model_type)
{
	const char *name = !strcmp(model_type, "mistral") ? "llama" : model_type;
	const struct spar_gguf_architecture *a = spar_gguf_architectures;
	while (a->name && strcmp(a->model_type, name) != 0)
		a++;
	return a->name ? a : NULL;
}

static bool is_gpt2(const struct gguf_export *x)
{
	return x->m->config.naming == SPAR_NAMING_GPT2;
}

/* What is peculiar to layers and no key would say; NULL: nothing. */
static const char *unsaid_of_layers(const struct gguf_export *x)
{
	const struct spar_config *c = &x->m->config;
	bool unturned = !strcmp(x->a->name, "smollm3");
	for (size_t i = 0; i < c->n_layers; i++) {
		if (spar_config_window(c, i))
			return "sliding windows";
		if (!is_gpt2(x) && (c->layers[i].rope < 0) != (unturned && (i + 1) % UNTURNED_EVERY == 0))
			return "layers without rotary positions at other places";
	}
	return NULL;
}

static int check_shape(const struct gguf_export *x, struct spar_err *err)
{
	const struct spar_config *c = &x->m->config;
	bool scaled = c->ropes[0].type != SPAR_ROPE_DEFAULT;
	bool has_biases = c->o_bias || c->mlp_bias, may_have = is_gpt2(x) || (x->a && !strcmp(x->a->name, "llama"));
	const char *what = !x->a || x->a->plus_one                          ? c->model_type
			   : scaled && c->ropes[0].type != SPAR_ROPE_LLAMA3 ? "rope scaling"
			   : scaled && strcmp(x->a->name, "llama") != 0     ? "rope scaling"
			   : has_biases && !may_have                        ? "biases"
			   : c->query_scalar > 0                            ? "unscaled attention"
									    : unsaid_of_layers(x);
	return what ? spar_fail(err, SPAR_INPUT, "config.json: export of %s is not supported", what) : 0;
}

/* "llama.block_count": valid until the next call. */
static const char *key(struct gguf_export *x, const char *rest)
{
	snprintf(x->key, sizeof x->key, "%s.%s", x->a->name, rest);
	return x->key;
}

static void add_shape(struct gguf_export *x)
{
	const struct spar_config *c = &x->m->config;
	struct spar_gguf_head *h = &x->head;
	const struct {
		const char *rest;
		size_t value;
	} sizes[] = {
	    {"block_count", c->n_layers},          {"context_length", c->max_position},
	    {"embedding_length", c->hidden_size},  {"feed_forward_length", c->intermediate_size},
	    {"attention.head_count", c->n_heads},  {"attention.head_count_kv", c->n_kv_heads},
	    {"attention.key_length", c->head_dim}, {"attention.value_length", c->head_dim},
	    {"vocab_size", c->vocab_size},         {"rope.dimension_count", c->head_dim},
	};
	size_t n = sizeof sizes / sizeof *sizes - is_gpt2(x);
	spar_gguf_add_str(h, "general.architecture", x->a->name, strlen(x->a->name));
	spar_gguf_add_u32(h, "general.file_type", x->dtype == SPAR_BF16 ? 32 : x->dtype == SPAR_F16 ? 1 : 0);
	for (size_t i = 0; i < n; i++)
		spar_gguf_add_u32(h, key(x, sizes[i].rest), (uint32_t)sizes[i].value);
	spar_gguf_add_f32(h, key(x, is_gpt2(x) ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon"),
			  c->norm_eps);
	if (!is_gpt2(x))
		spar_gguf_add_f32(h, key(x, "rope.freq_base"), (float)c->ropes[0].theta);
}

/* ---- Llama 3's scaling: what each frequency is divided by ---- */

#define FREQUENCIES "rope_freqs.weight"

static bool has_frequencies(const struct gguf_export *x)
{
	return x->m->config.ropes[0].type == SPAR_ROPE_LLAMA3;
}

static void write_frequencies(const struct gguf_export *x, FILE *f)
{
	const struct spar_config *c = &x->m->config;
	struct spar_rope plain = {.theta = c->ropes[0].theta};
	size_t n = c->head_dim / 2;
	float *from = spar_calloc(2 * n, sizeof *from), *to = from + n;
	spar_rope_frequencies(&plain, c->head_dim, from);
	spar_rope_frequencies(&c->ropes[0], c->head_dim, to);
	for (size_t i = 0; i < n; i++)
		from[i] /= to[i];
	spar_gguf_write_f32(f, from, n, SPAR_F32);
	free(from);
}

/* ---- weights ---- */

static enum spar_dtype stored_as(const struct spar_param *p, enum spar_dtype dtype)
{
	return p->cols ? dtype : SPAR_F32;
}

static int write_param(FILE *f, const struct gguf_export *x, const struct spar_param *p, struct spar_err *err)
{
	const struct spar_config *c = &x->m->config;
	size_t n = spar_param_elements(p);
	bool turns = x->a->paired && (p->part == SPAR_PART_Q || p->part == SPAR_PART_K);
	float *w = malloc(n * sizeof *w), *paired = turns ? malloc(n * sizeof *paired) : NULL;
	int rc = w && (!turns || paired) ? spar_model_fetch(x->m, p, false, w, err)
					 : spar_fail(err, SPAR_FAIL, "no memory for '%s'", p->name);
	if (rc == 0 && turns)
		spar_gguf_pair_rows(w, paired, p->rows / c->head_dim, c->head_dim, p->cols ? p->cols : 1);
	if (rc == 0)
		spar_gguf_write_f32(f, turns ? paired : w, n, stored_as(p, x->dtype));
	free(w);
	free(paired);
	return rc;
}

static void add_tensors(struct gguf_export *x, const struct spar_param *params, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char name[96];
		spar_gguf_param_name(&params[i], name, sizeof name);
		spar_gguf_add_tensor(&x->head, name, params[i].rows, params[i].cols, stored_as(&params[i], x->dtype));
	}
	if (has_frequencies(x))
		spar_gguf_add_tensor(&x->head, FREQUENCIES, x->m->config.head_dim / 2, 0, SPAR_F32);
}

static int write_file(const struct gguf_export *x, const struct spar_param *params, size_t n, const char *path,
		      struct spar_err *err)
{
	int rc = 0;
	FILE *f = spar_file_begin(path, err);
	if (!f)
		return -(int)err->code;
	spar_gguf_write_head(&x->head, f);
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = write_param(f, x, &params[i], err);
	if (rc == 0 && has_frequencies(x))
		write_frequencies(x, f);
	int committed = spar_file_commit(f, path, rc == 0, rc == 0 ? err : NULL);
	return rc < 0 ? rc : committed;
}

int spar_export_gguf(const struct spar_model *m, const char *path, enum spar_dtype dtype, struct spar_err *err)
{
	struct gguf_export x = {.m = m, .a = find_architecture(m->config.model_type), .dtype = dtype};
	size_t n;
	int rc = check_shape(&x, err);
	if (rc < 0)
		return spar_fail_at(err, "%s", m->base_dir);
	struct spar_param *params = spar_config_params(&m->config, &n);
	spar_gguf_head_init(&x.head);
	add_shape(&x);
	if ((rc = spar_export_tokenizer(&x.head, m, err)) == 0) {
		add_tensors(&x, params, n);
		rc = write_file(&x, params, n, path, err);
	}
	free(params);
	spar_gguf_head_release(&x.head);
	return rc;
}
