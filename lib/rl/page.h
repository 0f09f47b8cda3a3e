/* page.h - curves and figures as one HTML page: drawings in SVG, no script, nothing to fetch.
 *
 *	struct spar_page *page = spar_page_new();
 *	spar_points_read(run, spar_page_add, page, &err);
 *	spar_page_html(page, &text);
 *	spar_page_free(page);
 */
#ifndef SPAR_RL_PAGE_H
#define SPAR_RL_PAGE_H

#include "base/str.h"
#include "rl/points.h"

struct spar_page; /* opaque */

struct spar_page *spar_page_new(void);
void spar_page_free(struct spar_page *page); /* NULL is fine */

/*! A spar_point_fn: `page` is a struct spar_page. What it needs of the point is copied. */
int spar_page_add(void *page, const struct spar_point *p, struct spar_err *err);

/*! Append the page: a drawing for each tag that has a curve of two points at least, the curves of all runs in it; then a table of
 *  the other figures. */
void spar_page_html(const struct spar_page *page, struct spar_str *out);

#endif
