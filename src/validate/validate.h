/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a machine, or what of it somebody was given, is fit for work: real work on each GPU, its
 * links, and what is around it, in three levels. Every check that talks to a driver runs in a
 * process of its own: one that crashes, hangs or loses its GPU is a FAIL, and the next one follows.
 * Called by `sluice validate` and by the verbs of `sluice bench gpu`. Knows nothing of NVML: it is
 * told.
 */
#ifndef SLUICE_VALIDATE_VALIDATE_H
#define SLUICE_VALIDATE_VALIDATE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench/checks.h"
#include "bench/gpu/driver.h"
#include "hardware/gpu.h"
#include "hardware/snapshot.h"

struct err;

enum validate_limits {
	VALIDATE_XIDS_MAX = 512, /* that one look keeps */
	VALIDATE_LEVEL_MAX = 3,
};
#define VALIDATE_TIMEOUT_NS UINT64_C(60000000000)
#define VALIDATE_STRESS_NS  UINT64_C(300000000000)
#define VALIDATE_FILL	    0.9

enum validate_what {
	VALIDATE_DRIVER,
	VALIDATE_COUNT, /* only with a number to expect */
	VALIDATE_ISOLATION,
	VALIDATE_SETTINGS,
	VALIDATE_VECTORADD,
	VALIDATE_BANDWIDTH, /* from here on level 2 */
	VALIDATE_P2P,
	VALIDATE_SHM,
	VALIDATE_MEMLOCK,
	VALIDATE_COLLECTIVES,
	VALIDATE_TRANSPORT,
	VALIDATE_STRESS, /* from here on level 3 */
	VALIDATE_TRAIN,
	VALIDATE_METRICS,
	VALIDATE_ECC,
	VALIDATE_XID,
	VALIDATE_WHAT_COUNT,
};
/* "vectoradd": as in checks[].name. */
const char *validate_what_to_string(enum validate_what what);
/* -EINVAL: there is no such check. */
int validate_what_parse(const char *text, enum validate_what *out);
uint32_t validate_level_of(enum validate_what what);
/* One bit for each check of the level and of those below. */
uint32_t validate_mask(uint32_t level);

struct validate_xid {
	char uuid[GPU_UUID_MAX]; /* "" when only the address is known */
	char bus[PCI_TEXT_MAX];
	uint64_t code, time_ns;
};

/* What the management library and the kernel log say. */
struct validate_state {
	struct inventory inventory; /* owned */
	struct snapshot *snapshot;  /* owned */
	struct validate_xid xids[VALIDATE_XIDS_MAX];
	uint32_t xid_count;
	bool has_log; /* the kernel log could be read */
};
void validate_state_init(struct validate_state *state);
void validate_state_done(struct validate_state *state);

struct validate_plan {
	uint32_t mask;	  /* bits of enum validate_what */
	const char *gpus; /* "0,1", "GPU-1234"; NULL: all that are in sight */
	bool has_expect;
	uint32_t expect;
	uint64_t timeout_ns; /* that a check may be silent */
	uint64_t stress_ns;
	double fill;	     /* of the free memory, in the stress */
	uint64_t bytes;	     /* of a copy; 0: 512 MiB */
	uint32_t repeats;    /* 0: 3 and 5 */
	bool is_forced;	     /* stress also on a GPU that is in use or shared */
	bool has_peers;	     /* bandwidth also from GPU to GPU, when p2p is not asked for */
	const char *root;    /* pci_root() */
	const char *library; /* NULL: libcuda.so.1 */
	char *const *environment;
	/* Asks NVML, by a process of its own: -errno, and why. NULL: cannot be asked. */
	int (*look)(void *context, struct validate_state *out, struct err *err);
	/* A line for people; one that goes with the next, while it lasts; NULL: nobody listens. */
	void (*note)(void *context, const char *text, bool is_progress);
	/* Whether our own exporter tells the truth: see gpu/metrics.h; NULL: 127.0.0.1:9400. */
	const char *exporter;
	void *context;
	const volatile sig_atomic_t *stop;
};

/* Runs what the mask says. 0: `out` (initialised by the caller) has what was found, whatever that
 * is. -ECANCELED: a signal came; `out` has what was found until then. -ENOMEM, -EAGAIN. */
int validate_run(const struct validate_plan *plan, struct checks *out, struct err *err);

#endif
