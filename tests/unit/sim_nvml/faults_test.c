/* SPDX-License-Identifier: Apache-2.0 */
/* Injected conditions as a program meets them through the library. */
#include "nvml.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void open_a100(struct rig *rig)
{
	rig_open(rig, "dgx-a100", "", 580);
	assert_int_equal(CALL0(rig, "nvmlInit_v2"), NVML_OK);
}

static void test_injected_codes(void **unused)
{
	struct rig rig;
	char text[80];
	unsigned count = 0;
	(void)unused;
	open_a100(&rig);
	void *first = rig_gpu(&rig, 0), *second = rig_gpu(&rig, 1);
	rig_rule(&rig, SIM_RULE_RETURN, "nvmlDeviceGetName", 1, NVML_UNKNOWN, 0);
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetName", first, text, 80), NVML_OK);
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetName", second, text, 80), NVML_UNKNOWN);
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetUUID", second, text, 80), NVML_OK);
	/* the plain name means the versioned ones, but not a longer name */
	rig_rule(&rig, SIM_RULE_RETURN, "nvmlDeviceGetCount", SIM_WHOLE_GPU, NVML_MEMORY, 0);
	assert_int_equal(CALL1(&rig, "nvmlDeviceGetCount_v2", &count), NVML_MEMORY);
	assert_int_equal(CALL1(&rig, "nvmlDeviceGetCount", &count), NVML_MEMORY);
	rig_rule(&rig, SIM_RULE_RETURN, "nvmlDeviceGetFanSpeed", SIM_WHOLE_GPU, NVML_IN_USE, 0);
	assert_int_equal(CALL2(&rig, "nvmlDeviceGetFanSpeedRPM", first, text), NVML_NOT_SUPPORTED);
	/* stubs can be told as well */
	rig_rule(&rig, SIM_RULE_RETURN, "nvmlDeviceGetFanSpeedRPM", SIM_WHOLE_GPU, NVML_NO_DATA, 0);
	assert_int_equal(CALL2(&rig, "nvmlDeviceGetFanSpeedRPM", first, text), NVML_NO_DATA);
	/* a lookup can fail for one GPU; "any" of a GPU means calls on its handle */
	void *again = NULL;
	rig_rule(&rig, SIM_RULE_RETURN, "nvmlDeviceGetHandleByIndex", 1, NVML_IN_USE, 0);
	rig_rule(&rig, SIM_RULE_RETURN, "any", 0, NVML_UNKNOWN, 0);
	assert_int_equal(CALL2(&rig, "nvmlDeviceGetHandleByIndex_v2", 1, &again), NVML_IN_USE);
	assert_int_equal(CALL2(&rig, "nvmlDeviceGetHandleByIndex_v2", 0, &again), NVML_OK);
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetUUID", first, text, 80), NVML_UNKNOWN);
	rig_heal(&rig);
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetName", second, text, 80), NVML_OK);
	assert_int_equal(CALL1(&rig, "nvmlDeviceGetCount_v2", &count), NVML_OK);
	rig_close(&rig);
}

static void limit_rule(struct sim_machine *machine, void *context)
{
	(void)context;
	machine->rule[0].after = 2;
	machine->rule[0].count = 1;
}

static void test_a_fault_on_the_third_call_only(void **unused)
{
	static const unsigned expected[] = {0, 0, NVML_UNKNOWN, 0, 0};
	struct rig rig;
	unsigned value = 0;
	(void)unused;
	open_a100(&rig);
	rig_rule(&rig, SIM_RULE_RETURN, "nvmlDeviceGetPowerUsage", SIM_WHOLE_GPU, NVML_UNKNOWN, 0);
	rig_change(&rig, limit_rule, NULL);
	void *device = rig_gpu(&rig, 0);
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		assert_int_equal(CALL2(&rig, "nvmlDeviceGetPowerUsage", device, &value),
				 expected[i]);
	rig_close(&rig);
}

static void set_health(struct sim_machine *machine, void *context)
{
	const unsigned *what = context;
	machine->gpu[what[0]].health = what[1];
	machine->gpu[what[0]].recovery_action = what[1] == SIM_GPU_RESET_REQUIRED;
}

static void test_a_lost_gpu_hides_no_other(void **unused)
{
	struct rig rig;
	unsigned lost[] = {3, SIM_GPU_LOST}, count = 0, value = 0;
	void *handle[8], *again = NULL;
	char uuid[80];
	(void)unused;
	open_a100(&rig);
	for (unsigned i = 0; i < 8; i++)
		handle[i] = rig_gpu(&rig, i);
	CALL3(&rig, "nvmlDeviceGetUUID", handle[3], uuid, 80);
	rig_change(&rig, set_health, lost);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(CALL1(&rig, "nvmlDeviceGetCount_v2", &count), NVML_OK);
		assert_int_equal(count, 8);
		for (unsigned i = 0; i < 8; i++) {
			unsigned expected = i == 3 ? NVML_GPU_IS_LOST : NVML_OK;
			assert_int_equal(CALL2(&rig, "nvmlDeviceGetPowerUsage", handle[i], &value),
					 expected);
			assert_int_equal(CALL2(&rig, "nvmlDeviceGetHandleByIndex_v2", i, &again),
					 expected);
		}
		assert_int_equal(CALL2(&rig, "nvmlDeviceGetHandleByUUID", uuid, &again),
				 NVML_GPU_IS_LOST);
		/* also for who begins anew */
		assert_int_equal(CALL0(&rig, "nvmlShutdown"), NVML_OK);
		assert_int_equal(CALL0(&rig, "nvmlInit_v2"), NVML_OK);
	}
	rig_close(&rig);
}

static void test_reset_required(void **unused)
{
	struct rig rig;
	unsigned what[] = {0, SIM_GPU_RESET_REQUIRED}, value = 0;
	(void)unused;
	open_a100(&rig);
	void *device = rig_gpu(&rig, 0);
	rig_change(&rig, set_health, what);
	assert_int_equal(CALL2(&rig, "nvmlDeviceGetPowerUsage", device, &value),
			 NVML_RESET_REQUIRED);
	struct nvml_field_value field[] = {{.id = 230}, {.id = 186}};
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetFieldValues", device, 2, field), NVML_OK);
	assert_int_equal(field[0].result, NVML_OK);
	assert_int_equal(field[0].value.ui, 1);
	assert_int_equal(field[1].result, NVML_RESET_REQUIRED);
	rig_close(&rig);
}

static void test_unplugged_until_next_init(void **unused)
{
	struct rig rig;
	unsigned what[] = {7, SIM_GPU_UNPLUGGED}, count = 0, value = 0;
	(void)unused;
	open_a100(&rig);
	void *device = rig_gpu(&rig, 7);
	rig_change(&rig, set_health, what);
	CALL1(&rig, "nvmlDeviceGetCount_v2", &count);
	assert_int_equal(count, 8);
	assert_int_equal(CALL2(&rig, "nvmlDeviceGetPowerUsage", device, &value), NVML_GPU_IS_LOST);
	CALL0(&rig, "nvmlShutdown");
	assert_int_equal(CALL0(&rig, "nvmlInit_v2"), NVML_OK);
	CALL1(&rig, "nvmlDeviceGetCount_v2", &count);
	assert_int_equal(count, 7);
	rig_close(&rig);
}

static void set_driver(struct sim_machine *machine, void *context)
{
	machine->driver_state = *(uint32_t *)context;
}

static void test_driver_states(void **unused)
{
	static const unsigned code[] = {NVML_OK, NVML_DRIVER_NOT_LOADED, NVML_NO_PERMISSION,
					NVML_VERSION_MISMATCH};
	struct rig rig;
	(void)unused;
	rig_open(&rig, "dgx-a100", "", 580);
	for (uint32_t state = SIM_DRIVER_OK; state <= SIM_DRIVER_MISMATCH; state++) {
		rig_change(&rig, set_driver, &state);
		assert_int_equal(CALL0(&rig, "nvmlInit_v2"), code[state]);
		CALL0(&rig, "nvmlShutdown");
	}
	rig_close(&rig);
}

static void test_injected_init(void **unused)
{
	struct rig rig;
	(void)unused;
	rig_open(&rig, "dgx-a100", "", 580);
	rig_rule(&rig, SIM_RULE_RETURN, "nvmlInit", SIM_WHOLE_GPU, NVML_UNKNOWN, 0);
	assert_int_equal(CALL0(&rig, "nvmlInit_v2"), NVML_UNKNOWN);
	assert_int_equal(CALL0(&rig, "nvmlShutdown"), NVML_UNINITIALIZED);
	rig_heal(&rig);
	assert_int_equal(CALL0(&rig, "nvmlInit_v2"), NVML_OK);
	rig_close(&rig);
}

/* --- calls that do not come back --- */

struct stuck {
	const struct rig *rig;
	void *device;
	unsigned result;
	_Atomic int ended, tid;
};

/* Has the thread blocked all signals? Field "SigBlk" of its status, whose last digit is then f. */
static bool is_in_call(struct stuck *self)
{
	char path[64], text[4096];
	snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)self->tid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	if (fd >= 0)
		close(fd);
	if (length <= 0)
		return false;
	text[length] = '\0';
	const char *mask = strstr(text, "SigBlk:\t");
	return mask && mask[8 + 15] == 'f';
}

static void *stuck_call(void *argument)
{
	struct stuck *self = argument;
	unsigned value = 0;
	self->tid = (int)syscall(SYS_gettid);
	self->result = CALL2(self->rig, "nvmlDeviceGetPowerUsage", self->device, &value);
	self->ended = 1;
	return NULL;
}

static _Atomic int signals_seen;

static void on_signal(int number)
{
	(void)number;
	signals_seen = 1;
}

static void test_a_hung_call_holds_up_nobody_and_heals(void **unused)
{
	struct rig rig;
	pthread_t thread;
	unsigned value = 0;
	struct sigaction action = {.sa_handler = on_signal};
	(void)unused;
	sigaction(SIGUSR1, &action, NULL);
	open_a100(&rig);
	struct stuck self = {.rig = &rig, .device = rig_gpu(&rig, 2)};
	rig_rule(&rig, SIM_RULE_HANG, "any", 2, 0, 0);
	assert_int_equal(pthread_create(&thread, NULL, stuck_call, &self), 0);
	/* the call log shows nothing of a call that has not returned; its signal mask does */
	while (!is_in_call(&self))
		sched_yield();
	/* other GPUs answer, also after a new Init and with the clock moving */
	for (int i = 0; i < 200; i++) {
		assert_int_equal(CALL2(&rig, "nvmlDeviceGetPowerUsage", rig_gpu(&rig, 1), &value),
				 NVML_OK);
		pthread_kill(thread, SIGUSR1);
	}
	rig_advance(&rig, 100);
	assert_int_equal(CALL0(&rig, "nvmlShutdown"), NVML_OK);
	assert_int_equal(CALL0(&rig, "nvmlInit_v2"), NVML_OK);
	/* like a thread in uninterruptible sleep it takes no signal */
	assert_int_equal(self.ended, 0);
	assert_int_equal(signals_seen, 0);
	rig_heal(&rig);
	pthread_join(thread, NULL);
	assert_int_equal(signals_seen, 1);
	assert_int_equal(self.result, NVML_OK);
	rig_close(&rig);
}

static void test_slow_and_timed_hang(void **unused)
{
	struct rig rig;
	unsigned value = 0;
	(void)unused;
	open_a100(&rig);
	void *device = rig_gpu(&rig, 0);
	rig_rule(&rig, SIM_RULE_SLOW, "nvmlDeviceGetPowerUsage", SIM_WHOLE_GPU, 0, 30);
	rig_rule(&rig, SIM_RULE_HANG, "nvmlDeviceGetPowerUsage", SIM_WHOLE_GPU, 0, 40);
	uint64_t begin = unit_now_ns();
	assert_int_equal(CALL2(&rig, "nvmlDeviceGetPowerUsage", device, &value), NVML_OK);
	assert_true(unit_now_ns() - begin >= UINT64_C(70000000));
	rig_close(&rig);
}

/* --- the call log --- */

static void set_log(struct sim_machine *machine, void *context)
{
	snprintf(machine->log, sizeof(machine->log), "%s", (const char *)context);
}

static void test_call_log(void **unused)
{
	struct rig rig;
	char path[SIM_PATH_MAX], text[4096], expected[64];
	unsigned value = 0;
	(void)unused;
	open_a100(&rig);
	void *device = rig_gpu(&rig, 4);
	snprintf(path, sizeof(path), "%s/calls", rig.directory);
	rig_change(&rig, set_log, path);
	assert_int_equal(CALL2(&rig, "nvmlDeviceGetPowerUsage", device, &value), NVML_OK);
	assert_int_equal(CALL2(&rig, "nvmlDeviceGetFanSpeed", device, &value), NVML_NOT_SUPPORTED);
	assert_int_equal(CALL2(&rig, "nvmlDeviceGetFanSpeedRPM", device, &value),
			 NVML_NOT_SUPPORTED);
	char empty[] = "";
	rig_change(&rig, set_log, empty);
	assert_int_equal(CALL2(&rig, "nvmlDeviceGetPowerUsage", device, &value), NVML_OK);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	ssize_t length = read(fd, text, sizeof(text) - 1);
	close(fd);
	assert_true(length > 0);
	text[length] = '\0';
	snprintf(expected, sizeof(expected), " %d %d nvmlDeviceGetPowerUsage 4 0 ", getpid(),
		 getpid());
	assert_non_null(strstr(text, expected));
	assert_non_null(strstr(text, " nvmlDeviceGetFanSpeed 4 3 "));
	assert_non_null(strstr(text, " nvmlDeviceGetFanSpeedRPM 4 3 "));
	unsigned lines = 0;
	for (const char *c = text; *c; c++)
		lines += *c == '\n';
	assert_int_equal(lines, 3);
	rig_close(&rig);
}

/* --- quirks --- */

static void set_quirks(struct sim_machine *machine, void *context)
{
	machine->quirks = *(uint32_t *)context;
}

static void test_quirks(void **unused)
{
	struct rig rig;
	uint32_t quirks = SIM_QUIRK_PROCSIZE_100 | SIM_QUIRK_V1ONLY | SIM_QUIRK_TLIMIT |
			  SIM_QUIRK_NODATA | SIM_QUIRK_SLOWPCIE;
	struct nvml_memory_v2 memory = {.version = NVML_WORD(memory, 2)};
	struct nvml_utilization use;
	unsigned count = 0, value = 0;
	(void)unused;
	open_a100(&rig);
	void *device = rig_gpu(&rig, 0);
	rig_change(&rig, set_quirks, &quirks);
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetComputeRunningProcesses", device, &count, NULL),
			 NVML_INSUFFICIENT_SIZE);
	assert_int_equal(count, 100);
	assert_int_equal(CALL2(&rig, "nvmlDeviceGetMemoryInfo_v2", device, &memory),
			 NVML_NOT_SUPPORTED);
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetTemperatureThreshold", device, 1, &value),
			 NVML_NOT_SUPPORTED);
	assert_int_equal(CALL2(&rig, "nvmlDeviceGetUtilizationRates", device, &use), NVML_NO_DATA);
	uint64_t begin = unit_now_ns();
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetPcieThroughput", device, 0, &value), NVML_OK);
	assert_true(unit_now_ns() - begin >= UINT64_C(20000000));
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_injected_codes),
	    cmocka_unit_test(test_a_fault_on_the_third_call_only),
	    cmocka_unit_test(test_a_lost_gpu_hides_no_other),
	    cmocka_unit_test(test_reset_required),
	    cmocka_unit_test(test_unplugged_until_next_init),
	    cmocka_unit_test(test_driver_states),
	    cmocka_unit_test(test_injected_init),
	    cmocka_unit_test(test_a_hung_call_holds_up_nobody_and_heals),
	    cmocka_unit_test(test_slow_and_timed_hang),
	    cmocka_unit_test(test_call_log),
	    cmocka_unit_test(test_quirks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
