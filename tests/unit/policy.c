/* The policy directory between two processes: a session that is followed, one that ends, one that dies, and what is left
 * of versions that cannot be resumed from. */
#include "rl/policy.h"
#include "base/file.h"
#include "base/process.h"
#include "unit.h"
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define TIMEOUT_S 20.0

static char dir[] = "/tmp/spar-policy.XXXXXX";

static char *in_dir(const char *name)
{
	return spar_path_join(dir, name);
}

static bool there(const char *name)
{
	char *path = in_dir(name);
	bool is = spar_dir_exists(path);
	free(path);
	return is;
}

/* A version folder whose only content is the trainer state's mark, if it is to be resumable. */
static int publish(struct spar_policy *p, int64_t step, bool resumable, struct spar_err *err)
{
	char *tmp = spar_policy_begin(p, step, err);
	if (!tmp)
		return -1;
	if (resumable) {
		char *trainer = spar_path_join(tmp, "trainer"), *state = spar_path_join(trainer, "state.json");
		spar_dir_make(trainer, err);
		spar_file_write(state, "{}", 2, err);
		free(state);
		free(trainer);
	}
	return spar_policy_publish(p, tmp, step, 2, 0, err);
}

enum ending { ENDS, DIES };

/* A trainer that publishes up to version `last`, saving its state at every second one; then it ends its session, or not,
 * and waits to be killed. */
static pid_t start_trainer(int64_t last, enum ending ending)
{
	fflush(stdout);
	pid_t pid = fork();
	if (pid != 0)
		return pid;
	struct spar_policy *p;
	struct spar_err err = {0};
	int64_t step;
	if (spar_policy_claim(&p, dir, &step, &err) < 0)
		_exit(1);
	if (step < 0 && publish(p, step = 0, true, &err) < 0)
		_exit(2);
	if (spar_policy_ready(p, step, &err) < 0)
		_exit(3);
	for (step++; step <= last; step++)
		if (publish(p, step, step % 2 == 0, &err) < 0)
			_exit(4);
	if (ending == ENDS)
		spar_policy_end(p, &err);
	for (;;)
		pause();
}

static void stop(pid_t pid)
{
	int status;
	CHECK(!spar_process_is_ending(pid));
	kill(pid, SIGKILL);
	CHECK(spar_process_is_ending(pid)); /* at once, and until it is waited for */
	CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
}

static int wait_for(struct spar_policy *p, int64_t step, int64_t *version, struct spar_err *err)
{
	char *path;
	int rc = spar_policy_wait(p, step, TIMEOUT_S, version, &path, err);
	if (rc == 1)
		CHECK(spar_dir_exists(path));
	free(path);
	return rc;
}

static void follow(int64_t from, int64_t last, enum ending ending, int expected)
{
	struct spar_policy *p;
	struct spar_err err = {0};
	int64_t step, version;
	pid_t pid = start_trainer(last, ending);
	CHECK(spar_policy_attach(&p, dir, TIMEOUT_S, &step, &err) == 0);
	CHECK(step == from);
	CHECK(wait_for(p, last, &version, &err) == 1 && version == last);
	if (ending == DIES)
		stop(pid);
	CHECK(wait_for(p, last + 1, &version, &err) == expected);
	if (ending == DIES)
		CHECK(strstr(err.msg, "has died before version"));
	else
		stop(pid);
	spar_policy_close(p);
}

static void exclusive(void)
{
	struct spar_policy *follower, *p;
	struct spar_err err = {0};
	int64_t step, version;
	char *path;
	pid_t pid = start_trainer(4, ENDS);
	CHECK(spar_policy_attach(&follower, dir, TIMEOUT_S, &step, &err) == 0);
	CHECK(wait_for(follower, 4, &version, &err) == 1);
	CHECK(spar_policy_claim(&p, dir, &step, &err) < 0 && p == NULL);
	CHECK(strstr(err.msg, "another update is at work here"));
	stop(pid);
	spar_policy_close(follower);

	CHECK(spar_policy_attach(&follower, dir, 0.02, &step, &err) < 0 && follower == NULL);
	CHECK(strstr(err.msg, "no update has come"));
	path = spar_policy_resolve(dir, &version, &err);
	CHECK(path && version == 4);
	free(path);
	path = spar_policy_resolve("/tmp", &version, &err);
	CHECK_STR(path ? path : "", "/tmp");
	CHECK(version == -1);
	free(path);
	CHECK(spar_policy_resolve("/no/such/folder", &version, &err) == NULL);
}

/* Versions without any trainer state are not thrown away by a new run. */
static void nothing_to_resume(void)
{
	struct spar_policy *p;
	struct spar_err err = {0};
	int64_t step;
	/* Which of the older ones is still there depends on who was faster. */
	static const char *const versions[] = {"v000002/trainer", "v000003/trainer", "v000004/trainer"};
	for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
		char *state = in_dir(versions[i]);
		spar_dir_remove(state, &err);
		free(state);
	}
	if (spar_policy_claim(&p, dir, &step, &err) == 0)
		spar_policy_close(p);
	else
		p = NULL;
	CHECK(p == NULL);
	CHECK(strstr(err.msg, "none with trainer state") && there("v000004"));
}

int main(void)
{
	struct spar_err err = {0};
	if (!mkdtemp(dir))
		return 1;
	follow(0, 3, DIES, -(int)SPAR_FAIL);
	CHECK(there("v000002") && there("v000003") && !there("v000000"));
	char *unfinished = in_dir("v000009.tmp.1/trainer"); /* its number is another process's by now */
	CHECK(spar_dir_make(unfinished, &err) == 0);
	free(unfinished);
	follow(2, 3, ENDS, 0); /* back to version 2: 3 cannot be resumed from */
	CHECK(!there("v000009.tmp.1"));
	exclusive();
	nothing_to_resume();
	spar_dir_remove(dir, &err);
	return unit_done();
}
