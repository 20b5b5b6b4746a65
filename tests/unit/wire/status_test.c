/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/status.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "unit/unit.h"

static void test_names(void **state)
{
	assert_string_equal(wire_status_to_string(WIRE_OK), "OK");
	assert_string_equal(wire_status_to_string(WIRE_NOT_FOUND), "NOT_FOUND");
	assert_string_equal(wire_status_to_string(WIRE_UNAUTHENTICATED), "UNAUTHENTICATED");
	assert_string_equal(wire_status_to_string((enum wire_status)17), "UNKNOWN");
	assert_string_equal(wire_status_to_string((enum wire_status) - 1), "UNKNOWN");
	for (int i = 0; i <= 16; i++)
		assert_non_null(wire_status_to_string((enum wire_status)i));
}

static void test_errno(void **state)
{
	assert_int_equal(wire_status_from_errno(0), WIRE_OK);
	assert_int_equal(wire_status_from_errno(-EINVAL), WIRE_INVALID_ARGUMENT);
	assert_int_equal(wire_status_from_errno(-ENOENT), WIRE_NOT_FOUND);
	assert_int_equal(wire_status_from_errno(-EACCES), WIRE_PERMISSION_DENIED);
	assert_int_equal(wire_status_from_errno(-ENOMEM), WIRE_RESOURCE_EXHAUSTED);
	assert_int_equal(wire_status_from_errno(-EMSGSIZE), WIRE_RESOURCE_EXHAUSTED);
	assert_int_equal(wire_status_from_errno(-ENOSPC), WIRE_ABORTED);
	assert_int_equal(wire_status_from_errno(-EBADMSG), WIRE_INTERNAL);
	assert_int_equal(wire_status_from_errno(-EOPNOTSUPP), WIRE_UNIMPLEMENTED);
	assert_int_equal(wire_status_from_errno(-12345), WIRE_INTERNAL);
	assert_int_equal(wire_status_from_errno(EINVAL), WIRE_INTERNAL); /* no -errno */
}

static void test_encode(void **state)
{
	static const struct {
		const char *plain, *encoded;
	} cases[] = {
	    {"", ""},
	    {"no such job: 17", "no such job: 17"},
	    {"100% of ~", "100%25 of ~"},
	    {"J\xc3\xbcrgen", "J%C3%BCrgen"},
	    {"a\nb\r\t\x7f", "a%0Ab%0D%09%7F"},
	    {"\xf0\x9f\x98\x80", "%F0%9F%98%80"},
	    {" ends in blanks  ", "%20ends in blanks %20"},
	    {" ", "%20"},
	    {"  ", "%20%20"},
	};
	for (size_t i = 0; i < array_length(cases); i++) {
		char encoded[WIRE_MESSAGE_ENCODED_MAX], plain[WIRE_MESSAGE_MAX];
		size_t length = wire_status_encode(cases[i].plain, encoded);
		assert_string_equal(encoded, cases[i].encoded);
		assert_int_equal(length, strlen(encoded));
		assert_int_equal(wire_status_decode(encoded, length, plain),
				 strlen(cases[i].plain));
		assert_string_equal(plain, cases[i].plain);
	}
	char encoded[WIRE_MESSAGE_ENCODED_MAX];
	(void)wire_status_encode("bad \xff", encoded);
	assert_string_equal(encoded, "bad %EF%BF%BD");
}

static void test_encode_cuts_at_a_character(void **state)
{
	char text[3 * WIRE_MESSAGE_MAX + 1], encoded[WIRE_MESSAGE_ENCODED_MAX];
	for (size_t before = 0; before < 3; before++) {
		memset(text, 'x', before);
		for (size_t i = before; i + 2 < sizeof(text); i += 2)
			memcpy(text + i, "\xc3\xbc", 3);
		size_t length = wire_status_encode(text, encoded);
		assert_true(length < sizeof(encoded));
		assert_int_equal(strlen(encoded), length);
		assert_int_equal((length - before) % 6, 0);
		assert_int_equal(before + (length - before) / 3,
				 WIRE_MESSAGE_MAX - 1 - (before + 1) % 2);
	}
	/* Bytes that are no text become three each. */
	memset(text, 0xff, sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	size_t length = wire_status_encode(text, encoded);
	assert_int_equal(length, 3 * (WIRE_MESSAGE_MAX - 1));
}

static void test_decode(void **state)
{
	static const struct {
		const char *encoded, *plain;
	} cases[] = {
	    {"%", "%"},
	    {"%4", "%4"},
	    {"%4g", "%4g"},
	    {"%41", "A"},
	    {"%c3%BC", "\xc3\xbc"},
	    {"100%", "100%"},
	    {"%25%32%35", "%25"},
	    {"%00x", "\xef\xbf\xbdx"},
	    {"%ff%C3", "\xef\xbf\xbd\xef\xbf\xbd"},
	    {"raw \xc3\xbc", "raw \xc3\xbc"}, /* not encoded by a careless peer */
	};
	for (size_t i = 0; i < array_length(cases); i++) {
		char plain[WIRE_MESSAGE_MAX];
		size_t length =
		    wire_status_decode(cases[i].encoded, strlen(cases[i].encoded), plain);
		assert_string_equal(plain, cases[i].plain);
		assert_int_equal(length, strlen(cases[i].plain));
	}
}

static void test_decode_cuts_at_a_character(void **state)
{
	char text[6 * WIRE_MESSAGE_MAX], plain[WIRE_MESSAGE_MAX];
	for (size_t before = 0; before < 3; before++) {
		memset(text, 'x', before);
		for (size_t i = before; i + 6 <= sizeof(text); i += 6)
			memcpy(text + i, "%C3%BC", 6);
		size_t length = wire_status_decode(text, sizeof(text) - 6, plain);
		assert_int_equal(length, WIRE_MESSAGE_MAX - 1 - (before + 1) % 2);
		assert_int_equal(plain[length], '\0');
		assert_memory_equal(plain + length - 2, "\xc3\xbc", 2);
	}
	memset(text, 0xff, sizeof(text));
	assert_int_equal(wire_status_decode(text, sizeof(text), plain), WIRE_MESSAGE_MAX - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_names),  cmocka_unit_test(test_errno),
	    cmocka_unit_test(test_encode), cmocka_unit_test(test_encode_cuts_at_a_character),
	    cmocka_unit_test(test_decode), cmocka_unit_test(test_decode_cuts_at_a_character),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
