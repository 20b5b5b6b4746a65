/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The health of one RDMA adapter over time: two readings 5 s apart that both find no port up make
 * it unhealthy, one that finds a port up makes it healthy again. A state machine without clock,
 * files or opinion about who is told.
 */
#ifndef SLUICE_HARDWARE_RDMA_HEALTH_H
#define SLUICE_HARDWARE_RDMA_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

enum rdma_health_state {
	RDMA_HEALTH_NEW,     /* never read */
	RDMA_HEALTH_HEALTHY, /* the last reading found a port up */
	RDMA_HEALTH_SUSPECT, /* the last readings did not, for less than the time below */
	RDMA_HEALTH_UNHEALTHY,
};

/* Between the first bad reading and the one that decides; also how often to read. */
#define RDMA_HEALTH_BAD_NS 5000000000ull

struct rdma_health {
	uint32_t state;	       /* enum rdma_health_state */
	uint64_t bad_since_ns; /* CLOCK_MONOTONIC, of the first bad reading; valid when suspect */
};

/*
 * One reading: whether a port is up, and when. An adapter whose very first reading is bad is
 * unhealthy at once: nobody was told otherwise. Readings may come more often than every 5 s.
 * Returns whether rdma_health_is_ok() is another than before.
 */
bool rdma_health_read(struct rdma_health *health, bool up, uint64_t now_ns);
/* Healthy, or suspect: what somebody outside is told. */
bool rdma_health_is_ok(const struct rdma_health *health);

#endif
