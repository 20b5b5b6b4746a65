/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/uevent.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "unit/unit.h"

#define ADD	 "add@/devices/pci0000:00/0000:00:02.0/infiniband/mlx5_0\0ACTION=add\0"
#define OF(text) text, sizeof(text) - 1

static void test_subsystems(void **state)
{
	(void)state;
	assert_true(uevent_is_of(OF(ADD "SUBSYSTEM=infiniband\0SEQNUM=9\0"), "infiniband"));
	assert_true(uevent_is_of(OF(ADD "SUBSYSTEM=infiniband"), "infiniband"));
	assert_false(uevent_is_of(OF(ADD "SUBSYSTEM=infiniband_verbs\0"), "infiniband"));
	assert_false(uevent_is_of(OF(ADD "SUBSYSTEM=infinib"), "infiniband"));
	assert_false(uevent_is_of(OF(ADD "XSUBSYSTEM=infiniband\0"), "infiniband"));
	assert_false(uevent_is_of(OF(ADD "NAME=SUBSYSTEM=infiniband\0"), "infiniband"));
	assert_false(uevent_is_of(OF(""), "infiniband"));
	assert_false(uevent_is_of(OF("\0\0\0\0"), "infiniband"));
}

/* What is no kernel's: here it comes from a socket that is not even netlink. */
static void test_nothing_waits(void **state)
{
	(void)state;
	int pair[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
	assert_false(uevent_take(pair[0], "infiniband"));
	assert_int_equal(send(pair[1], OF(ADD "SUBSYSTEM=net\0"), 0), sizeof(ADD "SUBSYSTEM=net"));
	assert_false(uevent_take(pair[0], "infiniband"));
	assert_int_equal(send(pair[1], OF(ADD "SUBSYSTEM=infiniband\0"), 0),
			 sizeof(ADD "SUBSYSTEM=infiniband"));
	assert_true(uevent_take(pair[0], "infiniband"));
	assert_false(uevent_take(pair[0], "infiniband"));
	(void)close(pair[0]);
	(void)close(pair[1]);
}

static void test_opened(void **state)
{
	(void)state;
	struct err err = {0};
	int fd = uevent_open(&err);
	if (fd < 0) {
		print_message("SKIPPED: %s\n", err.text);
		skip();
	}
	(void)uevent_take(fd, "infiniband");
	(void)close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_subsystems),
	    cmocka_unit_test(test_nothing_waits),
	    cmocka_unit_test(test_opened),
	};
	return cmocka_run_group_tests_name("hardware/uevent", tests, NULL, NULL);
}
