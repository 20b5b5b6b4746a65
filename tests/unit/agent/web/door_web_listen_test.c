/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/web/door_web_listen.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "unit/unit.h"

static int listen_on(const char *text, struct err *err)
{
	struct address address;
	int rc = address_parse(text, strlen(text), &address, err);
	return rc < 0 ? rc : web_listen(&address, err);
}

static void test_a_port_of_its_own(void **state)
{
	char name[ADDRESS_TEXT_MAX];
	struct err err = {0};
	int fd = listen_on("127.0.0.1:0", &err);
	assert_true(fd >= 0);
	web_listen_name(fd, name);
	assert_int_equal(strncmp(name, "127.0.0.1:", 10), 0);
	assert_string_not_equal(name, "127.0.0.1:0");
	assert_true(web_listen_is_well(fd));
	/* Taken: an error that names it and says what to do. */
	assert_int_equal(listen_on(name, &err), -EADDRINUSE);
	assert_non_null(strstr(err.text, name));
	assert_non_null(strstr(err.text, "sluice.web.address"));
	/* Whoever has it can shut it down. */
	assert_int_equal(shutdown(fd, SHUT_RDWR), 0);
	assert_false(web_listen_is_well(fd));
	(void)close(fd);
	fd = listen_on(name, &err);
	assert_true(fd >= 0); /* free again at once */
	(void)close(fd);
	assert_false(web_listen_is_well(fd));
}

static void test_every_address(void **state)
{
	char name[ADDRESS_TEXT_MAX];
	struct err err = {0};
	struct sockaddr_in to = {.sin_family = AF_INET};
	struct sockaddr_in6 at;
	socklen_t length = sizeof(at);
	int fd = listen_on(":0", &err);
	assert_true(fd >= 0);
	web_listen_name(fd, name);
	if (getsockname(fd, (struct sockaddr *)&at, &length) < 0 || at.sin6_family != AF_INET6) {
		print_message("skipped: no IPv6 here\n");
		(void)close(fd);
		return;
	}
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	to.sin_port = at.sin6_port;
	int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(client, (struct sockaddr *)&to, sizeof(to)), 0);
	(void)close(client);
	(void)close(fd);
}

static void test_an_address_of_somebody_else(void **state)
{
	struct err err = {0};
	assert_int_equal(listen_on("192.0.2.1:9400", &err), -EADDRNOTAVAIL);
	assert_non_null(strstr(err.text, "192.0.2.1:9400"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_a_port_of_its_own),
	    cmocka_unit_test(test_every_address),
	    cmocka_unit_test(test_an_address_of_somebody_else),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
