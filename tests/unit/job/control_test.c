/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "job/control.h"
#include "unit/unit.h"

static void what_is_written_is_read(void **state)
{
	struct control_message message = {.version = CONTROL_VERSION,
					  .kind = CONTROL_ENDED,
					  .value = -5,
					  .extra = UINT64_MAX,
					  .text = "a text"};
	struct control_message again;
	char packet[CONTROL_PACKET_MAX];
	size_t length = control_format(&message, packet);
	assert_int_equal(length, 24 + 6);
	assert_int_equal(control_parse(packet, length, &again, NULL), 0);
	assert_memory_equal(&again, &message, sizeof(message));

	memset(message.text, 'x', sizeof(message.text)); /* without its NUL */
	length = control_format(&message, packet);
	assert_int_equal(control_parse(packet, length, &again, NULL), 0);
	assert_int_equal(strlen(again.text), CONTROL_TEXT_MAX - 1);
}

static void other_packets_are_refused(void **state)
{
	struct control_message message = {.version = CONTROL_VERSION, .kind = CONTROL_SIGNAL};
	struct control_message again;
	struct err err = {0};
	char packet[CONTROL_PACKET_MAX + 100] = "";
	for (size_t length = 0; length < 24; length++)
		assert_int_equal(control_parse(packet, length, &again, &err), -EBADMSG);
	(void)control_format(&message, packet);
	assert_int_equal(control_parse(packet, 24, &again, &err), 0);
	assert_int_equal(control_parse(packet, 25, &again, &err), -EBADMSG); /* a NUL in the text */
	memset(packet + 24, 'x', CONTROL_TEXT_MAX);
	assert_int_equal(control_parse(packet, 24 + CONTROL_TEXT_MAX - 1, &again, &err), 0);
	assert_int_equal(control_parse(packet, 24 + CONTROL_TEXT_MAX, &again, &err), -EBADMSG);
	message.kind = CONTROL_PORT + 1;
	(void)control_format(&message, packet);
	assert_int_equal(control_parse(packet, 24, &again, &err), -EBADMSG);
	message.version = CONTROL_VERSION + 1;
	(void)control_format(&message, packet);
	assert_int_equal(control_parse(packet, 24, &again, &err), -EPROTONOSUPPORT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_written_is_read),
	    cmocka_unit_test(other_packets_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
