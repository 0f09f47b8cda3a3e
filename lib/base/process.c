#include "base/process.h"
#include <errno.h>
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

int spar_process_become(const char *path, char **argv, struct spar_err *err)
{
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	self[n > 0 ? n : 0] = 0;
	char *name = strrchr(self, '/');
	size_t room = name ? sizeof self - (size_t)(name + 1 - self) : 0;
	if (!name || snprintf(name + 1, room, "%s", path) >= (int)room)
		return spar_fail(err, SPAR_FAIL, "the folder of this program is not known");
	execv(self, argv);
	return spar_fail(err, SPAR_FAIL, "%s: %s", self, strerror(errno));
}
