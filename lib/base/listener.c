#include "base/listener.h"
#include <stdarg.h>
#include <stdio.h>

void spar_listener_warn(const struct spar_listener *l, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	if (!l->warn)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	l->warn(l->ctx, text);
}

void spar_listener_progress(const struct spar_listener *l, uint64_t done, uint64_t total, const char *fmt, ...)
{
	char note[160];
	va_list ap;
	if (!l->progress)
		return;
	va_start(ap, fmt);
	vsnprintf(note, sizeof note, fmt, ap);
	va_end(ap);
	l->progress(l->ctx, done, total, note);
}
