/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The side of the probe that everybody else sees: starts `sluice probe`, reads what it sends, and
 * replaces it when the driver does not answer. Whoever uses this never loads NVML and never waits
 * for a driver: a call that takes longer than the limit costs one probe process and marks one GPU
 * as hung, and everything else goes on.
 *
 * One client belongs to one thread. For an event loop: watch probe_client_fd() for reading and
 * call probe_client_next() until it returns 0.
 */
#ifndef SLUICE_PROBE_CLIENT_H
#define SLUICE_PROBE_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "hardware/gpu.h"

struct err;
struct probe_client;
struct snapshot;

#define PROBE_CALL_TIMEOUT_NS UINT64_C(10000000000) /* a driver call that takes longer is hung */
#define PROBE_INIT_TIMEOUT_NS                                                                      \
	UINT64_C(60000000000) /* nvmlInit takes 1-2 s per GPU without persistence mode */
#define PROBE_RETRY_NS	UINT64_C(60000000000)
#define PROBE_PERIOD_NS UINT64_C(1000000000)

enum probe_limits {
	PROBE_EVENT_TEXT_MAX = 192,
	PROBE_ABANDONED_MAX = 16, /* probes left behind that cannot be killed; then no new ones */
};

struct probe_options {
	const char *program;	  /* the sluice binary; NULL: the running one */
	int program_fd;		  /* > 0: that binary as an open file instead; borrowed */
	uint64_t call_timeout_ns; /* 0: PROBE_CALL_TIMEOUT_NS */
	uint64_t init_timeout_ns; /* 0: PROBE_INIT_TIMEOUT_NS */
	uint64_t retry_ns;	  /* until a hung GPU is tried again; doubles; 0: PROBE_RETRY_NS */
	uint64_t period_ns;	  /* between fast samples; 0: PROBE_PERIOD_NS */
	bool kernel_log;	  /* report XIDs from the kernel log, those since boot as history */
	bool once;		  /* one inventory and one snapshot, then the probe ends */
	/* How a probe is killed; NULL: kill(2). A test puts a function here that does nothing,
	 * which is what a process in uninterruptible sleep looks like. */
	int (*kill_fn)(pid_t pid, int signal_number);
};

enum probe_event_kind {
	PROBE_EVENT_INVENTORY,	    /* there is a (new) inventory: probe_client_inventory() */
	PROBE_EVENT_SNAPSHOT,	    /* there is a new snapshot: probe_client_snapshot() */
	PROBE_EVENT_GPU_ADDED,	    /* uuid */
	PROBE_EVENT_GPU_REMOVED,    /* uuid */
	PROBE_EVENT_GPU_STATE,	    /* uuid; data = enum gpu_state; text = reason */
	PROBE_EVENT_MIG_CHANGED,    /* uuid of the GPU whose MIG devices changed */
	PROBE_EVENT_DRIVER_RESTART, /* the driver was loaded anew */
	PROBE_EVENT_DRIVER_DOWN,    /* no usable driver; data = -errno, text = why */
	PROBE_EVENT_XID, /* uuid or bus; data = code; gi, ci; source says NVML or kernel log */
	PROBE_EVENT_XID_AGAIN, /* the XID before by the other way: as above, and no second error */
	PROBE_EVENT_NVML,      /* another NVML event; type = its bit, data = its data */
	PROBE_EVENT_HUNG,      /* uuid ("" when no GPU can be blamed); text = function and time */
	PROBE_EVENT_REPLACED,  /* a new probe was started; text = why */
	PROBE_EVENT_NO_LOG,    /* the kernel log cannot be read; text = why */
	PROBE_EVENT_GPU_RESET, /* uuid: its counters fell, it was reset */
	PROBE_EVENT_ENDED,     /* `once` and the probe has ended as it should */
	PROBE_EVENT_KIND_COUNT,
};

enum probe_source { PROBE_SOURCE_NVML, PROBE_SOURCE_KMSG, PROBE_SOURCE_PROBE };

struct probe_event {
	uint32_t kind;	 /* enum probe_event_kind */
	uint32_t source; /* enum probe_source */
	uint64_t type;	 /* nvmlEventType bit */
	uint64_t data;
	uint32_t gi, ci;   /* UINT32_MAX: the whole GPU */
	uint32_t pid;	   /* the process that the kernel log blames; UINT32_MAX: none named */
	uint32_t history;  /* 1: from the kernel log, older than the client */
	uint32_t severity; /* of NVLink errors: 0 not told, 1 nonfatal, 2 fatal */
	uint32_t recovery_action; /* of XID 154; UINT32_MAX: none named */
	uint64_t kmsg_sequence;	  /* of the kernel log's record; UINT64_MAX: none */
	uint64_t time_ns;	  /* CLOCK_MONOTONIC */
	char uuid[GPU_UUID_MAX];
	char bus[PCI_TEXT_MAX]; /* "0000:07:00.0" or "" */
	char text[PROBE_EVENT_TEXT_MAX];
};

/* Starts a probe. `*out` is owned by the caller. -ENOENT, -ENOMEM, ... when it cannot be started;
 * that there is no driver is no such error but an event. */
int probe_client_start(const struct probe_options *options, struct probe_client **out,
		       struct err *err);
/* Ends the probe, whatever state it is in, without waiting for the driver. NULL is fine. */
struct probe_client *probe_client_stop(struct probe_client *client);
#define _cleanup_probe_client_ __attribute__((cleanup(probe_client_stop_p)))
void probe_client_stop_p(struct probe_client **client);

/*
 * Lets go of the driver: the probe ends and none is started, until it is called with false. What is
 * known stays, and where the kernel log was read. probe_client_is_gone(): whether it and all before
 * it have ended; one that hangs in the driver has not, and holds it.
 */
void probe_client_release(struct probe_client *client, bool released);
bool probe_client_is_gone(struct probe_client *client);

/* One descriptor for the client's whole life; readable when probe_client_next() has work to do. */
int probe_client_fd(const struct probe_client *client);
/* The next event: 1 and `out`, 0 when there is none now, or -errno when no probe can be kept
 * running any more. Never blocks. */
int probe_client_next(struct probe_client *client, struct probe_event *out, struct err *err);
/* The same, waiting at most `timeout_ns`. */
int probe_client_wait(struct probe_client *client, uint64_t timeout_ns, struct probe_event *out,
		      struct err *err);

/* The newest of each; NULL until there is one. Borrowed: valid until the next call of
 * probe_client_next(). Hung GPUs are in both, marked so, with what is known of them. */
const struct inventory *probe_client_inventory(const struct probe_client *client);
const struct snapshot *probe_client_snapshot(const struct probe_client *client);
/* Probes that were given up because a call did not come back, and how many of them still exist. */
uint32_t probe_client_abandoned(const struct probe_client *client, uint32_t *out_alive);
/* The process id of the present probe, or -1. */
pid_t probe_client_pid(const struct probe_client *client);

/*
 * For commands: starts a probe, takes one inventory and one snapshot, ends it. Returns within
 * `deadline_ns`, also when the driver hangs: GPUs that did not answer are in both, marked hung.
 * `out_snapshot` (owned by the caller, free()) may be NULL.
 *
 * Errors, all with a text that says what to do next: -ENODEV no driver installed or loaded (exit
 * 69), -ELIBBAD driver half installed or of two versions (69), -EACCES no permission (77),
 * -ETIMEDOUT the driver as a whole did not answer in time (124).
 */
int probe_collect(const struct probe_options *options, uint64_t deadline_ns,
		  struct inventory *out_inventory, struct snapshot **out_snapshot, struct err *err);
/* The same, and shows every event on the way to `on_event`: XIDs of the kernel log, hangs. */
int probe_collect_events(const struct probe_options *options, uint64_t deadline_ns,
			 struct inventory *out_inventory, struct snapshot **out_snapshot,
			 void (*on_event)(const struct probe_event *event, void *context),
			 void *context, struct err *err);
/* The documented exit code for an error of probe_collect(). */
int probe_exit_code(int error);

const char *probe_event_kind_to_string(uint32_t kind);

#endif
