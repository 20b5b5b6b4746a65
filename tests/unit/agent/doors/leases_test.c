/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/doors/leases.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/loop.h"
#include "base/storage.h"
#include "doors/kubelet/podresources.h"
#include "hardware/gpu.h"
#include "policy/policy.h"
#include "tests/unit/unit.h"
#include "units/ledger.h"

enum { DEADLINE_S = 20, HOLDERS_MAX = 4 };

/* What the kubelet says, without one. */
struct podresources {
	struct podresources_holder items[HOLDERS_MAX];
	size_t count;
};

size_t podresources_count(const struct podresources *podresources)
{
	return podresources->count;
}

const struct podresources_holder *podresources_at(const struct podresources *podresources,
						  size_t index)
{
	return &podresources->items[index];
}

struct rig {
	char *directory;
	struct loop *loop;
	struct storage *storage;
	struct leases *leases;
	struct podresources pods;
	struct gpu gpus[3];
	struct mig_device migs[1];
	struct inventory inventory;
	unsigned changes;
};

static void rig_on_changed(void *context)
{
	struct rig *rig = context;
	rig->changes++;
}

static void rig_open(struct rig *rig)
{
	const struct leases_options options = {.storage = rig->storage,
					       .state_dir = rig->directory,
					       .changed = rig_on_changed,
					       .context = rig};
	assert_int_equal(leases_new(&options, &rig->leases, NULL), 0);
	leases_describe(rig->leases, &rig->inventory);
}

static int rig_set_up(void **state)
{
	static struct rig rig;
	rig = (struct rig){.directory = unit_tmp_new(), .loop = loop_new(LOOP_REAL, NULL)};
	assert_non_null(rig.loop);
	rig.storage = storage_new(rig.loop, 16, NULL);
	assert_non_null(rig.storage);
	for (size_t i = 0; i < array_length(rig.gpus); i++)
		(void)snprintf(rig.gpus[i].uuid, sizeof(rig.gpus[i].uuid), "GPU-%c",
			       (char)('a' + i));
	(void)snprintf(rig.migs[0].uuid, sizeof(rig.migs[0].uuid), "MIG-a");
	rig.inventory = (struct inventory){.gpu_count = array_length(rig.gpus),
					   .gpus = rig.gpus,
					   .mig_count = array_length(rig.migs),
					   .migs = rig.migs};
	rig_open(&rig);
	*state = &rig;
	return 0;
}

static int rig_tear_down(void **state)
{
	struct rig *rig = *state;
	rig->storage = storage_close(rig->storage);
	rig->leases = leases_free(rig->leases);
	rig->loop = loop_free(rig->loop);
	rig->directory = unit_tmp_free(rig->directory);
	return 0;
}

static void rig_wait(struct rig *rig)
{
	uint64_t until_ns = unit_now_ns() + DEADLINE_S * CLOCK_NS_PER_S;
	while (storage_pending(rig->storage) > 0) {
		assert_true(unit_now_ns() < until_ns);
		assert_int_equal(loop_pass(rig->loop, CLOCK_NS_PER_MS, NULL), 0);
	}
}

static void rig_hold(struct rig *rig, const char *unit, const char *resource, const char *container)
{
	rig->pods.items[rig->pods.count++] = (struct podresources_holder){.unit = unit,
									  .resource = resource,
									  .name_space = "ns",
									  .pod = "pod",
									  .container = container};
}

static const char *rig_tell(const struct rig *rig)
{
	static char text[512];
	size_t length = 0;
	text[0] = '\0';
	for (size_t i = 0; i < ledger_count(leases_ledger(rig->leases)); i++) {
		const struct ledger_lease *lease = ledger_at(leases_ledger(rig->leases), i);
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%s %s %lld",
					   i ? "; " : "", lease->unit, lease->holder,
					   (long long)lease->since_unix_ns);
	}
	return text;
}

/* At `second` of both clocks. */
static void rig_follow(struct rig *rig, uint64_t second)
{
	leases_follow(rig->leases, &rig->pods, &rig->inventory, (int64_t)second,
		      second * CLOCK_NS_PER_S);
}

static int rig_start(struct rig *rig, const char *first, const char *second, uint64_t at,
		     struct err *err)
{
	char units[2][32];
	char *list[] = {units[0], units[1]};
	(void)snprintf(units[0], sizeof(units[0]), "%s", first);
	(void)snprintf(units[1], sizeof(units[1]), "%s", second ? second : "");
	return leases_start(rig->leases, "nvidia.com/gpu", list, second ? 2 : 1, (int64_t)at,
			    at * CLOCK_NS_PER_S, err);
}

static int rig_job(struct rig *rig, const char *unit)
{
	const struct ledger_lease lease = {.unit = unit,
					   .resource = "",
					   .holder = "job 1",
					   .door = POLICY_DOOR_QUEUE,
					   .job = 1,
					   .since_unix_ns = 1};
	return ledger_take(leases_ledger(rig->leases), &lease, NULL);
}

static void test_follows(void **state)
{
	struct rig *rig = *state;
	rig_hold(rig, "GPU-a", "nvidia.com/gpu", "init");
	rig_hold(rig, "GPU-a", "nvidia.com/gpu", "main");
	rig_hold(rig, "GPU-b", "example.com/gpu", "main"); /* whoever gave it */
	rig_hold(rig, "nic0", "example.com/nic", "main");
	rig_follow(rig, 5);
	assert_string_equal(rig_tell(rig), "GPU-a ns/pod/init 5; GPU-b ns/pod/main 5");
	assert_int_equal(rig->changes, 1);
	rig_wait(rig);

	/* The agent comes again: since when stays. */
	rig->leases = leases_free(rig->leases);
	rig_open(rig);
	assert_string_equal(rig_tell(rig), "GPU-a ns/pod/init 5; GPU-b ns/pod/main 5");
	rig_follow(rig, 9);
	assert_string_equal(rig_tell(rig), "GPU-a ns/pod/init 5; GPU-b ns/pod/main 5");
	assert_int_equal(rig->changes, 1);

	/* The first container has ended, the other one holds on; GPU-b is free. */
	rig->pods.items[0] = rig->pods.items[1];
	rig->pods.count = 1;
	rig_follow(rig, 11);
	assert_string_equal(rig_tell(rig), "GPU-a ns/pod/main 11");
	/* Without an inventory nothing begins, and what goes on stays. */
	rig_hold(rig, "GPU-c", "nvidia.com/gpu", "main");
	leases_follow(rig->leases, &rig->pods, NULL, 12, 12);
	assert_string_equal(rig_tell(rig), "GPU-a ns/pod/main 11");
	/* There is no kubelet any more. */
	leases_follow(rig->leases, NULL, &rig->inventory, 13, 13);
	assert_string_equal(rig_tell(rig), "");
	rig_wait(rig);
}

/* From Allocate to the kubelet's list, and through it to the next container. */
static void test_what_is_being_started(void **state)
{
	struct rig *rig = *state;
	struct err err = {0};
	assert_int_equal(rig_start(rig, "GPU-a::0", "GPU-a::1", 5, &err), 0);
	assert_string_equal(rig_tell(rig), "GPU-a::0 a container that is being started 5; "
					   "GPU-a::1 a container that is being started 5");
	rig_follow(rig, 6); /* asked before */
	assert_int_equal(ledger_count(leases_ledger(rig->leases)), 2);

	rig_hold(rig, "GPU-a::1", "nvidia.com/gpu", "main");
	rig_follow(rig, 10);
	assert_string_equal(rig_tell(rig), "GPU-a::0 a container that is being started 5; "
					   "GPU-a::1 ns/pod/main 10");
	/* It never came to be. */
	rig_follow(rig, 35);
	assert_string_equal(rig_tell(rig), "GPU-a::1 ns/pod/main 10");

	/* The next container gets what the last one has had: nobody can come in between. */
	assert_int_equal(rig_start(rig, "GPU-a::1", NULL, 40, &err), 0);
	rig->pods.count = 0;
	rig_follow(rig, 41);
	assert_string_equal(rig_tell(rig), "GPU-a::1 ns/pod/main 10");
	rig_hold(rig, "GPU-a::1", "nvidia.com/gpu", "next");
	rig_follow(rig, 42);
	assert_string_equal(rig_tell(rig), "GPU-a::1 ns/pod/next 42");
	rig_wait(rig);
}

static void test_a_job_has_it(void **state)
{
	struct rig *rig = *state;
	struct err err = {0};
	assert_int_equal(rig_job(rig, "GPU-b"), 0);
	assert_int_equal(rig_start(rig, "GPU-a", "GPU-b", 5, &err), -EBUSY);
	assert_string_equal(err.text, "unit 'GPU-b' is held by job 1");
	assert_string_equal(rig_tell(rig), "GPU-b job 1 1");
	/* A MIG device of the first GPU, and that GPU. */
	assert_int_equal(rig_start(rig, "MIG-a", NULL, 5, &err), 0);
	assert_int_equal(rig_job(rig, "GPU-a"), -EBUSY);
	rig_follow(rig, 40);

	/* Somebody else's plugin has given it: the job keeps it until it ends. */
	rig_hold(rig, "GPU-b", "example.com/gpu", "main");
	rig_follow(rig, 41);
	assert_string_equal(rig_tell(rig), "GPU-b job 1 1");
	assert_int_equal(ledger_release_holder(leases_ledger(rig->leases), "job 1"), 1);
	rig_follow(rig, 42);
	assert_string_equal(rig_tell(rig), "GPU-b ns/pod/main 42");
	assert_int_equal(rig_job(rig, "GPU-b"), -EBUSY);
	rig_wait(rig);
}

static void test_damaged_file(void **state)
{
	struct rig *rig = *state;
	rig->leases = leases_free(rig->leases);
	unit_write(unit_path(rig->directory, "leases"), "no ledger\n");
	rig_open(rig);
	assert_string_equal(rig_tell(rig), "");
	assert_true(file_exists(unit_path(rig->directory, "leases.damaged")));
	assert_false(file_exists(unit_path(rig->directory, "leases")));
}

static void test_no_file_at_all(void **state)
{
	struct rig *rig = *state;
	rig->leases = leases_free(rig->leases);
	assert_int_equal(file_mkdirs(unit_path(rig->directory, "leases"), 0700, NULL), 0);
	rig_open(rig);
	assert_string_equal(rig_tell(rig), "");
	assert_true(file_exists(unit_path(rig->directory, "leases")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_follows, rig_set_up, rig_tear_down),
	    cmocka_unit_test_setup_teardown(test_what_is_being_started, rig_set_up, rig_tear_down),
	    cmocka_unit_test_setup_teardown(test_a_job_has_it, rig_set_up, rig_tear_down),
	    cmocka_unit_test_setup_teardown(test_damaged_file, rig_set_up, rig_tear_down),
	    cmocka_unit_test_setup_teardown(test_no_file_at_all, rig_set_up, rig_tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
