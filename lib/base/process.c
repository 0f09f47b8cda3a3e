#include "base/process.h"
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PF_EXITING 4 /* proc(5), stat, field 9 */

/* A file of /proc as far as it fits; "" if there is none. */
static void read_proc(int64_t pid, const char *name, char *out, size_t size)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%" PRId64 "/%s", pid, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, out, size - 1);
	out[n > 0 ? n : 0] = 0;
	if (fd >= 0)
		close(fd);
}

/* The signals that wait for the process: first SIGKILL is one, then it runs to its end. */
static bool is_killed(int64_t pid)
{
	char text[4096];
	unsigned long long pending = 0;
	read_proc(pid, "status", text, sizeof text);
	for (const char *at = text; (at = strstr(at, "Pnd:\t"));) {
		at += strlen("Pnd:\t");
		pending |= strtoull(at, NULL, 16);
	}
	return pending >> (SIGKILL - 1) & 1;
}

static bool is_exiting(int64_t pid)
{
	char text[1024];
	unsigned flags = 0;
	read_proc(pid, "stat", text, sizeof text);
	const char *behind_name = strrchr(text, ')');
	if (behind_name)
		sscanf(behind_name, ") %*c %*d %*d %*d %*d %*d %u", &flags);
	return flags & PF_EXITING;
}

bool spar_process_is_ending(int64_t pid)
{
	return is_killed(pid) || is_exiting(pid);
}
