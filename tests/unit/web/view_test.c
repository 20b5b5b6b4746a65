/* SPDX-License-Identifier: Apache-2.0 */
#include "web/view.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "unit/unit.h"

static void make(struct view *view)
{
	view_init(view);
	view->snapshot.gpu_count = 2;
	view->snapshot.gpu[1].mig_count = 1;
	view->holder_count = view->process_count = view->xid_count = 1;
	view->holder[0].gpu = 1;
	view->process[0].gpu = 1;
	view->job_count = view->event_count = view->adapter_count = view->resource_count = 1;
	view->settings.host_count = 1;
	view->gpu[0].reason_count = 1;
}

/* What a reader must not believe: each would lead it out of an array or a text. */
static void test_invalid(void **state)
{
	struct view *view = calloc(1, sizeof(*view));
	make(view);
	assert_true(view_is_valid(view));
#define REFUSED(member, bad)                                                                       \
	do {                                                                                       \
		__typeof__(view->member) good = view->member;                                      \
		view->member = bad;                                                                \
		assert_false(view_is_valid(view));                                                 \
		view->member = good;                                                               \
		assert_true(view_is_valid(view));                                                  \
	} while (0)
	REFUSED(magic, 1);
	REFUSED(version, VIEW_VERSION + 1);
	REFUSED(size, 8);
	REFUSED(snapshot.magic, 1);
	REFUSED(snapshot.gpu_count, SNAPSHOT_GPU_MAX + 1);
	REFUSED(holder_count, VIEW_HOLDER_MAX + 1);
	REFUSED(process_count, VIEW_PROCESS_MAX + 1);
	REFUSED(xid_count, VIEW_XID_MAX + 1);
	REFUSED(job_count, VIEW_JOB_MAX + 1);
	REFUSED(event_count, VIEW_EVENT_MAX + 1);
	REFUSED(adapter_count, VIEW_ADAPTER_MAX + 1);
	REFUSED(resource_count, VIEW_RESOURCE_MAX + 1);
	REFUSED(settings.host_count, VIEW_HOST_MAX + 1);
	REFUSED(settings.set, VIEW_SET_DCGM + 1);
	REFUSED(settings.dcgm, VIEW_DCGM_OFF + 1);
	REFUSED(gpu[1].health, VIEW_UNHEALTHY + 1);
	REFUSED(gpu[1].reason_count, VIEW_REASON_MAX + 1);
	REFUSED(gpu[0].reason[0].health, VIEW_UNHEALTHY + 1);
	REFUSED(holder[0].gpu, 2);
	REFUSED(holder[0].mig, 1);
	REFUSED(holder[0].mode, VIEW_MIG + 1);
	REFUSED(process[0].gpu, 2);
	REFUSED(process[0].holder, 1);
	REFUSED(xid[0].gpu, 2);
	REFUSED(event[0].health, VIEW_UNHEALTHY + 1);
	REFUSED(adapter[0].health, VIEW_UNHEALTHY + 1);
#define UNENDED(member)                                                                            \
	do {                                                                                       \
		memset(view->member, 'a', sizeof(view->member));                                   \
		assert_false(view_is_valid(view));                                                 \
		memset(view->member, 0, sizeof(view->member));                                     \
		assert_true(view_is_valid(view));                                                  \
	} while (0)
	UNENDED(settings.token);
	UNENDED(settings.host[0]);
	UNENDED(node.host);
	UNENDED(node.problem);
	UNENDED(gpu[0].serial);
	UNENDED(gpu[0].reason[0].advice);
	UNENDED(holder[0].pod);
	UNENDED(holder[0].job_name);
	UNENDED(process[0].name);
	UNENDED(job[0].reason);
	UNENDED(event[0].text);
	UNENDED(adapter[0].reason);
	UNENDED(resource[0].name);
	UNENDED(xid[0].class_);
	UNENDED(xid[0].text);
	free(view);
}

static void test_absent_mig_is_a_place(void **state)
{
	struct view *view = calloc(1, sizeof(*view));
	make(view);
	view->holder[0].mig = SNAPSHOT_U32_ABSENT;
	view->process[0].holder = SNAPSHOT_U32_ABSENT;
	assert_true(view_is_valid(view));
	free(view);
}

/* A writer that died in the middle: the reader says so at once. */
static void test_half_written(void **state)
{
	struct view_shared *shared = calloc(1, sizeof(*shared));
	struct view *copy = calloc(1, sizeof(*copy));
	uint64_t sequence = 7;
	make(&shared->view);
	view_begin(shared);
	assert_false(view_copy(shared, copy, &sequence));
	view_end(shared);
	assert_true(view_copy(shared, copy, &sequence));
	assert_int_equal(sequence, 2);
	view_begin(shared);
	view_begin(shared); /* one that was started again */
	view_end(shared);
	assert_true(view_copy(shared, copy, &sequence));
	assert_int_equal(sequence, 4);
	free(shared);
	free(copy);
}

/* --- a writer beside a reader ----------------------------------------------------------------- */

enum { WRITES = 20000 };

static void *write_always(void *argument)
{
	struct view_shared *shared = argument;
	for (uint64_t i = 1; i <= WRITES; i++) {
		view_begin(shared);
		shared->view.jobs_pending = i;
		shared->view.event_count = (uint32_t)(i % VIEW_EVENT_MAX);
		for (uint32_t k = 0; k < shared->view.event_count; k++)
			shared->view.event[k].id = i;
		view_end(shared);
	}
	return NULL;
}

static void test_never_half_a_copy(void **state)
{
	struct view_shared *shared = calloc(1, sizeof(*shared));
	struct view *copy = calloc(1, sizeof(*copy));
	pthread_t thread;
	uint64_t sequence = 0, last = 0, copies = 0;
	make(&shared->view);
	assert_int_equal(pthread_create(&thread, NULL, write_always, shared), 0);
	while (last < WRITES) {
		if (!view_copy(shared, copy, &sequence))
			continue;
		copies++;
		assert_true(copy->jobs_pending >= last);
		last = copy->jobs_pending;
		assert_int_equal(copy->event_count, last ? last % VIEW_EVENT_MAX : 1);
		for (uint32_t k = 0; last && k < copy->event_count; k++)
			assert_int_equal(copy->event[k].id, last);
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(copies > 0);
	free(shared);
	free(copy);
}

static void test_names(void **state)
{
	assert_string_equal(view_throttle_to_string(0), "power");
	assert_string_equal(view_throttle_to_string(8), "hw_power_brake");
	assert_string_equal(view_throttle_to_string(9), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_invalid),	 cmocka_unit_test(test_absent_mig_is_a_place),
	    cmocka_unit_test(test_half_written), cmocka_unit_test(test_never_half_a_copy),
	    cmocka_unit_test(test_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
