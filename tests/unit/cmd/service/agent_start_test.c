/* SPDX-License-Identifier: Apache-2.0 */
/* This program is its own agent: agent_start() runs /proc/self/exe with "agent". */
#include "cmd/service/agent_start.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/parse.h"
#include "unit/unit.h"
#include "wire/listen.h"

#define DEADLINE_NS UINT64_C(10000000000)

/* Serves nothing, but is there: a socket that listens, the ready byte, its pid in a file. */
static int fake_agent(int argc, char **argv)
{
	const char *runtime = getenv("SLUICE_RUNTIME_DIR");
	const char *how = getenv("FAKE_AGENT");
	char path[4096];
	if (argc < 6 || strcmp(argv[2], "--exit-idle") != 0 || strcmp(argv[4], "--ready-fd") != 0 ||
	    strcmp(argv[5], "3") != 0 || getenv("NOTIFY_SOCKET"))
		return 2;

	/* Nobody's child, as soon as the process between has ended. */
	alarm(30); /* should nobody end it */
	while (getsid(0) == getppid())
		(void)sched_yield();

	if (strcmp(how, "is second") == 0) {
		fprintf(stderr, "sluice agent: another agent (process 1) has the lock\n");
		return 1;
	}
	if (strcmp(how, "fails") == 0) {
		fprintf(stderr, "first line\nsluice agent: the state is damaged\n");
		return 1;
	}
	(void)snprintf(path, sizeof(path), "%s/agent.sock", runtime);
	if (strcmp(how, "hangs") != 0 &&
	    (wire_listen_unix(path, 0600, NULL) < 0 || write(3, "r", 1) != 1))
		return 3;
	(void)snprintf(path, sizeof(path), "%s/pid.%d", runtime, (int)getpid());
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (strcmp(how, "hangs") != 0)
		(void)close(3);
	(void)pause();
	return fd < 0;
}

struct fixture {
	char *directory;
	char state[128];
};

static int set_up(void **state)
{
	static struct fixture fixture;
	fixture.directory = unit_tmp_new();
	(void)snprintf(fixture.state, sizeof(fixture.state), "%s/state", fixture.directory);
	assert_int_equal(setenv("SLUICE_RUNTIME_DIR", fixture.directory, 1), 0);
	assert_int_equal(setenv("SLUICE_STATE_DIR", fixture.state, 1), 0);
	assert_int_equal(setenv("NOTIFY_SOCKET", "/x", 1), 0);
	*state = &fixture;
	return 0;
}

/* Ends the agents that were started; how many there were. */
static unsigned end_agents(const struct fixture *fixture)
{
	char command[512];
	(void)snprintf(command, sizeof(command), "ls %s | sed -n 's/^pid\\.//p'",
		       fixture->directory);
	FILE *list = popen(command, "r");
	assert_non_null(list);
	char line[64];
	unsigned count = 0;
	while (fgets(line, sizeof(line), list)) {
		uint64_t pid;
		line[strcspn(line, "\n")] = '\0';
		assert_int_equal(parse_u64(line, 2, INT32_MAX, &pid), 0);
		(void)kill((pid_t)pid, SIGKILL);
		count++;
	}
	(void)pclose(list);
	return count;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;
	(void)end_agents(fixture);
	fixture->directory = unit_tmp_free(fixture->directory);
	return 0;
}

static void test_several_start_one(void **state)
{
	struct fixture *fixture = *state;
	assert_int_equal(setenv("FAKE_AGENT", "serves", 1), 0);
	pid_t pids[4];
	for (int i = 0; i < 4; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0) {
			struct err err = {0};
			int rc = agent_start(NULL, NULL, DEADLINE_NS, &err);
			_exit(rc == 0 ? 0 : 1);
		}
	}
	for (int i = 0; i < 4; i++) {
		int status;
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	assert_int_equal(end_agents(fixture), 1);
	struct stat info;
	assert_int_equal(stat(fixture->state, &info), 0);
	assert_int_equal(stat(unit_path(fixture->state, "agent.log"), &info), 0);
	assert_int_equal(info.st_mode & 0777, 0600);
}

static void test_one_that_ends_at_once(void **state)
{
	struct err err = {0};
	assert_int_equal(setenv("FAKE_AGENT", "fails", 1), 0);
	assert_int_equal(agent_start(NULL, NULL, DEADLINE_NS, &err), -ECONNREFUSED);
	assert_non_null(strstr(err.text, "ended at once: the state is damaged"));
	/* the words of the one before are not taken for its own */
	assert_int_equal(setenv("FAKE_AGENT", "hangs", 1), 0);
	assert_int_equal(agent_start(NULL, NULL, 200000000, &err), -ETIMEDOUT);
	assert_non_null(strstr(err.text, "agent.log"));
}

/* The other one has its lock and is not listening yet. */
static void test_another_that_starts_just_now(void **state)
{
	struct fixture *fixture = *state;
	struct err err = {0};
	assert_int_equal(setenv("FAKE_AGENT", "is second", 1), 0);
	assert_int_equal(agent_start(NULL, NULL, 200000000, &err), -ECONNREFUSED);
	assert_non_null(strstr(err.text, "another agent"));
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int rc = agent_start(NULL, NULL, DEADLINE_NS, &err);
		_exit(rc == 0 ? 0 : 1);
	}
	/* its agent has said so once more by the time that there is a second line in the log */
	const char *log = unit_path(fixture->state, "agent.log");
	uint64_t until_ns = unit_now_ns() + DEADLINE_NS;
	struct stat info = {0};
	for (off_t first = 0; stat(log, &info) == 0 && info.st_size <= first;
	     first = first ? first : info.st_size)
		assert_true(unit_now_ns() < until_ns);
	int fd = wire_listen_unix(unit_path(fixture->directory, "agent.sock"), 0600, NULL);
	assert_true(fd >= 0);
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	(void)close(fd);
}

static void test_a_long_log_makes_room(void **state)
{
	struct fixture *fixture = *state;
	const char *log = unit_path(fixture->state, "agent.log");
	struct err err = {0};
	struct stat info;
	assert_int_equal(setenv("FAKE_AGENT", "fails", 1), 0);
	assert_int_equal(agent_start(NULL, NULL, DEADLINE_NS, &err), -ECONNREFUSED);
	assert_int_equal(truncate(log, (1 << 20) + 1), 0);
	assert_int_equal(agent_start(NULL, NULL, DEADLINE_NS, &err), -ECONNREFUSED);
	assert_non_null(strstr(err.text, "ended at once: the state is damaged"));
	assert_int_equal(stat(log, &info), 0);
	assert_true(info.st_size < 1024);
	assert_int_equal(stat(unit_path(fixture->state, "agent.log.1"), &info), 0);
	assert_int_equal(info.st_size, (1 << 20) + 1);
}

static void test_a_lock_that_is_kept(void **state)
{
	struct fixture *fixture = *state;
	struct err err = {0};
	int fd =
	    open(unit_path(fixture->directory, "start.lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_int_equal(agent_start(NULL, NULL, 100000000, &err), -ETIMEDOUT);
	assert_non_null(strstr(err.text, "start.lock"));
	(void)close(fd);
}

static void test_directories_that_cannot_be_made(void **state)
{
	struct fixture *fixture = *state;
	struct err err = {0};
	unit_write(unit_path(fixture->directory, "state"), "a file");
	int rc = agent_start(NULL, NULL, DEADLINE_NS, &err);
	assert_true(rc == -ENOTDIR || rc == -EEXIST);
	assert_non_null(strstr(err.text, fixture->state));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_several_start_one, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_one_that_ends_at_once, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_another_that_starts_just_now, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_a_long_log_makes_room, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_a_lock_that_is_kept, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_directories_that_cannot_be_made, set_up,
					    tear_down),
	};
	if (argc > 1 && strcmp(argv[1], "agent") == 0)
		return fake_agent(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
