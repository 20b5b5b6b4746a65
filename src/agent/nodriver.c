/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/nodriver.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "hardware/pci.h"
#include "policy/config.h"

enum nodriver_class { NODRIVER_VGA = 0x0300, NODRIVER_3D = 0x0302 };

bool nodriver_is_fatal(const struct config *config, bool has_kubelet, bool has_jobs)
{
	bool for_kubelet = config->kubelet.is_set
			       ? config->kubelet.all || config->kubelet.devices.count > 0
			       : !(config->queue.is_set && config->queue.all);
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
