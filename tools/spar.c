/* spar - the only name on PATH: `spar TOOL args` runs ../libexec/spar/TOOL beside this program. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXIT_USAGE 2

/* Folder with the tools: found from where this program is, so that build/ and an installed tree work alike. */
static int libexec_dir(char *out, size_t size)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	if (n < 0)
		return -1;
	self[n] = 0;
	for (int up = 0; up < 2; up++) {
		char *slash = strrchr(self, '/');
		if (!slash)
			return -1;
		*slash = 0;
	}
	return snprintf(out, size, "%s/libexec/spar", self) < (int)size ? 0 : -1;
}

/* In the order in which records meet them. */
static const char *const tools[][2] = {
    {"rollout", "sample completions and episodes"},
    {"score", "give rollouts their rewards"},
    {"advantage", "compare each rollout's reward with those of its group"},
    {"update", "train a model on sft records, or on rollouts with advantages"},
    {"loss", "an objective and its gradient from recorded log-probabilities"},
    {"sft-collect", "gather an oracle's episodes as supervised data"},
    {"eval", "how well models solve tasks"},
    {"pose", "make tasks for an answerer out of what a generator wrote"},
    {"self-play", "check the configuration of a self-play run"},
    {"env-cern", "an environment: find a particle in simulated collision data"},
    {"env-osint", "an environment: questions over a knowledge graph"},
    {"text", "tokenizer and chat template by hand"},
    {"model", "make, show, import, export, merge and check model folders"},
    {"view", "records for a person's eyes"},
    {"report", "the figures of runs as a page, or for TensorBoard"},
};

static int help(FILE *to)
{
	fprintf(to, "usage: spar TOOL [options]\n\n"
		    "Reinforcement-learning post-training of language models as a dataflow of small tools.\n"
		    "`spar TOOL --help` and `man spar-TOOL` explain each.\n\n");
	for (size_t i = 0; i < sizeof tools / sizeof *tools; i++)
		fprintf(to, "  %-12s  %s\n", tools[i][0], tools[i][1]);
	return fflush(to) == 0 ? 0 : 1;
}

/* What libgomp and OpenBLAS read as they are loaded, so nobody but this program can set it in time:
 * - threads of libgomp spin for microseconds, not milliseconds, before they sleep: when another program wants the core, every
 *   parallel loop else waits for a thread that is not running (measured on two cores: two trainings at once are more than
 *   twice as fast, decoding beside two busy programs 2 to 20 times; alone, no difference);
 * - OpenBLAS before 0.3.22 takes processors of AMD for ones without AVX-512 (1.4 to 1.6 times as fast with it).
 * What the user has set stays. */
static void settle_libraries(void)
{
	setenv("GOMP_SPINCOUNT", "1000", 0);
#if defined(__x86_64__)
	__builtin_cpu_init();
	if (__builtin_cpu_is("amd") && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
		setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
#endif
}

int main(int argc, char **argv)
{
	char dir[PATH_MAX], tool[PATH_MAX];
	if (libexec_dir(dir, sizeof dir) < 0) {
		fprintf(stderr, "spar: cannot find the folder of its tools\n");
		return 1;
	}
	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")))
		return help(stdout);
	if (argc < 2) {
		help(stderr);
		return EXIT_USAGE;
	}
	if (strchr(argv[1], '/') || argv[1][0] == '.' || argv[1][0] == '-' ||
	    snprintf(tool, sizeof tool, "%s/%s", dir, argv[1]) >= (int)sizeof tool) {
		fprintf(stderr, "spar: no such tool: %s\n", argv[1]);
		return EXIT_USAGE;
	}
	settle_libraries();
	argv[1] = tool;
	execv(tool, argv + 1);
	if (errno == ENOENT) {
		fprintf(stderr, "spar: no such tool: %s\n", strrchr(tool, '/') + 1);
		return EXIT_USAGE;
	}
	fprintf(stderr, "spar: %s: %s\n", tool, strerror(errno));
	return 1;
}
