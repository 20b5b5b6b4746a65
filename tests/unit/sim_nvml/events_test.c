/* SPDX-License-Identifier: Apache-2.0 */
/* Event sets: each sees what came after its registration, of the kinds and GPUs it asked for. */
#include "nvml.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "sim/physics.h"

static void add_event(struct sim_machine *machine, void *context)
{
	sim_machine_event(machine, context);
}

static void send_event(struct rig *rig, uint32_t gpu, uint64_t type, uint64_t data, bool silent)
{
	struct sim_event event = {.type = type,
				  .data = data,
				  .gpu = gpu,
				  .gi = SIM_WHOLE_GPU,
				  .ci = SIM_WHOLE_GPU,
				  .silent = silent};
	rig_change(rig, add_event, &event);
}

static void *new_set(const struct rig *rig, unsigned gpu, uint64_t types)
{
	void *set = NULL;
	assert_int_equal(CALL1(rig, "nvmlEventSetCreate", &set), NVML_OK);
	assert_int_equal(CALL3(rig, "nvmlDeviceRegisterEvents", rig_gpu(rig, gpu), types, set),
			 NVML_OK);
	return set;
}

static void open_a100(struct rig *rig)
{
	rig_open(rig, "dgx-a100", "", 580);
	assert_int_equal(CALL0(rig, "nvmlInit_v2"), NVML_OK);
}

static void test_only_what_was_asked_for(void **unused)
{
	struct rig rig;
	struct nvml_event_data data = {0};
	(void)unused;
	open_a100(&rig);
	send_event(&rig, 2, 0x8, 31, false); /* before the registration */
	void *set = new_set(&rig, 2, 0x8);
	assert_int_equal(CALL3(&rig, "nvmlEventSetWait_v2", set, &data, 0), NVML_TIMEOUT);
	send_event(&rig, 1, 0x8, 43, false); /* another GPU */
	send_event(&rig, 2, 0x1, 0, false);  /* another type */
	send_event(&rig, 2, 0x8, 119, true); /* the driver missed it */
	assert_int_equal(CALL3(&rig, "nvmlEventSetWait_v2", set, &data, 0), NVML_TIMEOUT);
	send_event(&rig, 2, 0x8, 79, false);
	send_event(&rig, 2, 0x8, 48, false);
	assert_int_equal(CALL3(&rig, "nvmlEventSetWait_v2", set, &data, 1000), NVML_OK);
	assert_ptr_equal(data.device, rig_gpu(&rig, 2));
	assert_int_equal(data.type, 0x8);
	assert_int_equal(data.data, 79);
	assert_int_equal(data.gi, 0xffffffff);
	assert_int_equal(CALL3(&rig, "nvmlEventSetWait", set, &data, 1000), NVML_OK);
	assert_int_equal(data.data, 48);
	assert_int_equal(CALL3(&rig, "nvmlEventSetWait_v2", set, &data, 0), NVML_TIMEOUT);
	rig_close(&rig);
}

static void test_sets_are_independent(void **unused)
{
	struct rig rig;
	struct nvml_event_data data = {0};
	(void)unused;
	open_a100(&rig);
	void *first = new_set(&rig, 0, 0x8);
	send_event(&rig, 0, 0x8, 13, false);
	void *second = new_set(&rig, 0, 0x8);
	send_event(&rig, 0, 0x8, 14, false);
	assert_int_equal(CALL3(&rig, "nvmlEventSetWait_v2", second, &data, 0), NVML_OK);
	assert_int_equal(data.data, 14);
	assert_int_equal(CALL3(&rig, "nvmlEventSetWait_v2", first, &data, 0), NVML_OK);
	assert_int_equal(data.data, 13);
	assert_int_equal(CALL3(&rig, "nvmlEventSetWait_v2", first, &data, 0), NVML_OK);
	assert_int_equal(data.data, 14);
	assert_int_equal(CALL1(&rig, "nvmlEventSetFree", first), NVML_OK);
	assert_int_equal(CALL1(&rig, "nvmlEventSetFree", first), NVML_INVALID_ARGUMENT);
	assert_int_equal(CALL3(&rig, "nvmlEventSetWait_v2", first, &data, 0),
			 NVML_INVALID_ARGUMENT);
	assert_int_equal(CALL3(&rig, "nvmlDeviceRegisterEvents", rig_gpu(&rig, 0), 8, first),
			 NVML_INVALID_ARGUMENT);
	/* a new set in the same place is not the old one */
	void *third = new_set(&rig, 0, 0x8);
	assert_ptr_not_equal(third, first);
	rig_close(&rig);
}

/* What a set saw of one GPU does not open it for what another GPU did before. */
static void test_each_gpu_from_its_own_registration(void **unused)
{
	struct rig rig;
	struct nvml_event_data data = {0};
	(void)unused;
	open_a100(&rig);
	void *set = new_set(&rig, 0, 0x8);
	send_event(&rig, 1, 0x8, 31, false);
	assert_int_equal(CALL3(&rig, "nvmlDeviceRegisterEvents", rig_gpu(&rig, 1), 0x8, set),
			 NVML_OK);
	send_event(&rig, 1, 0x8, 32, false);
	assert_int_equal(CALL3(&rig, "nvmlEventSetWait_v2", set, &data, 0), NVML_OK);
	assert_int_equal(data.data, 32);
	rig_close(&rig);
}

static void test_unknown_types_are_refused(void **unused)
{
	struct rig rig;
	uint64_t types = 0;
	void *set = NULL;
	(void)unused;
	rig_open(&rig, "workstation", "", 535);
	assert_int_equal(CALL0(&rig, "nvmlInit_v2"), NVML_OK);
	assert_int_equal(CALL2(&rig, "nvmlDeviceGetSupportedEventTypes", rig_gpu(&rig, 0), &types),
			 NVML_OK);
	assert_true(types & 0x8);
	assert_false(types & 0x3);    /* no ECC */
	assert_false(types & 0x8000); /* not known to that driver */
	assert_int_equal(CALL1(&rig, "nvmlEventSetCreate", &set), NVML_OK);
	assert_int_equal(CALL3(&rig, "nvmlDeviceRegisterEvents", rig_gpu(&rig, 0), 0x1, set),
			 NVML_NOT_SUPPORTED);
	rig_close(&rig);
}

struct waiter {
	const struct rig *rig;
	void *set;
	unsigned result;
	struct nvml_event_data data;
};

static void *wait_for_event(void *argument)
{
	struct waiter *self = argument;
	self->result = CALL3(self->rig, "nvmlEventSetWait_v2", self->set, &self->data, 20000);
	return NULL;
}

static void test_waiter_is_woken(void **unused)
{
	struct rig rig;
	pthread_t thread;
	unsigned count = 0;
	(void)unused;
	open_a100(&rig);
	struct waiter self = {.rig = &rig, .set = new_set(&rig, 4, 0x8)};
	assert_int_equal(pthread_create(&thread, NULL, wait_for_event, &self), 0);
	/* a waiting thread holds up nobody */
	for (int i = 0; i < 1000; i++)
		assert_int_equal(CALL1(&rig, "nvmlDeviceGetCount_v2", &count), NVML_OK);
	uint64_t begin = unit_now_ns();
	send_event(&rig, 4, 0x8, 94, false);
	pthread_join(thread, NULL);
	assert_true(unit_now_ns() - begin < UINT64_C(10000000000));
	assert_int_equal(self.result, NVML_OK);
	assert_int_equal(self.data.data, 94);
	rig_close(&rig);
}

static void set_log(struct sim_machine *machine, void *context)
{
	snprintf(machine->log, sizeof(machine->log), "%s", (const char *)context);
}

static void test_overwritten_events_do_not_stop_the_set(void **unused)
{
	struct rig rig;
	struct nvml_event_data data = {0};
	unsigned seen = 0;
	(void)unused;
	open_a100(&rig);
	void *set = new_set(&rig, 0, 0x8);
	char log[SIM_PATH_MAX];
	snprintf(log, sizeof(log), "%s/calls", rig.directory);
	rig_change(&rig, set_log, log);
	for (unsigned i = 0; i < SIM_EVENT_MAX + 100; i++)
		send_event(&rig, 0, 0x8, i, false);
	while (CALL3(&rig, "nvmlEventSetWait_v2", set, &data, 0) == NVML_OK)
		seen++;
	assert_true(seen >= SIM_EVENT_MAX - SIM_PENDING_MAX && seen <= SIM_EVENT_MAX);
	assert_int_equal(data.data, SIM_EVENT_MAX + 99);
	/* those that are gone are told, in the call log: NVML has no word for them */
	char line[256];
	FILE *file = fopen(log, "re");
	assert_non_null(file);
	assert_non_null(fgets(line, sizeof(line), file));
	fclose(file);
	assert_non_null(strstr(line, " missed "));
	rig_close(&rig);
}

static void unplug(struct sim_machine *machine, void *context)
{
	machine->gpu[*(unsigned *)context].health = SIM_GPU_UNPLUGGED;
}

static void test_system_events(void **unused)
{
	struct rig rig;
	unsigned gpu = 6;
	(void)unused;
	open_a100(&rig);
	struct nvml_system_event_set_create_request create = {.version = NVML_WORD(create, 1)};
	assert_int_equal(CALL1(&rig, "nvmlSystemEventSetCreate", &create), NVML_OK);
	struct nvml_system_register_event_request request = {
	    .version = NVML_WORD(request, 1), .types = 3, .set = create.set};
	assert_int_equal(CALL1(&rig, "nvmlSystemRegisterEvents", &request), NVML_OK);
	struct nvml_system_event_data event[4];
	struct nvml_system_event_set_wait_request wait = {
	    .version = NVML_WORD(wait, 1), .set = create.set, .data = event, .size = 4};
	assert_int_equal(CALL1(&rig, "nvmlSystemEventSetWait", &wait), NVML_TIMEOUT);
	rig_change(&rig, unplug, &gpu);
	assert_int_equal(CALL1(&rig, "nvmlSystemEventSetWait", &wait), NVML_OK);
	assert_int_equal(wait.count, 1);
	assert_int_equal(event[0].type, 1);
	/* a device's set is none of the system's */
	struct nvml_event_data data;
	assert_int_equal(CALL3(&rig, "nvmlEventSetWait_v2", create.set, &data, 0),
			 NVML_INVALID_ARGUMENT);
	struct nvml_system_event_set_free_request release = {.version = NVML_WORD(release, 1),
							     .set = create.set};
	assert_int_equal(CALL1(&rig, "nvmlSystemEventSetFree", &release), NVML_OK);
	assert_int_equal(CALL1(&rig, "nvmlSystemEventSetFree", &release), NVML_INVALID_ARGUMENT);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_only_what_was_asked_for),
	    cmocka_unit_test(test_sets_are_independent),
	    cmocka_unit_test(test_each_gpu_from_its_own_registration),
	    cmocka_unit_test(test_unknown_types_are_refused),
	    cmocka_unit_test(test_waiter_is_woken),
	    cmocka_unit_test(test_overwritten_events_do_not_stop_the_set),
	    cmocka_unit_test(test_system_events),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
