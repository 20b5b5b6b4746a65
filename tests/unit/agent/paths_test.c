/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/paths.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "unit/unit.h"

/* Linked with --wrap=geteuid, so that both root's places and a user's can be had by anybody. */
static uid_t fake_uid;
uid_t __wrap_geteuid(void);
uid_t __wrap_geteuid(void)
{
	return fake_uid;
}

static const char *const variables[] = {
    "SLUICE_RUNTIME_DIR", "SLUICE_STATE_DIR", "SLUICE_SOCKET",	 "SLUICE_CONFIG", "SLUICE_ROOT",
    "XDG_RUNTIME_DIR",	  "XDG_STATE_HOME",   "XDG_CONFIG_HOME", "HOME",
};

static int setup(void **state)
{
	for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++)
		(void)unsetenv(variables[i]);
	fake_uid = getuid();
	*state = unit_tmp_new();
	return 0;
}

static int teardown(void **state)
{
	*state = unit_tmp_free(*state);
	return 0;
}

static const struct agent_paths_given nothing;

static void test_root_has_the_machines_places(void **state)
{
	fake_uid = 0;
	setenv("XDG_RUNTIME_DIR", *state, 1); /* root's shell may have one: it is not used */
	setenv("SLUICE_ROOT", *state, 1);     /* this machine's /etc is not the test's business */
	struct agent_paths paths;
	struct err err = {0};
	assert_int_equal(agent_paths_find(&nothing, &paths, &err), 0);
	assert_true(paths.is_system);
	assert_string_equal(paths.runtime_dir, "/run/sluice");
	assert_string_equal(paths.socket, "/run/sluice/agent.sock");
	assert_string_equal(paths.state_dir, "/var/lib/sluice");
	assert_string_equal(paths.config, "");
}

static void test_a_user_has_places_of_his_own(void **state)
{
	const char *directory = *state;
	struct agent_paths paths;
	struct err err = {0};
	fake_uid = getuid() == 0 ? 0 : getuid();
	setenv("HOME", directory, 1);
	if (getuid() == 0) { /* the directory is made that user's */
		fake_uid = 65533;
		assert_int_equal(chown(directory, fake_uid, (gid_t)-1), 0);
	}
	setenv("XDG_RUNTIME_DIR", directory, 1);
	assert_int_equal(agent_paths_find(&nothing, &paths, &err), 0);
	assert_false(paths.is_system);
	assert_string_equal(paths.runtime_dir, unit_path(directory, "sluice"));
	assert_string_equal(paths.socket, unit_path(directory, "sluice/agent.sock"));
	assert_string_equal(paths.state_dir, unit_path(directory, ".local/state/sluice"));
	setenv("XDG_STATE_HOME", "/x/state", 1);
	assert_int_equal(agent_paths_find(&nothing, &paths, &err), 0);
	assert_string_equal(paths.state_dir, "/x/state/sluice");
	setenv("XDG_STATE_HOME", "relative", 1); /* to be ignored, says its specification */
	assert_int_equal(agent_paths_find(&nothing, &paths, &err), 0);
	assert_string_equal(paths.state_dir, unit_path(directory, ".local/state/sluice"));
}

static void test_another_users_session_is_not_ours(void **state)
{
	fake_uid = getuid() + 77; /* who has no /run/user/UID either */
	setenv("HOME", "/h", 1);
	setenv("XDG_RUNTIME_DIR", *state, 1);
	struct agent_paths paths;
	struct err err = {0};
	assert_int_equal(agent_paths_find(&nothing, &paths, &err), 0);
	assert_string_equal(paths.runtime_dir, "/h/.local/state/sluice/run");
}

static void test_nobody_without_a_home_is_told_what_to_set(void **state)
{
	(void)state;
	fake_uid = 4000000001U; /* not in the user database */
	struct agent_paths paths;
	struct err err = {0};
	assert_int_equal(agent_paths_find(&nothing, &paths, &err), -ENOENT);
	assert_non_null(strstr(err.text, "SLUICE_STATE_DIR"));
	setenv("SLUICE_STATE_DIR", "/s", 1);
	assert_int_equal(agent_paths_find(&nothing, &paths, &err), 0);
	assert_string_equal(paths.socket, "/s/run/agent.sock");
}

static void test_given_beats_variables_beat_defaults(void **state)
{
	(void)state;
	fake_uid = 0;
	setenv("SLUICE_RUNTIME_DIR", "/v/run", 1);
	setenv("SLUICE_STATE_DIR", "/v/state", 1);
	setenv("SLUICE_CONFIG", "/v/config", 1);
	struct agent_paths paths;
	struct err err = {0};
	assert_int_equal(agent_paths_find(&nothing, &paths, &err), 0);
	assert_string_equal(paths.runtime_dir, "/v/run");
	assert_string_equal(paths.socket, "/v/run/agent.sock");
	assert_string_equal(paths.state_dir, "/v/state");
	assert_string_equal(paths.config, "/v/config"); /* named: so it stays, there or not */
	setenv("SLUICE_SOCKET", "/v/socket", 1);
	assert_int_equal(agent_paths_find(&nothing, &paths, &err), 0);
	assert_string_equal(paths.socket, "/v/socket");
	const struct agent_paths_given given = {.runtime_dir = "/g/run",
						.state_dir = "/g/state",
						.socket = "/g/socket",
						.config = "/g/c"};
	assert_int_equal(agent_paths_find(&given, &paths, &err), 0);
	assert_string_equal(paths.runtime_dir, "/g/run");
	assert_string_equal(paths.state_dir, "/g/state");
	assert_string_equal(paths.socket, "/g/socket");
	assert_string_equal(paths.config, "/g/c");
}

static void test_relative_names_become_absolute(void **state)
{
	char here[FILE_PATH_MAX], wanted[FILE_PATH_MAX];
	assert_int_equal(chdir(*state), 0);
	assert_non_null(getcwd(here, sizeof(here)));
	const struct agent_paths_given given = {.runtime_dir = "r", .state_dir = "s"};
	struct agent_paths paths;
	struct err err = {0};
	assert_int_equal(agent_paths_find(&given, &paths, &err), 0);
	assert_int_equal(file_path(wanted, &err, "%s/r/agent.sock", here), 0);
	assert_string_equal(paths.socket, wanted);
	assert_int_equal(chdir("/"), 0);
}

static void test_a_socket_name_that_no_socket_can_have(void **state)
{
	(void)state;
	char longest[300];
	memset(longest, 'x', sizeof(longest));
	longest[0] = '/';
	longest[sizeof(longest) - 1] = '\0';
	const struct agent_paths_given given = {.runtime_dir = longest, .state_dir = "/s"};
	struct agent_paths paths;
	struct err err = {0};
	assert_int_equal(agent_paths_find(&given, &paths, &err), -ENAMETOOLONG);
	assert_non_null(strstr(err.text, "107"));
}

static void test_the_configuration_of_a_user_comes_first(void **state)
{
	const char *directory = *state;
	char path[FILE_PATH_MAX];
	struct err err = {0};
	fake_uid = 12345;
	setenv("XDG_CONFIG_HOME", directory, 1);
	assert_int_equal(mkdir(unit_path(directory, "sluice"), 0755), 0);
	unit_write(unit_path(directory, "sluice/config.yaml"), "version: v1\n");
	assert_int_equal(agent_paths_config(NULL, path, &err), 0);
	assert_string_equal(path, unit_path(directory, "sluice/config.yaml"));
	/* A simulated machine has its own. */
	setenv("SLUICE_ROOT", unit_path(directory, "root"), 1);
	assert_int_equal(agent_paths_config(NULL, path, &err), 0);
	assert_string_equal(path, "");
	assert_int_equal(file_mkdirs(unit_path(directory, "root/etc/sluice"), 0755, &err), 0);
	unit_write(unit_path(directory, "root/etc/sluice/config.yaml"), "version: v1\n");
	assert_int_equal(agent_paths_config(NULL, path, &err), 0);
	assert_string_equal(path, unit_path(directory, "root/etc/sluice/config.yaml"));
}

static int listen_on(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	assert_true(strlen(path) < sizeof(address.sun_path));
	memcpy(address.sun_path, path, strlen(path));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 4), 0);
	return fd;
}

static void test_a_client_is_told_whether_one_answers(void **state)
{
	char out[FILE_PATH_MAX], wanted[FILE_PATH_MAX];
	struct err err = {0};
	setenv("SLUICE_RUNTIME_DIR", *state, 1);
	setenv("SLUICE_STATE_DIR", *state, 1);
	assert_int_equal(file_path(wanted, &err, "%s/agent.sock", (const char *)*state), 0);
	assert_int_equal(agent_paths_client(NULL, out, &err), -ECONNREFUSED);
	assert_string_equal(out, wanted);
	assert_non_null(strstr(err.text, wanted));
	_cleanup_close_ int fd = listen_on(wanted);
	assert_int_equal(agent_paths_client(NULL, out, &err), 0);
	assert_string_equal(out, wanted);
	(void)close(take_fd(&fd)); /* the file stays: nobody listens there */
	assert_int_equal(agent_paths_client(NULL, out, &err), -ECONNREFUSED);

	const char *other = unit_path(*state, "other");
	_cleanup_close_ int second = listen_on(other);
	(void)second; /* clang does not count its cleanup as a use */
	assert_int_equal(agent_paths_client(other, out, &err), 0);
	assert_string_equal(out, other);
	setenv("SLUICE_SOCKET", other, 1);
	assert_int_equal(agent_paths_client(NULL, out, &err), 0);
	assert_string_equal(out, other);
	assert_int_equal(agent_paths_client(wanted, out, &err), -ECONNREFUSED);
	assert_string_equal(out, wanted);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_root_has_the_machines_places, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_user_has_places_of_his_own, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_another_users_session_is_not_ours, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(test_nobody_without_a_home_is_told_what_to_set, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(test_given_beats_variables_beat_defaults, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(test_relative_names_become_absolute, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_socket_name_that_no_socket_can_have, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(test_the_configuration_of_a_user_comes_first, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(test_a_client_is_told_whether_one_answers, setup,
					    teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
