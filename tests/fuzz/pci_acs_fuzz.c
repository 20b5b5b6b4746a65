/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as PCI configuration space, and as the type of an IOMMU group. */
#include <stdint.h>
#include <stdlib.h>

#include "hardware/pci_acs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pci_acs acs;
	pci_acs_parse(data, size, &acs);
	if (size <= PCI_ACS_EXTENDED && acs.state != PCI_ACS_UNKNOWN)
		abort();
	if (acs.port_type > 15 && acs.port_type != PCI_PORT_UNKNOWN)
		abort();
	if (pci_acs_redirects(&acs) && acs.state != PCI_ACS_PRESENT)
		abort();
	(void)pci_iommu_parse((const char *)data, size);
	return 0;
}
