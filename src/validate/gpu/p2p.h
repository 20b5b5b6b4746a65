/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From GPU to GPU: which may reach the other's memory, how fast a copy is through the host and
 * straight, one way and both, and how long a small one takes. Every byte is checked. Knows nothing
 * of what a machine ought to have: it is given limits.
 */
#ifndef SLUICE_VALIDATE_GPU_P2P_H
#define SLUICE_VALIDATE_GPU_P2P_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/gpu/driver.h"

struct checks_sink;

#define P2P_BYTES	    (UINT64_C(512) << 20)
#define P2P_SIMULATED_BYTES (UINT64_C(1) << 20)
enum { P2P_REPEATS = 5, P2P_SMALL_BYTES = 16, P2P_SMALL_COUNT = 100 };

struct p2p_options {
	uint64_t bytes;	  /* of a copy; 0: P2P_BYTES, less where memory is short */
	uint32_t repeats; /* 0: P2P_REPEATS */
	/* Only as the driver does it best, one way: the matrix GPU x GPU of `bandwidth`. */
	bool is_brief;
	/* GB/s that a copy from [a] to [b] must reach where it goes straight, and NVLinks between
	 * them; 0: nothing is expected, there are none. By the places of the devices. */
	double limit[DRIVER_DEVICES_MAX][DRIVER_DEVICES_MAX];
	uint8_t nvlinks[DRIVER_DEVICES_MAX][DRIVER_DEVICES_MAX];
};

/* Which device may reach which: lines for people, and a fact for each. */
void p2p_matrix(const struct driver *driver, const struct driver_device *devices, uint32_t count,
		const struct checks_sink *sink);
/* The lines above those of the pairs. */
void p2p_header(const struct driver *driver, const struct p2p_options *options,
		const struct checks_sink *sink);
/* Keeps the contexts of all from being made anew for each pair, until the process ends. */
void p2p_retain(const struct driver *driver, const struct driver_device *devices, uint32_t count);
/* The check "p2p" of what `from` sends to all others; the slowest pair is its value, in GB/s (1e9
 * bytes). SKIP with one device. */
void p2p_check(const struct driver *driver, const struct driver_device *devices, uint32_t count,
	       uint32_t from, const struct p2p_options *options, uint64_t place,
	       const struct checks_sink *sink);

#endif
