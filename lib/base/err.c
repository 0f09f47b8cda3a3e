#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One line fit for a terminal: no control bytes, and no character cut in two when the text did not fit. */
static void clean(char *msg, int wanted, size_t size)
{
	size_t n = strlen(msg);
	if (wanted >= (int)size) {
		while (n && ((unsigned char)msg[n - 1] & 0xC0) == 0x80)
			n--;
		if (n && (unsigned char)msg[n - 1] >= 0xC0)
			n--;
		msg[n] = 0;
	}
	for (char *p = msg; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7F)
			*p = '?';
}

int spar_fail(struct spar_err *err, enum spar_exit code, const char *fmt, ...)
{
	if (!err)
		return -(int)code;
	char msg[sizeof err->msg]; /* the arguments may point into err->msg */
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(msg, sizeof msg, fmt, ap);
	va_end(ap);
	clean(msg, n, sizeof msg);
	memcpy(err->msg, msg, sizeof msg);
	err->code = code;
	return -(int)code;
}

int spar_fail_at(struct spar_err *err, const char *fmt, ...)
{
	if (!err)
		return -(int)SPAR_FAIL;
	char place[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(place, sizeof place, fmt, ap);
	va_end(ap);
	return spar_fail(err, err->code, "%s: %s", place, err->msg);
}

int spar_die(const char *tool, const struct spar_err *err)
{
	fprintf(stderr, "%s: %s\n", tool, err->msg);
	return err->code;
}

void spar_warn(const char *tool, const char *fmt, ...)
{
	char msg[1024];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(msg, sizeof msg, fmt, ap);
	va_end(ap);
	clean(msg, n, sizeof msg);
	fprintf(stderr, "%s: warning: %s\n", tool, msg);
}

static void *check(void *p)
{
	if (!p) {
		fprintf(stderr, "spar: out of memory\n");
		abort();
	}
	return p;
}

void *spar_malloc(size_t size)
{
	return check(malloc(size ? size : 1));
}

void *spar_calloc(size_t n, size_t size)
{
	return check(calloc(n ? n : 1, size ? size : 1));
}

void *spar_realloc(void *p, size_t size)
{
	return check(realloc(p, size ? size : 1));
}

char *spar_strdup(const char *s)
{
	return check(strdup(s));
}
