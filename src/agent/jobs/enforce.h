/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closes the nodes of GPUs to everybody but root and one group, so that a user gets a GPU through a
 * job alone (sluice.jobs.enforce), and opens them again as they were. What they were is written
 * down before anything is changed, so that neither a crash nor a removal of the package leaves a
 * machine whose GPUs nobody can use. Jobs get private copies: libexec/supervise/nodes.h.
 *
 * DRM nodes are left alone: CUDA cannot work with them alone, and a desktop cannot without.
 * nvidia-modeset as well, for the same reason.
 *
 * Blocks on the file system: for the storage thread, and for `sluice agent --cleanup`.
 */
#ifndef SLUICE_AGENT_JOBS_ENFORCE_H
#define SLUICE_AGENT_JOBS_ENFORCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/file.h"
#include "hardware/gpu.h"

struct err;

#define ENFORCE_MEMORY_NAME "nodes" /* in the state directory */

enum enforce_limits {
	ENFORCE_NODES_MAX = 8192,
	ENFORCE_MEMORY_MAX = 1 << 20, /* bytes of what is written down */
	ENFORCE_MODE = 0660,
};

struct enforce_wish {
	char root[FILE_PATH_MAX];   /* before /dev; "": this machine's */
	char memory[FILE_PATH_MAX]; /* the file with what the nodes were */
	bool is_on;		    /* else: all are opened again */
	gid_t gid;
	uint32_t minors[GPU_MAX]; /* of the GPUs that are to be closed: /dev/nvidia<N> */
	size_t minor_count;
	bool all; /* there are no others: control nodes and capabilities are closed as well */
};

struct enforce_report {
	uint32_t closed;   /* nodes that are closed now */
	uint32_t changed;  /* of these, those that had to be */
	uint32_t restored; /* that are again what they were */
	uint32_t failed;   /* that could not be changed; the first is in `err` */
};

/*
 * Makes it so. A node that is not as it was left (a driver's tool has made it anew) is closed
 * again, or not touched where it would have been opened. 0; the first failure, while the others are
 * done all the same: -EPERM, -ENOSPC (nothing was changed), ...
 */
int enforce_run(const struct enforce_wish *wish, struct enforce_report *out, struct err *err);

#endif
