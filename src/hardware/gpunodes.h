/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device nodes, by their numbers, through which a process could reach GPUs and MIG devices that
 * it was not given: what a rule around it has to deny. In two steps, because the first one needs
 * the inventory and the second one reads files. Knows nothing of rules or of who gets what.
 */
#ifndef SLUICE_HARDWARE_GPUNODES_H
#define SLUICE_HARDWARE_GPUNODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hardware/gpu.h"

struct err;

enum gpunodes_limits {
	GPUNODES_MAX = 1000,   /* nodes of one list */
	GPUNODES_DRM_MAX = 64, /* entries looked at of one GPU's drm directory */
	GPUNODES_MAJOR = 195,  /* of /dev/nvidia<N>: Documentation/admin-guide/devices.txt */
	GPUNODES_LAST = 253,   /* the last of them; 254 is nvidia-modeset, 255 nvidiactl */
	GPUNODES_DRM_MAJOR = 226,
	GPUNODES_DRM_LAST = 255,
	GPUNODES_MINOR_LAST = (1 << 20) - 1, /* of any */
	GPUNODES_KEPT_MAX = 256,	     /* nodes that stay open */
};

/* A GPU or a MIG device; a GPU is given with each of its MIG devices. */
struct gpunodes_device {
	uint32_t minor; /* of the GPU; GPU_U32_UNKNOWN */
	bool has_pci;
	struct pci_address pci;
	bool is_mig, is_given;
	uint32_t gi, ci;
};

struct gpunodes_plan {
	struct gpunodes_device *devices; /* owned */
	size_t count;
};

struct gpunodes_node {
	uint32_t major, minor; /* of a character device */
};

struct gpunodes {
	struct gpunodes_node *nodes; /* owned; ascending, each once */
	size_t count;
	/* Of how many devices the nodes could not be told. */
	uint32_t unknown;
	/* What has to stay open: GPUs and MIG devices that were given, and each node in /dev/dri
	 * that is not denied. */
	struct gpunodes_node kept[GPUNODES_KEPT_MAX];
	size_t kept_count;
	bool is_closed;	     /* all that was given is in `kept`: the rest of the numbers may go */
	uint32_t caps_major; /* of nvidia-caps; 0: not known */
};

/* Minors of character devices, both ends included. */
struct gpunodes_range {
	uint32_t major, first, last;
};

/* What is not among `uuids`. A GPU is given with each of its MIG devices. -ENOMEM. Pure. */
int gpunodes_plan(const struct inventory *inventory, const char *const *uuids, size_t count,
		  struct gpunodes_plan *out, struct err *err);
void gpunodes_plan_done(struct gpunodes_plan *plan);

/*
 * The nodes of the plan below `root` ("" for the real ones, "/dev/nvidia0" of which need not be
 * there): those of GPUs, their DRM nodes, the capabilities of MIG devices that were not given, and
 * those with which MIG is configured and watched. Stand-ins of a simulated machine that are links
 * to memory devices (/dev/zero) are no way to a GPU and left out. -ENOMEM, -E2BIG.
 */
int gpunodes_find(const struct gpunodes_plan *plan, const char *root, struct gpunodes *out,
		  struct err *err);
void gpunodes_done(struct gpunodes *nodes);

/*
 * What to deny: the nodes, and with them every number that a GPU, its DRM nodes or a MIG instance
 * could get that appears later, so that nobody needs to be told of one. `*out` is owned, ascending;
 * none overlap. -ENOMEM. Pure.
 */
int gpunodes_ranges(const struct gpunodes *nodes, struct gpunodes_range **out, size_t *out_count,
		    struct err *err);

#endif
