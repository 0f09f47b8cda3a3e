/* object.c - see object.h */
#include "record/object.h"
#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "record/record.h"
#include <string.h>

#define OBJECT_MAX ((size_t)256 << 20)
#define OBJECT_DEPTH 256

int spar_object_read(const char *path, jv *out, struct spar_err *err)
{
	struct spar_str text = SPAR_STR_INIT;
	int rc = spar_file_read(path, OBJECT_MAX, &text, err);
	if (rc < 0)
		goto out;
	static const char blanks[] = " \t\r\n";
	const char *what = "unexpected end";
	size_t begin = strspn(text.data, blanks), at = 0;
	size_t n =
	    begin < text.len ? spar_json_skip(text.data + begin, text.len - begin, OBJECT_DEPTH, false, &what, &at) : 0;
	if (!n) {
		rc = spar_fail(err, SPAR_INPUT, "%s: not JSON at byte %zu: %s", path, begin + at, what);
		goto out;
	}
	size_t end = begin + n + strspn(text.data + begin + n, blanks);
	if (end != text.len) {
		rc = spar_fail(err, SPAR_INPUT, "%s: not JSON at byte %zu: text after the value", path, end);
		goto out;
	}
	jv value = jv_parse_sized(text.data + begin, (int)n);
	if (jv_get_kind(value) != JV_KIND_OBJECT) {
		rc = spar_fail(err, SPAR_INPUT, "%s: expected object, got %s", path,
			       jv_is_valid(value) ? spar_kind_name(value) : "text that libjq refuses");
		jv_free(value);
		goto out;
	}
	*out = value;
out:
	spar_str_release(&text);
	return rc;
}

jv spar_object_token(jv config, const char *key)
{
	jv v = jv_object_get(jv_copy(config), jv_string(key));
	return jv_get_kind(v) == JV_KIND_OBJECT ? jv_object_get(v, jv_string("content")) : v;
}

bool spar_object_is_off(jv v)
{
	jv_kind kind = jv_get_kind(v);
	return kind == JV_KIND_INVALID || kind == JV_KIND_NULL || kind == JV_KIND_FALSE ||
	       (kind == JV_KIND_ARRAY && jv_array_length(jv_copy(v)) == 0) ||
	       (kind == JV_KIND_OBJECT && jv_object_length(jv_copy(v)) == 0);
}
