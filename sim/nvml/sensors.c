/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, PCIe, temperature, power and fans: what the physics moves. */
#include <string.h>

#include "call.h"
#include "impl.h"
#include "sim/physics.h"

enum { ARCH_MAXWELL = 3, ARCH_VOLTA = 5 };

/* Total, reserved, used and free of a GPU or a MIG instance; the first is always the sum. */
static void sensors_memory(const struct call *call, struct nvml_memory_v2 *out)
{
	const struct sim_model *model = call_model(call);

	if (call_is_mig(call)) {
		out->total = model->mig_profile[call_gi(call)->profile].memory_mib << 20;
		out->reserved = 0;
		out->used = sim_physics_memory_used(call->machine, call->gpu, call_gi(call)->id);
	} else {
		out->total = model->memory_bytes;
		out->reserved = model->reserved_bytes;
		out->used = sim_physics_memory_used(call->machine, call->gpu, SIM_WHOLE_GPU);
	}

	/* A load may be described as larger than the device; the sum must hold nevertheless. */
	if (out->used > out->total - out->reserved)
		out->used = out->total - out->reserved;
	out->free = out->total - out->reserved - out->used;
}

unsigned impl_DeviceGetMemoryInfo_v2(struct call *call, struct nvml_memory_v2 *out)
{
	if (call->machine->quirks & SIM_QUIRK_V1ONLY)
		return NVML_NOT_SUPPORTED;
	if (out->version != NVML_WORD(*out, 2))
		return NVML_ARGUMENT_VERSION_MISMATCH;
	sensors_memory(call, out);
	return NVML_OK;
}

/* The first version of the call knows no "reserved" and counts it as used. */
unsigned impl_DeviceGetMemoryInfo(struct call *call, struct nvml_memory *out)
{
	struct nvml_memory_v2 memory;
	sensors_memory(call, &memory);
	out->total = memory.total;
	out->free = memory.free;
	out->used = memory.used + memory.reserved;
	return NVML_OK;
}

/* Each process maps a few MiB of the window besides what the driver keeps. */
unsigned impl_DeviceGetBAR1MemoryInfo(struct call *call, struct nvml_bar1_memory *out)
{
	const struct sim_gpu *gpu = call_gpu(call);
	uint64_t total = call_model(call)->bar1_bytes, used = UINT64_C(1) << 20;

	if (call_is_mig(call))
		total = total / SIM_MEMORY_SLICES *
			call_model(call)->mig_profile[call_gi(call)->profile].placement_size;

	for (uint32_t i = 0; i < SIM_PROCESS_MAX; i++) {
		const struct sim_process *process = &gpu->process[i];
		if (process->pid && (!call_is_mig(call) || process->gi == call_gi(call)->id))
			used += UINT64_C(4) << 20;
	}

	out->total = total;
	out->used = used < total ? used : total;
	out->free = total - out->used;

	return NVML_OK;
}

/* Bytes per second of the processes on the GPU. */
static uint64_t sensors_pcie_rate(const struct call *call, bool transmit)
{
	uint64_t rate = 0;
	for (uint32_t i = 0; i < SIM_PROCESS_MAX; i++) {
		const struct sim_process *process = &call_gpu(call)->process[i];
		if (process->pid && process->begin_tick <= call->machine->tick &&
		    (process->end_tick == 0 || call->machine->tick < process->end_tick))
			rate += transmit ? process->pcie_tx_bps : process->pcie_rx_bps;
	}

	return rate;
}

/* counter: 0 transmitted, 1 received. KiB/s. Not before Maxwell. */
unsigned impl_DeviceGetPcieThroughput(struct call *call, unsigned counter, unsigned *out)
{
	if (counter > 1)
		return NVML_INVALID_ARGUMENT;
	if (call_gpu(call)->mig_current || call_model(call)->architecture < ARCH_MAXWELL)
		return NVML_NOT_SUPPORTED;
	*out = (unsigned)(sensors_pcie_rate(call, counter == 0) / 1024);
	return NVML_OK;
}

unsigned impl_DeviceGetCurrPcieLinkGeneration(struct call *call, unsigned *out)
{
	*out = call_gpu(call)->pcie_gen;
	return NVML_OK;
}

unsigned impl_DeviceGetCurrPcieLinkWidth(struct call *call, unsigned *out)
{
	*out = call_gpu(call)->pcie_width;
	return NVML_OK;
}

unsigned impl_DeviceGetMaxPcieLinkGeneration(struct call *call, unsigned *out)
{
	*out = call_model(call)->pcie_gen_max;
	return NVML_OK;
}

unsigned impl_DeviceGetGpuMaxPcieLinkGeneration(struct call *call, unsigned *out)
{
	*out = call_model(call)->pcie_gen_max;
	return NVML_OK;
}

unsigned impl_DeviceGetMaxPcieLinkWidth(struct call *call, unsigned *out)
{
	*out = call_model(call)->pcie_width_max;
	return NVML_OK;
}

/* The speed's number in nvml.h is the generation's. */
unsigned impl_DeviceGetPcieLinkMaxSpeed(struct call *call, unsigned *out)
{
	*out = call_model(call)->pcie_gen_max;
	return NVML_OK;
}

/* Megabits per second of a lane. */
unsigned impl_DeviceGetPcieSpeed(struct call *call, unsigned *out)
{
	static const unsigned speed[] = {0, 2500, 5000, 8000, 16000, 32000, 64000};
	uint32_t gen = call_gpu(call)->pcie_gen;
	*out = gen < sizeof(speed) / sizeof(speed[0]) ? speed[gen] : 0;
	return NVML_OK;
}

unsigned impl_DeviceGetPcieReplayCounter(struct call *call, unsigned *out)
{
	*out = (unsigned)call_gpu(call)->pcie_replays;
	return NVML_OK;
}

unsigned impl_DeviceGetTemperature(struct call *call, unsigned sensor, unsigned *out)
{
	if (sensor != 0)
		return NVML_INVALID_ARGUMENT;
	*out = (unsigned)sim_physics_temperature_c(call->machine, call->gpu);
	return NVML_OK;
}

unsigned impl_DeviceGetTemperatureV(struct call *call, struct nvml_temperature *out)
{
	if (out->version != NVML_WORD(*out, 1))
		return NVML_ARGUMENT_VERSION_MISMATCH;
	if (out->sensor != 0)
		return NVML_INVALID_ARGUMENT;
	out->celsius = sim_physics_temperature_c(call->machine, call->gpu);
	return NVML_OK;
}

unsigned impl_DeviceGetTemperatureThreshold(struct call *call, unsigned threshold, unsigned *out)
{
	const struct sim_model *model = call_model(call);
	const uint32_t value[] = {model->shutdown_c, model->slowdown_c, model->mem_max_c,
				  model->gpu_max_c};

	if (threshold > 7)
		return NVML_INVALID_ARGUMENT;

	/* 4 to 7 are the acoustic ones. Drivers of the newest parts tell margins only. */
	if (threshold > 3 || value[threshold] == 0 || (call->machine->quirks & SIM_QUIRK_TLIMIT))
		return NVML_NOT_SUPPORTED;

	*out = value[threshold];
	return NVML_OK;
}

unsigned impl_DeviceGetMarginTemperature(struct call *call, struct nvml_margin_temperature *out)
{
	if (out->version != NVML_WORD(*out, 1))
		return NVML_ARGUMENT_VERSION_MISMATCH;
	out->celsius =
	    (int)call_model(call)->slowdown_c - sim_physics_temperature_c(call->machine, call->gpu);
	return NVML_OK;
}

/* sensor 15: all of them. Target 1 is the GPU, 2 its memory. */
unsigned impl_DeviceGetThermalSettings(struct call *call, unsigned sensor,
				       struct nvml_gpu_thermal_settings *out)
{
	if (sensor != 15 && sensor > 2)
		return NVML_INVALID_ARGUMENT;

	memset(out, 0, sizeof(*out));
	out->count = 1;
	out->sensor[0].controller = 1;
	out->sensor[0].maximum = (int)call_model(call)->gpu_max_c;
	out->sensor[0].current = sim_physics_temperature_c(call->machine, call->gpu);
	out->sensor[0].target = 1;

	return NVML_OK;
}

unsigned impl_DeviceGetPowerUsage(struct call *call, unsigned *out)
{
	*out = sim_physics_power_mw(call->machine, call->gpu);
	return NVML_OK;
}

unsigned impl_DeviceGetEnforcedPowerLimit(struct call *call, unsigned *out)
{
	*out = call_gpu(call)->power_limit_mw;
	return NVML_OK;
}

unsigned impl_DeviceGetPowerManagementLimit(struct call *call, unsigned *out)
{
	*out = call_gpu(call)->power_limit_mw;
	return NVML_OK;
}

unsigned impl_DeviceGetPowerManagementDefaultLimit(struct call *call, unsigned *out)
{
	*out = call_model(call)->power_default_mw;
	return NVML_OK;
}

unsigned impl_DeviceGetPowerManagementLimitConstraints(struct call *call, unsigned *minimum,
						       unsigned *maximum)
{
	*minimum = call_model(call)->power_min_mw;
	*maximum = call_model(call)->power_max_mw;
	return NVML_OK;
}

unsigned impl_DeviceGetPowerManagementMode(struct call *call, unsigned *out)
{
	(void)call;
	*out = 1;
	return NVML_OK;
}

unsigned impl_DeviceGetPowerSource(struct call *call, unsigned *out)
{
	(void)call;
	*out = 0; /* mains */
	return NVML_OK;
}

/* Millijoules since the driver was loaded; parts before Volta do not count them. */
unsigned impl_DeviceGetTotalEnergyConsumption(struct call *call, uint64_t *out)
{
	if (call_model(call)->architecture < ARCH_VOLTA)
		return NVML_NOT_SUPPORTED;
	*out = call_gpu(call)->energy_uj / 1000;
	return NVML_OK;
}

unsigned impl_DeviceGetNumFans(struct call *call, unsigned *out)
{
	if (call_model(call)->fan_count == 0)
		return NVML_NOT_SUPPORTED;
	*out = call_model(call)->fan_count;
	return NVML_OK;
}

unsigned impl_DeviceGetFanSpeed_v2(struct call *call, unsigned fan, unsigned *out)
{
	if (call_model(call)->fan_count == 0)
		return NVML_NOT_SUPPORTED;
	if (fan >= call_model(call)->fan_count)
		return NVML_INVALID_ARGUMENT;
	*out = call_gpu(call)->fan_permille / 10;
	return NVML_OK;
}

unsigned impl_DeviceGetFanSpeed(struct call *call, unsigned *out)
{
	return impl_DeviceGetFanSpeed_v2(call, 0, out);
}

unsigned impl_DeviceGetTargetFanSpeed(struct call *call, unsigned fan, unsigned *out)
{
	return impl_DeviceGetFanSpeed_v2(call, fan, out);
}

unsigned impl_DeviceGetMinMaxFanSpeed(struct call *call, unsigned *minimum, unsigned *maximum)
{
	if (call_model(call)->fan_count == 0)
		return NVML_NOT_SUPPORTED;
	*minimum = 30;
	*maximum = 100;
	return NVML_OK;
}
