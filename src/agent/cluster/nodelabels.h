/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What people and the GPU Operator say about this node by labels, and what the agent does about it:
 * nothing for the kubelet on a node whose GPUs go to virtual machines, a door shut that nobody
 * wants, the driver let go while it is replaced. The labels are read, never written. Knows nothing
 * of how they got here (kube.h). All of it belongs to the loop's thread.
 *
 * Facts: https://github.com/NVIDIA/gpu-operator/blob/main/controllers/state_manager.go,
 * https://github.com/NVIDIA/k8s-operator-libs/blob/main/pkg/upgrade/consts.go,
 * https://github.com/NVIDIA/k8s-driver-manager (paused-for-driver-upgrade).
 */
#ifndef SLUICE_AGENT_CLUSTER_NODELABELS_H
#define SLUICE_AGENT_CLUSTER_NODELABELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct door_kubelet;
struct kube_label;
struct log;
struct node;

enum nodelabels_limits {
	NODELABELS_VALUE_MAX = 64,
	NODELABELS_TEXT_MAX = 192,
};
/* How long the driver is let go, unless the labels or a person end it before. */
#define NODELABELS_UPGRADE_NS UINT64_C(31536000000000000) /* a year: until the labels say so */
#define NODELABELS_SIGNAL_NS  UINT64_C(600000000000)	  /* of SIGUSR2 */

/* What they say; "" is not set. */
struct nodelabels_values {
	char workload[NODELABELS_VALUE_MAX];  /* nvidia.com/gpu.workload.config */
	char operands[NODELABELS_VALUE_MAX];  /* nvidia.com/gpu.deploy.operands */
	char plugin[NODELABELS_VALUE_MAX];    /* nvidia.com/gpu.deploy.device-plugin */
	char discovery[NODELABELS_VALUE_MAX]; /* nvidia.com/gpu.deploy.gpu-feature-discovery */
	char upgrade[NODELABELS_VALUE_MAX];   /* nvidia.com/gpu-driver-upgrade-state */
};

/* What follows: each a sentence with the reason, or "". */
struct nodelabels_wish {
	char kubelet_off[NODELABELS_TEXT_MAX]; /* nothing is handed out to the kubelet */
	char labels_off[NODELABELS_TEXT_MAX];  /* no labels are published */
	char release[NODELABELS_TEXT_MAX];     /* the driver is let go */
};

/* Pure. `obeys`: sluice.deployLabels. */
void nodelabels_judge(const struct nodelabels_values *values, bool obeys,
		      struct nodelabels_wish *out);

/* In the caller's memory; zero-initialised: nothing is known and nothing wanted. */
struct nodelabels {
	struct nodelabels_values values;
	struct nodelabels_wish wish;
	bool is_upgrading; /* we have let go of the driver because of the labels */
	bool is_by_signal; /* or because of a signal */
};

/* They are these now. */
void nodelabels_set(struct nodelabels *nodelabels, const struct kube_label *labels, size_t count);
/* SIGUSR2: the driver is let go for NODELABELS_SIGNAL_NS, as for an upgrade. */
void nodelabels_signal(struct nodelabels *nodelabels, struct node *node);
/* Does what they ask for, but for labels_off; after every change of labels, configuration or
 * machine. Cheap when there is nothing new. `kubelet` may be NULL. True: kubelet_off is another. */
bool nodelabels_apply(struct nodelabels *nodelabels, struct node *node,
		      struct door_kubelet *kubelet, struct log *log);

#endif
