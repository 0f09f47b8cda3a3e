#include "rl/policy.h"
#include "base/file.h"
#include "base/opt.h"
#include "base/process.h"
#include "model/model.h"
#include "record/object.h"
#include "record/record.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POLL_MS 5 /* what a sampler loses per step at most: little against the step */

struct spar_policy {
	char *dir;
	int lock; /* trainer: holds the lock; sampler: asks who holds it */
	bool trainer;
	int64_t step;     /* the session's first */
	int64_t pid;      /* sampler: the session's update */
	int64_t keep_one; /* trainer: the newest version that can be resumed from, -1: none */
};

struct session {
	int64_t pid, step;
	bool ended;
};

/* ---- versions ---- */

static char *version_path(const char *dir, int64_t version)
{
	struct spar_str s = SPAR_STR_INIT;
	spar_str_addf(&s, "%s/v%06" PRId64, dir, version);
	return spar_str_detach(&s);
}

/* "v000012" -> 12; -1 for any other name. */
static int64_t version_of(const char *name)
{
	int64_t version;
	if (name[0] != 'v' || strlen(name) < 7 || spar_parse_i64(name + 1, 0, INT64_MAX, &version) < 0)
		return -1;
	return version;
}

static bool is_resumable(const char *dir, int64_t version)
{
	char *path = version_path(dir, version), *state = spar_path_join(path, "trainer/state.json");
	bool there = spar_file_exists(state);
	free(state);
	free(path);
	return there;
}

static int by_number(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

/* Folders that a killed trainer was still writing. Call it with the lock held: nobody else writes here. */
static int remove_unfinished(const char *dir, struct spar_err *err)
{
	int rc = 0;
	DIR *d = opendir(dir);
	struct dirent *entry;
	while (d && rc == 0 && (entry = readdir(d))) {
		if (entry->d_name[0] != 'v' || !strstr(entry->d_name, ".tmp."))
			continue;
		char *path = spar_path_join(dir, entry->d_name);
		rc = spar_dir_remove(path, err);
		free(path);
	}
	if (d)
		closedir(d);
	return rc;
}

/* All versions in ascending order; the caller frees. */
static int list_versions(const char *dir, int64_t **out, size_t *n, struct spar_err *err)
{
	DIR *d = opendir(dir);
	struct dirent *entry;
	*out = NULL;
	*n = 0;
	if (!d)
		return spar_fail(err, SPAR_FAIL, "%s: %s", dir, strerror(errno));
	while ((entry = readdir(d))) {
		int64_t version = version_of(entry->d_name);
		if (version < 0)
			continue;
		*out = spar_realloc(*out, (*n + 1) * sizeof **out);
		(*out)[(*n)++] = version;
	}
	closedir(d);
	if (*n)
		qsort(*out, *n, sizeof **out, by_number);
	return 0;
}

static int remove_version(const char *dir, int64_t version, struct spar_err *err)
{
	char *path = version_path(dir, version);
	int rc = spar_dir_remove(path, err);
	free(path);
	return rc;
}

/* The version that `latest` names, -1: there is none. */
static int64_t latest(const char *dir)
{
	char *link = spar_path_join(dir, "latest"), target[64];
	ssize_t n = readlink(link, target, sizeof target - 1);
	free(link);
	if (n < 0)
		return -1;
	target[n] = 0;
	return version_of(target);
}

static int move_latest(const char *dir, int64_t version, struct spar_err *err)
{
	char *path = version_path(dir, version), *link = spar_path_join(dir, "latest");
	struct spar_str tmp = SPAR_STR_INIT;
	spar_str_addf(&tmp, "%s.tmp.%ld", link, (long)getpid());
	unlink(tmp.data);
	int rc = symlink(strrchr(path, '/') + 1, tmp.data) < 0 || rename(tmp.data, link) < 0
		     ? spar_fail(err, SPAR_FAIL, "%s: %s", link, strerror(errno))
		     : 0;
	spar_str_release(&tmp);
	free(link);
	free(path);
	return rc;
}

/* ---- session ---- */

/* A writer's claim on the whole lock file. */
static struct flock whole_file(void)
{
	return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
}

/* The process that holds the lock, 0: nobody. */
static int64_t holder(int lock)
{
	struct flock l = whole_file();
	return fcntl(lock, F_GETLK, &l) < 0 || l.l_type == F_UNLCK ? 0 : l.l_pid;
}

/* The same, but for one that has been killed and only has not let go of it. */
static int64_t living_holder(int lock)
{
	int64_t pid = holder(lock);
	return pid && spar_process_is_ending(pid) ? 0 : pid;
}

/* Not before one that has been killed has let go of it. */
static int take_lock(const struct spar_policy *p, struct spar_err *err)
{
	struct flock l = whole_file();
	for (; fcntl(p->lock, F_SETLK, &l) < 0; spar_wait_input(-1, POLL_MS)) {
		if (errno != EACCES && errno != EAGAIN)
			return spar_fail(err, SPAR_FAIL, "%s/lock: %s", p->dir, strerror(errno));
		int64_t pid = living_holder(p->lock);
		if (pid)
			return spar_fail(err, SPAR_FAIL, "%s: another update is at work here (process %" PRId64 ")",
					 p->dir, pid);
	}
	return 0;
}

static int write_session(const struct spar_policy *p, bool ended, struct spar_err *err)
{
	struct spar_str s = SPAR_STR_INIT;
	char *path = spar_path_join(p->dir, "session.json");
	spar_str_addf(&s, "{\"pid\":%ld,\"step\":%" PRId64 ",\"ended\":%s}\n", (long)getpid(), p->step,
		      ended ? "true" : "false");
	int rc = spar_file_write(path, s.data, s.len, err);
	free(path);
	spar_str_release(&s);
	return rc;
}

/* 1: read, 0: there is none, < 0: not a session. */
static int read_session(const struct spar_policy *p, struct session *s, struct spar_err *err)
{
	char *path = spar_path_join(p->dir, "session.json");
	int rc = 0;
	jv o;
	if (spar_file_exists(path) && (rc = spar_object_read(path, &o, err)) == 0) {
		if ((rc = spar_get_i64(o, "", "pid", &s->pid, err)) == 0 &&
		    (rc = spar_get_i64(o, "", "step", &s->step, err)) == 0)
			rc = spar_get_bool(o, "", "ended", &s->ended, err);
		rc = rc < 0 ? spar_fail_at(err, "%s", path) : 1;
		jv_free(o);
	}
	free(path);
	return rc;
}

static struct spar_policy *open_dir(const char *dir, bool trainer, struct spar_err *err)
{
	if (spar_dir_make(dir, err) < 0)
		return NULL;
	struct spar_policy *p = spar_calloc(1, sizeof *p);
	char *path = spar_path_join(dir, "lock");
	p->dir = spar_strdup(dir);
	p->trainer = trainer;
	p->keep_one = -1;
	p->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (p->lock < 0) {
		spar_fail(err, SPAR_FAIL, "%s: %s", path, strerror(errno));
		spar_policy_close(p);
		p = NULL;
	}
	free(path);
	return p;
}

void spar_policy_close(struct spar_policy *p)
{
	if (!p)
		return;
	if (p->lock >= 0)
		close(p->lock); /* gives the lock up */
	free(p->dir);
	free(p);
}

/* ---- trainer ---- */

/* Go back to the newest version that can be resumed from: samples of what came after it will be drawn again. */
static int settle(struct spar_policy *p, int64_t *step, struct spar_err *err)
{
	int64_t *versions;
	size_t n;
	int rc = list_versions(p->dir, &versions, &n, err);
	*step = -1;
	for (size_t i = 0; rc == 0 && i < n; i++)
		if (is_resumable(p->dir, versions[i]))
			*step = versions[i];
	if (rc == 0 && n && *step < 0)
		rc = spar_fail(err, SPAR_FAIL, "%s: has versions, but none with trainer state to go on from", p->dir);
	if (rc == 0 && n && latest(p->dir) != *step)
		rc = move_latest(p->dir, *step, err); /* before what it named is removed */
	for (size_t i = 0; rc == 0 && i < n; i++)
		if (versions[i] > *step)
			rc = remove_version(p->dir, versions[i], err);
	p->keep_one = *step;
	free(versions);
	return rc;
}

int spar_policy_claim(struct spar_policy **out, const char *dir, int64_t *step, struct spar_err *err)
{
	struct spar_policy *p = *out = open_dir(dir, true, err);
	if (!p)
		return -(int)SPAR_FAIL;
	int rc = take_lock(p, err);
	if (rc == 0) {
		char *session = spar_path_join(dir, "session.json");
		unlink(session); /* of the run before */
		free(session);
		rc = remove_unfinished(dir, err);
	}
	if (rc == 0)
		rc = settle(p, step, err);
	if (rc < 0) {
		spar_policy_close(p);
		*out = NULL;
	}
	return rc;
}

int spar_policy_ready(struct spar_policy *p, int64_t step, struct spar_err *err)
{
	p->step = step;
	return write_session(p, false, err);
}

int spar_policy_end(struct spar_policy *p, struct spar_err *err)
{
	return write_session(p, true, err);
}

char *spar_policy_begin(struct spar_policy *p, int64_t step, struct spar_err *err)
{
	char *path = version_path(p->dir, step), *tmp = spar_dir_begin(path, err);
	free(path);
	return tmp;
}

/* Versions that nobody needs: older than the newest `keep`, not the one to resume from, not a multiple of keep_every. */
static int thin(const struct spar_policy *p, int64_t keep, int64_t keep_every, struct spar_err *err)
{
	int64_t *versions;
	size_t n;
	int rc = list_versions(p->dir, &versions, &n, err);
	for (size_t i = 0; rc == 0 && i + (size_t)keep < n; i++)
		if (versions[i] != p->keep_one && !(keep_every > 0 && versions[i] % keep_every == 0))
			rc = remove_version(p->dir, versions[i], err);
	free(versions);
	return rc;
}

int spar_policy_publish(struct spar_policy *p, char *tmp, int64_t step, int64_t keep, int64_t keep_every,
			struct spar_err *err)
{
	char *path = version_path(p->dir, step);
	int rc = spar_dir_commit(tmp, path, err);
	if (rc == 0)
		rc = move_latest(p->dir, step, err);
	else
		spar_dir_remove(tmp, NULL);
	if (rc == 0 && is_resumable(p->dir, step))
		p->keep_one = step;
	if (rc == 0)
		rc = thin(p, keep > 0 ? keep : 1, keep_every, err);
	free(path);
	free(tmp);
	return rc;
}

/* ---- sampler ---- */

int spar_policy_attach(struct spar_policy **out, const char *dir, double timeout_s, int64_t *step, struct spar_err *err)
{
	struct spar_policy *p = *out = open_dir(dir, false, err);
	if (!p)
		return -(int)SPAR_FAIL;
	double deadline = spar_clock_s() + timeout_s;
	for (;; spar_wait_input(-1, POLL_MS)) {
		struct session s;
		int64_t pid = living_holder(p->lock);
		int rc = pid ? read_session(p, &s, err) : 0;
		if (rc > 0 && s.pid == pid) {
			*step = p->step = s.step;
			p->pid = pid;
			return 0;
		}
		if (rc >= 0 && spar_clock_s() > deadline)
			rc = spar_fail(err, SPAR_FAIL, "%s: no update has come to work here within %g s", dir,
				       timeout_s);
		if (rc < 0) {
			spar_policy_close(p);
			*out = NULL;
			return rc;
		}
	}
}

/* 1: the version is there, 0: it never will be, 2: not yet, < 0: update died. */
static int look(struct spar_policy *p, int64_t step, int64_t *version, struct spar_err *err)
{
	struct session s = {0};
	bool alive =
	    living_holder(p->lock) == p->pid; /* before the rest: what a process did before it died is then seen */
	int rc = read_session(p, &s, err);
	*version = latest(p->dir);
	if (*version >= step)
		return 1;
	if (rc < 0)
		return rc;
	if (rc > 0 && s.ended && s.pid == p->pid)
		return 0;
	return alive ? 2 : spar_fail(err, SPAR_FAIL, "%s: update has died before version %" PRId64, p->dir, step);
}

int spar_policy_wait(struct spar_policy *p, int64_t step, double timeout_s, int64_t *version, char **path,
		     struct spar_err *err)
{
	double deadline = spar_clock_s() + timeout_s;
	int rc;
	*path = NULL;
	while ((rc = look(p, step, version, err)) == 2) {
		if (spar_clock_s() > deadline)
			return spar_fail(err, SPAR_FAIL, "%s: version %" PRId64 " has not come within %g s", p->dir,
					 step, timeout_s);
		spar_wait_input(-1, POLL_MS);
	}
	if (rc == 1)
		*path = version_path(p->dir, *version);
	return rc;
}

char *spar_policy_resolve(const char *dir, int64_t *version, struct spar_err *err)
{
	*version = latest(dir);
	if (*version >= 0)
		return version_path(dir, *version);
	if (spar_dir_exists(dir))
		return spar_strdup(dir);
	spar_fail(err, SPAR_FAIL, "%s: no such folder", dir);
	return NULL;
}

int spar_policy_text_dir(char **out, const char *dir, struct spar_err *err)
{
	int64_t version;
	char *folder = spar_policy_resolve(dir, &version, err);
	*out = NULL;
	int rc = folder ? spar_model_base_dir(out, folder, err) : -(int)err->code;
	free(folder);
	return rc;
}
