/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "libexec/rsh/packet.h"
#include "unit/unit.h"

static char bytes[PACKET_MAX + 16];

static void there_and_back(const struct packet *packet)
{
	struct packet again;
	size_t length = packet_format(packet, bytes, sizeof(bytes));
	assert_true(length >= PACKET_HEAD);
	assert_true(packet_parse(bytes, length, &again));
	assert_int_equal(again.kind, packet->kind);
	assert_int_equal(again.value, packet->value);
	if (packet->host)
		assert_string_equal(again.host, packet->host);
	if (packet->text && packet->kind != PACKET_ENTERED)
		assert_string_equal(again.text, packet->text);
	/* One byte more or less is another one, or none. */
	for (size_t cut = 0; cut < length && packet->kind != PACKET_ENTERED; cut++)
		assert_false(packet_parse(bytes, cut, &again));
	bytes[length] = '\0';
	if (packet->kind != PACKET_ENTERED)
		assert_false(packet_parse(bytes, length + 1, &again));
}

static void every_kind(void **state)
{
	there_and_back(&(struct packet){.kind = PACKET_RUN, .host = "w-0", .text = "orted -x"});
	there_and_back(&(struct packet){.kind = PACKET_RANKS});
	there_and_back(&(struct packet){.kind = PACKET_ENTER, .value = 7});
	there_and_back(&(struct packet){.kind = PACKET_ENDED, .value = 137});
	there_and_back(&(struct packet){.kind = PACKET_REFUSED, .text = "no such worker"});
	struct packet entered = {.kind = PACKET_ENTERED, .text = "A=1\0B=2", .text_length = 8};
	there_and_back(&entered);
	struct packet again;
	size_t length = packet_format(&entered, bytes, sizeof(bytes));
	assert_true(packet_parse(bytes, length, &again));
	assert_int_equal(again.text_length, 8);
	assert_memory_equal(again.text, "A=1\0B=2", 8);
	assert_false(packet_parse(bytes, length - 1, &again)); /* no NUL at its end */
}

static void the_longest(void **state)
{
	char *text = malloc(PACKET_TEXT_MAX + 1), host[PACKET_HOST_MAX + 2];
	assert_non_null(text);
	memset(text, 't', PACKET_TEXT_MAX);
	text[PACKET_TEXT_MAX - 1] = '\0';
	memset(host, 'h', sizeof(host));
	host[PACKET_HOST_MAX] = '\0';
	struct packet packet = {.kind = PACKET_RUN, .host = host, .text = text}, again;
	size_t length = packet_format(&packet, bytes, PACKET_MAX);
	assert_int_equal(length, PACKET_MAX);
	assert_true(packet_parse(bytes, length, &again));
	assert_int_equal(packet_format(&packet, bytes, PACKET_MAX - 1), 0);
	host[PACKET_HOST_MAX] = 'h';
	host[PACKET_HOST_MAX + 1] = '\0';
	text[9] = '\0';
	length = packet_format(&packet, bytes, sizeof(bytes));
	assert_false(packet_parse(bytes, length, &again)); /* a host of 256 bytes */
	free(text);
}

static void what_is_none_of_ours(void **state)
{
	struct packet out;
	size_t length = packet_format(
	    &(struct packet){.kind = PACKET_RUN, .host = "h", .text = "t"}, bytes, sizeof(bytes));
	bytes[0] ^= 1;
	assert_false(packet_parse(bytes, length, &out));
	bytes[0] ^= 1;
	bytes[4] = 99;
	assert_false(packet_parse(bytes, length, &out));
	assert_false(packet_parse("", 0, &out));
	const struct packet empty[] = {{.kind = PACKET_RUN, .host = "", .text = "t"},
				       {.kind = PACKET_RUN, .host = "h", .text = ""}};
	for (size_t i = 0; i < array_length(empty); i++) {
		length = packet_format(&empty[i], bytes, sizeof(bytes));
		assert_false(packet_parse(bytes, length, &out));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_kind),
	    cmocka_unit_test(the_longest),
	    cmocka_unit_test(what_is_none_of_ours),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
