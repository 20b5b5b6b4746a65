/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "job/jobsocket.h"
#include "unit/unit.h"

static void a_socket_in_a_deep_directory_connects(void **state)
{
	char *tmp = unit_tmp_new();
	int directory = open(tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(mkdirat(directory, "a directory of many", 0700), 0);
		int inner = openat(directory, "a directory of many", O_RDONLY | O_CLOEXEC);
		assert_true(inner >= 0);
		assert_int_equal(close(directory), 0);
		directory = inner;
	}
	struct err err = {0};
	assert_int_equal(jobsocket_connect(directory, "control", &err), -ENOENT);
	int listener = jobsocket_listen(directory, "control", JOBSOCKET_OURS, 0, 4, &err);
	assert_true(listener >= 0);
	struct stat status;
	assert_int_equal(fstatat(directory, "control", &status, 0), 0);
	assert_int_equal(status.st_mode & 0777, 0600);
	int ours = jobsocket_connect(directory, "control", &err);
	assert_true(ours >= 0);
	int theirs = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(theirs >= 0);
	assert_int_equal(send(ours, "abc", 3, 0), 3);
	char bytes[10];
	assert_int_equal(recv(theirs, bytes, sizeof(bytes), 0), 3);
	(void)close(ours);
	(void)close(theirs);
	(void)close(listener);

	/* Of one that is dead: refused, and no hindrance for the next. */
	assert_int_equal(jobsocket_connect(directory, "control", &err), -ECONNREFUSED);
	listener = jobsocket_listen(directory, "control", JOBSOCKET_OURS, 0, 4, &err);
	assert_true(listener >= 0);
	(void)close(listener);
	jobsocket_remove(directory, "control");
	assert_int_equal(fstatat(directory, "control", &status, 0), -1);
	(void)close(directory);
	(void)unit_tmp_free(tmp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_socket_in_a_deep_directory_connects),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
