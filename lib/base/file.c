/* realpath() is in the XSI part of POSIX. */
#define _XOPEN_SOURCE 700
#include "base/file.h"
#include "base/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int fail_errno(struct spar_err *err, const char *path)
{
	return spar_fail(err, SPAR_FAIL, "%s: %s", path, strerror(errno));
}

static char *temporary_name(const char *path)
{
	struct spar_str s = SPAR_STR_INIT;
	spar_str_addf(&s, "%s.tmp.%ld", path, (long)getpid());
	return spar_str_detach(&s);
}

/* ---- whole files ---- */

int spar_file_read(const char *path, size_t max, struct spar_str *out, struct spar_err *err)
{
	int rc = 0, fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t total = 0;
	if (fd < 0)
		return fail_errno(err, path);
	for (;;) {
		spar_str_reserve(out, 65536);
		ssize_t n = read(fd, out->data + out->len, 65536);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			rc = fail_errno(err, path);
		if (n <= 0)
			break;
		total += (size_t)n;
		if (total > max) {
			rc = spar_fail(err, SPAR_INPUT, "%s: larger than %zu bytes", path, max);
			break;
		}
		out->len += (size_t)n;
	}
	out->data[out->len] = 0;
	close(fd);
	return rc;
}

/* A rename is only durable once its folder is synced. Some file systems cannot sync folders: not an error. */
static void sync_parent(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *dir = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
	int fd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (fd >= 0) {
		fsync(fd);
		close(fd);
	}
	free(dir);
}

/* Where the bytes of `path` are gathered, or NULL if they go straight in because it is a device or a pipe; *final is
 * the name to rename to, behind any symbolic link. The caller frees both. */
static char *gather_at(const char *path, char **final)
{
	struct stat st;
	bool there = stat(path, &st) == 0;
	char *real = there ? realpath(path, NULL) : NULL;
	*final = real ? real : spar_strdup(path);
	return there && !S_ISREG(st.st_mode) ? NULL : temporary_name(*final);
}

FILE *spar_file_begin(const char *path, struct spar_err *err)
{
	char *final, *tmp = gather_at(path, &final);
	if (tmp)
		unlink(tmp); /* left by a dead process that had our number */
	int fd = open(tmp ? tmp : path, O_WRONLY | O_CLOEXEC | (tmp ? O_CREAT | O_EXCL : 0), 0666);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
	if (!f) {
		fail_errno(err, path);
		if (fd >= 0)
			close(fd);
	}
	free(tmp);
	free(final);
	return f;
}

int spar_file_commit(FILE *f, const char *path, bool ok, struct spar_err *err)
{
	char *final, *tmp = gather_at(path, &final);
	int rc = 0;
	errno = EIO; /* for a write that failed before: ferror() does not say why */
	if (ok && (ferror(f) || fflush(f) != 0 || (tmp && fsync(fileno(f)) < 0)))
		rc = fail_errno(err, path);
	if (fclose(f) != 0 && ok && rc == 0)
		rc = fail_errno(err, path);
	if (ok && rc == 0 && tmp && rename(tmp, final) < 0)
		rc = fail_errno(err, path);
	if (tmp && (!ok || rc < 0))
		unlink(tmp);
	else if (tmp)
		sync_parent(final);
	free(tmp);
	free(final);
	return rc;
}

int spar_file_write(const char *path, const void *data, size_t n, struct spar_err *err)
{
	FILE *f = spar_file_begin(path, err);
	if (!f)
		return -SPAR_FAIL;
	fwrite(data, 1, n, f);
	return spar_file_commit(f, path, true, err);
}

int spar_file_copy(const char *from, const char *to, struct spar_err *err)
{
	char block[65536];
	ssize_t n = 0;
	int rc = 0, fd = open(from, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fail_errno(err, from);
	FILE *f = spar_file_begin(to, err);
	if (!f) {
		close(fd);
		return -SPAR_FAIL;
	}
	while ((n = read(fd, block, sizeof block)) > 0 || (n < 0 && errno == EINTR))
		if (n > 0)
			fwrite(block, 1, (size_t)n, f);
	if (n < 0)
		rc = fail_errno(err, from);
	close(fd);
	if (rc < 0) {
		spar_file_commit(f, to, false, NULL);
		return rc;
	}
	return spar_file_commit(f, to, true, err);
}

bool spar_file_exists(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && !S_ISDIR(st.st_mode);
}

/* ---- folders ---- */

bool spar_dir_exists(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int spar_dir_make(const char *path, struct spar_err *err)
{
	char *part = spar_strdup(path);
	int rc = 0;
	for (char *p = part + 1; rc == 0 && *part; p++) {
		char c = *p;
		if (c && c != '/')
			continue;
		*p = 0;
		if (mkdir(part, 0777) < 0 && !(errno == EEXIST && spar_dir_exists(part)))
			rc = fail_errno(err, part);
		*p = c;
		if (!c)
			break;
	}
	free(part);
	return rc;
}

/* Call `leaf` on all that is not a folder, `after` on each folder once its contents are done. `dir` must be one. */
static int walk(const char *dir, int (*leaf)(const char *), int (*after)(const char *), struct spar_err *err)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	int rc = d ? 0 : fail_errno(err, dir);
	while (rc == 0 && (e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		char *path = spar_path_join(dir, e->d_name);
		struct stat st;
		if (lstat(path, &st) < 0)
			rc = fail_errno(err, path);
		else if (S_ISDIR(st.st_mode))
			rc = walk(path, leaf, after, err);
		else if (leaf(path) < 0)
			rc = fail_errno(err, path);
		free(path);
	}
	if (d)
		closedir(d);
	if (rc == 0 && after(dir) < 0)
		rc = fail_errno(err, dir);
	return rc;
}

int spar_dir_remove(const char *path, struct spar_err *err)
{
	struct stat st;
	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : fail_errno(err, path);
	if (S_ISDIR(st.st_mode))
		return walk(path, unlink, rmdir, err);
	return unlink(path) < 0 ? fail_errno(err, path) : 0;
}

static int sync_path(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return errno == ELOOP ? 0 : -1; /* a symbolic link is synced with its folder */
	int rc = fsync(fd);
	close(fd);
	return rc < 0 && errno == EINVAL ? 0 : rc;
}

/* Without a trailing slash, so that a suffix can follow. */
static char *folder_name(const char *final)
{
	char *name = spar_strdup(final);
	for (size_t n = strlen(name); n > 1 && name[n - 1] == '/'; n--)
		name[n - 1] = 0;
	return name;
}

/* Whether the process that made "x.tmp.PID" can still go on with it. */
static bool is_at_work(long pid)
{
	return pid != (long)getpid() && (kill((pid_t)pid, 0) == 0 || errno != ESRCH) && !spar_process_is_ending(pid);
}

/* What dead processes left beside `final`: "final.tmp.PID" is dropped; "final.tmp.PID.old" is what spar_dir_commit
 * moved aside, and goes back to its place if the process died before the new folder took it. */
static void sweep(const char *final)
{
	const char *slash = strrchr(final, '/'), *base = slash ? slash + 1 : final;
	char *parent = slash ? strndup(final, (size_t)(slash - final) + 1) : spar_strdup(".");
	DIR *d = parent ? opendir(parent) : NULL;
	struct dirent *e;
	size_t n = strlen(base);
	while (d && (e = readdir(d))) {
		char *end;
		if (strncmp(e->d_name, base, n) != 0 || strncmp(e->d_name + n, ".tmp.", 5) != 0)
			continue;
		long pid = strtol(e->d_name + n + 5, &end, 10);
		bool old = !strcmp(end, ".old");
		if (pid <= 0 || (*end && !old) || is_at_work(pid))
			continue;
		char *path = spar_path_join(parent, e->d_name);
		if (!old || spar_dir_exists(final) || rename(path, final) < 0)
			spar_dir_remove(path, NULL);
		free(path);
	}
	if (d)
		closedir(d);
	free(parent);
}

char *spar_dir_begin(const char *final, struct spar_err *err)
{
	char *name = folder_name(final);
	sweep(name);
	char *tmp = temporary_name(name);
	if (mkdir(tmp, 0777) < 0) {
		fail_errno(err, tmp);
		free(tmp);
		tmp = NULL;
	}
	free(name);
	return tmp;
}

int spar_dir_commit(const char *tmp, const char *final, struct spar_err *err)
{
	char *name = folder_name(final);
	struct spar_str aside_name = SPAR_STR_INIT;
	spar_str_addf(&aside_name, "%s.old", tmp);
	const char *old = aside_name.data;
	int rc = walk(tmp, sync_path, sync_path, err);
	bool aside = false;
	if (rc == 0 && rename(name, old) < 0 && errno != ENOENT)
		rc = fail_errno(err, name);
	else
		aside = rc == 0 && spar_dir_exists(old);
	if (rc == 0 && rename(tmp, name) < 0) {
		rc = fail_errno(err, name);
		if (aside && rename(old, name) == 0)
			aside = false;
	}
	if (rc == 0)
		sync_parent(name);
	if (rc == 0 && aside)
		rc = spar_dir_remove(old, err);
	spar_str_release(&aside_name);
	free(name);
	return rc;
}

char *spar_path_join(const char *dir, const char *name)
{
	struct spar_str s = SPAR_STR_INIT;
	size_t n = strlen(dir);
	spar_str_addf(&s, "%s%s%s", dir, n && dir[n - 1] == '/' ? "" : "/", name);
	return spar_str_detach(&s);
}

/* ---- maps, time ---- */

int spar_map_open(struct spar_map *m, const char *path, struct spar_err *err)
{
	struct stat st;
	int rc = 0, fd = open(path, O_RDONLY | O_CLOEXEC);
	*m = (struct spar_map){0};
	if (fd < 0)
		return fail_errno(err, path);
	if (fstat(fd, &st) < 0) {
		rc = fail_errno(err, path);
	} else if (!S_ISREG(st.st_mode)) {
		rc = spar_fail(err, SPAR_FAIL, "%s: not a regular file", path);
	} else if (st.st_size > 0) {
		void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (p == MAP_FAILED)
			rc = fail_errno(err, path);
		else
			*m = (struct spar_map){.data = p, .size = (size_t)st.st_size};
	}
	close(fd);
	return rc;
}

void spar_map_close(struct spar_map *m)
{
	if (m->data)
		munmap((void *)m->data, m->size);
	*m = (struct spar_map){0};
}

bool spar_wait_input(int fd, int timeout_ms)
{
	struct pollfd p[] = {{.fd = fd, .events = POLLIN}, {.fd = STDOUT_FILENO}};
	int n = poll(p, 2, timeout_ms);
	if (n > 0 && p[1].revents & POLLERR) {
		raise(SIGPIPE);
		n = poll(p, 1, timeout_ms); /* it is ignored: the next write will tell */
	}
	return n > 0 && p[0].revents;
}

double spar_clock_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
