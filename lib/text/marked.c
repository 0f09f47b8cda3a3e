#include "text/marked.h"
#include <stdlib.h>

void spar_spans_add(struct spar_spans *v, size_t begin, size_t end)
{
	if (v->n == v->cap) {
		v->cap = v->cap ? 2 * v->cap : 16;
		v->data = spar_realloc(v->data, v->cap * sizeof *v->data);
	}
	v->data[v->n++] = (struct spar_span){begin, end};
}

size_t spar_spans_from(const struct spar_spans *marks, size_t at)
{
	size_t low = 0, high = marks->n;
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (marks->data[mid].end <= at)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

bool spar_spans_touch(const struct spar_spans *marks, size_t begin, size_t end)
{
	if (!marks)
		return false;
	size_t i = spar_spans_from(marks, begin);
	return i < marks->n && marks->data[i].begin < end;
}

/* Spans that touch are one. */
static void add_mark(struct spar_spans *marks, size_t begin, size_t end)
{
	if (begin == end)
		return;
	if (marks->n && marks->data[marks->n - 1].end == begin)
		marks->data[marks->n - 1].end = end;
	else
		spar_spans_add(marks, begin, end);
}

void spar_marked_add(struct spar_marked *m, const char *s, size_t n, bool marked)
{
	if (marked)
		add_mark(&m->marks, m->text.len, m->text.len + n);
	spar_str_add(&m->text, s, n);
}

void spar_marked_slice(struct spar_marked *m, const char *text, const struct spar_spans *marks, size_t begin,
		       size_t end)
{
	for (size_t i = marks ? spar_spans_from(marks, begin) : 0; marks && i < marks->n; i++) {
		size_t from = marks->data[i].begin, to = marks->data[i].end;
		if (from >= end)
			break;
		from = from < begin ? begin : from;
		to = to > end ? end : to;
		add_mark(&m->marks, m->text.len + from - begin, m->text.len + to - begin);
	}
	spar_str_add(&m->text, text + begin, end - begin);
}

void spar_marked_clear(struct spar_marked *m)
{
	spar_str_clear(&m->text);
	m->marks.n = 0;
}

void spar_marked_release(struct spar_marked *m)
{
	spar_str_release(&m->text);
	free(m->marks.data);
	m->marks = (struct spar_spans){0};
}
