/* SPDX-License-Identifier: Apache-2.0 */
/* Processes on a device: who, how much memory, how busy, and accounting. */
#include <limits.h>
#include <string.h>

#include "call.h"
#include "impl.h"
#include "session.h"
#include "sim/physics.h"

enum { ACCOUNTING_BUFFER = 4000, ARCH_MAXWELL = 3 };

/* Has the process begun, and not ended? Of a MIG handle: is it in that instance? */
static bool process_is_here(const struct call *call, const struct sim_process *process)
{
	uint64_t tick = call->machine->tick;
	if (!process->pid || process->begin_tick > tick ||
	    (process->end_tick && process->end_tick <= tick))
		return false;
	return !call_is_mig(call) ||
	       (process->gi == call_gi(call)->id && process->ci == call_ci(call)->id);
}

/* Real drivers give the list in no particular order. */
static void process_shuffle(const struct call *call, struct nvml_process_info *list, unsigned have)
{
	if (!(call->machine->quirks & SIM_QUIRK_UNSORTED) || have < 2)
		return;
	struct nvml_process_info copy[SIM_PROCESS_MAX];
	unsigned shift = (unsigned)(call->machine->tick % have);
	memcpy(copy, list, have * sizeof(copy[0]));
	for (unsigned i = 0; i < have; i++)
		list[i] = copy[(i + shift) % have];
}

/* Those of a kind: host pids, memory with the context, and MIG ids when the GPU is divided. */
static unsigned process_list(const struct call *call, uint8_t type, struct nvml_process_info *list)
{
	const struct sim_gpu *gpu = call_gpu(call);
	uint64_t context = (uint64_t)call_model(call)->context_bytes_mib << 20;
	unsigned have = 0;

	for (uint32_t i = 0; i < SIM_PROCESS_MAX; i++) {
		const struct sim_process *process = &gpu->process[i];
		if (process->type != type || !process_is_here(call, process))
			continue;

		list[have++] = (struct nvml_process_info){
		    .pid = process->host_pid ? process->host_pid : process->pid,
		    .used = call->machine->quirks & SIM_QUIRK_MEMUNKNOWN
				? ULLONG_MAX
				: process->memory_bytes + context,
		    .gi = process->gi,
		    .ci = process->ci,
		};
	}

	process_shuffle(call, list, have);
	return have;
}

/* Some drivers answer a question for the size with a number of their own. */
static bool process_odd_size(const struct call *call, unsigned *count)
{
	if (*count != 0 ||
	    !(call->machine->quirks & (SIM_QUIRK_PROCSIZE_100 | SIM_QUIRK_PROCSIZE_4000)))
		return false;
	*count = call->machine->quirks & SIM_QUIRK_PROCSIZE_100 ? 100 : 4000;
	return true;
}

/* The entry grew from 16 to 24 bytes with MIG; only the plain names keep the short one. */
static unsigned process_get(const struct call *call, uint8_t type, bool first_version,
			    unsigned *count, void *out)
{
	struct nvml_process_info list[SIM_PROCESS_MAX];
	struct nvml_process_info_v1 first[SIM_PROCESS_MAX];

	if ((call->machine->quirks & SIM_QUIRK_V1ONLY) && !first_version)
		return NVML_NOT_SUPPORTED;
	if (process_odd_size(call, count))
		return NVML_INSUFFICIENT_SIZE;

	unsigned have = process_list(call, type, list);

	if (!first_version)
		return array_out(list, have, sizeof(list[0]), out, count);

	for (unsigned i = 0; i < have; i++)
		first[i] = (struct nvml_process_info_v1){list[i].pid, list[i].used};

	return array_out(first, have, sizeof(first[0]), out, count);
}

/* The three forms in which NVML has each list: the first has smaller entries. */
#define RUNNING_PROCESSES(name, sort)                                                              \
	unsigned impl_##name(struct call *call, unsigned *count, struct nvml_process_info_v1 *out) \
	{                                                                                          \
		return process_get(call, sort, true, count, out);                                  \
	}                                                                                          \
	unsigned impl_##name##_v2(struct call *call, unsigned *count,                              \
				  struct nvml_process_info *out)                                   \
	{                                                                                          \
		return process_get(call, sort, false, count, out);                                 \
	}                                                                                          \
	unsigned impl_##name##_v3(struct call *call, unsigned *count,                              \
				  struct nvml_process_info *out)                                   \
	{                                                                                          \
		return process_get(call, sort, false, count, out);                                 \
	}

RUNNING_PROCESSES(DeviceGetComputeRunningProcesses, SIM_PROCESS_COMPUTE)
RUNNING_PROCESSES(DeviceGetGraphicsRunningProcesses, SIM_PROCESS_GRAPHICS)
RUNNING_PROCESSES(DeviceGetMPSComputeRunningProcesses, SIM_PROCESS_MPS)

/* mode: 0 compute, 1 graphics, 2 MPS. */
unsigned impl_DeviceGetRunningProcessDetailList(struct call *call,
						struct nvml_process_detail_list *out)
{
	static const uint8_t type[] = {SIM_PROCESS_COMPUTE, SIM_PROCESS_GRAPHICS, SIM_PROCESS_MPS};
	struct nvml_process_info list[SIM_PROCESS_MAX];
	struct nvml_process_detail detail[SIM_PROCESS_MAX];

	if (out->version != NVML_WORD(*out, 1))
		return NVML_ARGUMENT_VERSION_MISMATCH;
	if (out->mode > 2)
		return NVML_INVALID_ARGUMENT;

	unsigned have = process_list(call, type[out->mode], list);

	for (unsigned i = 0; i < have; i++)
		detail[i] = (struct nvml_process_detail){
		    .pid = list[i].pid,
		    .used = list[i].used,
		    .gi = list[i].gi,
		    .ci = list[i].ci,
		};

	return array_out(detail, have, sizeof(detail[0]), out->array, &out->count);
}

/* --- samples --- */

static uint64_t process_sample_us(const struct call *call, uint64_t tick)
{
	/* Drivers have been seen to return times that mean nothing. */
	if (call->machine->quirks & SIM_QUIRK_OLDTS)
		return tick;
	return session_time_us(call->session, tick);
}

static unsigned process_percent(const struct call *call, uint16_t permille)
{
	unsigned percent = (permille + 5u) / 10;
	if ((call->machine->quirks & SIM_QUIRK_UTIL_OVER_100) && percent > 50)
		percent += 57;
	return percent;
}

/* Samples newer than a time, oldest first. */
static unsigned process_samples(const struct call *call, uint64_t after_us,
				struct nvml_process_utilization_info *list)
{
	const struct sim_gpu *gpu = call_gpu(call);
	uint64_t first =
	    gpu->sample_count > SIM_SAMPLE_MAX ? gpu->sample_count - SIM_SAMPLE_MAX : 0;
	unsigned have = 0;

	for (uint64_t n = first; n < gpu->sample_count; n++) {
		const struct sim_sample *sample = &gpu->sample[n % SIM_SAMPLE_MAX];
		uint64_t time_us = process_sample_us(call, sample->tick);
		if (time_us <= after_us)
			continue;

		list[have++] = (struct nvml_process_utilization_info){
		    .time_us = time_us,
		    .pid = sample->pid,
		    .sm = process_percent(call, sample->sm),
		    .mem = process_percent(call, sample->mem),
		    .enc = process_percent(call, sample->enc),
		    .dec = process_percent(call, sample->dec),
		};
	}

	return have;
}

static unsigned process_samples_refused(const struct call *call)
{
	if (call_gpu(call)->mig_current)
		return NVML_NOT_SUPPORTED;
	return call->machine->quirks & SIM_QUIRK_NODATA ? NVML_NO_DATA : NVML_OK;
}

unsigned impl_DeviceGetProcessUtilization(struct call *call,
					  struct nvml_process_utilization_sample *out,
					  unsigned *count, uint64_t after_us)
{
	struct nvml_process_utilization_info list[SIM_SAMPLE_MAX];
	struct nvml_process_utilization_sample sample[SIM_SAMPLE_MAX];

	unsigned refused = process_samples_refused(call);

	if (call_model(call)->architecture < ARCH_MAXWELL)
		return NVML_NOT_SUPPORTED;
	if (refused != NVML_OK)
		return refused;

	unsigned have = process_samples(call, after_us, list);
	if (have == 0) {
		*count = 0;
		return NVML_NOT_FOUND;
	}

	for (unsigned i = 0; i < have; i++)
		sample[i] = (struct nvml_process_utilization_sample){
		    .pid = list[i].pid,
		    .time_us = list[i].time_us,
		    .sm = list[i].sm,
		    .mem = list[i].mem,
		    .enc = list[i].enc,
		    .dec = list[i].dec,
		};

	return array_out(sample, have, sizeof(sample[0]), out, count);
}

unsigned impl_DeviceGetProcessesUtilizationInfo(struct call *call,
						struct nvml_processes_utilization_info *out)
{
	struct nvml_process_utilization_info list[SIM_SAMPLE_MAX];

	if (out->version != NVML_WORD(*out, 1))
		return NVML_ARGUMENT_VERSION_MISMATCH;

	unsigned refused = process_samples_refused(call);

	if (call_model(call)->architecture < ARCH_MAXWELL)
		return NVML_NOT_SUPPORTED;
	if (refused != NVML_OK)
		return refused;

	unsigned have = process_samples(call, out->last_seen_us, list);
	if (have == 0) {
		out->count = 0;
		return NVML_NOT_FOUND;
	}

	return array_out(list, have, sizeof(list[0]), out->array, &out->count);
}

enum process_sampling {
	SAMPLING_POWER,
	SAMPLING_GPU,
	SAMPLING_MEMORY,
	SAMPLING_ENCODER,
	SAMPLING_DECODER,
	SAMPLING_SM_CLOCK,
	SAMPLING_MEMORY_CLOCK,
	SAMPLING_MODULE_POWER,
	SAMPLING_JPEG,
	SAMPLING_OFA,
	SAMPLING_END,
};

/* The reading of this moment, for quantities of which the machine keeps no history. */
static bool process_present(const struct call *call, unsigned type, unsigned *out)
{
	const struct sim_gpu *gpu = call_gpu(call);

	switch (type) {
	case SAMPLING_POWER:
		*out = sim_physics_power_mw(call->machine, call->gpu);
		return true;
	case SAMPLING_SM_CLOCK:
		*out = gpu->sm_mhz;
		return true;
	case SAMPLING_MEMORY_CLOCK:
		*out = gpu->mem_mhz;
		return true;
	case SAMPLING_JPEG:
		*out = (gpu->jpg_permille + 5) / 10;
		return true;
	case SAMPLING_OFA:
		*out = (gpu->ofa_permille + 5) / 10;
		return true;
	default:
		*out = 0;
		return false;
	}
}

static unsigned process_sample_value(const struct sim_device_sample *sample, unsigned type)
{
	switch (type) {
	case SAMPLING_MEMORY:
		return sample->mem;
	case SAMPLING_ENCODER:
		return sample->enc;
	case SAMPLING_DECODER:
		return sample->dec;
	default:
		return sample->sm;
	}
}

/* Utilisation of the device: means since the sample before, oldest first. */
static unsigned process_device_samples(const struct call *call, unsigned type, uint64_t after_us,
				       struct nvml_sample *list)
{
	const struct sim_gpu *gpu = call_gpu(call);
	uint64_t count = gpu->device_sample_count;
	unsigned have = 0, value = 0;

	memset(list, 0, SIM_DEVICE_SAMPLE_MAX * sizeof(list[0]));
	if (process_present(call, type, &value)) {
		list[0].time_us = process_sample_us(call, call->machine->tick);
		list[0].value.ui = value;
		return list[0].time_us > after_us;
	}

	for (uint64_t n = count > SIM_DEVICE_SAMPLE_MAX ? count - SIM_DEVICE_SAMPLE_MAX : 0;
	     n < count; n++) {
		const struct sim_device_sample *sample =
		    &gpu->device_sample[n % SIM_DEVICE_SAMPLE_MAX];
		uint64_t time_us = process_sample_us(call, sample->tick);
		if (time_us <= after_us)
			continue;

		list[have].time_us = time_us;
		list[have++].value.ui =
		    process_percent(call, (uint16_t)process_sample_value(sample, type));
	}

	return have;
}

unsigned impl_DeviceGetSamples(struct call *call, unsigned type, uint64_t after_us,
			       unsigned *value_type, unsigned *count, struct nvml_sample *out)
{
	struct nvml_sample list[SIM_DEVICE_SAMPLE_MAX];

	if (type >= SAMPLING_END)
		return NVML_INVALID_ARGUMENT;
	if (type == SAMPLING_MODULE_POWER)
		return NVML_NOT_SUPPORTED;

	unsigned refused = process_samples_refused(call);
	if (refused != NVML_OK && type != SAMPLING_POWER)
		return refused;

	unsigned have = process_device_samples(call, type, after_us, list);

	*value_type = NVML_UINT;
	if (!out) { /* asking for the room that is needed */
		*count = SIM_DEVICE_SAMPLE_MAX;
		return NVML_OK;
	}

	if (have == 0) {
		*count = 0;
		return NVML_NOT_FOUND;
	}

	return array_out(list, have, sizeof(list[0]), out, count);
}

/* --- accounting: of the processes that are there; the machine keeps none of the dead --- */

unsigned impl_DeviceGetAccountingMode(struct call *call, unsigned *out)
{
	*out = call_gpu(call)->accounting;
	return NVML_OK;
}

unsigned impl_DeviceGetAccountingBufferSize(struct call *call, unsigned *out)
{
	(void)call;
	*out = ACCOUNTING_BUFFER;
	return NVML_OK;
}

unsigned impl_DeviceGetAccountingPids(struct call *call, unsigned *count, unsigned *out)
{
	unsigned list[SIM_PROCESS_MAX], have = 0;
	for (uint32_t i = 0; call_gpu(call)->accounting && i < SIM_PROCESS_MAX; i++) {
		const struct sim_process *process = &call_gpu(call)->process[i];
		if (process_is_here(call, process))
			list[have++] = process->host_pid ? process->host_pid : process->pid;
	}
	return array_out(list, have, sizeof(list[0]), out, count);
}

unsigned impl_DeviceGetAccountingStats(struct call *call, unsigned pid,
				       struct nvml_accounting_stats *out)
{
	uint64_t tick = call->machine->tick;

	if (!call_gpu(call)->accounting)
		return NVML_NOT_SUPPORTED;

	for (uint32_t i = 0; i < SIM_PROCESS_MAX; i++) {
		const struct sim_process *process = &call_gpu(call)->process[i];
		if (!process_is_here(call, process) ||
		    (process->host_pid ? process->host_pid : process->pid) != pid)
			continue;

		uint64_t ticks = tick > process->begin_tick ? tick - process->begin_tick : 1;
		uint64_t permille = process->sm_busy_permille_ticks / ticks;

		*out = (struct nvml_accounting_stats){
		    .gpu_percent = (unsigned)(permille / 10),
		    .memory_percent = (unsigned)(permille / 20),
		    .max_memory = process->memory_bytes +
				  ((uint64_t)call_model(call)->context_bytes_mib << 20),
		    .time_ms = 0, /* of a running process */
		    .start_us = session_time_us(call->session, process->begin_tick),
		    .running = 1,
		};
		return NVML_OK;
	}

	return NVML_NOT_FOUND;
}
