/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CDI specification of RDMA adapters: one device for each of them and one for each resource,
 * nothing but device nodes and, where the configuration asks for it, the one hook of the project
 * (libexec/sluice-memlock). All in one file so that no device is there twice. Blocks (it looks at
 * nodes and writes): not for a loop's thread. Never touches a file that is not ours by name, owner
 * and the kind inside.
 *
 * Facts: https://github.com/cncf-tags/container-device-interface.
 */
#ifndef SLUICE_DOORS_CDI_ADAPTERS_H
#define SLUICE_DOORS_CDI_ADAPTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/domain.h"
#include "hardware/rdma.h"

struct buf;
struct err;

#define ADAPTERS_KIND		SLUICE_DOMAIN "/rdma"
#define ADAPTERS_KIND_SIMULATED "sluice.sim/rdma"

enum adapters_limits {
	ADAPTERS_NAME_MAX = 256,
	ADAPTERS_TEXT_MAX = 1 << 20, /* bytes of a specification */
};

struct adapters_device {
	char name[ADAPTERS_NAME_MAX]; /* "mlx5_0"; of a resource "rdma:hca" */
	struct rdma_node *nodes;      /* borrowed */
	size_t node_count;
	/* What a container with it may lock at least; 0: what it may anyway, UINT64_MAX: as much
	 * as it likes. */
	uint64_t memlock_bytes;
	bool memlock_warns; /* a container whose limit cannot be raised is started all the same */
};

/* The name of a resource's device: "rdma:hca" of "rdma/hca". */
void adapters_resource_name(const char *resource, char out[ADAPTERS_NAME_MAX]);

/*
 * Appends the specification of these devices to `out`. `hook`: path of sluice-memlock on the host,
 * NULL: devices
 * that cannot do without it are left out. Each node carries its host's mode, owner and
 * numbers, because podman before 5 makes one 0666 otherwise; one that is no device now is left out,
 * and a device without nodes, too. `root` is before every path. -ENODEV: nothing is left; -ENOSPC,
 * -ENOMEM.
 */
int adapters_text(const char *kind, const char *root, const char *hook,
		  const struct adapters_device *devices, size_t count, struct buf *out,
		  struct err *err);
/*
 * Brings the file of the kind below `root` into that state, and removes that of the other kind:
 * written when it differs, removed when there is nothing to write. 1: something was changed, 0:
 * nothing. -EEXIST: somebody else's file has the name; -EROFS, -ENOSPC, -EACCES, ...
 */
int adapters_keep(const char *kind, const char *root, const char *hook,
		  const struct adapters_device *devices, size_t count, struct err *err);

#endif
