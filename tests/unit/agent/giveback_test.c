/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/giveback.h"

#include "base/err.h"
#include "base/loop.h"
#include "base/resident.h"
#include "unit/unit.h"

struct queue;

static int times, times_stack;
static const struct queue *given;

void __wrap_resident_give_back(const struct resident *resident);
void __wrap_resident_give_back(const struct resident *resident)
{
	assert_true(resident->count > 0);
	times++;
}

void __wrap_resident_give_back_stack(void);
void __wrap_resident_give_back_stack(void)
{
	times_stack++;
}

void __wrap_queue_give_back(struct queue *queue, void (*done)(void *context), void *context);
void __wrap_queue_give_back(struct queue *queue, void (*done)(void *context), void *context)
{
	int before = times;
	given = queue;
	done(context);
	assert_int_equal(times, before + 1);
}

static void test_soon_after_the_start_and_then_every_ten_seconds(void **state)
{
	(void)state;
	struct loop *loop = loop_new(LOOP_FAKE, NULL);
	struct queue *queue = NULL;
	struct giveback *giveback = giveback_new(loop, &queue, NULL);
	assert_non_null(giveback);

	uint64_t wait_ns = GIVEBACK_FIRST_NS;
	for (int i = 0; i < 10; i++) {
		assert_int_equal(loop_advance(loop, wait_ns - 1, NULL), 0);
		assert_int_equal(times, i);
		assert_int_equal(loop_advance(loop, 1, NULL), 0);
		assert_int_equal(times, i + 1);
		assert_int_equal(times_stack, i + 1);
		wait_ns = 2 * wait_ns < GIVEBACK_EACH_NS ? 2 * wait_ns : GIVEBACK_EACH_NS;
	}
	assert_int_equal(wait_ns, GIVEBACK_EACH_NS);
	assert_null(given);

	/* The queue is opened later than all else. */
	int any;
	queue = (struct queue *)&any;
	assert_int_equal(loop_advance(loop, GIVEBACK_EACH_NS, NULL), 0);
	assert_ptr_equal(given, queue);

	giveback = giveback_free(giveback);
	assert_null(giveback_free(giveback));
	(void)loop_free(loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_soon_after_the_start_and_then_every_ten_seconds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
