/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/keep.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "job/cgroup/cgroup.h"
#include "unit/unit.h"

enum { KEPT_WITHIN_MS = 10000 };

/* A process that becomes the keeper's parent, as systemd-run does. How it ended. */
static int start(const char *group)
{
	int status = 0;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct err err = {0};
		_exit(keep_start(group, &err) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void test_it_stays_in_its_group_and_lets_go_of_the_rest(void **state)
{
	struct cgroup scope = CGROUP_NONE, leaf = CGROUP_NONE;
	char name[64], path[FILE_PATH_MAX];
	size_t count = 0;
	int ends[2];
	(void)snprintf(name, sizeof(name), "sluice-unit-keep-%d", (int)getpid());
	if (cgroup_create("/sys/fs/cgroup/unified", name, &scope, NULL) < 0 &&
	    cgroup_create("/sys/fs/cgroup", name, &scope, NULL) < 0) {
		print_message("skipped: no cgroup2 directory that may be written\n");
		skip();
	}
	assert_int_equal(file_path(path, NULL, "%s/%s", scope.path, CGROUP_SUPERVISORS), 0);

	/* Whoever reads what was said must not wait for the keeper. */
	assert_int_equal(pipe(ends), 0);
	int was = dup(STDERR_FILENO);
	assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	(void)close(ends[1]);
	int status = start(path);
	assert_int_equal(dup2(was, STDERR_FILENO), STDERR_FILENO);
	(void)close(was);
	assert_int_equal(status, 0);
	struct pollfd said = {.fd = ends[0], .events = POLLIN};
	assert_int_equal(poll(&said, 1, KEPT_WITHIN_MS), 1);
	assert_false(said.revents & POLLIN);
	(void)close(ends[0]);

	assert_int_equal(cgroup_open(path, &leaf, NULL), 0);
	assert_int_equal(cgroup_count(&leaf, &count, NULL), 0);
	assert_int_equal(count, 1);
	_cleanup_close_ int events = cgroup_watch(&leaf, NULL);
	assert_int_equal(cgroup_kill(&leaf, NULL), 0);
	while (cgroup_is_populated(&leaf, NULL) > 0) {
		struct pollfd change = {.fd = events, .events = POLLPRI};
		assert_int_not_equal(poll(&change, 1, KEPT_WITHIN_MS), 0);
		char text[CGROUP_TEXT_MAX];
		(void)!pread(events, text, sizeof(text), 0);
	}
	assert_int_equal(cgroup_remove(&scope, NULL), 0);
	cgroup_close(&leaf);
	cgroup_close(&scope);
}

static void test_no_group_no_keeper(void **state)
{
	char *tree = unit_tmp_new();
	assert_int_not_equal(start(unit_path(tree, "no/group")), 0);
	assert_int_not_equal(start(unit_path(tree, "plain")), 0); /* not of a cgroup2 */
	unit_tmp_free(tree);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_it_stays_in_its_group_and_lets_go_of_the_rest),
	    cmocka_unit_test(test_no_group_no_keeper),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
