/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "job/jobenv.h"
#include "libexec/supervise/port.h"
#include "unit/unit.h"

static void two_never_have_the_same(void **state)
{
	int fds[3] = {-1, -1, -1}, more;
	char text[16];
	struct err err = {0};
	int first = port_take("0", 17, &fds[0], NULL), second = port_take("0", 17, &fds[1], NULL);
	assert_true(first >= PORT_FIRST && second >= PORT_FIRST && first != second);
	(void)snprintf(text, sizeof(text), "%d:80", first);
	assert_int_equal(port_take(text, 0, &more, &err), -EADDRINUSE);
	assert_non_null(strstr(err.text, "is not free"));
	(void)close(fds[0]);
	assert_int_equal(port_take(text, 0, &fds[2], NULL), first);
	(void)close(fds[1]);
	(void)close(fds[2]);
}

static void one_on_which_somebody_listens_is_not_taken(void **state)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	char text[16];
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), taken = -1;
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
	(void)snprintf(text, sizeof(text), "%d", ntohs(address.sin_port));
	assert_int_equal(port_take(text, 0, &taken, NULL), -EADDRINUSE);
	assert_int_equal(taken, -1);
	(void)close(fd);
	assert_int_equal(port_take(text, 0, &taken, NULL), ntohs(address.sin_port));
	(void)close(taken);
}

static void other_texts_are_refused(void **state)
{
	int fd = -1;
	assert_int_equal(port_take("http", 0, &fd, NULL), -EINVAL);
	assert_int_equal(port_take("65536", 0, &fd, NULL), -EINVAL);
	assert_int_equal(port_take("", 0, &fd, NULL), -EINVAL);
}

static void the_job_is_told(void **state)
{
	char **environment = calloc(2, sizeof(*environment));
	environment[0] = strdup("A=1");
	assert_int_equal(port_tell(8888, &environment), 0);
	assert_string_equal(environment[1], "SLUICE_PORT=8888");
	assert_null(environment[2]);
	jobenv_free(environment);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(two_never_have_the_same),
	    cmocka_unit_test(one_on_which_somebody_listens_is_not_taken),
	    cmocka_unit_test(other_texts_are_refused),
	    cmocka_unit_test(the_job_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
