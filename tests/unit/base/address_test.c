/* SPDX-License-Identifier: Apache-2.0 */
#include "base/address.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "unit/unit.h"

static int parse(const char *text, char out[ADDRESS_TEXT_MAX], struct address *address,
		 struct err *err)
{
	int rc = address_parse(text, strlen(text), address, err);
	if (rc == 0)
		(void)address_to_string(&address->any, out);
	return rc;
}

static void test_forms(void **state)
{
	static const struct {
		const char *text, *is;
		bool loopback, every;
	} good[] = {
	    {"127.0.0.1:9400", "127.0.0.1:9400", true, false},
	    {"127.9.9.9:1", "127.9.9.9:1", true, false},
	    {"0.0.0.0:9400", "0.0.0.0:9400", false, false},
	    {"10.0.0.1:0", "10.0.0.1:0", false, false},
	    {"localhost:9400", "127.0.0.1:9400", true, false},
	    {"[::1]:9400", "[::1]:9400", true, false},
	    {"[2001:db8::7]:65535", "[2001:db8::7]:65535", false, false},
	    {":9400", "[::]:9400", false, true},
	};
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		struct address address;
		struct err err = {0};
		char is[ADDRESS_TEXT_MAX];
		assert_int_equal(parse(good[i].text, is, &address, &err), 0);
		assert_string_equal(is, good[i].is);
		assert_int_equal(address_is_loopback(&address), good[i].loopback);
		assert_int_equal(address.is_every, good[i].every);
	}
}

static void test_refusals(void **state)
{
	static const char *const bad[] = {
	    "",
	    "9400",
	    "127.0.0.1",
	    "127.0.0.1:",
	    "127.0.0.1:65536",
	    "::1:9400",
	    "[::1]",
	    "[::1:9400",
	    "node1:9400",
	    "1.2.3:80",
	    "[]:80",
	    "[127.0.0.1]:80",
	    "127.0.0.1:-1",
	    "127.0.0.1: 1",
	    "http://127.0.0.1:80",
	    "*:9400",
	    "[fe80::1%lo]:80",
	    "01.2.3.4.5:1",
	    "off",
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct address address;
		struct err err = {0};
		char is[ADDRESS_TEXT_MAX];
		assert_int_equal(parse(bad[i], is, &address, &err), -EINVAL);
		assert_non_null(strstr(err.text, "expected such as 127.0.0.1:9400"));
	}
}

static void test_names_are_not_looked_up(void **state)
{
	struct address address;
	struct err err = {0};
	char is[ADDRESS_TEXT_MAX];
	assert_int_equal(parse("example.org:80", is, &address, &err), -EINVAL);
	assert_non_null(strstr(err.text, "'example.org'"));
	assert_non_null(strstr(err.text, "names are not looked up"));
}

static void test_other_families(void **state)
{
	char is[ADDRESS_TEXT_MAX];
	const struct sockaddr local = {.sa_family = AF_UNIX};
	assert_string_equal(address_to_string(&local, is), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_forms),
	    cmocka_unit_test(test_refusals),
	    cmocka_unit_test(test_names_are_not_looked_up),
	    cmocka_unit_test(test_other_families),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
