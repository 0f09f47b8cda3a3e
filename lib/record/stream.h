/* stream.h - lines in, lines out; plain or zstd.
 *
 * A reader finds out by the magic number whether its bytes are zstd (any number of frames, skippable frames too) and
 * hands out one line at a time. A last line without newline is handed out too when the stream ended properly, and
 * never when a zstd frame was cut off: then the error comes instead. Memory: one line and one block.
 * A writer compresses when its name ends in ".zst"; a file appears under its name only when closed whole.
 */
#ifndef SPAR_RECORD_STREAM_H
#define SPAR_RECORD_STREAM_H

#include "base/err.h"
#include "base/str.h"
#include <stdbool.h>
#include <stddef.h>

#define SPAR_LINE_MAX ((size_t)1 << 30) /* bytes; a longer line is an error that names this limit */

struct spar_reader; /* opaque */

/*! path NULL or "-": standard input, named "<stdin>" in errors. */
int spar_reader_open(struct spar_reader **out, const char *path, struct spar_err *err);

/*! Next line that is not blank, without its newline (and without a CR before it, and without a UTF-8 BOM at the very
 *  start). 1: line and len are set, valid until the next call; 0: the end; < 0: failed. */
int spar_reader_next(struct spar_reader *r, const char **line, size_t *len, struct spar_err *err);

const char *spar_reader_name(const struct spar_reader *r); /* borrowed */
size_t spar_reader_line(const struct spar_reader *r);      /* number of the last line handed out, from 1 */

/*! True if bytes of a further line are at hand or the source has some to read within timeout_ms (poll). */
bool spar_reader_ready(struct spar_reader *r, int timeout_ms);
void spar_reader_close(struct spar_reader *r); /* NULL is fine */

struct spar_writer; /* opaque */

/*! path NULL or "-": standard output. Else "path.tmp.PID" until closed. */
int spar_writer_open(struct spar_writer **out, const char *path, struct spar_err *err);

/*! Write one line; the newline is added. */
int spar_writer_put(struct spar_writer *w, const void *line, size_t n, struct spar_err *err);

/*! Make everything written so far readable downstream (flushes a zstd block too). */
int spar_writer_flush(struct spar_writer *w, struct spar_err *err);

/*! Flush, sync (files), close and rename. Frees w also on failure. */
int spar_writer_close(struct spar_writer *w, struct spar_err *err);

/*! Close without claiming success: a file's temporary name is removed; standard output is flushed. */
void spar_writer_abort(struct spar_writer *w);

#endif
