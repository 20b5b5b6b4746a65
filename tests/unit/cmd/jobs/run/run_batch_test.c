/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/run/run_batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/loop.h"
#include "cmd/service/agent_call.h"
#include "unit/cmd/fake_agent.h"
#include "unit/unit.h"

enum { REQUESTS = 3 };

struct fixture {
	char *directory;
	struct loop *loop;
	struct fake_agent fake;
	struct agent_call agent;
	struct run_batch *batch;
	Sluice__V1__SubmitRequest requests[REQUESTS];
	char keys[REQUESTS][16];
};

static void connect_to(struct fixture *fixture)
{
	fixture->agent.client = wire_client_new(fixture->loop, fixture->fake.path, NULL, NULL);
	assert_non_null(fixture->agent.client);
}

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	assert_non_null(fixture);
	fixture->directory = unit_tmp_new();
	fixture->loop = loop_new(LOOP_REAL, NULL);
	assert_non_null(fixture->loop);
	fake_agent_start(&fixture->fake, fixture->loop, fixture->directory);
	fixture->agent.loop = fixture->loop;
	connect_to(fixture);
	fixture->batch = run_batch_new(&fixture->agent, NULL);
	assert_non_null(fixture->batch);
	for (size_t i = 0; i < REQUESTS; i++) {
		(void)snprintf(fixture->keys[i], sizeof(fixture->keys[i]), "key-%zu", i);
		sluice__v1__submit_request__init(&fixture->requests[i]);
		fixture->requests[i].key = fixture->keys[i];
	}
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;
	while (run_batch_count(fixture->batch) > 0)
		(void)run_batch_drop(fixture->batch);
	fixture->batch = run_batch_free(fixture->batch);
	fixture->agent.client = wire_client_free(fixture->agent.client);
	fake_agent_stop(&fixture->fake);
	fixture->loop = loop_free(fixture->loop);
	unit_tmp_free(fixture->directory);
	free(fixture);
	return 0;
}

static void add_all(struct fixture *fixture)
{
	for (size_t i = 0; i < REQUESTS; i++) {
		assert_true(run_batch_has_room(fixture->batch, &fixture->requests[i]));
		run_batch_add(fixture->batch, &fixture->requests[i], fixture->keys[i]);
	}
	assert_int_equal(run_batch_count(fixture->batch), REQUESTS);
}

static void until_asked(struct fixture *fixture)
{
	uint64_t until_ns = unit_now_ns() + UINT64_C(10000000000);
	while (fixture->fake.submits < REQUESTS) {
		assert_true(unit_now_ns() < until_ns);
		assert_int_equal(loop_pass(fixture->loop, 10000000, NULL), 0);
	}
}

static const struct run_batch_answer *until_answered(struct fixture *fixture)
{
	uint64_t until_ns = unit_now_ns() + UINT64_C(10000000000);
	while (!run_batch_first(fixture->batch)) {
		assert_true(unit_now_ns() < until_ns);
		assert_int_equal(loop_pass(fixture->loop, 10000000, NULL), 0);
	}
	return run_batch_first(fixture->batch);
}

/* All are asked before one is answered. */
static void test_together_and_in_order(void **state)
{
	struct fixture *fixture = *state;
	add_all(fixture);
	until_asked(fixture);
	assert_null(run_batch_first(fixture->batch));
	assert_string_equal(fixture->fake.submit_keys[0], "key-0");
	assert_string_equal(fixture->fake.submit_keys[2], "key-2");
	fake_agent_answer(&fixture->fake, 40);
	for (size_t i = 0; i < REQUESTS; i++) {
		const struct run_batch_answer *answer = until_answered(fixture);
		assert_int_equal(answer->id, 40 + i);
		assert_int_equal(answer->err.code, 0);
		assert_ptr_equal(run_batch_drop(fixture->batch), fixture->keys[i]);
	}
	assert_int_equal(run_batch_count(fixture->batch), 0);
}

static void test_one_is_refused(void **state)
{
	struct fixture *fixture = *state;
	fixture->fake.refuse_key = "key-1";
	add_all(fixture);
	until_asked(fixture);
	fake_agent_answer(&fixture->fake, 40);
	assert_int_equal(until_answered(fixture)->id, 40);
	(void)run_batch_drop(fixture->batch);
	const struct run_batch_answer *answer = until_answered(fixture);
	assert_int_equal(answer->id, 0);
	assert_true(answer->err.code < 0);
	assert_string_equal(answer->err.text, "not that one");
	assert_int_equal(answer->result.status, WIRE_FAILED_PRECONDITION);
	(void)run_batch_drop(fixture->batch);
	assert_int_equal(until_answered(fixture)->id, 42);
}

/* What was answered stays so; the rest is asked again, in its order and with its keys. */
static void test_the_agent_is_killed(void **state)
{
	struct fixture *fixture = *state;
	add_all(fixture);
	until_asked(fixture);
	assert_false(run_batch_is_cut(fixture->batch));
	fake_agent_stop(&fixture->fake);
	uint64_t until_ns = unit_now_ns() + UINT64_C(10000000000);
	while (!run_batch_is_cut(fixture->batch)) {
		assert_true(unit_now_ns() < until_ns);
		assert_int_equal(loop_pass(fixture->loop, 10000000, NULL), 0);
	}
	assert_null(run_batch_first(fixture->batch));

	fake_agent_again(&fixture->fake);
	fixture->agent.client = wire_client_free(fixture->agent.client);
	connect_to(fixture);
	run_batch_again(fixture->batch);
	until_asked(fixture);
	assert_false(run_batch_is_cut(fixture->batch));
	for (size_t i = 0; i < REQUESTS; i++)
		assert_string_equal(fixture->fake.submit_keys[i], fixture->keys[i]);
	fake_agent_answer(&fixture->fake, 7);
	assert_int_equal(until_answered(fixture)->id, 7);
}

static void test_there_is_a_cap(void **state)
{
	struct fixture *fixture = *state;
	for (size_t i = 0; i < RUN_BATCH_MAX; i++) {
		assert_true(run_batch_has_room(fixture->batch, &fixture->requests[0]));
		run_batch_add(fixture->batch, &fixture->requests[0], NULL);
	}
	assert_false(run_batch_has_room(fixture->batch, &fixture->requests[0]));

	/* One of any size goes alone. */
	while (run_batch_count(fixture->batch) > 0)
		(void)run_batch_drop(fixture->batch);
	char *large = malloc(RUN_BATCH_BYTES + 1);
	assert_non_null(large);
	memset(large, 'x', RUN_BATCH_BYTES);
	large[RUN_BATCH_BYTES] = '\0';
	fixture->requests[1].key = large;
	assert_true(run_batch_has_room(fixture->batch, &fixture->requests[1]));
	run_batch_add(fixture->batch, &fixture->requests[0], NULL);
	assert_false(run_batch_has_room(fixture->batch, &fixture->requests[1]));
	free(large);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_together_and_in_order, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_one_is_refused, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_the_agent_is_killed, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_there_is_a_cap, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
