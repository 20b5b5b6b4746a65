/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/vgpu.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "hardware/pci.h"

enum config_space {
	CONFIG_STATUS = 0x06,
	CONFIG_STATUS_LIST = 0x10, /* there is a capability list */
	CONFIG_LIST = 0x34,
	CONFIG_VENDOR_SPECIFIC = 0x09,
	CONFIG_NO_DEVICE = 0xff,
	CONFIG_STEPS_MAX = 48, /* what fits between the head and the end */
	CONFIG_READ_MAX = 4096,
	CAPABILITY_HEAD = 5, /* id, next, length, 'V', 'F' */
	RECORD_HEAD = 2,
	RECORD_HOST_DRIVER = 0,
	RECORD_TEXT = VGPU_TEXT_SIZE - 1,
};

/* Where the first vendor-specific capability is; 0: there is none. */
static size_t find_capability(const uint8_t *config)
{
	if (!(config[CONFIG_STATUS] & CONFIG_STATUS_LIST))
		return 0;

	size_t at = config[CONFIG_LIST];

	/* Counting the steps ends a list that leads back into itself. */
	for (int steps = 0; steps < CONFIG_STEPS_MAX && at != 0 && at + 2 < VGPU_CONFIG_MIN;
	     steps++) {
		if (config[at] == CONFIG_VENDOR_SPECIFIC)
			return at;
		if (config[at] == CONFIG_NO_DEVICE)
			return 0;
		at = config[at + 1];
	}

	return 0;
}

static void copy_text(const uint8_t *from, char out[VGPU_TEXT_SIZE])
{
	memcpy(out, from, RECORD_TEXT);
	out[RECORD_TEXT] = '\0';
}

int vgpu_parse(const void *bytes, size_t length, struct vgpu *out)
{
	const uint8_t *config = bytes;
	struct vgpu found = {.host_version = ""};

	if (length < VGPU_CONFIG_MIN)
		return -EINVAL;

	size_t start = find_capability(config);
	if (start == 0 || start + CAPABILITY_HEAD > VGPU_CONFIG_MIN || config[start + 3] != 'V' ||
	    config[start + 4] != 'F')
		return 0;

	size_t end = start + config[start + 2];
	if (end > VGPU_CONFIG_MIN)
		end = VGPU_CONFIG_MIN;

	/* A record of length 0 would never end. */
	for (size_t at = start + CAPABILITY_HEAD; at + RECORD_HEAD <= end && config[at + 1] != 0;
	     at += config[at + 1]) {
		if (config[at] != RECORD_HOST_DRIVER)
			continue;
		if (at + RECORD_HEAD + 2 * (size_t)RECORD_TEXT <= end) {
			copy_text(config + at + RECORD_HEAD, found.host_version);
			copy_text(config + at + RECORD_HEAD + RECORD_TEXT, found.host_branch);
		}
		break;
	}

	*out = found;
	return 1;
}

enum vgpu_presence vgpu_read(const char *root, struct vgpu *out)
{
	struct pci_address devices[PCI_LIST_MAX];
	uint32_t count = pci_list_vendor(root, PCI_VENDOR_NVIDIA, devices, PCI_LIST_MAX);
	enum vgpu_presence presence = VGPU_NONE;
	_cleanup_buf_ struct buf config;

	buf_init(&config, CONFIG_READ_MAX);

	for (uint32_t i = 0; i < count && presence != VGPU_PRESENT; i++) {
		char path[FILE_PATH_MAX], address[PCI_TEXT_MAX];

		buf_clear(&config);
		int rc = file_path(path, NULL, "%s/sys/bus/pci/devices/%s/config", root,
				   pci_address_to_string(&devices[i], address));
		if (rc == 0)
			rc = file_read(path, &config, NULL);
		if (rc == 0)
			rc = vgpu_parse(config.data, config.length, out);

		if (rc < 0)
			presence = VGPU_UNKNOWN;
		else if (rc > 0)
			presence = VGPU_PRESENT;
	}

	return presence;
}
