/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether this machine is a guest with a vGPU, and which driver its host has: a vendor capability
 * in the PCI configuration space of the GPU says both, whatever driver the guest has. The parser is
 * pure; the reader takes the root in front of /sys. Knows nothing of NVML.
 *
 * Facts: PCI Local Bus Specification 3.0, section 6.7 (capability list); the records inside the
 * capability as internal/vgpu of https://github.com/NVIDIA/k8s-device-plugin reads them.
 */
#ifndef SLUICE_HARDWARE_VGPU_H
#define SLUICE_HARDWARE_VGPU_H

#include <stdbool.h>
#include <stddef.h>

enum vgpu_limits {
	VGPU_CONFIG_MIN = 256, /* bytes of configuration space that have the capability list */
	VGPU_TEXT_SIZE = 11,   /* ten bytes and a NUL */
};

struct vgpu {
	char host_version[VGPU_TEXT_SIZE]; /* "580.105.08"; "" when it is not told */
	char host_branch[VGPU_TEXT_SIZE];  /* "r580_00" */
};

enum vgpu_presence {
	VGPU_UNKNOWN, /* the configuration space of a device cannot be read: it takes a privilege */
	VGPU_NONE,
	VGPU_PRESENT,
};

/* Looks at one device's configuration space. 1: a vGPU, and `out`; 0: none; -EINVAL: fewer than
 * VGPU_CONFIG_MIN bytes. */
int vgpu_parse(const void *bytes, size_t length, struct vgpu *out);

/* Looks at every NVIDIA device below `root`; of several vGPUs the one with the lowest address. */
enum vgpu_presence vgpu_read(const char *root, struct vgpu *out);

#endif
