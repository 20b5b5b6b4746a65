/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cluster/nodelabels.h"

#include <stdio.h>
#include <string.h>

#include "agent/doors/door_kubelet.h"
#include "agent/cluster/kube.h"
#include "agent/node.h"
#include "base/check.h"
#include "base/log.h"
#include "base/names.h"
#include "base/text.h"
#include "policy/config.h"

#define NODELABELS_WORKLOAD  "nvidia.com/gpu.workload.config"
#define NODELABELS_OPERANDS  "nvidia.com/gpu.deploy.operands"
#define NODELABELS_PLUGIN    "nvidia.com/gpu.deploy.device-plugin"
#define NODELABELS_DISCOVERY "nvidia.com/gpu.deploy.gpu-feature-discovery"
#define NODELABELS_UPGRADE   "nvidia.com/gpu-driver-upgrade-state"

/* "paused-for-driver-upgrade", and the MIG manager's "paused-for-mig-change": somebody needs a GPU
 * that nobody has open.
 * https://github.com/NVIDIA/mig-parted/blob/main/deployments/container/reconfigure-mig.sh */
static bool nodelabels_is_paused(const char *value)
{
	return text_starts_with(value, "paused-for-");
}

static void nodelabels_say(char out[NODELABELS_TEXT_MAX], const char *name, const char *value)
{
	(void)snprintf(out, NODELABELS_TEXT_MAX, "the node's label %s is %s", name, value);
}

/* From when the node is to get no more pods until the new driver is there. What comes after that
 * (validation-required) needs GPUs: the operator's validator may run a pod with one. */
static bool nodelabels_is_upgrade(const char *state)
{
	static const char *const states[] = {"cordon-required", "wait-for-jobs-required",
					     "pod-deletion-required", "drain-required",
					     "pod-restart-required"};

	return names_find(states, state) >= 0;
}

void nodelabels_judge(const struct nodelabels_values *values, bool obeys,
		      struct nodelabels_wish *out)
{
	bool no_operands = obeys && strcmp(values->operands, "false") == 0;

	*out = (struct nodelabels_wish){.release = ""};
	if (strcmp(values->workload, "vm-passthrough") == 0 ||
	    strcmp(values->workload, "vm-vgpu") == 0) {
		nodelabels_say(out->kubelet_off, NODELABELS_WORKLOAD, values->workload);
		nodelabels_say(out->labels_off, NODELABELS_WORKLOAD, values->workload);
	} else if (no_operands) {
		nodelabels_say(out->kubelet_off, NODELABELS_OPERANDS, values->operands);
		nodelabels_say(out->labels_off, NODELABELS_OPERANDS, values->operands);
	}

	if (!*out->kubelet_off && obeys && strcmp(values->plugin, "false") == 0)
		nodelabels_say(out->kubelet_off, NODELABELS_PLUGIN, values->plugin);
	if (!*out->labels_off && obeys && strcmp(values->discovery, "false") == 0)
		nodelabels_say(out->labels_off, NODELABELS_DISCOVERY, values->discovery);

	if (nodelabels_is_upgrade(values->upgrade))
		nodelabels_say(out->release, NODELABELS_UPGRADE, values->upgrade);
	else if (nodelabels_is_paused(values->plugin))
		nodelabels_say(out->release, NODELABELS_PLUGIN, values->plugin);
	else if (nodelabels_is_paused(values->discovery))
		nodelabels_say(out->release, NODELABELS_DISCOVERY, values->discovery);
}

void nodelabels_set(struct nodelabels *nodelabels, const struct kube_label *labels, size_t count)
{
	struct nodelabels_values values = {.workload = ""};
	const struct {
		const char *name;
		char *value;
	} places[] = {
	    {NODELABELS_WORKLOAD, values.workload}, {NODELABELS_OPERANDS, values.operands},
	    {NODELABELS_PLUGIN, values.plugin},	    {NODELABELS_DISCOVERY, values.discovery},
	    {NODELABELS_UPGRADE, values.upgrade},
	};

	for (size_t i = 0; i < count; i++) {
		for (size_t k = 0; k < array_length(places); k++) {
			if (strcmp(labels[i].name, places[k].name) == 0)
				(void)snprintf(places[k].value, NODELABELS_VALUE_MAX, "%s",
					       labels[i].value);
		}
	}

	nodelabels->values = values;
}

void nodelabels_signal(struct nodelabels *nodelabels, struct node *node)
{
	nodelabels->is_by_signal = true;
	node_release(node, NODELABELS_SIGNAL_NS);
}

/* --- doing ----------------------------------------------------------------------------------- */

static void nodelabels_release(struct nodelabels *nodelabels, struct node *node, struct log *log)
{
	bool wants = *nodelabels->wish.release != '\0';
	if (wants == nodelabels->is_upgrading)
		return;

	nodelabels->is_upgrading = wants;
	log_write(log, LOG_LEVEL_NOTICE, NULL, "%s%s",
		  wants ? nodelabels->wish.release
			: "the node's labels say that the driver is there",
		  wants ? ": letting go of the driver" : " again");
	node_release(node, wants ? NODELABELS_UPGRADE_NS : 0);
}

static void nodelabels_hold(const struct nodelabels *nodelabels, const struct node *node,
			    struct door_kubelet *kubelet)
{
	const char *why = nodelabels->wish.release;
	bool is_released = node_released_until_ns(node) != 0;

	if (nodelabels->is_by_signal && !nodelabels->is_upgrading)
		why = "the driver is let go, as SIGUSR2 has asked for";

	if (*nodelabels->wish.kubelet_off)
		door_kubelet_hold(kubelet, DOOR_KUBELET_SHUT, nodelabels->wish.kubelet_off);
	else if (is_released && (nodelabels->is_upgrading || nodelabels->is_by_signal))
		door_kubelet_hold(kubelet, DOOR_KUBELET_UNHEALTHY, why);
	else
		door_kubelet_hold(kubelet, DOOR_KUBELET_OPEN, "");
}

bool nodelabels_apply(struct nodelabels *nodelabels, struct node *node,
		      struct door_kubelet *kubelet, struct log *log)
{
	struct nodelabels_wish before = nodelabels->wish;
	bool obeys = node_config(node)->deploy_labels == CONFIG_DEPLOY_OBEY;

	nodelabels_judge(&nodelabels->values, obeys, &nodelabels->wish);
	bool is_new = strcmp(before.kubelet_off, nodelabels->wish.kubelet_off) != 0;
	if (is_new)
		log_write(log, LOG_LEVEL_NOTICE, NULL, "%s%s",
			  *nodelabels->wish.kubelet_off ? nodelabels->wish.kubelet_off
							: "the node's labels allow it",
			  *nodelabels->wish.kubelet_off ? ": nothing is handed out to the kubelet"
							: ": devices go to the kubelet again");

	nodelabels_release(nodelabels, node, log);
	if (node_released_until_ns(node) == 0)
		nodelabels->is_by_signal = false;
	if (kubelet)
		nodelabels_hold(nodelabels, node, kubelet);

	return is_new;
}
