/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the agent tells a supervisor about one attempt: the job's spec and what was assigned to it.
 * Handed over as a sealed memfd, a Launch of proto/job.proto, so that the agent may die the moment
 * after. Pure.
 */
#ifndef SLUICE_JOB_LAUNCH_H
#define SLUICE_JOB_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job/cgroup/devguard.h"
#include "job/place.h"
#include "job/spec.h"
#include "job/token.h"

struct err;

enum launch_limits {
	LAUNCH_GRANTS_MAX = PLACE_UNIT_MAX,
	LAUNCH_SLOTS_MAX = TOKEN_SLOT_MAX + 1,
	LAUNCH_PATH_MAX = 4096,
	LAUNCH_WHY_MAX = 160,
	LAUNCH_ADAPTERS_MAX = 4096,
	LAUNCH_INSTANCE_MAX = 37, /* a UUID with its NUL */
	LAUNCH_CGROUP_MAX = 40,	  /* "job-", 20 digits, "-", 8 characters */
	LAUNCH_DENIED_MAX = DEVGUARD_RULES_MAX,
	LAUNCH_PARTS_MAX = LAUNCH_GRANTS_MAX + 1,
	LAUNCH_BYTES_MAX = SPEC_BYTES_MAX + (1 << 20),
};

/* Descriptors that a supervisor inherits, as it sees them. All others are closed. */
enum launch_fd {
	LAUNCH_FD_ERROR = 2,	 /* where it may complain before it has an output file */
	LAUNCH_FD_LOCK = 3,	 /* the job's lock, held (flock) */
	LAUNCH_FD_DIRECTORY = 4, /* the job's directory, O_PATH or O_RDONLY */
	LAUNCH_FD_LAUNCH = 5,	 /* the memfd */
	LAUNCH_FD_RULES = 6,	 /* the program of its `denied` rules; may be missing */
};

/* What a supervisor exits with. What it did lies in the job's files; this says why it did nothing
 * to whoever still watches it. */
enum launch_exit {
	LAUNCH_EXIT_DONE = 0,	  /* result.<n> is written */
	LAUNCH_EXIT_CLAIMED = 64, /* claim.<n> was there: somebody has started this attempt */
	LAUNCH_EXIT_BAD_LAUNCH,	  /* the launch cannot be read; no claim */
	LAUNCH_EXIT_NOT_READY,	  /* no output files, claim, socket: no claim; try again later */
	LAUNCH_EXIT_TOKENS_BUSY = 75, /* no claim */
};

struct launch_grant {
	char uuid[GPU_UUID_MAX];
	char label[PLACE_LABEL_MAX];
	uint32_t index;
	uint32_t slot_count;			      /* of the device */
	uint64_t slots[(LAUNCH_SLOTS_MAX + 63) / 64]; /* bit set: granted */
};

/* Where its workers have GPUs of their own: what one of them, or the launcher, may not use. */
struct launch_part {
	struct devguard_rule *denied; /* owned */
	size_t denied_count;
};

struct launch {
	uint64_t id;
	uint32_t attempt;
	/* SLUICE_JOB_INSTANCE of every process of the attempt: random, made by the agent and stored
	 * with the start, so that what is left of a lost supervisor can be found without a claim.
	 */
	char instance[LAUNCH_INSTANCE_MAX];
	struct launch_grant *grants; /* owned */
	size_t grant_count;
	char runtime_dir[LAUNCH_PATH_MAX]; /* for the tokens' locks; "": sockets alone */
	char sim_state[LAUNCH_PATH_MAX];   /* of a simulated machine; "": a real one */
	/* A cgroup2 directory, where job-ID-INSTANCE is made; "": no cgroup. The claim has its
	 * path. */
	char cgroup_root[LAUNCH_PATH_MAX];

	uint64_t array_id; /* of which it is a member: 0: none */
	uint32_t array_index;
	bool keeps_order;   /* of what it writes into both outputs */
	uint64_t log_bytes; /* of stdout and of stderr that are kept; 0: all, and not relayed */

	/* RDMA adapters that it got: "mlx5_0,mlx5_1"; "": none. */
	char adapters[LAUNCH_ADAPTERS_MAX];
	bool adapters_simulated;

	/* It gets copies of its own of the GPU nodes below "<this>/dev": others are closed to it.
	 * "": it uses those that are there. */
	char own_nodes[LAUNCH_PATH_MAX];
	char rsh[LAUNCH_PATH_MAX]; /* path of sluice-rsh, for a job with workers; "" */

	char container[LAUNCH_PATH_MAX]; /* path of sluice-container; "": it was not found */
	/* What keeps it to its devices. */
	bool own_pids;			   /* it may have a PID namespace of its own */
	uint32_t minimum_isolation;	   /* enum isolation; 0: it may be anything */
	char device_root[LAUNCH_PATH_MAX]; /* where a simulated machine's /dev is; "": none */
	struct devguard_rule *denied;	   /* owned; nodes that the job may not use */
	size_t denied_count;
	char denied_why[LAUNCH_WHY_MAX]; /* why they are not known; "" */
	/* Of the grants, in their order, as many at a time as a worker has; and as the last one of
	 * whoever has none. Each with all of `denied`. None: it has no workers, or no GPUs. */
	struct launch_part *parts; /* owned */
	size_t part_count;
	struct spec spec;
};

void launch_init(struct launch *launch);
void launch_done(struct launch *launch);
#define _cleanup_launch_ __attribute__((cleanup(launch_done)))

bool launch_grant_has(const struct launch_grant *grant, uint32_t slot);
void launch_grant_add(struct launch_grant *grant, uint32_t slot); /* below LAUNCH_SLOTS_MAX */

/* The name of an attempt's cgroup below cgroup_root. Other agents may have the same root and a job
 * of the same number, so a part of the instance is in it. */
void launch_cgroup_name(uint64_t id, const char *instance, char out[LAUNCH_CGROUP_MAX]);

/* -E2BIG, -ENOMEM. */
int launch_format(const struct launch *launch, char **out_bytes, size_t *out_length,
		  struct err *err);
/* `out` is initialised here; each grant has at least one slot, all below slot_count. -EINVAL names
 * what is wrong, -ENOMEM. Pure; takes anything. */
int launch_parse(const char *bytes, size_t length, struct launch *out, struct err *err);

#endif
