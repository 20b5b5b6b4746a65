/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "job/attach.h"
#include "unit/unit.h"

static void what_is_written_is_read(void **state)
{
	struct attach_message message = {.kind = ATTACH_SIZE, .rows = 50, .columns = 300}, again;
	char packet[ATTACH_PACKET_MAX];
	size_t length = attach_format(&message, packet);
	assert_int_equal(length, 5);
	assert_int_equal(attach_parse(packet, length, &again, NULL), 0);
	assert_int_equal(again.rows, 50);
	assert_int_equal(again.columns, 300);
	message = (struct attach_message){.kind = ATTACH_DATA, .data = "ls\r", .length = 3};
	length = attach_format(&message, packet);
	assert_int_equal(attach_parse(packet, length, &again, NULL), 0);
	assert_int_equal(again.kind, ATTACH_DATA);
	assert_int_equal(again.length, 3);
	assert_memory_equal(again.data, "ls\r", 3);
}

static void other_packets_are_refused(void **state)
{
	char packet[ATTACH_PACKET_MAX + 1];
	struct attach_message again;
	memset(packet, ATTACH_DATA, sizeof(packet));
	assert_int_equal(attach_parse(packet, 0, &again, NULL), -EBADMSG);
	assert_int_equal(attach_parse(packet, 1, &again, NULL), -EBADMSG);
	assert_int_equal(attach_parse(packet, ATTACH_PACKET_MAX, &again, NULL), 0);
	assert_int_equal(attach_parse(packet, ATTACH_PACKET_MAX + 1, &again, NULL), -EBADMSG);
	packet[0] = ATTACH_SIZE;
	assert_int_equal(attach_parse(packet, 4, &again, NULL), -EBADMSG);
	assert_int_equal(attach_parse(packet, 6, &again, NULL), -EBADMSG);
	packet[0] = 'x';
	assert_int_equal(attach_parse(packet, 5, &again, NULL), -EBADMSG);
}

static void the_socket_is_its_users_alone(void **state)
{
	int fd = open(unit_top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat info;
	assert_int_equal(attach_connect(fd, NULL), -ENOENT);
	int listener = attach_listen(fd, geteuid(), getegid(), NULL);
	assert_true(listener >= 0);
	assert_int_equal(fstatat(fd, "terminal", &info, 0), 0);
	assert_int_equal(info.st_mode & 07777, 0600);
	int visitor = attach_connect(fd, NULL);
	assert_true(visitor >= 0);
	(void)close(visitor);
	(void)close(listener);
	assert_int_equal(attach_connect(fd, NULL), -ECONNREFUSED);
	listener = attach_listen(fd, geteuid(), getegid(), NULL); /* of one that was killed */
	assert_true(listener >= 0);
	(void)close(listener);
	(void)close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_written_is_read),
	    cmocka_unit_test(other_packets_are_refused),
	    cmocka_unit_test_setup_teardown(the_socket_is_its_users_alone, unit_top_setup,
					    unit_top_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
