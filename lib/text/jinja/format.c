/* Python's two ways to put values into a string: {} with a place, a name or neither; %s, %d and %%. */
#include "text/jinja/call.h"
#include <math.h>
#include <string.h>

struct value *format_braces(struct pool *p, const struct value *s, const struct args *a)
{
	struct spar_marked b = SPAR_MARKED_INIT;
	size_t next = 0, i = 0;
	while (i < s->n && b.text.len <= VALUES_MAX_TEXT) {
		char c = s->text[i];
		if ((c == '{' || c == '}') && s->text[i + 1] == c) {
			add_slice(&b, s, i, i + 1);
			i += 2;
			continue;
		}
		if (c != '{') {
			add_slice(&b, s, i, i + 1);
			i++;
			continue;
		}
		const char *end = memchr(s->text + i, '}', s->n - i);
		size_t n = end ? (size_t)(end - s->text) - i - 1 : 0, at = 0;
		const char *name = s->text + i + 1;
		bool place = true;
		for (size_t k = 0; k < n; k++) {
			place = place && name[k] >= '0' && name[k] <= '9' && n < 4;
			at = place ? at * 10 + (size_t)(name[k] - '0') : at;
		}
		at = n ? at : next++;
		const struct value *v = !place      ? (a->names ? dict_get_text(a->names, name, n) : NULL)
					: at < a->n ? a->by_place[at]
						    : NULL;
		if (!end || !v) {
			p->why = "a replacement field is not one that is supported, or has no argument";
			spar_marked_release(&b);
			return NULL;
		}
		add_value(&b, v);
		i = (size_t)(end - s->text) + 1;
	}
	return built(p, &b);
}

struct value *format_percent(struct pool *p, const struct value *s, const struct value *by)
{
	struct spar_marked b = SPAR_MARKED_INIT;
	bool tuple = by->kind == LIST && by->is_tuple, ok = true;
	size_t next = 0, n = tuple ? by->n : 1;
	for (size_t i = 0; ok && i < s->n && b.text.len <= VALUES_MAX_TEXT; i++) {
		if (s->text[i] != '%') {
			add_slice(&b, s, i, i + 1);
			continue;
		}
		char c = s->text[++i];
		struct value *v = c != '%' && next < n ? (tuple ? by->items[next] : (struct value *)by) : NULL;
		next += c != '%';
		if (c == '%')
			spar_marked_add(&b, "%", 1, false);
		else if (v && c == 's')
			add_value(&b, v);
		else if (v && (c == 'd' || c == 'i') && is_number(v))
			add_value(&b, new_number(p, trunc(v->number)));
		else
			ok = false;
	}
	struct value *out = built(p, &b);
	return ok && next == n ? out : NULL;
}
