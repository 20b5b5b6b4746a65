/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/gpu/p2p.h"

#include <math.h>
#include <string.h>

#include "unit/validate/gpu/fake.h"
#include "unit/unit.h"

enum { BYTES = 65536, LARGE = 32 << 20, COUNT = 3 };

static struct check run(const struct fake *wanted, const struct p2p_options *options,
			uint32_t count, struct fake_sink *sink)
{
	struct driver driver;
	struct driver_device devices[COUNT];
	struct checks_sink to;
	fake_open(&driver, devices, count);
	uint64_t free_bytes = 4 * options->bytes;
	fake = *wanted;
	fake.free_bytes = free_bytes;
	fake.bytes_per_ns = 10;
	fake_sink_init(sink, &to);
	p2p_matrix(&driver, devices, count, &to);
	p2p_header(&driver, options, &to);
	p2p_check(&driver, devices, count, 0, options, 0, &to);
	assert_int_equal(sink->checks.count, 1);
	assert_int_equal(fake.held, 0);
	assert_int_equal(fake.contexts, 0);
	return sink->checks.list[0];
}

static size_t samples_of(const struct fake_sink *sink, const char *metric)
{
	size_t count = 0;
	for (size_t i = 0; i < sink->checks.sample_count; i++)
		count += strcmp(sink->checks.samples[i].metric, metric) == 0;
	return count;
}

static void straight_and_through_the_host(void **state)
{
	static const struct p2p_options options = {.bytes = BYTES};
	struct fake_sink sink;
	(void)state;
	struct check check = run(&(struct fake){.has_peers = true}, &options, COUNT, &sink);
	assert_int_equal(check.status, CHECK_PASS);
	assert_true(fabs(check.value - 10) < 0.1);
	assert_int_equal(samples_of(&sink, "by_host"), (COUNT - 1) * P2P_REPEATS);
	assert_int_equal(samples_of(&sink, "straight"), (COUNT - 1) * P2P_REPEATS);
	assert_int_equal(samples_of(&sink, "kernel_both"), (COUNT - 1) * P2P_REPEATS);
	assert_int_equal(samples_of(&sink, "latency_straight_gpu"), COUNT - 1);
	fake_sink_done(&sink);
	check = run(&(struct fake){.has_peers = false}, &options, COUNT, &sink);
	assert_int_equal(check.status, CHECK_PASS); /* nothing says that there should be a way */
	assert_int_equal(samples_of(&sink, "straight"), 0);
	assert_null(strstr(sink.last_note, "launches are in"));
	fake_sink_done(&sink);
	(void)run(&(struct fake){.has_peers = true, .is_late = true}, &options, COUNT, &sink);
	assert_non_null(strstr(sink.last_note, "launches are in these figures"));
	fake_sink_done(&sink);
}

static void links_that_are_not_used(void **state)
{
	static struct p2p_options options = {.bytes = LARGE};
	struct fake_sink sink;
	(void)state;
	options.nvlinks[0][1] = 12;
	options.limit[0][1] = 255;
	struct check check = run(&(struct fake){.has_peers = true}, &options, 2, &sink);
	assert_int_equal(check.status, CHECK_SLOW);
	assert_non_null(strstr(check.reason, "12 NVLinks"));
	assert_non_null(strstr(check.reason, "; simulated"));
	fake_sink_done(&sink);
	check = run(&(struct fake){.has_peers = false}, &options, 2, &sink);
	assert_int_equal(check.status, CHECK_SLOW);
	assert_non_null(strstr(check.reason, "allows no access"));
	fake_sink_done(&sink);
}

static void what_cannot_be_looked_at_is_skipped(void **state)
{
	static const struct p2p_options options = {.bytes = BYTES};
	struct fake_sink sink;
	(void)state;
	struct check check = run(&(struct fake){.has_peers = true}, &options, 1, &sink);
	assert_int_equal(check.status, CHECK_SKIP);
	fake_sink_done(&sink);
}

static void every_call_can_fail(void **state)
{
	static const char *const calls[] = {"cuMemcpyPeerAsync", "cuMemcpyDtoH", "sl_copy",
					    "cuEventSynchronize", "cuCtxSynchronize"};
	static const struct p2p_options options = {.bytes = BYTES};
	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct fake_sink sink;
		struct check check = run(&(struct fake){.failing = calls[i],
							.result = CUDA_LAUNCH_FAILED,
							.has_peers = true},
					 &options, 2, &sink);
		assert_int_equal(check.status, CHECK_FAIL);
		fake_sink_done(&sink);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(straight_and_through_the_host),
	    cmocka_unit_test(links_that_are_not_used),
	    cmocka_unit_test(what_cannot_be_looked_at_is_skipped),
	    cmocka_unit_test(every_call_can_fail),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
