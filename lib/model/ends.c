/* ends.c - the tokens that end a text, gathered from all the files that name some; see config.h */
#include "base/file.h"
#include "model/config_read.h"
#include "record/object.h"
#include "record/record.h"
#include <stdlib.h>

bool spar_config_is_end(const struct spar_config *c, int32_t id)
{
	for (size_t i = 0; i < c->n_end; i++)
		if (c->end_ids[i] == id)
			return true;
	return false;
}

static int add_end(struct spar_config *c, double id, const char *key, struct spar_err *err)
{
	if (!(id >= 0 && id < (double)c->vocab_size) || id != (double)(int32_t)id)
		return spar_fail(err, SPAR_INPUT, ".%s: %.17g is no token of a vocabulary of %zu", key, id,
				 c->vocab_size);
	if (spar_config_is_end(c, (int32_t)id))
		return 0;
	if (c->n_end == SPAR_MAX_END)
		return spar_fail(err, SPAR_INPUT, ".%s: more than %d end tokens", key, SPAR_MAX_END);
	c->end_ids[c->n_end++] = (int32_t)id;
	return 0;
}

/* `eos_token_id` is one id or a list. */
static int add_ends(struct spar_config *c, jv obj, struct spar_err *err)
{
	static const char key[] = "eos_token_id";
	if (!spar_has(obj, key))
		return 0;
	jv v = jv_object_get(jv_copy(obj), jv_string(key));
	int rc = 0;
	if (jv_get_kind(v) == JV_KIND_NUMBER)
		rc = add_end(c, jv_number_value(v), key, err);
	else if (jv_get_kind(v) == JV_KIND_ARRAY)
		jv_array_foreach(v, i, item)
		{
			if (rc == 0 && jv_get_kind(item) != JV_KIND_NUMBER)
				rc = spar_fail(err, SPAR_INPUT, ".%s[%d]: expected number, got %s", key, i,
					       spar_kind_name(item));
			else if (rc == 0)
				rc = add_end(c, jv_number_value(item), key, err);
			jv_free(item);
		}
	else
		rc = spar_fail(err, SPAR_INPUT, ".%s: expected number or array, got %s", key, spar_kind_name(v));
	jv_free(v);
	return rc;
}

int spar_config_add_eos(struct spar_config *c, int32_t id, struct spar_err *err)
{
	struct spar_config without = *c;
	if (id < 0)
		return 0;
	c->n_end = 0;
	int rc = add_end(c, id, "eos_token", err);
	for (size_t i = 0; rc == 0 && i < without.n_end; i++)
		rc = add_end(c, without.end_ids[i], "eos_token", err);
	if (rc == 0)
		c->eos = id;
	return rc;
}

static int load_generation_config(struct spar_config *c, const char *dir, struct spar_err *err)
{
	char *path = spar_path_join(dir, "generation_config.json");
	jv obj = jv_invalid();
	int rc = 0;
	if (spar_file_exists(path) && (rc = spar_object_read(path, &obj, err)) == 0 && (rc = add_ends(c, obj, err)) < 0)
		spar_fail_at(err, "%s", path);
	jv_free(obj);
	free(path);
	return rc;
}

int spar_config_load_ends(struct spar_config *c, const char *dir, jv config, struct spar_err *err)
{
	char *path = spar_path_join(dir, "config.json");
	int rc = load_generation_config(c, dir, err);
	if (rc == 0 && (rc = add_ends(c, config, err)) < 0)
		spar_fail_at(err, "%s", path);
	if (c->n_end)
		c->eos = c->end_ids[0];
	free(path);
	return rc;
}
