/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an XID, the driver's error number in the kernel log, means for a GPU. A table, on the base
 * of NVIDIA's XID catalog of 2025-10-29 (column "immediate resolution"),
 * https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html. Where it differs the table
 * says why.
 */
#ifndef SLUICE_HARDWARE_XID_H
#define SLUICE_HARDWARE_XID_H

#include <stdint.h>

enum xid_limits { XID_UNKNOWN = 999 };

enum xid_class {
	XID_IGNORE,  /* configuration only: not even counted against the GPU */
	XID_INFO,    /* counted and shown */
	XID_APP,     /* a job's own fault: it may fail, the GPU is well */
	XID_RESET,   /* unhealthy until the GPU was reset */
	XID_REBOOT,  /* unhealthy until the machine was restarted */
	XID_INSPECT, /* unhealthy until a person has looked */
	XID_CLASS_COUNT,
};

/* The class of a code; XID_INSPECT for every one that the table does not list. */
enum xid_class xid_class_of(uint32_t xid);
/* "double-bit memory error"; "" for codes without a short name. */
const char *xid_name(uint32_t xid);
/* "ignore", "info", "app", "reset", "reboot", "inspect": the words of the configuration. */
const char *xid_class_to_string(uint32_t class_);

#endif
