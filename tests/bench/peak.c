/* peak - run a command and say what it took: peak FILE COMMAND [ARG...] appends one JSON line to
 * FILE. Exits as the command did. */
#include "base/file.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static double seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

int main(int argc, char **argv)
{
	int status;
	struct rusage used;
	if (argc < 3) {
		fputs("usage: peak FILE COMMAND [ARG...]\n", stderr);
		return 2;
	}
	double start_s = spar_clock_s();
	pid_t child = fork();
	if (child == 0) {
		execvp(argv[2], argv + 2);
		fprintf(stderr, "peak: %s: %s\n", argv[2], strerror(errno));
		_exit(127);
	}
	FILE *f = fopen(argv[1], "a");
	if (child < 0 || waitpid(child, &status, 0) < 0 || getrusage(RUSAGE_CHILDREN, &used) < 0 || !f) {
		perror("peak");
		return 1;
	}
	fprintf(f, "{\"wall_s\":%.3f,\"cpu_s\":%.3f,\"max_rss_mib\":%.1f}\n", spar_clock_s() - start_s,
		seconds(used.ru_utime) + seconds(used.ru_stime), (double)used.ru_maxrss / 1024);
	fclose(f);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
