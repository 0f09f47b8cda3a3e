/* client.c - the environment client against environments that behave and that do not. Needs `spar` on PATH. */
#include "env/client.h"
#include "base/file.h"
#include "record/record.h"
#include "unit.h"
#include <signal.h>
#include <stdlib.h>

static jv request(const char *text)
{
	return jv_parse(text);
}

static struct spar_env *open_or_exit(const char *command, double timeout_s)
{
	struct spar_env *env;
	struct spar_err err = {0};
	if (spar_env_open(&env, command, timeout_s, &err) == 0)
		return env;
	printf("%s\n", err.msg);
	exit(1);
}

/* The error of opening an environment and, if that worked, of one reset. */
static struct spar_err failure(const char *command, double timeout_s)
{
	struct spar_env *env = NULL;
	struct spar_err err = {0};
	jv reply = jv_invalid();
	int rc = spar_env_open(&env, command, timeout_s, &err);
	if (rc == 0)
		rc =
		    spar_env_send(env, request("{\"op\":\"reset\",\"session\":\"s\",\"seed\":\"1\"}"), "task t1", &err);
	if (rc == 0)
		rc = spar_env_recv(env, &reply, true, &err);
	jv_free(reply);
	spar_env_close(env);
	CHECK(rc < 0 && rc == -(int)err.code);
	return err;
}

static void check_failure(const char *command, const char *what)
{
	struct spar_err err = failure(command, 0.5);
	if (!strstr(err.msg, what))
		printf("%s\n", err.msg);
	CHECK(strstr(err.msg, what) != NULL);
	CHECK(strstr(err.msg, "': describe: ") || strstr(err.msg, "': task t1: "));
	CHECK(!strncmp(err.msg, "environment '", 13) && !strchr(err.msg, '\n'));
	CHECK(err.code == SPAR_FAIL);
}

#define DESCRIBE "read l; echo '{\"protocol\":1,\"env\":\"x\"}'; "

static void check_failures(void)
{
	check_failure("echo ready; cat >/dev/null", ": 'ready'");
	check_failure(DESCRIBE "echo 'Server started'; cat >/dev/null", ": 'Server started'");
	check_failure(DESCRIBE "read l; echo '[1]'", "no reply: '[1]'");
	check_failure(DESCRIBE "read l; echo '{\"reward\":NaN}'", "no reply: '{\"reward\":NaN}'");
	check_failure("true", "describe: exited with status 0, 1 request unanswered");
	check_failure("exit 7", "exited with status 7");
	check_failure(DESCRIBE "read l; exit 7", "task t1: exited with status 7");
	check_failure(DESCRIBE "kill -KILL $$", "was ended by signal 9");
	check_failure("no-such-program-here 2>/dev/null", "exited with status 127");
	check_failure("cat >/dev/null", "no reply within 0.5 s, is its output line-buffered?");
	check_failure(DESCRIBE "read l; printf half; cat >/dev/null", "task t1: no reply within 0.5 s");
	check_failure(DESCRIBE "read l; exec >&-; cat >/dev/null; sleep 0.1", "exited with status 0");
	check_failure("read l; echo '{\"protocol\":2}'; cat >/dev/null", ".protocol: 2 is not spoken here");
	check_failure("read l; echo '{}'; cat >/dev/null", "bad reply to describe: .protocol: expected number");
	check_failure(DESCRIBE "read l; echo '{}'; cat >/dev/null", "bad reply to reset: .messages: expected array");
	check_failure(DESCRIBE "read l; echo '{\"messages\":[],\"reward\":\"1\",\"done\":true}'; cat >/dev/null",
		      "bad reply to reset: .reward: expected number");
	check_failure(DESCRIBE "read l; echo '{\"id\":7}'; cat >/dev/null", ".id: not the request's");
	check_failure(DESCRIBE "read l; echo '{\"session\":\"other\"}'; cat >/dev/null", ".session: not the request's");
	check_failure(DESCRIBE "head -c 2000000 /dev/zero | tr '\\0' x; cat >/dev/null",
		      "a reply line has at most 1 MiB");
	/* two lines for one request, told apart at the latest by what they repeat */
	check_failure("while read l; do echo '{\"op\":\"describe\",\"protocol\":1}'; echo "
		      "'{\"op\":\"describe\",\"protocol\":1}'; done",
		      "describe\",\"protocol\":1}'");
	check_failure("read l; echo '{\"protocol\":1}\n{\"protocol\":1}'; cat >/dev/null", "a line without a request");
}

static void check_refusal(void)
{
	struct spar_err err = {0};
	jv reply = jv_invalid();
	struct spar_env *env = open_or_exit("spar env-cern", 10);
	CHECK(spar_env_send(env, request("{\"op\":\"state\",\"session\":\"none\"}"), "task t2", &err) == 0);
	CHECK(spar_env_recv(env, &reply, true, &err) == -SPAR_INPUT);
	CHECK_STR(err.msg,
		  "environment 'spar env-cern': task t2: no_session: .session: was never reset, or was closed");
	/* it goes on */
	CHECK(spar_env_send(env, request("{\"op\":\"reset\",\"session\":\"s\",\"seed\":\"1\"}"), "task t3", &err) == 0);
	CHECK(spar_env_recv(env, &reply, true, &err) == 1);
	CHECK(spar_has(reply, "observation"));
	jv_free(reply);
	CHECK(spar_env_recv(env, &reply, true, &err) == 0);
	spar_env_close(env);
}

/* Ten thousand requests before the first reply is read: neither side may block the other. Replies come in order. */
static void check_write_ahead(void)
{
	enum { N = 10000 };
	struct spar_err err = {0};
	jv reply = jv_invalid();
	struct spar_env *env = open_or_exit("spar env-cern", 60);
	for (int i = 0; i < N; i++) {
		char text[100];
		snprintf(text, sizeof text, "{\"op\":\"%s\",\"session\":\"%d\",\"seed\":\"%d\"}",
			 i < 100 ? "reset" : "state", i % 100, i);
		CHECK(spar_env_send(env, request(text), "t", &err) == 0);
	}
	CHECK(spar_env_outstanding(env) == N);
	int good = 0;
	for (int i = 0; i < N && spar_env_recv(env, &reply, true, &err) == 1; i++) {
		char session[16];
		const char *got;
		size_t n;
		snprintf(session, sizeof session, "%d", i % 100);
		good += spar_get_str(reply, "", "session", &got, &n, &err) == 0 && !strcmp(got, session);
		jv_free(reply);
	}
	CHECK(good == N);
	spar_env_close(env);
}

static volatile sig_atomic_t pipes;

static void on_pipe(int sig)
{
	(void)sig;
	pipes = pipes + 1;
}

/* Writing to an environment that has gone raises no SIGPIPE, and leaves what the process does about it alone. */
static void check_sigpipe(void)
{
	struct spar_err err = {0};
	struct sigaction act = {.sa_handler = on_pipe}, now;
	sigset_t waiting;
	sigaction(SIGPIPE, &act, NULL);
	struct spar_env *env = open_or_exit(DESCRIBE "exec <&-; sleep 0.2; exit 4", 5);
	jv reply;
	for (int i = 0; i < 5000; i++)
		CHECK(spar_env_send(env, request("{\"op\":\"state\",\"session\":\"s\"}"), "t", &err) == 0);
	CHECK(spar_env_recv(env, &reply, true, &err) == -SPAR_FAIL);
	CHECK(strstr(err.msg, "exited with status 4, 5000 requests unanswered") != NULL);
	/* of no more use */
	CHECK(spar_env_send(env, request("{}"), "t", &err) < 0);
	CHECK(spar_env_recv(env, &reply, true, &err) < 0);
	spar_env_close(env);
	CHECK(pipes == 0);
	sigaction(SIGPIPE, NULL, &now);
	CHECK(now.sa_handler == on_pipe);
	sigpending(&waiting);
	CHECK(!sigismember(&waiting, SIGPIPE));
}

/* An environment that goes on for ever is ended, and what its shell started with it. */
static void check_end(void)
{
	double start = spar_clock_s();
	struct spar_env *env = open_or_exit(DESCRIBE "sleep 1000; true", 5);
	spar_env_close(env);
	double took = spar_clock_s() - start;
	CHECK(took > 1.9 && took < 10);
	spar_env_close(NULL);
}

int main(void)
{
	check_failures();
	check_refusal();
	check_write_ahead();
	check_sigpipe();
	check_end();
	return unit_done();
}
