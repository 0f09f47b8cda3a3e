/* file.h - files and folders that are either whole or not there. Paths are NUL-terminated; errors are SPAR_FAIL and name
 * the path. Nothing here follows a name it made itself without O_EXCL or rename. */
#ifndef SPAR_BASE_FILE_H
#define SPAR_BASE_FILE_H

#include "base/err.h"
#include "base/str.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*! Read a whole file, appended to `out`. Refuses (SPAR_INPUT) files larger than `max` bytes. */
int spar_file_read(const char *path, size_t max, struct spar_str *out, struct spar_err *err);

/*! Write a whole file: "path.tmp.PID", fsync, rename. */
int spar_file_write(const char *path, const void *data, size_t n, struct spar_err *err);

/* The same guarantee for a file written piece by piece. What is there already and is no regular file (a device, a pipe) is
 * written in place; a symbolic link is followed.
 *	FILE *f = spar_file_begin(path, &err);          // opens "path.tmp.PID", fresh
 *	... fwrite ...
 *	spar_file_commit(f, path, ok, &err);            // ok: flush, sync, close, rename; else close and remove. Always closes f.
 * A failed fwrite need not be noticed by the caller: commit looks at ferror. */
FILE *spar_file_begin(const char *path, struct spar_err *err); /* NULL: failed */
int spar_file_commit(FILE *f, const char *path, bool ok, struct spar_err *err);

/*! Copy a file byte for byte under the same guarantee. */
int spar_file_copy(const char *from, const char *to, struct spar_err *err);

bool spar_file_exists(const char *path);
bool spar_dir_exists(const char *path);

/*! mkdir -p. */
int spar_dir_make(const char *path, struct spar_err *err);

/*! Remove a folder with all it contains; no error if it is not there. */
int spar_dir_remove(const char *path, struct spar_err *err);

/* A folder that appears under its final name only when whole:
 *	char *tmp = spar_dir_begin("out", &err);        // "out.tmp.PID", fresh; the caller frees the string
 *	... write files into tmp ...
 *	spar_dir_commit(tmp, "out", &err);              // syncs; an existing "out" is replaced (moved aside, then removed)
 * On failure spar_dir_remove(tmp). Leftover "out.tmp.*" of dead processes are removed by spar_dir_begin. */
char *spar_dir_begin(const char *final, struct spar_err *err);
int spar_dir_commit(const char *tmp, const char *final, struct spar_err *err);

/*! "dir/name" into a new string; the caller frees. */
char *spar_path_join(const char *dir, const char *name);

/* Map a file read-only. */
struct spar_map {
	const uint8_t *data; /* NULL for an empty file */
	size_t size;
};
int spar_map_open(struct spar_map *m, const char *path, struct spar_err *err);
void spar_map_close(struct spar_map *m);

/*! Seconds of a monotonic clock. */
double spar_clock_s(void);

/*! Wait until fd can be read, at most timeout_ms (-1: for ever); fd -1 just waits. True if it can be. When the reader of
 *  our standard output leaves meanwhile, SIGPIPE comes at once and not with the next write, so a pipeline whose last
 *  stage fails does not wait for ever on its first. */
bool spar_wait_input(int fd, int timeout_ms);

#endif
