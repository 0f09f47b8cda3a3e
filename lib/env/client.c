/* client.c - see client.h */
#include "env/client.h"
#include "base/file.h"
#include "base/str.h"
#include "env/lines.h"
#include "record/record.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROTOCOL 1
#define END_WAIT_S 2.0 /* between closing its stdin, SIGTERM and SIGKILL */

extern char **environ;

/* A request that was not answered yet. */
struct pending {
	struct pending *next;
	char *what;
	jv echo; /* its id, op and session: what the reply must repeat */
};

struct spar_env {
	char *command;
	double timeout_s;
	pid_t pid; /* also its process group; 0: ended and waited for */
	int status;
	int in, out; /* the child's stdin and stdout, here; -1: closed */
	struct spar_str outbox;
	size_t sent; /* of the outbox */
	struct spar_lines inbox;
	struct pending *first, **last;
	size_t n_pending;
	uint64_t n_requests;
	bool broken;
	jv about;
};

/* ---- starting ---- */

/* "PATH=" with the folder of `spar` in front: this program is libexec/spar/TOOL. */
static char *path_variable(void)
{
	const char *path = getenv("PATH"), tail[] = "/libexec/spar/";
	char self[PATH_MAX], *found = NULL;
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	self[n > 0 ? n : 0] = 0;
	for (char *at = self; (at = strstr(at, tail)); at++)
		found = at;
	struct spar_str s = SPAR_STR_INIT;
	spar_str_adds(&s, "PATH=");
	if (found) {
		*found = 0;
		spar_str_addf(&s, "%s/bin%s", self, path ? ":" : "");
	}
	spar_str_adds(&s, path ? path : "");
	return spar_str_detach(&s);
}

/* The environment with another PATH; the array is the caller's, its other strings are not. */
static char **environment(char *path)
{
	size_t n = 0, m = 0;
	while (environ[n])
		n++;
	char **list = spar_calloc(n + 2, sizeof *list);
	for (size_t i = 0; i < n; i++)
		if (strncmp(environ[i], "PATH=", 5) != 0)
			list[m++] = environ[i];
	list[m] = path;
	return list;
}

static int spawn(struct spar_env *env, int child_in, int child_out)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	char *argv[] = {"sh", "-c", env->command, NULL};
	char *path = path_variable(), **list = environment(path);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, child_in, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&files, child_out, STDOUT_FILENO);
	posix_spawnattr_init(&attr);
	/* A group of its own: what the shell started ends with it, and an interrupt from the terminal is ours to handle. */
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
	posix_spawnattr_setpgroup(&attr, 0);
	int rc = posix_spawn(&env->pid, "/bin/sh", &files, &attr, argv, list);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	free(list);
	free(path);
	return rc;
}

static int start(struct spar_env *env, struct spar_err *err)
{
	int to[2] = {-1, -1}, from[2] = {-1, -1};
	int rc = pipe(to) < 0 || pipe(from) < 0 ? errno : 0;
	if (rc == 0) {
		for (int i = 0; i < 2; i++) {
			fcntl(to[i], F_SETFD, FD_CLOEXEC);
			fcntl(from[i], F_SETFD, FD_CLOEXEC);
		}
		fcntl(to[1], F_SETFL, O_NONBLOCK);
		fcntl(from[0], F_SETFL, O_NONBLOCK);
		rc = spawn(env, to[0], from[1]);
	}
	if (to[0] >= 0)
		close(to[0]);
	if (from[1] >= 0)
		close(from[1]);
	env->in = to[1];
	env->out = from[0];
	return rc ? spar_fail(err, SPAR_FAIL, "environment '%.200s': %s", env->command, strerror(rc)) : 0;
}

/* ---- ending ---- */

static void nap(void)
{
	nanosleep(&(struct timespec){0, 5 * 1000 * 1000}, NULL);
}

/* Whether the child ended within the time. Its output is read and dropped meanwhile, lest it wait for us to read. */
static bool ended_within(struct spar_env *env, double limit_s)
{
	double until = spar_clock_s() + limit_s;
	char drop[4096];
	while (env->pid) {
		pid_t got = waitpid(env->pid, &env->status, WNOHANG);
		if (got == env->pid || (got < 0 && errno == ECHILD)) {
			env->pid = 0;
			break;
		}
		if (spar_clock_s() >= until)
			return false;
		while (env->out >= 0 && read(env->out, drop, sizeof drop) > 0)
			continue;
		nap();
	}
	return true;
}

static void shut(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static struct pending *take_pending(struct spar_env *env)
{
	struct pending *p = env->first;
	env->first = p->next;
	if (!env->first)
		env->last = &env->first;
	env->n_pending--;
	return p;
}

static void pending_free(struct pending *p)
{
	free(p->what);
	jv_free(p->echo);
	free(p);
}

void spar_env_close(struct spar_env *env)
{
	if (!env)
		return;
	shut(&env->in);
	if (!ended_within(env, END_WAIT_S)) {
		kill(-env->pid, SIGTERM);
		if (!ended_within(env, END_WAIT_S)) {
			kill(-env->pid, SIGKILL);
			waitpid(env->pid, &env->status, 0);
		}
	}
	shut(&env->out);
	while (env->first)
		pending_free(take_pending(env));
	spar_str_release(&env->outbox);
	spar_lines_release(&env->inbox);
	jv_free(env->about);
	free(env->command);
	free(env);
}

/* ---- errors ---- */

/* The environment is of no more use: say so, naming it and the record that waits for an answer. */
static int broken_at(struct spar_env *env, struct spar_err *err, const char *what, const char *why)
{
	env->broken = true;
	return spar_fail(err, SPAR_FAIL, "environment '%.200s': %.200s: %s", env->command, what, why);
}

static int broken(struct spar_env *env, struct spar_err *err, const char *why)
{
	return broken_at(env, err, env->first ? env->first->what : "no request", why);
}

static int broken_line(struct spar_env *env, struct spar_err *err, const char *what, const char *why, const char *line,
		       size_t n)
{
	struct spar_str s = SPAR_STR_INIT;
	spar_str_addf(&s, "%s: '%.*s%s'", why, (int)(n < 200 ? n : 200), line, n < 200 ? "" : "...");
	int rc = broken_at(env, err, what, s.data);
	spar_str_release(&s);
	return rc;
}

static int broken_exit(struct spar_env *env, struct spar_err *err)
{
	char why[160];
	shut(&env->in);
	if (!ended_within(env, END_WAIT_S))
		snprintf(why, sizeof why, "closed its output");
	else if (WIFSIGNALED(env->status))
		snprintf(why, sizeof why, "was ended by signal %d", WTERMSIG(env->status));
	else
		snprintf(why, sizeof why, "exited with status %d", WEXITSTATUS(env->status));
	size_t len = strlen(why);
	snprintf(why + len, sizeof why - len, ", %zu request%s unanswered", env->n_pending,
		 env->n_pending == 1 ? "" : "s");
	return broken(env, err, why);
}

/* ---- moving bytes ---- */

/* write(2) that gives EPIPE and no SIGPIPE, whatever the process thinks of that signal. */
static ssize_t write_quietly(int fd, const void *data, size_t n)
{
	sigset_t pipe_only, old, waiting;
	sigemptyset(&pipe_only);
	sigaddset(&pipe_only, SIGPIPE);
	sigpending(&waiting);
	bool was_pending = sigismember(&waiting, SIGPIPE) == 1;
	pthread_sigmask(SIG_BLOCK, &pipe_only, &old);
	ssize_t put = write(fd, data, n);
	int failure = errno;
	if (put < 0 && failure == EPIPE && !was_pending)
		while (sigtimedwait(&pipe_only, NULL, &(struct timespec){0, 0}) < 0 && errno == EINTR)
			continue;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = failure;
	return put;
}

static void push_out(struct spar_env *env)
{
	while (env->in >= 0 && env->sent < env->outbox.len) {
		ssize_t put = write_quietly(env->in, env->outbox.data + env->sent, env->outbox.len - env->sent);
		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return;
		if (put < 0)
			shut(&env->in); /* it reads no more; the end of its output will tell */
		else
			env->sent += (size_t)put;
	}
	spar_str_clear(&env->outbox);
	env->sent = 0;
}

/* Write and read what can be done within the time; returns at the first bytes read or at the end of the output. */
static void pump(struct spar_env *env, int timeout_ms)
{
	push_out(env);
	struct pollfd fds[2] = {{env->inbox.ended ? -1 : env->out, POLLIN, 0},
				{env->sent < env->outbox.len ? env->in : -1, POLLOUT, 0}};
	if (poll(fds, 2, timeout_ms) <= 0)
		return;
	if (fds[1].revents)
		push_out(env);
	if (fds[0].revents && spar_lines_fill(&env->inbox, env->out) < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
		env->inbox.ended = true;
}

/* ---- replies ---- */

static int check_echo(jv reply, jv request, struct spar_err *err)
{
	static const char *const keys[] = {"id", "op", "session"};
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		jv got = jv_object_get(jv_copy(reply), jv_string(keys[i]));
		jv sent = jv_object_get(jv_copy(request), jv_string(keys[i]));
		bool told = jv_is_valid(got) && jv_get_kind(got) != JV_KIND_NULL && jv_is_valid(sent);
		bool same = !told || jv_equal(jv_copy(got), jv_copy(sent));
		jv_free(got);
		jv_free(sent);
		if (!same)
			return spar_fail(err, SPAR_FAIL, ".%s: not the request's", keys[i]);
	}
	return 0;
}

/* The fields that a reply to `op` must have. */
static int check_fields(jv reply, const char *op, struct spar_err *err)
{
	double number;
	int64_t version;
	bool flag;
	const char *text;
	size_t n;
	if (!strcmp(op, "describe")) {
		if (spar_get_i64(reply, "", "protocol", &version, err) < 0)
			return -1;
		if (version != PROTOCOL)
			return spar_fail(err, SPAR_FAIL, ".protocol: %" PRId64 " is not spoken here", version);
	} else if (!strcmp(op, "oracle")) {
		return spar_get_str(reply, "", "text", &text, &n, err);
	} else if (strcmp(op, "close") != 0) {
		jv kept = jv_null();
		if (spar_get_kind(reply, "", "messages", JV_KIND_ARRAY, &kept, err) < 0)
			return -1;
		jv_free(kept);
		if (spar_get_double(reply, "", "reward", &number, err) < 0 ||
		    spar_get_bool(reply, "", "done", &flag, err) < 0)
			return -1;
		if (spar_has(reply, "info")) {
			if (spar_get_kind(reply, "", "info", JV_KIND_OBJECT, &kept, err) < 0)
				return -1;
			jv_free(kept);
		}
	}
	return 0;
}

/* The environment refused a request: the caller's mistake or a limit; the environment goes on. `reply` is borrowed. */
static int refused(const struct spar_env *env, const struct pending *p, jv reply, struct spar_err *err)
{
	const char *code = "error", *message = "";
	size_t n;
	jv error = jv_object_get(jv_copy(reply), jv_string("error"));
	if (jv_get_kind(error) == JV_KIND_OBJECT) {
		spar_get_str(error, "", "code", &code, &n, NULL);
		spar_get_str(error, "", "message", &message, &n, NULL);
	}
	int rc = spar_fail(err, SPAR_INPUT, "environment '%.200s': %.200s: %.60s: %.400s", env->command, p->what, code,
			   message);
	jv_free(error);
	return rc;
}

/* `line` answers the oldest request. */
static int take_reply(struct spar_env *env, const char *line, size_t n, jv *reply, struct spar_err *err)
{
	const char *why, *op;
	size_t op_len;
	struct spar_err wrong = {0};
	jv object = spar_lines_object(line, n, &why);
	if (!jv_is_valid(object))
		return broken_line(env, err, env->first->what, "a line that is no reply", line, n);
	struct pending *p = env->first;
	spar_get_str(p->echo, "", "op", &op, &op_len, NULL);
	bool is_error = spar_has(object, "error");
	if (check_echo(object, p->echo, &wrong) < 0 || (!is_error && check_fields(object, op, &wrong) < 0)) {
		jv_free(object);
		spar_fail_at(&wrong, "bad reply to %s", op);
		return broken_line(env, err, env->first->what, wrong.msg, line, n);
	}
	take_pending(env);
	int rc = is_error ? refused(env, p, object, err) : 1;
	pending_free(p);
	if (is_error)
		jv_free(object);
	else
		*reply = object;
	return rc;
}

/* A line that nobody asked for: the env writes more than one per request, and all later answers would be one behind. */
static int check_silence(struct spar_env *env, const char *what, struct spar_err *err)
{
	const char *line = "(too long)";
	size_t n = strlen(line);
	if (env->n_pending)
		return 0;
	pump(env, 0);
	return spar_lines_next(&env->inbox, &line, &n)
		   ? broken_line(env, err, what, "a line without a request", line, n)
		   : 0;
}

/* ---- the interface ---- */

jv spar_env_about(const struct spar_env *env)
{
	return env->about;
}

size_t spar_env_outstanding(const struct spar_env *env)
{
	return env->n_pending;
}

int spar_env_send(struct spar_env *env, jv request, const char *what, struct spar_err *err)
{
	int rc = env->broken ? broken_at(env, err, what, "failed before") : check_silence(env, what, err);
	if (rc < 0) {
		jv_free(request);
		return rc;
	}
	request = jv_object_set(request, jv_string("id"), jv_number((double)++env->n_requests));
	struct pending *p = spar_calloc(1, sizeof *p);
	p->what = spar_strdup(what);
	p->echo = jv_object();
	static const char *const keys[] = {"id", "op", "session"};
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		jv v = jv_object_get(jv_copy(request), jv_string(keys[i]));
		if (jv_is_valid(v))
			p->echo = jv_object_set(p->echo, jv_string(keys[i]), v);
		else
			jv_free(v);
	}
	*env->last = p;
	env->last = &p->next;
	env->n_pending++;
	jv text = jv_dump_string(request, 0);
	spar_str_add(&env->outbox, jv_string_value(text), (size_t)jv_string_length_bytes(jv_copy(text)));
	spar_str_addc(&env->outbox, '\n');
	jv_free(text);
	push_out(env);
	return 0;
}

int spar_env_recv(struct spar_env *env, jv *reply, bool wait, struct spar_err *err)
{
	double until = spar_clock_s() + env->timeout_s;
	*reply = jv_invalid();
	if (env->broken)
		return broken(env, err, "failed before");
	if (!env->n_pending)
		return 0;
	for (bool polled = false;; polled = true) {
		const char *line;
		size_t n;
		int got = spar_lines_next(&env->inbox, &line, &n);
		if (got > 0)
			return take_reply(env, line, n, reply, err);
		if (got < 0)
			return broken(env, err, "a reply line has at most 1 MiB");
		if (env->inbox.ended)
			return broken_exit(env, err);
		double left = until - spar_clock_s();
		if (polled && !wait)
			return 0;
		if (wait && left <= 0) {
			char why[100];
			snprintf(why, sizeof why, "no reply within %g s, is its output line-buffered?", env->timeout_s);
			return broken(env, err, why);
		}
		pump(env, wait ? (int)fmin(ceil(left * 1000), INT_MAX) : 0);
	}
}

int spar_env_open(struct spar_env **out, const char *command, double timeout_s, struct spar_err *err)
{
	struct spar_env *env = spar_calloc(1, sizeof *env);
	env->command = spar_strdup(command);
	env->timeout_s = timeout_s;
	env->last = &env->first;
	env->inbox = (struct spar_lines)SPAR_LINES_INIT;
	env->about = jv_invalid();
	spar_str_init(&env->outbox);
	*out = NULL;
	jv request = jv_object_set(jv_object(), jv_string("op"), jv_string("describe"));
	request = jv_object_set(request, jv_string("protocol"), jv_array_append(jv_array(), jv_number(PROTOCOL)));
	int rc = start(env, err);
	if (rc < 0)
		jv_free(request);
	else
		rc = spar_env_send(env, request, "describe", err);
	if (rc == 0)
		rc = spar_env_recv(env, &env->about, true, err);
	if (rc < 0) {
		err->code = SPAR_FAIL;
		spar_env_close(env);
		return -SPAR_FAIL;
	}
	*out = env;
	return 0;
}
