/* task.c - see task.h */
#include "rl/task.h"
#include "base/json.h"
#include "base/philox.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The bytes of `.id`: libjq would round a large number. */
static char *id_as_written(const struct spar_record *rec)
{
	struct spar_json_members m;
	struct spar_str id = SPAR_STR_INIT;
	size_t begin = strcspn(rec->text.data, "{");
	spar_json_members_init(&m, rec->text.data + begin, rec->text.len - begin);
	while (spar_json_members_next(&m)) {
		if (m.key_len == 2 && !memcmp(m.key, "id", 2)) {
			spar_str_clear(&id);
			spar_str_add(&id, m.value, m.value_len);
		}
	}
	return spar_str_detach(&id);
}

static uint64_t hash_of(const char *text, size_t n)
{
	struct spar_rng mixed;
	spar_rng_init(&mixed, 0, text, n);
	return (uint64_t)mixed.key[0] << 32 | mixed.key[1];
}

static char *hash_of_line(const struct spar_record *rec)
{
	char name[17];
	snprintf(name, sizeof name, "%016" PRIx64, hash_of(rec->text.data, rec->text.len));
	return spar_strdup(name);
}

static int rollout_name(char **out, jv object, struct spar_err *err)
{
	struct spar_str name = SPAR_STR_INIT;
	const char *group;
	size_t len;
	int64_t sample;
	int rc = spar_get_str(object, "", "group", &group, &len, err);
	if (rc < 0 || (rc = spar_get_i64(object, "", "sample", &sample, err)) < 0)
		return rc;
	spar_str_addf(&name, "%s/%" PRId64, group, sample);
	*out = spar_str_detach(&name);
	return 0;
}

static int read_id(char **out, const struct spar_record *rec, struct spar_err *err)
{
	jv id = jv_object_get(jv_copy(rec->value), jv_string("id"));
	int rc = 0;
	switch (jv_get_kind(id)) {
	case JV_KIND_STRING:
		*out = spar_strdup(jv_string_value(id));
		break;
	case JV_KIND_NUMBER:
		*out = id_as_written(rec);
		break;
	case JV_KIND_INVALID:
	case JV_KIND_NULL:
		if (spar_record_is(rec, "rollout"))
			rc = rollout_name(out, rec->value, err);
		else
			*out = hash_of_line(rec);
		break;
	default:
		rc = spar_fail(err, SPAR_INPUT, ".id: expected string or number, got %s", spar_kind_name(id));
	}
	jv_free(id);
	return rc;
}

static bool is_episode(jv object)
{
	return spar_has(object, "env") ||
	       (spar_has(object, "seed") && !spar_has(object, "messages") && !spar_has(object, "prompt"));
}

static jv reset_request(uint64_t seed)
{
	char text[24];
	snprintf(text, sizeof text, "%" PRIu64, seed);
	jv request = jv_object_set(jv_object(), jv_string("op"), jv_string("reset"));
	return jv_object_set(request, jv_string("seed"), jv_string(text));
}

static int read_reset(struct spar_task *t, jv object, struct spar_err *err)
{
	static const char *const optional[] = {"difficulty", "max_steps", "options"};
	const char *name = NULL;
	size_t len;
	uint64_t seed;
	int rc = spar_get_u64(object, "", "seed", &seed, err);
	if (rc == 0 && spar_has(object, "env"))
		rc = spar_get_str(object, "", "env", &name, &len, err);
	if (rc < 0)
		return rc;
	t->env = name ? spar_strdup(name) : NULL;
	t->reset = reset_request(seed);
	for (size_t i = 0; i < sizeof optional / sizeof *optional; i++)
		if (spar_has(object, optional[i]))
			t->reset = jv_object_set(t->reset, jv_string(optional[i]),
						 jv_object_get(jv_copy(object), jv_string(optional[i])));
	return 1;
}

static int read_prompt(struct spar_task *t, jv object, struct spar_jq *program, struct spar_err *err)
{
	int rc = spar_jq_run(program, jv_copy(object), &t->prompt, err);
	if (rc < 0)
		return spar_fail_at(err, "prompt");
	if (rc > 1)
		return spar_fail(err, SPAR_INPUT, "prompt: more than one value");
	jv_kind kind = jv_get_kind(t->prompt);
	if (rc == 0 || kind == JV_KIND_NULL)
		return 0;
	if (kind != JV_KIND_ARRAY && kind != JV_KIND_STRING)
		return spar_fail(err, SPAR_INPUT, "prompt: expected messages or a string, got %s",
				 spar_kind_name(t->prompt));
	return 1;
}

int spar_task_read(struct spar_task *t, const struct spar_record *rec, struct spar_jq *prompt, struct spar_err *err)
{
	*t = (struct spar_task){.prompt = jv_invalid(), .reset = jv_invalid()};
	int rc = read_id(&t->id, rec, err);
	if (rc == 0)
		rc = is_episode(rec->value) ? read_reset(t, rec->value, err) : read_prompt(t, rec->value, prompt, err);
	if (rc <= 0)
		spar_task_release(t);
	return rc;
}

void spar_task_episode(struct spar_task *t, uint64_t seed, const char *difficulty, int64_t max_steps)
{
	char name[24];
	snprintf(name, sizeof name, "%" PRIu64, seed);
	*t = (struct spar_task){.id = spar_strdup(name), .prompt = jv_invalid(), .reset = reset_request(seed)};
	t->reset = jv_object_set(t->reset, jv_string("difficulty"), jv_string(difficulty));
	t->reset = jv_object_set(t->reset, jv_string("max_steps"), jv_number((double)max_steps));
}

void spar_task_release(struct spar_task *t)
{
	free(t->id);
	free(t->env);
	jv_free(t->prompt);
	jv_free(t->reset);
	*t = (struct spar_task){.prompt = jv_invalid(), .reset = jv_invalid()};
}

/* ---- ids ---- */

static bool put(struct spar_task_ids *ids, uint64_t hash)
{
	size_t at = hash & (ids->cap - 1);
	while (ids->slots[at] && ids->slots[at] != hash)
		at = (at + 1) & (ids->cap - 1);
	bool fresh = !ids->slots[at];
	ids->slots[at] = hash;
	ids->n += fresh;
	return fresh;
}

static void grow(struct spar_task_ids *ids)
{
	struct spar_task_ids more = {.cap = ids->cap ? 2 * ids->cap : 64};
	more.slots = spar_calloc(more.cap, sizeof *more.slots);
	for (size_t i = 0; i < ids->cap; i++)
		if (ids->slots[i])
			put(&more, ids->slots[i]);
	free(ids->slots);
	*ids = more;
}

bool spar_task_ids_add(struct spar_task_ids *ids, const char *id)
{
	uint64_t hash = hash_of(id, strlen(id));
	if (2 * ids->n >= ids->cap)
		grow(ids);
	return put(ids, hash ? hash : 1);
}

void spar_task_ids_clear(struct spar_task_ids *ids)
{
	free(ids->slots);
	*ids = (struct spar_task_ids){0};
}
