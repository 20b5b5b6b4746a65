/* SPDX-License-Identifier: Apache-2.0 */
/* The layouts that programs built with NVIDIA's header have in their code (x86-64, API 13), and the
 * version words which follow from them. A wrong word is refused by every function that has one. */
#include "nvml.h"

#include <string.h>

struct layout {
	const char *name;
	size_t size, expected;
	unsigned word;
};

#define ROW(type, expected, word)                                                                  \
	{                                                                                          \
#type, sizeof(struct type), expected, word                                         \
	}

static void test_sizes_and_words(void **unused)
{
	static const struct layout layout[] = {
	    ROW(nvml_pci_info, 68, 0),
	    ROW(nvml_pci_info_ext, 64, 0x01000040),
	    ROW(nvml_utilization, 8, 0),
	    ROW(nvml_memory, 24, 0),
	    ROW(nvml_memory_v2, 40, 0x02000028),
	    ROW(nvml_bar1_memory, 24, 0),
	    ROW(nvml_process_info_v1, 16, 0),
	    ROW(nvml_process_info, 24, 0),
	    ROW(nvml_process_detail, 32, 0),
	    ROW(nvml_process_detail_list, 24, 0x01000018),
	    ROW(nvml_process_utilization_sample, 32, 0),
	    ROW(nvml_processes_utilization_info, 24, 0x01000018),
	    ROW(nvml_process_utilization_info, 40, 0),
	    ROW(nvml_sample, 16, 0),
	    ROW(nvml_event_data, 32, 0),
	    ROW(nvml_field_value, 40, 0),
	    ROW(nvml_device_attributes, 40, 0),
	    ROW(nvml_gpu_instance_info, 24, 0),
	    ROW(nvml_compute_instance_info, 32, 0),
	    ROW(nvml_gpu_instance_profile_info, 48, 0),
	    ROW(nvml_gpu_instance_profile_info_v2, 152, 0x02000098),
	    ROW(nvml_gpu_instance_profile_info_v3, 152, 0x03000098),
	    ROW(nvml_compute_instance_profile_info, 36, 0),
	    ROW(nvml_compute_instance_profile_info_v2, 136, 0x02000088),
	    ROW(nvml_placement, 8, 0),
	    ROW(nvml_gpm_metric, 40, 0),
	    ROW(nvml_gpm_metrics_get, 13344, 0),
	    ROW(nvml_gpm_support, 8, 0),
	    ROW(nvml_gpu_fabric_info, 28, 0),
	    ROW(nvml_gpu_fabric_info_v2, 36, 0x02000024),
	    ROW(nvml_gpu_fabric_info_v, 40, 0x03000028),
	    ROW(nvml_temperature, 12, 0x0100000c),
	    ROW(nvml_margin_temperature, 8, 0x01000008),
	    ROW(nvml_platform_info, 44, 0x0200002c),
	    ROW(nvml_ecc_sram_error_status, 104, 0x01000068),
	    ROW(nvml_ecc_error_counts, 32, 0),
	    ROW(nvml_row_remapper_histogram_values, 20, 0),
	    ROW(nvml_violation_time, 16, 0),
	    ROW(nvml_accounting_stats, 56, 0),
	    ROW(nvml_conf_compute_mem_size_info, 16, 0),
	    ROW(nvml_device_addressing_mode, 8, 0x01000008),
	    ROW(nvml_excluded_device_info, 148, 0),
	    ROW(nvml_bridge_chip_hierarchy, 1028, 0),
	    ROW(nvml_encoder_session_info, 32, 0),
	    ROW(nvml_fbc_session_info, 48, 0),
	    ROW(nvml_fbc_stats, 12, 0),
	    ROW(nvml_uuid, 52, 0x01000034),
	    ROW(nvml_system_event_set_create_request, 16, 0x01000010),
	    ROW(nvml_system_register_event_request, 24, 0x01000018),
	    ROW(nvml_system_event_set_wait_request, 32, 0x01000020),
	    ROW(nvml_system_event_data, 16, 0),
	};
	(void)unused;
	for (size_t i = 0; i < sizeof(layout) / sizeof(layout[0]); i++) {
		if (layout[i].size != layout[i].expected)
			fail_msg("%s: %zu bytes instead of %zu", layout[i].name, layout[i].size,
				 layout[i].expected);
		unsigned version = layout[i].word >> 24;
		if (version && layout[i].word != (layout[i].size | version << 24))
			fail_msg("%s: word %#x", layout[i].name, layout[i].word);
	}
}

static void test_offsets(void **unused)
{
	(void)unused;
	assert_int_equal(offsetof(struct nvml_pci_info, domain), 16);
	assert_int_equal(offsetof(struct nvml_pci_info, pci_device_id), 28);
	assert_int_equal(offsetof(struct nvml_pci_info, pci_subsystem_id), 32);
	assert_int_equal(offsetof(struct nvml_pci_info, bus_id), 36);
	assert_int_equal(offsetof(struct nvml_memory, free), 8);
	assert_int_equal(offsetof(struct nvml_memory, used), 16);
	assert_int_equal(offsetof(struct nvml_memory_v2, reserved), 16);
	assert_int_equal(offsetof(struct nvml_memory_v2, used), 32);
	assert_int_equal(offsetof(struct nvml_process_info, used), 8);
	assert_int_equal(offsetof(struct nvml_process_info, ci), 20);
	assert_int_equal(offsetof(struct nvml_process_detail, used_protected), 24);
	assert_int_equal(offsetof(struct nvml_process_detail_list, count), 8);
	assert_int_equal(offsetof(struct nvml_process_utilization_sample, time_us), 8);
	assert_int_equal(offsetof(struct nvml_process_utilization_sample, dec), 28);
	assert_int_equal(offsetof(struct nvml_processes_utilization_info, array), 16);
	assert_int_equal(offsetof(struct nvml_process_utilization_info, ofa), 32);
	assert_int_equal(offsetof(struct nvml_event_data, data), 16);
	assert_int_equal(offsetof(struct nvml_event_data, ci), 28);
	assert_int_equal(offsetof(struct nvml_field_value, latency_us), 16);
	assert_int_equal(offsetof(struct nvml_field_value, result), 28);
	assert_int_equal(offsetof(struct nvml_field_value, value), 32);
	assert_int_equal(offsetof(struct nvml_device_attributes, ci_slices), 28);
	assert_int_equal(offsetof(struct nvml_device_attributes, memory_mib), 32);
	assert_int_equal(offsetof(struct nvml_gpu_instance_info, placement), 16);
	assert_int_equal(offsetof(struct nvml_compute_instance_info, profile_id), 20);
	assert_int_equal(offsetof(struct nvml_gpu_instance_profile_info, memory_mib), 40);
	assert_int_equal(offsetof(struct nvml_gpu_instance_profile_info_v2, name), 56);
	assert_int_equal(offsetof(struct nvml_gpu_instance_profile_info_v3, name), 48);
	assert_int_equal(offsetof(struct nvml_gpu_instance_profile_info_v3, capabilities), 144);
	assert_int_equal(offsetof(struct nvml_gpm_metrics_get, metric), 24);
	assert_int_equal(offsetof(struct nvml_gpm_metric, value), 8);
	assert_int_equal(offsetof(struct nvml_gpu_fabric_info_v, status), 20);
	assert_int_equal(offsetof(struct nvml_gpu_fabric_info_v, health_mask), 32);
	assert_int_equal(offsetof(struct nvml_temperature, celsius), 8);
	assert_int_equal(offsetof(struct nvml_row_remapper_histogram_values, none), 16);
}

/* Functions whose structure starts with a version word: name, and the good word. */
static void test_wrong_words_are_refused(void **unused)
{
	static const struct {
		const char *name;
		unsigned word, extra; /* extra: a middle argument before the structure */
		bool has_extra;
	} versioned[] = {
	    {"nvmlDeviceGetPciInfoExt", 0x01000040, 0, false},
	    {"nvmlDeviceGetMemoryInfo_v2", 0x02000028, 0, false},
	    {"nvmlDeviceGetRunningProcessDetailList", 0x01000018, 0, false},
	    {"nvmlDeviceGetProcessesUtilizationInfo", 0x01000018, 0, false},
	    {"nvmlDeviceGetTemperatureV", 0x0100000c, 0, false},
	    {"nvmlDeviceGetMarginTemperature", 0x01000008, 0, false},
	    {"nvmlDeviceGetSramEccErrorStatus", 0x01000068, 0, false},
	    {"nvmlDeviceGetGpuFabricInfoV", 0x03000028, 0, false},
	    {"nvmlDeviceGetGpuInstanceProfileInfoV", 0x02000098, 0, true},
	    {"nvmlDeviceGetAddressingMode", 0x01000008, 0, false},
	    {"nvmlGpmQueryDeviceSupport", 1, 0, false},
	};
	struct rig rig;
	uint64_t buffer[64];
	(void)unused;
	rig_open(&rig, "h100-mig", "", 580);
	assert_int_equal(CALL0(&rig, "nvmlInit_v2"), NVML_OK);
	void *device = rig_gpu(&rig, 0);
	for (size_t i = 0; i < sizeof(versioned) / sizeof(versioned[0]); i++) {
		unsigned word = versioned[i].word;
		const unsigned wrong[] = {0, word + 1, word ^ 0x04000000, 0xffffffff};
		for (size_t w = 0; w < 4; w++) {
			memset(buffer, 0, sizeof(buffer));
			memcpy(buffer, &wrong[w], sizeof(wrong[w]));
			unsigned code = versioned[i].has_extra
					    ? CALL3(&rig, versioned[i].name, device, 0, buffer)
					    : CALL2(&rig, versioned[i].name, device, buffer);
			if (code != NVML_ARGUMENT_VERSION_MISMATCH)
				fail_msg("%s with word %#x: %u", versioned[i].name, wrong[w], code);
		}
		memset(buffer, 0, sizeof(buffer));
		memcpy(buffer, &word, sizeof(word));
		unsigned code = versioned[i].has_extra
				    ? CALL3(&rig, versioned[i].name, device, 0, buffer)
				    : CALL2(&rig, versioned[i].name, device, buffer);
		if (code == NVML_ARGUMENT_VERSION_MISMATCH)
			fail_msg("%s refuses its own word %#x", versioned[i].name, word);
	}
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_sizes_and_words),
	    cmocka_unit_test(test_offsets),
	    cmocka_unit_test(test_wrong_words_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
