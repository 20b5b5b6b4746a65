/* SPDX-License-Identifier: Apache-2.0 */
/* MIG through the library: profiles, instances, devices and handles that outlive them. */
#include "nvml.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/error.h"
#include "sim/trees.h"

static void open_mig(struct rig *rig, const char *layout)
{
	rig_open(rig, "dgx-a100", layout, 580);
	assert_int_equal(CALL0(rig, "nvmlInit_v2"), NVML_OK);
}

static void test_devices_of_a_layout(void **unused)
{
	struct rig rig;
	char uuid[80], name[96], old[160], parent[80];
	unsigned value = 9, devices = 0, last_gi = 0;
	(void)unused;
	open_mig(&rig, "mixed");
	/* GPUs 4 and 5: 3g + 2g + 2g; 6 and 7: six 1g and one 1g+me */
	for (unsigned gpu = 0; gpu < 8; gpu++) {
		unsigned max = 9, here = 0;
		void *device = rig_gpu(&rig, gpu);
		assert_int_equal(CALL2(&rig, "nvmlDeviceGetMaxMigDeviceCount", device, &max),
				 NVML_OK);
		assert_int_equal(max, gpu < 4 ? 0 : 7);
		for (unsigned i = 0; i < max; i++) {
			void *mig = NULL, *back = NULL;
			unsigned code =
			    CALL3(&rig, "nvmlDeviceGetMigDeviceHandleByIndex", device, i, &mig);
			if (code == NVML_NOT_FOUND)
				continue;
			assert_int_equal(code, NVML_OK);
			here++;
			CALL2(&rig, "nvmlDeviceIsMigDeviceHandle", mig, &value);
			assert_int_equal(value, 1);
			CALL2(&rig, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", mig, &back);
			assert_ptr_equal(back, device);
			assert_int_equal(CALL3(&rig, "nvmlDeviceGetUUID", mig, uuid, 80), NVML_OK);
			assert_memory_equal(uuid, "MIG-51ce51ce-", 13);
			assert_int_equal(CALL2(&rig, "nvmlDeviceGetHandleByUUID", uuid, &back),
					 NVML_OK);
			assert_ptr_equal(back, mig);
			/* the form of old drivers */
			unsigned gi = 0, ci = 0;
			CALL2(&rig, "nvmlDeviceGetGpuInstanceId", mig, &gi);
			CALL2(&rig, "nvmlDeviceGetComputeInstanceId", mig, &ci);
			/* in the order of their ids, as nvidia-smi lists them */
			assert_true(here == 1 || gi > last_gi);
			last_gi = gi;
			CALL2(&rig, "nvmlDeviceGetIndex", mig, &value);
			assert_int_equal(value, i);
			CALL3(&rig, "nvmlDeviceGetUUID", device, parent, 80);
			snprintf(old, sizeof(old), "MIG-%s/%u/%u", parent, gi, ci);
			assert_int_equal(CALL2(&rig, "nvmlDeviceGetHandleByUUID", old, &back),
					 NVML_OK);
			assert_ptr_equal(back, mig);
			/* what belongs to the whole GPU is refused */
			assert_int_equal(CALL2(&rig, "nvmlDeviceGetPowerUsage", mig, &value),
					 NVML_NOT_SUPPORTED);
			assert_int_equal(CALL3(&rig, "nvmlDeviceGetTemperature", mig, 0, &value),
					 NVML_NOT_SUPPORTED);
			assert_int_equal(CALL3(&rig, "nvmlDeviceGetClockInfo", mig, 0, &value),
					 NVML_NOT_SUPPORTED);
			assert_int_equal(CALL2(&rig, "nvmlDeviceGetUtilizationRates", mig, old),
					 NVML_NOT_SUPPORTED);
		}
		assert_int_equal(here, gpu < 4 ? 0 : gpu < 6 ? 3 : 7);
		devices += here;
	}
	assert_int_equal(devices, 20);
	void *mig = NULL;
	assert_int_equal(
	    CALL3(&rig, "nvmlDeviceGetMigDeviceHandleByIndex", rig_gpu(&rig, 4), 0, &mig), NVML_OK);
	struct nvml_device_attributes attributes;
	struct nvml_memory_v2 memory = {.version = NVML_WORD(memory, 2)};
	assert_int_equal(CALL2(&rig, "nvmlDeviceGetAttributes_v2", mig, &attributes), NVML_OK);
	assert_int_equal(CALL2(&rig, "nvmlDeviceGetMemoryInfo_v2", mig, &memory), NVML_OK);
	assert_int_equal(memory.total, attributes.memory_mib << 20);
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetName", mig, name, 96), NVML_OK);
	assert_memory_equal(name, "NVIDIA A100-SXM4-40GB MIG ", 26);
	assert_int_equal(CALL2(&rig, "nvmlDeviceGetAttributes_v2", rig_gpu(&rig, 4), &attributes),
			 NVML_NOT_SUPPORTED);
	rig_close(&rig);
}

static void test_profiles(void **unused)
{
	static const struct {
		unsigned index, id, slices, count, sm, memory;
	} row[] = {{0, 19, 1, 7, 14, 4864}, {1, 14, 2, 3, 28, 9856}, {2, 9, 3, 2, 42, 19968},
		   {3, 5, 4, 1, 56, 19968}, {4, 0, 7, 1, 98, 40192}, {7, 20, 1, 1, 14, 4864},
		   {9, 15, 1, 4, 14, 9856}};
	struct rig rig;
	struct nvml_gpu_instance_profile_info info;
	struct nvml_gpu_instance_profile_info_v2 two;
	struct nvml_gpu_instance_profile_info_v3 three;
	struct nvml_placement place[8];
	(void)unused;
	open_mig(&rig, "empty");
	void *device = rig_gpu(&rig, 0);
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		assert_int_equal(
		    CALL3(&rig, "nvmlDeviceGetGpuInstanceProfileInfo", device, row[i].index, &info),
		    NVML_OK);
		assert_int_equal(info.id, row[i].id);
		assert_int_equal(info.slices, row[i].slices);
		assert_int_equal(info.count, row[i].count);
		assert_int_equal(info.sm, row[i].sm);
		assert_int_equal(info.memory_mib, row[i].memory);
		two.version = NVML_WORD(two, 2);
		assert_int_equal(
		    CALL3(&rig, "nvmlDeviceGetGpuInstanceProfileInfoV", device, row[i].index, &two),
		    NVML_OK);
		three.version = NVML_WORD(three, 3);
		assert_int_equal(CALL3(&rig, "nvmlDeviceGetGpuInstanceProfileInfoV", device,
				       row[i].index, &three),
				 NVML_OK);
		assert_string_equal(two.name, three.name);
		assert_int_equal(two.memory_mib, three.memory_mib);
	}
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetGpuInstanceProfileInfo", device, 5, &info),
			 NVML_NOT_SUPPORTED);
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetGpuInstanceProfileInfo", device, 99, &info),
			 NVML_INVALID_ARGUMENT);
	unsigned count = 0;
	assert_int_equal(
	    CALL4(&rig, "nvmlDeviceGetGpuInstancePossiblePlacements_v2", device, 14, NULL, &count),
	    NVML_OK);
	assert_int_equal(count, 3);
	assert_int_equal(
	    CALL4(&rig, "nvmlDeviceGetGpuInstancePossiblePlacements_v2", device, 14, place, &count),
	    NVML_OK);
	assert_int_equal(place[2].start, 4);
	assert_int_equal(place[2].size, 2);
	count = 1;
	assert_int_equal(
	    CALL4(&rig, "nvmlDeviceGetGpuInstancePossiblePlacements_v2", device, 14, place, &count),
	    NVML_INSUFFICIENT_SIZE);
	assert_int_equal(count, 3);
	rig_close(&rig);
}

static void test_create_and_destroy(void **unused)
{
	struct rig rig;
	void *gi = NULL, *other = NULL, *ci = NULL, *mig = NULL, *list[7];
	unsigned count = 9, free_one = 0, value = 0;
	struct nvml_gpu_instance_info info;
	struct nvml_compute_instance_info compute;
	char name[96];
	(void)unused;
	open_mig(&rig, "empty");
	void *device = rig_gpu(&rig, 0);
	assert_int_equal(
	    CALL3(&rig, "nvmlDeviceGetGpuInstanceRemainingCapacity", device, 19, &free_one),
	    NVML_OK);
	assert_int_equal(free_one, 7);
	struct nvml_placement place = {4, 4};
	assert_int_equal(
	    CALL4(&rig, "nvmlDeviceCreateGpuInstanceWithPlacement", device, 9, &place, &gi),
	    NVML_OK);
	assert_int_equal(CALL2(&rig, "nvmlGpuInstanceGetInfo", gi, &info), NVML_OK);
	assert_int_equal(info.placement.start, 4);
	assert_int_equal(info.id, 2);
	assert_int_equal(info.profile_id, 9);
	assert_ptr_equal(info.device, device);
	/* the rest of the GPU has less room now */
	CALL3(&rig, "nvmlDeviceGetGpuInstanceRemainingCapacity", device, 19, &free_one);
	assert_int_equal(free_one, 4);
	assert_int_equal(CALL3(&rig, "nvmlDeviceCreateGpuInstance", device, 0, &other),
			 NVML_INSUFFICIENT_RESOURCES);
	assert_int_equal(CALL4(&rig, "nvmlDeviceGetGpuInstances", device, 9, list, &count),
			 NVML_OK);
	assert_int_equal(count, 1);
	assert_ptr_equal(list[0], gi);
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetGpuInstanceById", device, 2, &other), NVML_OK);
	assert_ptr_equal(other, gi);
	/* a compute instance of one slice, then a MIG device is there */
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetMigDeviceHandleByIndex", device, 0, &mig),
			 NVML_NOT_FOUND);
	assert_int_equal(CALL3(&rig, "nvmlGpuInstanceCreateComputeInstance", gi, 0, &ci), NVML_OK);
	assert_int_equal(CALL2(&rig, "nvmlComputeInstanceGetInfo_v2", ci, &compute), NVML_OK);
	assert_ptr_equal(compute.gpu_instance, gi);
	assert_int_equal(compute.placement.size, 1);
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetMigDeviceHandleByIndex", device, 0, &mig),
			 NVML_OK);
	CALL3(&rig, "nvmlDeviceGetName", mig, name, 96);
	assert_string_equal(name, "NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb");
	assert_int_equal(CALL1(&rig, "nvmlGpuInstanceDestroy", gi), NVML_IN_USE);
	assert_int_equal(CALL1(&rig, "nvmlComputeInstanceDestroy", ci), NVML_OK);
	/* handles of what is gone say so */
	assert_int_equal(CALL1(&rig, "nvmlComputeInstanceDestroy", ci), NVML_NOT_FOUND);
	assert_int_equal(CALL2(&rig, "nvmlDeviceGetGpuInstanceId", mig, &value), NVML_NOT_FOUND);
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetName", mig, name, 96), NVML_NOT_FOUND);
	assert_int_equal(CALL1(&rig, "nvmlGpuInstanceDestroy", gi), NVML_OK);
	assert_int_equal(CALL2(&rig, "nvmlGpuInstanceGetInfo", gi, &info), NVML_NOT_FOUND);
	/* an instance of the same shape in the same place is another one */
	assert_int_equal(
	    CALL4(&rig, "nvmlDeviceCreateGpuInstanceWithPlacement", device, 9, &place, &other),
	    NVML_OK);
	assert_ptr_not_equal(other, gi);
	assert_int_equal(CALL2(&rig, "nvmlGpuInstanceGetInfo", gi, &info), NVML_NOT_FOUND);
	rig_close(&rig);
}

/* More re-layouts than the handle table has entries. */
static void test_handles_never_run_out(void **unused)
{
	struct rig rig;
	void *first = NULL, *gi = NULL;
	struct nvml_gpu_instance_info info;
	(void)unused;
	open_mig(&rig, "empty");
	void *device = rig_gpu(&rig, 0);
	for (unsigned i = 0; i < 2500; i++) {
		assert_int_equal(CALL3(&rig, "nvmlDeviceCreateGpuInstance", device, 0, &gi),
				 NVML_OK);
		/* the old handle is not the new instance's, also where its entry is used again */
		if (first)
			assert_int_not_equal(CALL2(&rig, "nvmlGpuInstanceGetInfo", first, &info),
					     NVML_OK);
		first = first ? first : gi;
		assert_int_equal(CALL2(&rig, "nvmlGpuInstanceGetInfo", gi, &info), NVML_OK);
		assert_int_equal(CALL1(&rig, "nvmlGpuInstanceDestroy", gi), NVML_OK);
	}
	rig_close(&rig);
}

static void give_root(struct sim_machine *machine, void *context)
{
	struct sim_error error = {0};
	machine->dev_style = SIM_DEV_FILE;
	machine->gpu_count = 1; /* fewer files */
	snprintf(machine->root, sizeof(machine->root), "%s", (const char *)context);
	if (sim_trees_sync(machine, &error) != 0)
		fail_msg("%s", error.text);
}

static bool is_there(const struct rig *rig, const char *what)
{
	char path[SIM_PATH_MAX + 128];
	snprintf(path, sizeof(path), "%s/root/proc/driver/nvidia/capabilities/gpu0/mig/%s/access",
		 rig->directory, what);
	return access(path, F_OK) == 0;
}

/* Who divides a GPU through the library finds the instances' capability files. */
static void test_files_follow(void **unused)
{
	struct rig rig;
	void *gi = NULL, *ci = NULL;
	char root[SIM_PATH_MAX];
	(void)unused;
	open_mig(&rig, "empty");
	snprintf(root, sizeof(root), "%s/root", rig.directory);
	assert_int_equal(mkdir(root, 0755), 0);
	rig_change(&rig, give_root, root);
	assert_false(is_there(&rig, "gi0"));
	assert_int_equal(CALL3(&rig, "nvmlDeviceCreateGpuInstance", rig_gpu(&rig, 0), 0, &gi),
			 NVML_OK);
	assert_true(is_there(&rig, "gi0"));
	assert_false(is_there(&rig, "gi0/ci0"));
	assert_int_equal(CALL3(&rig, "nvmlGpuInstanceCreateComputeInstance", gi, 4, &ci), NVML_OK);
	assert_true(is_there(&rig, "gi0/ci0"));
	assert_int_equal(CALL1(&rig, "nvmlComputeInstanceDestroy", ci), NVML_OK);
	assert_false(is_there(&rig, "gi0/ci0"));
	assert_int_equal(CALL1(&rig, "nvmlGpuInstanceDestroy", gi), NVML_OK);
	assert_false(is_there(&rig, "gi0"));
	rig_close(&rig);
}

static void test_mode(void **unused)
{
	struct rig rig;
	unsigned current = 9, pending = 9, activation = 9;
	(void)unused;
	open_mig(&rig, "");
	void *device = rig_gpu(&rig, 0);
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetMigMode", device, &current, &pending), NVML_OK);
	assert_int_equal(current, 0);
	assert_int_equal(CALL3(&rig, "nvmlDeviceSetMigMode", device, 1, &activation), NVML_OK);
	assert_int_equal(activation, NVML_RESET_REQUIRED);
	CALL3(&rig, "nvmlDeviceGetMigMode", device, &current, &pending);
	assert_int_equal(current, 0);
	assert_int_equal(pending, 1);
	assert_int_equal(CALL3(&rig, "nvmlDeviceSetMigMode", device, 2, &activation),
			 NVML_INVALID_ARGUMENT);
	rig_close(&rig);
	rig_open(&rig, "dgx1", "", 580);
	assert_int_equal(CALL0(&rig, "nvmlInit_v2"), NVML_OK);
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetMigMode", rig_gpu(&rig, 0), &current, &pending),
			 NVML_NOT_SUPPORTED);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_devices_of_a_layout),
	    cmocka_unit_test(test_profiles),
	    cmocka_unit_test(test_create_and_destroy),
	    cmocka_unit_test(test_handles_never_run_out),
	    cmocka_unit_test(test_files_follow),
	    cmocka_unit_test(test_mode),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
