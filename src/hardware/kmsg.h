/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel log as the NVIDIA driver writes it: records in, XIDs out. Pure; a record is the bytes
 * that one read() of /dev/kmsg gives: "prio,seq,usec,flags;text\n" and perhaps lines " KEY=value".
 *
 * Only records of facility 0 count, which user programs cannot write, and only text that begins
 * with "NVRM: ". https://www.kernel.org/doc/Documentation/ABI/testing/dev-kmsg
 */
#ifndef SLUICE_HARDWARE_KMSG_H
#define SLUICE_HARDWARE_KMSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hardware/gpu.h"

enum kmsg_limits {
	KMSG_RECORD_MAX = 8192, /* the kernel's own limit is smaller (CONSOLE_EXT_LOG_MAX) */
	KMSG_TEXT_MAX = 192,
	KMSG_XID_MAX = 9999,
	KMSG_RECENT_MAX = 64,
	KMSG_FALLEN_MAX = 64,
};

#define KMSG_DUPLICATE_NS UINT64_C(5000000000) /* one error, told by NVML and by the log */
#define KMSG_XID_FALLEN	  79		       /* "has fallen off the bus" */
#define KMSG_NONE	  UINT32_MAX

enum kmsg_kind {
	KMSG_OTHER, /* not of the driver, or not an error */
	KMSG_XID,
	KMSG_CONTINUE, /* a line of the three-line form: feed the next record */
	KMSG_FORGED,   /* looks like the driver's, but is not from the kernel */
};

struct kmsg_xid {
	uint64_t sequence, time_us; /* of the record; time since boot */
	uint32_t xid;
	struct pci_address pci; /* function 0 when it is not told */
	uint32_t gi;		/* GPU instance, or KMSG_NONE */
	uint32_t pid;		/* or KMSG_NONE */
	/* NVLink 5 (144-150) */
	bool has_severity, fatal;
	int32_t link; /* -1: not told */
	/* 154: the recovery action from now on, or KMSG_NONE */
	uint32_t recovery_action;
	char text[KMSG_TEXT_MAX]; /* what follows the number; printable */
};

/*
 * The state between records: the address out of the first of three lines, and which GPUs fell off
 * the bus last: the driver tells of it in up to three ways. All zero to begin.
 */
struct kmsg_parser {
	uint32_t lines; /* of the three-line form so far */
	struct pci_address pci;
	uint64_t forged; /* records refused for their facility */
	struct {
		struct pci_address pci;
		uint64_t time_us;
	} fallen[KMSG_FALLEN_MAX];
	uint32_t fallen_count; /* ever */
};

/* One record. KMSG_XID fills `out`. One that says again within 5 s that a GPU has fallen off the
 * bus is KMSG_OTHER. */
enum kmsg_kind kmsg_parse(struct kmsg_parser *parser, const char *record, size_t length,
			  struct kmsg_xid *out);
/* The sequence number of any record; false when the bytes are no record. */
bool kmsg_parse_sequence(const char *record, size_t length, uint64_t *out);
/* The same for its time in microseconds. */
bool kmsg_parse_time(const char *record, size_t length, uint64_t *out_us);

/* The last errors, so that one which comes by two ways counts once. All zero to begin. */
struct kmsg_recent {
	struct {
		uint64_t time_ns; /* 0: free */
		uint32_t xid;
		uint32_t source;
		struct pci_address pci;
	} entry[KMSG_RECENT_MAX];
	uint32_t next;
};

/*
 * True when this (PCI address, XID) came from another `source` within 5 s before `time_ns`; it is
 * remembered otherwise. Two of one source are two errors.
 */
bool kmsg_is_duplicate(struct kmsg_recent *recent, const struct pci_address *pci, uint32_t xid,
		       uint32_t source, uint64_t time_ns);

#endif
