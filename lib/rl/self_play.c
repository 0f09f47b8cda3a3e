#include "rl/self_play.h"
#include "record/object.h"
#include "record/record.h"
#include "rl/self_play_keys.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- paths ---- */

static const struct spar_play_key *find(const char *path)
{
	for (size_t i = 0; i < spar_play_n_keys; i++)
		if (!strcmp(spar_play_keys[i].path, path))
			return &spar_play_keys[i];
	return NULL;
}

static bool is_block(const char *path)
{
	size_t n = strlen(path);
	for (size_t i = 0; i < spar_play_n_keys; i++)
		if (!strncmp(spar_play_keys[i].path, path, n) && spar_play_keys[i].path[n] == '.')
			return true;
	return false;
}

/* How many letters have to be changed, put in or left out (Levenshtein); 99 when a text is too long to compare. */
static int distance(const char *a, const char *b)
{
	int row[64];
	size_t n = strlen(b);
	if (n >= 64)
		return 99;
	for (size_t j = 0; j <= n; j++)
		row[j] = (int)j;
	for (size_t i = 0; a[i]; i++) {
		int diagonal = row[0];
		row[0] = (int)i + 1;
		for (size_t j = 0; j < n; j++) {
			int change = diagonal + (a[i] != b[j]), least = row[j] < row[j + 1] ? row[j] : row[j + 1];
			diagonal = row[j + 1];
			row[j + 1] = change < least + 1 ? change : least + 1;
		}
	}
	return row[n];
}

static int unknown(const char *path, struct spar_err *err)
{
	const char *nearest = NULL;
	int least = 4;
	for (size_t i = 0; i < spar_play_n_keys; i++) {
		int d = distance(path, spar_play_keys[i].path);
		if (d < least) {
			least = d;
			nearest = spar_play_keys[i].path;
		}
	}
	return nearest ? spar_fail(err, SPAR_INPUT, "%s: no such key; did you mean %s", path, nearest)
		       : spar_fail(err, SPAR_INPUT, "%s: no such key", path);
}

/* ---- the whole ---- */

static jv defaults(void)
{
	jv config = jv_object();
	for (size_t i = 0; i < spar_play_n_keys; i++)
		config =
		    jv_setpath(config, spar_play_path(spar_play_keys[i].path), jv_parse(spar_play_keys[i].fallback));
	return config;
}

static int put(jv *config, const char *path, jv v, struct spar_err *err);

/* `block` is borrowed; `path` ends in a dot, or is "" at the top. */
static int put_members(jv *config, const char *path, jv block, struct spar_err *err)
{
	struct spar_str inner = SPAR_STR_INIT;
	int rc = 0;
	for (int i = jv_object_iter(block); rc == 0 && jv_object_iter_valid(block, i);
	     i = jv_object_iter_next(block, i)) {
		jv name = jv_object_iter_key(block, i);
		spar_str_clear(&inner);
		spar_str_addf(&inner, "%s%s", path, jv_string_value(name));
		rc = put(config, inner.data, jv_object_iter_value(block, i), err);
		jv_free(name);
	}
	spar_str_release(&inner);
	return rc;
}

/* Put the value at `path` (consumed), a key's or a block, into the configuration. */
static int put(jv *config, const char *path, jv v, struct spar_err *err)
{
	const struct spar_play_key *key = find(path);
	struct spar_str block = SPAR_STR_INIT;
	int rc;
	if (key && (rc = spar_play_check_value(key, v, err)) == 0) {
		*config = jv_setpath(*config, spar_play_path(path), v);
		return 0;
	}
	spar_str_addf(&block, "%s.", path);
	if (!key && !is_block(path))
		rc = unknown(path, err);
	else if (!key && jv_get_kind(v) != JV_KIND_OBJECT)
		rc = spar_fail(err, SPAR_INPUT, "%s: expected object, got %s", path, spar_kind_name(v));
	else if (!key)
		rc = put_members(config, block.data, v, err);
	spar_str_release(&block);
	jv_free(v);
	return rc;
}

/* The blocks that follow a key at the top unless they say otherwise. */
static int put_all(jv *config, jv given, struct spar_err *err)
{
	int rc = put_members(config, "", given, err);
	static const char *const inner = "swarm_v2.validation.max_support_edges";
	jv said = jv_getpath(jv_copy(given), spar_play_path(inner));
	if (rc == 0 && jv_get_kind(said) != JV_KIND_NUMBER)
		*config = jv_setpath(*config, spar_play_path(inner), spar_play_get(*config, "max_support_edges"));
	jv_free(said);
	return rc;
}

/* "KEY=JSON", or "KEY=text" when it is no JSON. */
static int put_set(jv *config, const char *set, struct spar_err *err)
{
	size_t n = strcspn(set, "=");
	if (!set[n])
		return spar_fail(err, SPAR_USAGE, "--set: expected KEY=VALUE, got '%s'", set);
	char *path = spar_strdup(set);
	path[n] = 0;
	jv v = jv_parse(set + n + 1);
	if (!jv_is_valid(v)) {
		jv_free(v);
		v = jv_string(set + n + 1);
	}
	int rc = put(config, path, v, err);
	free(path);
	if (rc == 0)
		return 0;
	err->code = SPAR_USAGE;
	return spar_fail_at(err, "--set");
}

int spar_self_play_read(jv *out, const char *path, const struct spar_opt_list *sets, struct spar_err *err)
{
	jv given, config;
	int rc = spar_object_read(path, &given, err);
	if (rc < 0)
		return rc;
	config = defaults();
	rc = put_all(&config, given, err);
	jv_free(given);
	if (rc < 0)
		spar_fail_at(err, "%s", path);
	for (size_t i = 0; rc == 0 && i < sets->n; i++)
		rc = put_set(&config, sets->items[i], err);
	if (rc == 0 && (rc = spar_play_check(config, err)) < 0)
		spar_fail_at(err, "%s", path);
	if (rc == 0)
		*out = config;
	else
		jv_free(config);
	return rc;
}

void spar_self_play_warn(jv config, void (*warn)(void *ctx, const char *text), void *ctx)
{
	struct spar_str text = SPAR_STR_INIT;
	for (size_t i = 0; i < spar_play_n_keys; i++) {
		if (!spar_play_keys[i].idle)
			continue;
		if (!jv_equal(spar_play_get(config, spar_play_keys[i].path), jv_parse(spar_play_keys[i].fallback))) {
			spar_str_clear(&text);
			spar_str_addf(&text, "%s has no effect: %s", spar_play_keys[i].path, spar_play_keys[i].idle);
			warn(ctx, text.data);
		}
	}
	spar_str_release(&text);
}

static void add_value(const struct spar_play_key *key, jv v, struct spar_str *out)
{
	if (key->kind == SPAR_PLAY_INT || key->kind == SPAR_PLAY_NUM)
		spar_str_add_double(out, jv_number_value(v));
	else if (key->kind == SPAR_PLAY_BOOL)
		spar_str_adds(out, jv_get_kind(v) == JV_KIND_TRUE ? "1" : "");
	else if (key->kind == SPAR_PLAY_NAME)
		spar_str_adds(out, jv_string_value(v));
	else
		jv_array_foreach(v, i, item)
		{
			spar_str_addf(out, "%s%s", i ? "+" : "", jv_string_value(item));
			jv_free(item);
		}
}

void spar_self_play_variables(jv config, struct spar_str *out)
{
	for (size_t i = 0; i < spar_play_n_keys; i++) {
		if (spar_play_keys[i].kind == SPAR_PLAY_STR || spar_play_keys[i].idle)
			continue;
		for (const char *c = spar_play_keys[i].path; *c; c++)
			spar_str_addc(out, *c == '.' ? '_' : toupper((unsigned char)*c));
		spar_str_adds(out, "='");
		jv v = spar_play_get(config, spar_play_keys[i].path);
		add_value(&spar_play_keys[i], v, out);
		jv_free(v);
		spar_str_adds(out, "'\n");
	}
}
