/* fuzz.h - what a fuzz target needs: it defines LLVMFuzzerTestOneInput. With clang: -fsanitize=fuzzer -DFUZZER. Without,
 * driver.h gives it a main that changes files: once through a few changes of each, or on and on, led by coverage. */
#ifndef SPAR_TESTS_FUZZ_H
#define SPAR_TESTS_FUZZ_H

#include "base/file.h"
#include "base/str.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* The bytes as a file, for targets that take a path. One file, written anew by each call and gone at exit. */
static inline const char *fuzz_file(const uint8_t *data, size_t n)
{
	static char path[] = "/tmp/spar-fuzz.XXXXXX", name[32];
	static int fd = -1;
	if (fd < 0) {
		fd = mkstemp(path);
		unlink(path);
		snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
	}
	if (ftruncate(fd, 0) < 0 || pwrite(fd, data, n, 0) != (ssize_t)n)
		abort();
	return name;
}

static char fuzz_dir_path[] = "/tmp/spar-fuzz-dir.XXXXXX";

static inline void fuzz_dir_remove(void)
{
	spar_dir_remove(fuzz_dir_path, NULL);
}

/* The bytes as the file `name` of a folder, for targets that take one. */
static inline const char *fuzz_dir(const char *name, const uint8_t *data, size_t n)
{
	static char *path;
	if (!path) {
		if (!mkdtemp(fuzz_dir_path) || atexit(fuzz_dir_remove) != 0)
			abort();
		path = spar_path_join(fuzz_dir_path, name);
	}
	FILE *f = fopen(path, "w");
	if (!f || fwrite(data, 1, n, f) != n || fclose(f) != 0)
		abort();
	return fuzz_dir_path;
}

#ifndef FUZZER
#include "driver.h"
#endif
#endif
