/* SPDX-License-Identifier: Apache-2.0 */
/* Shares and latencies that time slices give, on the virtual clock: those of the model of sharing.
 */
#include "sim/cuda/scheduler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "unit/unit.h"

static const uint64_t us = 1000, ms = 1000000, second = 1000000000;

static struct sched *sched_new(uint64_t slice_ns, uint64_t switch_ns)
{
	struct sched *sched = calloc(1, sizeof(*sched));

	assert_non_null(sched);
	sched_init(sched, slice_ns, switch_ns);
	return sched;
}

static void collect_all(struct sched *sched, uint32_t context)
{
	struct sched_op op;

	while (sched_collect(sched, context, &op))
		;
}

static uint64_t submit(struct sched *sched, uint32_t context, uint64_t cost_ns, uint64_t ready_ns,
		       uint64_t before)
{
	struct sched_request request = {.cost_ns = cost_ns,
					.ready_ns = ready_ns,
					.before = before,
					.engine = SCHED_COMPUTE,
					.flags = SCHED_BLOCKING};
	uint64_t number = sched_submit(sched, context, &request);

	assert_true(number > 0);
	return number;
}

/* Two tenants with two kernels queued each, for 60 virtual seconds. Shares in 1/100000. */
static void two_tenants(uint64_t switch_ns, uint64_t out_share[2], uint64_t *out_busy)
{
	struct sched *sched = sched_new(2 * ms, switch_ns);
	uint64_t last[2] = {0, 0};
	uint32_t context[2];

	for (uint32_t i = 0; i < 2; i++)
		context[i] = sched_open(sched, 0, i);
	while (sched->now_ns < 60 * second) {
		for (uint32_t i = 0; i < 2; i++) {
			struct sched_context *c = &sched->context[context[i]];

			collect_all(sched, context[i]);
			while (c->next - c->undone < 2)
				last[i] = submit(sched, context[i], 7300 * us, 0, last[i]);
		}
		sched_advance(sched, sched->now_ns); /* what was queued begins */
		sched_advance(sched, sched_next_event(sched));
	}
	*out_busy = 0;
	for (uint32_t i = 0; i < 2; i++) {
		out_share[i] = sched->context[context[i]].busy_ns / (sched->now_ns / 100000);
		*out_busy += out_share[i];
	}
	/* nothing is lost: it computes or switches, but for a switch that is under way */
	assert_in_range(sched->unit[0].busy_ns + sched->unit[0].switch_ns, sched->now_ns - 10 * ms,
			sched->now_ns + switch_ns);
	free(sched);
}

static void test_two_tenants_of_a_sliced_gpu_have_the_shares_of_the_model(void **state)
{
	uint64_t share[2], busy;

	(void)state;
	two_tenants(100 * us, share, &busy);
	assert_in_range(share[0], 47610, 47630); /* 47.6 % */
	assert_in_range(share[1], 47610, 47630);
	assert_in_range(busy, 95230, 95250); /* 95.24 % */
	two_tenants(20 * us, share, &busy);
	assert_in_range(share[0], 49490, 49520); /* 49.5 % */
	assert_in_range(share[1], 49490, 49520);
	assert_in_range(busy, 99000, 99020); /* 99.01 % */
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;

	return one < other ? -1 : one > other;
}

/* Exponential gaps of 10 ms in the mean, from a generator of our own so that they are the same
 * everywhere. */
static uint64_t next_gap(uint64_t *seed)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	double u = ((double)(*seed >> 11) + 0.5) / 9007199254740992.0;

	return (uint64_t)(-log(u) * 10e6);
}

enum { REQUESTS = 30000, REQUESTS_BESIDE = 10000, KERNELS = 20 };

/* Latency-critical requests of 20 kernels of 100 us beside a training kernel of `training_ns` that
 * is always there (0: alone). Quantiles in microseconds. */
static void latencies(uint32_t requests, uint64_t training_ns, uint64_t *out_p50, uint64_t *out_p99)
{
	struct sched *sched = sched_new(2 * ms, 100 * us);
	uint64_t *latency = calloc(requests, sizeof(*latency));
	uint64_t *due = calloc(requests, sizeof(*due)), *end = calloc(requests, sizeof(*end));
	uint32_t lc = sched_open(sched, 0, 0), training = sched_open(sched, 0, 1), queued = 0,
		 done = 0;
	uint64_t seed = 7, at = 0, last = 0, last_training = 0;

	assert_non_null(latency);
	assert_non_null(due);
	assert_non_null(end);
	for (uint32_t i = 0; i < requests; i++)
		due[i] = at += next_gap(&seed);
	while (done < requests) {
		struct sched_context *c = &sched->context[training];

		collect_all(sched, training);
		while (training_ns && c->next - c->undone < 2)
			last_training = submit(sched, training, training_ns, 0, last_training);
		collect_all(sched, lc);
		while (queued < requests && queued < done + 20 &&
		       due[queued] < sched->now_ns + 10 * ms) {
			for (uint32_t k = 0; k < KERNELS; k++)
				last = submit(sched, lc, 100 * us, due[queued], last);
			end[queued++] = last;
		}
		sched_advance(sched, sched->now_ns);
		uint64_t next = sched_next_event(sched);

		sched_advance(sched, next == SCHED_NEVER ? sched->now_ns + ms : next);
		while (done < queued && sched_is_done(sched, lc, end[done])) {
			latency[done] = (sched->now_ns - due[done]) / us;
			done++;
		}
	}
	qsort(latency, requests, sizeof(*latency), compare_u64);
	*out_p50 = latency[requests / 2];
	*out_p99 = latency[requests / 100 * 99];
	free(latency);
	free(due);
	free(end);
	free(sched);
}

static void test_requests_alone_wait_only_for_each_other(void **state)
{
	uint64_t p50, p99;

	(void)state;
	latencies(REQUESTS, 0, &p50, &p99);
	assert_int_equal(p50, 2000);
	assert_in_range(p99, 4700, 5200); /* 4.96 ms */
}

static void test_requests_beside_training_have_the_latencies_of_the_model(void **state)
{
	static const uint64_t kernel_us[] = {200, 1000, 5000};

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		uint64_t p50, p99;

		latencies(REQUESTS_BESIDE, kernel_us[i] * us, &p50, &p99);
		assert_in_range(p50, 3500, 3900);   /* 3.7 ms */
		assert_in_range(p99, 14000, 16500); /* 15.5 ms of the model; the rest is chance */
	}
}

static void test_the_default_stream_waits_for_others_and_they_for_it(void **state)
{
	static const uint32_t flags[] = {SCHED_BLOCKING, 0, SCHED_BARRIER, SCHED_BLOCKING, 0};
	static const uint64_t done_at[] = {1, 1, 2, 3, 1}; /* x 10 ms; engines of their own */
	struct sched *sched = sched_new(2 * ms, 100 * us);
	uint32_t context = sched_open(sched, 0, 0);

	(void)state;
	for (uint32_t i = 0; i < 5; i++) {
		const struct sched_request request = {
		    .cost_ns = 10 * ms,
		    .flags = flags[i],
		    .engine = i == 0 || i == 2 || i == 3 ? SCHED_COPY_IN
			      : i == 1			 ? SCHED_COPY_OUT
							 : SCHED_COPY_PEER,
		};

		assert_int_equal(sched_submit(sched, context, &request), i + 1);
	}
	sched_advance(sched, second);
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(sched_op(sched, context, i + 1)->done_ns, done_at[i] * 10 * ms);
	free(sched);
}

static void test_a_full_queue_takes_more_once_it_is_collected(void **state)
{
	const struct sched_request request = {.engine = SCHED_NO_ENGINE};
	struct sched *sched = sched_new(2 * ms, 0);
	uint32_t context = sched_open(sched, 0, 0);

	(void)state;
	for (uint32_t i = 0; i < SCHED_RING; i++)
		assert_true(sched_submit(sched, context, &request) > 0);
	assert_int_equal(sched_submit(sched, context, &request), 0);
	sched_advance(sched, 1);
	collect_all(sched, context);
	assert_int_equal(sched_submit(sched, context, &request), SCHED_RING + 1);
	free(sched);
}

static void test_work_that_never_ends_leaves_time_standing(void **state)
{
	const struct sched_request request = {.engine = SCHED_NO_ENGINE, .flags = SCHED_STUCK};
	struct sched *sched = sched_new(2 * ms, 0);
	uint32_t context = sched_open(sched, 0, 0);
	uint64_t number = sched_submit(sched, context, &request);

	(void)state;
	sched_advance(sched, second);
	assert_int_equal(sched_next_event(sched), SCHED_NEVER);
	assert_false(sched_is_done(sched, context, number));
	sched_close(sched, context);
	assert_true(sched_is_done(sched, context, number));
	free(sched);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_two_tenants_of_a_sliced_gpu_have_the_shares_of_the_model),
	    cmocka_unit_test(test_requests_alone_wait_only_for_each_other),
	    cmocka_unit_test(test_requests_beside_training_have_the_latencies_of_the_model),
	    cmocka_unit_test(test_the_default_stream_waits_for_others_and_they_for_it),
	    cmocka_unit_test(test_a_full_queue_takes_more_once_it_is_collected),
	    cmocka_unit_test(test_work_that_never_ends_leaves_time_standing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
