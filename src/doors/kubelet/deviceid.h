/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names that device plugins give to GPUs and parts of them: ours and NVIDIA's, and those of
 * Google's plugin. Whatever else a container holds is no GPU. Pure.
 *
 * Sources: https://github.com/NVIDIA/k8s-device-plugin (internal/rm), its releases before 0.8 for
 * MIG-GPU-UUID/gi/ci; https://github.com/GoogleCloudPlatform/container-engine-accelerators
 * (pkg/gpu/nvidia: nvidia0, nvidia0/gi3, nvidia0/vgpu1). Google's have not been seen on a machine.
 */
#ifndef SLUICE_DOORS_KUBELET_DEVICEID_H
#define SLUICE_DOORS_KUBELET_DEVICEID_H

#include <stddef.h>
#include <stdint.h>

enum deviceid_limits {
	DEVICEID_UUID_MAX = 96,
	DEVICEID_NUMBER_MAX = 65535,
};
#define DEVICEID_NONE UINT32_MAX

enum deviceid_kind {
	DEVICEID_UUID,	/* a GPU or MIG device by its UUID */
	DEVICEID_PLACE, /* a MIG device by its GPU's UUID and instances */
	DEVICEID_MINOR, /* /dev/nvidia<minor>, or a GPU instance of it */
};

struct deviceid {
	enum deviceid_kind kind;
	char uuid[DEVICEID_UUID_MAX]; /* "GPU-...", "MIG-..."; "" for DEVICEID_MINOR */
	uint32_t minor;		      /* DEVICEID_NONE unless DEVICEID_MINOR */
	uint32_t gi, ci;	      /* DEVICEID_NONE: not said */
	uint32_t slot;		      /* the replica; DEVICEID_NONE: the whole device */
};

/* "GPU-UUID", "MIG-UUID", each with "::N"; "MIG-GPU-UUID/gi/ci"; "nvidia0", "nvidia0/gi3", each
 * with "/vgpuN". -EINVAL: none of these. */
int deviceid_parse(const char *text, size_t length, struct deviceid *out);

#endif
