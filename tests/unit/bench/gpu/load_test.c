/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/gpu/load.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "bench/gpu/load_report.h"
#include "unit/unit.h"

static struct load_plan good(enum load_mode mode)
{
	return (struct load_plan){.mode = mode,
				  .size = {256, 256, 64},
				  .run_ns = 5 * CLOCK_NS_PER_S,
				  .warmup_ns = 2 * CLOCK_NS_PER_S,
				  .kernel_ns = CLOCK_NS_PER_MS,
				  .kernels_per_request = 2,
				  .rate = 100,
				  .seed = 1,
				  .text = -1,
				  .stall_ns = 30 * CLOCK_NS_PER_S};
}

static void what_cannot_be_meant_is_refused(void **state)
{
	struct load_plan plan = good(LOAD_GEMM);
	struct err err = {0};
	assert_int_equal(load_plan_check(&plan, NULL), 0);
	plan.size.k = 33;
	assert_int_equal(load_plan_check(&plan, &err), -EINVAL);
	assert_string_equal(err.text, "size: M and N must be multiples of 128, K of 32");
	plan = good(LOAD_BURN);
	plan.run_ns = 5 * CLOCK_NS_PER_S - 1;
	assert_int_equal(load_plan_check(&plan, &err), -EINVAL);
	plan = good(LOAD_LC);
	plan.rate = 0;
	assert_int_equal(load_plan_check(&plan, &err), -EINVAL);
	plan.rate = 1e9;
	assert_int_equal(load_plan_check(&plan, &err), -EINVAL);
	plan = good(LOAD_BURN);
	plan.kernel_ns = 0;
	assert_int_equal(load_plan_check(&plan, &err), -EINVAL);
	plan = good(LOAD_GEMM);
	plan.barrier = "b";
	assert_int_equal(load_plan_check(&plan, &err), -EINVAL);
}

static void without_a_driver_there_is_no_gpu(void **state)
{
	struct load_plan plan = good(LOAD_GEMM);
	struct load_summary summary;
	struct err err = {0};
	plan.library = "/nowhere/libcuda.so.1";
	assert_int_equal(load_run(&plan, &summary, &err), -ENOENT);
	assert_int_equal(summary.status, LOAD_NO_GPU);
	plan.size.m = 1;
	assert_int_equal(load_run(&plan, &summary, &err), -EINVAL);
	assert_int_equal(summary.status, LOAD_REFUSED);
}

static void count_seconds(const struct load_second *second, void *context)
{
	uint32_t *counted = context;
	*counted += second->counts;
}

/* By the virtual clock, so that it takes no time. */
static void every_mode_runs_on_the_simulated_driver(void **state)
{
	assert_int_equal(setenv("SLUICE_SIM_PROFILE", PROFILES "/t4x1.profile", 1), 0);
	assert_int_equal(setenv("SLUICE_SIM_STATE", "/nonexistent/sim.state", 1), 0);
	for (int mode = 0; mode < LOAD_MODE_COUNT; mode++) {
		struct load_plan plan = good((enum load_mode)mode);
		static struct load_summary summary;
		struct err err = {0};
		uint32_t counted = 0;
		plan.library = LIBCUDA;
		plan.size = (struct hgemm_size){1024, 1024, 1024};
		plan.run_ns = 3 * CLOCK_NS_PER_S;
		plan.warmup_ns = CLOCK_NS_PER_S;
		plan.kernel_ns =
		    mode == LOAD_SMALL || mode == LOAD_GRAPH ? 0 : 10 * CLOCK_NS_PER_MS;
		plan.second = count_seconds;
		plan.context = &counted;
		if (load_run(&plan, &summary, &err) < 0)
			fail_msg("%s: %s", load_mode_to_string(plan.mode), err.text);
		assert_int_equal(summary.status, LOAD_OK);
		assert_true(summary.is_simulated && summary.text == KERNEL_SL75);
		assert_int_equal(counted, mode == LOAD_ALLOC || mode == LOAD_RULER ? 0 : 1);
		assert_int_equal(summary.path_count, mode == LOAD_ALLOC ? 5 : 0);
		assert_true((summary.rate > 0) == (mode == LOAD_GEMM || mode == LOAD_BURN));
		assert_true((summary.launch_ns > 0) == (mode == LOAD_SMALL || mode == LOAD_GRAPH));
		assert_true((summary.requests > 0) == (mode == LOAD_LC));
	}
}

static void a_barrier_of_another_run_is_refused(void **state)
{
	static const char *const wrong[] = {"1 5\n2 6\n", "not a barrier\n", "1\n"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct load_plan plan = good(LOAD_GEMM);
		static struct load_summary summary;
		struct err err = {0};
		plan.library = LIBCUDA;
		plan.barrier = unit_path(unit_top, "barrier");
		plan.tenants = 2;
		unit_write(plan.barrier, wrong[i]);
		assert_int_equal(load_run(&plan, &summary, &err), -EUCLEAN);
		assert_int_equal(summary.status, LOAD_ALONE);
		assert_non_null(strstr(err.text, plan.barrier));
	}
}

/* One JSON object per line, whatever is in it. */
static void assert_lines_are_json(struct buf *text, size_t lines)
{
	size_t count = 0;
	for (const char *line = buf_text(text), *end; (end = strchr(line, '\n')); line = end + 1) {
		json_error_t error;
		json_t *json = json_loadb(line, (size_t)(end - line), 0, &error);
		if (!json)
			fail_msg("%s: %.*s", error.text, (int)(end - line), line);
		assert_true(json_is_object(json));
		json_decref(json);
		count++;
	}
	assert_int_equal(count, lines);
}

static void every_line_is_json(void **state)
{
	for (int mode = 0; mode < LOAD_MODE_COUNT; mode++) {
		struct load_plan plan = good((enum load_mode)mode);
		struct load_second second = {
		    .mode = plan.mode, .tflops = 0.0 / 1.0, .p99_ms = 1e300};
		static struct load_summary summary;
		struct buf text;
		buf_init(&text, 1 << 20);
		memset(&summary, 0, sizeof(summary));
		(void)memcpy(summary.device.name, "A \"GPU\"\n\x01\xff", 11);
		summary.paths[0] = (struct load_path){.name = "cuMemAlloc", .error = 2};
		summary.path_count = mode == LOAD_ALLOC;
		summary.gaps.count = summary.gaps.bucket[31] = 1;
		assert_int_equal(load_report_second_json(&second, &summary, &text), 0);
		assert_int_equal(load_report_summary_json(&plan, &summary, "", &text), 0);
		assert_int_equal(load_report_summary_json(&plan, &summary, "a \"problem\"", &text),
				 0);
		assert_lines_are_json(&text, 3 + 2 * summary.path_count);
		buf_clear(&text);
		assert_int_equal(load_report_second_text(&second, &summary, &text), 0);
		assert_int_equal(load_report_summary_text(&plan, &summary, &text), 0);
		assert_non_null(strstr(buf_text(&text), load_mode_to_string(plan.mode)));
		assert_null(strstr(buf_text(&text), "simulated"));
		buf_done(&text);
	}
}

static void a_problem_leaves_no_rate(void **state)
{
	struct load_plan plan = good(LOAD_GEMM);
	static struct load_summary summary;
	struct buf text;
	buf_init(&text, 1 << 20);
	summary.rate = 12.5;
	assert_int_equal(load_report_summary_json(&plan, &summary, "wrong", &text), 0);
	assert_null(strstr(buf_text(&text), "tflops"));
	buf_clear(&text);
	assert_int_equal(load_report_summary_json(&plan, &summary, "", &text), 0);
	assert_non_null(strstr(buf_text(&text), "\"tflops\":12.5,"));
	buf_done(&text);
}

static void each_mode_has_a_name(void **state)
{
	enum load_mode found = LOAD_MODE_COUNT;
	for (int mode = 0; mode < LOAD_MODE_COUNT; mode++) {
		const char *name = load_mode_to_string((enum load_mode)mode);
		assert_int_equal(load_mode_from_string(name, &found), 0);
		assert_int_equal(found, mode);
	}
	assert_int_equal(load_mode_from_string("unknown", &found), -EINVAL);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_cannot_be_meant_is_refused),
	    cmocka_unit_test(without_a_driver_there_is_no_gpu),
	    cmocka_unit_test(every_mode_runs_on_the_simulated_driver),
	    cmocka_unit_test(a_barrier_of_another_run_is_refused),
	    cmocka_unit_test(every_line_is_json),
	    cmocka_unit_test(a_problem_leaves_no_rate),
	    cmocka_unit_test(each_mode_has_a_name),
	};
	return cmocka_run_group_tests(tests, unit_top_setup, unit_top_teardown);
}
