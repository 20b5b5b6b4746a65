/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probe itself: the only long-lived process of ours that loads NVML. Three threads: the
 * sampler and the event thread call the driver and may never come back; the first thread calls
 * nothing of it, reads the kernel log and device events, and ends the process when its client goes.
 */
#ifndef SLUICE_PROBE_SERVER_H
#define SLUICE_PROBE_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "hardware/inventory.h"

struct server_options {
	int fd;		 /* stream socket to the client; given */
	int marks_fd;	 /* memory file of one struct call_marks; given */
	bool once;	 /* one inventory, one snapshot, then end */
	bool kernel_log; /* report XIDs from it */
	uint64_t period_ns;
	bool log_is_live;    /* what is in the log at the start is news, not history */
	uint64_t kmsg_after; /* records up to this sequence number are known; UINT64_MAX: none */
	uint64_t snapshot_sequence;	   /* number of the first snapshot */
	const char *root;		   /* of /proc, /sys and /dev */
	const struct inventory_skip *skip; /* borrowed */
	uint32_t skip_count;
};

/* Runs until the client goes, the work is done or the driver is not usable. Does not return: a
 * thread that hangs in the driver must not keep the process from ending. */
void server_run(const struct server_options *options) __attribute__((noreturn));

#endif
