/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/snapshot.h"

#include <stddef.h>
#include <string.h>

#include "base/names.h"
#include "hardware/gpu.h"

_Static_assert((int)SNAPSHOT_GPU_MAX == (int)GPU_MAX, "a snapshot holds every GPU of an inventory");
_Static_assert((int)SNAPSHOT_TEXT_MAX >= (int)GPU_UUID_MAX, "UUIDs fit");
_Static_assert((int)SNAPSHOT_STATE_LOST == (int)GPU_STATE_LOST, "the same number");
_Static_assert((int)SNAPSHOT_REASON_MAX >= (int)GPU_REASON_MAX, "reasons fit");

struct value_name {
	const char *name;
	enum snapshot_class class_;
};

static const struct value_name value_names[SNAPSHOT_VALUE_COUNT] = {
    [SNAPSHOT_UTIL_GPU] = {"utilization_gpu_percent", SNAPSHOT_FAST},
    [SNAPSHOT_UTIL_MEMORY] = {"utilization_memory_percent", SNAPSHOT_FAST},
    [SNAPSHOT_UTIL_ENCODER] = {"utilization_encoder_percent", SNAPSHOT_FAST},
    [SNAPSHOT_UTIL_DECODER] = {"utilization_decoder_percent", SNAPSHOT_FAST},
    [SNAPSHOT_MEMORY_TOTAL] = {"memory_total_bytes", SNAPSHOT_FAST},
    [SNAPSHOT_MEMORY_USED] = {"memory_used_bytes", SNAPSHOT_FAST},
    [SNAPSHOT_MEMORY_FREE] = {"memory_free_bytes", SNAPSHOT_FAST},
    [SNAPSHOT_MEMORY_RESERVED] = {"memory_reserved_bytes", SNAPSHOT_FAST},
    [SNAPSHOT_BAR1_TOTAL] = {"bar1_total_bytes", SNAPSHOT_FAST},
    [SNAPSHOT_BAR1_USED] = {"bar1_used_bytes", SNAPSHOT_FAST},
    [SNAPSHOT_TEMPERATURE] = {"temperature_celsius", SNAPSHOT_FAST},
    [SNAPSHOT_TEMPERATURE_MEMORY] = {"temperature_memory_celsius", SNAPSHOT_FAST},
    [SNAPSHOT_POWER] = {"power_mw", SNAPSHOT_FAST},
    [SNAPSHOT_ENERGY] = {"energy_mj", SNAPSHOT_FAST},
    [SNAPSHOT_CLOCK_SM] = {"clock_sm_mhz", SNAPSHOT_FAST},
    [SNAPSHOT_CLOCK_MEMORY] = {"clock_memory_mhz", SNAPSHOT_FAST},
    [SNAPSHOT_CLOCK_GRAPHICS] = {"clock_graphics_mhz", SNAPSHOT_FAST},
    [SNAPSHOT_CLOCK_VIDEO] = {"clock_video_mhz", SNAPSHOT_FAST},
    [SNAPSHOT_PSTATE] = {"performance_state", SNAPSHOT_FAST},
    [SNAPSHOT_FAN] = {"fan_percent", SNAPSHOT_FAST},
    [SNAPSHOT_THROTTLE] = {"throttle_reasons", SNAPSHOT_FAST},
    [SNAPSHOT_BUSY] = {"busy_ns", SNAPSHOT_FAST},
    [SNAPSHOT_MARGIN] = {"temperature_margin_celsius", SNAPSHOT_FAST},
    [SNAPSHOT_ACTIVITY + 0] = {"activity_gr_engine_ppm", SNAPSHOT_FAST},
    [SNAPSHOT_ACTIVITY + 1] = {"activity_sm_ppm", SNAPSHOT_FAST},
    [SNAPSHOT_ACTIVITY + 2] = {"activity_sm_occupancy_ppm", SNAPSHOT_FAST},
    [SNAPSHOT_ACTIVITY + 3] = {"activity_tensor_ppm", SNAPSHOT_FAST},
    [SNAPSHOT_ACTIVITY + 4] = {"activity_dram_ppm", SNAPSHOT_FAST},
    [SNAPSHOT_ACTIVITY + 5] = {"activity_fp64_ppm", SNAPSHOT_FAST},
    [SNAPSHOT_ACTIVITY + 6] = {"activity_fp32_ppm", SNAPSHOT_FAST},
    [SNAPSHOT_ACTIVITY + 7] = {"activity_fp16_ppm", SNAPSHOT_FAST},
    [SNAPSHOT_VIOLATION_POWER] = {"violation_power_ns", SNAPSHOT_MEDIUM},
    [SNAPSHOT_VIOLATION_THERMAL] = {"violation_thermal_ns", SNAPSHOT_MEDIUM},
    [SNAPSHOT_VIOLATION_SYNC_BOOST] = {"violation_sync_boost_ns", SNAPSHOT_MEDIUM},
    [SNAPSHOT_VIOLATION_BOARD_LIMIT] = {"violation_board_limit_ns", SNAPSHOT_MEDIUM},
    [SNAPSHOT_VIOLATION_LOW_UTILIZATION] = {"violation_low_utilization_ns", SNAPSHOT_MEDIUM},
    [SNAPSHOT_VIOLATION_RELIABILITY] = {"violation_reliability_ns", SNAPSHOT_MEDIUM},
    [SNAPSHOT_VIOLATION_SW_THERMAL] = {"violation_sw_thermal_ns", SNAPSHOT_MEDIUM},
    [SNAPSHOT_VIOLATION_HW_THERMAL] = {"violation_hw_thermal_ns", SNAPSHOT_MEDIUM},
    [SNAPSHOT_VIOLATION_HW_POWER_BRAKE] = {"violation_hw_power_brake_ns", SNAPSHOT_MEDIUM},
    [SNAPSHOT_ECC_CORRECTED_VOLATILE] = {"ecc_corrected_volatile", SNAPSHOT_MEDIUM},
    [SNAPSHOT_ECC_UNCORRECTED_VOLATILE] = {"ecc_uncorrected_volatile", SNAPSHOT_MEDIUM},
    [SNAPSHOT_ECC_CORRECTED_AGGREGATE] = {"ecc_corrected_aggregate", SNAPSHOT_MEDIUM},
    [SNAPSHOT_ECC_UNCORRECTED_AGGREGATE] = {"ecc_uncorrected_aggregate", SNAPSHOT_MEDIUM},
    [SNAPSHOT_RETIRED_CORRECTED] = {"retired_pages_corrected", SNAPSHOT_MEDIUM},
    [SNAPSHOT_RETIRED_UNCORRECTED] = {"retired_pages_uncorrected", SNAPSHOT_MEDIUM},
    [SNAPSHOT_RETIRED_PENDING] = {"retired_pages_pending", SNAPSHOT_MEDIUM},
    [SNAPSHOT_REMAP_CORRECTED] = {"remapped_rows_corrected", SNAPSHOT_MEDIUM},
    [SNAPSHOT_REMAP_UNCORRECTED] = {"remapped_rows_uncorrected", SNAPSHOT_MEDIUM},
    [SNAPSHOT_REMAP_PENDING] = {"remapped_rows_pending", SNAPSHOT_MEDIUM},
    [SNAPSHOT_REMAP_FAILURE] = {"remapped_rows_failure", SNAPSHOT_MEDIUM},
    [SNAPSHOT_REMAP_BANKS_MAX] = {"remap_banks_max", SNAPSHOT_MEDIUM},
    [SNAPSHOT_REMAP_BANKS_HIGH] = {"remap_banks_high", SNAPSHOT_MEDIUM},
    [SNAPSHOT_REMAP_BANKS_PARTIAL] = {"remap_banks_partial", SNAPSHOT_MEDIUM},
    [SNAPSHOT_REMAP_BANKS_LOW] = {"remap_banks_low", SNAPSHOT_MEDIUM},
    [SNAPSHOT_REMAP_BANKS_NONE] = {"remap_banks_none", SNAPSHOT_MEDIUM},
    [SNAPSHOT_PCIE_GEN] = {"pcie_generation", SNAPSHOT_MEDIUM},
    [SNAPSHOT_PCIE_WIDTH] = {"pcie_width", SNAPSHOT_MEDIUM},
    [SNAPSHOT_PCIE_REPLAYS] = {"pcie_replays", SNAPSHOT_MEDIUM},
    [SNAPSHOT_PCIE_TX] = {"pcie_tx_bytes_per_second", SNAPSHOT_FAST},
    [SNAPSHOT_PCIE_RX] = {"pcie_rx_bytes_per_second", SNAPSHOT_FAST},
    [SNAPSHOT_PCIE_TX_TOTAL] = {"pcie_tx_bytes", SNAPSHOT_FAST},
    [SNAPSHOT_PCIE_RX_TOTAL] = {"pcie_rx_bytes", SNAPSHOT_FAST},
    [SNAPSHOT_PCIE_ERROR + 0] = {"pcie_errors_correctable", SNAPSHOT_MEDIUM},
    [SNAPSHOT_PCIE_ERROR + 1] = {"pcie_errors_naks_received", SNAPSHOT_MEDIUM},
    [SNAPSHOT_PCIE_ERROR + 2] = {"pcie_errors_receiver", SNAPSHOT_MEDIUM},
    [SNAPSHOT_PCIE_ERROR + 3] = {"pcie_errors_bad_tlp", SNAPSHOT_MEDIUM},
    [SNAPSHOT_PCIE_ERROR + 4] = {"pcie_errors_naks_sent", SNAPSHOT_MEDIUM},
    [SNAPSHOT_PCIE_ERROR + 5] = {"pcie_errors_bad_dllp", SNAPSHOT_MEDIUM},
    [SNAPSHOT_PCIE_ERROR + 6] = {"pcie_errors_nonfatal", SNAPSHOT_MEDIUM},
    [SNAPSHOT_PCIE_ERROR + 7] = {"pcie_errors_fatal", SNAPSHOT_MEDIUM},
    [SNAPSHOT_PCIE_ERROR + 8] = {"pcie_errors_unsupported_request", SNAPSHOT_MEDIUM},
    [SNAPSHOT_PCIE_ERROR + 9] = {"pcie_errors_lcrc", SNAPSHOT_MEDIUM},
    [SNAPSHOT_PCIE_ERROR + 10] = {"pcie_errors_lane", SNAPSHOT_MEDIUM},
    [SNAPSHOT_PCIE_ERROR + 11] = {"pcie_errors_l0_to_recovery", SNAPSHOT_MEDIUM},
    [SNAPSHOT_NVLINK_ACTIVE] = {"nvlink_active", SNAPSHOT_MEDIUM},
    [SNAPSHOT_NVLINK_INACTIVE] = {"nvlink_inactive", SNAPSHOT_MEDIUM},
    [SNAPSHOT_NVLINK_ERRORS] = {"nvlink_errors", SNAPSHOT_MEDIUM},
    [SNAPSHOT_NVLINK_UP] = {"nvlink_up_links", SNAPSHOT_MEDIUM},
    [SNAPSHOT_NVLINK_THERE] = {"nvlink_links", SNAPSHOT_MEDIUM},
    [SNAPSHOT_NVLINK_TX_TOTAL] = {"nvlink_tx_bytes", SNAPSHOT_MEDIUM},
    [SNAPSHOT_NVLINK_RX_TOTAL] = {"nvlink_rx_bytes", SNAPSHOT_MEDIUM},
    [SNAPSHOT_NVLINK_ERROR + 0] = {"nvlink_errors_crc_flit", SNAPSHOT_MEDIUM},
    [SNAPSHOT_NVLINK_ERROR + 1] = {"nvlink_errors_crc_data", SNAPSHOT_MEDIUM},
    [SNAPSHOT_NVLINK_ERROR + 2] = {"nvlink_errors_replay", SNAPSHOT_MEDIUM},
    [SNAPSHOT_NVLINK_ERROR + 3] = {"nvlink_errors_recovery", SNAPSHOT_MEDIUM},
    [SNAPSHOT_NVLINK_ERROR + 4] = {"nvlink_errors_ecc", SNAPSHOT_MEDIUM},
    [SNAPSHOT_NVLINK_ERROR + 5] = {"nvlink_errors_malformed", SNAPSHOT_MEDIUM},
    [SNAPSHOT_NVLINK_ERROR + 6] = {"nvlink_errors_buffer_overrun", SNAPSHOT_MEDIUM},
    [SNAPSHOT_NVLINK_ERROR + 7] = {"nvlink_errors_rcv", SNAPSHOT_MEDIUM},
    [SNAPSHOT_NVLINK_ERROR + 8] = {"nvlink_errors_rcv_remote", SNAPSHOT_MEDIUM},
    [SNAPSHOT_NVLINK_ERROR + 9] = {"nvlink_errors_rcv_general", SNAPSHOT_MEDIUM},
    [SNAPSHOT_NVLINK_ERROR + 10] = {"nvlink_errors_link_integrity", SNAPSHOT_MEDIUM},
    [SNAPSHOT_NVLINK_ERROR + 11] = {"nvlink_errors_xmit_discard", SNAPSHOT_MEDIUM},
    [SNAPSHOT_NVLINK_ERROR + 12] = {"nvlink_errors_recovery_failed", SNAPSHOT_MEDIUM},
    [SNAPSHOT_NVLINK_ERROR + 13] = {"nvlink_errors_recovery_all", SNAPSHOT_MEDIUM},
    [SNAPSHOT_NVLINK_ERROR + 14] = {"nvlink_errors_effective", SNAPSHOT_MEDIUM},
    [SNAPSHOT_NVLINK_ERROR + 15] = {"nvlink_errors_symbol", SNAPSHOT_MEDIUM},
    [SNAPSHOT_RECOVERY_ACTION] = {"recovery_action", SNAPSHOT_MEDIUM},
    [SNAPSHOT_POWER_LIMIT] = {"power_limit_mw", SNAPSHOT_SLOW},
    [SNAPSHOT_POWER_LIMIT_SET] = {"power_limit_set_mw", SNAPSHOT_SLOW},
    [SNAPSHOT_POWER_LIMIT_DEFAULT] = {"power_limit_default_mw", SNAPSHOT_SLOW},
    [SNAPSHOT_POWER_LIMIT_MIN] = {"power_limit_min_mw", SNAPSHOT_SLOW},
    [SNAPSHOT_POWER_LIMIT_MAX] = {"power_limit_max_mw", SNAPSHOT_SLOW},
    [SNAPSHOT_TEMPERATURE_SLOWDOWN] = {"temperature_slowdown_celsius", SNAPSHOT_SLOW},
    [SNAPSHOT_TEMPERATURE_SHUTDOWN] = {"temperature_shutdown_celsius", SNAPSHOT_SLOW},
    [SNAPSHOT_TEMPERATURE_MEMORY_MAX] = {"temperature_memory_max_celsius", SNAPSHOT_SLOW},
    [SNAPSHOT_TEMPERATURE_GPU_MAX] = {"temperature_gpu_max_celsius", SNAPSHOT_SLOW},
    [SNAPSHOT_CLOCK_SM_MAX] = {"clock_sm_max_mhz", SNAPSHOT_SLOW},
    [SNAPSHOT_CLOCK_MEMORY_MAX] = {"clock_memory_max_mhz", SNAPSHOT_SLOW},
    [SNAPSHOT_CLOCK_GRAPHICS_MAX] = {"clock_graphics_max_mhz", SNAPSHOT_SLOW},
    [SNAPSHOT_CLOCK_VIDEO_MAX] = {"clock_video_max_mhz", SNAPSHOT_SLOW},
    [SNAPSHOT_PCIE_GEN_MAX] = {"pcie_generation_max", SNAPSHOT_SLOW},
    [SNAPSHOT_PCIE_WIDTH_MAX] = {"pcie_width_max", SNAPSHOT_SLOW},
    [SNAPSHOT_ECC_MODE] = {"ecc_mode", SNAPSHOT_SLOW},
    [SNAPSHOT_ECC_MODE_PENDING] = {"ecc_mode_pending", SNAPSHOT_SLOW},
    [SNAPSHOT_MIG_MODE] = {"mig_mode", SNAPSHOT_SLOW},
    [SNAPSHOT_MIG_MODE_PENDING] = {"mig_mode_pending", SNAPSHOT_SLOW},
    [SNAPSHOT_PERSISTENCE] = {"persistence_mode", SNAPSHOT_SLOW},
    [SNAPSHOT_COMPUTE_MODE] = {"compute_mode", SNAPSHOT_SLOW},
};

const char *snapshot_value_to_string(uint32_t value)
{
	return value < SNAPSHOT_VALUE_COUNT ? value_names[value].name : "unknown";
}

enum snapshot_class snapshot_value_class(uint32_t value)
{
	return value < SNAPSHOT_VALUE_COUNT ? value_names[value].class_ : SNAPSHOT_SLOW;
}

static const char *const activities[] = {"gr_engine", "sm",   "sm_occupancy", "tensor",
					 "dram",      "fp64", "fp32",	      "fp16"};

const char *snapshot_throttle_to_string(uint32_t bit)
{
	static const char *const words[] = {"idle",	   "app_clocks",     "sw_power_cap",
					    "hw_slowdown", "sync_boost",     "sw_thermal",
					    "hw_thermal",  "hw_power_brake", "display"};
	return names_at(words, bit, NULL);
}

const char *snapshot_activity_to_string(uint32_t activity)
{
	return names_at(activities, activity, "unknown");
}

bool snapshot_get(const struct snapshot_gpu *gpu, uint32_t value, int64_t *out)
{
	if (value >= SNAPSHOT_VALUE_COUNT || !(gpu->present[value / 64] >> value % 64 & 1))
		return false;
	*out = gpu->value[value];
	return true;
}

void snapshot_put(struct snapshot_gpu *gpu, uint32_t value, int64_t number)
{
	if (value >= SNAPSHOT_VALUE_COUNT)
		return;
	gpu->value[value] = number;
	gpu->present[value / 64] |= UINT64_C(1) << value % 64;
}

void snapshot_drop_all(struct snapshot_gpu *gpu)
{
	memset(gpu->present, 0, sizeof(gpu->present));
	gpu->process_count = gpu->process_total = 0;
	for (uint32_t i = 0; i < SNAPSHOT_MIG_MAX; i++)
		for (uint32_t k = 0; k < SNAPSHOT_ACTIVITY_COUNT; k++)
			gpu->mig[i].activity[k] = SNAPSHOT_U32_ABSENT;
}

void snapshot_drop(struct snapshot_gpu *gpu, uint32_t value)
{
	if (value >= SNAPSHOT_VALUE_COUNT)
		return;
	gpu->value[value] = 0;
	gpu->present[value / 64] &= ~(UINT64_C(1) << value % 64);
}

const struct snapshot_gpu *snapshot_find(const struct snapshot *snapshot, const char *uuid)
{
	for (uint32_t i = 0; i < snapshot->gpu_count; i++) {
		if (strcmp(snapshot->gpu[i].uuid, uuid) == 0)
			return &snapshot->gpu[i];
	}
	return NULL;
}

uint32_t snapshot_length(uint32_t gpu_count)
{
	if (gpu_count > SNAPSHOT_GPU_MAX)
		gpu_count = SNAPSHOT_GPU_MAX;
	return (uint32_t)(offsetof(struct snapshot, gpu) + gpu_count * sizeof(struct snapshot_gpu));
}

static bool text_is_ended(const char *text, size_t size)
{
	return memchr(text, '\0', size) != NULL;
}

static bool snapshot_gpu_is_valid(const struct snapshot_gpu *gpu)
{
	if (!text_is_ended(gpu->uuid, sizeof(gpu->uuid)) ||
	    !text_is_ended(gpu->name, sizeof(gpu->name)) ||
	    !text_is_ended(gpu->bus, sizeof(gpu->bus)) ||
	    !text_is_ended(gpu->reason, sizeof(gpu->reason)))
		return false;

	if (gpu->state > GPU_STATE_ERROR || gpu->mig_count > SNAPSHOT_MIG_MAX ||
	    gpu->process_count > SNAPSHOT_PROCESS_MAX || gpu->process_total < gpu->process_count)
		return false;
	if (SNAPSHOT_VALUE_COUNT % 64 != 0 &&
	    gpu->present[SNAPSHOT_PRESENT_WORDS - 1] >> SNAPSHOT_VALUE_COUNT % 64 != 0)
		return false;

	for (uint32_t i = 0; i < gpu->mig_count; i++) {
		if (!text_is_ended(gpu->mig[i].uuid, sizeof(gpu->mig[i].uuid)) ||
		    !text_is_ended(gpu->mig[i].profile, sizeof(gpu->mig[i].profile)))
			return false;
	}

	return true;
}

static bool snapshot_errors_are_valid(const struct snapshot *snapshot)
{
	if (snapshot->error_count > SNAPSHOT_ERROR_MAX)
		return false;
	for (uint32_t i = 0; i < snapshot->error_count; i++)
		if (!text_is_ended(snapshot->error[i].call, sizeof(snapshot->error[i].call)))
			return false;
	return true;
}

bool snapshot_is_valid(const struct snapshot *snapshot, uint64_t length)
{
	if (length < offsetof(struct snapshot, gpu) || snapshot->magic != SNAPSHOT_MAGIC ||
	    snapshot->version != SNAPSHOT_VERSION || snapshot->size != sizeof(*snapshot) ||
	    snapshot->gpu_count > SNAPSHOT_GPU_MAX || length < snapshot_length(snapshot->gpu_count))
		return false;

	if (!text_is_ended(snapshot->driver_version, sizeof(snapshot->driver_version)) ||
	    !text_is_ended(snapshot->nvml_version, sizeof(snapshot->nvml_version)) ||
	    !text_is_ended(snapshot->driver_text, sizeof(snapshot->driver_text)) ||
	    snapshot->simulated > 1 || snapshot->driver_ok > 1 ||
	    !snapshot_errors_are_valid(snapshot))
		return false;

	for (uint32_t i = 0; i < snapshot->gpu_count; i++) {
		if (!snapshot_gpu_is_valid(&snapshot->gpu[i]))
			return false;
	}

	return true;
}
