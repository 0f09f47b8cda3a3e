/* export.c - see export.h */
#include "model/export.h"
#include "base/file.h"
#include "model/export_tokenizer.h"
#include "model/gguf_names.h"
#include "model/gguf_write.h"
#include <stdlib.h>
#include <string.h>

/* ---- shape ---- */

static int check_shape(const struct spar_config *c, struct spar_err *err)
{
	const char *what = strcmp(c->model_type, "llama") != 0       ? "another family than llama"
			   : c->ropes[0].type != SPAR_ROPE_DEFAULT   ? "rope scaling"
			   : c->qkv_bias || c->o_bias || c->mlp_bias ? "biases"
								     : NULL;
	return what ? spar_fail(err, SPAR_INPUT, "config.json: export of %s is not supported", what) : 0;
}

static void add_shape(struct spar_gguf_head *h, const struct spar_config *c, enum spar_dtype dtype)
{
	const struct {
		const char *key;
		size_t value;
	} sizes[] = {
	    {"llama.block_count", c->n_layers},
	    {"llama.context_length", c->max_position},
	    {"llama.embedding_length", c->hidden_size},
	    {"llama.feed_forward_length", c->intermediate_size},
	    {"llama.attention.head_count", c->n_heads},
	    {"llama.attention.head_count_kv", c->n_kv_heads},
	    {"llama.attention.key_length", c->head_dim},
	    {"llama.attention.value_length", c->head_dim},
	    {"llama.rope.dimension_count", c->head_dim},
	    {"llama.vocab_size", c->vocab_size},
	    {"general.file_type", dtype == SPAR_BF16  ? 32
				  : dtype == SPAR_F16 ? 1
						      : 0},
	};
	spar_gguf_add_str(h, "general.architecture", "llama", 5);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		spar_gguf_add_u32(h, sizes[i].key, (uint32_t)sizes[i].value);
	spar_gguf_add_f32(h, "llama.attention.layer_norm_rms_epsilon", c->norm_eps);
	spar_gguf_add_f32(h, "llama.rope.freq_base", (float)c->ropes[0].theta);
}

/* ---- weights ---- */

static enum spar_dtype stored_as(const struct spar_param *p, enum spar_dtype dtype)
{
	return p->cols ? dtype : SPAR_F32;
}

static int write_param(FILE *f, const struct spar_model *m, const struct spar_param *p, enum spar_dtype dtype,
		       struct spar_err *err)
{
	const struct spar_config *c = &m->config;
	size_t n = spar_param_elements(p);
	bool turns = p->part == SPAR_PART_Q || p->part == SPAR_PART_K;
	float *w = malloc(n * sizeof *w), *paired = turns ? malloc(n * sizeof *paired) : NULL;
	int rc = w && (!turns || paired) ? spar_model_fetch(m, p, false, w, err)
					 : spar_fail(err, SPAR_FAIL, "no memory for '%s'", p->name);
	if (rc == 0 && turns)
		spar_gguf_pair_rows(w, paired, p->part == SPAR_PART_Q ? c->n_heads : c->n_kv_heads, c->head_dim,
				    p->cols);
	if (rc == 0)
		spar_gguf_write_f32(f, turns ? paired : w, n, stored_as(p, dtype));
	free(w);
	free(paired);
	return rc;
}

int spar_export_gguf(const struct spar_model *m, const char *path, enum spar_dtype dtype, struct spar_err *err)
{
	struct spar_gguf_head h;
	size_t n;
	FILE *f = NULL;
	int rc = check_shape(&m->config, err);
	if (rc < 0)
		return spar_fail_at(err, "%s", m->base_dir);
	struct spar_param *params = spar_config_params(&m->config, &n);
	spar_gguf_head_init(&h);
	add_shape(&h, &m->config, dtype);
	if ((rc = spar_export_tokenizer(&h, m, err)) < 0)
		goto out;
	for (size_t i = 0; i < n; i++) {
		char name[96];
		spar_gguf_param_name(&params[i], name, sizeof name);
		spar_gguf_add_tensor(&h, name, params[i].rows, params[i].cols, stored_as(&params[i], dtype));
	}
	if (!(f = spar_file_begin(path, err))) {
		rc = -(int)err->code;
		goto out;
	}
	spar_gguf_write_head(&h, f);
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = write_param(f, m, &params[i], dtype, err);
	int committed = spar_file_commit(f, path, rc == 0, rc == 0 ? err : NULL);
	rc = rc < 0 ? rc : committed;
out:
	free(params);
	spar_gguf_head_release(&h);
	return rc;
}
