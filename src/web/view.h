/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that `sluice web` may know, as plain data in shared memory: the agent writes it, the
 * unprivileged process reads it and nothing else. The snapshot of the GPUs, and beside it what only
 * the agent knows: verdicts, holders, jobs, events, adapters, and how it is to be shown.
 *
 * Texts come from outside (names of pods, jobs, processes): UTF-8 or not, with any byte but NUL.
 * Whoever prints one escapes it. A text or list that is too long is cut, and the *_lost counters
 * say so.
 */
#ifndef SLUICE_WEB_VIEW_H
#define SLUICE_WEB_VIEW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "hardware/snapshot.h"

enum view_limits {
	VIEW_NAME_MAX = 254, /* what Kubernetes allows, and NUL */
	VIEW_WORD_MAX = 64,
	VIEW_TEXT_MAX = 256,
	VIEW_TOKEN_MAX = 512,
	VIEW_HOST_MAX = 16,
	VIEW_REASON_MAX = 4,	/* of one GPU's verdict; the gravest */
	VIEW_XID_MAX = 256,	/* pairs of GPU (or MIG instance) and code */
	VIEW_HOLDER_MAX = 2000, /* pairs of container (or job) and device */
	VIEW_PROCESS_MAX = 1024,
	VIEW_JOB_MAX = 256,
	VIEW_EVENT_MAX = 256,
	VIEW_ADAPTER_MAX = 64,
	VIEW_RESOURCE_MAX = 64,
};

/* A newest sample of any GPU that is older than this is not how it is now. */
#define VIEW_STALE_NS UINT64_C(5000000000)

/* --- settings: what the configuration says of metrics and page
 * -------------------------------------- */

enum view_set { VIEW_SET_ALL, VIEW_SET_NATIVE, VIEW_SET_DCGM };
enum view_dcgm { VIEW_DCGM_OLD, VIEW_DCGM_NEW, VIEW_DCGM_OFF }; /* which of DCGM's names */

struct view_settings {
	uint32_t set;	       /* enum view_set: what /metrics gives when it is not asked for one */
	uint32_t dcgm;	       /* enum view_dcgm */
	bool dcgm_split;       /* DCGM series of a shared GPU per container */
	bool container_energy; /* estimated */
	bool has_token;	       /* without the right one every answer is 401 */
	bool token_broken;     /* the file cannot be read: no token is the right one */
	char token[VIEW_TOKEN_MAX]; /* "" unless has_token */
	/* Beside loopback names and addresses and the machine's name: what Host may be; "*":
	 * anything */
	uint32_t host_count;
	char host[VIEW_HOST_MAX][VIEW_NAME_MAX];
};

/* --- the machine ------------------------------------------------------------------------------ */

enum { VIEW_READY_COUNT = 7 }; /* what other programs of a node may wait for */
/* "driver", "toolkit", "plugin", "nvidia-peermem", "gdrcopy", "nvidia-fs", "mofed": 0..6. */
const char *view_ready_to_string(uint32_t what);

struct view_node {
	char host[VIEW_NAME_MAX];    /* as DCGM's label Hostname has it: Kubernetes' node, else the
					host */
	char version[VIEW_WORD_MAX]; /* ours */
	char problem[VIEW_TEXT_MAX]; /* why no GPU is handed out; "" */
	char config_error[VIEW_TEXT_MAX];  /* why the configuration file is not in force; "" */
	char kubelet_error[VIEW_TEXT_MAX]; /* why it is not known which pod holds what; "" */
	char injection[VIEW_WORD_MAX];	   /* "cdi", "envvar", "none", "" without a kubelet */
	bool simulated, has_kubelet, has_queue, ready;
	uint32_t ready_known, ready_of; /* bit N: view_ready_to_string(N) is known, and is so */
	int64_t started_unix_ns;
	uint64_t started_ns;	 /* CLOCK_MONOTONIC */
	uint64_t boot_unix_s;	 /* when the machine started */
	uint64_t sample_ns;	 /* CLOCK_MONOTONIC of the last good sample of any GPU; 0: none */
	int64_t sample_unix_ns;	 /* the same, CLOCK_REALTIME */
	uint64_t probe_restarts; /* since the agent began */
	uint64_t reloads, reloads_failed;
	uint64_t unattributed;	  /* processes on GPUs that no pod's request and no job explains:
				     of holders that are not `allocated`, or of none */
	uint64_t holders_lost;	  /* pairs of holder and device without room now ... */
	uint64_t holders_dropped; /* ... and that ever came to be without, since the agent began */
	uint64_t pods_errors;	  /* questions to the kubelet that failed */
	uint64_t kmsg_overruns;	  /* records of the kernel log that were overwritten unread */
	uint64_t cpu_ns, rss_bytes; /* of the agent and its probe */
	uint64_t open_fds;
};

/* --- one entry per GPU, in the order of snapshot.gpu ------------------------------------------ */

enum view_health { VIEW_UNKNOWN, VIEW_HEALTHY, VIEW_DEGRADED, VIEW_UNHEALTHY };

struct view_reason {
	char cause[VIEW_WORD_MAX]; /* health_cause_to_string() */
	char text[192], advice[192];
	uint32_t health; /* what it alone makes of the GPU */
	uint32_t xid;	 /* 0: none */
};

struct view_gpu {
	char serial[SNAPSHOT_SHORT_MAX], vbios[SNAPSHOT_SHORT_MAX];
	char architecture[SNAPSHOT_SHORT_MAX];
	char mode[SNAPSHOT_SHORT_MAX]; /* "exclusive", "timeslice", "mps", "mig" */
	char door[SNAPSHOT_SHORT_MAX]; /* "kubelet", "queue", "" */
	bool drained, reserved;	       /* now, for jobs of the queue */
	char claim[VIEW_TEXT_MAX]; /* "drained: the fan", "reserved (talk) for alice, ..."; "" */
	int32_t numa_node;	   /* -1: none */
	uint32_t health;	   /* enum view_health */
	uint32_t reason_count;
	struct view_reason reason[VIEW_REASON_MAX];
	bool energy_estimated; /* the driver does not count it; power was integrated */
	/* PCIe replays a minute that the link may have (bit error rate 1e-12); 0: not known */
	uint32_t replay_limit_per_minute;
	/* Counters that the agent carries on over a new probe; SNAPSHOT_U64_ABSENT: not known */
	uint64_t busy_ns;
	uint64_t energy_mj;
	uint64_t throttle_ns[9]; /* view_throttle_to_string() */
};
/* "power", "thermal", "sync_boost", "board", "low_util", "reliability", "sw_thermal", "hw_thermal",
 * "hw_power_brake": 0..8. */
const char *view_throttle_to_string(uint32_t reason);

/* --- lists ------------------------------------------------------------------------------------ */

struct view_xid {
	uint32_t gpu;	 /* place in the snapshot */
	uint32_t gi, ci; /* or SNAPSHOT_WHOLE_GPU */
	uint32_t xid;
	char class_[16];	  /* xid_class_to_string() */
	char text[VIEW_WORD_MAX]; /* xid_name(); "" */
	uint64_t count;		  /* since the agent began */
	int64_t last_unix_ns;
};

enum view_mode { VIEW_EXCLUSIVE, VIEW_TIMESLICE, VIEW_MPS, VIEW_MIG };

/* A container or job and one device that it was given, or that it uses without having been. */
struct view_holder {
	uint32_t gpu;	     /* place in the snapshot */
	uint32_t mig;	     /* place in snapshot.gpu[gpu].mig, or SNAPSHOT_U32_ABSENT */
	uint32_t mode;	     /* enum view_mode */
	uint32_t slot;	     /* replica, the lowest one; SNAPSHOT_U32_ABSENT: the whole device */
	uint32_t slot_count; /* replicas that it has of this device; 0: the whole device. One entry
				for all of them */
	bool allocated;	     /* false: its processes are there, and nobody gave it the device */
	char name_space[VIEW_WORD_MAX], pod[VIEW_NAME_MAX],
	    container[VIEW_WORD_MAX]; /* "" for jobs */
	char resource[VIEW_NAME_MAX]; /* "nvidia.com/gpu"; "" for jobs */
	char id[13];		      /* of a container that no pod explains: its first 12 digits */
	char runtime[16];	      /* "podman", "docker", "slurm" ...; "" */
	uint64_t job;		      /* 0: none of ours */
	char job_name[VIEW_WORD_MAX], user[VIEW_WORD_MAX];
	int64_t since_unix_ns; /* 0: not known */
	uint32_t processes;
	bool has_busy;	       /* its activity can be told from its neighbours' */
	uint64_t busy_ns;      /* since it came */
	uint64_t memory_bytes; /* or SNAPSHOT_U64_ABSENT */
	uint64_t energy_mj;    /* its share of the device's; an estimate; or absent */
};

struct view_process {
	uint32_t gpu, mig;     /* as above */
	uint32_t pid, type;    /* type: enum snapshot_process_type bits */
	uint32_t uid;	       /* or SNAPSHOT_U32_ABSENT: nobody could look */
	uint32_t util_sm;      /* percent, or SNAPSHOT_U32_ABSENT */
	uint32_t holder;       /* place in view.holder, or SNAPSHOT_U32_ABSENT: unattributed */
	uint64_t memory_bytes; /* or SNAPSHOT_U64_ABSENT */
	char name[VIEW_WORD_MAX];
	char user[VIEW_WORD_MAX]; /* the name of `uid`; "": not known */
};

struct view_job {
	uint64_t id;
	uint32_t uid;
	char name[VIEW_WORD_MAX], user[VIEW_WORD_MAX];
	char state[16];				    /* job_state_to_string() */
	char reason[VIEW_TEXT_MAX];		    /* why it waits, or how it ended */
	int64_t submitted_unix_ns, started_unix_ns; /* 0: not yet */
	uint32_t gpus;				    /* that it wants or has */
};

struct view_event {
	uint64_t id; /* counts up from 1 */
	int64_t unix_ns;
	char kind[VIEW_WORD_MAX];     /* "xid", "health", "driver", "gpu", "adapter" */
	char source[16];	      /* "nvml", "kmsg", "poll" */
	uint32_t health;	      /* how grave: enum view_health */
	uint32_t xid;		      /* 0: none */
	char uuid[SNAPSHOT_TEXT_MAX]; /* of the GPU; "" */
	char text[VIEW_TEXT_MAX], advice[VIEW_TEXT_MAX];
};

enum { VIEW_COUNTER_MAX = 9 }; /* by enum rdma_counter of hardware/rdma_counters.h */

struct view_adapter {		      /* a port of an RDMA adapter */
	char name[VIEW_WORD_MAX];     /* "mlx5_0" */
	char net[VIEW_WORD_MAX];      /* its interface; "" */
	char resource[VIEW_NAME_MAX]; /* "rdma/hca"; "" */
	char layer[16];		      /* "InfiniBand", "Ethernet" */
	char state[SNAPSHOT_SHORT_MAX];
	uint32_t port;
	uint32_t health;
	uint64_t rate_bits; /* per second; 0: not known */
	uint64_t counter[VIEW_COUNTER_MAX];
	uint32_t counters_known; /* bit N: counter N is known */
	char reason[VIEW_TEXT_MAX];
};

struct view_resource { /* what a door hands out */
	char name[VIEW_NAME_MAX];
	uint64_t units, healthy, allocated;
	bool is_of_kubelet; /* else of the own queue, which has none of the next three */
	uint64_t allocations, refused;
	bool registered;
};

/* --- all of it -------------------------------------------------------------------------------- */

#define VIEW_MAGIC   UINT32_C(0x534c5657) /* "SLVW" */
#define VIEW_VERSION 1

struct view {
	uint32_t magic, version;
	uint64_t size; /* sizeof(struct view) of whoever wrote it */
	struct view_settings settings;
	struct view_node node;
	struct snapshot snapshot; /* gpu_count 0 and driver_text without a driver */
	struct view_gpu gpu[SNAPSHOT_GPU_MAX];
	uint32_t xid_count, holder_count, process_count, job_count, event_count, adapter_count,
	    resource_count, reserved;
	uint64_t jobs_pending, jobs_running, jobs_ended; /* all of them */
	struct view_xid xid[VIEW_XID_MAX];
	struct view_event event[VIEW_EVENT_MAX]; /* oldest first */
	struct view_adapter adapter[VIEW_ADAPTER_MAX];
	struct view_resource resource[VIEW_RESOURCE_MAX];
	struct view_job job[VIEW_JOB_MAX];
	struct view_process process[VIEW_PROCESS_MAX];
	struct view_holder holder[VIEW_HOLDER_MAX];
};

/* What stands in front of a view that this build made: to one that is all zero, and valid then. */
void view_init(struct view *view);
/* Checks what another process wrote: magic, sizes, counts, texts that end, places that exist. */
bool view_is_valid(const struct view *view);

/* Whether this process computes, and nobody who was given the device explains it: not a job, not a
 * container. */
bool view_is_outside(const struct view *view, const struct view_process *process);
/* How many processes compute on this GPU, or on this instance of it (SNAPSHOT_U32_ABSENT: anywhere
 * on it), that no holder explains: it is in use, although nobody was given it. */
uint32_t view_strangers(const struct view *view, uint32_t gpu, uint32_t mig);

/* --- shared memory: one writer, readers that never stop it -------------------------------------
 */

struct view_shared {
	_Atomic uint64_t sequence; /* odd while it is written */
	struct view view;
};

/* Writer. Between the two nobody's copy is good. */
void view_begin(struct view_shared *shared);
void view_end(struct view_shared *shared);
/*
 * Copies what is used of it. False: it was being written each time, or is not valid; `*out` may be
 * anything then, so copy into a spare one. `*out_sequence` tells whether anything is new.
 */
bool view_copy(const struct view_shared *shared, struct view *out, uint64_t *out_sequence);

#endif
