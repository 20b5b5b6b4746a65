/* SPDX-License-Identifier: Apache-2.0 */
/* How the library behaves as a whole: counting Init, buffers, lookups, what each reader sees. */
#include "nvml.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void open_a100(struct rig *rig)
{
	rig_open(rig, "dgx-a100", "", 580);
	assert_int_equal(CALL0(rig, "nvmlInit_v2"), NVML_OK);
}

static void test_init_is_counted(void **unused)
{
	struct rig rig;
	unsigned count = 0;
	(void)unused;
	open_a100(&rig);
	assert_int_equal(CALL1(&rig, "nvmlInitWithFlags", 1), NVML_OK);
	assert_int_equal(CALL0(&rig, "nvmlShutdown"), NVML_OK);
	assert_int_equal(CALL1(&rig, "nvmlDeviceGetCount_v2", &count), NVML_OK);
	assert_int_equal(count, 8);
	assert_int_equal(CALL0(&rig, "nvmlShutdown"), NVML_OK);
	assert_int_equal(CALL1(&rig, "nvmlDeviceGetCount_v2", &count), NVML_UNINITIALIZED);
	assert_int_equal(CALL0(&rig, "nvmlShutdown"), NVML_UNINITIALIZED);
	rig_close(&rig);
}

static void test_buffers(void **unused)
{
	struct rig rig;
	char text[96], bus[32];
	struct nvml_pci_info pci;
	(void)unused;
	open_a100(&rig);
	void *device = rig_gpu(&rig, 3);
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetUUID", device, text, sizeof(text)), NVML_OK);
	assert_memory_equal(text, "GPU-51ce51ce-", 13);
	assert_int_equal(strlen(text), 40);
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetUUID", device, text, 41), NVML_OK);
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetUUID", device, text, 40),
			 NVML_INSUFFICIENT_SIZE);
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetUUID", device, NULL, 40), NVML_INVALID_ARGUMENT);
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetName", device, text, 64), NVML_OK);
	assert_string_equal(text, "NVIDIA A100-SXM4-40GB");
	assert_int_equal(CALL2(&rig, "nvmlDeviceGetPciInfo_v3", device, &pci), NVML_OK);
	assert_string_equal(pci.bus_id, "00000000:4E:00.0");
	assert_string_equal(pci.bus_id_legacy, "0000:4E:00.0");
	assert_int_equal(pci.bus, 0x4e);
	assert_int_equal(pci.pci_device_id, 0x20b010de);

	/* bus ids in every form that programs write */
	static const char *const forms[] = {"00000000:4E:00.0", "0000:4e:00.0", "0:4e:0",
					    "0000:4E:00"};
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		void *found = NULL;
		assert_int_equal(CALL2(&rig, "nvmlDeviceGetHandleByPciBusId_v2", forms[i], &found),
				 NVML_OK);
		assert_ptr_equal(found, device);
	}
	static const char *const bad[] = {
	    "", "4e", "0000:4e", "0000:zz:00.0", "0000:4e:00.0x", "00000000000000:4e:00.0"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		void *found = NULL;
		snprintf(bus, sizeof(bus), "%s", bad[i]);
		assert_int_equal(CALL2(&rig, "nvmlDeviceGetHandleByPciBusId", bus, &found),
				 NVML_INVALID_ARGUMENT);
	}
	void *found = NULL;
	assert_int_equal(CALL2(&rig, "nvmlDeviceGetHandleByPciBusId", "0000:ff:00.0", &found),
			 NVML_NOT_FOUND);
	assert_int_equal(CALL2(&rig, "nvmlDeviceGetHandleByUUID", "GPU-nobody", &found),
			 NVML_NOT_FOUND);
	assert_int_equal(CALL2(&rig, "nvmlDeviceGetHandleBySerial", "0", &found), NVML_NOT_FOUND);
	assert_int_equal(CALL2(&rig, "nvmlDeviceGetHandleByIndex_v2", 8, &found),
			 NVML_INVALID_ARGUMENT);
	rig_close(&rig);
}

static void test_arrays(void **unused)
{
	struct rig rig;
	unsigned clocks[256], count = 0;
	(void)unused;
	open_a100(&rig);
	void *device = rig_gpu(&rig, 0);
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetSupportedMemoryClocks", device, &count, clocks),
			 NVML_INSUFFICIENT_SIZE);
	assert_true(count >= 1);
	unsigned one = count;
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetSupportedMemoryClocks", device, &one, clocks),
			 NVML_OK);
	assert_int_equal(clocks[0], 1215);
	count = 2;
	assert_int_equal(
	    CALL4(&rig, "nvmlDeviceGetSupportedGraphicsClocks", device, 1215, &count, clocks),
	    NVML_INSUFFICIENT_SIZE);
	assert_true(count > 2 && count <= 256);
	assert_int_equal(
	    CALL4(&rig, "nvmlDeviceGetSupportedGraphicsClocks", device, 1215, &count, clocks),
	    NVML_OK);
	assert_int_equal(clocks[0], 1410);
	/* none there: success, however little room */
	struct nvml_process_info process[4];
	count = 0;
	assert_int_equal(
	    CALL3(&rig, "nvmlDeviceGetComputeRunningProcesses_v3", device, &count, NULL), NVML_OK);
	assert_int_equal(count, 0);
	(void)process;
	rig_close(&rig);
}

/* Ourselves with a load on GPU `*context`. */
static void put_load(struct sim_machine *machine, void *context)
{
	unsigned gpu = *(unsigned *)context;
	struct sim_process *process = &machine->gpu[gpu].process[0];
	assert_int_equal(sim_state_identify((uint32_t)getpid(), process), 0);
	process->gi = process->ci = SIM_WHOLE_GPU;
	process->type = SIM_PROCESS_COMPUTE;
	process->util_permille = 800;
	process->membw_permille = -1;
	process->memory_bytes = UINT64_C(5) << 30;
	process->pcie_tx_bps = UINT64_C(1) << 30;
	process->begin_tick = machine->tick;
}

static void test_a_load_shows_everywhere(void **unused)
{
	struct rig rig;
	struct nvml_utilization use;
	struct nvml_memory_v2 memory = {.version = NVML_WORD(memory, 2)};
	struct nvml_memory first;
	struct nvml_process_info process[2];
	struct nvml_process_info_v1 old[2];
	struct nvml_process_utilization_sample sample[128];
	unsigned count = 2, watt_idle = 0, watt = 0, gpu = 2, pcie = 0, celsius = 0, hot = 0;
	(void)unused;
	open_a100(&rig);
	void *device = rig_gpu(&rig, gpu);
	assert_int_equal(CALL2(&rig, "nvmlDeviceGetPowerUsage", device, &watt_idle), NVML_OK);
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetTemperature", device, 0, &celsius), NVML_OK);
	rig_change(&rig, put_load, &gpu);
	rig_advance(&rig, 600);
	assert_int_equal(CALL2(&rig, "nvmlDeviceGetUtilizationRates", device, &use), NVML_OK);
	assert_true(use.gpu >= 78 && use.gpu <= 82);
	assert_int_equal(CALL2(&rig, "nvmlDeviceGetPowerUsage", device, &watt), NVML_OK);
	assert_true(watt > 2 * watt_idle);
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetTemperature", device, 0, &hot), NVML_OK);
	assert_true(hot > celsius + 5);
	assert_int_equal(CALL2(&rig, "nvmlDeviceGetMemoryInfo_v2", device, &memory), NVML_OK);
	assert_int_equal(memory.total, memory.used + memory.free + memory.reserved);
	assert_true(memory.used >= UINT64_C(5) << 30);
	assert_int_equal(CALL2(&rig, "nvmlDeviceGetMemoryInfo", device, &first), NVML_OK);
	assert_int_equal(first.used, memory.used + memory.reserved);
	assert_int_equal(first.total, first.used + first.free);
	assert_int_equal(
	    CALL3(&rig, "nvmlDeviceGetComputeRunningProcesses_v3", device, &count, process),
	    NVML_OK);
	assert_int_equal(count, 1);
	assert_int_equal(process[0].pid, getpid());
	assert_int_equal(process[0].gi, 0xffffffff);
	count = 2;
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetComputeRunningProcesses", device, &count, old),
			 NVML_OK);
	assert_int_equal(old[0].used, process[0].used);
	count = 0;
	assert_int_equal(
	    CALL3(&rig, "nvmlDeviceGetGraphicsRunningProcesses_v3", device, &count, NULL), NVML_OK);
	count = 128;
	assert_int_equal(CALL4(&rig, "nvmlDeviceGetProcessUtilization", device, sample, &count, 0),
			 NVML_OK);
	assert_true(count > 0);
	assert_int_equal(sample[0].pid, getpid());
	assert_true(sample[count - 1].sm > 70);
	uint64_t newest = sample[count - 1].time_us;
	assert_int_equal(
	    CALL4(&rig, "nvmlDeviceGetProcessUtilization", device, sample, &count, newest),
	    NVML_NOT_FOUND);
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetPcieThroughput", device, 0, &pcie), NVML_OK);
	assert_int_equal(pcie, 1 << 20);
	/* and on no other GPU */
	assert_int_equal(CALL2(&rig, "nvmlDeviceGetUtilizationRates", rig_gpu(&rig, 3), &use),
			 NVML_OK);
	assert_int_equal(use.gpu, 0);
	rig_close(&rig);
}

static void test_fields(void **unused)
{
	struct rig rig;
	uint64_t energy = 0;
	unsigned gpu = 0;
	(void)unused;
	open_a100(&rig);
	void *device = rig_gpu(&rig, gpu);
	rig_change(&rig, put_load, &gpu);
	rig_advance(&rig, 100);
	struct nvml_field_value field[] = {{.id = 83},
					   {.id = 82},
					   {.id = 186},
					   {.id = 189},
					   {.id = 91},
					   {.id = 145},
					   {.id = 230},
					   {.id = 0},
					   {.id = 300},
					   {.id = 29},
					   {.id = 161, .scope = 99},
					   {.id = 165, .scope = 3},
					   {.id = 251}};
	int count = (int)(sizeof(field) / sizeof(field[0]));
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetFieldValues", device, count, field), NVML_OK);
	assert_int_equal(CALL2(&rig, "nvmlDeviceGetTotalEnergyConsumption", device, &energy),
			 NVML_OK);
	assert_int_equal(field[0].result, NVML_OK);
	assert_int_equal(field[0].value_type, NVML_ULONGLONG);
	assert_int_equal(field[0].value.ull, energy);
	assert_true(energy > 500000);		    /* ten seconds at over 50 W, in mJ */
	assert_int_equal(field[1].result, NVML_OK); /* HBM has a sensor */
	assert_true(field[1].value.ui > 25 && field[1].value.ui < 95);
	assert_true(field[2].value.ui > 70000);
	assert_int_equal(field[3].value.ui, 400000);
	assert_int_equal(field[4].value.ui, 12);
	assert_int_equal(field[5].value.ui, 0);
	assert_int_equal(field[6].result, NVML_OK);
	assert_int_equal(field[7].result, NVML_INVALID_ARGUMENT);
	assert_int_equal(field[8].result, NVML_INVALID_ARGUMENT); /* unknown to this age */
	assert_int_equal(field[9].result, NVML_NOT_SUPPORTED);	  /* rows are remapped instead */
	assert_int_equal(field[10].result, NVML_INVALID_ARGUMENT);
	assert_int_equal(field[11].value.ui, 1);
	assert_int_equal(field[12].result, NVML_NOT_SUPPORTED);
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetFieldValues", device, 0, field),
			 NVML_INVALID_ARGUMENT);
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetFieldValues", device, -5, field),
			 NVML_INVALID_ARGUMENT);
	rig_close(&rig);
}

static void test_gpm(void **unused)
{
	static struct nvml_gpm_metrics_get get;
	struct rig rig;
	void *sample[2];
	unsigned gpu = 1;
	(void)unused;
	rig_open(&rig, "hgx-h100", "", 580);
	assert_int_equal(CALL0(&rig, "nvmlInit_v2"), NVML_OK);
	void *device = rig_gpu(&rig, gpu);
	struct nvml_gpm_support support = {.version = 1};
	assert_int_equal(CALL2(&rig, "nvmlGpmQueryDeviceSupport", device, &support), NVML_OK);
	assert_int_equal(support.supported, 1);
	assert_int_equal(CALL1(&rig, "nvmlGpmSampleAlloc", &sample[0]), NVML_OK);
	assert_int_equal(CALL1(&rig, "nvmlGpmSampleAlloc", &sample[1]), NVML_OK);
	rig_change(&rig, put_load, &gpu);
	assert_int_equal(CALL2(&rig, "nvmlGpmSampleGet", device, sample[0]), NVML_OK);
	rig_advance(&rig, 50);
	assert_int_equal(CALL2(&rig, "nvmlGpmSampleGet", device, sample[1]), NVML_OK);
	get.version = 1;
	get.count = 3;
	get.sample[0] = sample[0];
	get.sample[1] = sample[1];
	get.metric[0].id = 2;
	get.metric[1].id = 20;
	get.metric[2].id = 9999;
	memset(&get.metric[3], 0xa5, sizeof(get.metric[3]));
	assert_int_equal(CALL1(&rig, "nvmlGpmMetricsGet", &get), NVML_OK);
	assert_int_equal(get.metric[0].result, NVML_OK);
	assert_true(get.metric[0].value > 75 && get.metric[0].value < 85);
	assert_true(get.metric[1].value > 1000 && get.metric[1].value < 1050);
	assert_int_equal(get.metric[2].result, NVML_NOT_SUPPORTED);
	assert_int_equal(((unsigned char *)&get.metric[3])[5], 0xa5); /* only `count` are touched */
	assert_int_equal(CALL1(&rig, "nvmlGpmSampleFree", sample[0]), NVML_OK);
	assert_int_equal(CALL1(&rig, "nvmlGpmSampleFree", sample[0]), NVML_INVALID_ARGUMENT);
	assert_int_equal(CALL1(&rig, "nvmlGpmMetricsGet", &get), NVML_INVALID_ARGUMENT);
	rig_close(&rig);
}

static void test_topology(void **unused)
{
	struct rig rig;
	struct nvml_pci_info remote;
	unsigned level = 0, count = 0, state = 0, type = 9, p2p = 9;
	unsigned long mask[4] = {0};
	(void)unused;
	rig_open(&rig, "dgx1", "", 580);
	assert_int_equal(CALL0(&rig, "nvmlInit_v2"), NVML_OK);
	void *gpu[8];
	for (unsigned i = 0; i < 8; i++)
		gpu[i] = rig_gpu(&rig, i);
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetTopologyCommonAncestor", gpu[0], gpu[1], &level),
			 NVML_OK);
	assert_int_equal(level, 10);
	CALL3(&rig, "nvmlDeviceGetTopologyCommonAncestor", gpu[0], gpu[2], &level);
	assert_int_equal(level, 30);
	CALL3(&rig, "nvmlDeviceGetTopologyCommonAncestor", gpu[0], gpu[7], &level);
	assert_int_equal(level, 50);
	assert_int_equal(CALL4(&rig, "nvmlDeviceGetTopologyNearestGpus", gpu[0], 30, &count, NULL),
			 NVML_OK);
	assert_int_equal(count, 2);
	/* GPU 0's links lead to 1 2 3 3 4 4 */
	static const unsigned peer[] = {1, 2, 3, 3, 4, 4};
	for (unsigned i = 0; i < 6; i++) {
		struct nvml_pci_info pci;
		assert_int_equal(CALL3(&rig, "nvmlDeviceGetNvLinkState", gpu[0], i, &state),
				 NVML_OK);
		assert_int_equal(state, 1);
		assert_int_equal(
		    CALL3(&rig, "nvmlDeviceGetNvLinkRemotePciInfo_v2", gpu[0], i, &remote),
		    NVML_OK);
		assert_int_equal(CALL2(&rig, "nvmlDeviceGetPciInfo_v3", gpu[peer[i]], &pci),
				 NVML_OK);
		assert_string_equal(remote.bus_id, pci.bus_id);
		assert_int_equal(
		    CALL3(&rig, "nvmlDeviceGetNvLinkRemoteDeviceType", gpu[0], i, &type), NVML_OK);
		assert_int_equal(type, 0);
	}
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetNvLinkState", gpu[0], 6, &state),
			 NVML_INVALID_ARGUMENT);
	CALL4(&rig, "nvmlDeviceGetP2PStatus", gpu[0], gpu[4], 2, &p2p);
	assert_int_equal(p2p, 0);
	CALL4(&rig, "nvmlDeviceGetP2PStatus", gpu[0], gpu[5], 2, &p2p);
	assert_int_not_equal(p2p, 0);
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetCpuAffinity", gpu[0], 4, mask), NVML_OK);
	unsigned long first = mask[0];
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetCpuAffinity", gpu[7], 4, mask), NVML_OK);
	assert_true(first != 0 && (first & mask[0]) == 0);
	rig_close(&rig);
}

/* --- processes and threads --- */

struct reading {
	unsigned milliwatts, celsius;
	uint64_t energy;
};

static void take_reading(const struct rig *rig, struct reading *out)
{
	void *device = rig_gpu(rig, 5);
	memset(out, 0, sizeof(*out));
	CALL2(rig, "nvmlDeviceGetPowerUsage", device, &out->milliwatts);
	CALL3(rig, "nvmlDeviceGetTemperature", device, 0, &out->celsius);
	CALL2(rig, "nvmlDeviceGetTotalEnergyConsumption", device, &out->energy);
}

static void test_three_processes_agree(void **unused)
{
	struct rig rig;
	unsigned gpu = 5;
	struct reading mine, theirs;
	(void)unused;
	open_a100(&rig);
	rig_change(&rig, put_load, &gpu);
	rig_advance(&rig, 37);
	take_reading(&rig, &mine);
	assert_true(mine.energy > 0);
	for (int i = 0; i < 3; i++) {
		int pipes[2], status = 1;
		assert_int_equal(pipe(pipes), 0);
		pid_t pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			/* one goes on with what it inherited, the others begin anew */
			struct reading own;
			bool is_ready = i == 0 || (CALL0(&rig, "nvmlShutdown") == NVML_OK &&
						   CALL0(&rig, "nvmlInit_v2") == NVML_OK);
			if (is_ready)
				take_reading(&rig, &own);
			_exit(!is_ready || write(pipes[1], &own, sizeof(own)) != sizeof(own));
		}
		close(pipes[1]);
		assert_int_equal(read(pipes[0], &theirs, sizeof(theirs)), sizeof(theirs));
		close(pipes[0]);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		assert_memory_equal(&mine, &theirs, sizeof(mine));
	}
	rig_close(&rig);
}

struct hammer {
	const struct rig *rig;
	unsigned wrong;
};

static void *hammer(void *argument)
{
	struct hammer *self = argument;
	for (unsigned i = 0; i < 300; i++) {
		char uuid[80];
		void *device = NULL, *set = NULL;
		unsigned count = 0, value = 0;
		self->wrong += CALL0(self->rig, "nvmlInit_v2") != NVML_OK;
		self->wrong += CALL1(self->rig, "nvmlDeviceGetCount_v2", &count) != NVML_OK;
		self->wrong += count != 8;
		self->wrong +=
		    CALL2(self->rig, "nvmlDeviceGetHandleByIndex_v2", i % 8, &device) != 0;
		self->wrong += CALL3(self->rig, "nvmlDeviceGetUUID", device, uuid, 80) != NVML_OK;
		self->wrong +=
		    CALL2(self->rig, "nvmlDeviceGetPowerUsage", device, &value) != NVML_OK;
		self->wrong += CALL1(self->rig, "nvmlEventSetCreate", &set) != NVML_OK;
		self->wrong +=
		    CALL3(self->rig, "nvmlDeviceRegisterEvents", device, 8, set) != NVML_OK;
		self->wrong += CALL1(self->rig, "nvmlEventSetFree", set) != NVML_OK;
		/* GPU 4 is divided in some of the machines: its handles have a lock of their own */
		if (CALL2(self->rig, "nvmlDeviceGetHandleByIndex_v2", 4, &device) == NVML_OK) {
			for (unsigned n = 0; n < 20; n++) {
				void *mig = NULL;
				CALL3(self->rig, "nvmlDeviceGetMigDeviceHandleByIndex", device, 0,
				      &mig);
			}
		}
		self->wrong += CALL0(self->rig, "nvmlShutdown") != NVML_OK;
	}
	return NULL;
}

static void test_threads(void **unused)
{
	struct rig rig;
	pthread_t thread[4];
	struct hammer self[4];
	(void)unused;
	rig_open(&rig, "dgx-a100", "", 580);
	for (int i = 0; i < 4; i++) {
		self[i] = (struct hammer){&rig, 0};
		assert_int_equal(pthread_create(&thread[i], NULL, hammer, &self[i]), 0);
	}
	for (unsigned i = 0; i < 50; i++)
		rig_advance(&rig, 1);
	for (int i = 0; i < 4; i++) {
		pthread_join(thread[i], NULL);
		assert_int_equal(self[i].wrong, 0);
	}
	rig_close(&rig);
}

/* fork() while other threads hold every lock there is: the child must be able to go on. */
static void test_fork_under_load(void **unused)
{
	struct rig rig;
	pthread_t thread[2];
	struct hammer self[2];
	(void)unused;
	rig_open(&rig, "dgx-a100", "mixed", 580);
	assert_int_equal(CALL0(&rig, "nvmlInit_v2"), NVML_OK);
	void *divided = rig_gpu(&rig, 4);
	for (int i = 0; i < 2; i++) {
		self[i] = (struct hammer){&rig, 0};
		assert_int_equal(pthread_create(&thread[i], NULL, hammer, &self[i]), 0);
	}
	for (int i = 0; i < 30; i++) {
		int status = 1;
		pid_t pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			unsigned count = 0;
			void *set = NULL, *mig = NULL;
			alarm(10); /* a lock that nobody holds any more: die, not hang */
			unsigned wrong = CALL1(&rig, "nvmlDeviceGetCount_v2", &count) != NVML_OK;
			wrong += CALL1(&rig, "nvmlEventSetCreate", &set) != NVML_OK;
			wrong += CALL3(&rig, "nvmlDeviceGetMigDeviceHandleByIndex", divided, 0,
				       &mig) != NVML_OK;
			_exit((int)wrong);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	for (int i = 0; i < 2; i++) {
		pthread_join(thread[i], NULL);
		assert_int_equal(self[i].wrong, 0);
	}
	rig_close(&rig);
}

/* --- start-up --- */

static void use_devnodes(struct sim_machine *machine, void *context)
{
	machine->visibility = SIM_VISIBLE_DEVNODES;
	machine->dev_style = SIM_DEV_FILE;
	snprintf(machine->root, sizeof(machine->root), "%s", (const char *)context);
	/* minors that are not the indices, as on real machines */
	machine->gpu[0].minor = 7;
	machine->gpu[7].minor = 0;
}

static void test_visibility_by_nodes(void **unused)
{
	struct rig rig;
	unsigned count = 0, minor = 0, index = 9;
	char before[80], uuid[80];
	(void)unused;
	open_a100(&rig);
	CALL3(&rig, "nvmlDeviceGetUUID", rig_gpu(&rig, 7), before, 80);
	void *hidden = rig_gpu(&rig, 3);
	rig_change(&rig, use_devnodes, rig.directory);
	assert_int_equal(mkdir(unit_path(rig.directory, "dev"), 0755), 0);
	unit_write(unit_path(rig.directory, "dev/nvidia0"), "");
	unit_write(unit_path(rig.directory, "dev/nvidia5"), "");
	assert_int_equal(CALL0(&rig, "nvmlShutdown"), NVML_OK);
	assert_int_equal(CALL0(&rig, "nvmlInit_v2"), NVML_OK);
	assert_int_equal(CALL1(&rig, "nvmlDeviceGetCount_v2", &count), NVML_OK);
	assert_int_equal(count, 2);
	void *last = rig_gpu(&rig, 1);
	assert_int_equal(CALL2(&rig, "nvmlDeviceGetMinorNumber", last, &minor), NVML_OK);
	assert_int_equal(minor, 0);
	CALL2(&rig, "nvmlDeviceGetIndex", last, &index);
	assert_int_equal(index, 1); /* renumbered, but the same GPU */
	CALL3(&rig, "nvmlDeviceGetUUID", last, uuid, 80);
	assert_string_equal(uuid, before);
	assert_int_equal(CALL3(&rig, "nvmlDeviceGetUUID", hidden, uuid, 80), NVML_INVALID_ARGUMENT);
	rig_close(&rig);
}

static void test_no_machine(void **unused)
{
	struct rig rig;
	unsigned count = 0;
	(void)unused;
	rig_open(&rig, "dgx-a100", "", 580);
	/* no state file is what "no driver" looks like */
	setenv("SLUICE_SIM_STATE", unit_path(rig.directory, "none"), 1);
	assert_int_equal(CALL0(&rig, "nvmlInit_v2"), NVML_DRIVER_NOT_LOADED);
	/* ... unless a profile is named: a machine of this process alone */
	setenv("SLUICE_SIM_PROFILE", "t4x4", 1);
	assert_int_equal(CALL0(&rig, "nvmlInit_v2"), NVML_OK);
	assert_int_equal(CALL1(&rig, "nvmlDeviceGetCount_v2", &count), NVML_OK);
	assert_int_equal(count, 4);
	assert_int_equal(CALL0(&rig, "nvmlShutdown"), NVML_OK);
	unsetenv("SLUICE_SIM_PROFILE");
	assert_int_equal(CALL0(&rig, "nvmlInit_v2"), NVML_DRIVER_NOT_LOADED);
	/* something else, and a state cut short */
	unit_write(unit_path(rig.directory, "none"), "something else entirely");
	assert_int_equal(CALL0(&rig, "nvmlInit_v2"), NVML_VERSION_MISMATCH);
	assert_int_equal(truncate(rig.path, 4096), 0);
	setenv("SLUICE_SIM_STATE", rig.path, 1);
	assert_int_equal(CALL0(&rig, "nvmlInit_v2"), NVML_VERSION_MISMATCH);
	rig.state = NULL; /* what it maps is gone */
	rig_close(&rig);
}

static void test_another_age_is_refused(void **unused)
{
	struct rig rig;
	(void)unused;
	rig_open(&rig, "dgx-a100", "", 580);
	void *right = rig.library;
	struct rig other = rig;
	struct rig newer;
	rig_open(&newer, "dgx-a100", "", 535);
	other.library = newer.library;
	setenv("SLUICE_SIM_STATE", rig.path, 1);
	assert_int_equal(CALL0(&other, "nvmlInit_v2"), NVML_VERSION_MISMATCH);
	other.library = right;
	assert_int_equal(CALL0(&other, "nvmlInit_v2"), NVML_OK);
	rig_close(&newer);
	rig_close(&rig);
}

/* 0 when a process that may only read sees everything and changes nothing. */
static int read_only_child(const struct rig *rig)
{
	unsigned watt = 0;
	void *device = NULL;
	if (geteuid() == 0 && setuid(65534) != 0)
		return 1;
	if (CALL0(rig, "nvmlInit_v2") != NVML_OK)
		return 2;
	if (CALL2(rig, "nvmlDeviceGetHandleByIndex_v2", 0, &device) != NVML_OK ||
	    CALL2(rig, "nvmlDeviceGetPowerUsage", device, &watt) != NVML_OK || watt == 0)
		return 3;
	if (CALL2(rig, "nvmlDeviceSetPersistenceMode", device, 1) != NVML_NO_PERMISSION)
		return 4;
	return 0;
}

static void test_read_only_state(void **unused)
{
	struct rig rig;
	int status = 1;
	(void)unused;
	rig_open(&rig, "dgx-a100", "", 580);
	assert_int_equal(chmod(rig.directory, 0755), 0);
	assert_int_equal(chmod(rig.path, 0444), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(read_only_child(&rig));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	rig_close(&rig);
}

static void test_setters(void **unused)
{
	struct rig rig;
	unsigned value = 9, pending = 9;
	(void)unused;
	open_a100(&rig);
	void *device = rig_gpu(&rig, 0);
	assert_int_equal(CALL2(&rig, "nvmlDeviceSetPersistenceMode", device, 1), NVML_OK);
	CALL2(&rig, "nvmlDeviceGetPersistenceMode", device, &value);
	assert_int_equal(value, 1);
	assert_int_equal(CALL2(&rig, "nvmlDeviceSetPersistenceMode", device, 2),
			 NVML_INVALID_ARGUMENT);
	assert_int_equal(CALL2(&rig, "nvmlDeviceSetComputeMode", device, 3), NVML_OK);
	CALL2(&rig, "nvmlDeviceGetComputeMode", device, &value);
	assert_int_equal(value, 3);
	assert_int_equal(CALL2(&rig, "nvmlDeviceSetPowerManagementLimit", device, 250000), NVML_OK);
	CALL2(&rig, "nvmlDeviceGetEnforcedPowerLimit", device, &value);
	assert_int_equal(value, 250000);
	assert_int_equal(CALL2(&rig, "nvmlDeviceSetPowerManagementLimit", device, 500000),
			 NVML_INVALID_ARGUMENT);
	assert_int_equal(CALL2(&rig, "nvmlDeviceSetEccMode", device, 0), NVML_OK);
	CALL3(&rig, "nvmlDeviceGetEccMode", device, &value, &pending);
	assert_int_equal(value, 1);
	assert_int_equal(pending, 0);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_init_is_counted),
	    cmocka_unit_test(test_buffers),
	    cmocka_unit_test(test_arrays),
	    cmocka_unit_test(test_a_load_shows_everywhere),
	    cmocka_unit_test(test_fields),
	    cmocka_unit_test(test_gpm),
	    cmocka_unit_test(test_topology),
	    cmocka_unit_test(test_three_processes_agree),
	    cmocka_unit_test(test_threads),
	    cmocka_unit_test(test_fork_under_load),
	    cmocka_unit_test(test_visibility_by_nodes),
	    cmocka_unit_test(test_no_machine),
	    cmocka_unit_test(test_another_age_is_refused),
	    cmocka_unit_test(test_read_only_state),
	    cmocka_unit_test(test_setters),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
