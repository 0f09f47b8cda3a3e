/* fuzz.h - what a fuzz target needs: it defines LLVMFuzzerTestOneInput. With clang: -fsanitize=fuzzer -DFUZZER. Without,
 * main() below: "TARGET [-n N] FILE..." runs each file, then N copies of it with a few bytes changed or its end cut off. The
 * changes are a function of their number, so a failure comes back. */
#ifndef SPAR_TESTS_FUZZ_H
#define SPAR_TESTS_FUZZ_H

#include "base/file.h"
#include "base/opt.h"
#include "base/philox.h"
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

#ifndef FUZZER
static void fuzz_change(struct spar_str *s, uint32_t round)
{
	struct spar_rng rng;
	spar_rng_init(&rng, round, "fuzz", 4);
	size_t n_changes = 1 + (size_t)(4 * spar_rng_uniform(&rng, 0, 0, 0, 0));
	for (uint32_t i = 1; s->len && i <= n_changes; i++) {
		size_t at = (size_t)((double)s->len * spar_rng_uniform(&rng, i, 0, 0, 0));
		if (i % 2) /* the beginning, where headers are, is changed more often */
			at = at % (s->len < 2048 ? s->len : 2048);
		double what = spar_rng_uniform(&rng, i, 1, 0, 0);
		if (what < 0.05)
			s->len = at;
		else
			s->data[at] = what < 0.3   ? (char)-1
				      : what < 0.5 ? 0
						   : (char)(256 * spar_rng_uniform(&rng, i, 2, 0, 0));
	}
}

int main(int argc, char **argv)
{
	int64_t rounds = 0;
	int first = argc > 2 && !strcmp(argv[1], "-n") && spar_parse_i64(argv[2], 0, UINT32_MAX, &rounds) == 0 ? 3 : 1;
	for (int i = first; i < argc; i++) {
		struct spar_str file = SPAR_STR_INIT, copy = SPAR_STR_INIT;
		if (spar_file_read(argv[i], 1 << 24, &file, NULL) < 0)
			return 1;
		LLVMFuzzerTestOneInput((const uint8_t *)file.data, file.len);
		for (int64_t round = 0; round < rounds; round++) {
			spar_str_clear(&copy);
			spar_str_add(&copy, file.data, file.len);
			fuzz_change(&copy, (uint32_t)round);
			LLVMFuzzerTestOneInput((const uint8_t *)copy.data, copy.len);
		}
		spar_str_release(&file);
		spar_str_release(&copy);
	}
	return 0;
}
#endif
#endif
