/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From what is in the machine and how it is shared to the labels of the node: those of NVIDIA's GPU
 * feature discovery, under the same names and with the same values. A pure function of its facts:
 * the same facts give the same set, whatever the order in which GPUs were found. Knows nothing of
 * files and of Kubernetes.
 *
 * Where it differs from GPU feature discovery: on a node with several GPU models the labels
 * gpu.* describe one of them, always the same, instead of another at each round; a GPU, a file or a
 * value that fails costs its own labels only; values are always ones that Kubernetes accepts.
 *
 * Facts: internal/lm of https://github.com/NVIDIA/k8s-device-plugin.
 */
#ifndef SLUICE_DOORS_LABELS_LABELS_H
#define SLUICE_DOORS_LABELS_LABELS_H

#include <stddef.h>
#include <stdint.h>

#include "hardware/gpu.h"
#include "hardware/vgpu.h"

struct config;
struct err;
struct label_set;
struct policy;
struct policy_surroundings;

#define LABELS_CLASS_UNKNOWN UINT32_MAX
#define LABELS_MACHINE_MAX   4096 /* bytes of the machine file that are looked at */

/* What is read beside the inventory, by facts.h. */
struct labels_facts {
	uint32_t class_[GPU_MAX];	  /* PCI class 0x030200 of inventory.gpus[i], or UNKNOWN */
	char machine[LABELS_MACHINE_MAX]; /* content of the machine file */
	size_t machine_length;
	bool has_machine;
	enum vgpu_presence vgpu_presence;
	struct vgpu vgpu;
	int64_t start_s; /* seconds since 1970 of the start or reload; 0: no timestamp */
};

/*
 * Makes the set; `out` must be initialised and is replaced on success. `policy` is that of the same
 * inventory and configuration; it says what is shared, how often and under which name. GPUs whose
 * state is not ok are not counted. Warnings are in the set. -ENOMEM.
 */
int labels_make(const struct inventory *inventory, const struct config *config,
		const struct policy_surroundings *surroundings, const struct policy *policy,
		const struct labels_facts *facts, struct label_set *out, struct err *err);

/* "hopper" for 9.0; "undefined" for what this build does not know. */
const char *labels_family(uint32_t cc_major, uint32_t cc_minor);

#endif
