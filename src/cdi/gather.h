/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything of this machine that a CDI specification is made of beside the inventory: the loaded
 * kernel module, the driver's files, the capabilities' minors. Reads files, may take milliseconds
 * (or hang with a network file system): not for the agent's loop thread. Called by `sluice cdi`,
 * `sluice devices --files` and the agent.
 */
#ifndef SLUICE_CDI_GATHER_H
#define SLUICE_CDI_GATHER_H

#include <stdbool.h>

#include "cdi/driver.h"

struct err;
struct minors;

struct gather_options {
	const char *root;	 /* before /proc and /sys; "" for the real ones */
	const char *driver_root; /* below which the driver's files are looked for; NULL or "": "/"
				    of the machine, or `root` */
	const char *mps;	 /* as in driver.h; NULL */
	const char *const *directories; /* in which libraries are looked for first, as seen from
					   inside of the driver root; may be NULL */
	size_t directory_count;
};

/* Freed by gather_done(). All zero is a valid one of nothing. */
struct gather {
	char kernel_version[GPU_VERSION_MAX]; /* of the loaded module; "": none is loaded */
	char proc_version[GPU_VERSION_MAX];   /* what /proc/driver/nvidia says beside that; "" */
	struct minors *minors;		      /* owned; NULL: there is no such file */
	bool has_driver;
	struct cdi_driver driver; /* valid when has_driver */
};

/*
 * 0, also where no kernel module is loaded or files are in the way: gather_check() tells. -ENOENT:
 * not one library of a driver; -EPERM, -EINVAL, -ENOTDIR: the driver root; -EFBIG: the file of
 * minors; -ENOMEM; -E2BIG: a limit of driver.h.
 */
int gather_read(const struct gather_options *options, struct gather *out, struct err *err);
void gather_done(struct gather *gather);
#define _cleanup_gather_ __attribute__((cleanup(gather_done)))

/* Only the minors, NULL where there is no such file. `out` is owned: minors_free(). -EFBIG,
 * -ENOMEM, and what read(2) gives. */
int gather_minors(const char *root, struct minors **out, struct err *err);

/*
 * Whether kernel and user space are one driver. `nvml_version`: what NVML calls the driver; "": it
 * was not asked. -ENXIO: no kernel module is loaded; -ESTALE: two versions, the text names both and
 * says what to do; -ENOPKG: the driver has another severe problem.
 */
int gather_check(const struct gather *gather, const char *nvml_version, struct err *err);

#endif
