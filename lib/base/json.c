#include "base/json.h"
#include "base/str.h"

#include <limits.h>
#include <string.h>

#define NUMBER_MAX 1024 /* bytes; reading a number takes more than linear time in its digits */

struct scan {
	const char *text;
	size_t n, pos;
	bool any_bytes;
	const char *what; /* why it failed, NULL so far; pos is where */
};

static bool value(struct scan *s, int depth);

static bool fail(struct scan *s, const char *what)
{
	s->what = what;
	return false;
}

/* The byte at pos, or -1 at the end. */
static int peek(const struct scan *s)
{
	return s->pos < s->n ? (unsigned char)s->text[s->pos] : -1;
}

static bool unexpected(struct scan *s, const char *what)
{
	return fail(s, peek(s) < 0 ? "unexpected end" : what);
}

static void blanks(struct scan *s)
{
	while (s->pos < s->n && strchr(" \t\r\n", s->text[s->pos]) && s->text[s->pos])
		s->pos++;
}

static bool escape(struct scan *s)
{
	s->pos++;
	int c = peek(s);
	if (c < 0)
		return fail(s, "unexpected end");
	if (c != 'u') {
		if (!strchr("\"\\/bfnrt", c) || !c)
			return fail(s, "bad escape");
		s->pos++;
		return true;
	}
	s->pos++;
	for (int i = 0; i < 4; i++, s->pos++) {
		c = peek(s);
		if (c < 0 || !c || !strchr("0123456789abcdefABCDEF", c))
			return unexpected(s, "bad escape");
	}
	return true;
}

static bool string(struct scan *s)
{
	s->pos++;
	while (s->pos < s->n) {
		unsigned char c = (unsigned char)s->text[s->pos];
		bool ok = true;
		if (c == '"') {
			s->pos++;
			return true;
		}
		if (c == '\\') {
			if (!escape(s))
				return false;
		} else if (c < 0x20) {
			return fail(s, "control character in a string");
		} else if (c < 0x80 || s->any_bytes) {
			s->pos++;
		} else {
			size_t len = spar_utf8_step(s->text + s->pos, s->n - s->pos, &ok);
			if (!ok)
				return fail(s, "not UTF-8");
			s->pos += len;
		}
	}
	return fail(s, "unexpected end");
}

static bool digits(struct scan *s)
{
	size_t start = s->pos;
	while (peek(s) >= '0' && peek(s) <= '9')
		s->pos++;
	return s->pos > start || unexpected(s, "bad number");
}

static bool number(struct scan *s)
{
	size_t start = s->pos;
	if (peek(s) == '-')
		s->pos++;
	if (peek(s) == '0')
		s->pos++;
	else if (!digits(s))
		return false;
	if (peek(s) == '.') {
		s->pos++;
		if (!digits(s))
			return false;
	}
	if (peek(s) == 'e' || peek(s) == 'E') {
		s->pos++;
		if (peek(s) == '+' || peek(s) == '-')
			s->pos++;
		if (!digits(s))
			return false;
	}
	return s->pos - start <= NUMBER_MAX || fail(s, "number longer than 1024 bytes");
}

static bool word(struct scan *s, const char *w)
{
	size_t len = strlen(w);
	if (s->n - s->pos < len || memcmp(s->text + s->pos, w, len) != 0)
		return fail(s, "not a JSON value");
	s->pos += len;
	return true;
}

/* The inside of an array or object, after its opening bracket. */
static bool members(struct scan *s, int depth, bool object)
{
	char close = object ? '}' : ']';
	if (depth < 0)
		return fail(s, "nested too deep");
	s->pos++;
	blanks(s);
	if (peek(s) == close) {
		s->pos++;
		return true;
	}
	for (;;) {
		if (object) {
			if (peek(s) != '"')
				return unexpected(s, "expected a key");
			if (!string(s))
				return false;
			blanks(s);
			if (peek(s) != ':')
				return unexpected(s, "expected ':'");
			s->pos++;
			blanks(s);
		}
		if (!value(s, depth))
			return false;
		blanks(s);
		if (peek(s) == close) {
			s->pos++;
			return true;
		}
		if (peek(s) != ',')
			return unexpected(s, object ? "expected ',' or '}'" : "expected ',' or ']'");
		s->pos++;
		blanks(s);
	}
}

static bool value(struct scan *s, int depth)
{
	switch (peek(s)) {
	case -1:
		return fail(s, "unexpected end");
	case '{':
		return members(s, depth - 1, true);
	case '[':
		return members(s, depth - 1, false);
	case '"':
		return string(s);
	case 't':
		return word(s, "true");
	case 'f':
		return word(s, "false");
	case 'n':
		return word(s, "null");
	case '-':
	case '0':
	case '1':
	case '2':
	case '3':
	case '4':
	case '5':
	case '6':
	case '7':
	case '8':
	case '9':
		return number(s);
	default:
		return fail(s, "not a JSON value");
	}
}

size_t spar_json_skip(const char *text, size_t n, int max_depth, bool any_bytes, const char **what, size_t *at)
{
	struct scan s = {.text = text, .n = n, .any_bytes = any_bytes};
	if (value(&s, max_depth))
		return s.pos;
	if (what)
		*what = s.what;
	if (at)
		*at = s.pos;
	return 0;
}

void spar_json_members_init(struct spar_json_members *m, const char *object, size_t n)
{
	*m = (struct spar_json_members){.text = object, .n = n, .pos = 1};
}

/* The object is valid, so every step finds what it looks for. */
bool spar_json_members_next(struct spar_json_members *m)
{
	struct scan s = {.text = m->text, .n = m->n, .pos = m->pos, .any_bytes = true};
	blanks(&s);
	if (peek(&s) == ',') {
		s.pos++;
		blanks(&s);
	}
	if (peek(&s) != '"')
		return false;
	m->key = s.text + s.pos + 1;
	string(&s);
	m->key_len = (size_t)(s.text + s.pos - 1 - m->key);
	blanks(&s);
	s.pos++;
	blanks(&s);
	m->value = s.text + s.pos;
	value(&s, INT_MAX);
	m->value_len = (size_t)(s.text + s.pos - m->value);
	m->pos = s.pos;
	return true;
}
