/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/doors/leases.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/loop.h"
#include "base/storage.h"
#include "doors/kubelet/podresources.h"
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
	struct policy policy;
	struct policy_resource resource;
};

static void rig_open(struct rig *rig)
{
	const struct leases_options options = {.storage = rig->storage,
					       .state_dir = rig->directory};
	assert_int_equal(leases_new(&options, &rig->leases, NULL), 0);
}

static int rig_set_up(void **state)
{
	static struct rig rig;
	rig = (struct rig){.directory = unit_tmp_new(), .loop = loop_new(LOOP_REAL, NULL)};
	assert_non_null(rig.loop);
	rig.storage = storage_new(rig.loop, 16, NULL);
	assert_non_null(rig.storage);
	rig.resource =
	    (struct policy_resource){.name = "nvidia.com/gpu", .door = POLICY_DOOR_KUBELET};
	rig.policy = (struct policy){.resources = &rig.resource, .resource_count = 1};
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

static void test_follows(void **state)
{
	struct rig *rig = *state;
	rig_hold(rig, "GPU-a", "nvidia.com/gpu", "init");
	rig_hold(rig, "GPU-a", "nvidia.com/gpu", "main");
	rig_hold(rig, "GPU-b", "example.com/nic", "main");
	rig_hold(rig, "GPU-c", "nvidia.com/gpu", "main");
	leases_follow(rig->leases, &rig->pods, &rig->policy, 5);
	assert_string_equal(rig_tell(rig), "GPU-a ns/pod/init 5; GPU-c ns/pod/main 5");
	rig_wait(rig);

	/* The agent comes again: since when stays. */
	rig->leases = leases_free(rig->leases);
	rig_open(rig);
	assert_string_equal(rig_tell(rig), "GPU-a ns/pod/init 5; GPU-c ns/pod/main 5");
	leases_follow(rig->leases, &rig->pods, &rig->policy, 9);
	assert_string_equal(rig_tell(rig), "GPU-a ns/pod/init 5; GPU-c ns/pod/main 5");

	/* The first container has ended, the other one holds on; GPU-c is free. */
	rig->pods.items[0] = rig->pods.items[1];
	rig->pods.count = 1;
	leases_follow(rig->leases, &rig->pods, &rig->policy, 11);
	assert_string_equal(rig_tell(rig), "GPU-a ns/pod/main 11");
	/* Without a policy nothing begins, and what goes on stays. */
	rig_hold(rig, "GPU-c", "nvidia.com/gpu", "main");
	leases_follow(rig->leases, &rig->pods, NULL, 12);
	assert_string_equal(rig_tell(rig), "GPU-a ns/pod/main 11");
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
	    cmocka_unit_test_setup_teardown(test_damaged_file, rig_set_up, rig_tear_down),
	    cmocka_unit_test_setup_teardown(test_no_file_at_all, rig_set_up, rig_tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
