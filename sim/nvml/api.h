/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's own declarations of what crosses its boundary: return codes, structures and their
 * layouts, as x86-64 programs built with NVIDIA's header pass them. Written from facts (names,
 * numbers, sizes measured with a compiler); the static asserts at the end are the table that
 * tests/unit/sim_nvml/abi_test.c repeats from the outside.
 */
#ifndef SLUICE_SIM_NVML_API_H
#define SLUICE_SIM_NVML_API_H

#include <stddef.h>
#include <stdint.h>

enum nvml_result {
	NVML_OK = 0,
	NVML_UNINITIALIZED = 1,
	NVML_INVALID_ARGUMENT = 2,
	NVML_NOT_SUPPORTED = 3,
	NVML_NO_PERMISSION = 4,
	NVML_NOT_FOUND = 6,
	NVML_INSUFFICIENT_SIZE = 7,
	NVML_DRIVER_NOT_LOADED = 9,
	NVML_TIMEOUT = 10,
	NVML_GPU_IS_LOST = 15,
	NVML_RESET_REQUIRED = 16,
	NVML_OPERATING_SYSTEM = 17,
	NVML_VERSION_MISMATCH = 18,
	NVML_IN_USE = 19,
	NVML_MEMORY = 20,
	NVML_NO_DATA = 21,
	NVML_INSUFFICIENT_RESOURCES = 23,
	NVML_ARGUMENT_VERSION_MISMATCH = 25,
	NVML_UNKNOWN = 999,
};

/* The version word of a versioned structure. */
#define NVML_WORD(type, version) ((unsigned)(sizeof(type) | ((unsigned)(version) << 24)))

enum nvml_sizes {
	NVML_PCI_BUS_ID = 32,
	NVML_PCI_BUS_ID_V2 = 16,
	NVML_NAME_V2 = 96,
	NVML_FIELD_END = 303, /* one above the largest field id of any age */
	NVML_LINK_END = 36,
	NVML_MIG_PROFILE_END = 17,
	NVML_BRIDGE_MAX = 128,
	NVML_CLOCK_DOMAIN_MAX = 32,
	NVML_GPM_ARRAY = 333, /* of the structure's array; never touched as a whole */
};

enum nvml_value_type {
	NVML_DOUBLE = 0,
	NVML_UINT = 1,
	NVML_ULONG = 2,
	NVML_ULONGLONG = 3,
	NVML_SLONGLONG = 4,
	NVML_SINT = 5,
	NVML_USHORT = 6,
};

union nvml_value {
	double d;
	int si;
	unsigned ui;
	unsigned long ul;
	uint64_t ull;
	int64_t sll;
	unsigned short us;
};

struct nvml_pci_info {
	char bus_id_legacy[NVML_PCI_BUS_ID_V2];
	unsigned domain, bus, device;
	unsigned pci_device_id, pci_subsystem_id; /* device << 16 | vendor */
	char bus_id[NVML_PCI_BUS_ID];
};

struct nvml_pci_info_ext {
	unsigned version;
	unsigned domain, bus, device;
	unsigned pci_device_id, pci_subsystem_id;
	unsigned base_class, sub_class;
	char bus_id[NVML_PCI_BUS_ID];
};

struct nvml_utilization {
	unsigned gpu, memory; /* percent */
};

struct nvml_memory {
	uint64_t total, free, used;
};

struct nvml_memory_v2 {
	unsigned version;
	uint64_t total, reserved, free, used;
};

struct nvml_bar1_memory {
	uint64_t total, free, used;
};

struct nvml_process_info_v1 {
	unsigned pid;
	uint64_t used;
};

struct nvml_process_info {
	unsigned pid;
	uint64_t used;
	unsigned gi, ci;
};

struct nvml_process_detail {
	unsigned pid;
	uint64_t used;
	unsigned gi, ci;
	uint64_t used_protected;
};

struct nvml_process_detail_list {
	unsigned version;
	unsigned mode; /* 0 compute, 1 graphics, 2 MPS */
	unsigned count;
	struct nvml_process_detail *array;
};

struct nvml_process_utilization_sample {
	unsigned pid;
	uint64_t time_us;
	unsigned sm, mem, enc, dec;
};

struct nvml_process_utilization_info {
	uint64_t time_us;
	unsigned pid;
	unsigned sm, mem, enc, dec, jpg, ofa;
};

struct nvml_processes_utilization_info {
	unsigned version;
	unsigned count;
	uint64_t last_seen_us;
	struct nvml_process_utilization_info *array;
};

struct nvml_sample {
	uint64_t time_us;
	union nvml_value value;
};

struct nvml_event_data {
	void *device;
	uint64_t type, data;
	unsigned gi, ci;
};

struct nvml_field_value {
	unsigned id, scope;
	int64_t time_us, latency_us;
	unsigned value_type;
	unsigned result;
	union nvml_value value;
};

struct nvml_device_attributes {
	unsigned sm, copy_engines, decoders, encoders, jpegs, ofas;
	unsigned gi_slices, ci_slices;
	uint64_t memory_mib;
};

struct nvml_placement {
	unsigned start, size;
};

struct nvml_gpu_instance_info {
	void *device;
	unsigned id, profile_id;
	struct nvml_placement placement;
};

struct nvml_compute_instance_info {
	void *device, *gpu_instance;
	unsigned id, profile_id;
	struct nvml_placement placement;
};

struct nvml_gpu_instance_profile_info {
	unsigned id, p2p, slices, count, sm, copy_engines, decoders, encoders, jpegs, ofas;
	uint64_t memory_mib;
};

struct nvml_gpu_instance_profile_info_v2 {
	unsigned version;
	unsigned id, p2p, slices, count, sm, copy_engines, decoders, encoders, jpegs, ofas;
	uint64_t memory_mib;
	char name[NVML_NAME_V2];
};

struct nvml_gpu_instance_profile_info_v3 {
	unsigned version;
	unsigned id, slices, count, sm, copy_engines, decoders, encoders, jpegs, ofas;
	uint64_t memory_mib;
	char name[NVML_NAME_V2];
	unsigned capabilities;
};

struct nvml_compute_instance_profile_info {
	unsigned id, slices, count, sm, copy_engines, decoders, encoders, jpegs, ofas;
};

struct nvml_compute_instance_profile_info_v2 {
	unsigned version;
	unsigned id, slices, count, sm, copy_engines, decoders, encoders, jpegs, ofas;
	char name[NVML_NAME_V2];
};

struct nvml_compute_instance_profile_info_v3 {
	unsigned version;
	unsigned id, slices, count, sm, copy_engines, decoders, encoders, jpegs, ofas;
	char name[NVML_NAME_V2];
	unsigned capabilities;
};

struct nvml_gpm_metric {
	unsigned id;
	unsigned result;
	double value;
	const char *short_name, *long_name, *unit;
};

struct nvml_gpm_metrics_get {
	unsigned version;
	unsigned count;
	void *sample[2];
	struct nvml_gpm_metric metric[NVML_GPM_ARRAY];
};

struct nvml_gpm_support {
	unsigned version;
	unsigned supported;
};

struct nvml_gpu_fabric_info {
	unsigned char cluster_uuid[16];
	unsigned status, clique, state;
};

struct nvml_gpu_fabric_info_v2 {
	unsigned version;
	unsigned char cluster_uuid[16];
	unsigned status, clique, state, health_mask;
};

struct nvml_gpu_fabric_info_v {
	unsigned version;
	unsigned char cluster_uuid[16];
	unsigned status, clique, state, health_mask;
	unsigned char health_summary;
};

struct nvml_temperature {
	unsigned version;
	unsigned sensor;
	int celsius;
};

struct nvml_margin_temperature {
	unsigned version;
	int celsius;
};

struct nvml_platform_info {
	unsigned version;
	unsigned char ib_guid[16], chassis_serial[16];
	unsigned char slot, tray, host, peer_type, module;
};

struct nvml_ecc_sram_error_status {
	unsigned version;
	uint64_t aggregate_parity, aggregate_secded, aggregate_corrected;
	uint64_t volatile_parity, volatile_secded, volatile_corrected;
	uint64_t bucket_l2, bucket_sm, bucket_pcie, bucket_mcu, bucket_other;
	unsigned threshold_exceeded;
};

struct nvml_ecc_error_counts {
	uint64_t l1, l2, device_memory, register_file;
};

struct nvml_row_remapper_histogram_values {
	unsigned max, high, partial, low, none; /* banks by spare rows left */
};

struct nvml_violation_time {
	uint64_t reference_us, violation_ns;
};

struct nvml_accounting_stats {
	unsigned gpu_percent, memory_percent;
	uint64_t max_memory, time_ms, start_us;
	unsigned running;
	unsigned reserved[5];
};

struct nvml_conf_compute_mem_size_info {
	uint64_t protected_kib, unprotected_kib;
};

struct nvml_conf_compute_system_caps {
	unsigned cpu, gpus;
};

struct nvml_conf_compute_system_state {
	unsigned environment, feature, dev_tools;
};

struct nvml_device_addressing_mode {
	unsigned version;
	unsigned value;
};

struct nvml_device_capabilities {
	unsigned version;
	unsigned mask;
};

struct nvml_c2c_mode_info_v1 {
	unsigned enabled;
};

struct nvml_excluded_device_info {
	struct nvml_pci_info pci;
	char uuid[80];
};

struct nvml_bridge_chip_hierarchy {
	unsigned char count;
	struct {
		unsigned type, firmware;
	} chip[NVML_BRIDGE_MAX];
};

struct nvml_clk_mon_status {
	unsigned global, count;
	struct {
		unsigned domain, faults;
	} list[NVML_CLOCK_DOMAIN_MAX];
};

struct nvml_encoder_session_info {
	unsigned session, pid, vgpu, codec, width, height, fps, latency_us;
};

struct nvml_fbc_session_info {
	unsigned session, pid, vgpu, display, type, flags;
	unsigned max_width, max_height, width, height, fps, latency_us;
};

struct nvml_fbc_stats {
	unsigned sessions, fps, latency_us;
};

struct nvml_gpu_dynamic_pstates_info {
	unsigned flags;
	struct {
		unsigned present, percent, rise, fall;
	} domain[8]; /* 0 graphics, 1 framebuffer, 2 video, 3 bus */
};

struct nvml_gpu_thermal_settings {
	unsigned count;
	struct {
		int controller, minimum, maximum, current, target;
	} sensor[3];
};

struct nvml_hwbc_entry {
	unsigned id;
	char firmware[32];
};

struct nvml_system_driver_branch_info {
	unsigned version;
	char branch[80];
};

struct nvml_uuid {
	unsigned version;
	unsigned type; /* 1 text, 2 bytes */
	union {
		char text[41];
		unsigned char bytes[16];
	} value;
};

struct nvml_system_event_set_create_request {
	unsigned version;
	void *set;
};

struct nvml_system_event_set_free_request {
	unsigned version;
	void *set;
};

struct nvml_system_register_event_request {
	unsigned version;
	uint64_t types;
	void *set;
};

struct nvml_system_event_data {
	uint64_t type;
	unsigned gpu_id;
};

struct nvml_system_event_set_wait_request {
	unsigned version;
	unsigned timeout_ms;
	void *set;
	struct nvml_system_event_data *data;
	unsigned size, count;
};

#define NVML_SIZE(name, bytes) _Static_assert(sizeof(struct name) == (bytes), #name)
#define NVML_AT(name, member, offset)                                                              \
	_Static_assert(offsetof(struct name, member) == (offset), #name "." #member)

NVML_SIZE(nvml_pci_info, 68);
NVML_AT(nvml_pci_info, domain, 16);
NVML_AT(nvml_pci_info, pci_device_id, 28);
NVML_AT(nvml_pci_info, bus_id, 36);
NVML_SIZE(nvml_pci_info_ext, 64);
NVML_SIZE(nvml_utilization, 8);
NVML_SIZE(nvml_memory, 24);
NVML_AT(nvml_memory, used, 16);
NVML_SIZE(nvml_memory_v2, 40);
NVML_AT(nvml_memory_v2, total, 8);
NVML_AT(nvml_memory_v2, used, 32);
NVML_SIZE(nvml_bar1_memory, 24);
NVML_SIZE(nvml_process_info_v1, 16);
NVML_SIZE(nvml_process_info, 24);
NVML_AT(nvml_process_info, gi, 16);
NVML_SIZE(nvml_process_detail, 32);
NVML_SIZE(nvml_process_detail_list, 24);
NVML_AT(nvml_process_detail_list, array, 16);
NVML_SIZE(nvml_process_utilization_sample, 32);
NVML_AT(nvml_process_utilization_sample, sm, 16);
NVML_SIZE(nvml_processes_utilization_info, 24);
NVML_SIZE(nvml_process_utilization_info, 40);
NVML_AT(nvml_process_utilization_info, ofa, 32);
NVML_SIZE(nvml_sample, 16);
NVML_SIZE(nvml_event_data, 32);
NVML_AT(nvml_event_data, gi, 24);
NVML_SIZE(nvml_field_value, 40);
NVML_AT(nvml_field_value, value_type, 24);
NVML_AT(nvml_field_value, value, 32);
NVML_SIZE(nvml_device_attributes, 40);
NVML_AT(nvml_device_attributes, memory_mib, 32);
NVML_SIZE(nvml_gpu_instance_info, 24);
NVML_SIZE(nvml_compute_instance_info, 32);
NVML_AT(nvml_compute_instance_info, placement, 24);
NVML_SIZE(nvml_gpu_instance_profile_info, 48);
NVML_AT(nvml_gpu_instance_profile_info, memory_mib, 40);
NVML_SIZE(nvml_gpu_instance_profile_info_v2, 152);
NVML_AT(nvml_gpu_instance_profile_info_v2, memory_mib, 48);
NVML_AT(nvml_gpu_instance_profile_info_v2, name, 56);
NVML_SIZE(nvml_gpu_instance_profile_info_v3, 152);
NVML_AT(nvml_gpu_instance_profile_info_v3, name, 48);
NVML_AT(nvml_gpu_instance_profile_info_v3, capabilities, 144);
NVML_SIZE(nvml_compute_instance_profile_info, 36);
NVML_SIZE(nvml_compute_instance_profile_info_v2, 136);
NVML_SIZE(nvml_gpm_metric, 40);
NVML_SIZE(nvml_gpm_metrics_get, 13344);
NVML_AT(nvml_gpm_metrics_get, metric, 24);
NVML_SIZE(nvml_gpm_support, 8);
NVML_SIZE(nvml_gpu_fabric_info, 28);
NVML_SIZE(nvml_gpu_fabric_info_v2, 36);
NVML_SIZE(nvml_gpu_fabric_info_v, 40);
NVML_AT(nvml_gpu_fabric_info_v, health_mask, 32);
NVML_SIZE(nvml_temperature, 12);
NVML_SIZE(nvml_margin_temperature, 8);
NVML_SIZE(nvml_platform_info, 44);
NVML_SIZE(nvml_ecc_sram_error_status, 104);
NVML_SIZE(nvml_ecc_error_counts, 32);
NVML_SIZE(nvml_row_remapper_histogram_values, 20);
NVML_SIZE(nvml_violation_time, 16);
NVML_SIZE(nvml_accounting_stats, 56);
NVML_SIZE(nvml_conf_compute_mem_size_info, 16);
NVML_SIZE(nvml_device_addressing_mode, 8);
NVML_SIZE(nvml_excluded_device_info, 148);
NVML_SIZE(nvml_bridge_chip_hierarchy, 1028);
NVML_SIZE(nvml_encoder_session_info, 32);
NVML_SIZE(nvml_fbc_session_info, 48);
NVML_SIZE(nvml_fbc_stats, 12);
NVML_SIZE(nvml_system_event_set_create_request, 16);
NVML_SIZE(nvml_system_register_event_request, 24);
NVML_SIZE(nvml_system_event_set_wait_request, 32);
NVML_SIZE(nvml_system_event_data, 16);

#endif
