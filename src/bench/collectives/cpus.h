/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which processor each rank is pinned to: cores first, their second threads only when the cores are
 * used up. Knows nothing of ranks but their number.
 */
#ifndef SLUICE_BENCH_COLLECTIVES_CPUS_H
#define SLUICE_BENCH_COLLECTIVES_CPUS_H

#include <stdint.h>

enum cpus_limits { CPUS_MAX = 8192 }; /* what a kernel can be built for */

/* A processor and the first one of its core. */
struct cpu {
	uint32_t number, core;
};
/* Puts one of each core first, and otherwise keeps the order. At most CPUS_MAX. Pure. */
void cpus_order(struct cpu *cpus, uint32_t count);

/* `count` processors that this process may run on, each another one. 0; -ENOSPC: there are fewer;
 * -errno: the kernel does not say. */
int cpus_choose(uint32_t count, int32_t *out);
/* Binds the calling thread, and those that it starts from then on. -errno. */
int cpus_pin(int32_t cpu);
/* The one it is bound to; -1: to several, or nobody knows. */
int32_t cpus_pinned(void);

#endif
