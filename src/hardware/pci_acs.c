/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/pci_acs.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/file.h"

enum { /* linux/pci_regs.h */
       STATUS = 0x06,
       STATUS_CAPABILITIES = 0x10,
       CAPABILITY_LIST = 0x34,
       CAPABILITY_FIRST = 0x40,
       CAPABILITY_EXPRESS = 0x10,
       EXTENDED_ACS = 0x000d,
       ACS_CONTROL = 6,
};

/* False: the image ends before. */
static bool get_u16(const uint8_t *config, size_t length, size_t at, uint32_t *out)
{
	if (length < 2 || at > length - 2)
		return false;
	*out = (uint32_t)config[at] | (uint32_t)config[at + 1] << 8;
	return true;
}

static uint32_t find_port_type(const uint8_t *config, size_t length)
{
	uint32_t status, word;
	if (!get_u16(config, length, STATUS, &status) || !(status & STATUS_CAPABILITIES) ||
	    !get_u16(config, length, CAPABILITY_LIST, &word))
		return PCI_PORT_UNKNOWN;

	uint32_t at = word & 0xfc;

	for (int i = 0; i < PCI_ACS_LINK_MAX && at >= CAPABILITY_FIRST; i++) {
		uint32_t flags;

		if (!get_u16(config, length, at, &word))
			return PCI_PORT_UNKNOWN;
		if ((word & 0xff) == CAPABILITY_EXPRESS)
			return get_u16(config, length, at + 2, &flags) ? flags >> 4 & 0xf
								       : PCI_PORT_UNKNOWN;

		at = word >> 8 & 0xfc;
	}

	return PCI_PORT_UNKNOWN;
}

void pci_acs_parse(const uint8_t *config, size_t length, struct pci_acs *out)
{
	*out =
	    (struct pci_acs){.state = PCI_ACS_UNKNOWN, .port_type = find_port_type(config, length)};
	size_t at = PCI_ACS_EXTENDED;

	if (length > PCI_ACS_CONFIG)
		length = PCI_ACS_CONFIG;

	for (int i = 0; i < PCI_ACS_LINK_MAX; i++) {
		uint32_t id, rest, control;
		if (!get_u16(config, length, at, &id) || !get_u16(config, length, at + 2, &rest))
			return;

		/* All ones is a device that does not answer. */
		if (id == 0xffff)
			return;

		if (id == EXTENDED_ACS) {
			if (!get_u16(config, length, at + ACS_CONTROL, &control))
				return;
			out->state = PCI_ACS_PRESENT;
			out->control = (uint16_t)control;
			return;
		}

		at = rest >> 4 & 0xffc;
		if (at < PCI_ACS_EXTENDED) {
			out->state = PCI_ACS_ABSENT;
			return;
		}
	}
}

bool pci_acs_redirects(const struct pci_acs *acs)
{
	bool is_port = acs->port_type == PCI_PORT_ROOT || acs->port_type == PCI_PORT_DOWNSTREAM;
	return acs->state == PCI_ACS_PRESENT && is_port &&
	       (acs->control & (PCI_ACS_REQUEST_REDIRECT | PCI_ACS_COMPLETION_REDIRECT)) != 0;
}

enum pci_iommu pci_iommu_parse(const char *text, size_t length)
{
	static const struct {
		const char *text;
		enum pci_iommu iommu;
	} types[] = {{"identity", PCI_IOMMU_PASSTHROUGH},
		     {"DMA", PCI_IOMMU_TRANSLATED},
		     {"DMA-FQ", PCI_IOMMU_TRANSLATED}};

	while (length > 0 && text[length - 1] == '\n')
		length--;

	for (size_t i = 0; i < array_length(types); i++)
		if (strlen(types[i].text) == length && memcmp(text, types[i].text, length) == 0)
			return types[i].iommu;

	return PCI_IOMMU_UNKNOWN;
}

uint32_t pci_acs_bridges(const struct pci_path *a, const struct pci_path *b,
			 struct pci_address out[PCI_ACS_BRIDGE_MAX])
{
	uint32_t common = 0, count = 0;

	if (a->root_domain == b->root_domain && a->root_bus == b->root_bus)
		while (common < a->depth && common < b->depth &&
		       pci_address_compare(&a->hop[common], &b->hop[common]) == 0)
			common++;

	/* The last hop is the device itself. */
	for (uint32_t i = common; i + 1 < a->depth; i++)
		out[count++] = a->hop[i];

	for (uint32_t i = common; i + 1 < b->depth; i++)
		out[count++] = b->hop[i];

	return count;
}

void pci_acs_read(const char *root, const struct pci_address *address, struct pci_acs *out)
{
	char path[FILE_PATH_MAX], text[PCI_TEXT_MAX];
	_cleanup_buf_ struct buf config;

	buf_init(&config, PCI_ACS_CONFIG);
	if (file_path(path, NULL, "%s/sys/bus/pci/devices/%s/config", root,
		      pci_address_to_string(address, text)) < 0 ||
	    file_read(path, &config, NULL) < 0)
		buf_clear(&config);

	pci_acs_parse((const uint8_t *)buf_text(&config), config.length, out);
}

enum pci_iommu pci_iommu_read(const char *root, const struct pci_address *address)
{
	char path[FILE_PATH_MAX], text[PCI_TEXT_MAX];
	pci_address_to_string(address, text);

	if (file_path(path, NULL, "%s/sys/bus/pci/devices/%s", root, text) < 0 ||
	    !file_exists(path))
		return PCI_IOMMU_UNKNOWN;

	(void)file_path(path, NULL, "%s/sys/bus/pci/devices/%s/iommu_group", root, text);
	char target[PATH_MAX];
	if (readlink(path, target, sizeof(target)) < 0)
		return PCI_IOMMU_OFF;

	_cleanup_buf_ struct buf type;
	buf_init(&type, PCI_FILE_MAX);
	(void)file_path(path, NULL, "%s/sys/bus/pci/devices/%s/iommu_group/type", root, text);

	if (file_read(path, &type, NULL) < 0)
		return PCI_IOMMU_UNKNOWN;

	return pci_iommu_parse(buf_text(&type), type.length);
}
