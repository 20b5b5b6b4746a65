/* SPDX-License-Identifier: Apache-2.0 */
#include "job/cgroup/cgoom.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "unit/unit.h"

enum { LIMIT_BYTES = 16 << 20, HOG_BYTES = 64 << 20, GROUP_MAX = 128 };

static bool write_text(const char *group, const char *file, const char *text)
{
	char path[FILE_PATH_MAX];
	assert_int_equal(file_path(path, NULL, "%s/%s", group, file), 0);
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* In this group, as much memory as it says. */
static int hog(const char *group, size_t bytes)
{
	pid_t pid = fork();
	if (pid == 0) {
		if (!write_text(group, "cgroup.procs", "0"))
			_exit(1);
		char *all = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		_exit(all == MAP_FAILED);
	}
	int status = 0;
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
	return status;
}

static void a_group_below_that_is_gone(void **state)
{
	char group[GROUP_MAX], below[GROUP_MAX + 8], limit[32];
	(void)snprintf(group, sizeof(group), "/sys/fs/cgroup/memory/sluice-unit-%d", (int)getpid());
	(void)snprintf(below, sizeof(below), "%s/below", group);
	if (mkdir(group, 0755) < 0) {
		print_message("skipped: no group of cgroup v1 for memory can be made here\n");
		skip();
	}
	(void)snprintf(limit, sizeof(limit), "%d", LIMIT_BYTES);
	bool is_limited = write_text(group, "memory.limit_in_bytes", limit);
	assert_int_equal(mkdir(below, 0755), 0);
	_cleanup_close_ int fd = cgoom_watch(group, NULL);
	int enough = hog(below, 1 << 20);
	bool too_early = cgoom_has_run_out(fd);
	int too_much = hog(below, HOG_BYTES);
	int removed = rmdir(below);
	bool has_run_out = cgoom_has_run_out(fd), again = cgoom_has_run_out(fd);
	(void)rmdir(group);
	assert_true(is_limited && fd >= 0 && removed == 0);
	assert_int_equal(enough, 0);
	assert_false(too_early);
	assert_true(WIFSIGNALED(too_much) && WTERMSIG(too_much) == SIGKILL);
	assert_true(has_run_out);
	assert_false(again);
}

static void what_is_no_such_group(void **state)
{
	char *tmp = unit_tmp_new();
	struct err err = {0};
	assert_int_equal(cgoom_watch(tmp, &err), -ENOENT);
	assert_non_null(strstr(err.text, "memory.oom_control"));
	unit_write(unit_path(tmp, "memory.oom_control"), "");
	assert_int_equal(cgoom_watch(tmp, &err), -ENOENT);
	assert_non_null(strstr(err.text, "cgroup.event_control"));
	assert_false(cgoom_has_run_out(-1));
	tmp = unit_tmp_free(tmp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_group_below_that_is_gone),
	    cmocka_unit_test(what_is_no_such_group),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
