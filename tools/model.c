/* spar model - make, show, merge and check model folders. */
#include "base/file.h"
#include "base/opt.h"
#include "model/model.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct spar_usage usage = {
    "model", "init|show|merge|verify [options] [DIR]",
    "init makes random weights for the config (and tokenizer) in --config. show tells a folder's shape. merge adds the "
    "adapter in DIR to its base, in float32, and writes a full checkpoint. verify reads everything and checks that "
    "every "
    "weight is finite."};

struct opts {
	const char *config, *out;
	uint64_t seed;
	int dtype; /* index into dtypes */
};
static const char *const dtypes[] = {"float32", "bfloat16", NULL};

static size_t elements(const struct spar_param *p)
{
	return p->rows * (p->cols ? p->cols : 1);
}

static int init(const struct opts *o, struct spar_err *err)
{
	if (!o->config || !o->out)
		return spar_fail(err, SPAR_USAGE, "init needs --config and --out");
	char *tmp = spar_dir_begin(o->out, err);
	if (!tmp)
		return -(int)err->code;
	int rc = spar_model_init(o->config, o->seed, tmp, err);
	if (rc == 0)
		rc = spar_dir_commit(tmp, o->out, err);
	else
		spar_dir_remove(tmp, NULL);
	free(tmp);
	return rc;
}

static int show(const char *dir, struct spar_err *err)
{
	struct spar_model m;
	int rc = spar_model_open(&m, dir, err);
	if (rc < 0)
		return rc;
	const struct spar_config *c = &m.config;
	size_t n, total = 0;
	struct spar_param *p = spar_config_params(c, &n);
	for (size_t i = 0; i < n; i++)
		total += elements(&p[i]);
	printf("folder      %s\nfamily      %s\nparameters  %zu in %zu tensors\nlayers      %zu\nhidden      %zu, MLP "
	       "%zu\n"
	       "heads       %zu, of keys %zu, of size %zu\nvocabulary  %zu%s\ncontext     %zu tokens\nhash        %s\n",
	       dir, c->model_type, total, n, c->n_layers, c->hidden_size, c->intermediate_size, c->n_heads,
	       c->n_kv_heads, c->head_dim, c->vocab_size, c->tie_word_embeddings ? ", head tied" : "", c->max_position,
	       m.hash);
	if (m.has_adapter)
		printf("adapter     r %d, alpha %g, on %s\n", m.lora.r, m.lora.alpha, m.base_dir);
	free(p);
	spar_model_close(&m);
	return 0;
}

static int read_all(const struct spar_model *m, const struct spar_param *p, size_t n, float **w, struct spar_err *err)
{
	int rc = 0;
	for (size_t i = 0; i < n && rc == 0; i++) {
		w[i] = spar_malloc(elements(&p[i]) * sizeof **w);
		rc = spar_model_fetch(m, &p[i], false, w[i], err);
		for (size_t k = 0; k < elements(&p[i]) && rc == 0; k++)
			if (!isfinite(w[i][k]))
				rc = spar_fail(err, SPAR_INPUT, "%s: %s: element %zu is not finite", m->dir, p[i].name,
					       k);
	}
	return rc;
}

static int write_merged(const struct opts *o, const struct spar_model *m, float **w, struct spar_err *err)
{
	char *tmp = spar_dir_begin(o->out, err);
	if (!tmp)
		return -(int)err->code;
	int rc = spar_model_copy_side_files(m->base_dir, tmp, err);
	if (rc == 0)
		rc = spar_model_write_weights(tmp, &m->config, w, o->dtype ? SPAR_BF16 : SPAR_F32, err);
	if (rc == 0)
		rc = spar_dir_commit(tmp, o->out, err);
	else
		spar_dir_remove(tmp, NULL);
	free(tmp);
	return rc;
}

/* Both merge and verify read every weight, the adapter added. */
static int merge_or_verify(const struct opts *o, const char *dir, bool merge, struct spar_err *err)
{
	struct spar_model m;
	size_t n;
	if (merge && !o->out)
		return spar_fail(err, SPAR_USAGE, "merge needs --out");
	int rc = spar_model_open(&m, dir, err);
	if (rc < 0)
		return rc;
	struct spar_param *p = spar_config_params(&m.config, &n);
	float **w = spar_calloc(n, sizeof *w);
	rc = read_all(&m, p, n, w, err);
	if (rc == 0 && merge)
		rc = write_merged(o, &m, w, err);
	if (rc == 0 && !merge)
		printf("%s: %zu tensors%s, all finite\n", dir, n, m.has_adapter ? " with their adapter" : "");
	for (size_t i = 0; i < n; i++)
		free(w[i]);
	free(w);
	free(p);
	spar_model_close(&m);
	return rc;
}

int main(int argc, char **argv)
{
	struct opts o = {0};
	struct spar_err err = {0};
	const struct spar_opt table[] = {
	    SPAR_OPT_STR("config", 'c', &o.config, "DIR", "init: folder with config.json and the tokenizer"),
	    SPAR_OPT_U64("seed", 's', &o.seed, "N", "init: of the random weights (0)"),
	    SPAR_OPT_STR("out", 'o', &o.out, "DIR", "init, merge: the folder to write"),
	    SPAR_OPT_CHOICE("dtype", 0, &o.dtype, dtypes, "TYPE", "merge: of the written weights (float32)"),
	    SPAR_OPT_END};
	const char *command = argc > 1 && argv[1][0] != '-' ? argv[1] : NULL;
	int skip = command != NULL;
	argv[skip] = argv[0];
	int rest = spar_opt_parse(&usage, table, argc - skip, argv + skip);
	if (rest < 0)
		return -1 - rest;
	if (!command)
		return spar_usage_error(&usage, "expected init, show, merge or verify");
	const char *dir = rest < argc - skip ? argv[skip + rest] : NULL;
	int rc;
	if (!strcmp(command, "init"))
		rc = init(&o, &err);
	else if (strcmp(command, "show") && strcmp(command, "merge") && strcmp(command, "verify"))
		return spar_usage_error(&usage, "no such command: %s", command);
	else if (!dir)
		return spar_usage_error(&usage, "%s needs a folder", command);
	else if (!strcmp(command, "show"))
		rc = show(dir, &err);
	else
		rc = merge_or_verify(&o, dir, command[0] == 'm', &err);
	if (rc == 0 && fflush(stdout) != 0)
		rc = spar_fail(&err, SPAR_FAIL, "<stdout>: cannot write");
	return rc < 0 ? spar_die("model", &err) : SPAR_OK;
}
