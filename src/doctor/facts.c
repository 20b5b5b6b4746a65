/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/facts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "doctor/doctor.h"
#include "doctor/lines.h"
#include "hardware/pci.h"

#define PCI_DEVICES "/sys/bus/pci/devices"

enum facts_internals {
	CLASS_VGA = 0x0300,
	CLASS_3D = 0x0302,
};

/* A hexadecimal number of a PCI function; 0 when it is not told. */
static uint32_t read_hex(const struct rootfs *rootfs, const char *bus, const char *file)
{
	char path[FILE_PATH_MAX], word[32];
	uint32_t value = 0;
	if (file_path(path, NULL, PCI_DEVICES "/%s/%s", bus, file) == 0 &&
	    rootfs_word(rootfs, path, word, sizeof(word)) == 0)
		(void)pci_parse_hex(word, strlen(word), &value);
	return value;
}

/* What the driver says of a GPU that it has. */
static void read_information(const struct rootfs *rootfs, struct doctor_gpu *gpu)
{
	char path[FILE_PATH_MAX];
	struct pci_nvidia_information information;
	_cleanup_buf_ struct buf text;

	buf_init(&text, PCI_FILE_MAX);
	if (file_path(path, NULL, "/proc/driver/nvidia/gpus/%s/information", gpu->bus) < 0 ||
	    rootfs_read(rootfs, path, &text) < 0)
		buf_clear(&text);

	pci_parse_nvidia_information(buf_text(&text), text.length, &information);
	gpu->minor = information.minor;
	(void)snprintf(gpu->model, sizeof(gpu->model), "%s", information.model);
}

static void read_gpu(const struct rootfs *rootfs, const char *bus, struct doctor_gpu *out)
{
	char path[FILE_PATH_MAX];
	struct doctor_gpu gpu = {.numa_node = GPU_NUMA_NONE};

	if (pci_parse_address(bus, strlen(bus), &gpu.address) < 0)
		return;

	(void)pci_address_to_string(&gpu.address, gpu.bus);
	gpu.device = read_hex(rootfs, bus, "device");

	int64_t node;
	if (file_path(path, NULL, PCI_DEVICES "/%s/numa_node", bus) == 0 &&
	    rootfs_number(rootfs, path, &node) == 0 && node >= 0 && node <= INT32_MAX)
		gpu.numa_node = (int32_t)node;

	int rc = file_path(path, NULL, PCI_DEVICES "/%s/driver", bus);
	if (rc == 0)
		rc = rootfs_link_name(rootfs, path, gpu.driver, sizeof(gpu.driver));
	gpu.has_driver_link = rc == 0 || rc == -ENOENT;
	read_information(rootfs, &gpu);
	*out = gpu;
}

static void find_gpus(const struct rootfs *rootfs, struct doctor_facts *out)
{
	_cleanup_rootfs_names_ struct rootfs_names names;
	out->pci_is_known = rootfs_list(rootfs, PCI_DEVICES, NULL, &names) == 0;
	for (size_t i = 0; i < names.count && out->gpu_count < DOCTOR_GPUS_MAX; i++) {
		uint32_t class_ = read_hex(rootfs, names.name[i], "class") >> 8;
		struct doctor_gpu gpu = {.bus = ""};

		if ((class_ != CLASS_VGA && class_ != CLASS_3D) ||
		    read_hex(rootfs, names.name[i], "vendor") != PCI_VENDOR_NVIDIA)
			continue;

		read_gpu(rootfs, names.name[i], &gpu);
		if (gpu.bus[0] != '\0')
			out->gpus[out->gpu_count++] = gpu;
	}
}

static int os_line(const char *text, size_t length, void *context)
{
	struct doctor_facts *facts = context;
	const struct {
		const char *key;
		char *out;
	} wanted[] = {
	    {"ID", facts->os_id},
	    {"ID_LIKE", facts->os_like},
	    {"VERSION_ID", facts->os_version},
	    {"OSTREE_VERSION", facts->os_ostree},
	    {"PRETTY_NAME", facts->os_name},
	};

	for (size_t i = 0; i < array_length(wanted); i++)
		(void)lines_assignment(text, length, wanted[i].key, wanted[i].out, DOCTOR_WORD_MAX);

	return 0;
}

static bool has_library(const struct rootfs *rootfs, const char *root, const char *name)
{
	static const char *const directories[] = {
	    "usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu",
	    "lib64",	 "lib/x86_64-linux-gnu",     "lib/aarch64-linux-gnu",
	};
	char path[FILE_PATH_MAX];
	for (size_t i = 0; i < array_length(directories); i++)
		if (file_path(path, NULL, "%s/%s/%s", root, directories[i], name) == 0 &&
		    rootfs_exists(rootfs, path))
			return true;

	return false;
}

static void find_module(const struct rootfs *rootfs, struct doctor_facts *out)
{
	if (rootfs_word(rootfs, "/proc/driver/nvidia/version", out->proc_version,
			sizeof(out->proc_version)) < 0)
		out->proc_version[0] = '\0';

	char word[DOCTOR_WORD_MAX];
	if (rootfs_word(rootfs, "/sys/module/nvidia/version", word, sizeof(word)) == 0 &&
	    pci_parse_nvidia_version(word, strlen(word), out->module_version) == 0)
		return;
	if (pci_parse_nvidia_version(out->proc_version, strlen(out->proc_version),
				     out->module_version) < 0)
		out->module_version[0] = '\0';
}

void facts_find(const struct rootfs *rootfs, struct doctor_facts *out)
{
	*out = (struct doctor_facts){.gpu_count = 0};
	find_gpus(rootfs, out);
	find_module(rootfs, out);

	if (rootfs_word(rootfs, "/proc/sys/kernel/osrelease", out->kernel, sizeof(out->kernel)) < 0)
		out->kernel[0] = '\0';
	if (rootfs_lines(rootfs, "/etc/os-release", os_line, out) < 0)
		(void)rootfs_lines(rootfs, "/usr/lib/os-release", os_line, out);
	if (!has_library(rootfs, "", "libnvidia-ml.so.1") &&
	    has_library(rootfs, FACTS_DRIVER_ROOT, "libnvidia-ml.so.1"))
		(void)snprintf(out->driver_root, sizeof(out->driver_root), "%s", FACTS_DRIVER_ROOT);
}
