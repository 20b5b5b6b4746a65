/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/socket_file.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/paths.h"
#include "base/file.h"
#include "unit/unit.h"

static void test_whose_socket(void **state)
{
	(void)state;
	static struct agent_paths paths;
	struct socket_file file = {.is = {.st_ino = 0}}, none = file;
	struct stat info;
	(void)snprintf(paths.socket, sizeof(paths.socket), "%s/s", unit_top);
	assert_false(socket_file_is_there(&file, &paths));
	int fd = socket_file_listen(&file, &paths, NULL);
	assert_true(fd >= 0);
	assert_true(socket_file_is_there(&file, &paths));
	assert_int_equal(stat(paths.socket, &info), 0);
	assert_int_equal(info.st_mode & 0777, 0600);
	socket_file_remove(&none, &paths); /* one that we did not make */
	assert_true(socket_file_is_there(&file, &paths));
	char mine[FILE_PATH_MAX];
	(void)snprintf(mine, sizeof(mine), "%s/mine", unit_top);
	assert_int_equal(rename(paths.socket, mine), 0);
	unit_write(paths.socket, "another's");
	assert_false(socket_file_is_there(&file, &paths));
	socket_file_remove(&file, &paths);
	assert_true(file_exists(paths.socket));
	assert_int_equal(rename(mine, paths.socket), 0);
	socket_file_remove(&file, &paths);
	assert_false(file_exists(paths.socket));
	assert_int_equal(close(fd), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_whose_socket, unit_top_setup, unit_top_teardown)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
