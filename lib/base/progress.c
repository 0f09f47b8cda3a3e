#include "base/progress.h"
#include "base/file.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BAR_WIDTH 24
#define TERMINAL_EVERY_S 0.1
#define LOG_EVERY_S 10.0

void spar_progress_begin(struct spar_progress *p, const char *tool, const char *unit, uint64_t total, bool quiet)
{
	double now = spar_clock_s();
	*p = (struct spar_progress){.tool = tool,
				    .unit = unit,
				    .total = total,
				    .start_s = now,
				    .last_s = now,
				    .quiet = quiet,
				    .terminal = isatty(STDERR_FILENO) == 1};
}

static void show(struct spar_progress *p, double now, bool last)
{
	double elapsed = now - p->start_s;
	double rate = elapsed > 0 ? (double)p->done / elapsed : 0;
	char line[512];
	size_t n = 0;
#define ADD(...) n += (size_t)snprintf(line + n, n < sizeof line ? sizeof line - n : 0, __VA_ARGS__)
	ADD("%s: ", p->tool);
	if (p->total) {
		uint64_t done = p->done < p->total ? p->done : p->total;
		int full = (int)((double)done / (double)p->total * BAR_WIDTH);
		if (p->terminal)
			ADD("[%.*s%.*s] ", full, "########################", BAR_WIDTH - full,
			    "........................");
		ADD("%" PRIu64 "/%" PRIu64 " %s, ", p->done, p->total, p->unit);
	} else {
		ADD("%" PRIu64 " %s, ", p->done, p->unit);
	}
	ADD(rate < 10 ? "%.2f/s" : "%.0f/s", rate);
	if (last)
		ADD(", %.1f s", elapsed);
	else if (p->total > p->done && rate > 0)
		ADD(", %.0f s left", (double)(p->total - p->done) / rate);
	if (p->note[0])
		ADD(", %s", p->note);
#undef ADD
	fprintf(stderr, p->terminal ? "\r%s\033[K%s" : "%s%s", line, !p->terminal || last ? "\n" : "");
	p->last_s = now;
	p->shown = true;
}

void spar_progress_tick(struct spar_progress *p, uint64_t done, const char *note_fmt, ...)
{
	p->done = done;
	if (p->quiet)
		return;
	double now = spar_clock_s();
	if (note_fmt) {
		va_list ap;
		va_start(ap, note_fmt);
		vsnprintf(p->note, sizeof p->note, note_fmt, ap);
		va_end(ap);
	}
	if (now - p->last_s >= (p->terminal ? TERMINAL_EVERY_S : LOG_EVERY_S))
		show(p, now, false);
}

void spar_progress_end(struct spar_progress *p)
{
	if (!p->quiet && (p->done || p->shown)) /* nothing done: nothing to tell */
		show(p, spar_clock_s(), true);
}

static void warn(void *ctx, const char *text)
{
	spar_warn(((struct spar_progress *)ctx)->tool, "%s", text);
}

static void tick(void *ctx, uint64_t done, uint64_t total, const char *note)
{
	struct spar_progress *p = ctx;
	p->total = total;
	spar_progress_tick(p, done, "%s", note);
}

struct spar_listener spar_progress_listener(struct spar_progress *p)
{
	return (struct spar_listener){p, warn, tick};
}
