/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a driver does that sharing a GPU depends on, and no document says: which pointers it gives
 * by which route, what a stamp of a stream's progress costs, and how much memory a process takes
 * before it has asked for any. Only reports; there is nothing right or wrong.
 */
#ifndef SLUICE_BENCH_GPU_PROBES_H
#define SLUICE_BENCH_GPU_PROBES_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/gpu/driver.h"

struct err;

enum probes_limits {
	PROBES_ODD_MAX = 32, /* pointers that are listed */
	PROBES_STEPS = 4,
};

/* cuGetProcAddress gave something that the library does not export under any form of the name. */
struct probes_odd {
	const char *name;
	int version;	/* 11000, 12000, 13000 */
	unsigned flags; /* 0 default, 1 legacy, 2 per-thread default stream */
};

struct probes {
	struct driver_device device;
	int driver_version; /* as struct driver has it */
	bool is_simulated, has_procaddress;
	uint32_t asked, given, odd_count;
	struct probes_odd odd[PROBES_ODD_MAX];
	double event_ns;	     /* cuEventRecord and cuEventQuery, median */
	bool has_write;		     /* cuStreamWriteValue32 is there */
	double write_ns, visible_ns; /* one call; until the host sees it; medians */
	/* Bytes of the GPU in use, by NVML: before, with a context, with our kernels, after the
	 * first launch. */
	bool has_used;
	uint64_t used[PROBES_STEPS];
};

/* `library` and `device` as for a load. Errors as driver_open(), driver_find_device(); -EIO. */
int probes_run(const char *library, const char *device, struct probes *out, struct err *err);

#endif
