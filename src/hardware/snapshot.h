/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the GPUs are doing at one instant: what the probe sends each period and what metrics, page
 * and commands read. Fixed size, no pointers, a version word in front: it can be sent, mapped and
 * copied. It carries the identities too, so that a reader needs nothing beside it.
 *
 * A value that a GPU or driver does not give is absent: snapshot_get() says so. Nothing is ever
 * reported as 0 because it is not known.
 */
#ifndef SLUICE_HARDWARE_SNAPSHOT_H
#define SLUICE_HARDWARE_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

enum snapshot_limits {
	SNAPSHOT_GPU_MAX = 64,
	SNAPSHOT_MIG_MAX = 8,	   /* per GPU */
	SNAPSHOT_PROCESS_MAX = 64, /* kept per GPU; process_total counts all */
	SNAPSHOT_TEXT_MAX = 96,
	SNAPSHOT_SHORT_MAX = 32,
	SNAPSHOT_REASON_MAX = 192,
	SNAPSHOT_ERROR_MAX = 32, /* kinds of failed driver calls that are counted */
};

/* Names and units of the values are in snapshot_value_to_string(). All are integers. */
enum snapshot_value {
	/* every second */
	SNAPSHOT_UTIL_GPU,     /* percent of time */
	SNAPSHOT_UTIL_MEMORY,  /* percent of time the memory controller was busy */
	SNAPSHOT_UTIL_ENCODER, /* percent */
	SNAPSHOT_UTIL_DECODER, /* percent */
	SNAPSHOT_MEMORY_TOTAL, /* bytes */
	SNAPSHOT_MEMORY_USED,  /* bytes, without what the driver reserves when that is told apart */
	SNAPSHOT_MEMORY_FREE,  /* bytes */
	SNAPSHOT_MEMORY_RESERVED, /* bytes */
	SNAPSHOT_BAR1_TOTAL,	  /* bytes */
	SNAPSHOT_BAR1_USED,	  /* bytes */
	SNAPSHOT_TEMPERATURE,	  /* degrees C */
	SNAPSHOT_TEMPERATURE_MEMORY,
	SNAPSHOT_POWER,		 /* mW */
	SNAPSHOT_ENERGY,	 /* mJ since the driver was loaded */
	SNAPSHOT_CLOCK_SM,	 /* MHz */
	SNAPSHOT_CLOCK_MEMORY,	 /* MHz */
	SNAPSHOT_CLOCK_GRAPHICS, /* MHz */
	SNAPSHOT_CLOCK_VIDEO,	 /* MHz */
	SNAPSHOT_PSTATE,	 /* 0 fastest ... 15 */
	SNAPSHOT_FAN,		 /* percent */
	SNAPSHOT_THROTTLE,	 /* bits of nvmlClocksEventReasons */
	SNAPSHOT_BUSY,		 /* ns in which a kernel ran, counted by the probe since it began */
	SNAPSHOT_MARGIN,	 /* degrees C until the GPU slows down (T.Limit); may be negative */
	/* The next eight: millionths of the time, in the order of enum snapshot_activity. Only GPUs
	 * with GPM (Hopper and later) tell them. */
	SNAPSHOT_ACTIVITY,
	SNAPSHOT_ACTIVITY_END = SNAPSHOT_ACTIVITY + 7,
	/* every 10 seconds */
	SNAPSHOT_VIOLATION_POWER,      /* ns throttled for power since the driver was loaded */
	SNAPSHOT_VIOLATION_THERMAL,    /* ns throttled for heat */
	SNAPSHOT_VIOLATION_SYNC_BOOST, /* ns, and the next ones */
	SNAPSHOT_VIOLATION_BOARD_LIMIT,
	SNAPSHOT_VIOLATION_LOW_UTILIZATION,
	SNAPSHOT_VIOLATION_RELIABILITY,
	SNAPSHOT_VIOLATION_SW_THERMAL,
	SNAPSHOT_VIOLATION_HW_THERMAL,
	SNAPSHOT_VIOLATION_HW_POWER_BRAKE,
	SNAPSHOT_ECC_CORRECTED_VOLATILE, /* since the driver was loaded */
	SNAPSHOT_ECC_UNCORRECTED_VOLATILE,
	SNAPSHOT_ECC_CORRECTED_AGGREGATE, /* of the card's life */
	SNAPSHOT_ECC_UNCORRECTED_AGGREGATE,
	SNAPSHOT_RETIRED_CORRECTED,   /* pages */
	SNAPSHOT_RETIRED_UNCORRECTED, /* pages */
	SNAPSHOT_RETIRED_PENDING,     /* 0 or 1 */
	SNAPSHOT_REMAP_CORRECTED,     /* rows */
	SNAPSHOT_REMAP_UNCORRECTED,   /* rows */
	SNAPSHOT_REMAP_PENDING,	      /* 0 or 1 */
	SNAPSHOT_REMAP_FAILURE,	      /* 0 or 1 */
	/* Memory banks by the spare rows that are left; the next five in this order. */
	SNAPSHOT_REMAP_BANKS_MAX,
	SNAPSHOT_REMAP_BANKS_HIGH,
	SNAPSHOT_REMAP_BANKS_PARTIAL,
	SNAPSHOT_REMAP_BANKS_LOW,
	SNAPSHOT_REMAP_BANKS_NONE,
	SNAPSHOT_PCIE_GEN,
	SNAPSHOT_PCIE_WIDTH,
	SNAPSHOT_PCIE_REPLAYS,
	/* These four every second. Where the driver counts no bytes there are only rates; without
	 * GPM too, those of one GPU after another, a GPU each second. */
	SNAPSHOT_PCIE_TX,	/* bytes per second */
	SNAPSHOT_PCIE_RX,	/* bytes per second */
	SNAPSHOT_PCIE_TX_TOTAL, /* bytes since the driver was loaded */
	SNAPSHOT_PCIE_RX_TOTAL, /* bytes */
	/* Errors of the PCIe link since the driver was loaded; the next twelve in the order of enum
	 * snapshot_pcie_error. */
	SNAPSHOT_PCIE_ERROR,
	SNAPSHOT_PCIE_ERROR_END = SNAPSHOT_PCIE_ERROR + 11,
	SNAPSHOT_NVLINK_ACTIVE,	  /* links */
	SNAPSHOT_NVLINK_INACTIVE, /* links that are there and down */
	SNAPSHOT_NVLINK_ERRORS,	  /* CRC, replay and recovery errors of all links */
	SNAPSHOT_NVLINK_UP,	  /* bit N: link N is active */
	SNAPSHOT_NVLINK_THERE,	  /* bit N: there is a link N, up or down */
	SNAPSHOT_NVLINK_TX_TOTAL, /* bytes of all links since the driver was loaded */
	SNAPSHOT_NVLINK_RX_TOTAL, /* bytes */
	/* Errors of all links since the driver was loaded; the next sixteen in the order of enum
	 * snapshot_nvlink_error. */
	SNAPSHOT_NVLINK_ERROR,
	SNAPSHOT_NVLINK_ERROR_END = SNAPSHOT_NVLINK_ERROR + 15,
	SNAPSHOT_RECOVERY_ACTION, /* NVML field 230: 0 none, 1 reset GPU, 2 reboot, 3 drain P2P, 4
				     drain and reset */
	/* every 60 seconds */
	SNAPSHOT_POWER_LIMIT,	  /* mW enforced */
	SNAPSHOT_POWER_LIMIT_SET, /* mW, what somebody has asked for */
	SNAPSHOT_POWER_LIMIT_DEFAULT,
	SNAPSHOT_POWER_LIMIT_MIN,
	SNAPSHOT_POWER_LIMIT_MAX,
	SNAPSHOT_TEMPERATURE_SLOWDOWN,
	SNAPSHOT_TEMPERATURE_SHUTDOWN,
	SNAPSHOT_TEMPERATURE_MEMORY_MAX,
	SNAPSHOT_TEMPERATURE_GPU_MAX,
	SNAPSHOT_CLOCK_SM_MAX,
	SNAPSHOT_CLOCK_MEMORY_MAX,
	SNAPSHOT_CLOCK_GRAPHICS_MAX,
	SNAPSHOT_CLOCK_VIDEO_MAX,
	SNAPSHOT_PCIE_GEN_MAX,
	SNAPSHOT_PCIE_WIDTH_MAX,
	SNAPSHOT_ECC_MODE,	   /* 0 or 1 */
	SNAPSHOT_ECC_MODE_PENDING, /* 0 or 1 */
	SNAPSHOT_MIG_MODE,	   /* 0 or 1 */
	SNAPSHOT_MIG_MODE_PENDING, /* 0 or 1 */
	SNAPSHOT_PERSISTENCE,	   /* 0 or 1 */
	SNAPSHOT_COMPUTE_MODE,	   /* nvmlComputeMode_t */
	SNAPSHOT_VALUE_COUNT,
};
enum {
	SNAPSHOT_ACTIVITY_COUNT = SNAPSHOT_ACTIVITY_END - SNAPSHOT_ACTIVITY + 1,
	SNAPSHOT_PRESENT_WORDS = (SNAPSHOT_VALUE_COUNT + 63) / 64,
};

/* What of a GPU was active, in the names of the metrics: snapshot_activity_to_string(). */
enum snapshot_activity {
	SNAPSHOT_ACTIVITY_GRAPHICS, /* any engine: "gr_engine" */
	SNAPSHOT_ACTIVITY_SM,
	SNAPSHOT_ACTIVITY_OCCUPANCY, /* "sm_occupancy" */
	SNAPSHOT_ACTIVITY_TENSOR,
	SNAPSHOT_ACTIVITY_DRAM,
	SNAPSHOT_ACTIVITY_FP64,
	SNAPSHOT_ACTIVITY_FP32,
	SNAPSHOT_ACTIVITY_FP16,
};
/* "idle", "app_clocks", "sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal", "hw_thermal",
 * "hw_power_brake", "display": what bit 0..8 of SNAPSHOT_THROTTLE says; NULL: a bit without a name.
 */
const char *snapshot_throttle_to_string(uint32_t bit);
/* "gr_engine", "sm", "sm_occupancy", "tensor", "dram", "fp64", "fp32", "fp16": `activity` 0..7. */
const char *snapshot_activity_to_string(uint32_t activity);

enum { SNAPSHOT_STATE_LOST = 1 }; /* of enum gpu_state, which web/ does not know */

enum snapshot_class { /* how often a value is read */
		      SNAPSHOT_FAST,
		      SNAPSHOT_MEDIUM,
		      SNAPSHOT_SLOW,
		      SNAPSHOT_CLASS_COUNT,
};

enum snapshot_process_type { /* bits */
			     SNAPSHOT_PROCESS_COMPUTE = 1,
			     SNAPSHOT_PROCESS_GRAPHICS = 2,
			     SNAPSHOT_PROCESS_MPS = 4,
};

#define SNAPSHOT_WHOLE_GPU  UINT32_MAX /* gi and ci of what does not belong to a MIG instance */
#define SNAPSHOT_U32_ABSENT UINT32_MAX
#define SNAPSHOT_U64_ABSENT UINT64_MAX

struct snapshot_process {
	uint32_t pid;	       /* as the initial PID namespace sees it */
	uint32_t type;	       /* enum snapshot_process_type bits */
	uint32_t gi, ci;       /* or SNAPSHOT_WHOLE_GPU */
	uint64_t memory_bytes; /* or SNAPSHOT_U64_ABSENT */
	/* Percent, the mean since the snapshot before; 0 for one that did nothing. Or
	 * SNAPSHOT_U32_ABSENT: not told (MIG, old GPUs, the driver refuses). */
	uint32_t util_sm, util_memory, util_encoder, util_decoder;
};

struct snapshot_mig {
	char uuid[SNAPSHOT_TEXT_MAX];
	char profile[SNAPSHOT_SHORT_MAX];
	uint32_t gi, ci;
	/* Of the GPU instance: all its compute instances say the same. Or SNAPSHOT_U64_ABSENT. */
	uint64_t memory_total, memory_used, memory_free;
	/* Millionths, of the GPU instance: its first compute instance has them. Or
	 * SNAPSHOT_U32_ABSENT. */
	uint32_t activity[SNAPSHOT_ACTIVITY_COUNT];
};

struct snapshot_gpu {
	char uuid[SNAPSHOT_TEXT_MAX];
	char name[SNAPSHOT_TEXT_MAX];
	char bus[SNAPSHOT_SHORT_MAX]; /* "0000:07:00.0" */
	uint32_t index, minor;
	uint32_t
	    state; /* enum gpu_state of hardware/gpu.h: ok, lost, reset required, hung, error */
	char reason[SNAPSHOT_REASON_MAX];

	uint64_t present[SNAPSHOT_PRESENT_WORDS]; /* bit N: value N is there */
	int64_t value[SNAPSHOT_VALUE_COUNT];
	uint64_t
	    sampled_ns[SNAPSHOT_CLASS_COUNT]; /* CLOCK_MONOTONIC of the last good round; 0 never */
	uint64_t errors; /* calls that failed otherwise than by "not supported" */

	uint32_t mig_count;
	uint32_t process_count; /* in `process` */
	uint32_t process_total; /* seen; larger when there was no room */
	uint32_t reserved;
	struct snapshot_mig mig[SNAPSHOT_MIG_MAX];
	/* Of more than there is room for, the busiest and largest; in the driver's order. */
	struct snapshot_process process[SNAPSHOT_PROCESS_MAX];
};

#define SNAPSHOT_MAGIC	 UINT32_C(0x534c5350) /* "SLSP" */
#define SNAPSHOT_VERSION 2

/* Driver calls that failed otherwise than by "not supported". */
struct snapshot_error {
	char call[48]; /* "nvmlDeviceGetPowerUsage" */
	int32_t code;  /* nvmlReturn_t */
	uint32_t reserved;
	uint64_t count; /* since the probe began */
};

struct snapshot {
	uint32_t magic, version;
	uint32_t size; /* sizeof(struct snapshot) of whoever wrote it */
	uint32_t gpu_count;
	uint64_t sequence;     /* counts up; a new probe goes on where the old one was */
	uint64_t taken_ns;     /* CLOCK_MONOTONIC */
	int64_t taken_unix_ns; /* CLOCK_REALTIME, for people */
	char driver_version[SNAPSHOT_TEXT_MAX];
	char nvml_version[SNAPSHOT_TEXT_MAX];
	uint32_t cuda_version;
	uint32_t simulated; /* 0 or 1 */
	uint32_t
	    driver_ok; /* 0: no driver now; then there are no GPUs and `driver_text` says why */
	uint32_t probes_abandoned; /* probes that hung so far */
	char driver_text[SNAPSHOT_REASON_MAX];
	uint64_t round_ns[SNAPSHOT_CLASS_COUNT]; /* how long the last round of each class took */
	uint32_t error_count;			 /* in `error` */
	uint32_t errors_lost;			 /* kinds for which there was no room */
	struct snapshot_error error[SNAPSHOT_ERROR_MAX];
	struct snapshot_gpu gpu[SNAPSHOT_GPU_MAX];
};

/* Bytes of a snapshot with `gpu_count` GPUs: what has to be sent, and may be all that there is of
 * it in memory. */
uint32_t snapshot_length(uint32_t gpu_count);
/*
 * Checks what came from elsewhere: magic, version, counts, NUL-terminated texts, enum values. True
 * when every later reader may trust it. `length` is how many bytes there are.
 */
bool snapshot_is_valid(const struct snapshot *snapshot, uint64_t length);

/* True and the value when it is there. `value` is an enum snapshot_value. */
bool snapshot_get(const struct snapshot_gpu *gpu, uint32_t value, int64_t *out);
void snapshot_put(struct snapshot_gpu *gpu, uint32_t value, int64_t number);
void snapshot_drop(struct snapshot_gpu *gpu, uint32_t value);
/* No value, no activity, no process: what a GPU that does not answer has. */
void snapshot_drop_all(struct snapshot_gpu *gpu);
/* The GPU with this UUID, or NULL. Borrowed. */
const struct snapshot_gpu *snapshot_find(const struct snapshot *snapshot, const char *uuid);

/* "power_mw", "memory_used_bytes", ...: stable names with their unit, for JSON. */
const char *snapshot_value_to_string(uint32_t value);
/* How often it is read. */
enum snapshot_class snapshot_value_class(uint32_t value);

#endif
