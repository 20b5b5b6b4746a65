/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What decides about replies to the kubelet and is read from the machine at once, without a driver
 * call: device nodes that are there, the numbers of MIG capabilities, the IMEX channel.
 */
#ifndef SLUICE_DOORS_KUBELET_SURROUNDINGS_H
#define SLUICE_DOORS_KUBELET_SURROUNDINGS_H

#include "base/file.h"
#include "doors/kubelet/resource.h"

struct config;
struct err;
struct inventory;

#define SURROUNDINGS_IMEX_PATH "/dev/nvidia-caps-imex-channels/channel0"

struct surroundings {
	struct resource_surroundings resource; /* points into the rest: do not copy */
	struct minors *minors;		       /* owned */
	char imex[FILE_PATH_MAX];
	/* Why nothing may be handed out; "": nothing is wrong. The IMEX channel is required and
	 * not there. */
	char problem[RESOURCE_REASON_MAX];
	/* What could not be had and is only missed; "": nothing. For the log. */
	char warning[RESOURCE_REASON_MAX];
};

/*
 * Fills `out`. `root`: before /dev and /proc. The numbers of MIG capabilities are read only where
 * there are MIG devices: the file has thousands of lines. -ENOMEM; whatever else cannot be read is
 * a warning, and the MIG devices that it concerns are unhealthy.
 */
int surroundings_read(const char *root, const struct config *config,
		      const struct inventory *inventory, struct surroundings *out, struct err *err);
void surroundings_done(struct surroundings *surroundings);

#endif
