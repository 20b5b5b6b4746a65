/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML through dlopen, with our own declarations: nothing of NVIDIA's is needed to build, and one
 * binary fits every driver from 470 on. Each function is looked up under its newest name first
 * (_v3, _v2, plain); one that is missing answers NVML_FUNCTION_NOT_FOUND and costs its reading
 * only.
 *
 * Only the probe calls this, because a driver call may never come back. Every call goes through
 * NVML_CALL(), which leaves a mark that the probe's watcher can read.
 *
 * Names, numbers and layouts: nvml.h of the CUDA toolkits 11.4 to 13.x,
 * https://docs.nvidia.com/deploy/nvml-api/.
 */
#ifndef SLUICE_HARDWARE_NVML_H
#define SLUICE_HARDWARE_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "hardware/callmark.h"
#include "hardware/gpu.h"

struct err;

enum nvml_return {
	NVML_OK = 0,
	NVML_UNINITIALIZED = 1,
	NVML_INVALID_ARGUMENT = 2,
	NVML_NOT_SUPPORTED = 3,
	NVML_NO_PERMISSION = 4,
	NVML_NOT_FOUND = 6,
	NVML_INSUFFICIENT_SIZE = 7,
	NVML_DRIVER_NOT_LOADED = 9,
	NVML_TIMEOUT = 10,
	NVML_LIBRARY_NOT_FOUND = 12,
	NVML_FUNCTION_NOT_FOUND = 13,
	NVML_GPU_IS_LOST = 15,
	NVML_RESET_REQUIRED = 16,
	NVML_OPERATING_SYSTEM = 17,
	NVML_LIB_RM_VERSION_MISMATCH = 18,
	NVML_IN_USE = 19,
	NVML_MEMORY = 20,
	NVML_NO_DATA = 21,
	NVML_ARGUMENT_VERSION_MISMATCH = 25,
	NVML_NOT_READY = 27,
	NVML_GPU_NOT_FOUND = 28,
	NVML_UNKNOWN = 999,
};

enum nvml_event_type { /* bits */
		       NVML_EVENT_ECC_SINGLE = 0x1,
		       NVML_EVENT_ECC_DOUBLE = 0x2,
		       NVML_EVENT_XID = 0x8,
		       NVML_EVENT_MIG_CHANGE = 0x100,
		       NVML_EVENT_ECC_STORM = 0x200,
		       NVML_EVENT_DRAM_RETIREMENT = 0x400,
		       NVML_EVENT_DRAM_FAILURE = 0x800,
		       NVML_EVENT_POISON_NONFATAL = 0x1000,
		       NVML_EVENT_POISON_FATAL = 0x2000,
		       NVML_EVENT_UNAVAILABLE = 0x4000,
		       NVML_EVENT_RECOVERY_ACTION = 0x8000,
		       /* What the probe asks for; not PSTATE and CLOCK, which come all the time. */
		       NVML_EVENT_WANTED = 0xff0b,
};

enum nvml_field {
	NVML_FIELD_ECC_SBE_VOLATILE = 3,
	NVML_FIELD_ECC_DBE_VOLATILE = 4,
	NVML_FIELD_ECC_SBE_AGGREGATE = 5,
	NVML_FIELD_ECC_DBE_AGGREGATE = 6,
	NVML_FIELD_RETIRED_SBE = 29,
	NVML_FIELD_RETIRED_DBE = 30,
	NVML_FIELD_RETIRED_PENDING = 31,
	NVML_FIELD_NVLINK_CRC_FLIT = 38,
	NVML_FIELD_NVLINK_CRC_DATA = 45,
	NVML_FIELD_NVLINK_REPLAY = 52,
	NVML_FIELD_NVLINK_RECOVERY = 59,
	/* ns for which the clocks were held down, in the order of nvmlPerfPolicyType_t */
	NVML_FIELD_VIOLATION = 74,
	NVML_FIELD_VIOLATION_END = 79,
	NVML_FIELD_MEMORY_TEMPERATURE = 82,
	NVML_FIELD_NVLINK_LINK_COUNT = 91,
	NVML_FIELD_PCIE_REPLAYS = 94,
	NVML_FIELD_NVLINK_TX_KIB = 138, /* scope: a link, or NVML_SCOPE_ALL */
	NVML_FIELD_NVLINK_RX_KIB = 139,
	NVML_FIELD_REMAP_CORRECTED = 142,
	NVML_FIELD_REMAP_UNCORRECTED = 143,
	NVML_FIELD_REMAP_PENDING = 144,
	NVML_FIELD_REMAP_FAILURE = 145,
	NVML_FIELD_NVLINK_ECC = 160,
	NVML_FIELD_PCIE_L0_TO_RECOVERY = 169,
	NVML_FIELD_PCIE_ERROR = 173, /* correctable, and ten more */
	NVML_FIELD_PCIE_ERROR_END = 183,
	NVML_FIELD_PCIE_TX_BYTES = 197,
	NVML_FIELD_PCIE_RX_BYTES = 198,
	NVML_FIELD_NVLINK5_TX_BYTES = 202, /* of NVLink 5; scope: a link */
	NVML_FIELD_NVLINK5_RX_BYTES = 204,
	NVML_FIELD_NVLINK5_ERROR = 206, /* malformed packets, and more up to 221 */
	NVML_FIELD_RECOVERY_ACTION = 230,
	NVML_FIELD_SW_THERMAL_NS = 269,
	NVML_FIELD_HW_THERMAL_NS = 270,
	NVML_FIELD_POWER_BRAKE_NS = 271,
};
#define NVML_SCOPE_ALL UINT32_MAX

enum nvml_sampling_type { NVML_SAMPLING_GPU_UTILIZATION = 1 };

/* nvmlGpmMetricId_t: what the probe asks for. Percent, and MiB per second of PCIe. */
enum nvml_gpm_metric_id {
	NVML_GPM_GRAPHICS = 1,
	NVML_GPM_SM = 2,
	NVML_GPM_OCCUPANCY = 3,
	NVML_GPM_TENSOR = 5,
	NVML_GPM_DRAM = 10,
	NVML_GPM_FP64 = 11,
	NVML_GPM_FP32 = 12,
	NVML_GPM_FP16 = 13,
	NVML_GPM_PCIE_TX = 20,
	NVML_GPM_PCIE_RX = 21,
};

enum nvml_value_type {
	NVML_VALUE_DOUBLE = 0,
	NVML_VALUE_UINT = 1,
	NVML_VALUE_ULONG = 2,
	NVML_VALUE_ULONGLONG = 3,
	NVML_VALUE_SLONGLONG = 4,
	NVML_VALUE_SINT = 5,
	NVML_VALUE_USHORT = 6,
};

/* Opaque handles of the library. */
typedef struct nvml_device_handle *nvml_device;
typedef struct nvml_event_set_handle *nvml_event_set;
typedef struct nvml_gpm_handle *nvml_gpm;

struct nvml_pci_info {
	char bus_id_legacy[16];
	uint32_t domain, bus, device;
	uint32_t pci_device_id, pci_subsystem_id;
	char bus_id[32]; /* _v3; older ones leave four reserved words here */
};

struct nvml_memory {
	uint64_t total, free, used;
};

struct nvml_memory_v2 {
	uint32_t version;
	uint64_t total, reserved, free, used;
};

struct nvml_bar1 {
	uint64_t total, free, used;
};

struct nvml_utilization {
	uint32_t gpu, memory;
};

struct nvml_event_data {
	nvml_device device;
	uint64_t type, data;
	uint32_t gi, ci; /* _v2; the plain form leaves them alone */
};

union nvml_value {
	double d;
	uint32_t ui;
	unsigned long ul;
	uint64_t ull;
	int64_t sll;
	int32_t si;
	uint16_t us;
};

struct nvml_field_value {
	uint32_t id, scope;
	int64_t timestamp_us, latency_us;
	uint32_t value_type;
	int32_t result;
	union nvml_value value;
};

struct nvml_attributes {
	uint32_t sm_count, copy_engines, decoders, encoders, jpegs, ofas;
	uint32_t gi_slices, ci_slices;
	uint64_t memory_mib;
};

struct nvml_fabric {
	uint8_t cluster[GPU_FABRIC_UUID_SIZE];
	uint32_t status, clique, state;
};

struct nvml_fabric_v2 {
	uint32_t version;
	uint8_t cluster[GPU_FABRIC_UUID_SIZE];
	uint32_t status, clique, state, health;
};

struct nvml_process_sample {
	uint32_t pid;
	uint64_t timestamp_us;
	uint32_t sm, memory, encoder, decoder;
};

/* The newer call's entry, and what it is called with (_v1). */
struct nvml_process_use {
	uint64_t timestamp_us;
	uint32_t pid, sm, memory, encoder, decoder, jpeg, ofa;
};

struct nvml_process_uses {
	uint32_t version;
	uint32_t count;
	uint64_t seen_us;
	struct nvml_process_use *entry;
};

struct nvml_sample {
	uint64_t timestamp_us;
	union nvml_value value;
};

struct nvml_row_histogram {
	uint32_t max, high, partial, low, none;
};

struct nvml_margin {
	uint32_t version;
	int32_t celsius;
};

/* Version words of GPM's structures are plain numbers. */
struct nvml_gpm_support {
	uint32_t version, supported;
};

struct nvml_gpm_metric {
	uint32_t id;
	int32_t result;
	double value;
	const char *short_name, *long_name, *unit;
};

/* The length of the array differs from driver to driver (98 to 333); the longest is given, so that
 * one that clears all of it stays inside. */
enum nvml_gpm_limits { NVML_GPM_METRIC_MAX = 333 };
struct nvml_gpm_metrics {
	uint32_t version, count;
	nvml_gpm first, second;
	struct nvml_gpm_metric metric[NVML_GPM_METRIC_MAX];
};

struct nvml_violation {
	uint64_t reference_ns, violation_ns;
};

struct nvml_temperature {
	uint32_t version, sensor;
	int32_t celsius;
};

#define NVML_STRUCT_WORD(type, number) ((uint32_t)(sizeof(type) | (unsigned)(number) << 24))

/* X(member, newest name, older name or NULL, oldest name or NULL, parameters) */
#define NVML_FUNCTIONS(X)                                                                          \
	X(init, "nvmlInit_v2", "nvmlInit", NULL, (void))                                           \
	X(shutdown, "nvmlShutdown", NULL, NULL, (void))                                            \
	X(driver_version, "nvmlSystemGetDriverVersion", NULL, NULL, (char *, uint32_t))            \
	X(nvml_version, "nvmlSystemGetNVMLVersion", NULL, NULL, (char *, uint32_t))                \
	X(cuda_version, "nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion",     \
	  NULL, (int32_t *))                                                                       \
	X(count, "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount", NULL, (uint32_t *))                \
	X(by_index, "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex", NULL,           \
	  (uint32_t, nvml_device *))                                                               \
	X(by_bus, "nvmlDeviceGetHandleByPciBusId_v2", "nvmlDeviceGetHandleByPciBusId", NULL,       \
	  (const char *, nvml_device *))                                                           \
	X(index, "nvmlDeviceGetIndex", NULL, NULL, (nvml_device, uint32_t *))                      \
	X(uuid, "nvmlDeviceGetUUID", NULL, NULL, (nvml_device, char *, uint32_t))                  \
	X(name, "nvmlDeviceGetName", NULL, NULL, (nvml_device, char *, uint32_t))                  \
	X(serial, "nvmlDeviceGetSerial", NULL, NULL, (nvml_device, char *, uint32_t))              \
	X(minor, "nvmlDeviceGetMinorNumber", NULL, NULL, (nvml_device, uint32_t *))                \
	X(vbios, "nvmlDeviceGetVbiosVersion", NULL, NULL, (nvml_device, char *, uint32_t))         \
	X(board_part, "nvmlDeviceGetBoardPartNumber", NULL, NULL, (nvml_device, char *, uint32_t)) \
	X(pci_info, "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo",  \
	  (nvml_device, struct nvml_pci_info *))                                                   \
	X(brand, "nvmlDeviceGetBrand", NULL, NULL, (nvml_device, uint32_t *))                      \
	X(architecture, "nvmlDeviceGetArchitecture", NULL, NULL, (nvml_device, uint32_t *))        \
	X(capability, "nvmlDeviceGetCudaComputeCapability", NULL, NULL,                            \
	  (nvml_device, int32_t *, int32_t *))                                                     \
	X(cores, "nvmlDeviceGetNumGpuCores", NULL, NULL, (nvml_device, uint32_t *))                \
	X(numa_node, "nvmlDeviceGetNumaNodeId", NULL, NULL, (nvml_device, uint32_t *))             \
	X(memory, "nvmlDeviceGetMemoryInfo", NULL, NULL, (nvml_device, struct nvml_memory *))      \
	X(memory_v2, "nvmlDeviceGetMemoryInfo_v2", NULL, NULL,                                     \
	  (nvml_device, struct nvml_memory_v2 *))                                                  \
	X(bar1, "nvmlDeviceGetBAR1MemoryInfo", NULL, NULL, (nvml_device, struct nvml_bar1 *))      \
	X(ancestor, "nvmlDeviceGetTopologyCommonAncestor", NULL, NULL,                             \
	  (nvml_device, nvml_device, uint32_t *))                                                  \
	X(link_state, "nvmlDeviceGetNvLinkState", NULL, NULL, (nvml_device, uint32_t, uint32_t *)) \
	X(link_remote, "nvmlDeviceGetNvLinkRemotePciInfo_v2", "nvmlDeviceGetNvLinkRemotePciInfo",  \
	  NULL, (nvml_device, uint32_t, struct nvml_pci_info *))                                   \
	X(link_remote_type, "nvmlDeviceGetNvLinkRemoteDeviceType", NULL, NULL,                     \
	  (nvml_device, uint32_t, uint32_t *))                                                     \
	X(fabric, "nvmlDeviceGetGpuFabricInfo", NULL, NULL, (nvml_device, struct nvml_fabric *))   \
	X(fabric_v, "nvmlDeviceGetGpuFabricInfoV", NULL, NULL,                                     \
	  (nvml_device, struct nvml_fabric_v2 *))                                                  \
	X(mig_mode, "nvmlDeviceGetMigMode", NULL, NULL, (nvml_device, uint32_t *, uint32_t *))     \
	X(mig_max, "nvmlDeviceGetMaxMigDeviceCount", NULL, NULL, (nvml_device, uint32_t *))        \
	X(mig_by_index, "nvmlDeviceGetMigDeviceHandleByIndex", NULL, NULL,                         \
	  (nvml_device, uint32_t, nvml_device *))                                                  \
	X(gi_id, "nvmlDeviceGetGpuInstanceId", NULL, NULL, (nvml_device, uint32_t *))              \
	X(ci_id, "nvmlDeviceGetComputeInstanceId", NULL, NULL, (nvml_device, uint32_t *))          \
	X(attributes, "nvmlDeviceGetAttributes_v2", NULL, NULL,                                    \
	  (nvml_device, struct nvml_attributes *))                                                 \
	X(utilization, "nvmlDeviceGetUtilizationRates", NULL, NULL,                                \
	  (nvml_device, struct nvml_utilization *))                                                \
	X(encoder, "nvmlDeviceGetEncoderUtilization", NULL, NULL,                                  \
	  (nvml_device, uint32_t *, uint32_t *))                                                   \
	X(decoder, "nvmlDeviceGetDecoderUtilization", NULL, NULL,                                  \
	  (nvml_device, uint32_t *, uint32_t *))                                                   \
	X(temperature, "nvmlDeviceGetTemperature", NULL, NULL,                                     \
	  (nvml_device, uint32_t, uint32_t *))                                                     \
	X(temperature_v, "nvmlDeviceGetTemperatureV", NULL, NULL,                                  \
	  (nvml_device, struct nvml_temperature *))                                                \
	X(threshold, "nvmlDeviceGetTemperatureThreshold", NULL, NULL,                              \
	  (nvml_device, uint32_t, uint32_t *))                                                     \
	X(power, "nvmlDeviceGetPowerUsage", NULL, NULL, (nvml_device, uint32_t *))                 \
	X(energy, "nvmlDeviceGetTotalEnergyConsumption", NULL, NULL, (nvml_device, uint64_t *))    \
	X(power_enforced, "nvmlDeviceGetEnforcedPowerLimit", NULL, NULL,                           \
	  (nvml_device, uint32_t *))                                                               \
	X(power_limit, "nvmlDeviceGetPowerManagementLimit", NULL, NULL, (nvml_device, uint32_t *)) \
	X(margin, "nvmlDeviceGetMarginTemperature", NULL, NULL,                                    \
	  (nvml_device, struct nvml_margin *))                                                     \
	X(samples, "nvmlDeviceGetSamples", NULL, NULL,                                             \
	  (nvml_device, uint32_t, uint64_t, uint32_t *, uint32_t *, struct nvml_sample *))         \
	X(power_default, "nvmlDeviceGetPowerManagementDefaultLimit", NULL, NULL,                   \
	  (nvml_device, uint32_t *))                                                               \
	X(power_range, "nvmlDeviceGetPowerManagementLimitConstraints", NULL, NULL,                 \
	  (nvml_device, uint32_t *, uint32_t *))                                                   \
	X(clock, "nvmlDeviceGetClockInfo", NULL, NULL, (nvml_device, uint32_t, uint32_t *))        \
	X(clock_max, "nvmlDeviceGetMaxClockInfo", NULL, NULL, (nvml_device, uint32_t, uint32_t *)) \
	X(pstate, "nvmlDeviceGetPerformanceState", NULL, NULL, (nvml_device, uint32_t *))          \
	X(fan, "nvmlDeviceGetFanSpeed", NULL, NULL, (nvml_device, uint32_t *))                     \
	X(throttle, "nvmlDeviceGetCurrentClocksEventReasons",                                      \
	  "nvmlDeviceGetCurrentClocksThrottleReasons", NULL, (nvml_device, uint64_t *))            \
	X(violation, "nvmlDeviceGetViolationStatus", NULL, NULL,                                   \
	  (nvml_device, uint32_t, struct nvml_violation *))                                        \
	X(fields, "nvmlDeviceGetFieldValues", NULL, NULL,                                          \
	  (nvml_device, int32_t, struct nvml_field_value *))                                       \
	X(ecc_mode, "nvmlDeviceGetEccMode", NULL, NULL, (nvml_device, uint32_t *, uint32_t *))     \
	X(ecc_total, "nvmlDeviceGetTotalEccErrors", NULL, NULL,                                    \
	  (nvml_device, uint32_t, uint32_t, uint64_t *))                                           \
	X(remapped, "nvmlDeviceGetRemappedRows", NULL, NULL,                                       \
	  (nvml_device, uint32_t *, uint32_t *, uint32_t *, uint32_t *))                           \
	X(row_histogram, "nvmlDeviceGetRowRemapperHistogram", NULL, NULL,                          \
	  (nvml_device, struct nvml_row_histogram *))                                              \
	X(persistence, "nvmlDeviceGetPersistenceMode", NULL, NULL, (nvml_device, uint32_t *))      \
	X(compute_mode, "nvmlDeviceGetComputeMode", NULL, NULL, (nvml_device, uint32_t *))         \
	X(pcie_gen, "nvmlDeviceGetCurrPcieLinkGeneration", NULL, NULL, (nvml_device, uint32_t *))  \
	X(pcie_width, "nvmlDeviceGetCurrPcieLinkWidth", NULL, NULL, (nvml_device, uint32_t *))     \
	X(pcie_gen_max, "nvmlDeviceGetMaxPcieLinkGeneration", NULL, NULL,                          \
	  (nvml_device, uint32_t *))                                                               \
	X(pcie_width_max, "nvmlDeviceGetMaxPcieLinkWidth", NULL, NULL, (nvml_device, uint32_t *))  \
	X(pcie_replays, "nvmlDeviceGetPcieReplayCounter", NULL, NULL, (nvml_device, uint32_t *))   \
	X(pcie_throughput, "nvmlDeviceGetPcieThroughput", NULL, NULL,                              \
	  (nvml_device, uint32_t, uint32_t *))                                                     \
	X(compute_processes, "nvmlDeviceGetComputeRunningProcesses_v3",                            \
	  "nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses",       \
	  (nvml_device, uint32_t *, void *))                                                       \
	X(graphics_processes, "nvmlDeviceGetGraphicsRunningProcesses_v3",                          \
	  "nvmlDeviceGetGraphicsRunningProcesses_v2", "nvmlDeviceGetGraphicsRunningProcesses",     \
	  (nvml_device, uint32_t *, void *))                                                       \
	X(mps_processes, "nvmlDeviceGetMPSComputeRunningProcesses_v3",                             \
	  "nvmlDeviceGetMPSComputeRunningProcesses_v2", "nvmlDeviceGetMPSComputeRunningProcesses", \
	  (nvml_device, uint32_t *, void *))                                                       \
	X(compute_processes_plain, "nvmlDeviceGetComputeRunningProcesses", NULL, NULL,             \
	  (nvml_device, uint32_t *, void *))                                                       \
	X(graphics_processes_plain, "nvmlDeviceGetGraphicsRunningProcesses", NULL, NULL,           \
	  (nvml_device, uint32_t *, void *))                                                       \
	X(mps_processes_plain, "nvmlDeviceGetMPSComputeRunningProcesses", NULL, NULL,              \
	  (nvml_device, uint32_t *, void *))                                                       \
	X(process_utilization, "nvmlDeviceGetProcessUtilization", NULL, NULL,                      \
	  (nvml_device, struct nvml_process_sample *, uint32_t *, uint64_t))                       \
	X(process_uses, "nvmlDeviceGetProcessesUtilizationInfo", NULL, NULL,                       \
	  (nvml_device, struct nvml_process_uses *))                                               \
	X(gpm_support, "nvmlGpmQueryDeviceSupport", NULL, NULL,                                    \
	  (nvml_device, struct nvml_gpm_support *))                                                \
	X(gpm_alloc, "nvmlGpmSampleAlloc", NULL, NULL, (nvml_gpm *))                               \
	X(gpm_free, "nvmlGpmSampleFree", NULL, NULL, (nvml_gpm))                                   \
	X(gpm_get, "nvmlGpmSampleGet", NULL, NULL, (nvml_device, nvml_gpm))                        \
	X(gpm_mig_get, "nvmlGpmMigSampleGet", NULL, NULL, (nvml_device, uint32_t, nvml_gpm))       \
	X(gpm_metrics, "nvmlGpmMetricsGet", NULL, NULL, (struct nvml_gpm_metrics *))               \
	X(event_set_create, "nvmlEventSetCreate", NULL, NULL, (nvml_event_set *))                  \
	X(event_set_free, "nvmlEventSetFree", NULL, NULL, (nvml_event_set))                        \
	X(event_types, "nvmlDeviceGetSupportedEventTypes", NULL, NULL, (nvml_device, uint64_t *))  \
	X(event_register, "nvmlDeviceRegisterEvents", NULL, NULL,                                  \
	  (nvml_device, uint64_t, nvml_event_set))                                                 \
	X(event_wait, "nvmlEventSetWait_v2", "nvmlEventSetWait", NULL,                             \
	  (nvml_event_set, struct nvml_event_data *, uint32_t))

enum nvml_function {
#define X(member, newest, older, oldest, parameters) NVML_FN_##member,
	NVML_FUNCTIONS(X)
#undef X
	    NVML_FN_COUNT,
};

struct nvml {
	void *library; /* owned; of dlopen */
	bool initialised;
	char path[GPU_PATH_MAX]; /* of the library, links resolved */
	char driver_version[GPU_VERSION_MAX];
	char nvml_version[GPU_VERSION_MAX];
	uint8_t variant[NVML_FN_COUNT]; /* 0 newest name, 1 older, 2 oldest; 255 missing */
	struct {
#define X(member, newest, older, oldest, parameters) int32_t(*member) parameters;
		NVML_FUNCTIONS(X)
#undef X
	} fn;
};

/* One thread's way to the library: where it leaves its marks and which GPU it is asking about. */
struct nvml_caller {
	struct nvml *nvml;	/* borrowed: for the caller's life */
	struct call_mark *mark; /* borrowed: as above */
	uint32_t gpu;		/* NVML's index, or CALL_MARK_NO_GPU */
	char bus[CALL_MARK_BUS_MAX];
	uint32_t allowance_ms;
};

/* Calls a function of the table; its value is the enum nvml_return. */
#define NVML_CALL(caller, member, ...)                                                             \
	__extension__({                                                                            \
		int32_t nvml_call_value_ = NVML_FUNCTION_NOT_FOUND;                                \
		if ((caller)->nvml->fn.member) {                                                   \
			nvml_caller_begin((caller), NVML_FN_##member);                             \
			nvml_call_value_ = (caller)->nvml->fn.member(__VA_ARGS__);                 \
			nvml_caller_end((caller));                                                 \
		}                                                                                  \
		nvml_call_value_;                                                                  \
	})

/*
 * Finds, loads and initialises the library; the marks of `mark` cover that too. Errors, each with
 * a text that names the object and the next step:
 * -ENODEV   no library, or no kernel module
 * -ELIBBAD  half installed, or library and kernel module of different versions (both are named)
 * -EACCES   the device files may not be opened
 * -EPERM    SLUICE_SIM_STATE is set and this is not the simulator's library: nothing was called
 * -EIO      anything else
 * `root` is the prefix of /proc and /sys. `*out` is owned: nvml_close().
 */
int nvml_open(const char *root, struct call_mark *mark, struct nvml **out, struct err *err);
struct nvml *nvml_close(struct nvml *nvml);

void nvml_caller_target(struct nvml_caller *caller, uint32_t gpu, const char *bus);
void nvml_caller_begin(struct nvml_caller *caller, enum nvml_function function);
void nvml_caller_end(struct nvml_caller *caller);

/* The newest name of a function: "nvmlDeviceGetUUID". */
const char *nvml_function_to_string(enum nvml_function function);
/* "GPU is lost"; own words, so that no call into the library is needed. */
const char *nvml_return_to_string(int32_t result);
/* Whether a result says "there is no such reading here": the reading is absent, nothing failed. */
bool nvml_return_is_absent(int32_t result);
/* Whether this process was pointed at a simulated machine (SLUICE_SIM_STATE or SLUICE_SIM_PROFILE).
 */
bool nvml_is_simulation_wanted(void);
/* Bytes of an entry of the process lists that variant `variant` of driver `version` fills. */
uint32_t nvml_process_entry_bytes(uint8_t variant, const char *driver_version);

#endif
