/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What makes traffic between two devices take the long way through the root complex: access control
 * services (ACS) of the bridges between them, and an IOMMU that translates. Only looks; the setting
 * itself is the administrator's. Knows nothing of GPUs or adapters.
 *
 * Facts: PCI_EXT_CAP_ID_ACS and PCI_ACS_* of linux/pci_regs.h;
 * Documentation/ABI/testing/sysfs-kernel-iommu_groups.
 */
#ifndef SLUICE_HARDWARE_PCI_ACS_H
#define SLUICE_HARDWARE_PCI_ACS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hardware/pci.h"

enum pci_acs_limits {
	PCI_ACS_LINK_MAX = 48,	/* capabilities of one list that are followed: lists may loop */
	PCI_ACS_CONFIG = 4096,	/* all of a function's configuration space */
	PCI_ACS_EXTENDED = 256, /* here the extended capabilities begin */
	PCI_ACS_BRIDGE_MAX = 2 * PCI_PATH_DEPTH_MAX,
};

enum pci_acs_control {
	PCI_ACS_REQUEST_REDIRECT = 0x04,
	PCI_ACS_COMPLETION_REDIRECT = 0x08,
};

enum pci_acs_state {
	PCI_ACS_UNKNOWN, /* the kernel shows only the first bytes without CAP_SYS_ADMIN, or garbage
			  */
	PCI_ACS_ABSENT,	 /* the function has no such capability */
	PCI_ACS_PRESENT,
};

enum pci_port_type { /* PCI_EXP_TYPE_* */
		     PCI_PORT_ENDPOINT = 0,
		     PCI_PORT_ROOT = 4,
		     PCI_PORT_UPSTREAM = 5,
		     PCI_PORT_DOWNSTREAM = 6,
		     PCI_PORT_UNKNOWN = 255,
};

struct pci_acs {
	uint32_t state;	    /* enum pci_acs_state */
	uint32_t port_type; /* as the PCI Express capability gives it; PCI_PORT_UNKNOWN */
	uint16_t control;   /* enum pci_acs_control; valid when present */
};

enum pci_iommu {
	PCI_IOMMU_UNKNOWN,
	PCI_IOMMU_OFF,	       /* the device is in no group */
	PCI_IOMMU_PASSTHROUGH, /* "identity" */
	PCI_IOMMU_TRANSLATED,  /* "DMA", "DMA-FQ" */
};

/* An image of configuration space, as /sys/bus/pci/devices/<address>/config gives it; cut anywhere,
 * or nonsense: then what it does not say is unknown. Pure. */
void pci_acs_parse(const uint8_t *config, size_t length, struct pci_acs *out);
/* Whether a root or downstream port sends peer traffic to the root complex. */
bool pci_acs_redirects(const struct pci_acs *acs);
/* The text of /sys/kernel/iommu_groups/<n>/type. Pure. */
enum pci_iommu pci_iommu_parse(const char *text, size_t length);

/*
 * The bridges that a packet between two devices crosses on its way up to what they have in common:
 * those of `a` first, from the top down. Pure. Returns how many.
 */
uint32_t pci_acs_bridges(const struct pci_path *a, const struct pci_path *b,
			 struct pci_address out[PCI_ACS_BRIDGE_MAX]);

/* Readers below `root`; what cannot be read is unknown. */
void pci_acs_read(const char *root, const struct pci_address *address, struct pci_acs *out);
enum pci_iommu pci_iommu_read(const char *root, const struct pci_address *address);

#endif
