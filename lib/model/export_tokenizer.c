/* export_tokenizer.c - see export_tokenizer.h */
#include "model/export_tokenizer.h"
#include "base/file.h"
#include "model/gguf_names.h"
#include "record/object.h"
#include "record/record.h"
#include "text/chat.h"
#include "text/tokenizer.h"
#include <stdlib.h>
#include <string.h>

struct vocab {
	struct spar_str *tokens; /* (n), one for each row of the embedding */
	int32_t *types;
	size_t n;
	struct spar_str *merges; /* (n_merges) "left right" */
	size_t n_merges;
};

static void vocab_release(struct vocab *v)
{
	for (size_t i = 0; i < v->n && v->tokens; i++)
		spar_str_release(&v->tokens[i]);
	for (size_t i = 0; i < v->n_merges; i++)
		spar_str_release(&v->merges[i]);
	free(v->tokens);
	free(v->types);
	free(v->merges);
}

/* `text` (consumed) is the token of the row `id` (consumed). */
static int set_token(struct vocab *v, jv text, jv id, int32_t type, struct spar_err *err)
{
	int rc = 0;
	double row = jv_get_kind(id) == JV_KIND_NUMBER ? jv_number_value(id) : -1;
	if (jv_get_kind(text) != JV_KIND_STRING || !(row >= 0 && row < (double)v->n)) {
		rc = spar_fail(err, SPAR_INPUT, "a token without text, or without an id within the vocabulary");
	} else {
		struct spar_str *s = &v->tokens[(size_t)row];
		spar_str_clear(s);
		spar_str_add(s, jv_string_value(text), (size_t)jv_string_length_bytes(jv_copy(text)));
		v->types[(size_t)row] = type;
	}
	jv_free(text);
	jv_free(id);
	return rc;
}

static int read_tokens(struct vocab *v, jv file, jv model, struct spar_err *err)
{
	jv vocab = jv_object_get(jv_copy(model), jv_string("vocab"));
	jv added = jv_object_get(jv_copy(file), jv_string("added_tokens"));
	int rc = 0;
	for (int i = jv_get_kind(vocab) == JV_KIND_OBJECT ? jv_object_iter(vocab) : -2;
	     rc == 0 && i != -2 && jv_object_iter_valid(vocab, i); i = jv_object_iter_next(vocab, i))
		rc = set_token(v, jv_object_iter_key(vocab, i), jv_object_iter_value(vocab, i), SPAR_GGUF_TOKEN_NORMAL,
			       err);
	int n_added = jv_get_kind(added) == JV_KIND_ARRAY ? jv_array_length(jv_copy(added)) : 0;
	for (int i = 0; i < n_added && rc == 0; i++) {
		jv token = jv_array_get(jv_copy(added), i);
		if (jv_get_kind(token) != JV_KIND_OBJECT)
			rc = spar_fail(err, SPAR_INPUT, ".added_tokens[%d]: expected object", i);
		bool special = false;
		if (rc == 0 && spar_has(token, "special"))
			rc = spar_get_bool(token, "added_tokens", "special", &special, err);
		if (rc == 0)
			rc = set_token(v, jv_object_get(jv_copy(token), jv_string("content")),
				       jv_object_get(jv_copy(token), jv_string("id")),
				       special ? SPAR_GGUF_TOKEN_CONTROL : SPAR_GGUF_TOKEN_USER, err);
		jv_free(token);
	}
	jv_free(vocab);
	jv_free(added);
	return rc;
}

/* A merge is "left right", or in newer files ["left", "right"]. Consumes `merge`. */
static int add_merge(struct vocab *v, jv merge, struct spar_err *err)
{
	struct spar_str *s = &v->merges[v->n_merges++];
	bool pair = jv_get_kind(merge) == JV_KIND_ARRAY;
	int n = pair ? jv_array_length(jv_copy(merge)) : 1, rc = 0;
	spar_str_init(s);
	for (int i = 0; i < n && rc == 0; i++) {
		jv part = pair ? jv_array_get(jv_copy(merge), i) : jv_copy(merge);
		if (jv_get_kind(part) != JV_KIND_STRING)
			rc = spar_fail(err, SPAR_INPUT, ".model.merges[%zu]: expected text", v->n_merges - 1);
		else
			spar_str_addf(s, "%s%s", i ? " " : "", jv_string_value(part));
		jv_free(part);
	}
	jv_free(merge);
	return rc;
}

static int read_merges(struct vocab *v, jv model, struct spar_err *err)
{
	jv merges;
	int rc = spar_get_kind(model, "model", "merges", JV_KIND_ARRAY, &merges, err);
	if (rc < 0)
		return rc;
	int n = jv_array_length(jv_copy(merges));
	v->merges = spar_calloc((size_t)n + 1, sizeof *v->merges);
	for (int i = 0; i < n && rc == 0; i++)
		rc = add_merge(v, jv_array_get(jv_copy(merges), i), err);
	jv_free(merges);
	return rc;
}

/* Does obj.key (borrowed) say what the JSON `wanted` says? Off is off, in whatever words. */
static bool says(jv obj, const char *key, const char *wanted)
{
	jv is = jv_object_get(jv_copy(obj), jv_string(key)), want = jv_parse(wanted);
	bool same = spar_object_is_off(is) ? spar_object_is_off(want) : jv_equal(jv_copy(is), jv_copy(want));
	jv_free(is);
	jv_free(want);
	return same;
}

/* GGUF has a name for a way of cutting text, with which some things go, and a vocabulary; nothing else of a tokenizer.json may
 * be on. */
static int check_steps(jv file, jv model, const char **pre, struct spar_err *err)
{
	static const char *const features[] = {"dropout", "unk_token", "continuing_subword_prefix",
					       "end_of_word_suffix", "byte_fallback"};
	const char *type;
	size_t len;
	int rc = spar_get_str(model, "model", "type", &type, &len, err);
	if (rc < 0)
		return rc;
	if (strcmp(type, "BPE") != 0)
		return spar_fail(err, SPAR_INPUT, ".model.type: export of %s is not supported (only BPE is)", type);
	for (size_t i = 0; i < sizeof features / sizeof *features; i++)
		if (!says(model, features[i], "null"))
			return spar_fail(err, SPAR_INPUT, "%s: export of a tokenizer with it is not supported",
					 features[i]);
	jv pre_tokenizer = jv_object_get(jv_copy(file), jv_string("pre_tokenizer"));
	const struct spar_gguf_rule *rule = spar_gguf_rule_of(pre_tokenizer);
	jv_free(pre_tokenizer);
	if (!rule)
		return spar_fail(err, SPAR_INPUT, ".pre_tokenizer: GGUF has no name that we know for this rule");
	*pre = rule->name;
	if (!says(file, "normalizer", rule->normalizer))
		return spar_fail(err, SPAR_INPUT, ".normalizer: GGUF's rule '%s' goes with %s", rule->name,
				 rule->normalizer);
	return says(model, "ignore_merges", rule->ignore_merges ? "true" : "false")
		   ? 0
		   : spar_fail(err, SPAR_INPUT, ".model.ignore_merges: GGUF's rule '%s' goes with %s", rule->name,
			       rule->ignore_merges ? "true" : "false");
}

static int read_vocab(struct vocab *v, jv file, const char **pre, struct spar_err *err)
{
	jv model;
	int rc = spar_get_kind(file, "", "model", JV_KIND_OBJECT, &model, err);
	if (rc < 0)
		return rc;
	v->tokens = spar_calloc(v->n, sizeof *v->tokens);
	v->types = spar_calloc(v->n, sizeof *v->types);
	for (size_t i = 0; i < v->n; i++) { /* until its token comes */
		spar_str_init(&v->tokens[i]);
		spar_str_addf(&v->tokens[i], "[PAD%zu]", i);
		v->types[i] = SPAR_GGUF_TOKEN_UNUSED;
	}
	if ((rc = check_steps(file, model, pre, err)) == 0 && (rc = read_tokens(v, file, model, err)) == 0)
		rc = read_merges(v, model, err);
	jv_free(model);
	return rc;
}

/* Tokens with a role, by tokenizer_config.json; what ends a completion also by the other files. */
static int add_roles(struct spar_gguf_head *h, const struct spar_model *m, const struct spar_tokenizer *t,
		     struct spar_err *err)
{
	static const char *const roles[][2] = {{"bos_token", "tokenizer.ggml.bos_token_id"},
					       {"unk_token", "tokenizer.ggml.unknown_token_id"},
					       {"pad_token", "tokenizer.ggml.padding_token_id"}};
	char *path = spar_path_join(m->base_dir, "tokenizer_config.json");
	jv config = jv_object();
	int rc = 0;
	if (spar_file_exists(path)) {
		jv_free(config);
		rc = spar_object_read(path, &config, err);
	}
	free(path);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
		jv text = spar_object_token(config, roles[i][0]);
		int32_t id = jv_get_kind(text) == JV_KIND_STRING ? spar_tokenizer_id(t, jv_string_value(text)) : -1;
		if (id >= 0)
			spar_gguf_add_u32(h, roles[i][1], (uint32_t)id);
		jv_free(text);
	}
	jv_free(config);
	if (m->config.eos >= 0)
		spar_gguf_add_u32(h, "tokenizer.ggml.eos_token_id", (uint32_t)m->config.eos);
	return 0;
}

/* What the post-processor puts around a text: nothing, or the BOS in front. */
static int add_post(struct spar_gguf_head *h, const struct spar_tokenizer *t, struct spar_err *err)
{
	struct spar_ids ids = {0};
	int rc = spar_tokenizer_encode(t, "", 0, NULL, SPAR_ENCODE_ADD, &ids, err);
	bool bos = ids.n == 1 && ids.data[0] == spar_tokenizer_bos(t);
	if (rc == 0 && ids.n && !bos)
		rc = spar_fail(err, SPAR_INPUT, ".post_processor: export of more than a BOS is not supported");
	if (rc == 0)
		spar_gguf_add_bool(h, "tokenizer.ggml.add_bos_token", bos);
	free(ids.data);
	return rc;
}

static int add_template(struct spar_gguf_head *h, const char *dir, struct spar_err *err)
{
	struct spar_str source = SPAR_STR_INIT;
	bool found;
	int rc = spar_chat_source(dir, &source, &found, err);
	if (rc == 0 && found)
		spar_gguf_add_str(h, "tokenizer.chat_template", source.data, source.len);
	spar_str_release(&source);
	return rc;
}

int spar_export_tokenizer(struct spar_gguf_head *h, const struct spar_model *m, struct spar_err *err)
{
	struct vocab v = {.n = m->config.vocab_size};
	struct spar_tokenizer *t = NULL;
	char *path = spar_path_join(m->base_dir, "tokenizer.json");
	const char *pre = NULL;
	jv file = jv_invalid();
	int rc = spar_tokenizer_load(&t, m->base_dir, err);
	if (rc == 0 && (rc = spar_object_read(path, &file, err)) == 0) {
		if ((rc = read_vocab(&v, file, &pre, err)) < 0 || (rc = add_post(h, t, err)) < 0)
			spar_fail_at(err, "%s", path);
	}
	if (rc == 0) {
		spar_gguf_add_str(h, "tokenizer.ggml.model", "gpt2", 4);
		spar_gguf_add_str(h, "tokenizer.ggml.pre", pre, strlen(pre));
		spar_gguf_add_strs(h, "tokenizer.ggml.tokens", v.tokens, v.n);
		spar_gguf_add_i32s(h, "tokenizer.ggml.token_type", v.types, v.n);
		spar_gguf_add_strs(h, "tokenizer.ggml.merges", v.merges, v.n_merges);
		if ((rc = add_roles(h, m, t, err)) == 0)
			rc = add_template(h, m->base_dir, err);
	}
	jv_free(file);
	vocab_release(&v);
	spar_tokenizer_free(t);
	free(path);
	return rc;
}
