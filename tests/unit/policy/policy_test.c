/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

enum test_limits {
	TEST_GPUS = 8,
	TEST_MIGS = 32,
};

/* A machine that a test fills. */
struct machine {
	struct inventory inventory;
	struct gpu gpus[TEST_GPUS];
	struct mig_device migs[TEST_MIGS];
};

static struct machine *machine_new(uint32_t gpus)
{
	struct machine *machine = calloc(1, sizeof(*machine));
	assert_non_null(machine);
	machine->inventory.gpu_count = gpus;
	machine->inventory.gpus = machine->gpus;
	machine->inventory.migs = machine->migs;
	for (uint32_t i = 0; i < gpus; i++) {
		struct gpu *gpu = &machine->gpus[i];
		gpu->index = i;
		(void)snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%c", 'a' + (int)i);
		(void)snprintf(gpu->name, sizeof(gpu->name), "NVIDIA A100-SXM4-40GB");
		gpu->has_pci = true;
		gpu->pci.bus = (uint8_t)(0x10 + i);
		gpu->numa_node = (int32_t)(i / 4);
		gpu->mig_current = GPU_MIG_DISABLED;
	}
	return machine;
}

static void machine_mig(struct machine *machine, uint32_t gpu, const char *profile)
{
	struct mig_device *mig = &machine->migs[machine->inventory.mig_count];
	machine->gpus[gpu].mig_current = GPU_MIG_ENABLED;
	uint32_t index = 0;
	for (uint32_t i = 0; i < machine->inventory.mig_count; i++)
		index += machine->migs[i].parent == gpu;
	mig->parent = gpu;
	mig->index = index;
	mig->gi = 7 + index;
	(void)snprintf(mig->uuid, sizeof(mig->uuid), "MIG-%u-%u", gpu, index);
	(void)snprintf(mig->profile, sizeof(mig->profile), "%s", profile);
	machine->inventory.mig_count++;
}

static const struct policy_surroundings with_kubelet = {.has_kubelet = true};

static int try_make(const struct machine *machine, const char *text,
		    const struct policy_surroundings *surroundings, struct policy **out,
		    struct err *err)
{
	struct config *config = NULL;
	if (config_parse(text, strlen(text), "c.yaml", NULL, true, &config, err) < 0)
		fail_msg("%s", err->text);
	int rc = policy_make(&machine->inventory, config, surroundings, out, err);
	(void)config_free(config);
	return rc;
}

static struct policy *make(const struct machine *machine, const char *text)
{
	struct policy *policy = NULL;
	struct err err = {0};
	if (try_make(machine, text, &with_kubelet, &policy, &err) < 0)
		fail_msg("%s", err.text);
	return policy;
}

/* "kubelet nvidia.com/gpu: GPU-a GPU-b; ..." of everything. */
static const char *tell(const struct policy *policy)
{
	static char text[4096];
	size_t length = 0;
	text[0] = '\0';
	for (uint32_t r = 0; r < policy->resource_count; r++) {
		const struct policy_resource *resource = &policy->resources[r];
		length += (size_t)snprintf(text + length, sizeof(text) - length,
					   "%s%s %s:", r ? "; " : "",
					   policy_door_to_string(resource->door), resource->name);
		for (uint32_t i = 0; i < resource->count; i++)
			length += (size_t)snprintf(text + length, sizeof(text) - length, " %s",
						   policy->units[resource->first + i].id);
	}
	return text;
}

static void expect(const struct machine *machine, const char *config, const char *resources,
		   const char *warning)
{
	struct policy *policy = make(machine, config);
	assert_string_equal(tell(policy), resources);
	assert_string_equal(policy->problem, "");
	assert_int_equal(policy->warning_count, warning ? 1 : 0);
	if (warning)
		assert_string_equal(policy->warning[0], warning);
	assert_null(policy_free(policy));
}

#define SHARE(entries) "sharing: {timeSlicing: {resources: [" entries "]}}\n"

static void test_whole_gpus(void **state)
{
	(void)state;
	struct machine *machine = machine_new(2);
	expect(machine, "", "kubelet nvidia.com/gpu: GPU-a GPU-b", NULL);
	(void)snprintf(machine->gpus[1].name, GPU_NAME_MAX, "NVIDIA DGX Display");
	expect(machine, "", "kubelet nvidia.com/gpu: GPU-a", NULL);
	machine->gpus[0].uuid[0] = '\0';
	expect(machine, "", "", "GPU 0 is left out: its UUID is not known");
	free(machine);
}

static void test_models_by_name(void **state)
{
	(void)state;
	struct machine *machine = machine_new(3);
	(void)snprintf(machine->gpus[1].name, GPU_NAME_MAX, "Tesla T4");
	expect(machine,
	       "resources: {gpus: [{pattern: \"*A100*\", name: a100}, {pattern: \"*\", name: x}]}",
	       "kubelet nvidia.com/a100: GPU-a GPU-c; kubelet nvidia.com/x: GPU-b", NULL);
	expect(machine, "resources: {gpus: [{pattern: A100, name: a100}]}",
	       "kubelet nvidia.com/gpu: GPU-a GPU-b GPU-c", NULL);
	free(machine);
}

static void test_replicas(void **state)
{
	(void)state;
	struct machine *machine = machine_new(3);
	expect(machine, SHARE("{name: gpu, replicas: 2}"),
	       "kubelet nvidia.com/gpu: GPU-a::0 GPU-a::1 GPU-b::0 GPU-b::1 GPU-c::0 GPU-c::1",
	       NULL);
	expect(
	    machine,
	    "sharing: {timeSlicing: {renameByDefault: true, resources: [{name: gpu, replicas: 2, "
	    "devices: [0]}]}}",
	    "kubelet nvidia.com/gpu.shared: GPU-a::0 GPU-a::1; kubelet nvidia.com/gpu: GPU-b GPU-c",
	    NULL);
	expect(machine, SHARE("{name: gpu, replicas: 3, rename: small, devices: 1}"),
	       "kubelet nvidia.com/small: GPU-a::0 GPU-a::1 GPU-a::2; kubelet nvidia.com/gpu: "
	       "GPU-b GPU-c",
	       NULL);
	/* Two entries with disjoint devices: each device once. */
	expect(machine,
	       SHARE("{name: gpu, replicas: 2, devices: [GPU-b]}, {name: gpu, replicas: 3, "
		     "devices: [2]}"),
	       "kubelet nvidia.com/gpu: GPU-a GPU-b::0 GPU-b::1 GPU-c::0 GPU-c::1 GPU-c::2", NULL);
	expect(
	    machine,
	    SHARE("{name: gpu, replicas: 2, devices: [1]}, {name: gpu, replicas: 3, devices: [1]}"),
	    "kubelet nvidia.com/gpu: GPU-a GPU-b::0 GPU-b::1 GPU-c",
	    "line 1: sharing entry 2 (nvidia.com/gpu): GPU 1 is shared by an earlier entry, which "
	    "holds");
	expect(
	    machine, SHARE("{name: gpu, replicas: 2, devices: 5}"),
	    "kubelet nvidia.com/gpu: GPU-a::0 GPU-a::1 GPU-b::0 GPU-b::1 GPU-c::0 GPU-c::1",
	    "line 1: sharing entry 1 (nvidia.com/gpu): 5 devices are to be shared and 3 could be");
	expect(machine, SHARE("{name: gpu, replicas: 2, devices: [7]}"),
	       "kubelet nvidia.com/gpu: GPU-a GPU-b GPU-c",
	       "line 1, column 72: sharing entry 1 (nvidia.com/gpu): device '7' is not here now");
	expect(machine, SHARE("{name: other, replicas: 2}"),
	       "kubelet nvidia.com/gpu: GPU-a GPU-b GPU-c", NULL);
	struct policy *policy =
	    make(machine, "sharing: {timeSlicing: {failRequestsGreaterThanOne: true, "
			  "resources: [{name: gpu, replicas: 2}]}}");
	assert_true(policy->resources[0].shared);
	assert_true(policy->resources[0].one_each);
	assert_int_equal(policy->units[3].gpu, 1);
	assert_int_equal(policy->units[3].replica, 1);
	assert_int_equal(policy->units[3].replicas, 2);
	assert_null(policy_free(policy));
	free(machine);
}

static void test_too_many_units(void **state)
{
	(void)state;
	struct machine *machine = machine_new(8);
	struct err err = {0};
	struct policy *policy = NULL;
	for (int i = 0; i < 16; i++)
		machine_mig(machine, (uint32_t)i % 8, "1g.5gb");
	assert_int_equal(
	    try_make(machine,
		     "flags: {migStrategy: mixed}\n" SHARE("{name: mig-1g.5gb, replicas: 1024}"),
		     &with_kubelet, &policy, &err),
	    0);
	assert_int_equal(policy->unit_count, 16384);
	assert_null(policy_free(policy));
	machine_mig(machine, 0, "1g.5gb");
	assert_int_equal(
	    try_make(machine,
		     "flags: {migStrategy: mixed}\n" SHARE("{name: mig-1g.5gb, replicas: 1024}"),
		     &with_kubelet, &policy, &err),
	    -EINVAL);
	assert_non_null(strstr(err.text, "17408 units are more than the 16384"));
	free(machine);
}

static void test_mig_none_and_mixed(void **state)
{
	(void)state;
	struct machine *machine = machine_new(3);
	machine_mig(machine, 1, "3g.20gb");
	machine_mig(machine, 1, "1g.5gb+me");
	expect(machine, "", "kubelet nvidia.com/gpu: GPU-a GPU-b GPU-c", NULL);
	expect(
	    machine, "flags: {migStrategy: mixed}\n",
	    "kubelet nvidia.com/gpu: GPU-a GPU-c; kubelet nvidia.com/mig-3g.20gb: MIG-1-0; kubelet "
	    "nvidia.com/mig-1g.5gb.me: MIG-1-1",
	    NULL);
	expect(machine,
	       "flags: {migStrategy: mixed}\nresources: {mig: [{pattern: 3g.20gb, name: half}]}\n",
	       "kubelet nvidia.com/gpu: GPU-a GPU-c; kubelet nvidia.com/half: MIG-1-0; kubelet "
	       "nvidia.com/mig-1g.5gb.me: MIG-1-1",
	       NULL);
	expect(machine,
	       "flags: {migStrategy: mixed}\n" SHARE(
		   "{name: mig-3g.20gb, replicas: 2, devices: [\"1:0\"]}"),
	       "kubelet nvidia.com/gpu: GPU-a GPU-c; kubelet nvidia.com/mig-3g.20gb: MIG-1-0::0 "
	       "MIG-1-0::1; "
	       "kubelet nvidia.com/mig-1g.5gb.me: MIG-1-1",
	       NULL);
	machine->gpus[2].mig_current = GPU_MIG_ENABLED;
	expect(machine,
	       "flags: {migStrategy: mixed}\nsluice: {devices: {exclude: [\"MIG-GPU-b/8/0\"]}}\n",
	       "kubelet nvidia.com/gpu: GPU-a; kubelet nvidia.com/mig-3g.20gb: MIG-1-0",
	       "GPU 2 (GPU-c) is in MIG mode and has no instances");
	free(machine);
}

static void test_mig_part_of_an_instance(void **state)
{
	(void)state;
	struct machine *machine = machine_new(1);
	machine_mig(machine, 0, "1c.3g.20gb");
	expect(machine, "flags: {migStrategy: mixed}\n", "",
	       "MIG device MIG-0-0 (1c.3g.20gb) has no resource name and is left out; add "
	       "resources.mig: [{pattern: \"1c.3g.20gb\", name: mig-1c.3g.20gb}]");
	expect(
	    machine,
	    "flags: {migStrategy: mixed}\nresources: {mig: [{pattern: \"1c.*\", name: third}]}\n",
	    "kubelet nvidia.com/third: MIG-0-0", NULL);
	free(machine);
}

static void expect_problem(const struct machine *machine, const char *problem)
{
	struct policy *policy = make(machine, "flags: {migStrategy: single}\n");
	assert_string_equal(policy->problem, problem);
	assert_int_equal(policy->resource_count, 0);
	assert_null(policy_free(policy));
}

static void test_mig_single(void **state)
{
	(void)state;
	struct machine *machine = machine_new(2);
	expect(machine, "flags: {migStrategy: single}\n", "kubelet nvidia.com/gpu: GPU-a GPU-b",
	       NULL);
	machine_mig(machine, 0, "1g.5gb");
	expect_problem(machine,
		       "all devices on the node must be configured with the same migEnabled "
		       "value (MIG is on for 1 and off for 1)");
	machine->gpus[1].mig_current = GPU_MIG_ENABLED;
	expect_problem(machine, "at least one device with migEnabled=true was not configured "
				"correctly: GPU 1 has no MIG devices");
	machine_mig(machine, 1, "2g.10gb");
	expect_problem(machine, "more than one MIG device type present on node");
	(void)snprintf(machine->migs[1].profile, GPU_PROFILE_MAX, "1g.5gb");
	expect(machine, "flags: {migStrategy: single}\n", "kubelet nvidia.com/gpu: MIG-0-0 MIG-1-0",
	       NULL);
	free(machine);
}

static void test_include_and_exclude(void **state)
{
	(void)state;
	struct machine *machine = machine_new(8);
	expect(machine,
	       "sluice: {devices: {include: [\"numa:1\"], exclude: [5, \"0000:17:00.0\", GPU-g]}}",
	       "kubelet nvidia.com/gpu: GPU-e", NULL);
	expect(machine, "sluice: {devices: {exclude: [\"name:*A100*\"]}}", "", NULL);

	struct policy *policy = NULL;
	struct err err = {0};
	static const struct policy_surroundings visible = {.has_kubelet = true,
							   .visible_devices = "3,GPU-a,,99"};
	assert_int_equal(try_make(machine, "", &visible, &policy, &err), 0);
	assert_string_equal(tell(policy), "kubelet nvidia.com/gpu: GPU-a GPU-d");
	assert_null(policy_free(policy));
	static const struct policy_surroundings all = {.has_kubelet = true,
						       .visible_devices = "all"};
	assert_int_equal(try_make(machine, "", &all, &policy, &err), 0);
	assert_int_equal(policy->unit_count, 8);
	assert_null(policy_free(policy));
	free(machine);
}

static void test_selects(void **state)
{
	(void)state;
	struct machine *machine = machine_new(3);
	struct config *config = NULL;
	static const struct policy_surroundings none = {.has_kubelet = false};
	static const struct policy_surroundings visible = {.visible_devices = "0,2"};
	static const char text[] = "sluice: {devices: {exclude: [1, '2:0']}}";
	machine_mig(machine, 2, "1g.5gb");
	machine_mig(machine, 2, "1g.5gb");
	(void)snprintf(machine->gpus[0].name, GPU_NAME_MAX, "DGX Display");
	assert_int_equal(config_parse("", 0, "c.yaml", NULL, true, &config, NULL), 0);
	assert_false(policy_selects(&machine->inventory, config, &none, 0, POLICY_WHOLE_GPU));
	assert_true(policy_selects(&machine->inventory, config, &none, 1, POLICY_WHOLE_GPU));
	assert_false(policy_selects(&machine->inventory, config, &visible, 1, POLICY_WHOLE_GPU));
	config = config_free(config);
	assert_int_equal(config_parse(text, strlen(text), "c.yaml", NULL, true, &config, NULL), 0);
	assert_false(policy_selects(&machine->inventory, config, &none, 1, POLICY_WHOLE_GPU));
	assert_true(policy_selects(&machine->inventory, config, &none, 2, POLICY_WHOLE_GPU));
	assert_false(policy_selects(&machine->inventory, config, &none, 2, 0));
	assert_true(policy_selects(&machine->inventory, config, &none, 2, 1));
	assert_null(config_free(config));
	free(machine);
}

static void test_doors(void **state)
{
	(void)state;
	struct machine *machine = machine_new(4);
	struct policy *policy = NULL;
	struct err err = {0};
	static const struct policy_surroundings no_kubelet = {.has_kubelet = false};
	assert_int_equal(try_make(machine, "", &no_kubelet, &policy, &err), 0);
	assert_string_equal(tell(policy), "queue nvidia.com/gpu: GPU-a GPU-b GPU-c GPU-d");
	assert_null(policy_free(policy));

	expect(machine, "sluice: {doors: {queue: {devices: [1, GPU-d]}}}",
	       "kubelet nvidia.com/gpu: GPU-a GPU-c; queue nvidia.com/gpu: GPU-b GPU-d", NULL);
	expect(machine, "sluice: {doors: {kubelet: {devices: [0]}}}",
	       "kubelet nvidia.com/gpu: GPU-a; queue nvidia.com/gpu: GPU-b GPU-c GPU-d", NULL);
	expect(machine, "sluice: {doors: {kubelet: {devices: none}, queue: {devices: [0, 1, 2]}}}",
	       "queue nvidia.com/gpu: GPU-a GPU-b GPU-c",
	       "GPU 3 (GPU-d) is given to no door in sluice.doors");
	/* The same GPU by two names. */
	assert_int_equal(
	    try_make(machine,
		     "sluice: {doors: {kubelet: {devices: [1]}, queue: {devices: [GPU-b]}}}",
		     &with_kubelet, &policy, &err),
	    -EINVAL);
	assert_string_equal(err.text,
			    "sluice.doors: GPU 1 (GPU-b) is given to both the kubelet and the "
			    "queue; a device belongs to one door at a time");
	free(machine);
}

static char changes[1024];

static void note_change(enum policy_change change, const struct policy_resource *resource,
			void *context)
{
	(void)context;
	size_t length = strlen(changes);
	(void)snprintf(changes + length, sizeof(changes) - length, "%s %s; ",
		       policy_change_to_string(change), resource->name);
}

static void test_only_what_changed_is_told(void **state)
{
	(void)state;
	struct machine *machine = machine_new(3);
	(void)snprintf(machine->gpus[2].name, GPU_NAME_MAX, "Tesla T4");
	static const char names[] = "resources: {gpus: [{pattern: \"*T4*\", name: t4}]}\n";
	struct policy *before = make(machine, names);
	struct policy *same = make(machine, names);
	changes[0] = '\0';
	assert_int_equal(policy_compare(before, same, note_change, NULL), 0);
	assert_string_equal(changes, "");

	struct policy *after =
	    make(machine, "resources: {gpus: [{pattern: \"*T4*\", name: t4}]}\n" SHARE(
			      "{name: t4, replicas: 2}"));
	assert_int_equal(policy_compare(before, after, note_change, NULL), 1);
	assert_string_equal(changes, "changed nvidia.com/t4; ");
	changes[0] = '\0';
	assert_int_equal(policy_compare(NULL, before, note_change, NULL), 2);
	assert_int_equal(policy_compare(before, NULL, note_change, NULL), 2);
	assert_string_equal(changes,
			    "added nvidia.com/gpu; added nvidia.com/t4; removed nvidia.com/gpu; "
			    "removed nvidia.com/t4; ");
	assert_null(policy_free(before));
	assert_null(policy_free(same));
	assert_null(policy_free(after));
	free(machine);
}

static int scenario_make(void *context)
{
	static const char text[] =
	    "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 3, devices: [0]}]}}\n";
	struct machine *machine = context;
	struct config *config = NULL;
	struct policy *policy = NULL;
	int rc = config_parse(text, sizeof(text) - 1, "c.yaml", NULL, false, &config, NULL);
	if (rc == 0)
		rc = policy_make(&machine->inventory, config, &with_kubelet, &policy, NULL);
	(void)policy_free(policy);
	(void)config_free(config);
	return rc;
}

static void test_out_of_memory(void **state)
{
	(void)state;
	struct machine *machine = machine_new(3);
	assert_true(failmalloc_each(scenario_make, machine) > 10);
	free(machine);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_whole_gpus),
	    cmocka_unit_test(test_models_by_name),
	    cmocka_unit_test(test_replicas),
	    cmocka_unit_test(test_too_many_units),
	    cmocka_unit_test(test_mig_none_and_mixed),
	    cmocka_unit_test(test_mig_part_of_an_instance),
	    cmocka_unit_test(test_mig_single),
	    cmocka_unit_test(test_include_and_exclude),
	    cmocka_unit_test(test_selects),
	    cmocka_unit_test(test_doors),
	    cmocka_unit_test(test_only_what_changed_is_told),
	    cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests_name("policy/policy", tests, NULL, NULL);
}
