/* What operators, filters and methods do with strings. */
#include "text/chars.h"
#include "text/jinja/call.h"
#include <string.h>
#include <utf8proc.h>

size_t byte_place(const struct value *s, size_t at)
{
	size_t i = 0;
	int32_t c;
	while (at-- && i < s->n)
		i += spar_char_at(s->text, s->n, i, &c);
	return i;
}

size_t find_text(const struct value *s, const struct value *part, size_t from)
{
	if (!part->n)
		return from <= s->n ? from : SIZE_MAX;
	while (from + part->n <= s->n) {
		const char *at = memchr(s->text + from, part->text[0], s->n - from - part->n + 1);
		if (!at)
			break;
		if (!memcmp(at, part->text, part->n))
			return (size_t)(at - s->text);
		from = (size_t)(at - s->text) + 1;
	}
	return SIZE_MAX;
}

bool is_blank(int32_t c)
{
	return spar_char_is_space(c) || (c >= 0x1C && c <= 0x1F);
}

static bool is_in(int32_t c, const struct value *set)
{
	if (!set)
		return is_blank(c);
	for (size_t i = 0; i < set->n;) {
		int32_t other;
		i += spar_char_at(set->text, set->n, i, &other);
		if (other == c)
			return true;
	}
	return false;
}

/* Without the characters of `set` (no string: blanks) at its ends. */
struct value *strip(struct pool *p, const struct value *s, const struct value *set, bool left, bool right)
{
	size_t begin = 0, end = s->n, step;
	int32_t c;
	set = set && set->kind == STRING ? set : NULL;
	while (left && begin < end && (step = spar_char_at(s->text, end, begin, &c), is_in(c, set)))
		begin += step;
	while (right && end > begin && (step = spar_char_before(s->text, end, &c), is_in(c, set)))
		end = step;
	return slice_string(p, s, begin, end);
}

struct value *join(struct pool *p, const struct value *list, const struct value *sep)
{
	struct spar_marked b = SPAR_MARKED_INIT;
	for (size_t i = 0; i < list->n && b.text.len <= VALUES_MAX_TEXT; i++) {
		if (i && sep)
			add_value(&b, sep);
		add_value(&b, list->items[i]);
	}
	return built(p, &b);
}

struct value *repeat(struct pool *p, const struct value *s, double times)
{
	struct spar_marked b = SPAR_MARKED_INIT;
	for (double i = 0; s->n && i < times && b.text.len <= VALUES_MAX_TEXT; i++)
		add_slice(&b, s, 0, s->n);
	return built(p, &b);
}

struct value *replace(struct pool *p, const struct value *s, const struct value *old, const struct value *by,
		      double max)
{
	struct spar_marked b = SPAR_MARKED_INIT;
	size_t from = 0, at;
	if (!old || !by || old->kind != STRING || by->kind != STRING)
		return NULL;
	while (max != 0 && b.text.len <= VALUES_MAX_TEXT && (at = find_text(s, old, from)) != SIZE_MAX) {
		int32_t c;
		add_slice(&b, s, from, at);
		add_slice(&b, by, 0, by->n);
		from = at + old->n;
		max--;
		if (!old->n && at == s->n) /* the empty string stands between all characters */
			break;
		if (!old->n) {
			from += spar_char_at(s->text, s->n, at, &c);
			add_slice(&b, s, at, from);
		}
	}
	if (from < s->n)
		add_slice(&b, s, from, s->n);
	return built(p, &b);
}

struct value *change_case(struct pool *p, const struct value *s, enum letters to)
{
	struct spar_marked b = SPAR_MARKED_INIT;
	bool begins = true;
	for (size_t i = 0, len; i < s->n; i += len) {
		int32_t c;
		utf8proc_uint8_t bytes[4];
		len = spar_char_at(s->text, s->n, i, &c);
		bool up = to == UPPER || (to != LOWER && begins), letter = utf8proc_toupper(c) != utf8proc_tolower(c);
		begins = to == TITLE && !letter;
		if (up && c == 0xDF) { /* the sharp s, whose capital is two letters */
			spar_marked_add(&b, to == UPPER ? "SS" : "Ss", 2, is_marked(s, i));
			continue;
		}
		utf8proc_ssize_t n = utf8proc_encode_char(up ? utf8proc_toupper(c) : utf8proc_tolower(c), bytes);
		spar_marked_add(&b, (char *)bytes, (size_t)n, is_marked(s, i));
	}
	return built(p, &b);
}
