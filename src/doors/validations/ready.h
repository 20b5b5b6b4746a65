/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files in /run/nvidia/validations for which other programs of a node wait: their names, what
 * is in them, and what of the machine decides whether each may be there. Reads names in /proc, /sys
 * and /dev, so it belongs where waiting for a disk is allowed. Knows nothing of who writes them
 * (ready_files.h).
 *
 * Facts: https://github.com/NVIDIA/gpu-operator/tree/main/cmd/nvidia-validator. `cuda-ready` is not
 * among them: it says that a program has computed on a GPU, and nothing here does that.
 */
#ifndef SLUICE_DOORS_VALIDATIONS_READY_H
#define SLUICE_DOORS_VALIDATIONS_READY_H

#include <stdbool.h>
#include <stddef.h>

struct inventory;

#define READY_DRIVER_ROOT "/run/nvidia/driver" /* of a driver container, as the host has it */

enum ready_limits {
	READY_TEXT_MAX = 256, /* of driver-ready */
	READY_WHY_MAX = 192,
};

enum ready_what {
	READY_DRIVER,
	READY_TOOLKIT,
	READY_PLUGIN,
	READY_PEERMEM,
	READY_GDRCOPY,
	READY_NVIDIA_FS,
	READY_MOFED,
	READY_COUNT,
};
/* "driver-ready". */
const char *ready_name(enum ready_what what);

enum ready_state {
	READY_UNKNOWN, /* what is there stays */
	READY_NO,
	READY_YES,
};

struct ready_fact {
	enum ready_state state;
	char why[READY_WHY_MAX]; /* not, or not known; "" */
};

/* Where the driver's files are. */
struct ready_driver {
	bool is_host;	  /* else in a driver container's root */
	bool has_dev_dir; /* of a driver container: its root has a directory `dev` */
};

/* The bytes of driver-ready, which shells source: five lines. Returns their number. */
size_t ready_driver_text(const struct ready_driver *driver, char out[READY_TEXT_MAX]);

struct ready_question {
	const char *root;		   /* before every path; "" for the real ones */
	const struct inventory *inventory; /* NULL: the driver does not answer */
	const char *driver_root;	   /* nvidiaDriverRoot; NULL or "": "/" */
};

/* What the files say: all but READY_TOOLKIT and READY_PLUGIN, which are left alone. */
void ready_look(const struct ready_question *question, struct ready_fact out[READY_COUNT],
		struct ready_driver *out_driver);

#endif
