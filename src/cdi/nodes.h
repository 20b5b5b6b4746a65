/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device nodes of the driver that are missing in /dev although their module is loaded: after a boot
 * nothing has made /dev/nvidia-uvm before the first CUDA program did, and a container that is given
 * what is there lacks it for good. They are made as the driver wants them (nvidia-modprobe does the
 * same), never changed and never removed. Knows nothing of specifications.
 *
 * Facts: https://github.com/NVIDIA/nvidia-modprobe (modprobe-utils/nvidia-modprobe-utils.c);
 * Documentation/admin-guide/devices.txt of the Linux kernel.
 */
#ifndef SLUICE_CDI_NODES_H
#define SLUICE_CDI_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct buf;
struct err;
struct inventory;

enum nodes_limits {
	NODES_TEXT_MAX = 1 << 16, /* bytes of a file in /proc */
	NODES_MAJOR_MAX = 4095,
	NODES_MINOR_MAX = 0xfffff,
};

/* What /proc/devices gives the driver's modules; 0: not loaded. */
struct nodes_majors {
	uint32_t nvidia, uvm, caps;
};
/* The body of /proc/devices. Always succeeds: what is not there stays 0. */
void nodes_devices_parse(const char *text, size_t length, struct nodes_majors *out);

/* How the driver wants a node. */
struct nodes_rule {
	bool may_make; /* else somebody else does: ModifyDeviceFiles, DeviceFileModify */
	bool has_minor;
	uint32_t minor; /* DeviceFileMinor; of capabilities */
	uint32_t uid, gid, mode;
};
/* /proc/driver/nvidia/params, and the files below /proc/driver/nvidia/capabilities. Always
 * succeeds: what is not there, or out of range, stays as it is. */
void nodes_rule_parse(const char *text, size_t length, struct nodes_rule *out);

struct nodes_options {
	const char *root; /* before /dev, /proc and /sys; "" for the real ones */
	/* Makes a character device: 0 or -errno. NULL: mknod(2), with this owner and mode whatever
	 * the umask is. For tests. */
	int (*make)(void *context, const char *path, mode_t mode, uid_t uid, gid_t gid,
		    dev_t device);
	void *context;
};

/*
 * Makes what is missing of /dev/nvidiactl, nvidia-modeset, nvidia-uvm, nvidia-uvm-tools and of the
 * capabilities of the inventory's MIG devices. Returns how many it has made; `notes` (may be NULL)
 * gets a line for each. -errno of the first that could not be made, after the others.
 */
int nodes_make(const struct nodes_options *options, const struct inventory *inventory,
	       struct buf *notes, struct err *err);

#endif
