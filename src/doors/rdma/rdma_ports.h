/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counters of all RDMA ports for metrics, read now and then by the thread that reads adapters:
 * a driver may ask its firmware. Knows neither resources nor health. The rest belongs to the loop's
 * thread; door_rdma.c calls it.
 */
#ifndef SLUICE_DOORS_RDMA_RDMA_PORTS_H
#define SLUICE_DOORS_RDMA_RDMA_PORTS_H

#include <stdint.h>

struct err;
struct loop;
struct rdma_counters;
struct rdma_inventory;
struct rdma_ports;
struct storage;

enum { RDMA_PORTS_MAX = 64 }; /* ports whose counters are kept: as many as the view has */
#define RDMA_PORTS_NS UINT64_C(5000000000) /* between two readings */

/*
 * `root` is borrowed. `counted` (may be NULL) is called after a reading and, once somebody has
 * looked since, when the next may begin: who still wants to know looks again. -ENOMEM.
 */
int rdma_ports_new(struct loop *loop, const char *root, void (*counted)(void *context),
		   void *context, struct rdma_ports **out, struct err *err);
/* After `storage` of the last look has ended. NULL is fine. Returns NULL. */
struct rdma_ports *rdma_ports_free(struct rdma_ports *ports);

/*
 * Somebody wants to know: begins a reading of the ports of `inventory`, or does nothing when one is
 * under way or less than RDMA_PORTS_NS ago. What cannot be begun is left for the next time.
 */
void rdma_ports_look(struct rdma_ports *ports, struct storage *storage,
		     const struct rdma_inventory *inventory);
/* No reading is begun and nobody is told any more. */
void rdma_ports_stop(struct rdma_ports *ports);
/* What was read last; NULL: nothing of this port. Borrowed until the loop goes on. */
const struct rdma_counters *rdma_ports_find(const struct rdma_ports *ports, const char *device,
					    uint32_t port);

#endif
