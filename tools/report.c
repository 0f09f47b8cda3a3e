/* spar report - the figures of runs, for a person's eyes: as one page, or for TensorBoard. */
#include "base/file.h"
#include "base/opt.h"
#include "record/events.h"
#include "record/print.h"
#include "rl/page.h"
#include "rl/points.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct spar_usage usage = {
    "report", "[options] RUN...",
    "Show how runs went: their metrics over steps and what their evaluations came to. RUN is a folder that make grpo "
    "or "
    "make self-play wrote, finished or not, or a file of metric records. Without --tensorboard the output is one "
    "HTML page that needs nothing else."};

static int read_runs(char **runs, int n, spar_point_fn see, void *ctx, struct spar_err *err)
{
	int rc = 0;
	for (int i = 0; rc >= 0 && i < n; i++)
		if ((rc = spar_points_read(runs[i], see, ctx, err)) == 0)
			spar_warn(usage.tool, "%s: there are no figures in it", runs[i]);
	return rc < 0 ? rc : 0;
}

/* ---- TensorBoard: a folder of events for each curve ---- */

struct board {
	const char *dir;
	char *path; /* of the events that are open */
	struct spar_events *events;
	size_t n_added;
};

static int close_events(struct board *b, struct spar_err *err)
{
	b->n_added += b->events ? spar_events_added(b->events) : 0;
	int rc = spar_events_close(b->events, err);
	b->events = NULL;
	free(b->path);
	b->path = NULL;
	return rc;
}

static int add_event(void *ctx, const struct spar_point *p, struct spar_err *err)
{
	struct board *b = ctx;
	char *path = spar_path_join(b->dir, p->curve);
	int rc = 0;
	if (!b->path || strcmp(b->path, path) != 0) {
		rc = close_events(b, err);
		b->path = path;
		path = NULL;
		if (rc == 0)
			rc = spar_events_open(&b->events, b->path, err);
	}
	free(path);
	if (rc == 0)
		spar_events_add(b->events, p->tag, p->step, p->wall_s, p->value);
	return rc;
}

static int to_tensorboard(const char *dir, char **runs, int n, bool quiet, struct spar_err *err)
{
	struct board b = {.dir = dir};
	int rc = spar_dir_make(dir, err);
	if (rc == 0)
		rc = read_runs(runs, n, add_event, &b, err);
	int closed = close_events(&b, rc < 0 ? NULL : err);
	if (rc == 0 && closed == 0 && !quiet)
		fprintf(stderr, "%s: %zu new figures\n", usage.tool, b.n_added);
	return rc < 0 ? rc : closed;
}

/* ---- a page ---- */

static int to_page(char **runs, int n, struct spar_err *err)
{
	struct spar_page *page = spar_page_new();
	struct spar_str text = SPAR_STR_INIT;
	int rc = read_runs(runs, n, spar_page_add, page, err);
	if (rc == 0) {
		spar_page_html(page, &text);
		rc = spar_print_text(text.data, text.len, err);
	}
	spar_str_release(&text);
	spar_page_free(page);
	return rc;
}

int main(int argc, char **argv)
{
	const char *tensorboard = NULL;
	bool quiet = false;
	struct spar_err err = {0};
	const struct spar_opt table[] = {
	    SPAR_OPT_STR("tensorboard", 't', &tensorboard, "DIR",
			 "write event files below DIR instead; a run shown again adds what is new"),
	    SPAR_OPT_FLAG("quiet", 'q', &quiet, "do not say how many figures were new"), SPAR_OPT_END};
	int rest = spar_opt_parse(&usage, table, argc, argv);
	if (rest < 0)
		return -1 - rest;
	if (rest == argc)
		return spar_usage_error(&usage, "give the folder of a run");
	int rc = tensorboard ? to_tensorboard(tensorboard, argv + rest, argc - rest, quiet, &err)
			     : to_page(argv + rest, argc - rest, &err);
	return rc < 0 ? spar_die(usage.tool, &err) : SPAR_OK;
}
