/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/check.h"
#include "libexec/memlock/state.h"
#include "unit/unit.h"

static bool parse(const char *text, struct memlock_state *out)
{
	return memlock_state_parse(text, strlen(text), out);
}

static void the_state_of_a_runtime(void **state)
{
	struct memlock_state it;
	/* As runc writes it, and as crun does. */
	assert_true(parse("{\"ociVersion\":\"1.0.2-dev\",\"id\":\"box\",\"status\":\"creating\","
			  "\"pid\":4242,\"bundle\":\"/run/x\",\"annotations\":{\"pid\":\"7\"}}",
			  &it));
	assert_int_equal(it.pid, 4242);
	assert_int_equal(it.id_length, 3);
	assert_memory_equal(it.id, "box", 3);
	assert_int_equal(it.bundle_length, 6);
	assert_memory_equal(it.bundle, "/run/x", 6);
	assert_true(parse("{ \"id\" : 5, \"status\" : \"created\", \"pid\" : 2 }", &it));
	assert_int_equal(it.pid, 2);
	assert_null(it.id);
	assert_null(it.bundle);
}

static void no_process(void **state)
{
	static const char *const bad[] = {
	    "",
	    "[]",
	    "{}",
	    "{\"pid\":0}",
	    "{\"pid\":1}",
	    "{\"pid\":-1}",
	    "{\"pid\":\"12\"}",
	    "{\"pid\":2147483648}",
	    "{\"pid\":12.5}",
	    "{\"pid\":12",
	    "{\"pid\":12} x",
	    "{\"a\":{\"pid\":12}}",
	};
	struct memlock_state it;
	for (size_t i = 0; i < array_length(bad); i++)
		assert_false(parse(bad[i], &it));
}

static bool limit_of(const char *text, struct state_limit *out)
{
	return state_config_parse(text, strlen(text), out);
}

static void the_limit_of_a_configuration(void **state)
{
	struct state_limit limit;
	assert_true(limit_of(
	    "{\"root\":{\"rlimits\":[{\"type\":\"RLIMIT_MEMLOCK\",\"soft\":1,\"hard\":1}]},"
	    "\"process\":{\"args\":[\"a\"],\"rlimits\":["
	    "{\"type\":\"RLIMIT_NOFILE\",\"hard\":1024,\"soft\":512},"
	    "{\"hard\":2048,\"soft\":65536,\"x\":{\"soft\":3},\"type\":\"RLIMIT_MEMLOCK\"}]},\"b\":"
	    "1}",
	    &limit));
	assert_int_equal(limit.soft, 65536);
	assert_int_equal(limit.hard, 2048);
}

static void no_limit(void **state)
{
	static const char *const bad[] = {
	    "",
	    "{}",
	    "{\"process\":{\"rlimits\":[{\"type\":\"RLIMIT_NOFILE\",\"soft\":1,\"hard\":1}]}}",
	    "{\"process\":{\"rlimits\":[{\"type\":\"RLIMIT_MEMLOCK\",\"soft\":1}]}}",
	    "{\"process\":{\"rlimits\":{\"type\":\"RLIMIT_MEMLOCK\",\"soft\":1,\"hard\":1}}}",
	    "{\"other\":{\"rlimits\":[{\"type\":\"RLIMIT_MEMLOCK\",\"soft\":1,\"hard\":1}]}}",
	    "{\"process\":{\"rlimits\":[{\"type\":\"RLIMIT_MEMLOCK\",\"soft\":1,\"hard\":1}]}",
	    "{\"process\":{\"other\":[{\"type\":\"RLIMIT_MEMLOCK\",\"soft\":1,\"hard\":1}]}}",
	    "{\"process\":{\"rlimits\":[[{\"type\":\"RLIMIT_MEMLOCK\",\"soft\":1,\"hard\":1}]]}}",
	};
	struct state_limit limit;
	for (size_t i = 0; i < array_length(bad); i++)
		assert_false(limit_of(bad[i], &limit));
}

static void wanted_limits(void **state)
{
	uint64_t bytes = 0;
	assert_true(state_limit_parse("unlimited", 9, &bytes));
	assert_true(bytes == STATE_UNLIMITED);
	assert_true(state_limit_parse("68719476736", 11, &bytes));
	assert_true(bytes == UINT64_C(68719476736));
	static const char *const bad[] = {
	    "", "0", "-1", "64Gi", "1 ", "unlimite", "99999999999999999999"};
	for (size_t i = 0; i < array_length(bad); i++)
		assert_false(state_limit_parse(bad[i], strlen(bad[i]), &bytes));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_state_of_a_runtime),
	    cmocka_unit_test(no_process),
	    cmocka_unit_test(the_limit_of_a_configuration),
	    cmocka_unit_test(no_limit),
	    cmocka_unit_test(wanted_limits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
