/* write.c - checkpoint folders written; see model.h */
#include "base/file.h"
#include "base/str.h"
#include "model/model.h"
#include "record/record.h"
#include <stdlib.h>
#include <string.h>

#define CONFIG_MAX ((size_t)16 << 20)

int spar_model_copy_side_files(const char *from, const char *to, struct spar_err *err)
{
	static const char *const names[] = {
	    "config.json",         "generation_config.json",  "tokenizer.json",    "tokenizer_config.json",
	    "chat_template.jinja", "special_tokens_map.json", "added_tokens.json", "vocab.json",
	    "merges.txt",          "tokenizer.model"};
	int rc = 0;
	for (size_t i = 0; i < sizeof names / sizeof *names && rc == 0; i++) {
		char *source = spar_path_join(from, names[i]), *target = spar_path_join(to, names[i]);
		if (spar_file_exists(source))
			rc = spar_file_copy(source, target, err);
		free(source);
		free(target);
	}
	return rc;
}

static const char *torch_name(enum spar_dtype dtype)
{
	return dtype == SPAR_BF16 ? "bfloat16" : "float32";
}

/* config.json may say what type the weights have, under an old name or a new one. The rest of it stays byte for byte. */
static int note_dtype(const char *dir, enum spar_dtype dtype, struct spar_err *err)
{
	static const char *const keys[] = {"torch_dtype", "dtype"};
	char *path = spar_path_join(dir, "config.json");
	struct spar_str text = SPAR_STR_INIT, out = SPAR_STR_INIT;
	struct spar_record config;
	spar_record_init(&config);
	bool changed = false;
	int rc = 0;
	if (!spar_file_exists(path) || (rc = spar_file_read(path, CONFIG_MAX, &text, err)) < 0)
		goto out;
	size_t len = text.len; /* a record is one value without blanks behind it */
	while (len && strchr(" \t\r\n", text.data[len - 1]))
		len--;
	if ((rc = spar_record_parse(&config, text.data, len, err)) < 0) {
		spar_fail_at(err, "%s", path);
		goto out;
	}
	for (size_t i = 0; i < 2; i++) {
		const char *said;
		size_t said_len;
		if (!spar_has(config.value, keys[i]) ||
		    spar_get_str(config.value, "", keys[i], &said, &said_len, NULL) < 0 ||
		    !strcmp(said, torch_name(dtype)))
			continue;
		spar_record_set_str(&config, keys[i], torch_name(dtype));
		changed = true;
	}
	if (changed) {
		spar_record_text(&config, &out);
		spar_str_adds(&out, text.data + len);
		rc = spar_file_write(path, out.data, out.len, err);
	}
out:
	spar_record_release(&config);
	spar_str_release(&text);
	spar_str_release(&out);
	free(path);
	return rc;
}

/* A parameter as files hold it. *own: a copy that was needed for it, caller frees. */
static struct spar_tensor_view view_of(const struct spar_param *p, float *values, enum spar_dtype dtype, float **own)
{
	struct spar_tensor_view v = {
	    .name = p->name, .dtype = dtype, .n_dims = p->cols ? 2 : 1, .shape = {p->rows, p->cols}, .data = values};
	*own = NULL;
	if (!p->transposed)
		return v;
	*own = spar_malloc(spar_param_elements(p) * sizeof **own);
	spar_transpose(values, p->rows, p->cols, *own);
	v.shape[0] = p->cols;
	v.shape[1] = p->rows;
	v.data = *own;
	return v;
}

int spar_model_write_weights(const char *dir, const struct spar_config *c, float *const *params, enum spar_dtype dtype,
			     struct spar_err *err)
{
	static const char *const meta[] = {"format", "pt", NULL};
	size_t n;
	struct spar_param *list = spar_config_params(c, &n);
	struct spar_tensor_view *views = spar_calloc(n, sizeof *views);
	float **own = spar_calloc(n, sizeof *own);
	for (size_t i = 0; i < n; i++)
		views[i] = view_of(&list[i], params[i], dtype, &own[i]);
	int rc = spar_safetensors_write_folder(dir, views, n, meta, 1, SPAR_SHARD_BYTES, err);
	for (size_t i = 0; i < n; i++)
		free(own[i]);
	free(own);
	free(views);
	free(list);
	return rc < 0 ? rc : note_dtype(dir, dtype, err);
}

int spar_model_write_made(const char *dir, const struct spar_config *c, enum spar_dtype dtype, spar_model_make *make,
			  const void *from, struct spar_err *err)
{
	size_t n;
	struct spar_param *params = spar_config_params(c, &n);
	float **weights = spar_calloc(n, sizeof *weights);
	int rc = 0;
	for (size_t i = 0; i < n && rc == 0; i++) {
		weights[i] = malloc(spar_param_elements(&params[i]) * sizeof **weights);
		rc = weights[i] ? make(from, &params[i], weights[i], err)
				: spar_fail(err, SPAR_FAIL, "no memory for '%s'", params[i].name);
	}
	if (rc == 0)
		rc = spar_model_write_weights(dir, c, weights, dtype, err);
	for (size_t i = 0; i < n; i++)
		free(weights[i]);
	free(weights);
	free(params);
	return rc;
}

static int fetch_merged(const void *model, const struct spar_param *p, float *out, struct spar_err *err)
{
	return spar_model_fetch(model, p, false, out, err);
}

int spar_model_merge(const struct spar_model *m, const char *dir, enum spar_dtype dtype, struct spar_err *err)
{
	int rc = spar_model_copy_side_files(m->base_dir, dir, err);
	return rc < 0 ? rc : spar_model_write_made(dir, &m->config, dtype, fetch_merged, m, err);
}
