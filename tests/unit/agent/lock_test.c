/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/lock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/paths.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "unit/unit.h"

static int setup(void **state)
{
	*state = unit_tmp_new();
	return 0;
}

static int teardown(void **state)
{
	*state = unit_tmp_free(*state);
	return 0;
}

static void paths_below(const char *directory, struct agent_paths *out)
{
	*out = (struct agent_paths){.is_system = false};
	assert_int_equal(file_path(out->runtime_dir, NULL, "%s/run/sluice", directory), 0);
	assert_int_equal(file_path(out->state_dir, NULL, "%s/state/sluice", directory), 0);
	assert_int_equal(file_path(out->socket, NULL, "%s/s", directory), 0);
}

static unsigned mode_of(const char *path)
{
	struct stat info;
	assert_int_equal(stat(path, &info), 0);
	return info.st_mode & 07777;
}

static void test_one_agent_of_a_directory(void **state)
{
	struct agent_paths paths;
	struct err err = {0};
	char number[32];
	paths_below(*state, &paths);
	_cleanup_close_ int fd = agent_lock_take(&paths, &err);
	assert_true(fd >= 0);
	assert_int_equal(mode_of(paths.runtime_dir), 0700);
	assert_int_equal(agent_lock_take(&paths, &err), -EBUSY);
	(void)snprintf(number, sizeof(number), "process %d", (int)getpid());
	assert_non_null(strstr(err.text, number));
	assert_non_null(strstr(err.text, "agent.lock"));
	(void)close(take_fd(&fd));
	fd = agent_lock_take(&paths, &err); /* the file that stayed is no obstacle */
	assert_true(fd >= 0);
}

static void test_the_machines_directory_is_open_to_all(void **state)
{
	struct agent_paths paths;
	struct err err = {0};
	paths_below(*state, &paths);
	paths.is_system = true;
	_cleanup_close_ int fd = agent_lock_take(&paths, &err);
	assert_true(fd >= 0);
	assert_int_equal(mode_of(paths.runtime_dir), 0755);
}

static void test_a_directory_that_others_can_write(void **state)
{
	struct agent_paths paths;
	struct err err = {0};
	paths_below(*state, &paths);
	assert_int_equal(file_mkdirs(paths.runtime_dir, 0755, &err), 0);
	assert_int_equal(chmod(paths.runtime_dir, 0775), 0);
	assert_int_equal(agent_lock_take(&paths, &err), -EPERM);
	assert_non_null(strstr(err.text, "chmod"));
	assert_int_equal(rmdir(paths.runtime_dir), 0);
	assert_int_equal(symlink("/", paths.runtime_dir), 0);
	assert_true(agent_lock_take(&paths, &err) < 0);
}

static void test_the_state_directory_has_its_mode(void **state)
{
	struct agent_paths paths;
	struct err err = {0};
	paths_below(*state, &paths);
	assert_int_equal(agent_lock_make_state(&paths, false, &err), 0);
	assert_int_equal(mode_of(paths.state_dir), 0700);

	/* whether it is for an agent that ends when it is idle is known while it is away */
	char mark[FILE_PATH_MAX];
	assert_int_equal(file_path(mark, &err, "%s/" AGENT_PATHS_ON_DEMAND, paths.state_dir), 0);
	assert_false(file_exists(mark));
	assert_int_equal(agent_lock_make_state(&paths, true, &err), 0);
	assert_int_equal(agent_lock_make_state(&paths, true, &err), 0);
	assert_true(file_exists(mark));
	assert_int_equal(agent_lock_make_state(&paths, false, &err), 0);
	assert_false(file_exists(mark));

	paths.is_system = true;
	assert_int_equal(agent_lock_make_state(&paths, false, &err), 0);
	assert_int_equal(mode_of(paths.state_dir), 0711);
	assert_int_equal(chmod(paths.state_dir, 0777), 0);
	assert_int_equal(agent_lock_make_state(&paths, false, &err), -EPERM);
}

static void test_directories_of_somebody_else(void **state)
{
	struct agent_paths paths;
	struct err err = {0};
	if (getuid() != 0)
		skip(); /* only root can make one */
	paths_below(*state, &paths);
	assert_int_equal(file_mkdirs(paths.runtime_dir, 0755, &err), 0);
	assert_int_equal(file_mkdirs(paths.state_dir, 0755, &err), 0);
	assert_int_equal(chown(paths.runtime_dir, 65534, (gid_t)-1), 0);
	assert_int_equal(chown(paths.state_dir, 65534, (gid_t)-1), 0);
	assert_int_equal(agent_lock_take(&paths, &err), -EPERM);
	assert_non_null(strstr(err.text, "65534"));
	assert_int_equal(agent_lock_make_state(&paths, false, &err), -EPERM);
}

static void test_a_socket_on_which_somebody_listens(void **state)
{
	struct agent_paths paths;
	struct err err = {0};
	char number[32];
	paths_below(*state, &paths);
	assert_int_equal(agent_lock_check_socket(paths.socket, &err), 0);
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	memcpy(address.sun_path, paths.socket, strlen(paths.socket));
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(agent_lock_check_socket(paths.socket, &err), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(agent_lock_check_socket(paths.socket, &err), -EBUSY);
	(void)snprintf(number, sizeof(number), "process %d", (int)getpid());
	assert_non_null(strstr(err.text, number));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_one_agent_of_a_directory, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_the_machines_directory_is_open_to_all, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(test_a_directory_that_others_can_write, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(test_the_state_directory_has_its_mode, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_directories_of_somebody_else, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_socket_on_which_somebody_listens, setup,
					    teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
