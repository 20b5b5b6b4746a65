/* SPDX-License-Identifier: Apache-2.0 */
/* Utilisation, clocks, performance states and why the clocks are lower than they could be. */
#include <string.h>

#include "call.h"
#include "impl.h"
#include "session.h"
#include "sim/physics.h"

enum clocks_domain { CLOCK_GRAPHICS, CLOCK_SM, CLOCK_MEMORY, CLOCK_VIDEO, CLOCK_END };
enum { CLOCK_STEP_MHZ = 15, CLOCK_LIST_MAX = 256, UTILISATION_PERIOD_US = 167000 };

/* Utilisation of the whole GPU is not to be had while it is divided. */
static bool clocks_utilisation_refused(const struct call *call)
{
	return call_gpu(call)->mig_current;
}

unsigned impl_DeviceGetUtilizationRates(struct call *call, struct nvml_utilization *out)
{
	if (clocks_utilisation_refused(call))
		return NVML_NOT_SUPPORTED;
	if (call->machine->quirks & SIM_QUIRK_NODATA)
		return NVML_NO_DATA;

	out->gpu = sim_physics_util_percent(call->machine, call->gpu);
	out->memory = (call_gpu(call)->membw_permille + 5) / 10;
	if ((call->machine->quirks & SIM_QUIRK_UTIL_OVER_100) && out->gpu > 50)
		out->gpu += 57;

	return NVML_OK;
}

static unsigned clocks_engine(const struct call *call, uint32_t permille, unsigned *out,
			      unsigned *period_us)
{
	if (clocks_utilisation_refused(call))
		return NVML_NOT_SUPPORTED;
	*out = (permille + 5) / 10;
	*period_us = UTILISATION_PERIOD_US;
	return NVML_OK;
}

unsigned impl_DeviceGetEncoderUtilization(struct call *call, unsigned *out, unsigned *period_us)
{
	return clocks_engine(call, call_gpu(call)->enc_permille, out, period_us);
}

unsigned impl_DeviceGetDecoderUtilization(struct call *call, unsigned *out, unsigned *period_us)
{
	return clocks_engine(call, call_gpu(call)->dec_permille, out, period_us);
}

unsigned impl_DeviceGetJpgUtilization(struct call *call, unsigned *out, unsigned *period_us)
{
	return clocks_engine(call, call_gpu(call)->jpg_permille, out, period_us);
}

unsigned impl_DeviceGetOfaUtilization(struct call *call, unsigned *out, unsigned *period_us)
{
	return clocks_engine(call, call_gpu(call)->ofa_permille, out, period_us);
}

static unsigned clocks_now(const struct call *call, unsigned domain, unsigned *out)
{
	const struct sim_gpu *gpu = call_gpu(call);
	const struct sim_model *model = call_model(call);
	uint32_t max = model->sm_max_mhz ? model->sm_max_mhz : 1;

	switch (domain) {
	case CLOCK_GRAPHICS:
	case CLOCK_SM:
		*out = gpu->sm_mhz;
		return NVML_OK;
	case CLOCK_MEMORY:
		*out = gpu->mem_mhz;
		return NVML_OK;
	case CLOCK_VIDEO:
		*out = (unsigned)((uint64_t)model->video_max_mhz * gpu->sm_mhz / max);
		return NVML_OK;
	default:
		return NVML_INVALID_ARGUMENT;
	}
}

static unsigned clocks_max(const struct call *call, unsigned domain, unsigned *out)
{
	const struct sim_model *model = call_model(call);
	const uint32_t max[] = {model->sm_max_mhz, model->sm_max_mhz, model->mem_max_mhz,
				model->video_max_mhz};
	if (domain >= CLOCK_END)
		return NVML_INVALID_ARGUMENT;
	*out = max[domain];
	return NVML_OK;
}

unsigned impl_DeviceGetClockInfo(struct call *call, unsigned domain, unsigned *out)
{
	return clocks_now(call, domain, out);
}

unsigned impl_DeviceGetMaxClockInfo(struct call *call, unsigned domain, unsigned *out)
{
	return clocks_max(call, domain, out);
}

/* Consumer boards have no application clocks; video has none anywhere. */
unsigned impl_DeviceGetApplicationsClock(struct call *call, unsigned domain, unsigned *out)
{
	if (domain >= CLOCK_END)
		return NVML_INVALID_ARGUMENT;
	if (domain == CLOCK_VIDEO || call_model(call)->quadro_class)
		return NVML_NOT_SUPPORTED;
	return clocks_max(call, domain, out);
}

unsigned impl_DeviceGetDefaultApplicationsClock(struct call *call, unsigned domain, unsigned *out)
{
	return impl_DeviceGetApplicationsClock(call, domain, out);
}

unsigned impl_DeviceGetMaxCustomerBoostClock(struct call *call, unsigned domain, unsigned *out)
{
	if (domain == CLOCK_VIDEO)
		return NVML_NOT_SUPPORTED;
	return clocks_max(call, domain, out);
}

/* id: 0 current, 1 application target, 2 application default, 3 customer boost. */
unsigned impl_DeviceGetClock(struct call *call, unsigned domain, unsigned id, unsigned *out)
{
	switch (id) {
	case 0:
		return clocks_now(call, domain, out);
	case 1:
	case 2:
		return impl_DeviceGetApplicationsClock(call, domain, out);
	case 3:
		return impl_DeviceGetMaxCustomerBoostClock(call, domain, out);
	default:
		return NVML_INVALID_ARGUMENT;
	}
}

unsigned impl_DeviceGetSupportedMemoryClocks(struct call *call, unsigned *count, unsigned *out)
{
	const struct sim_model *model = call_model(call);
	const unsigned list[] = {model->mem_max_mhz, model->mem_idle_mhz};
	unsigned have = model->mem_idle_mhz && model->mem_idle_mhz != model->mem_max_mhz ? 2 : 1;
	return array_out(list, have, sizeof(list[0]), out, count);
}

unsigned impl_DeviceGetSupportedGraphicsClocks(struct call *call, unsigned memory_mhz,
					       unsigned *count, unsigned *out)
{
	const struct sim_model *model = call_model(call);
	unsigned list[CLOCK_LIST_MAX];
	unsigned have = 0;

	if (memory_mhz != model->mem_max_mhz && memory_mhz != model->mem_idle_mhz)
		return NVML_NOT_FOUND;

	for (uint32_t mhz = model->sm_max_mhz;
	     mhz >= model->sm_idle_mhz && mhz > 0 && have<CLOCK_LIST_MAX; mhz = mhz> CLOCK_STEP_MHZ
		 ? mhz - CLOCK_STEP_MHZ
		 : 0)
		list[have++] = mhz;

	return array_out(list, have, sizeof(list[0]), out, count);
}

unsigned impl_DeviceGetPerformanceState(struct call *call, unsigned *out)
{
	*out = call_gpu(call)->pstate;
	return NVML_OK;
}

unsigned impl_DeviceGetPowerState(struct call *call, unsigned *out)
{
	return impl_DeviceGetPerformanceState(call, out);
}

/* The list is filled up with 32, "unknown". `size` is in bytes. */
unsigned impl_DeviceGetSupportedPerformanceStates(struct call *call, unsigned *out, unsigned size)
{
	uint32_t idle = call_model(call)->idle_pstate;
	unsigned room = size / sizeof(*out), have = idle == 0 ? 1 : 2;
	if (room < have)
		return NVML_INSUFFICIENT_SIZE;

	for (unsigned i = 0; i < room; i++)
		out[i] = 32;

	out[0] = 0;
	if (idle != 0)
		out[1] = idle;

	return NVML_OK;
}

unsigned impl_DeviceGetMinMaxClockOfPState(struct call *call, unsigned domain, unsigned pstate,
					   unsigned *minimum, unsigned *maximum)
{
	const struct sim_model *model = call_model(call);
	bool memory = domain == CLOCK_MEMORY;

	if (domain >= CLOCK_END || pstate > 15)
		return NVML_INVALID_ARGUMENT;
	if (pstate != 0 && pstate != model->idle_pstate)
		return NVML_NOT_SUPPORTED;

	*minimum =
	    memory ? (pstate ? model->mem_idle_mhz : model->mem_max_mhz) : model->sm_idle_mhz;
	if (pstate != 0)
		*maximum = memory ? model->mem_idle_mhz : model->sm_idle_mhz;
	else
		clocks_max(call, domain, maximum);

	return NVML_OK;
}

unsigned impl_DeviceGetDynamicPstatesInfo(struct call *call,
					  struct nvml_gpu_dynamic_pstates_info *out)
{
	const struct sim_gpu *gpu = call_gpu(call);

	if (clocks_utilisation_refused(call))
		return NVML_NOT_SUPPORTED;

	memset(out, 0, sizeof(*out));
	const uint32_t permille[] = {gpu->util_permille, gpu->membw_permille, gpu->dec_permille, 0};
	for (unsigned i = 0; i < 4; i++) {
		out->domain[i].present = 1;
		out->domain[i].percent = (permille[i] + 5) / 10;
	}

	return NVML_OK;
}

unsigned impl_DeviceGetAutoBoostedClocksEnabled(struct call *call, unsigned *enabled,
						unsigned *standard)
{
	(void)call;
	(void)enabled;
	(void)standard;
	return NVML_NOT_SUPPORTED; /* since Pascal the clocks always boost */
}

unsigned impl_DeviceGetAdaptiveClockInfoStatus(struct call *call, unsigned *out)
{
	(void)call;
	*out = 1;
	return NVML_OK;
}

unsigned impl_DeviceGetClkMonStatus(struct call *call, struct nvml_clk_mon_status *out)
{
	(void)call;
	memset(out, 0, sizeof(*out));
	return NVML_OK;
}

unsigned impl_DeviceGetCurrentClocksEventReasons(struct call *call, uint64_t *out)
{
	*out = call_gpu(call)->throttle_reasons;
	return NVML_OK;
}

unsigned impl_DeviceGetSupportedClocksEventReasons(struct call *call, uint64_t *out)
{
	(void)call;
	*out = 0x1ff; /* every reason that has a bit */
	return NVML_OK;
}

unsigned impl_DeviceGetViolationStatus(struct call *call, unsigned policy,
				       struct nvml_violation_time *out)
{
	const struct sim_gpu *gpu = call_gpu(call);

	if (policy > 11 || (policy > 5 && policy < 10))
		return NVML_INVALID_ARGUMENT;

	out->reference_us = session_time_us(call->session, call->machine->tick);
	out->violation_ns = policy == 0	  ? gpu->power_violation_ns
			    : policy == 1 ? gpu->thermal_violation_ns
			    : policy <= 5 ? gpu->hold_ns[policy - 2]
					  : 0;
	return NVML_OK;
}

/* A share of each second; encoders are idle unless a load says otherwise. codec: 0 H.264, 1 HEVC,
 * 2 AV1. */
unsigned impl_DeviceGetEncoderCapacity(struct call *call, unsigned codec, unsigned *out)
{
	if (codec > 2)
		return NVML_INVALID_ARGUMENT;
	if (!call_model(call)->quadro_class)
		return NVML_NOT_SUPPORTED;
	*out = 100 - (call_gpu(call)->enc_permille + 5) / 10;
	return NVML_OK;
}

unsigned impl_DeviceGetEncoderStats(struct call *call, unsigned *sessions, unsigned *fps,
				    unsigned *latency_us)
{
	(void)call;
	*sessions = *fps = *latency_us = 0;
	return NVML_OK;
}

unsigned impl_DeviceGetEncoderSessions(struct call *call, unsigned *count,
				       struct nvml_encoder_session_info *out)
{
	(void)call;
	(void)out;
	*count = 0;
	return NVML_OK;
}

unsigned impl_DeviceGetFBCStats(struct call *call, struct nvml_fbc_stats *out)
{
	(void)call;
	*out = (struct nvml_fbc_stats){0};
	return NVML_OK;
}

unsigned impl_DeviceGetFBCSessions(struct call *call, unsigned *count,
				   struct nvml_fbc_session_info *out)
{
	(void)call;
	(void)out;
	*count = 0;
	return NVML_OK;
}
