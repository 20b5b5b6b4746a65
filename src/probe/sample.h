/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readings of one GPU: NVML in, struct snapshot_gpu out. What a GPU does not give is absent, and
 * so is what cannot be true (121 % of the time, a counter that runs backwards). Called by the
 * probe's sampler only.
 */
#ifndef SLUICE_PROBE_SAMPLE_H
#define SLUICE_PROBE_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "hardware/nvml.h"
#include "hardware/snapshot.h"

/* Whether a driver has a call; asked again every 60 seconds. */
enum sample_support { SAMPLE_UNKNOWN, SAMPLE_YES, SAMPLE_NO };

/* The time in which a kernel ran, summed over the driver's own samples. */
struct sample_busy {
	uint64_t ns;
	uint64_t seen_us; /* of the newest sample; 0: none yet */
	uint64_t rate_ns; /* CLOCK_MONOTONIC of the last rate; 0: the samples are good */
};

/* A counter of bytes that may be 32 bits wide, and its rate. */
struct sample_traffic {
	bool begun;
	uint64_t raw, total;
	uint64_t base, base_ns; /* where the rate is counted from */
};

struct sample_gpm {
	nvml_gpm sample[2]; /* owned; sample_forget() */
	uint32_t gi;	    /* or SNAPSHOT_WHOLE_GPU */
	uint32_t newest;
	uint64_t taken_ns; /* of the newest; 0: none */
};

struct sample_mig {
	nvml_device device; /* NULL: this row is not in use */
	uint32_t gi;
};

/* What is remembered between two samples of one GPU. All zero to begin. */
/* A counter of a GPU that is the sum of its links' counters. */
struct sample_link_sum {
	uint64_t links; /* that have told theirs; bit N: link N */
	uint64_t total; /* as it was told last */
	int64_t kept;	/* beside what the links tell */
};
enum { SAMPLE_LINK_SUMS = 13 };

struct sample_memory {
	int64_t wall_offset_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC of the last sample */
	uint64_t
	    settles_ns; /* until then the driver may have samples of before the clock was set */
	uint64_t uses_seen_us;	/* the newest per-process sample so far */
	uint64_t uses_ns;	/* CLOCK_MONOTONIC when there was one */
	uint32_t uses;		/* enum sample_support: of the newer call */
	uint32_t lists;		/* enum sample_support: of the newer process lists */
	uint32_t nvlink5;	/* enum sample_support: of the fields of NVLink 5 */
	uint32_t gpm_supported; /* enum sample_support */
	uint32_t pcie_bytes;	/* enum sample_support: of fields 197 and 198 */
	uint32_t mig_count;	/* in `mig`; 0: to be looked up */
	struct sample_busy busy;
	struct sample_traffic tx, rx;
	struct sample_link_sum link[SAMPLE_LINK_SUMS];
	struct sample_gpm gpm[1 + SNAPSHOT_MIG_MAX]; /* the GPU's and its instances' */
	struct sample_mig mig[SNAPSHOT_MIG_MAX];     /* one for each GPU instance */
};

/* Room for lists that the driver fills; grows with them, and stays. */
struct sample_room {
	void *bytes; /* owned */
	uint32_t size;
	struct process_row *rows; /* owned */
	uint32_t row_max, row_count;
	uint32_t *slots; /* owned: an index of `rows` by PID */
	uint32_t slot_count;
};

/* One round over all GPUs. */
struct sampler {
	struct nvml_caller *caller; /* borrowed: for the round */
	struct snapshot *snapshot;  /* borrowed: as above */
	bool due[SNAPSHOT_CLASS_COUNT];
	uint64_t now_ns; /* the time that the samples get */
	int64_t unix_ns; /* the same, CLOCK_REALTIME */
	/* Place of the GPU that may be asked for its PCIe rates, which takes 40 ms, if there is no
	 * better way; SNAPSHOT_U32_ABSENT: none. */
	uint32_t pcie_turn;
	struct sample_room room; /* sampler_done() */
};

/* The identity part of a sample, from the inventory. Keeps the readings. */
void sample_identify(const struct inventory *inventory, uint32_t place, struct snapshot_gpu *out);
/*
 * Reads the values of the classes that are due into sampler->snapshot->gpu[place]. A value that is
 * not given any more is dropped. When the GPU is lost or needs a reset its state says so and all
 * readings are dropped. Failed calls are counted in the snapshot, the time is added to round_ns.
 */
void sample_read(struct sampler *sampler, uint32_t place, nvml_device device,
		 struct sample_memory *memory);
/* Gives back what the driver keeps for `memory`, which is then all zero. */
void sample_forget(struct nvml_caller *caller, struct sample_memory *memory);
void sampler_done(struct sampler *sampler);

#endif
