/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

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

/* A service manager: `name` as in NOTIFY_SOCKET. */
static int manager_bind(const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t length = strlen(name);
	assert_true(length < sizeof(address.sun_path));
	memcpy(address.sun_path, name, length);
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
	if (name[0] == '@')
		address.sun_path[0] = '\0';
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)&address, size), 0);
	return fd;
}

static void manager_expect(int fd, const char *text)
{
	char got[2048] = "";
	assert_true(recv(fd, got, sizeof(got) - 1, 0) > 0);
	assert_string_equal(got, text);
}

static void tell_everything(int manager, const struct notify *notify)
{
	assert_int_equal(notify_ready(notify), 0);
	manager_expect(manager, "READY=1");
	assert_int_equal(notify_reloading(notify, UINT64_C(5000000123456)), 0);
	manager_expect(manager, "RELOADING=1\nMONOTONIC_USEC=5000000123");
	assert_int_equal(notify_status(notify, "2 jobs\nREADY=1"), 0);
	manager_expect(manager, "STATUS=2 jobs READY=1");
	assert_int_equal(notify_watchdog(notify), 0);
	manager_expect(manager, "WATCHDOG=1");
	assert_int_equal(notify_stopping(notify), 0);
	manager_expect(manager, "STOPPING=1");
}

static void test_a_socket_with_a_path(void **state)
{
	const char *path = unit_path(*state, "notify");
	_cleanup_close_ int manager = manager_bind(path);
	const struct notify_environment environment = {.socket = path};
	_cleanup_notify_ struct notify notify = NOTIFY_NONE;
	struct err err = {0};
	assert_int_equal(notify_init(&notify, &environment, &err), 0);
	assert_true(notify.watchdog_ns == 0);
	tell_everything(manager, &notify);
}

static void test_an_abstract_socket(void **state)
{
	(void)state;
	char name[64];
	(void)snprintf(name, sizeof(name), "@sluice-notify-test-%d", (int)getpid());
	_cleanup_close_ int manager = manager_bind(name);
	const struct notify_environment environment = {.socket = name};
	_cleanup_notify_ struct notify notify = NOTIFY_NONE;
	struct err err = {0};
	assert_int_equal(notify_init(&notify, &environment, &err), 0);
	tell_everything(manager, &notify);
}

static void test_nobody_to_tell(void **state)
{
	(void)state;
	const struct notify_environment none = {.watchdog_usec = "1000000"};
	struct notify notify;
	struct err err = {0};
	assert_int_equal(notify_init(&notify, &none, &err), 0);
	assert_int_equal(notify.fd, -1);
	assert_true(notify.watchdog_ns == 0);
	assert_int_equal(notify_ready(&notify), 0);
	assert_int_equal(notify_status(&notify, "x"), 0);
	notify_done(&notify);
}

static void test_names_that_are_none(void **state)
{
	char longest[200];
	memset(longest, 'x', sizeof(longest));
	longest[0] = '/';
	longest[sizeof(longest) - 1] = '\0';
	const struct {
		struct notify_environment environment;
		int code;
	} rows[] = {
	    {{.socket = "relative"}, -EINVAL},
	    {{.socket = "/"}, -EINVAL},
	    {{.socket = longest}, -EINVAL},
	    {{.socket = "vsock:2:1234"}, -EAFNOSUPPORT},
	    {{.socket = "/x", .watchdog_usec = "-1"}, -EINVAL},
	    {{.socket = "/x", .watchdog_usec = "99999999999999999999"}, -EINVAL},
	    {{.socket = "/x", .watchdog_usec = "1", .watchdog_pid = "x"}, -EINVAL},
	    {{.socket = unit_path(*state, "missing")}, -ENOENT},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct notify notify;
		struct err err = {0};
		assert_int_equal(notify_init(&notify, &rows[i].environment, &err), rows[i].code);
		assert_int_equal(notify.fd, -1);
		assert_true(err.text[0] != '\0');
	}
}

static void test_the_watchdog_may_be_another_processes(void **state)
{
	const char *path = unit_path(*state, "notify");
	_cleanup_close_ int manager = manager_bind(path);
	(void)manager; /* clang does not count its cleanup as a use */
	char own[16];
	(void)snprintf(own, sizeof(own), "%d", (int)getpid());
	struct notify_environment environment = {
	    .socket = path, .watchdog_usec = "30000000", .watchdog_pid = own};
	_cleanup_notify_ struct notify notify = NOTIFY_NONE;
	struct err err = {0};
	assert_int_equal(notify_init(&notify, &environment, &err), 0);
	assert_true(notify.watchdog_ns == UINT64_C(30000000000));
	notify_done(&notify);
	environment.watchdog_pid = "1";
	assert_int_equal(notify_init(&notify, &environment, &err), 0);
	assert_true(notify.watchdog_ns == 0);
	assert_true(notify.fd >= 0);
}

static void test_the_environment_is_taken(void **state)
{
	const char *path = unit_path(*state, "notify");
	_cleanup_close_ int manager = manager_bind(path);
	(void)manager; /* clang does not count its cleanup as a use */
	setenv("NOTIFY_SOCKET", path, 1);
	setenv("WATCHDOG_USEC", "2000000", 1);
	_cleanup_notify_ struct notify notify = NOTIFY_NONE;
	struct err err = {0};
	assert_int_equal(notify_take_environment(&notify, &err), 0);
	assert_true(notify.watchdog_ns == UINT64_C(2000000000));
	assert_null(getenv("NOTIFY_SOCKET"));
	assert_null(getenv("WATCHDOG_USEC"));
}

static void test_a_manager_that_does_not_read(void **state)
{
	const char *path = unit_path(*state, "notify");
	_cleanup_close_ int manager = manager_bind(path);
	(void)manager; /* clang does not count its cleanup as a use */
	const struct notify_environment environment = {.socket = path};
	_cleanup_notify_ struct notify notify = NOTIFY_NONE;
	struct err err = {0};
	assert_int_equal(notify_init(&notify, &environment, &err), 0);
	int result = 0;
	for (int i = 0; result == 0 && i < 100000; i++)
		result = notify_watchdog(&notify);
	assert_int_equal(result, -EAGAIN); /* and it did come back */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_a_socket_with_a_path, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_an_abstract_socket, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_nobody_to_tell, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_names_that_are_none, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_the_watchdog_may_be_another_processes, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(test_the_environment_is_taken, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_manager_that_does_not_read, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
