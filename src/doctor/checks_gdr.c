/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of GPUDirect RDMA: whether an adapter reaches the memory of a GPU, and by which way.
 */
#include "doctor/checks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "doctor/doctor.h"
#include "doctor/shared.h"
#include "hardware/pci_acs.h"
#include "hardware/rdma.h"

#define GDR_PEERMEM   "/sys/module/nvidia_peermem"
#define GDR_CLIENTS   "/sys/kernel/mm/memory_peers"
#define GDR_OFED_DIR  "/run/mellanox/drivers"
#define GDR_OFED_DONE GDR_OFED_DIR "/.driver-ready"

/* A kernel that gives adapters the memory of other devices: 5.12. */
enum { GDR_KERNEL_MAJOR = 5, GDR_KERNEL_MINOR = 12, GDR_BRIDGES_MAX = 128 };

/* --- the two ways ------------------------------------------------------------------------------
 */

static bool gdr_has_open_modules(const struct doctor *doctor)
{
	return strstr(doctor->facts.proc_version, "Open Kernel Module") != NULL;
}

static bool gdr_kernel_is_new(const struct doctor *doctor)
{
	const char *text = doctor->facts.kernel;
	uint64_t major, minor;
	size_t size = strcspn(text, ".");
	if (text[size] == '\0' || parse_u64_span(text, size, 0, UINT32_MAX, &major) < 0)
		return false;

	text += size + 1;
	if (parse_u64_span(text, strspn(text, "0123456789"), 0, UINT32_MAX, &minor) < 0)
		return false;

	return major > GDR_KERNEL_MAJOR || (major == GDR_KERNEL_MAJOR && minor >= GDR_KERNEL_MINOR);
}

static bool gdr_peermem_is_loaded(struct doctor *doctor)
{
	return rootfs_exists(&doctor->rootfs, GDR_PEERMEM);
}

/* The registry of OFED's ib_core; a module that is loaded and not there does nothing.
 * https://github.com/NVIDIA/nccl/issues/1939 */
static bool gdr_peermem_is_registered(struct doctor *doctor)
{
	return rootfs_exists(&doctor->rootfs, GDR_CLIENTS "/nv_mem/version") ||
	       rootfs_exists(&doctor->rootfs, GDR_CLIENTS "/nv_mem_nc/version");
}

/* NULL: there is nothing to say, and it has been said. */
static const struct rdma_inventory *gdr_inventory(struct doctor *doctor)
{
	const struct rdma_inventory *inventory = shared_rdma_or_skip(doctor);
	bool has_any = false;

	for (uint32_t i = 0; inventory && i < inventory->function_count; i++) {
		const struct rdma_function *function = &inventory->function[i];
		has_any |= function->device_count > 0;
		/* One in software copies by the processor, which no GPU lets near its memory. */
		if (function->device_count > 0 && !function->is_software)
			return inventory;
	}

	if (inventory)
		doctor_skip(doctor, has_any ? "no RDMA device but in software" : "no RDMA device");

	return NULL;
}

void check_gdr_path(struct doctor *doctor)
{
	if (!gdr_inventory(doctor))
		return;
	if (doctor->facts.proc_version[0] == '\0') {
		doctor_skip(doctor, "no driver is loaded");
		return;
	}

	bool has_dmabuf = gdr_has_open_modules(doctor) && gdr_kernel_is_new(doctor);
	bool is_loaded = gdr_peermem_is_loaded(doctor);

	if (gdr_peermem_is_registered(doctor) || has_dmabuf) {
		doctor_found(doctor_add(doctor, DOCTOR_OK, "path to GPU memory"), "%s",
			     has_dmabuf ? "DMA-BUF: open kernel modules and a kernel that has it"
					: "nvidia_peermem, registered");
		if (is_loaded && !gdr_peermem_is_registered(doctor))
			doctor_found(doctor_add(doctor, DOCTOR_INFO, "module nvidia_peermem"),
				     "that it is loaded and not registered; DMA-BUF does without");

		return;
	}

	struct doctor_finding *finding = doctor_add(
	    doctor, is_loaded || doctor_is_for(doctor, DOCTOR_FOR_RDMA) ? DOCTOR_FAIL : DOCTOR_WARN,
	    "path to GPU memory");

	if (is_loaded) {
		doctor_found(finding, "nvidia_peermem loaded, and not registered with ib_core");
		doctor_need(finding, GDR_CLIENTS "/nv_mem/version, or DMA-BUF");
		doctor_do(finding, "modprobe -r nvidia_peermem\nmodprobe nvidia_peermem\n"
				   "dmesg | grep -i peer");
		return;
	}

	doctor_found(finding, "neither DMA-BUF nor nvidia_peermem");
	doctor_need(finding, "open kernel modules and a kernel of 5.12 or later, or OFED with "
			     "nvidia_peermem");
	doctor_do(finding, gdr_has_open_modules(doctor) ? "modprobe nvidia_peermem"
							: "sluice doctor --only gdr.modules");
}

void check_gdr_modules(struct doctor *doctor)
{
	if (!gdr_inventory(doctor))
		return;
	if (doctor->facts.proc_version[0] == '\0') {
		doctor_skip(doctor, "no driver is loaded");
		return;
	}

	bool is_open = gdr_has_open_modules(doctor), has_peermem = gdr_peermem_is_loaded(doctor);
	struct doctor_finding *finding =
	    doctor_add(doctor, is_open || has_peermem ? DOCTOR_OK : DOCTOR_WARN, "kernel modules");

	doctor_found(finding, "%s%s", is_open ? "open" : "proprietary",
		     has_peermem ? ", nvidia_peermem loaded" : "");
	if (is_open || has_peermem)
		return;

	doctor_need(finding, "the open ones (DMA-BUF), or nvidia_peermem with OFED");
	doctor_do(finding, "dnf module install nvidia-driver:open-dkms   # Debian and Ubuntu: "
			   "apt-get install nvidia-open\nmodprobe nvidia-peermem   # with OFED");
}

void check_gdr_ofed(struct doctor *doctor)
{
	char version[DOCTOR_WORD_MAX] = "";

	if (!shared_rdma_or_skip(doctor))
		return;

	bool is_container = rootfs_exists(&doctor->rootfs, GDR_OFED_DIR);
	bool is_ready = rootfs_exists(&doctor->rootfs, GDR_OFED_DONE);
	if (is_container && !is_ready) {
		struct doctor_finding *finding = doctor_add(doctor, DOCTOR_FAIL, "OFED container");
		doctor_found(finding, GDR_OFED_DIR ", and no .driver-ready in it");
		doctor_need(finding, "its driver loaded");
		doctor_do(finding, "kubectl get pods -A -o wide | grep mofed\n"
				   "kubectl logs -n NAMESPACE POD -c mofed-container");

		return;
	}

	/* Only OFED's module has a version. */
	if (rootfs_word(&doctor->rootfs, "/sys/module/mlx5_core/version", version,
			sizeof(version)) < 0)
		version[0] = '\0';

	doctor_found(doctor_add(doctor, DOCTOR_OK, "RDMA stack"), "%s%s",
		     version[0] != '\0' ? "OFED " : "the kernel's own", version);
}

/* --- the way between the two ------------------------------------------------------------------ */

/* A GPU and the RDMA function that is nearest to it. */
struct gdr_pair {
	struct pci_device gpu;
	const struct rdma_function *function; /* NULL: the place of none is known */
	enum gpu_level level;
};

static void gdr_find_nearest(struct doctor *doctor, const struct rdma_inventory *inventory,
			     uint32_t gpu, struct gdr_pair *out)
{
	*out = (struct gdr_pair){.level = GPU_LEVEL_UNKNOWN};
	if (pci_read_device(shared_root(doctor), &doctor->facts.gpus[gpu].address, &out->gpu,
			    NULL) < 0)
		return;

	for (uint32_t i = 0; i < inventory->function_count; i++) {
		const struct rdma_function *function = &inventory->function[i];
		enum gpu_level level = rdma_distance(&out->gpu, function);
		if (function->device_count == 0 || level >= out->level)
			continue;

		out->level = level;
		out->function = function;
	}
}

static const char *gdr_name(const struct rdma_inventory *inventory,
			    const struct rdma_function *function)
{
	return inventory->device[function->devices[0]].name;
}

void check_gdr_distance(struct doctor *doctor)
{
	const struct rdma_inventory *inventory = gdr_inventory(doctor);
	uint32_t near = 0;

	for (uint32_t i = 0; inventory && i < doctor->facts.gpu_count; i++) {
		struct gdr_pair pair;
		gdr_find_nearest(doctor, inventory, i, &pair);
		near += pair.function && pair.level < GPU_LEVEL_HOSTBRIDGE;

		if (!pair.function || pair.level < GPU_LEVEL_HOSTBRIDGE)
			continue;

		/* One host bridge between them is how workstations and virtual machines are. */
		bool is_wrong =
		    pair.level > GPU_LEVEL_HOSTBRIDGE || doctor_is_for(doctor, DOCTOR_FOR_RDMA);
		struct doctor_finding *finding =
		    doctor_add(doctor, is_wrong ? DOCTOR_WARN : DOCTOR_INFO, "GPU %s",
			       doctor->facts.gpus[i].bus);

		doctor_found(finding, "%s to the nearest adapter %s",
			     gpu_level_to_string((uint32_t)pair.level),
			     gdr_name(inventory, pair.function));
		doctor_need(finding, "PIX or PXB: one PCIe switch above both");
		doctor_do(finding, "sluice topo");
	}

	if (inventory && near > 0)
		doctor_found(doctor_add(doctor, DOCTOR_OK, "GPUs"),
			     "an adapter below the same switch for %u of %u", near,
			     doctor->facts.gpu_count);
}

static int gdr_cpu_line(const char *text, size_t length, void *context)
{
	static const char word[] = " hypervisor";
	return length > 5 && memcmp(text, "flags", 5) == 0
		   ? memmem(text, length, word, sizeof(word) - 1) != NULL ? 1 : -ENODATA
		   : 0;
}

static bool gdr_is_virtual(struct doctor *doctor)
{
	return rootfs_lines(&doctor->rootfs, "/proc/cpuinfo", gdr_cpu_line, NULL) > 0;
}

/* Bridges that have been looked at. */
struct gdr_bridges {
	struct pci_address seen[GDR_BRIDGES_MAX];
	uint32_t count, unknown, right;
	bool is_virtual;
};

static void gdr_report_bridge(struct doctor *doctor, const struct gdr_bridges *bridges,
			      const struct pci_address *address, uint16_t control)
{
	char bus[PCI_TEXT_MAX];
	(void)pci_address_to_string(address, bus);

	struct doctor_finding *finding = doctor_add(doctor, DOCTOR_WARN, "bridge %s", bus);
	doctor_found(finding, "ACS that redirects (control 0x%04x)", control);

	if (bridges->is_virtual) {
		doctor_need(finding, "address translation by the adapter, in a virtual machine");
		doctor_do(finding, "mlxconfig -d ADAPTER set ATS_ENABLED=true   # on the host");
		return;
	}

	doctor_need(finding, "no redirection between GPU and adapter");
	doctor_do(finding, "setpci -s %s ECAP_ACS+0x6.w=0000   # again after each boot", bus);
}

static void gdr_judge_bridge(struct doctor *doctor, struct gdr_bridges *bridges,
			     const struct pci_address *address)
{
	struct pci_acs acs;

	for (uint32_t i = 0; i < bridges->count; i++)
		if (memcmp(&bridges->seen[i], address, sizeof(*address)) == 0)
			return;

	if (bridges->count == GDR_BRIDGES_MAX)
		return;

	bridges->seen[bridges->count++] = *address;
	pci_acs_read(shared_root(doctor), address, &acs);
	bridges->unknown += acs.state == PCI_ACS_UNKNOWN;

	if (pci_acs_redirects(&acs))
		gdr_report_bridge(doctor, bridges, address, acs.control);
	else
		bridges->right += acs.state != PCI_ACS_UNKNOWN;
}

void check_gdr_acs(struct doctor *doctor)
{
	const struct rdma_inventory *inventory = gdr_inventory(doctor);
	struct gdr_bridges bridges = {.count = 0};

	if (!inventory)
		return;

	bridges.is_virtual = gdr_is_virtual(doctor);
	for (uint32_t i = 0; i < doctor->facts.gpu_count; i++) {
		struct pci_address between[PCI_ACS_BRIDGE_MAX];
		struct gdr_pair pair;

		gdr_find_nearest(doctor, inventory, i, &pair);
		if (!pair.function || !pair.gpu.has_path || !pair.function->has_path)
			continue;

		uint32_t count = pci_acs_bridges(&pair.gpu.path, &pair.function->path, between);
		for (uint32_t j = 0; j < count; j++)
			gdr_judge_bridge(doctor, &bridges, &between[j]);
	}

	if (bridges.unknown > 0) {
		struct doctor_finding *finding = doctor_add(doctor, DOCTOR_UNKNOWN, "bridges");
		doctor_found(finding, "%u whose ACS cannot be read", bridges.unknown);
		if (!doctor->options.is_privileged)
			doctor_do(finding, "sudo sluice doctor --only gdr.acs");
	}

	if (bridges.right > 0)
		doctor_found(doctor_add(doctor, DOCTOR_OK, "bridges"), "%u that do not redirect",
			     bridges.right);
}

void check_gdr_iommu(struct doctor *doctor)
{
	const struct rdma_inventory *inventory = gdr_inventory(doctor);
	uint32_t translated = 0, right = 0;
	char first[PCI_TEXT_MAX] = "";

	for (uint32_t i = 0; inventory && i < inventory->function_count; i++) {
		const struct rdma_function *function = &inventory->function[i];
		if (function->device_count == 0 || function->is_software)
			continue;

		enum pci_iommu iommu = pci_iommu_read(shared_root(doctor), &function->address);
		if (iommu == PCI_IOMMU_TRANSLATED && translated++ == 0)
			(void)pci_address_to_string(&function->address, first);
		right += iommu == PCI_IOMMU_OFF || iommu == PCI_IOMMU_PASSTHROUGH;
	}

	if (translated > 0) {
		struct doctor_finding *finding = doctor_add(doctor, DOCTOR_WARN, "IOMMU");
		doctor_found(finding, "that it translates for %u adapter%s (%s)", translated,
			     translated == 1 ? "" : "s", first);
		doctor_need(finding, "passthrough: iommu=pt");
		doctor_do(finding, "grubby --update-kernel=ALL --args=iommu=pt   # Debian, Ubuntu: "
				   "in GRUB_CMDLINE_LINUX, then update-grub\nreboot");
	} else if (right > 0) {
		doctor_found(doctor_add(doctor, DOCTOR_OK, "IOMMU"),
			     "that it is off, or passes through");
	} else if (inventory) {
		doctor_skip(doctor, "it is not told whether an IOMMU translates");
	}
}
