/* action.c - see action.h */
#include "env/action.h"
#include "base/json.h"
#include "env/lines.h"
#include <string.h>

enum { TEXT_MAX = 16384, TRIES_MAX = 64, DEPTH_MAX = 32 };

jv spar_action_find(const char *text, size_t n)
{
	const char *end = text + (n < TEXT_MAX ? n : TEXT_MAX), *brace = text;
	for (int tries = 0; tries < TRIES_MAX; tries++, brace++) {
		brace = memchr(brace, '{', (size_t)(end - brace));
		if (!brace)
			break;
		size_t len = spar_json_skip(brace, (size_t)(end - brace), DEPTH_MAX, true, NULL, NULL);
		if (!len)
			continue;
		jv object = spar_lines_value(brace, len);
		if (jv_get_kind(object) == JV_KIND_OBJECT)
			return object;
		jv_free(object);
	}
	return jv_invalid();
}
