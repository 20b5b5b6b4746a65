/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/labels/held.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

#define S      CLOCK_NS_PER_S
#define KEEP   (300 * S)
#define SLEEP  (60 * S)
#define ANSWER 0 /* nothing is another, and nothing failed */

/* Two GPUs, the second in MIG mode with one instance. */
static struct gpu gpus[2];
static struct mig_device mig;
static struct inventory now;

static int setup(void **state)
{
	(void)state;
	memset(gpus, 0, sizeof(gpus));
	memset(&mig, 0, sizeof(mig));
	memcpy(gpus[0].uuid, "GPU-0", 6);
	memcpy(gpus[1].uuid, "GPU-1", 6);
	gpus[1].mig_current = GPU_MIG_ENABLED;
	memcpy(mig.uuid, "MIG-0", 6);
	memcpy(mig.profile, "1g.5gb", 7);
	mig.parent = 1;
	now = (struct inventory){.gpu_count = 2, .gpus = gpus, .mig_count = 1, .migs = &mig};
	return 0;
}

static int look(struct held *held, uint64_t at_s)
{
	return held_look(held, &now, KEEP, SLEEP, at_s * S, NULL);
}

static void test_a_hiccup(void **state)
{
	(void)state;
	struct held held;
	held_init(&held, 1 * S);
	assert_int_equal(look(&held, 2), 1);
	assert_true(held_due_ns(&held) == UINT64_MAX);
	gpus[0].state = GPU_STATE_LOST;
	assert_int_equal(look(&held, 10), ANSWER);
	assert_true(held_due_ns(&held) == 40 * S);
	assert_int_equal(held.inventory.gpus[0].state, GPU_STATE_OK);
	gpus[0].state = GPU_STATE_OK;
	assert_int_equal(look(&held, 30), 1);
	gpus[0].state = GPU_STATE_LOST;
	assert_int_equal(look(&held, 35), ANSWER); /* it begins anew */
	assert_int_equal(look(&held, 64), ANSWER);
	assert_int_equal(look(&held, 65), 1);
	assert_int_equal(held.inventory.gpus[0].state, GPU_STATE_LOST);
	gpus[0].state = GPU_STATE_OK;
	assert_int_equal(look(&held, 66), 1); /* back at the first good look */
	assert_int_equal(held.inventory.gpus[0].state, GPU_STATE_OK);
	/* One that is not even named. */
	now.gpu_count = 1;
	now.gpus = gpus + 1;
	assert_int_equal(look(&held, 70), ANSWER);
	/* Three looks are less than 30 seconds. */
	assert_int_equal(held_look(&held, &now, KEEP, S / 10, 70 * S + S / 3, NULL), 1);
	held_done(&held);
}

static void test_a_layout(void **state)
{
	(void)state;
	struct held held;
	held_init(&held, 1 * S);
	assert_int_equal(look(&held, 2), 1);
	memcpy(mig.profile, "2g.10gb", 8);
	assert_int_equal(look(&held, 10), ANSWER);
	assert_true(held_due_ns(&held) == 12 * S);
	memcpy(mig.profile, "3g.20gb", 8);
	assert_int_equal(look(&held, 11), ANSWER);
	assert_int_equal(look(&held, 12), ANSWER);
	assert_string_equal(held.inventory.migs[0].profile, "1g.5gb");
	assert_int_equal(look(&held, 13), 1);
	assert_string_equal(held.inventory.migs[0].profile, "3g.20gb");
	memcpy(mig.profile, "2g.10gb", 8);
	assert_int_equal(look(&held, 20), ANSWER);
	memcpy(mig.profile, "3g.20gb", 8);
	assert_int_equal(look(&held, 21), 1); /* as it was */
	gpus[1].mig_current = GPU_MIG_DISABLED;
	now.mig_count = 0;
	assert_int_equal(look(&held, 30), ANSWER);
	assert_int_equal(look(&held, 32), 1);
	held_done(&held);
}

static void test_no_driver(void **state)
{
	(void)state;
	struct held held;
	held_init(&held, 1 * S);
	/* None yet: what the one before us has left stays for a while. */
	assert_int_equal(held_look(&held, NULL, KEEP, SLEEP, 2 * S, NULL), ANSWER);
	assert_false(held.has);
	assert_true(held_due_ns(&held) == 301 * S);
	assert_int_equal(look(&held, 3), 1);
	assert_int_equal(held_look(&held, NULL, KEEP, SLEEP, 10 * S, NULL), ANSWER);
	assert_int_equal(held_look(&held, NULL, KEEP, SLEEP, 309 * S, NULL), ANSWER);
	assert_int_equal(held.inventory.gpu_count, 2);
	assert_int_equal(held_look(&held, NULL, KEEP, SLEEP, 310 * S, NULL), 1);
	assert_int_equal(held.inventory.gpu_count, 0);
	assert_int_equal(held_look(&held, NULL, KEEP, SLEEP, 311 * S, NULL), ANSWER);
	assert_true(held_due_ns(&held) == UINT64_MAX);
	assert_int_equal(look(&held, 312), 1);
	assert_int_equal(held.inventory.gpu_count, 2);
	held_done(&held);
	held_init(&held, 1 * S);
	assert_int_equal(held_look(&held, NULL, 0, SLEEP, 1 * S, NULL), 1);
	assert_true(held.has);
	held_done(&held);
}

static int body(void *context)
{
	(void)context;
	struct held held;
	(void)setup(NULL);
	held_init(&held, 1 * S);
	int rc = look(&held, 2);
	if (rc == 1)
		rc = look(&held, 3);
	assert_true(rc == 1 || rc == -ENOMEM);
	assert_true(rc == 1 || held.inventory.gpu_count == 0 || held.inventory.gpu_count == 2);
	held_done(&held);
	return rc < 0 ? rc : 0;
}

static void test_memory(void **state)
{
	(void)state;
	assert_int_not_equal(failmalloc_each(body, NULL), 0);
}

#define CASE(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(test_a_hiccup),
	    CASE(test_a_layout),
	    CASE(test_no_driver),
	    cmocka_unit_test(test_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
