/* print.c - see print.h */
#include "record/print.h"
#include "record/stream.h"

int spar_print_lines(int (*next)(void *ctx, struct spar_str *line, struct spar_err *err), void *ctx,
		     struct spar_err *err)
{
	struct spar_writer *out;
	struct spar_str line = SPAR_STR_INIT;
	int rc = spar_writer_open(&out, NULL, err);
	if (rc < 0)
		return rc;
	while ((rc = next(ctx, &line, err)) > 0)
		if ((rc = spar_writer_put(out, line.data, line.len, err)) < 0)
			break;
	spar_str_release(&line);
	if (rc == 0)
		return spar_writer_close(out, err);
	spar_writer_abort(out);
	return rc;
}

int spar_print_text(const char *text, size_t n, struct spar_err *err)
{
	struct spar_writer *out;
	int rc = spar_writer_open(&out, NULL, err);
	if (rc == 0 && (rc = spar_writer_put(out, text, n, err)) < 0)
		spar_writer_abort(out);
	return rc < 0 ? rc : spar_writer_close(out, err);
}
