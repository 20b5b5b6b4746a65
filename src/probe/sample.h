/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readings of one GPU: NVML in, struct snapshot_gpu out. What a GPU does not give is absent.
 * Called by the probe's sampler only.
 */
#ifndef SLUICE_PROBE_SAMPLE_H
#define SLUICE_PROBE_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "hardware/nvml.h"
#include "hardware/snapshot.h"

/* What is remembered between two samples of one GPU. All zero to begin. */
struct sample_memory {
	uint64_t utilization_seen_us; /* the newest per-process sample so far */
};

/* The identity part of a sample, from the inventory. Keeps the readings. */
void sample_identify(const struct inventory *inventory, uint32_t place, struct snapshot_gpu *out);
/*
 * Reads the values of the classes of which `due[class]` is set. A value that is not given any more
 * is dropped. When the GPU is lost or needs a reset its state says so and all readings are dropped.
 * `now_ns` is the time that the sample gets.
 */
void sample_read(struct nvml_caller *caller, nvml_device device, struct sample_memory *memory,
		 const bool due[SNAPSHOT_CLASS_COUNT], uint64_t now_ns, struct snapshot_gpu *out);

#endif
