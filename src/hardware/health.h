/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a GPU is: healthy, degraded or unhealthy, why, and what to do. A pure engine: it is fed with
 * samples and events and judges; the same feed gives the same verdict. It reads no clock, file or
 * driver, so metrics, page, commands and the kubelet all show what it says.
 */
#ifndef SLUICE_HARDWARE_HEALTH_H
#define SLUICE_HARDWARE_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include "hardware/health_policy.h"
#include "hardware/snapshot.h"

enum health_limits {
	HEALTH_EVENT_MAX = 32,	/* XIDs that are remembered per GPU; the gravest are kept */
	HEALTH_REASON_MAX = 12, /* reasons of one verdict */
	HEALTH_TEXT_MAX = 192,
	HEALTH_GOOD_SAMPLES = 3, /* in a row, before what can end by itself is over */
};

enum health_state { HEALTH_UNKNOWN, HEALTH_HEALTHY, HEALTH_DEGRADED, HEALTH_UNHEALTHY };

/* Stable names for JSON, metrics and tests: health_cause_to_string(). */
enum health_cause {
	HEALTH_NO_SAMPLE,
	HEALTH_LOST,
	HEALTH_RESET_REQUIRED,
	HEALTH_HUNG,
	HEALTH_DRIVER_ERROR,
	HEALTH_RECOVERY_ACTION, /* the driver itself asks for one */
	HEALTH_XID,
	HEALTH_REPEATED_XID,
	HEALTH_REMAP_FAILURE,
	HEALTH_REMAP_PENDING,
	HEALTH_RETIRE_PENDING,
	HEALTH_ECC_UNCORRECTED,
	HEALTH_PCIE_LINK,
	HEALTH_PCIE_REPLAYS,
	HEALTH_TEMPERATURE,
	HEALTH_THROTTLED,
	HEALTH_MODE_PENDING,
	HEALTH_NVLINK_DOWN,
	HEALTH_CAUSE_COUNT,
};

struct health_event {
	uint64_t time_ns; /* any clock, the same for all feeds of one track */
	uint32_t xid;
	uint32_t gi, ci;	  /* or SNAPSHOT_WHOLE_GPU */
	uint32_t pid;		  /* or SNAPSHOT_U32_ABSENT */
	bool has_severity, fatal; /* NVLink 5 */
	uint32_t recovery_action; /* of XID 154, or SNAPSHOT_U32_ABSENT */
	bool reset_seen;	  /* the GPU was reset after it */
};

/* One that only grows while the driver is loaded. */
struct health_counter {
	bool is_known;
	int64_t value; /* the last that was told */
};

/* What is remembered of one GPU. All zero is a new one. Plain data: it may be stored. */
struct health_track {
	bool sampled;
	uint64_t first_ns, last_ns;	   /* of the samples */
	struct snapshot_gpu now;	   /* the newest sample */
	struct health_counter ecc, energy; /* volatile uncorrected errors; mJ */
	/* volatile uncorrected errors when watching began, or since the last reset */
	bool has_ecc_base;
	int64_t ecc_base;
	bool has_replays;
	int64_t replays_base;
	uint64_t replays_base_ns;
	double replays_per_minute;
	uint64_t hot_since_ns; /* 0: not hot */
	uint64_t throttled_ns, watched_ns;
	uint64_t reset_ns; /* when a reset was last seen; 0 never */
	bool has_link_errors;
	int64_t link_errors_at_74;
	uint32_t recovery_from_log; /* XID 154; 0 none */
	/* What makes it unhealthy by itself and was seen, bit N for enum health_cause N: until
	 * enough good samples came, or until a person clears it. */
	uint32_t held;
	uint32_t held_action;		 /* of HEALTH_RECOVERY_ACTION */
	char held_text[HEALTH_TEXT_MAX]; /* of a state that was not ok */
	bool remap_accepted;		 /* cleared while the GPU still tells of the failure */
	uint32_t good_samples;		 /* in a row since the last bad one or the last reset */
	uint64_t good_ns;		 /* when the last of them was counted */
	uint32_t event_count;		 /* in `event` */
	uint64_t event_total;
	struct health_event event[HEALTH_EVENT_MAX];
};

struct health_reason {
	uint32_t cause;	 /* enum health_cause */
	uint32_t state;	 /* what it alone makes of the GPU */
	uint32_t xid;	 /* for HEALTH_XID, HEALTH_REPEATED_XID */
	uint32_t gi, ci; /* the MIG instance that it is about, or SNAPSHOT_WHOLE_GPU */
	char text[HEALTH_TEXT_MAX];
	char advice[HEALTH_TEXT_MAX];
};

struct health_verdict {
	uint32_t state; /* enum health_state: the worst of the reasons */
	uint32_t reason_count;
	struct health_reason reason[HEALTH_REASON_MAX]; /* gravest first */
};

/*
 * Takes a sample at `time_ns`. A counter that fell (volatile ECC, energy) is a reset. Good is a
 * sample of a GPU that answers and asks for no recovery; it counts when the last one that counted
 * is policy->poll_ns old. After HEALTH_GOOD_SAMPLES of them what could not be asked is well again,
 * and so are errors that needed a reset and have seen one. `policy` may be NULL, as in all of
 * these.
 */
void health_sample(struct health_track *track, const struct snapshot_gpu *gpu, uint64_t time_ns,
		   const struct health_policy *policy);
/* Takes an XID. */
void health_event(struct health_track *track, const struct health_event *event,
		  const struct health_policy *policy);
/* The GPU was reset, or its driver loaded anew: seen by other means than a counter. */
void health_reset(struct health_track *track, const struct health_policy *policy, uint64_t time_ns);
/* The machine was started again since. */
void health_reboot(struct health_track *track, const struct health_policy *policy,
		   uint64_t time_ns);
/* A person says that it is well: everything that is held against it is forgotten. What the next
 * sample tells anew counts anew, but for a failed remapping, which the GPU tells for ever. */
void health_clear(struct health_track *track, uint64_t time_ns);
/*
 * Judges at `now_ns`. `once`: there is one sample only, so that a condition which would have to
 * last (heat, throttling) is judged by the instant.
 */
void health_judge(const struct health_track *track, const struct health_policy *policy,
		  uint64_t now_ns, bool once, struct health_verdict *out);
/*
 * Judges one device of the GPU: a MIG instance, or with SNAPSHOT_WHOLE_GPU the GPU as a whole. An
 * XID that names an instance concerns that one only; one that names none, and everything that only
 * a restart of the machine cures, concerns every device of the GPU. The texts carry no times, so
 * that they stay equal while nothing happens.
 */
void health_judge_device(const struct health_track *track, const struct health_policy *policy,
			 uint64_t now_ns, uint32_t gi, uint32_t ci, struct health_verdict *out);

/* PCIe replays per minute that a link may have: bit error rate 1e-12, as DCGM allows. */
uint32_t health_replay_budget(uint32_t pcie_gen, uint32_t pcie_width);

/* "unknown", "healthy", "degraded", "unhealthy". */
const char *health_state_to_string(uint32_t state);
/* "lost", "xid", "remap-failure", ... */
const char *health_cause_to_string(uint32_t cause);
/* The cause of that word, or -EINVAL. */
int health_cause_from_string(const char *word);
/* "none", "reset the GPU", ... of field 230. */
const char *health_recovery_to_string(uint32_t action);

#endif
