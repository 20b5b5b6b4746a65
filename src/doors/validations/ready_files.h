/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brings our files in /run/nvidia/validations into the state that they should have: written where
 * they are missing or different, gone where what they say is not so. A file that somebody else has
 * written is never touched, unless the configuration insists. Blocks: not for a loop's thread.
 */
#ifndef SLUICE_DOORS_VALIDATIONS_READY_FILES_H
#define SLUICE_DOORS_VALIDATIONS_READY_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/file.h"
#include "doors/validations/ready.h"

struct err;

#define READY_DIRECTORY "/run/nvidia/validations"

enum ready_files_limits {
	READY_NAME_MAX = 64,
	READY_ENTRIES_MAX = 1024, /* looked at in the directory */
};

struct ready_files_wish {
	const char *root;	/* before READY_DIRECTORY; "" for the real one */
	const char *state_path; /* of the record (ready_record.h) */
	bool withdraws;		/* ours go, whatever they say */
	bool insists;		/* also where another program's files are, and over them */
	struct ready_fact facts[READY_COUNT];
	struct ready_driver driver;
};

struct ready_files_report {
	char foreign[READY_NAME_MAX]; /* a file of somebody else, because of which there are none
					 of ours; "" */
	bool is_there[READY_COUNT];   /* ours */
	uint32_t written, removed;
	bool record_was_damaged; /* then nobody knows which are ours: they count as others' */
};

/*
 * One run. `out` is filled as far as it came. -ELOOP: the directory is a link; -ENOTDIR: it is
 * none; both texts begin with its path. What else reading and writing give; -ENOMEM. Without the
 * directory and with nothing to write none is made.
 */
int ready_files_run(const struct ready_files_wish *wish, struct ready_files_report *out,
		    struct err *err);

#endif
