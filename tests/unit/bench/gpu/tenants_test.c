/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/gpu/tenants.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/err.h"
#include "unit/unit.h"

#define SUMMARY                                                                                    \
	"{\"t\":1,\"tflops\":2}\n"                                                                 \
	"{\"summary\":true,\"status\":0,\"device\":\"Tesla T4\",\"uuid\":\"GPU-1\","               \
	"\"cuda\":\"13.0\",\"simulated\":true,\"verified\":\"yes\",\"problem\":\"\","              \
	"\"tflops\":23.5,\"p99_ms\":4.96,\"iterations\":77,\"clock_mhz\":[300,1590,1600],"         \
	"\"power_w\":35.5,\"temp_c\":34,\"throttle\":[\"sw_power_cap\",\"hw_slowdown\"]}\n"

static int parse(const char *text, struct tenant_summary *out, struct err *err)
{
	return tenant_summary_parse(text, strlen(text), out, err);
}

static void the_last_summary_is_read(void **state)
{
	struct tenant_summary summary;
	assert_int_equal(parse(SUMMARY, &summary, NULL), 0);
	assert_string_equal(summary.device, "Tesla T4");
	assert_true(summary.is_simulated && summary.tflops == 23.5 && summary.p99_ms == 4.96);
	assert_int_equal(summary.iterations, 77);
	assert_true(summary.has_clock && summary.clock_mhz[1] == 1590 && summary.power_w == 35.5);
	assert_string_equal(summary.throttle, "sw_power_cap, hw_slowdown");
	assert_int_equal(parse(SUMMARY "not json", &summary, NULL), 0);
	assert_int_equal(parse("{\"summary\":true,\"clock_mhz\":null}", &summary, NULL), 0);
	assert_false(summary.has_clock);
}

static void what_is_no_summary_is_refused(void **state)
{
	static const char *const wrong[] = {"",
					    "\n",
					    "{",
					    "[]",
					    "{\"summary\":false}\n",
					    "{\"t\":1}\n",
					    "\"summary\"",
					    "{\"summary\":1}"};
	struct tenant_summary summary = {.tflops = 7};
	struct err err = {0};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(parse(wrong[i], &summary, &err), -EBADMSG);
	assert_true(summary.tflops == 7);
	for (size_t length = 0; length < strlen(SUMMARY) - 1; length++)
		assert_int_equal(tenant_summary_parse(SUMMARY, length, &summary, NULL), -EBADMSG);
}

/* --- programs that stand for sluice ------------------------------------------------------------
 */

static const char *program(const char *name, const char *script)
{
	const char *path = unit_path(unit_top, name);
	unit_write(path, script);
	assert_int_equal(chmod(path, 0755), 0);
	return path;
}

static uint64_t soon(void)
{
	return unit_now_ns() + 20 * CLOCK_NS_PER_S;
}

static void several_run_at_once_with_one_barrier(void **state)
{
	/* Each waits for the other's line in the barrier file: one after the other would never end.
	 */
	const char *path = program(
	    "both", "#!/bin/sh\n"
		    "while [ $# -gt 0 ]; do [ \"$1\" = --barrier ] && file=$2; shift; done\n"
		    "echo here >> \"$file\"\n"
		    "until [ \"$(wc -l < \"$file\")\" = 2 ]; do read -t 1 x; done < /dev/zero\n"
		    "echo '{\"summary\":true,\"tflops\":1.5}'\n");
	struct tenant tenants[2] = {{.arguments = {"gemm"}}, {.arguments = {"gemm"}}};
	assert_int_equal(tenants_run(path, tenants, 2, soon(), NULL, NULL), 0);
	for (int i = 0; i < 2; i++)
		assert_true(tenants[i].rc == 0 && tenants[i].has_summary &&
			    tenants[i].summary.tflops == 1.5);
}

static void how_one_ends_is_told(void **state)
{
	const char *path = program("fails", "#!/bin/sh\n[ $4 = die ] && kill -9 $$\nexit 4\n");
	struct tenant tenants[2] = {{.arguments = {"gemm", "die"}}, {.arguments = {"gemm", "go"}}};
	assert_int_equal(tenants_run(path, tenants, 2, soon(), NULL, NULL), 0);
	assert_int_equal(tenants[0].rc, 128 + 9);
	assert_int_equal(tenants[1].rc, 4);
	assert_false(tenants[0].has_summary || tenants[1].has_summary);
}

static void one_that_hangs_is_killed(void **state)
{
	const char *path = program("hangs", "#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 1; done\n");
	struct tenant tenants[1] = {{.arguments = {"gemm"}}};
	struct err err = {0};
	atomic_bool stop = true;
	assert_int_equal(tenants_run(path, tenants, 1, unit_now_ns(), NULL, &err), -ETIMEDOUT);
	assert_non_null(strstr(err.text, "1 of 1"));
	assert_int_equal(tenants_run(path, tenants, 1, soon(), &stop, &err), -EINTR);
}

/* As one that has said everything and hangs in the driver on its way out. */
static void one_that_does_not_end_has_no_more_time_than_others(void **state)
{
	const char *path =
	    program("stays", "#!/bin/sh\ntrap '' TERM\nexec >/dev/null\nexec sleep 60\n");
	struct tenant tenants[1] = {{.arguments = {"gemm"}}};
	struct err err = {0};
	uint64_t start = unit_now_ns();
	assert_int_equal(tenants_run(path, tenants, 1, start + CLOCK_NS_PER_S / 2, NULL, &err),
			 -ETIMEDOUT);
	assert_true(unit_now_ns() - start < 20 * CLOCK_NS_PER_S);
	assert_int_equal(tenants[0].rc, 128 + 9);
}

static void a_program_that_is_not_there_is_named(void **state)
{
	struct tenant tenants[1] = {{.arguments = {"gemm"}}};
	struct err err = {0};
	assert_int_equal(tenants_run("/nowhere/sluice", tenants, 1, soon(), NULL, &err), -ENOENT);
	assert_non_null(strstr(err.text, "/nowhere/sluice"));
	assert_int_equal(tenants_run("/bin/true", tenants, 0, soon(), NULL, &err), -EINVAL);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_last_summary_is_read),
	    cmocka_unit_test(what_is_no_summary_is_refused),
	    cmocka_unit_test(several_run_at_once_with_one_barrier),
	    cmocka_unit_test(how_one_ends_is_told),
	    cmocka_unit_test(one_that_hangs_is_killed),
	    cmocka_unit_test(one_that_does_not_end_has_no_more_time_than_others),
	    cmocka_unit_test(a_program_that_is_not_there_is_named),
	};
	return cmocka_run_group_tests(tests, unit_top_setup, unit_top_teardown);
}
