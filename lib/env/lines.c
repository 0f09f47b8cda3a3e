/* lines.c - see lines.h */
#include "env/lines.h"
#include "base/json.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { READ_SIZE = 1 << 16, DEPTH_MAX = 256 };
static const char blanks[] = " \t\r\n";

static bool is_blank(char c)
{
	return c && strchr(blanks, c);
}

/* Forget what was handed out. */
static void compact(struct spar_lines *l)
{
	if (!l->pos)
		return;
	memmove(l->buf.data, l->buf.data + l->pos, l->buf.len - l->pos);
	l->buf.len -= l->pos;
	l->seen -= l->pos;
	l->pos = 0;
}

ssize_t spar_lines_fill(struct spar_lines *l, int fd)
{
	ssize_t got;
	compact(l);
	spar_str_reserve(&l->buf, READ_SIZE);
	do
		got = read(fd, l->buf.data + l->buf.len, READ_SIZE);
	while (got < 0 && errno == EINTR);
	if (got > 0)
		l->buf.len += (size_t)got;
	l->ended = got == 0;
	return got;
}

/* Take the bytes up to `end` (of the buffer's content) as a line; false when there is nothing in them. */
static bool take(struct spar_lines *l, size_t end, const char **line, size_t *n)
{
	const char *s = l->buf.data + l->pos;
	size_t len = end - l->pos;
	l->pos = l->seen = end < l->buf.len ? end + 1 : end;
	if (l->skipping) {
		l->skipping = false;
		return false;
	}
	while (len && is_blank(s[len - 1]))
		len--;
	for (; len && is_blank(*s); s++)
		len--;
	*line = s;
	*n = len;
	return len > 0;
}

int spar_lines_next(struct spar_lines *l, const char **line, size_t *n)
{
	for (;;) {
		char *nl = memchr(l->buf.data + l->seen, '\n', l->buf.len - l->seen);
		size_t end = nl ? (size_t)(nl - l->buf.data) : l->buf.len;
		l->seen = end;
		if (end - l->pos > SPAR_LINES_MAX && !l->skipping) {
			l->skipping = true;
			l->pos = end;
			return -1;
		}
		if (!nl && !(l->ended && end > l->pos)) {
			if (l->skipping)
				l->pos = end;
			return 0;
		}
		if (take(l, end, line, n))
			return 1;
	}
}

static bool is_escape(const char *s, const char *end, const char *first, const char *second)
{
	return end - s >= 6 && s[0] == '\\' && s[1] == 'u' && (s[2] == 'd' || s[2] == 'D') && strchr(first, s[3]) &&
	       strchr(second, s[4]);
}

jv spar_lines_value(const char *json, size_t n)
{
	static const char hex[] = "0123456789abcdefABCDEF";
	jv value = jv_parse_sized(json, (int)n);
	if (jv_is_valid(value))
		return value;
	jv_free(value);
	struct spar_str copy = SPAR_STR_INIT;
	spar_str_add(&copy, json, n);
	for (char *s = copy.data, *end = s + n; s < end; s++) {
		if (*s != '\\')
			continue;
		bool high = is_escape(s, end, "89abAB", hex), paired = high && is_escape(s + 6, end, "cdefCDEF", hex);
		if (high && !paired)
			memcpy(s + 2, "fffd", 4);
		s += paired ? 11 : 1;
	}
	value = jv_parse_sized(copy.data, (int)n);
	spar_str_release(&copy);
	return value;
}

jv spar_lines_object(const char *line, size_t n, const char **what)
{
	*what = "not a JSON object";
	size_t len = spar_json_skip(line, n, DEPTH_MAX, false, what, NULL);
	if (!len)
		return jv_invalid();
	jv object = len == n ? spar_lines_value(line, n) : jv_invalid();
	if (jv_get_kind(object) == JV_KIND_OBJECT)
		return object;
	*what = len == n ? "not a JSON object" : "text after the value";
	jv_free(object);
	return jv_invalid();
}

void spar_lines_release(struct spar_lines *l)
{
	spar_str_release(&l->buf);
}
