/* SPDX-License-Identifier: Apache-2.0 */
/* The readers of hardware/pci.h: files of /proc and /sys in, the parsers of pci.c behind. */
#include "hardware/pci.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"

#define SYS_DEVICES "/sys/bus/pci/devices"

enum { SCAN_MAX = 4096 }; /* devices that one listing looks at */

static bool is_set(const char *variable)
{
	const char *value = getenv(variable);
	return value && value[0] != '\0';
}

const char *pci_root(void)
{
	if (is_set("SLUICE_ROOT"))
		return getenv("SLUICE_ROOT");
	return is_set("SLUICE_SIM_STATE") || is_set("SLUICE_SIM_PROFILE") ? PCI_NO_ROOT : "";
}

/* The file's bytes, or false: a file of /sys that cannot be read leaves its value unknown. */
static bool read_small(struct buf *out, const char *root, const char *dir, const char *name)
{
	char path[FILE_PATH_MAX];
	buf_clear(out);
	return file_path(path, NULL, "%s%s/%s", root, dir, name) == 0 &&
	       file_read(path, out, NULL) == 0;
}

static void read_link(const char *root, const char *dir, struct pci_device *out)
{
	char path[FILE_PATH_MAX], target[PATH_MAX];
	if (file_path(path, NULL, "%s%s", root, dir) < 0)
		return;
	ssize_t size = readlink(path, target, sizeof(target));
	if (size > 0 && (size_t)size < sizeof(target))
		out->has_path = pci_parse_path(target, (size_t)size, &out->path) == 0;
}

int pci_read_device(const char *root, const struct pci_address *address, struct pci_device *out,
		    struct err *err)
{
	char text[PCI_TEXT_MAX], dir[128];
	pci_address_to_string(address, text);
	(void)snprintf(dir, sizeof(dir), "%s/%s", SYS_DEVICES, text);

	char path[FILE_PATH_MAX];
	int rc = file_path(path, err, "%s%s", root, dir);
	if (rc < 0)
		return rc;
	if (access(path, F_OK) < 0) {
		rc = -errno;
		return err_set(err, rc, "PCI device '%s': %s", path, err_describe(rc));
	}

	struct pci_device device = {.address = *address, .numa_node = GPU_NUMA_NONE};
	_cleanup_buf_ struct buf file;

	buf_init(&file, PCI_FILE_MAX);
	if (read_small(&file, root, dir, "vendor"))
		(void)pci_parse_hex(buf_text(&file), file.length, &device.vendor);
	if (read_small(&file, root, dir, "device"))
		(void)pci_parse_hex(buf_text(&file), file.length, &device.device);
	if (read_small(&file, root, dir, "class"))
		(void)pci_parse_hex(buf_text(&file), file.length, &device.class_);

	if (read_small(&file, root, dir, "numa_node"))
		(void)pci_parse_numa_node(buf_text(&file), file.length, &device.numa_node);
	if (read_small(&file, root, dir, "local_cpulist"))
		(void)pci_parse_cpulist(buf_text(&file), file.length, device.cpulist);
	if (read_small(&file, root, dir, "current_link_speed"))
		device.link_gen = pci_parse_link_speed(buf_text(&file), file.length);
	if (read_small(&file, root, dir, "current_link_width"))
		device.link_width = pci_parse_link_width(buf_text(&file), file.length);

	if (read_small(&file, root, dir, "max_link_speed"))
		device.link_gen_max = pci_parse_link_speed(buf_text(&file), file.length);
	if (read_small(&file, root, dir, "max_link_width"))
		device.link_width_max = pci_parse_link_width(buf_text(&file), file.length);
	read_link(root, dir, &device);
	*out = device;

	return 0;
}

int pci_read_class(const char *root, const struct pci_address *address, uint32_t *out)
{
	char text[PCI_TEXT_MAX], dir[128];
	_cleanup_buf_ struct buf file;

	buf_init(&file, PCI_FILE_MAX);
	(void)snprintf(dir, sizeof(dir), "%s/%s", SYS_DEVICES,
		       pci_address_to_string(address, text));
	return read_small(&file, root, dir, "class")
		   ? pci_parse_hex(buf_text(&file), file.length, out)
		   : -ENOENT;
}

static int compare_address(const void *a, const void *b)
{
	return pci_address_compare(a, b);
}

/* The names of `dir` that are PCI addresses, ordered. */
static uint32_t list_addresses(const char *root, const char *dir, struct pci_address *out,
			       uint32_t max)
{
	char path[FILE_PATH_MAX];
	if (file_path(path, NULL, "%s%s", root, dir) < 0)
		return 0;

	_cleanup_closedir_ DIR *listing = opendir(path);
	if (!listing)
		return 0;

	uint32_t count = 0;
	const struct dirent *entry;
	while (count < max && (entry = readdir(listing))) {
		if (pci_parse_address(entry->d_name, strlen(entry->d_name), &out[count]) == 0)
			count++;
	}

	qsort(out, count, sizeof(*out), compare_address);
	return count;
}

/* The devices whose number in `file` is `wanted` once its last `shift` bits are gone. */
static uint32_t list_having(const char *root, const char *file, unsigned shift, uint32_t wanted,
			    struct pci_address *out, uint32_t max)
{
	_cleanup_free_ struct pci_address *all = calloc(SCAN_MAX, sizeof(*all));
	if (!all)
		return 0;

	uint32_t total = list_addresses(root, SYS_DEVICES, all, SCAN_MAX);
	_cleanup_buf_ struct buf text;

	buf_init(&text, PCI_FILE_MAX);
	uint32_t count = 0;

	for (uint32_t i = 0; i < total && count < max; i++) {
		char address[PCI_TEXT_MAX], dir[128];
		uint32_t value = 0;

		(void)snprintf(dir, sizeof(dir), "%s/%s", SYS_DEVICES,
			       pci_address_to_string(&all[i], address));
		if (read_small(&text, root, dir, file) &&
		    pci_parse_hex(buf_text(&text), text.length, &value) == 0 &&
		    value >> shift == wanted)
			out[count++] = all[i];
	}

	return count;
}

uint32_t pci_list_class(const char *root, enum pci_class class_, struct pci_device *out,
			uint32_t max)
{
	_cleanup_free_ struct pci_address *of_class = calloc(SCAN_MAX, sizeof(*of_class));
	if (!of_class)
		return 0;

	uint32_t total = list_having(root, "class", 16, (uint32_t)class_, of_class, SCAN_MAX);
	uint32_t count = 0;
	for (uint32_t i = 0; i < total && count < max; i++)
		if (pci_read_device(root, &of_class[i], &out[count], NULL) == 0)
			count++;

	return count;
}

uint32_t pci_list_vendor(const char *root, uint32_t vendor, struct pci_address *out, uint32_t max)
{
	return list_having(root, "vendor", 0, vendor, out, max);
}

uint32_t pci_list_nvidia(const char *root, struct pci_address *out, uint32_t max)
{
	return list_addresses(root, "/proc/driver/nvidia/gpus", out, max);
}

void pci_read_nvidia_information(const char *root, const struct pci_address *address,
				 struct pci_nvidia_information *out)
{
	char text[PCI_TEXT_MAX], dir[128];
	(void)snprintf(dir, sizeof(dir), "/proc/driver/nvidia/gpus/%s",
		       pci_address_to_string(address, text));

	_cleanup_buf_ struct buf file;
	buf_init(&file, PCI_FILE_MAX);
	if (!read_small(&file, root, dir, "information"))
		buf_clear(&file);
	pci_parse_nvidia_information(buf_text(&file), file.length, out);
}

int pci_read_nvidia_version(const char *root, char out[GPU_VERSION_MAX])
{
	_cleanup_buf_ struct buf file;
	buf_init(&file, PCI_FILE_MAX);

	if (read_small(&file, root, "/sys/module/nvidia", "version") &&
	    pci_parse_nvidia_version(buf_text(&file), file.length, out) == 0)
		return 0;
	if (read_small(&file, root, "/proc/driver/nvidia", "version") &&
	    pci_parse_nvidia_version(buf_text(&file), file.length, out) == 0)
		return 0;

	return -ENOENT;
}
