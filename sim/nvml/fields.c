/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvmlDeviceGetFieldValues: many quantities in one call, each with a return code of its own. The
 * numbers are those of nvml.h (NVML_FI_*); where a quantity also has a function, both agree.
 */
#include <stdint.h>

#include "call.h"
#include "impl.h"
#include "session.h"
#include "sim/physics.h"

enum {
	FIELD_ARCH_VOLTA = 5,
	FIELD_ARCH_HOPPER = 9,
	FIELD_ARCH_BLACKWELL = 10,
	FIELD_RECOVERY_ACTION = 230,
};

static unsigned field_uint(struct nvml_field_value *field, uint64_t value)
{
	field->value_type = NVML_UINT;
	field->value.ull = 0;
	field->value.ui = (unsigned)value;
	return NVML_OK;
}

static unsigned field_ull(struct nvml_field_value *field, uint64_t value)
{
	field->value_type = NVML_ULONGLONG;
	field->value.ull = value;
	return NVML_OK;
}

static unsigned field_sint(struct nvml_field_value *field, int value)
{
	field->value_type = NVML_SINT;
	field->value.ull = 0;
	field->value.si = value;
	return NVML_OK;
}

/* One above the largest field id that a driver of this age knows. */
static unsigned field_end(void)
{
	return nvml_age >= 590 ? 289 : nvml_age >= 580 ? 274 : nvml_age >= 535 ? 197 : 161;
}

/* 1-28: ECC mode and counts. All errors are in device memory (11, 12, 22, 23). */
static unsigned field_ecc(const struct call *call, unsigned id, struct nvml_field_value *field)
{
	const struct sim_gpu *gpu = call_gpu(call);

	if (!call_model(call)->has_ecc)
		return NVML_NOT_SUPPORTED;
	if (id == 1)
		return field_uint(field, gpu->ecc_current);
	if (id == 2)
		return field_uint(field, gpu->ecc_pending);
	if (!gpu->ecc_current)
		return NVML_NOT_SUPPORTED;

	switch (id) {
	case 3:
	case 11:
		return field_ull(field, gpu->ecc.corrected_volatile);
	case 4:
	case 12:
		return field_ull(field, gpu->ecc.uncorrected_volatile);
	case 5:
	case 22:
		return field_ull(field, gpu->ecc.corrected_aggregate);
	case 6:
	case 23:
		return field_ull(field, gpu->ecc.uncorrected_aggregate);
	default: /* caches and registers */
		return field_ull(field, 0);
	}
}

/* 29-31, 92, 93 page retirement (before Ampere); 142-145 row remapping (since). */
static unsigned field_repair(const struct call *call, unsigned id, struct nvml_field_value *field)
{
	const struct sim_gpu *gpu = call_gpu(call);
	bool remaps = call_model(call)->has_row_remapper;
	if (!call_model(call)->has_ecc || remaps != (id >= 142))
		return NVML_NOT_SUPPORTED;

	switch (id) {
	case 29:
		return field_ull(field, gpu->retired_sbe);
	case 30:
		return field_ull(field, gpu->retired_dbe);
	case 142:
		return field_uint(field, gpu->remap_correctable);
	case 143:
		return field_uint(field, gpu->remap_uncorrectable);
	case 144:
		return field_uint(field, gpu->remap_pending);
	case 145:
		return field_uint(field, gpu->remap_failure);
	case 92: /* pending because of single-bit errors: not simulated */
		return field_uint(field, 0);
	default: /* 31 and 93 */
		return field_uint(field, gpu->retired_pending);
	}
}

enum link_counter { LINK_CRC_FLIT, LINK_CRC_DATA, LINK_REPLAY, LINK_RECOVERY, LINK_ECC };

static uint64_t field_link_counter(const struct sim_link *link, enum link_counter counter)
{
	switch (counter) {
	case LINK_CRC_FLIT:
		return link->crc_flit;
	case LINK_CRC_DATA:
		return link->crc_data;
	case LINK_REPLAY:
		return link->replay;
	case LINK_RECOVERY:
		return link->recovery;
	case LINK_ECC:
		return link->more[SIM_LINK_ECC];
	}

	return 0;
}

/* Megabytes per second of a link, as nvidia-smi nvlink -s multiplies up. */
static unsigned field_link_speed(const struct call *call)
{
	return call_model(call)->architecture >= FIELD_ARCH_HOPPER ? 26562 : 25781;
}

/* `number` of a link, or SIM_WHOLE_GPU for the sum over all. */
static unsigned field_link(const struct call *call, uint32_t number, enum link_counter counter,
			   struct nvml_field_value *field)
{
	uint32_t count = call_model(call)->link_count;
	uint64_t sum = 0;

	if (count == 0 || (number != SIM_WHOLE_GPU && number >= count))
		return NVML_NOT_SUPPORTED;

	for (uint32_t i = 0; i < count && i < SIM_LINK_MAX; i++) {
		if (number == SIM_WHOLE_GPU || number == i)
			sum += field_link_counter(&call_gpu(call)->link[i], counter);
	}

	return field_ull(field, sum);
}

/* 32-59, 96-119, 148-160: four, later five counters, of links 0-5, of all, and of links 6-11. */
static unsigned field_link_errors(const struct call *call, unsigned id,
				  struct nvml_field_value *field)
{
	if (id >= 148)
		return field_link(call, id == 160 ? SIM_WHOLE_GPU : id - 148, LINK_ECC, field);
	if (id >= 96)
		return field_link(call, 6 + (id - 96) % 6, (enum link_counter)((id - 96) / 6),
				  field);

	unsigned number = (id - 32) % 7;
	return field_link(call, number == 6 ? SIM_WHOLE_GPU : number,
			  (enum link_counter)((id - 32) / 7), field);
}

/* 138-141: KiB sent and received; a scope names one link, all ones means all. */
static unsigned field_link_bytes(const struct call *call, unsigned id, unsigned scope,
				 struct nvml_field_value *field)
{
	const struct sim_gpu *gpu = call_gpu(call);
	uint32_t count = call_model(call)->link_count;
	uint64_t bytes = id % 2 == 0 ? gpu->nvlink_tx_bytes : gpu->nvlink_rx_bytes;

	if (count == 0)
		return NVML_NOT_SUPPORTED;
	if (scope != UINT32_MAX && scope >= count)
		return NVML_INVALID_ARGUMENT;
	if (id >= 140) /* raw: with the packets' heads */
		bytes += bytes / 16;

	return field_ull(field, bytes / 1024 / (scope == UINT32_MAX ? 1 : count));
}

/* The counters of NVLink 5. */
static unsigned field_link5(const struct call *call, unsigned id, const struct sim_link *link,
			    struct nvml_field_value *field)
{
	uint32_t count = call_model(call)->link_count;

	switch (id) {
	case 202:
		return field_ull(field, call_gpu(call)->nvlink_tx_bytes / count);
	case 204:
		return field_ull(field, call_gpu(call)->nvlink_rx_bytes / count);
	case 206:
	case 207:
	case 210:
	case 212:
		return field_ull(field, link->more[id - 206 + SIM_LINK_MALFORMED]);
	case 208: /* receive errors */
		return field_ull(field, link->crc_flit + link->more[SIM_LINK_RCV]);
	case 209: /* of the other end */
		return field_ull(field, link->crc_data + link->more[SIM_LINK_RCV_REMOTE]);
	case 211: /* local integrity */
		return field_ull(field, link->replay + link->more[SIM_LINK_INTEGRITY]);
	case 213: /* recoveries that succeeded */
		return field_ull(field, link->recovery);
	case 214:
		return field_ull(field, link->more[SIM_LINK_RECOVERY_FAILED]);
	case 215:
		return field_ull(field, link->recovery + link->more[SIM_LINK_RECOVERY_FAILED]);
	case 219:
		return field_ull(field, link->more[SIM_LINK_EFFECTIVE]);
	case 221:
		return field_ull(field, link->more[SIM_LINK_SYMBOL]);
	default:
		return NVML_NOT_SUPPORTED;
	}
}

/* 146-147, 161-168, 200-225: one link, named by the scope. */
static unsigned field_link_state(const struct call *call, unsigned id, unsigned scope,
				 struct nvml_field_value *field)
{
	static const uint8_t version[] = {0, 1, 2, 4, 6, 7}; /* nvmlNvlinkVersion_t */
	uint32_t generation = call_model(call)->nvlink_version;

	if (call_model(call)->link_count == 0)
		return NVML_NOT_SUPPORTED;

	if (id == 147) {
		uint32_t switched = 0;
		for (uint32_t i = 0; i < call_model(call)->link_count && i < SIM_LINK_MAX; i++)
			switched += call_gpu(call)->link[i].peer_kind == SIM_LINK_SWITCH;
		return field_uint(field, switched);
	}

	if (scope >= call_model(call)->link_count || scope >= SIM_LINK_MAX)
		return NVML_INVALID_ARGUMENT;

	const struct sim_link *link = &call_gpu(call)->link[scope];
	bool is_up = link->peer_kind != SIM_LINK_NONE && !link->down;

	switch (id) {
	case 146:
		return field_uint(field, link->peer_link);
	case 161:
		return field_ull(field, link->replay);
	case 162:
		return field_ull(field, link->recovery);
	case 163:
		return field_ull(field, link->crc_flit);
	case 164:
		return field_uint(field, is_up ? field_link_speed(call) : 0);
	case 165:
		return field_uint(field, is_up);
	case 166:
		return field_uint(field, generation < sizeof(version) ? version[generation] : 0);
	case 167:
		return field_uint(field, 0); /* not in low power */
	default:
		break;
	}

	return generation < 5 ? NVML_NOT_SUPPORTED : field_link5(call, id, link, field);
}

/* 74-81 and 269-271: nanoseconds for which the clocks were held down. */
static unsigned field_policy(const struct call *call, unsigned id, struct nvml_field_value *field)
{
	const struct sim_gpu *gpu = call_gpu(call);

	switch (id) {
	case 74:
		return field_ull(field, gpu->power_violation_ns);
	case 75:
		return field_ull(field, gpu->thermal_violation_ns);
	case 76:
	case 77:
	case 78:
	case 79:
		return field_ull(field, gpu->hold_ns[id - 76]);
	case 269:
		return field_ull(field, gpu->sw_thermal_ns);
	case 270:
		return field_ull(field, gpu->hw_thermal_ns);
	case 271:
		return field_ull(field, gpu->brake_ns);
	default:
		return field_ull(field, 0);
	}
}

/* 83, 185-192: power and energy. */
static unsigned field_power(const struct call *call, unsigned id, struct nvml_field_value *field)
{
	const struct sim_model *model = call_model(call);

	switch (id) {
	case 83:
	case 191:
		if (model->architecture < FIELD_ARCH_VOLTA)
			return NVML_NOT_SUPPORTED;

		return field_ull(field, call_gpu(call)->energy_uj / 1000);
	case 187:
		return field_uint(field, model->power_min_mw);
	case 188:
		return field_uint(field, model->power_max_mw);
	case 189:
		return field_uint(field, model->power_default_mw);
	case 190:
	case 192:
		return field_uint(field, call_gpu(call)->power_limit_mw);
	default: /* 185 average, 186 now */
		return field_uint(field, sim_physics_power_mw(call->machine, call->gpu));
	}
}

/* 193-196: limits as degrees away from where the clocks begin to fall. */
static unsigned field_margin(const struct call *call, unsigned id, struct nvml_field_value *field)
{
	const struct sim_model *model = call_model(call);
	if (model->architecture < FIELD_ARCH_HOPPER && !(call->machine->quirks & SIM_QUIRK_TLIMIT))
		return NVML_NOT_SUPPORTED;

	int base = (int)model->gpu_max_c;

	switch (id) {
	case 193:
		return field_sint(field, base - (int)model->shutdown_c);
	case 194:
		return field_sint(field, base - (int)model->slowdown_c);
	case 195:
		return field_sint(field, 0);
	default:
		return field_sint(field, base - (int)model->gpu_max_c);
	}
}

/* 94, 95, 169, 173-183, 197, 198: PCIe. */
static unsigned field_pcie(const struct call *call, unsigned id, struct nvml_field_value *field)
{
	const struct sim_gpu *gpu = call_gpu(call);

	if (id == 94)
		return field_uint(field, gpu->pcie_replays);
	if (id == 197)
		return field_ull(field, gpu->pcie_tx_bytes);
	if (id == 198)
		return field_ull(field, gpu->pcie_rx_bytes);
	if (id >= 173 && id <= 183)
		return field_uint(field, gpu->pcie_errors[id - 173]);

	if (id == 169)
		return field_uint(field, gpu->pcie_errors[11]);

	return field_uint(field, 0);
}

/* What to do about the GPU, and small abilities. */
static unsigned field_other(const struct call *call, unsigned id, struct nvml_field_value *field)
{
	const struct sim_gpu *gpu = call_gpu(call);

	switch (id) {
	case 82:
		if (!call_model(call)->has_hbm)
			return NVML_NOT_SUPPORTED;

		return field_uint(
		    field, (uint64_t)sim_physics_memory_temperature_c(call->machine, call->gpu));
	case 90:
		if (call_model(call)->link_count == 0)
			return NVML_NOT_SUPPORTED;

		return field_uint(field, field_link_speed(call));
	case 91:
		return field_uint(field, call_model(call)->link_count);
	case 170: /* chip-to-chip links */
		return field_uint(field, 0);
	case 184: /* MIG mode without a reset: not simulated */
		return call_model(call)->has_mig ? field_uint(field, 0) : NVML_NOT_SUPPORTED;
	case 199:
		return call_model(call)->has_mig ? field_uint(field, 1) : NVML_NOT_SUPPORTED;
	case 226:
		return field_uint(field, gpu->health == SIM_GPU_RESET_REQUIRED);
	case 227:
	case 228:
	case 229:
		return field_uint(field, 0);
	case FIELD_RECOVERY_ACTION:
		return field_uint(field, gpu->recovery_action);
	default:
		return NVML_NOT_SUPPORTED;
	}
}

static unsigned field_get(const struct call *call, unsigned id, unsigned scope,
			  struct nvml_field_value *field)
{
	if (id <= 28)
		return field_ecc(call, id, field);
	if (id <= 31 || id == 92 || id == 93 || (id >= 142 && id <= 145))
		return field_repair(call, id, field);
	if (id <= 59 || (id >= 96 && id <= 119) || (id >= 148 && id <= 160))
		return field_link_errors(call, id, field);

	if ((id >= 84 && id <= 89) || (id >= 132 && id <= 137)) {
		uint32_t number = id <= 89 ? id - 84 : id - 132 + 6;
		return number < call_model(call)->link_count
			   ? field_uint(field, field_link_speed(call))
			   : NVML_NOT_SUPPORTED;
	}

	if ((id >= 74 && id <= 81) || (id >= 269 && id <= 271))
		return field_policy(call, id, field);
	if (id == 83 || (id >= 185 && id <= 192))
		return field_power(call, id, field);
	if (id == 94 || id == 95 || id == 169 || (id >= 173 && id <= 183) || id == 197 || id == 198)
		return field_pcie(call, id, field);
	if (id >= 138 && id <= 141)
		return field_link_bytes(call, id, scope, field);

	if (id == 146 || id == 147 || (id >= 161 && id <= 168) || (id >= 200 && id <= 225))
		return field_link_state(call, id, scope, field);
	if (id >= 193 && id <= 196)
		return field_margin(call, id, field);

	return field_other(call, id, field);
}

static unsigned field_answer(const struct call *call, struct nvml_field_value *field)
{
	if (field->id == 0 || field->id >= field_end())
		return NVML_INVALID_ARGUMENT;
	if (call_gpu(call)->health == SIM_GPU_RESET_REQUIRED &&
	    field->id != FIELD_RECOVERY_ACTION && field->id != 226)
		return NVML_RESET_REQUIRED;

	/* Of a MIG device only memory errors are known. */
	if (call_is_mig(call) && field->id > 28)
		return NVML_NOT_SUPPORTED;

	return field_get(call, field->id, field->scope, field);
}

unsigned impl_DeviceGetFieldValues(struct call *call, int count, struct nvml_field_value *field)
{
	if (count <= 0)
		return NVML_INVALID_ARGUMENT;

	for (int i = 0; i < count; i++, field++) {
		field->time_us = (int64_t)session_time_us(call->session, call->machine->tick);
		field->latency_us = 0;
		field->result = field_answer(call, field);
	}

	return NVML_OK;
}
