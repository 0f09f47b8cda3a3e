#include "model/config_read.h"
#include "record/object.h"
#include "record/record.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SIZE_LIMIT (1 << 24) /* of any one size in a config: a product of two fits easily in 64 bits */

/* Note that the key is known. */
static void know(struct spar_reading *r, const char *key)
{
	for (size_t i = 0; i < r->n_keys; i++)
		if (!strcmp(r->keys[i], key))
			return;
	if (r->n_keys < sizeof r->keys / sizeof *r->keys)
		r->keys[r->n_keys++] = key;
}

bool spar_reading_has(struct spar_reading *r, const char *key)
{
	know(r, key);
	return spar_has(r->obj, key);
}

/* Is the key there, be it null? */
static bool is_there(struct spar_reading *r, const char *key)
{
	know(r, key);
	return jv_object_has(jv_copy(r->obj), jv_string(key));
}

int spar_reading_fail(const struct spar_reading *r, const char *key, struct spar_err *err, const char *fmt, ...)
{
	char text[200];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	return spar_fail(err, SPAR_INPUT, "%s%s.%s: %s", *r->path ? "." : "", r->path, key, text);
}

int spar_reading_size(struct spar_reading *r, const char *key, size_t absent, size_t *out, struct spar_err *err)
{
	int64_t v;
	*out = absent;
	if (!spar_reading_has(r, key) && absent)
		return 0;
	int rc = spar_get_i64(r->obj, r->path, key, &v, err);
	if (rc == 0 && (v < 1 || v > SIZE_LIMIT))
		rc = spar_reading_fail(r, key, err, "%lld is not in [1, %d]", (long long)v, SIZE_LIMIT);
	if (rc == 0)
		*out = (size_t)v;
	return rc;
}

int spar_reading_size_or_none(struct spar_reading *r, const char *key, size_t absent, size_t *out, struct spar_err *err)
{
	*out = is_there(r, key) ? 0 : absent;
	return spar_reading_has(r, key) ? spar_reading_size(r, key, 0, out, err) : 0;
}

int spar_reading_positive(struct spar_reading *r, const char *key, double absent, double *out, struct spar_err *err)
{
	*out = absent;
	if (!spar_reading_has(r, key) && absent > 0)
		return 0;
	int rc = spar_get_double(r->obj, r->path, key, out, err);
	if (rc == 0 && !(*out > 0))
		rc = spar_reading_fail(r, key, err, "%g is not positive", *out);
	return rc;
}

int spar_reading_positive_or_none(struct spar_reading *r, const char *key, double absent, double *out,
				  struct spar_err *err)
{
	*out = is_there(r, key) ? 0 : absent;
	return spar_reading_has(r, key) ? spar_reading_positive(r, key, 0, out, err) : 0;
}

int spar_reading_flag(struct spar_reading *r, const char *key, bool absent, bool *out, struct spar_err *err)
{
	*out = absent;
	return spar_reading_has(r, key) ? spar_get_bool(r->obj, r->path, key, out, err) : 0;
}

int spar_reading_str(struct spar_reading *r, const char *key, const char *absent, const char **out,
		     struct spar_err *err)
{
	size_t len;
	*out = absent;
	return spar_reading_has(r, key) ? spar_get_str(r->obj, r->path, key, out, &len, err) : 0;
}

static bool matches(const char *key, const char *word)
{
	size_t n = strlen(word);
	return n && word[n - 1] == '*' ? !strncmp(key, word, n - 1) : !strcmp(key, word);
}

static bool is_known(const struct spar_reading *r, const char *const *harmless, const char *key)
{
	for (size_t i = 0; i < r->n_keys; i++)
		if (!strcmp(r->keys[i], key))
			return true;
	for (; *harmless; harmless++)
		if (matches(key, *harmless))
			return true;
	return false;
}

int spar_reading_end(const struct spar_reading *r, const char *const *harmless, struct spar_err *err)
{
	int rc = 0;
	jv_object_foreach(r->obj, key, value)
	{
		const char *name = jv_string_value(key);
		if (rc == 0 && !is_known(r, harmless, name) && !spar_object_is_off(value)) {
			char shown[80];
			snprintf(shown, sizeof shown, "%s", name);
			rc = spar_reading_fail(r, shown, err, "not supported");
		}
		jv_free(key);
		jv_free(value);
	}
	return rc;
}
