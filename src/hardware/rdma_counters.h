/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a port of an RDMA device has counted since its driver was loaded. Metrics and no health: a
 * port with errors is up all the same. A counter whose file is not there is not known, and not 0.
 *
 * Facts: Documentation/ABI/stable/sysfs-class-infiniband of the Linux kernel.
 */
#ifndef SLUICE_HARDWARE_RDMA_COUNTERS_H
#define SLUICE_HARDWARE_RDMA_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rdma_counter {
	RDMA_COUNTER_SENT_BYTES, /* port_xmit_data counts words of four bytes */
	RDMA_COUNTER_RECEIVED_BYTES,
	RDMA_COUNTER_SYMBOL_ERROR,
	RDMA_COUNTER_LINK_DOWNED,
	RDMA_COUNTER_OUT_OF_SEQUENCE,
	RDMA_COUNTER_PACKET_SEQ_ERR,
	RDMA_COUNTER_RNR_NAK_RETRY_ERR,
	RDMA_COUNTER_CNP_SENT, /* congestion notifications */
	RDMA_COUNTER_CNP_HANDLED,
	RDMA_COUNTER_COUNT,
};

#define RDMA_COUNTER_UNKNOWN UINT64_MAX

struct rdma_counters {
	uint64_t value[RDMA_COUNTER_COUNT]; /* by enum rdma_counter; RDMA_COUNTER_UNKNOWN */
};

/* Reads those of one port below `root`. What cannot be read is unknown. */
void rdma_counters_read(const char *root, const char *device, uint32_t port,
			struct rdma_counters *out);
/*
 * "250000\n", times `unit`. Pure. 0, -EINVAL, -ERANGE: no number of 64 bits, or the one that means
 * unknown. A product goes round at 2^64, as the kernel's own counters do: whoever reads it takes a
 * counter that falls for one that began again.
 */
int rdma_counter_parse(const char *text, size_t length, uint32_t unit, uint64_t *out);
/* "port_xmit_bytes", "link_downed", "np_cnp_sent": as the kernel calls them, but for the unit. */
const char *rdma_counter_to_string(uint32_t counter);

#endif
