/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated kernel log, ROOT/kmsg, and the simulated uevents, ROOT/uevent. Both are plain files
 * that only grow. A record of the log has the form of /dev/kmsg, "prio,seq,usec,flags;text" with
 * continuation lines that begin with a blank
 * (https://www.kernel.org/doc/Documentation/ABI/testing/dev-kmsg), and is written by one write.
 * The real /dev/kmsg is never touched. A machine without a root has no log: nothing is written.
 */
#ifndef SLUICE_SIM_KMSG_H
#define SLUICE_SIM_KMSG_H

#include "sim/machine.h"

struct sim_error;

/* How drivers of different ages, and different GPUs, write an XID. */
enum sim_kmsg_form {
	SIM_KMSG_NEW,	    /* NVRM: Xid (PCI:0000:07:00): 13, pid=7, name=python, text */
	SIM_KMSG_OLD,	    /* NVRM: Xid (0000:07:00): 13, text */
	SIM_KMSG_MIG,	    /* NVRM: Xid (PCI:0000:07:00 GPU-I:05): 13, pid=... */
	SIM_KMSG_THREELINE, /* 79 only: three lines that name the GPU and no number */
	SIM_KMSG_NVLINK5,   /* 144-150 only: UNIT Fatal XC0 i0 Link 09 (0x...) */
	SIM_KMSG_FORM_COUNT,
};

enum sim_kmsg_priority {
	SIM_KMSG_WARNING = 4, /* facility 0: only the kernel can write it */
	SIM_KMSG_INFO = 6,
	SIM_KMSG_FORGED = 8 + 4, /* facility 1: a program wrote it into /dev/kmsg */
};

struct sim_kmsg_xid {
	uint32_t gpu, xid;
	uint32_t pid;	  /* 0: unknown, as the driver prints it */
	uint32_t gi;	  /* for the form `mig` */
	int32_t link;	  /* for the form `nvlink5`; -1 is printed as such */
	bool nonfatal;	  /* for the form `nvlink5` */
	const char *text; /* NULL: what the driver says for this number */
	enum sim_kmsg_form form;
	bool forged; /* facility 1 */
};

const char *sim_kmsg_form_to_string(enum sim_kmsg_form form);

/* Appends the record or records of an XID. 0, or -1: SIM_EXIT_INPUT when the form does not fit the
 * number. Advances machine->kmsg_seq. */
int sim_kmsg_xid(struct sim_machine *machine, const struct sim_kmsg_xid *xid,
		 struct sim_error *error);

/* Appends one record with the text that `format` gives; characters that a log cannot hold are
 * escaped as \xNN, as the kernel does. `device`: "+pci:0000:07:00.0" for the continuation lines
 * SUBSYSTEM and DEVICE, NULL for none. */
int sim_kmsg_line(struct sim_machine *machine, uint32_t priority, const char *device,
		  struct sim_error *error, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* `count` records of something else, so that a reader has to keep up. */
int sim_kmsg_flood(struct sim_machine *machine, uint32_t count, struct sim_error *error);
/*
 * What a reader of the device sees as EPIPE: everything that was in the buffer is overwritten. The
 * file is cut to nothing and sequence numbers go on `lost` records later, so that whoever stood
 * behind the end knows that it missed something.
 */
int sim_kmsg_overwrite(struct sim_machine *machine, uint32_t lost, struct sim_error *error);

/*
 * Appends the uevent of a GPU that comes or goes: "ACTION@DEVPATH", then KEY=VALUE strings, each
 * ended by a NUL as the kernel's netlink messages have them, and an empty string at the end of the
 * record (which netlink needs not, having datagrams). `action`: "add" or "remove".
 */
int sim_kmsg_uevent(struct sim_machine *machine, uint32_t gpu, const char *action,
		    struct sim_error *error);
/* The same of an adapter's RDMA device: subsystem infiniband. */
int sim_kmsg_uevent_rdma(struct sim_machine *machine, uint32_t nic, const char *action,
			 struct sim_error *error);

/*
 * From sim_kmsg_hold_uevents() on uevents are kept back, until they are sent or dropped: who reads
 * one looks at the machine at once, and has to find it changed. Sending fails as a write does, with
 * SIM_EXIT_FAILED; nothing is held afterwards.
 */
void sim_kmsg_hold_uevents(void);
int sim_kmsg_send_uevents(struct sim_error *error);
void sim_kmsg_drop_uevents(void);

#endif
