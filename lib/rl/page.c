/* page.c - see page.h */
#include "rl/page.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 420
#define HEIGHT 180
#define LEFT 56 /* room for numbers */
#define BELOW 20
#define N_COLORS 8

static const char *const colors[N_COLORS] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd",
					     "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f"};

struct dot {
	int64_t step;
	double value;
};

/* One tag of one curve. */
struct line {
	char *curve, *tag;
	struct dot *dots;
	size_t n;
};

struct spar_page {
	struct line *lines;
	size_t n;
};

struct spar_page *spar_page_new(void)
{
	return spar_calloc(1, sizeof(struct spar_page));
}

void spar_page_free(struct spar_page *page)
{
	for (size_t i = 0; page && i < page->n; i++) {
		free(page->lines[i].curve);
		free(page->lines[i].tag);
		free(page->lines[i].dots);
	}
	if (page)
		free(page->lines);
	free(page);
}

/* Points come curve by curve: the line is among the last ones. */
static struct line *line_of(struct spar_page *page, const char *curve, const char *tag)
{
	for (size_t i = page->n; i-- > 0;)
		if (!strcmp(page->lines[i].tag, tag) && !strcmp(page->lines[i].curve, curve))
			return &page->lines[i];
	page->lines = spar_realloc(page->lines, (page->n + 1) * sizeof *page->lines);
	page->lines[page->n] = (struct line){.curve = spar_strdup(curve), .tag = spar_strdup(tag)};
	return &page->lines[page->n++];
}

int spar_page_add(void *page, const struct spar_point *p, struct spar_err *err)
{
	(void)err;
	struct line *line = line_of(page, p->curve, p->tag);
	if (!(line->n & (line->n - 1))) /* room is doubled */
		line->dots = spar_realloc(line->dots, (line->n ? 2 * line->n : 1) * sizeof *line->dots);
	line->dots[line->n++] = (struct dot){p->step, p->value};
	return 0;
}

/* ---- writing ---- */

static void add_text(struct spar_str *out, const char *text)
{
	for (; *text; text++)
		switch (*text) {
		case '<':
			spar_str_adds(out, "&lt;");
			break;
		case '>':
			spar_str_adds(out, "&gt;");
			break;
		case '&':
			spar_str_adds(out, "&amp;");
			break;
		case '"':
			spar_str_adds(out, "&quot;");
			break;
		default:
			spar_str_addc(out, (unsigned char)*text);
		}
}

struct frame {
	double x0, x1, y0, y1;
};

static bool is_of(const struct line *line, const char *tag)
{
	return line->n > 1 && !strcmp(line->tag, tag);
}

static struct frame frame_of(const struct spar_page *page, const char *tag)
{
	struct frame f = {INFINITY, -INFINITY, INFINITY, -INFINITY};
	for (const struct line *line = page->lines; line < page->lines + page->n; line++)
		for (size_t i = 0; is_of(line, tag) && i < line->n; i++) {
			f.x0 = fmin(f.x0, (double)line->dots[i].step);
			f.x1 = fmax(f.x1, (double)line->dots[i].step);
			f.y0 = fmin(f.y0, line->dots[i].value);
			f.y1 = fmax(f.y1, line->dots[i].value);
		}
	if (f.x1 == f.x0)
		f.x1 = f.x0 + 1;
	if (f.y1 == f.y0) { /* a level curve runs through the middle */
		double half = f.y0 ? fabs(f.y0) / 2 : 1;
		f.y0 -= half;
		f.y1 += half;
	}
	return f;
}

static void draw_line(const struct line *line, const struct frame *f, int color, struct spar_str *out)
{
	spar_str_addf(out, "<polyline fill=\"none\" stroke=\"%s\" points=\"", colors[color]);
	for (size_t i = 0; i < line->n; i++)
		spar_str_addf(out, "%s%.1f,%.1f", i ? " " : "",
			      LEFT + ((double)line->dots[i].step - f->x0) / (f->x1 - f->x0) * (WIDTH - LEFT),
			      HEIGHT - (line->dots[i].value - f->y0) / (f->y1 - f->y0) * HEIGHT);
	spar_str_adds(out, "\"><title>");
	add_text(out, line->curve);
	spar_str_adds(out, "</title></polyline>\n");
}

static void draw(const struct spar_page *page, const char *tag, struct spar_str *out)
{
	struct frame f = frame_of(page, tag);
	int color = 0;
	spar_str_adds(out, "<figure><figcaption>");
	add_text(out, tag);
	spar_str_addf(out, "</figcaption>\n<svg width=\"%d\" height=\"%d\" viewBox=\"0 -4 %d %d\">\n", WIDTH,
		      HEIGHT + BELOW + 4, WIDTH, HEIGHT + BELOW + 4);
	spar_str_addf(out, "<path d=\"M%d 0V%dH%d\" fill=\"none\" stroke=\"#999\"/>\n", LEFT, HEIGHT, WIDTH);
	spar_str_addf(out, "<text x=\"%d\" y=\"8\" text-anchor=\"end\">%.4g</text>\n", LEFT - 4, f.y1);
	spar_str_addf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.4g</text>\n", LEFT - 4, HEIGHT, f.y0);
	spar_str_addf(out, "<text x=\"%d\" y=\"%d\">%.0f</text>\n", LEFT, HEIGHT + 14, f.x0);
	spar_str_addf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.0f</text>\n", WIDTH, HEIGHT + 14, f.x1);
	for (size_t i = 0; i < page->n; i++)
		if (is_of(&page->lines[i], tag))
			draw_line(&page->lines[i], &f, color++ % N_COLORS, out);
	spar_str_adds(out, "</svg>\n<p>");
	color = 0;
	for (size_t i = 0; i < page->n; i++) {
		if (!is_of(&page->lines[i], tag))
			continue;
		spar_str_addf(out, "<span style=\"color:%s\">&#9644; ", colors[color++ % N_COLORS]);
		add_text(out, page->lines[i].curve);
		spar_str_addf(out, "</span> %.6g<br>\n", page->lines[i].dots[page->lines[i].n - 1].value);
	}
	spar_str_adds(out, "</p></figure>\n");
}

static bool is_first_of_tag(const struct spar_page *page, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (is_of(&page->lines[i], page->lines[at].tag))
			return false;
	return page->lines[at].n > 1;
}

static void add_table(const struct spar_page *page, struct spar_str *out)
{
	spar_str_adds(out, "<table>\n<tr><th>run</th><th>figure</th><th>value</th></tr>\n");
	for (size_t i = 0; i < page->n; i++) {
		const struct line *line = &page->lines[i];
		if (line->n != 1)
			continue;
		spar_str_adds(out, "<tr><td>");
		add_text(out, line->curve);
		spar_str_adds(out, "</td><td>");
		add_text(out, line->tag);
		spar_str_addf(out, "</td><td>%.6g</td></tr>\n", line->dots[0].value);
	}
	spar_str_adds(out, "</table>\n");
}

void spar_page_html(const struct spar_page *page, struct spar_str *out)
{
	spar_str_adds(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>spar report</title>\n"
			   "<style>body{font:14px sans-serif}figure{display:inline-block;vertical-align:top;"
			   "margin:0 24px 24px 0}figcaption{font-weight:bold}svg text{font-size:11px}td,th{text-align:"
			   "left;padding:0 12px 0 0}p{font-size:12px;margin:4px 0}</style>\n");
	for (size_t i = 0; i < page->n; i++)
		if (is_first_of_tag(page, i))
			draw(page, page->lines[i].tag, out);
	add_table(page, out);
	spar_str_adds(out, "</html>");
}
