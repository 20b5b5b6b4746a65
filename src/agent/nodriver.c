/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/nodriver.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "hardware/pci.h"
#include "policy/config.h"

enum nodriver_class { NODRIVER_VGA = 0x0300, NODRIVER_3D = 0x0302 };

bool nodriver_is_fatal(const struct config *config, bool has_kubelet, bool has_jobs)
{
	const struct config_door *kubelet = &config->doors[POLICY_DOOR_KUBELET];
	bool is_all_elsewhere = false;

	for (int door = 0; door < POLICY_DOOR_NONE; door++)
		is_all_elsewhere |= door != POLICY_DOOR_KUBELET && config->doors[door].all;

	bool for_kubelet =
	    kubelet->is_set ? kubelet->all || kubelet->devices.count > 0 : !is_all_elsewhere;

	return config->fail_on_init_error && has_kubelet && for_kubelet && !has_jobs;
}

bool nodriver_find_gpu(const char *root, struct pci_address *out)
{
	_cleanup_free_ struct pci_device *devices = calloc(PCI_LIST_MAX, sizeof(*devices));
	uint32_t count =
	    devices ? pci_list_class(root, PCI_CLASS_DISPLAY, devices, PCI_LIST_MAX) : 0;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t class_ = devices[i].class_ >> 8;
		if (devices[i].vendor == PCI_VENDOR_NVIDIA &&
		    (class_ == NODRIVER_VGA || class_ == NODRIVER_3D)) {
			*out = devices[i].address;
			return true;
		}
	}

	return false;
}
