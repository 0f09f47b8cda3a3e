/* import_text.c - tokenizer.json and tokenizer_config.json out of a GGUF file's metadata; see import.h */
#include "base/file.h"
#include "base/str.h"
#include "model/gguf_names.h"
#include "model/import_parts.h"
#include <stdlib.h>
#include <string.h>

struct vocab {
	struct spar_gguf_text *tokens, *merges; /* merges: NULL of a SentencePiece model, which has scores */
	int32_t *types;
	double *scores;
	size_t n, n_merges;
};

/* ---- how text is cut ---- */

/* What a tokenizer.json has around its vocabulary, as JSON. */
struct rule {
	const char *normalizer, *pre_tokenizer, *decoder;
	bool ignore_merges, sentence_piece;
};

#define MARK_SPACES "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\xe2\x96\x81\"}"
#define UNMARK_SPACES \
	"{\"type\":\"Replace\",\"pattern\":{\"String\":\"\xe2\x96\x81\"},\"content\":\" " \
	"\"},{\"type\":\"ByteFallback\"}," \
	"{\"type\":\"Fuse\"}"
/* SentencePiece: with a space put before the text, or without. */
static const struct rule prefixed = {
    "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"\xe2\x96\x81\"}," MARK_SPACES "]}",
    "null",
    "{\"type\":\"Sequence\",\"decoders\":[" UNMARK_SPACES
    ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}",
    false, true};
static const struct rule unprefixed = {MARK_SPACES, "null", "{\"type\":\"Sequence\",\"decoders\":[" UNMARK_SPACES "]}",
				       false, true};

static int flag_of(const struct spar_gguf *g, const char *key, bool absent, bool *out, struct spar_err *err)
{
	uint64_t v = absent;
	int rc = spar_gguf_has(g, key) ? spar_gguf_u64(g, key, &v, err) : 0;
	*out = v;
	return rc;
}

static int find_rule(const struct spar_gguf *g, struct rule *rule, struct spar_err *err)
{
	static const char byte_level[] =
	    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true}";
	struct spar_gguf_text model, pre;
	bool prefix;
	int rc = spar_gguf_str(g, "tokenizer.ggml.model", &model, err);
	if (rc < 0)
		return rc;
	if (spar_gguf_text_is(model, "llama")) {
		rc = flag_of(g, "tokenizer.ggml.add_space_prefix", true, &prefix, err);
		*rule = prefix ? prefixed : unprefixed;
		return rc;
	}
	if (!spar_gguf_text_is(model, "gpt2"))
		return spar_fail(err, SPAR_INPUT, "tokenizer.ggml.model: '%.*s' is not supported (gpt2 and llama are)",
				 (int)(model.len < 40 ? model.len : 40), model.data);
	if ((rc = spar_gguf_str(g, "tokenizer.ggml.pre", &pre, err)) < 0)
		return rc;
	const struct spar_gguf_rule *known = spar_gguf_rule(pre);
	if (!known)
		return spar_fail(err, SPAR_INPUT, "tokenizer.ggml.pre: '%.*s' is not known",
				 (int)(pre.len < 40 ? pre.len : 40), pre.data);
	*rule = (struct rule){known->normalizer, known->pre_tokenizer, byte_level, known->ignore_merges, false};
	return 0;
}

/* ---- the vocabulary ---- */

static int read_vocab(struct vocab *v, const struct spar_gguf *g, bool has_merges, struct spar_err *err)
{
	size_t n_types, n_scores;
	int rc;
	if ((rc = spar_gguf_strs(g, "tokenizer.ggml.tokens", &v->tokens, &v->n, err)) < 0 ||
	    (rc = spar_gguf_ints(g, "tokenizer.ggml.token_type", &v->types, &n_types, err)) < 0)
		return rc;
	if (n_types != v->n)
		return spar_fail(err, SPAR_INPUT, "tokenizer.ggml.token_type: %zu types for %zu tokens", n_types, v->n);
	if (has_merges)
		return spar_gguf_strs(g, "tokenizer.ggml.merges", &v->merges, &v->n_merges, err);
	rc = spar_gguf_doubles(g, "tokenizer.ggml.scores", &v->scores, &n_scores, err);
	if (rc == 0 && n_scores != v->n)
		rc = spar_fail(err, SPAR_INPUT, "tokenizer.ggml.scores: %zu scores for %zu tokens", n_scores, v->n);
	return rc;
}

static void release_vocab(struct vocab *v)
{
	free(v->tokens);
	free(v->merges);
	free(v->types);
	free(v->scores);
}

static int by_text(const void *a, const void *b)
{
	const struct spar_gguf_text *x = a, *y = b;
	size_t n = x->len < y->len ? x->len : y->len;
	int order = n ? memcmp(x->data, y->data, n) : 0;
	return order ? order : (x->len > y->len) - (x->len < y->len);
}

/* A SentencePiece merge: a token made of two others. The better its score the earlier it is done. */
struct merge {
	struct spar_gguf_text left, right;
	double score;
	size_t order; /* in which they were found */
};

static int by_rank(const void *a, const void *b)
{
	const struct merge *x = a, *y = b;
	if (x->score != y->score)
		return x->score < y->score ? 1 : -1;
	if (x->left.len != y->left.len)
		return x->left.len < y->left.len ? 1 : -1;
	return (x->order > y->order) - (x->order < y->order);
}

/* All merges that the scores stand for. *n of them, malloc'ed. */
static struct merge *find_merges(const struct vocab *v, size_t *n)
{
	struct spar_gguf_text *words = spar_calloc(v->n + 1, sizeof *words);
	struct merge *merges = NULL;
	size_t n_words = 0, room = 0;
	*n = 0;
	for (size_t i = 0; i < v->n; i++)
		if (v->types[i] == SPAR_GGUF_TOKEN_NORMAL || v->types[i] == SPAR_GGUF_TOKEN_USER)
			words[n_words++] = v->tokens[i];
	if (n_words)
		qsort(words, n_words, sizeof *words, by_text);
	for (size_t i = 0; i < v->n; i++)
		for (size_t at = 1; v->types[i] == SPAR_GGUF_TOKEN_NORMAL && at < v->tokens[i].len; at++) {
			struct spar_gguf_text left = {v->tokens[i].data, at};
			struct spar_gguf_text right = {v->tokens[i].data + at, v->tokens[i].len - at};
			if (((unsigned char)*right.data & 0xc0) == 0x80 || /* inside a character */
			    !bsearch(&left, words, n_words, sizeof *words, by_text) ||
			    !bsearch(&right, words, n_words, sizeof *words, by_text))
				continue;
			if (*n == room) {
				room = room ? 2 * room : 1024;
				merges = spar_realloc(merges, room * sizeof *merges);
			}
			merges[*n] = (struct merge){left, right, v->scores[i], *n};
			++*n;
		}
	if (*n)
		qsort(merges, *n, sizeof *merges, by_rank);
	free(words);
	return merges;
}

/* ---- tokenizer.json ---- */

static void add_text(struct spar_str *s, struct spar_gguf_text t)
{
	spar_str_add_json(s, t.data, t.len);
}

static void add_added_tokens(struct spar_str *s, const struct vocab *v)
{
	const char *sep = "";
	for (size_t i = 0; i < v->n; i++) {
		if (v->types[i] != SPAR_GGUF_TOKEN_CONTROL && v->types[i] != SPAR_GGUF_TOKEN_USER)
			continue;
		spar_str_addf(s, "%s{\"id\":%zu,\"content\":", sep, i);
		add_text(s, v->tokens[i]);
		spar_str_addf(
		    s, ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":%s}",
		    v->types[i] == SPAR_GGUF_TOKEN_CONTROL ? "true" : "false");
		sep = ",\n";
	}
}

static void add_merges(struct spar_str *s, const struct vocab *v)
{
	size_t n = 0;
	struct merge *merges = v->merges ? NULL : find_merges(v, &n);
	for (size_t i = 0; i < v->n_merges; i++) {
		spar_str_adds(s, i ? ",\n" : "\n");
		add_text(s, v->merges[i]);
	}
	for (size_t i = 0; i < n; i++) {
		spar_str_adds(s, i ? ",\n[" : "\n[");
		add_text(s, merges[i].left);
		spar_str_addc(s, ',');
		add_text(s, merges[i].right);
		spar_str_addc(s, ']');
	}
	free(merges);
}

/* A token named by its id in the metadata, as JSON, or `absent`. */
static int add_named(struct spar_str *s, const struct spar_gguf *g, const struct vocab *v, const char *key,
		     const char *absent, struct spar_err *err)
{
	uint64_t id;
	if (!spar_gguf_has(g, key)) {
		spar_str_adds(s, absent);
		return 0;
	}
	int rc = spar_gguf_u64(g, key, &id, err);
	if (rc < 0)
		return rc;
	if (id >= v->n)
		return spar_fail(err, SPAR_INPUT, "%s: %llu is no token of %zu", key, (unsigned long long)id, v->n);
	add_text(s, v->tokens[id]);
	return 0;
}

/* What puts the first token before a text, if the file asks for it. */
static int add_post_processor(struct spar_str *s, const struct spar_gguf *g, const struct vocab *v, bool absent,
			      struct spar_err *err)
{
	struct spar_str bos = SPAR_STR_INIT;
	uint64_t id = 0;
	bool add;
	int rc = flag_of(g, "tokenizer.ggml.add_bos_token", absent, &add, err);
	if (rc == 0 && !add) {
		spar_str_adds(s, "null");
		return 0;
	}
	if (rc == 0 && (rc = spar_gguf_u64(g, "tokenizer.ggml.bos_token_id", &id, err)) == 0 &&
	    (rc = add_named(&bos, g, v, "tokenizer.ggml.bos_token_id", "", err)) == 0)
		spar_str_addf(
		    s,
		    "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":%s,\"type_id\":0}},"
		    "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[{\"Sequence\":{\"id\":\"A\","
		    "\"type_id\":0}},{\"Sequence\":{\"id\":\"B\",\"type_id\":1}}],\"special_tokens\":{%s:{\"id\":%s,"
		    "\"ids\":[%llu],\"tokens\":[%s]}}}",
		    bos.data, bos.data, bos.data, (unsigned long long)id, bos.data);
	spar_str_release(&bos);
	return rc;
}

static int tokenizer_json(struct spar_str *s, const struct spar_gguf *g, const struct vocab *v, const struct rule *rule,
			  struct spar_err *err)
{
	static const char *const yes_no[] = {"false", "true"};
	const char *sep = "\n";
	int rc;
	spar_str_adds(s, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[\n");
	add_added_tokens(s, v);
	spar_str_addf(s, "],\n\"normalizer\":%s,\n\"pre_tokenizer\":%s,\n\"post_processor\":", rule->normalizer,
		      rule->pre_tokenizer);
	if ((rc = add_post_processor(s, g, v, rule->sentence_piece, err)) < 0)
		return rc;
	spar_str_addf(s,
		      ",\n\"decoder\":%s,\n\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":", rule->decoder);
	if (!rule->sentence_piece)
		spar_str_adds(s, "null");
	else if ((rc = add_named(s, g, v, "tokenizer.ggml.unknown_token_id", "null", err)) < 0)
		return rc;
	spar_str_addf(s,
		      ",\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":%s,"
		      "\"byte_fallback\":%s,\"ignore_merges\":%s,\n\"vocab\":{",
		      yes_no[rule->sentence_piece], yes_no[rule->sentence_piece], yes_no[rule->ignore_merges]);
	for (size_t i = 0; i < v->n; i++) {
		if (v->types[i] == SPAR_GGUF_TOKEN_UNUSED)
			continue;
		spar_str_adds(s, sep);
		add_text(s, v->tokens[i]);
		spar_str_addf(s, ":%zu", i);
		sep = ",\n";
	}
	spar_str_adds(s, "},\n\"merges\":[");
	add_merges(s, v);
	spar_str_adds(s, "]}}\n");
	return 0;
}

static int tokenizer_config_json(struct spar_str *s, const struct spar_gguf *g, const struct vocab *v, uint64_t context,
				 struct spar_err *err)
{
	static const char *const names[][2] = {{"tokenizer.ggml.bos_token_id", "bos_token"},
					       {"tokenizer.ggml.eos_token_id", "eos_token"},
					       {"tokenizer.ggml.unknown_token_id", "unk_token"},
					       {"tokenizer.ggml.padding_token_id", "pad_token"}};
	struct spar_gguf_text template;
	int rc;
	spar_str_adds(
	    s, "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n  \"clean_up_tokenization_spaces\": false");
	for (size_t i = 0; i < 4; i++) {
		if (!spar_gguf_has(g, names[i][0]))
			continue;
		spar_str_addf(s, ",\n  \"%s\": ", names[i][1]);
		if ((rc = add_named(s, g, v, names[i][0], "", err)) < 0)
			return rc;
	}
	if (spar_gguf_has(g, "tokenizer.chat_template")) {
		if ((rc = spar_gguf_str(g, "tokenizer.chat_template", &template, err)) < 0)
			return rc;
		spar_str_adds(s, ",\n  \"chat_template\": ");
		add_text(s, template);
	}
	spar_str_addf(s, ",\n  \"model_max_length\": %llu\n}\n", (unsigned long long)context);
	return 0;
}

int spar_import_text(const struct spar_gguf *g, uint64_t context, const char *dir, struct spar_err *err)
{
	struct vocab v = {0};
	struct spar_str s = SPAR_STR_INIT;
	struct rule rule = {0};
	int rc = find_rule(g, &rule, err);
	if (rc == 0 && (rc = read_vocab(&v, g, !rule.sentence_piece, err)) == 0 &&
	    (rc = tokenizer_json(&s, g, &v, &rule, err)) == 0)
		rc = spar_import_write(dir, "tokenizer.json", &s, err);
	spar_str_clear(&s);
	if (rc == 0 && (rc = tokenizer_config_json(&s, g, &v, context, err)) == 0)
		rc = spar_import_write(dir, "tokenizer_config.json", &s, err);
	release_vocab(&v);
	spar_str_release(&s);
	return rc;
}
