/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel says beside NVML: its log, and events of devices that come and go. Reads files
 * and sockets without blocking; knows nothing of NVML and needs no thread of its own.
 */
#ifndef SLUICE_PROBE_WATCH_H
#define SLUICE_PROBE_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hardware/kmsg.h"

struct err;

enum watch_limits { WATCH_FD_MAX = 3, WATCH_READ_MAX = 4096 /* records of one call */ };

struct watch {
	int kmsg_fd;	   /* -1: none */
	bool kmsg_is_file; /* a plain file: grows without saying so, may hold half a record */
	int uevent_fd;	   /* -1: none; a plain file below a root, else a netlink socket */
	bool uevent_is_file;
	int64_t uevent_size;
	int inotify_fd; /* for the plain files; -1: none */
	/* What is added to a record's time, in ns: a plain file's clock is not this machine's. */
	int64_t kmsg_shift_ns;
	struct kmsg_parser parser;
	uint64_t known;	      /* newest sequence number that was seen; UINT64_MAX: none */
	uint64_t overwritten; /* times that records were lost before we read them */
	char *line;	      /* owned: half a record of a plain file */
	size_t line_length;
};

/*
 * Opens the log below `root` ("" : the real machine); `kernel_log` false leaves it alone. Where it
 * cannot be read `out->kmsg_fd` is -1 and `err` says why; that is no failure.
 * `simulated`: never open the real kernel's, whatever `root` is. -ENOMEM.
 */
int watch_open(struct watch *out, const char *root, bool simulated, bool kernel_log, uint64_t known,
	       struct err *err);
/* Opens what tells of devices that come and go. Who ends soon does without: the kernel takes
 * milliseconds to close it. */
void watch_follow_devices(struct watch *watch, const char *root, bool simulated);
void watch_done(struct watch *watch);

/* Descriptors to poll for reading; returns how many (at most WATCH_FD_MAX). */
uint32_t watch_fds(const struct watch *watch, int out[WATCH_FD_MAX]);
/* The time of an XID on CLOCK_MONOTONIC, in ns; 0 when that would be before boot. */
uint64_t watch_time_of(const struct watch *watch, const struct kmsg_xid *xid);
/* Calls `found` for each new XID in the log. */
void watch_read_log(struct watch *watch, void (*found)(const struct kmsg_xid *xid, void *context),
		    void *context);
/* Whether a PCI device came or went since the last call. */
bool watch_devices_changed(struct watch *watch);

#endif
