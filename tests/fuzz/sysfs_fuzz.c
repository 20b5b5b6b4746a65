/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of /sys and /proc/driver/nvidia: the same bytes through every parser of hardware/pci.h. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hardware/pci.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct pci_address address, again;
	if (pci_parse_address(text, size, &address) == 0) {
		/* What is taken for an address can be printed and read again. */
		char printed[PCI_TEXT_MAX];
		pci_address_to_string(&address, printed);
		if (address.domain <= 0xffff &&
		    (pci_parse_address(printed, strlen(printed), &again) < 0 ||
		     pci_address_compare(&address, &again) != 0))
			abort();
	}
	int32_t node;
	uint32_t number;
	if (pci_parse_numa_node(text, size, &node) == 0 && node < GPU_NUMA_NONE)
		abort();
	(void)pci_parse_hex(text, size, &number);
	if (pci_parse_link_speed(text, size) > 6 || pci_parse_link_width(text, size) > 64)
		abort();
	char list[PCI_CPULIST_MAX], version[GPU_VERSION_MAX];
	if (pci_parse_cpulist(text, size, list) == 0 && strlen(list) >= PCI_CPULIST_MAX)
		abort();
	if (pci_parse_nvidia_version(text, size, version) == 0 && !strchr(version, '.'))
		abort();
	struct pci_path path;
	if (pci_parse_path(text, size, &path) == 0) {
		if (path.depth == 0 || path.depth > PCI_PATH_DEPTH_MAX ||
		    pci_path_level(&path, 0, &path, 0) != GPU_LEVEL_INTERNAL)
			abort();
	}
	struct pci_nvidia_information information;
	pci_parse_nvidia_information(text, size, &information);
	if (!memchr(information.uuid, '\0', sizeof(information.uuid)) ||
	    !memchr(information.model, '\0', sizeof(information.model)))
		abort();
	return 0;
}
