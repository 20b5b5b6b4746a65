/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/answer.h"

#include <stdio.h>

#include "doors/kubelet/kubelet.h"
#include "unit/unit.h"
#include "wire/arena.h"

static void test_texts(void **state)
{
	(void)state;
	_cleanup_arena_ struct arena arena;
	arena_init(&arena, 4096);
	assert_string_equal(answer_text(&arena, NULL), "");
	assert_string_equal(answer_text(&arena, "a GPU"), "a GPU");
	assert_string_equal(answer_text(&arena, "\xff"), "\xef\xbf\xbd"); /* U+FFFD */

	_cleanup_arena_ struct arena none;
	arena_init(&none, 0);
	assert_string_equal(answer_text(&none, "a GPU"), "");
}

static void test_warnings_have_an_end(void **state)
{
	(void)state;
	_cleanup_arena_ struct arena arena;
	Sluice__V1__StatusReply reply = SLUICE__V1__STATUS_REPLY__INIT;
	arena_init(&arena, 1 << 16);

	for (int i = 0; i < ANSWER_WARNINGS_MAX + 3; i++) {
		char text[16];
		(void)snprintf(text, sizeof(text), "warning %d", i);
		answer_warn(&reply, &arena, text);
	}

	assert_int_equal(reply.n_warnings, ANSWER_WARNINGS_MAX);
	assert_string_equal(reply.warnings[0], "warning 0");
	assert_string_equal(reply.warnings[ANSWER_WARNINGS_MAX - 1], "warning 63");
}

static void test_a_resource(void **state)
{
	(void)state;
	_cleanup_arena_ struct arena arena;
	const struct kubelet_view view = {.name = "nvidia.com/gpu",
					  .endpoint = "sluice.sock",
					  .problem = "why",
					  .devices = 8,
					  .healthy = 7,
					  .registrations = 2,
					  .counts = {.allocations = 5, .refused = 1}};
	arena_init(&arena, 4096);
	const Sluice__V1__KubeletResource *resource = answer_resource(&view, &arena);
	assert_string_equal(resource->name, "nvidia.com/gpu");
	assert_string_equal(resource->endpoint, "sluice.sock");
	assert_string_equal(resource->problem, "why");
	assert_int_equal(resource->devices, 8);
	assert_int_equal(resource->healthy, 7);
	assert_int_equal(resource->registrations, 2);
	assert_int_equal(resource->allocations, 5);
	assert_int_equal(resource->refused, 1);

	_cleanup_arena_ struct arena none;
	arena_init(&none, 0);
	assert_null(answer_resource(&view, &none));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_texts),
	    cmocka_unit_test(test_warnings_have_an_end),
	    cmocka_unit_test(test_a_resource),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
