#include "rl/reward.h"
#include "base/opt.h"
#include "base/str.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./"

/* Fill `item` from its description; what it holds so far is the caller's to free. */
static int parse(struct spar_reward *item, const char *spec, struct spar_err *err)
{
	size_t n = strspn(spec, NAME_BYTES);
	const char *rest = spec + n;
	item->name = spar_calloc(n + 1, 1);
	memcpy(item->name, spec, n);
	item->weight = 1;
	if (*rest == ':') {
		size_t len = strcspn(++rest, "=");
		char weight[64] = "";
		memcpy(weight, rest, len < sizeof weight ? len : 0);
		if (spar_parse_double(weight, -DBL_MAX, DBL_MAX, &item->weight) < 0)
			return spar_fail(err, SPAR_USAGE, "reward %s: the weight must be a number, got '%.*s'",
					 item->name, (int)len, rest);
		rest += len;
	}
	if (!n || (*rest && *rest != '='))
		return spar_fail(err, SPAR_USAGE, "expected NAME[:WEIGHT]=JQ or env[:WEIGHT], got '%s'", spec);
	if (!*rest && strcmp(item->name, "env") != 0)
		return spar_fail(err, SPAR_USAGE, "reward %s needs a program: %s=JQ", item->name, item->name);
	if (*rest && spar_jq_new(&item->program, rest + 1, err) < 0)
		return spar_fail_at(err, "reward %s", item->name);
	return 0;
}

static void release(struct spar_reward *item)
{
	spar_jq_free(item->program);
	free(item->name);
}

int spar_rewards_add(struct spar_rewards *r, const char *spec, struct spar_err *err)
{
	struct spar_reward item = {0};
	int rc = parse(&item, spec, err);
	for (size_t i = 0; rc == 0 && i < r->n; i++)
		if (!strcmp(r->items[i].name, item.name))
			rc = spar_fail(err, SPAR_USAGE, "two rewards are called %s", item.name);
	if (rc < 0) {
		release(&item);
		return rc;
	}
	r->items = spar_realloc(r->items, (r->n + 1) * sizeof *r->items);
	r->items[r->n++] = item;
	return 0;
}

void spar_rewards_release(struct spar_rewards *r)
{
	for (size_t i = 0; i < r->n; i++)
		release(&r->items[i]);
	free(r->items);
	*r = (struct spar_rewards){0};
}

/* A jq value as a reward; NaN stands for null. jq prints NaN as null and infinity as a number: only C can tell. `v` is
 * borrowed. */
static int to_reward(jv v, double *out, struct spar_err *err)
{
	switch (jv_get_kind(v)) {
	case JV_KIND_NULL:
		*out = NAN;
		return 0;
	case JV_KIND_FALSE:
	case JV_KIND_TRUE:
		*out = jv_get_kind(v) == JV_KIND_TRUE;
		return 0;
	case JV_KIND_NUMBER:
		*out = jv_number_value(v);
		if (isfinite(*out))
			return 0;
		return spar_fail(err, SPAR_INPUT, "not a number: %s",
				 isnan(*out) ? "NaN"
				 : *out < 0  ? "-infinity"
					     : "infinity");
	default: {
		jv text = jv_dump_string(jv_copy(v), 0);
		int rc =
		    spar_fail(err, SPAR_INPUT, "not a number: %s %.200s", spar_kind_name(v), jv_string_value(text));
		jv_free(text);
		return rc;
	}
	}
}

static int run(const struct spar_reward *item, jv record, double *out, struct spar_err *err)
{
	jv v = jv_invalid();
	int n = spar_jq_run(item->program, jv_copy(record), &v, err);
	if (n >= 0)
		n = n == 1 ? to_reward(v, out, err)
			   : spar_fail(err, SPAR_INPUT, n ? "more than one value" : "no value");
	jv_free(v);
	return n;
}

static int env_return(jv record, double *out, struct spar_err *err)
{
	jv env;
	if (!spar_has(record, "env")) {
		*out = NAN;
		return 0;
	}
	int rc = spar_get_kind(record, "", "env", JV_KIND_OBJECT, &env, err);
	if (rc < 0)
		return rc;
	rc = spar_get_double(env, "env", "return", out, err);
	jv_free(env);
	return rc;
}

static void set_null(struct spar_record *rec, const char *key)
{
	spar_record_set(rec, key, "null", 4);
}

int spar_rewards_score(struct spar_rewards *r, struct spar_record *rec, struct spar_err *err)
{
	struct spar_str values = SPAR_STR_INIT;
	double total = NAN;
	int rc = 0;
	spar_str_addc(&values, '{');
	for (size_t i = 0; i < r->n; i++) {
		struct spar_reward *item = &r->items[i];
		struct spar_err why = {0};
		double v = NAN;
		int done = item->program ? run(item, rec->value, &v, &why) : env_return(rec->value, &v, &why);
		if (done < 0) {
			v = NAN;
			if (rc == 0) /* the first failure is the one that is reported */
				rc = spar_fail(err, SPAR_INPUT, "%s: %s", item->name, why.msg);
		}
		if (!isnan(v)) {
			item->sum += v;
			item->n++;
			total = (isnan(total) ? 0 : total) + item->weight * v;
		}
		spar_str_addf(&values, "%s\"%s\":", i ? "," : "", item->name);
		spar_str_add_double(&values, v);
	}
	spar_str_addc(&values, '}');
	spar_record_set(rec, "rewards", values.data, values.len);
	spar_str_release(&values);
	if (rc == 0 && isinf(total))
		rc = spar_fail(err, SPAR_INPUT, "the weighted sum is not finite");
	if (rc < 0) {
		r->n_failed++;
		set_null(rec, "reward");
		spar_record_set_str(rec, "reward_error", err ? err->msg : "failed");
		return rc;
	}
	spar_record_set_double(rec, "reward", total);
	if (spar_has(rec->value, "reward_error")) /* of an earlier scoring */
		set_null(rec, "reward_error");
	if (isnan(total)) {
		r->n_null++;
	} else {
		r->sum += total;
		r->n_total++;
	}
	return 0;
}
