/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated machine as plain data: what it is (from a profile) and how it is right now (from
 * physics, loads and faults). One value of `struct sim_machine` is the whole truth; the library,
 * the trees and the commands only read or change it. It holds no pointers, so that it can live in
 * a file which many processes map. Nothing here knows NVML or files.
 *
 * Numbers are integers throughout: the same seed and the same commands give the same readings, bit
 * for bit, on every compiler. Time is counted in ticks of 100 ms since the machine was started.
 */
#ifndef SLUICE_SIM_MACHINE_H
#define SLUICE_SIM_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

enum sim_limits {
	SIM_GPU_MAX = 16,
	SIM_MODEL_MAX = 4,	  /* different GPU models in one machine */
	SIM_GI_MAX = 7,		  /* MIG GPU instances of a GPU */
	SIM_CI_MAX = 7,		  /* compute instances of a GPU instance */
	SIM_MIG_PROFILE_MAX = 12, /* rows of a model's MIG table */
	SIM_PLACEMENT_MAX = 8,
	SIM_MEMORY_SLICES = 8,
	SIM_PROCESS_MAX = 64,	    /* per GPU */
	SIM_LINK_MAX = 36,	    /* NVLinks of a GPU */
	SIM_NIC_MAX = 32,	    /* network adapters */
	SIM_NIC_PORT_MAX = 2,	    /* ports of an adapter */
	SIM_SAMPLE_MAX = 128,	    /* kept per-process utilisation samples of a GPU */
	SIM_DEVICE_SAMPLE_MAX = 96, /* kept samples of the whole GPU: 16 s */
	SIM_MISSED_MAX = 8,
	SIM_RULE_MAX = 64,    /* standing "this function answers that" faults */
	SIM_PENDING_MAX = 32, /* events that wait to be published */
	SIM_EVENT_MAX = 1024, /* published events that are kept */
	SIM_TRACE_MAX = 64,   /* points of a load trace */
	SIM_NAME_MAX = 96,
	SIM_UUID_MAX = 48,
	SIM_TEXT_MAX = 64,
	SIM_PATH_MAX = 512,
	SIM_FIELD_MAX = 303, /* NVML field ids are below this */
};

#define SIM_TICK_NS	     UINT64_C(100000000)
#define SIM_TICKS_PER_SECOND 10
#define SIM_WHOLE_GPU	     UINT32_C(0xffffffff) /* gi/ci of something that concerns the whole GPU */
/* Every simulated UUID starts so; nothing else does. It is how sluice knows and says "simulated".
 */
#define SIM_UUID_PREFIX "51ce51ce"

/* One row of a MIG table. */
struct sim_mig_profile {
	uint32_t index; /* NVML profile number, 0-based enum of nvml.h */
	uint32_t id;	/* the number nvidia-smi shows */
	char name[24];	/* "1g.5gb+me" without the "MIG " */
	uint64_t memory_mib;
	uint32_t slices; /* compute slices: the G of Gg.NNgb */
	uint32_t sm_count;
	uint32_t max_count;
	uint32_t copy_engines, decoders, encoders, jpegs, ofas;
	uint32_t placement_size; /* memory slices */
	uint32_t placement_count;
	uint32_t placement_start[SIM_PLACEMENT_MAX];
};

/* What all GPUs of one model share. Filled from the profile; constant while the machine runs. */
struct sim_model {
	char name[SIM_NAME_MAX];
	uint32_t brand;	       /* nvmlBrandType_t */
	uint32_t architecture; /* nvmlDeviceArchitecture_t */
	uint32_t cc_major, cc_minor;
	uint32_t pci_device_id, pci_subsystem_id; /* device id << 16 | vendor, as NVML gives them */
	char vbios[SIM_TEXT_MAX], part_number[SIM_TEXT_MAX];
	uint64_t memory_bytes, reserved_bytes, bar1_bytes;
	uint32_t memory_bus_bits, core_count, sm_count;
	uint32_t pcie_gen_max, pcie_width_max;
	uint32_t power_idle_mw, power_min_mw, power_max_mw, power_default_mw;
	uint32_t power_load_mw; /* drawn at full utilisation; above the limit it is capped */
	uint32_t slowdown_c, shutdown_c, gpu_max_c, mem_max_c;
	uint32_t sm_idle_mhz, sm_max_mhz, mem_idle_mhz, mem_max_mhz, video_max_mhz;
	uint32_t ambient_c;		       /* default 25 */
	uint32_t thermal_tau_ms, power_tau_ms; /* defaults 20000 and 300 */
	uint32_t idle_pstate;		       /* 8, or 0 on data-centre parts */
	uint32_t fan_count;
	uint32_t link_count, nvlink_version;
	uint32_t context_bytes_mib; /* memory a process takes by having a context; default 300 */
	bool has_ecc, has_mig, has_gpm, has_fabric, has_row_remapper, has_hbm;
	bool quadro_class; /* PCI class 0x030000 (display) instead of 0x030200 */
	uint32_t mig_profile_count;
	struct sim_mig_profile mig_profile[SIM_MIG_PROFILE_MAX];
};

/* Errors of a link that nothing but a fault causes. Those from MALFORMED on are of NVLink 5. */
enum sim_link_error {
	SIM_LINK_ECC,
	SIM_LINK_MALFORMED,
	SIM_LINK_BUFFER_OVERRUN,
	SIM_LINK_RCV,
	SIM_LINK_RCV_REMOTE,
	SIM_LINK_RCV_GENERAL,
	SIM_LINK_INTEGRITY,
	SIM_LINK_XMIT_DISCARD,
	SIM_LINK_RECOVERY_FAILED,
	SIM_LINK_EFFECTIVE,
	SIM_LINK_SYMBOL,
	SIM_LINK_ERROR_COUNT,
};

enum sim_link_peer { SIM_LINK_NONE, SIM_LINK_GPU, SIM_LINK_SWITCH };

struct sim_link {
	uint8_t peer_kind; /* enum sim_link_peer */
	uint8_t peer_gpu;  /* index, when a GPU */
	uint8_t peer_link; /* the link's number at the other end */
	bool down;
	uint32_t switch_bus, switch_device; /* PCI address of the switch, when a switch */
	uint64_t crc_flit, crc_data, replay, recovery;
	uint32_t errors_per_tick_milli;	     /* injected rate: thousandths of an error per tick */
	uint32_t errors_residue;	     /* thousandths not yet counted */
	uint32_t more[SIM_LINK_ERROR_COUNT]; /* injected; enum sim_link_error */
};

enum sim_process_type { SIM_PROCESS_COMPUTE = 1, SIM_PROCESS_GRAPHICS = 2, SIM_PROCESS_MPS = 4 };
enum sim_shape { SIM_SHAPE_STEADY, SIM_SHAPE_BURST, SIM_SHAPE_SINE, SIM_SHAPE_TRACE };

/* A process on a GPU and the load it puts there. pid 0: free slot. */
struct sim_process {
	uint32_t pid;	   /* as the process that registered it saw it */
	uint32_t host_pid; /* as the initial PID namespace sees it; what NVML reports */
	uint64_t
	    start_time;	       /* field 22 of /proc/PID/stat: tells a reused pid from the old one;
				* 0: an invented process, which nobody looks up and which never dies */
	uint64_t pid_ns;       /* inode of /proc/PID/ns/pid where `pid` counts; 0: the creator's */
	uint32_t gi, ci;       /* MIG instance or SIM_WHOLE_GPU */
	uint8_t type;	       /* enum sim_process_type */
	uint8_t shape;	       /* enum sim_shape */
	uint16_t trace_length; /* points in use, each held 1 s, repeated */
	uint8_t trace_permille[SIM_TRACE_MAX][2]; /* little-endian 16-bit thousandths */
	uint32_t util_permille, enc_permille, dec_permille;
	int32_t membw_permille;	  /* memory-controller use; -1: half of util */
	uint32_t tensor_permille; /* share of the SM time on tensor cores */
	uint64_t memory_bytes;	  /* allocations, without the context overhead */
	uint64_t pcie_tx_bps, pcie_rx_bps, nvlink_bps; /* bytes per second */
	/* It works in the ticks after begin_tick up to and with end_tick, then its slot is free;
	 * end 0: until it is removed or dies. */
	uint64_t begin_tick, end_tick;
	uint64_t sm_busy_permille_ticks; /* integral of its share: accounting and attribution */
	uint32_t share_permille;	 /* of the whole GPU's SM time, in the last tick */
};

/* One per-process sample, as nvmlDeviceGetProcessUtilization returns them. */
struct sim_sample {
	uint64_t tick;
	uint32_t pid;
	uint16_t sm, mem, enc, dec; /* permille */
	uint32_t reserved;	    /* 0: no byte of a machine is left to chance */
};

/* Of the whole GPU: means since the sample before, in permille. */
struct sim_device_sample {
	uint64_t tick;
	uint16_t sm, mem, enc, dec;
};

/* What holds the clocks down besides power, heat and the brake: only faults do. */
enum sim_hold {
	SIM_HOLD_SYNC_BOOST,
	SIM_HOLD_BOARD,
	SIM_HOLD_LOW_UTIL,
	SIM_HOLD_RELIABILITY,
	SIM_HOLD_COUNT
};

struct sim_ci {
	bool used;
	uint32_t id, profile_index, slices;
	uint32_t start; /* compute slice within the GPU instance */
	uint32_t generation;
	char uuid[SIM_UUID_MAX]; /* "MIG-51ce51ce-..." */
};

struct sim_gi {
	bool used;
	uint32_t id;
	uint32_t profile; /* row of the model's table, not the NVML index */
	uint32_t start;	  /* memory slice */
	uint32_t generation;
	struct sim_ci ci[SIM_CI_MAX];
};

enum sim_health {
	SIM_GPU_OK,
	SIM_GPU_LOST,		/* every call: GPU_IS_LOST */
	SIM_GPU_RESET_REQUIRED, /* every call: RESET_REQUIRED */
	SIM_GPU_UNPLUGGED,	/* gone for whoever initialises the library from now on */
};

struct sim_ecc {
	uint64_t corrected_volatile, uncorrected_volatile;
	uint64_t corrected_aggregate, uncorrected_aggregate;
};

struct sim_gpu {
	/* identity */
	uint32_t model, minor;
	char uuid[SIM_UUID_MAX]; /* "GPU-51ce51ce-..." */
	char serial[32];
	uint32_t pci_domain, pci_bus, pci_device;
	int32_t numa_node;
	uint32_t irq;
	bool drives_display;
	struct sim_link link[SIM_LINK_MAX];

	/* settings */
	uint32_t power_limit_mw;
	uint32_t compute_mode;
	bool persistence, accounting;
	bool ecc_current, ecc_pending, mig_current, mig_pending;
	uint32_t mig_generation; /* counts every re-layout */
	struct sim_gi gi[SIM_GI_MAX];

	/* physics: the state that a tick changes */
	uint32_t util_permille, membw_permille, enc_permille, dec_permille, jpg_permille,
	    ofa_permille, tensor_permille;
	int64_t power_uw;	/* after the lag, microwatts, without noise */
	int64_t temperature_uc; /* micro degrees C */
	uint32_t sm_mhz, mem_mhz;
	uint32_t pstate, fan_permille;
	uint32_t idle_ticks;	   /* since the last work; saturates */
	uint32_t throttle_steps;   /* of 10 %, by temperature */
	uint64_t throttle_reasons; /* nvmlClocksEventReasons bits */
	uint64_t energy_uj;
	uint64_t pcie_tx_bytes, pcie_rx_bytes, nvlink_tx_bytes, nvlink_rx_bytes;
	uint64_t power_violation_ns, thermal_violation_ns, sw_thermal_ns, hw_thermal_ns, brake_ns;
	uint64_t gpm_busy_permille_ticks, gpm_tensor_permille_ticks, gpm_dram_permille_ticks;
	uint32_t pcie_gen, pcie_width;

	/* injected conditions */
	uint32_t health;   /* enum sim_health */
	int32_t ambient_c; /* INT32_MIN: the model's */
	bool fan_stuck, power_brake;
	bool loss_logged;	  /* the kernel log has its XID 79 */
	uint32_t recovery_action; /* field 230 */
	uint32_t last_xid;
	uint32_t resets; /* counts reset-gpu: since then its counters run */
	struct sim_ecc ecc;
	bool sram_threshold_exceeded;
	uint32_t remap_correctable, remap_uncorrectable;
	bool remap_pending, remap_failure;
	uint32_t retired_sbe, retired_dbe;
	bool retired_pending;
	uint64_t pcie_replays;
	uint32_t pcie_replays_per_tick_milli, pcie_replays_residue;
	uint64_t pcie_errors[12]; /* fields 173-183, 169 */
	uint32_t holds;		  /* bits of enum sim_hold */
	uint32_t reserved;
	uint64_t hold_ns[SIM_HOLD_COUNT];

	struct sim_process process[SIM_PROCESS_MAX];
	struct sim_sample sample[SIM_SAMPLE_MAX];		       /* ring */
	uint64_t sample_count;					       /* ever written */
	struct sim_device_sample device_sample[SIM_DEVICE_SAMPLE_MAX]; /* ring */
	uint64_t device_sample_count;
	/* since the last of them: permille ticks, and ticks */
	uint32_t since_sm, since_mem, since_enc, since_dec, since_ticks, reserved_ticks;
};

/* How a network adapter is right now: what was injected. All zero: it is well. */
struct sim_nic {
	uint32_t rate_gbit[SIM_NIC_PORT_MAX]; /* 0: the machine's nic_rate_gbit */
	uint32_t downed[SIM_NIC_PORT_MAX];    /* how often the cable was pulled */
	bool down[SIM_NIC_PORT_MAX];	      /* cable pulled */
	bool gone;			      /* no longer on the PCI bus */
	bool unbound;			      /* no driver: no interface, no RDMA device */
	bool no_node, wrong_node; /* its uverbs node is missing, or has another's numbers */
	uint8_t reserved[2];
};

/* What an NVML event carries. */
struct sim_event {
	uint64_t number; /* monotonic from 1; 0 while pending */
	uint64_t tick;
	uint64_t type; /* nvmlEventType bits */
	uint64_t data;
	uint32_t gpu;
	uint32_t gi, ci;
	bool silent; /* the driver "missed" it: kernel log only */
	uint8_t reserved[3];
};

/* A standing fault on a function of the library. */
enum sim_rule_kind { SIM_RULE_NONE, SIM_RULE_RETURN, SIM_RULE_SLOW, SIM_RULE_HANG };
struct sim_rule {
	uint32_t kind;	   /* enum sim_rule_kind */
	char function[80]; /* "nvmlDeviceGetUUID", without version suffix too; "any" */
	uint32_t gpu;	   /* index or SIM_WHOLE_GPU for every one */
	uint32_t result;   /* nvmlReturn_t, for RETURN */
	uint32_t delay_ms; /* for SLOW; for HANG 0 means until healed */
	uint32_t id;	   /* a hung call waits until its rule's id is gone */
	/* Each process lets `after` matching calls pass, then `count` (0: all) get the answer. */
	uint32_t after, count;
};

enum sim_quirk {
	SIM_QUIRK_PROCSIZE_100 = 1 << 0,
	SIM_QUIRK_PROCSIZE_4000 = 1 << 1,
	SIM_QUIRK_UTIL_OVER_100 = 1 << 2,
	SIM_QUIRK_OLDTS = 1 << 3,
	SIM_QUIRK_DEADPID = 1 << 4,
	SIM_QUIRK_MEMUNKNOWN = 1 << 5,
	SIM_QUIRK_NODATA = 1 << 6,
	SIM_QUIRK_SLOWPCIE = 1 << 7,
	SIM_QUIRK_V1ONLY = 1 << 8,
	SIM_QUIRK_TLIMIT = 1 << 9,
	SIM_QUIRK_NO_PERSISTENCE = 1 << 10,
	SIM_QUIRK_UNSORTED = 1 << 11,
};

enum sim_visibility { SIM_VISIBLE_ALL, SIM_VISIBLE_DEVNODES };
enum sim_clock { SIM_CLOCK_REAL, SIM_CLOCK_VIRTUAL };
enum sim_dev_style { SIM_DEV_NVIDIA, SIM_DEV_OPENABLE, SIM_DEV_FILE };
/* Where the driver's libraries lie in the trees. */
enum sim_layout { SIM_LAYOUT_DEBIAN, SIM_LAYOUT_RHEL };
/* Half-installed drivers, as people report them. */
enum sim_break {
	SIM_BREAK_UVM_MISSING = 1 << 0, /* no /dev/nvidia-uvm and -uvm-tools */
	SIM_BREAK_STALE_DRI = 1 << 1,	/* DRM names in /sys without a node in /dev */
	SIM_BREAK_WRONG_MINOR = 1 << 2, /* /dev/nvidiaN has another minor than /proc says */
	SIM_BREAK_MODE_0600 = 1 << 3,	/* nodes for root only */
};

/* Conditions of the whole driver. */
enum sim_driver_state {
	SIM_DRIVER_OK,
	SIM_DRIVER_NONE,	  /* Init: DRIVER_NOT_LOADED */
	SIM_DRIVER_NO_PERMISSION, /* Init: NO_PERMISSION */
	SIM_DRIVER_MISMATCH,	  /* Init: LIB_RM_VERSION_MISMATCH */
};

struct sim_machine {
	char profile[SIM_TEXT_MAX]; /* its name */
	char product[SIM_NAME_MAX]; /* DMI product name */
	char driver_version[32];
	char kernel_driver_version[32]; /* differs under SIM_DRIVER_MISMATCH */
	uint32_t cuda_version;		/* 13000 */
	uint32_t driver_state;		/* enum sim_driver_state */
	uint32_t driver_loads;		/* counts reload-driver: the boot mark */
	bool open_kernel_module;
	uint64_t seed;
	uint32_t clock;		/* enum sim_clock */
	uint32_t visibility;	/* enum sim_visibility */
	uint32_t dev_style;	/* enum sim_dev_style */
	uint32_t layout;	/* enum sim_layout */
	uint32_t breaks;	/* enum sim_break bits */
	uint32_t imex_channels; /* nodes of /dev/nvidia-caps-imex-channels; 0: no such directory */
	bool vgpu_guest;	/* config space has the vendor capability of a vGPU */
	uint32_t quirks;	/* enum sim_quirk bits */
	bool fabric;		/* cluster UUID and clique id are set */
	/* Two things about MIG that are not known of real drivers; peers must bear both. */
	bool mig_uuid_fresh;	 /* a re-created instance gets a new UUID, not its predecessor's */
	bool mig_gi_swapped;	 /* half-GPU instances: id 1 at slice 4 and id 2 at slice 0 */
	char root[SIM_PATH_MAX]; /* the trees; "" when there are none */
	char log[SIM_PATH_MAX];	 /* call log; "" when off */

	uint64_t tick;			     /* how far physics has been advanced */
	uint64_t generation;		     /* counts published changes */
	uint64_t last_event;		     /* number of the newest published event */
	uint64_t kmsg_seq;		     /* next kernel-log sequence number */
	uint64_t uevent_seq;		     /* number of the last uevent */
	uint32_t missed_xid[SIM_MISSED_MAX]; /* XIDs for which no NVML event comes; 0: none */
	uint32_t next_rule_id;

	/* topology level (NVML's: 10, 20, 30, 40, 50) of each pair; 0 on the diagonal */
	uint8_t level[SIM_GPU_MAX][SIM_GPU_MAX];
	bool asymmetric_links;
	uint32_t switch_count; /* NVSwitch functions in the PCI tree */
	uint32_t nic_count;    /* network adapters in the PCI tree */
	uint32_t numa_count;
	uint32_t cpus_per_node;

	uint32_t model_count;
	struct sim_model model[SIM_MODEL_MAX];
	uint32_t gpu_count;
	struct sim_gpu gpu[SIM_GPU_MAX];

	struct sim_rule rule[SIM_RULE_MAX];
	uint32_t pending_count;
	struct sim_event pending[SIM_PENDING_MAX];

	uint32_t nic_ports;	/* of each adapter */
	uint32_t nic_ethernet;	/* so many adapters, the last ones, speak Ethernet: RoCE */
	uint32_t nic_rate_gbit; /* of each port */
	bool rdma_exclusive;	/* the RDMA subsystem's network namespace mode */
	bool acs_redirects;	/* ports send traffic between devices to the root complex */
	bool iommu_translates;	/* its groups have the type DMA-FQ, not identity */
	uint8_t reserved;
	struct sim_nic nic[SIM_NIC_MAX]; /* by PCI address: nic[3] is mlx5_3 */
};

static inline const struct sim_model *sim_model_of(const struct sim_machine *machine,
						   const struct sim_gpu *gpu)
{
	return &machine->model[gpu->model];
}

#endif
