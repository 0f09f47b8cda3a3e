#include "rl/role_baseline.h"
#include "base/file.h"
#include "record/object.h"
#include "record/record.h"

void spar_role_baselines_init(struct spar_role_baselines *b, double decay)
{
	*b = (struct spar_role_baselines){decay, jv_object()};
}

void spar_role_baselines_release(struct spar_role_baselines *b)
{
	jv_free(b->by_role);
	b->by_role = jv_null();
}

int spar_role_baselines_load(struct spar_role_baselines *b, const char *path, struct spar_err *err)
{
	jv object;
	if (!spar_file_exists(path))
		return 0;
	int rc = spar_object_read(path, &object, err);
	if (rc < 0)
		return rc;
	jv_object_foreach(object, role, value)
	{
		double unused;
		if (rc == 0)
			rc = spar_get_double(object, "", jv_string_value(role), &unused, err);
		jv_free(role);
		jv_free(value);
	}
	if (rc < 0) {
		jv_free(object);
		return spar_fail_at(err, "%s", path);
	}
	jv_free(b->by_role);
	b->by_role = object;
	return 0;
}

int spar_role_baselines_save(const struct spar_role_baselines *b, const char *path, struct spar_err *err)
{
	struct spar_str text = SPAR_STR_INIT;
	jv roles = jv_keys(jv_copy(b->by_role));
	spar_str_addc(&text, '{');
	jv_array_foreach(roles, i, role)
	{
		jv value = jv_object_get(jv_copy(b->by_role), jv_copy(role));
		if (i)
			spar_str_addc(&text, ',');
		spar_str_add_json(&text, jv_string_value(role), (size_t)jv_string_length_bytes(jv_copy(role)));
		spar_str_addc(&text, ':');
		spar_str_add_double(&text, jv_number_value(value));
		jv_free(value);
		jv_free(role);
	}
	jv_free(roles);
	spar_str_adds(&text, "}\n");
	int rc = spar_file_write(path, text.data, text.len, err);
	spar_str_release(&text);
	return rc;
}

int spar_role_of(jv record, const char **role, struct spar_err *err)
{
	size_t len;
	*role = "";
	if (spar_has(record, "role"))
		return spar_get_str(record, "", "role", role, &len, err);
	jv task = jv_object_get(jv_copy(record), jv_string("task"));
	int rc = jv_get_kind(task) == JV_KIND_OBJECT && spar_has(task, "role")
		     ? spar_get_str(task, "task", "role", role, &len, err)
		     : 0;
	jv_free(task); /* the record holds it */
	return rc;
}

double spar_role_advantage(struct spar_role_baselines *b, const char *role, double reward)
{
	jv was = jv_object_get(jv_copy(b->by_role), jv_string(role));
	double baseline = jv_get_kind(was) == JV_KIND_NUMBER ? jv_number_value(was) : 0;
	jv_free(was);
	baseline = b->decay * baseline + (1 - b->decay) * reward;
	b->by_role = jv_object_set(b->by_role, jv_string(role), jv_number(baseline));
	return reward - baseline;
}
