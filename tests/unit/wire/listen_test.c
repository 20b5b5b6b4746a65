/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "unit/unit.h"

static int set_up(void **state)
{
	*state = unit_tmp_new();
	return 0;
}

static int tear_down(void **state)
{
	*state = unit_tmp_free(*state);
	return 0;
}

static void test_mode_whatever_the_umask(void **state)
{
	static const mode_t umasks[] = {0, 0077, 0777}, modes[] = {0600, 0666};
	for (size_t i = 0; i < 3; i++) {
		for (size_t j = 0; j < 2; j++) {
			const char *path = unit_path(*state, "socket");
			struct stat status;
			mode_t old = umask(umasks[i]);
			_cleanup_close_ int fd = wire_listen_unix(path, modes[j], NULL);
			(void)umask(old);
			assert_true(fd >= 0);
			assert_int_equal(stat(path, &status), 0);
			assert_int_equal(status.st_mode & 07777, modes[j]);
			assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
			assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
			assert_int_equal(unlink(path), 0);
		}
	}
}

static void test_stale_socket_is_replaced(void **state)
{
	const char *path = unit_path(*state, "socket");
	int fd = wire_listen_unix(path, 0600, NULL);
	assert_true(fd >= 0);
	(void)close(fd); /* and its file stays, as after a crash */
	fd = wire_listen_unix(path, 0600, NULL);
	assert_true(fd >= 0);
	/* One that lives is left alone. */
	struct err err = {0};
	assert_int_equal(wire_listen_unix(path, 0600, &err), -EADDRINUSE);
	assert_non_null(strstr(err.text, path));
	(void)close(fd);
}

static void test_what_is_no_socket_stays(void **state)
{
	const char *path = unit_path(*state, "file");
	unit_write(path, "precious");
	struct err err = {0};
	assert_int_equal(wire_listen_unix(path, 0600, &err), -EEXIST);
	assert_non_null(strstr(err.text, "remove it"));
	assert_int_equal(access(path, F_OK), 0);
	/* Nor is a link followed. */
	const char *link = unit_path(*state, "link");
	assert_int_equal(symlink("nowhere", link), 0);
	assert_int_equal(wire_listen_unix(link, 0600, &err), -EEXIST);
}

/* A directory whose path alone is too long for an address; owned. */
static char *deep(const char *directory)
{
	char *path = strdup(directory);
	assert_non_null(path);
	while (path && strlen(path) < 200) {
		char *next = NULL;
		assert_true(asprintf(&next, "%s/a-directory-with-a-name", path) > 0);
		free(path);
		path = next;
		assert_int_equal(mkdir(path, 0700), 0);
	}
	return path;
}

static void test_path_longer_than_an_address(void **state)
{
	_cleanup_free_ char *directory = deep(*state);
	_cleanup_free_ char *path = NULL;
	assert_true(asprintf(&path, "%s/socket", directory) > 0);
	int fd = wire_listen_unix(path, 0600, NULL);
	assert_true(fd >= 0);
	struct stat status;
	assert_int_equal(lstat(path, &status), 0);
	assert_true(S_ISSOCK(status.st_mode));
	assert_int_equal(status.st_mode & 07777, 0600);
	struct err err = {0};
	assert_int_equal(wire_listen_unix(path, 0600, &err), -EADDRINUSE);
	assert_non_null(strstr(err.text, path));
	/* Others find it there as well, and a stale one is replaced there. */
	struct sockaddr_un address;
	_cleanup_close_ int held = -1, connected = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(wire_unix_address(path, &address, &held, NULL), 0);
	assert_true(held >= 0);
	assert_int_equal(connect(connected, (struct sockaddr *)&address, sizeof(address)), 0);
	(void)close(fd);
	fd = wire_listen_unix(path, 0600, NULL);
	assert_true(fd >= 0);
	(void)close(fd);
}

static void test_name_that_is_too_long(void **state)
{
	char path[200];
	struct err err = {0};
	int directory = -2;
	memset(path, 'x', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(wire_listen_unix(path, 0600, &err), -ENAMETOOLONG);
	assert_non_null(strstr(err.text, "name of a socket has at most"));
	struct sockaddr_un address;
	path[107] = '\0';
	assert_int_equal(wire_unix_address(path, &address, &directory, &err), 0);
	assert_string_equal(address.sun_path, path);
	assert_int_equal(directory, -1);
}

static void test_directory_that_is_missing(void **state)
{
	struct err err = {0};
	assert_int_equal(wire_listen_unix(unit_path(*state, "no/socket"), 0600, &err), -ENOENT);
	assert_non_null(strstr(err.text, "no/socket"));
	char path[200];
	(void)snprintf(path, sizeof(path), "%s/no/%0130d/socket", (const char *)*state, 0);
	assert_int_equal(wire_listen_unix(path, 0600, &err), -ENOENT);
	assert_non_null(strstr(err.text, "cannot open the directory"));
}

#define listen_test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    listen_test(test_mode_whatever_the_umask),
	    listen_test(test_stale_socket_is_replaced),
	    listen_test(test_what_is_no_socket_stays),
	    listen_test(test_path_longer_than_an_address),
	    listen_test(test_name_that_is_too_long),
	    listen_test(test_directory_that_is_missing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
