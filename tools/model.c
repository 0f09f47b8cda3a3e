/* spar model - make, show, import, export, merge and check model folders. */
#include "base/file.h"
#include "base/opt.h"
#include "model/export.h"
#include "model/gguf.h"
#include "model/import.h"
#include "model/model.h"
#include "text/chat.h"
#include "text/tokenizer.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct spar_usage usage = {
    "model", "init|show|import|export|merge|verify [options] [FILE|DIR]",
    "init makes random weights for the config (and tokenizer) in --config. show tells a folder's shape. import makes a "
    "folder from a GGUF file, export the reverse. merge adds the adapter in DIR to its base, in float32, and writes a "
    "full checkpoint. "
    "verify "
    "reads everything and checks it."};

struct opts {
	const char *config, *out, *from; /* from: the operand, a folder or a file */
	uint64_t seed;
	int dtype, type; /* indices into dtypes and gguf_types; -1: not said */
	bool json, gguf;
};
static const char *const dtypes[] = {"float32", "bfloat16", NULL};
static const char *const gguf_types[] = {"f32", "f16", "bf16", NULL};

static enum spar_dtype dtype_or(const struct opts *o, enum spar_dtype otherwise)
{
	return o->dtype < 0 ? otherwise : o->dtype ? SPAR_BF16 : SPAR_F32;
}

/* ---- what is there ---- */

/* A model opened, with its tokenizer if the folder has one. */
struct folder {
	struct spar_model m;
	struct spar_param *params;
	size_t n_params, n_elements;
	enum spar_dtype stored; /* of the embedding, and as a rule of all */
	struct spar_tokenizer *tokenizer;
};

static void folder_close(struct folder *f)
{
	free(f->params);
	spar_tokenizer_free(f->tokenizer);
	spar_model_close(&f->m);
}

static int folder_open(struct folder *f, const char *dir, struct spar_err *err)
{
	*f = (struct folder){0};
	int rc = spar_model_open(&f->m, dir, err);
	if (rc < 0)
		return rc;
	if (*f->m.note)
		spar_warn("model", "%s: %s", dir, f->m.note);
	f->params = spar_config_params(&f->m.config, &f->n_params);
	for (size_t i = 0; i < f->n_params; i++)
		f->n_elements += spar_param_elements(&f->params[i]);
	f->stored = spar_model_find(&f->m, &f->params[0])->dtype;
	char *path = spar_path_join(f->m.base_dir, "tokenizer.json");
	if (spar_file_exists(path) && (rc = spar_tokenizer_load(&f->tokenizer, f->m.base_dir, err)) == 0)
		rc = spar_config_add_eos(&f->m.config, spar_tokenizer_eos(f->tokenizer), err);
	if (rc < 0)
		folder_close(f);
	free(path);
	return rc;
}

static void token_text(const struct folder *f, int32_t id, struct spar_str *s)
{
	spar_str_clear(s);
	if (f->tokenizer)
		spar_tokenizer_decode(f->tokenizer, &id, 1, 0, s);
}

static void show_text(const struct folder *f)
{
	const struct spar_config *c = &f->m.config;
	const struct spar_lora_config *l = &f->m.lora;
	struct spar_str s = SPAR_STR_INIT;
	printf("folder      %s\nfamily      %s\nparameters  %zu in %zu tensors, %s\nlayers      %zu\n", f->m.dir,
	       c->model_type, f->n_elements, f->n_params, spar_dtype_name(f->stored), c->n_layers);
	printf("hidden      %zu, MLP %zu\nheads       %zu, of keys %zu, of size %zu\nvocabulary  %zu%s\n",
	       c->hidden_size, c->intermediate_size, c->n_heads, c->n_kv_heads, c->head_dim, c->vocab_size,
	       c->tie_word_embeddings ? ", head tied" : "");
	if (f->tokenizer)
		printf("tokenizer   %zu tokens\n", spar_tokenizer_size(f->tokenizer));
	printf("context     %zu tokens\n", c->max_position);
	for (size_t i = 0; i < c->n_end; i++) {
		token_text(f, c->end_ids[i], &s);
		printf("end token   %d %s\n", c->end_ids[i], s.data);
	}
	if (f->m.has_adapter) {
		printf("adapter     r %d, alpha %g, scale %g, on", l->r, l->alpha, spar_lora_scale(l, NULL));
		for (size_t i = 0; i < l->n_targets; i++)
			printf(" %s", l->targets[i]);
		if (l->all_linear || l->target_pattern)
			printf(" %s", l->all_linear ? "all linear layers" : l->target_pattern);
		if (l->n_ranks + l->n_alphas)
			printf(", other values by %zu patterns", l->n_ranks + l->n_alphas);
		printf("\nbase        %s\n", f->m.base_dir);
	}
	printf("hash        %s\n", f->m.hash);
	spar_str_release(&s);
}

static void show_json(const struct folder *f)
{
	const struct spar_config *c = &f->m.config;
	struct spar_str s = SPAR_STR_INIT;
	spar_str_adds(&s, "{\"type\":\"model\",\"folder\":");
	spar_str_add_json(&s, f->m.dir, strlen(f->m.dir));
	spar_str_addf(&s,
		      ",\"model_type\":\"%s\",\"parameters\":%zu,\"tensors\":%zu,\"dtype\":\"%s\",\"layers\":%zu,"
		      "\"hidden_size\":%zu,\"intermediate_size\":%zu,\"heads\":%zu,\"kv_heads\":%zu,\"head_dim\":%zu,"
		      "\"vocab_size\":%zu,\"tied\":%s,\"context\":%zu,\"tokenizer_size\":",
		      c->model_type, f->n_elements, f->n_params, spar_dtype_name(f->stored), c->n_layers,
		      c->hidden_size, c->intermediate_size, c->n_heads, c->n_kv_heads, c->head_dim, c->vocab_size,
		      c->tie_word_embeddings ? "true" : "false", c->max_position);
	if (f->tokenizer)
		spar_str_addf(&s, "%zu", spar_tokenizer_size(f->tokenizer));
	else
		spar_str_adds(&s, "null");
	spar_str_adds(&s, ",\"end_ids\":[");
	for (size_t i = 0; i < c->n_end; i++)
		spar_str_addf(&s, "%s%d", i ? "," : "", c->end_ids[i]);
	spar_str_adds(&s, "],\"adapter\":");
	if (f->m.has_adapter) {
		spar_str_addf(&s, "{\"r\":%d,\"scale\":", f->m.lora.r);
		spar_str_add_double(&s, spar_lora_scale(&f->m.lora, NULL));
		spar_str_adds(&s, ",\"base\":");
		spar_str_add_json(&s, f->m.base_dir, strlen(f->m.base_dir));
		spar_str_addc(&s, '}');
	} else {
		spar_str_adds(&s, "null");
	}
	spar_str_addf(&s, ",\"hash\":\"%s\"}", f->m.hash);
	puts(s.data);
	spar_str_release(&s);
}

static int show(const struct opts *o, struct spar_err *err)
{
	struct folder f;
	int rc = folder_open(&f, o->from, err);
	if (rc < 0)
		return rc;
	if (o->json)
		show_json(&f);
	else
		show_text(&f);
	folder_close(&f);
	return 0;
}

static int check_finite(const struct folder *f, const struct spar_param *p, struct spar_err *err)
{
	size_t n = spar_param_elements(p);
	float *w = malloc(n * sizeof *w);
	int rc =
	    w ? spar_model_fetch(&f->m, p, false, w, err) : spar_fail(err, SPAR_FAIL, "no memory for '%s'", p->name);
	for (size_t i = 0; i < n && rc == 0; i++)
		if (!isfinite(w[i]))
			rc = spar_fail(err, SPAR_INPUT, "%s: tensor '%s': element %zu is not finite", f->m.dir, p->name,
				       i);
	free(w);
	return rc;
}

/* The tokenizer fits the embedding, and the chat template, if there is one, can be read. */
static int check_text(const struct folder *f, struct spar_err *err)
{
	struct spar_chat *chat;
	bool fallback;
	size_t size = f->tokenizer ? spar_tokenizer_size(f->tokenizer) : 0;
	if (size > f->m.config.vocab_size)
		return spar_fail(err, SPAR_INPUT, "%s: tokenizer of %zu tokens, but .vocab_size is %zu", f->m.base_dir,
				 size, f->m.config.vocab_size);
	if (!size) {
		puts("tokenizer   none");
		return 0;
	}
	int rc = spar_chat_load(&chat, f->m.base_dir, &fallback, err);
	if (rc < 0)
		return rc;
	spar_chat_free(chat);
	printf("tokenizer   %zu tokens, all within the vocabulary; %s\n", size,
	       fallback ? "no chat template" : "its chat template compiles");
	return 0;
}

static int verify(const struct opts *o, struct spar_err *err)
{
	struct folder f;
	int rc = folder_open(&f, o->from, err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < f.n_params && rc == 0; i++)
		rc = check_finite(&f, &f.params[i], err);
	if (rc == 0)
		printf("weights     %zu tensors as the config wants them, %zu numbers%s, all finite\n", f.n_params,
		       f.n_elements, f.m.has_adapter ? ", the adapter added" : "");
	if (rc == 0 && (rc = check_text(&f, err)) == 0)
		printf("end tokens  %zu%s\n", f.m.config.n_end,
		       f.m.config.n_end ? "" : ": completions end only at their limit");
	folder_close(&f);
	return rc;
}

/* ---- what is made: a folder that appears when whole ---- */

typedef int fill(const struct opts *o, const char *dir, struct spar_err *err);

static int make_folder(const struct opts *o, fill *into, struct spar_err *err)
{
	char *tmp = spar_dir_begin(o->out, err);
	if (!tmp)
		return -(int)err->code;
	int rc = into(o, tmp, err);
	if (rc < 0 || (rc = spar_dir_commit(tmp, o->out, err)) < 0)
		spar_dir_remove(tmp, NULL);
	free(tmp);
	return rc;
}

static int fill_random(const struct opts *o, const char *dir, struct spar_err *err)
{
	return spar_model_init(o->config, o->seed, dir, err);
}

static int init(const struct opts *o, struct spar_err *err)
{
	return make_folder(o, fill_random, err);
}

static int fill_imported(const struct opts *o, const char *dir, struct spar_err *err)
{
	struct spar_gguf *gguf;
	int rc = spar_gguf_open(&gguf, o->from, err);
	if (rc < 0)
		return rc;
	if ((rc = spar_import_gguf(gguf, dir, dtype_or(o, SPAR_F32), err)) < 0)
		spar_fail_at(err, "%s", o->from);
	spar_gguf_close(gguf);
	return rc;
}

static int import(const struct opts *o, struct spar_err *err)
{
	return make_folder(o, fill_imported, err);
}

static int export(const struct opts *o, struct spar_err *err)
{
	static const enum spar_dtype types[] = {SPAR_F32, SPAR_F16, SPAR_BF16};
	struct folder f;
	int rc = folder_open(&f, o->from, err);
	if (rc < 0)
		return rc;
	rc = spar_export_gguf(&f.m, o->out, o->type < 0 ? f.stored : types[o->type], err);
	folder_close(&f);
	return rc;
}

static int fill_merged(const struct opts *o, const char *dir, struct spar_err *err)
{
	struct folder f;
	int rc = folder_open(&f, o->from, err);
	if (rc < 0)
		return rc;
	if (!f.m.has_adapter)
		rc = spar_fail(err, SPAR_INPUT, "%s: no adapter_config.json: nothing to merge", o->from);
	else
		rc = spar_model_merge(&f.m, dir, dtype_or(o, f.stored == SPAR_BF16 ? SPAR_BF16 : SPAR_F32), err);
	folder_close(&f);
	return rc;
}

static int merge(const struct opts *o, struct spar_err *err)
{
	return make_folder(o, fill_merged, err);
}

/* ---- options ---- */

static const struct command {
	const char *name;
	int (*run)(const struct opts *o, struct spar_err *err);
	bool config, out, from, gguf, dtype, type; /* what it takes; all but dtype and type must be there */
} commands[] = {
    {.name = "init", .run = init, .config = true, .out = true},
    {.name = "show", .run = show, .from = true},
    {.name = "import", .run = import, .out = true, .from = true, .dtype = true},
    {.name = "export", .run = export, .out = true, .from = true, .gguf = true, .type = true},
    {.name = "merge", .run = merge, .out = true, .from = true, .dtype = true},
    {.name = "verify", .run = verify, .from = true},
};

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
		if (!strcmp(name, commands[i].name))
			return &commands[i];
	return NULL;
}

/* 0, or the exit code of a usage error. */
static int check_usage(const struct command *c, const struct opts *o)
{
	const struct {
		const char *name;
		bool wanted, given;
	} uses[] = {{"--config", c->config, o->config},
		    {"--out", c->out, o->out},
		    {"a folder or file", c->from, o->from},
		    {"--gguf", c->gguf, o->gguf}};
	for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
		if (uses[i].wanted != uses[i].given)
			return spar_usage_error(&usage, uses[i].wanted ? "%s needs %s" : "%s does not take %s", c->name,
						uses[i].name);
	if (o->dtype >= 0 && !c->dtype)
		return spar_usage_error(&usage, "%s does not take --dtype", c->name);
	if (o->type >= 0 && !c->type)
		return spar_usage_error(&usage, "%s does not take --type", c->name);
	return 0;
}

int main(int argc, char **argv)
{
	struct opts o = {.dtype = -1, .type = -1};
	struct spar_err err = {0};
	const struct spar_opt table[] = {
	    SPAR_OPT_STR("config", 'c', &o.config, "DIR", "init: folder with config.json and the tokenizer"),
	    SPAR_OPT_U64("seed", 's', &o.seed, "N", "init: of the random weights (0)"),
	    SPAR_OPT_STR("out", 'o', &o.out, "DIR", "init, import, merge: the folder to write; export: the file"),
	    SPAR_OPT_CHOICE("dtype", 0, &o.dtype, dtypes, "TYPE",
			    "import, merge: of the written weights (import: float32; merge: the base's)"),
	    SPAR_OPT_FLAG("gguf", 0, &o.gguf, "export: as a GGUF file"),
	    SPAR_OPT_CHOICE("type", 0, &o.type, gguf_types, "TYPE", "export: of the written matrices (the folder's)"),
	    SPAR_OPT_FLAG("json", 0, &o.json, "show: one JSON object"),
	    SPAR_OPT_END};
	const char *name = NULL;
	/* Options may stand before and behind the command and its operand: each operand ends one round of parsing. */
	for (int at = 0; at < argc;) {
		int rest = spar_opt_parse(&usage, table, argc - at, argv + at);
		if (rest < 0)
			return -1 - rest;
		at += rest;
		if (at < argc && name && o.from)
			return spar_usage_error(&usage, "one folder or file at most, got '%s' too", argv[at]);
		if (at < argc)
			*(name ? &o.from : &name) = argv[at];
	}
	if (!name)
		return spar_usage_error(&usage, "expected init, show, import, export, merge or verify");
	const struct command *command = find_command(name);
	if (!command)
		return spar_usage_error(&usage, "no such command: %s", name);
	int rc = check_usage(command, &o);
	if (rc)
		return rc;
	rc = command->run(&o, &err);
	if (rc == 0 && (fflush(stdout) != 0 || ferror(stdout)))
		rc = spar_fail(&err, SPAR_FAIL, "<stdout>: cannot write");
	return rc < 0 ? spar_die("model", &err) : SPAR_OK;
}
