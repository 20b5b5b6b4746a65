/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast a GPU is fed: host to GPU, GPU to host, both at once, and within its own memory; by the
 * copy engine and by its processors. Every byte is checked. From GPU to GPU is in p2p.h. Knows
 * nothing of what a machine ought to have: it is given limits.
 */
#ifndef SLUICE_VALIDATE_GPU_BANDWIDTH_H
#define SLUICE_VALIDATE_GPU_BANDWIDTH_H

#include <stdint.h>

struct checks_sink;
struct driver;
struct driver_device;

#define BANDWIDTH_BYTES (UINT64_C(512) << 20)
#define BANDWIDTH_SIMULATED_BYTES                                                                  \
	(UINT64_C(2) << 20) /* they are copied truly, by one processor                             \
			     */
enum { BANDWIDTH_REPEATS = 3 };

struct bandwidth_options {
	uint64_t bytes;	  /* of a copy; 0: BANDWIDTH_BYTES, less where memory is short */
	uint32_t repeats; /* 0: BANDWIDTH_REPEATS; GPUTEST_REPEATS_MAX at most */
	const char *root; /* before /sys; pci_root() */
	/* GB/s that a copy between host and GPU in one direction must reach, and of which link;
	 * 0: nothing is expected. */
	double limit;
	const char *link;	       /* "PCIe 4 x16" */
	uint32_t link_gen, link_width; /* that it can have; 0: not known, and not looked at */
};

/* The line above those of the GPUs. */
void bandwidth_header(const struct driver *driver, const struct bandwidth_options *options,
		      const struct checks_sink *sink);
/* The check "bandwidth" of this GPU: the slower direction is its value, in GB/s (1e9 bytes). */
void bandwidth_check(const struct driver *driver, const struct driver_device *device,
		     const struct bandwidth_options *options, uint64_t place,
		     const struct checks_sink *sink);

#endif
