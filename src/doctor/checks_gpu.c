/* SPDX-License-Identifier: Apache-2.0 */
/* What the PCI bus says of the GPUs. */
#include "doctor/checks.h"

#include <errno.h>
#include <string.h>

#include "doctor/doctor.h"

void check_gpu_pci(struct doctor *doctor)
{
	const struct doctor_facts *facts = &doctor->facts;
	if (!facts->pci_is_known) {
		doctor_skip(doctor, "there is no /sys/bus/pci to look at");
		return;
	}

	if (facts->gpu_count == 0) {
		doctor_skip(doctor, "no NVIDIA GPU on the PCI bus");
		return;
	}

	doctor_found(doctor_add(doctor, DOCTOR_OK, "PCI bus"), "%u NVIDIA GPU%s%s",
		     facts->gpu_count, facts->gpu_count == 1 ? "" : "s",
		     doctor->options.is_simulated ? " (simulated)" : "");
}

/* --- which driver has a GPU ------------------------------------------------------------------ */

static void report_unbound(struct doctor *doctor, const struct doctor_gpu *gpu)
{
	struct doctor_finding *finding = doctor_add(doctor, DOCTOR_FAIL, "GPU %s", gpu->bus);
	doctor_need(doctor_found(finding, "no driver bound to it"), "nvidia");
	if (doctor->facts.module_version[0] == '\0')
		doctor_do(finding, "modprobe nvidia");
	else
		doctor_do(finding, "echo %s > /sys/bus/pci/drivers/nvidia/bind\ndmesg | grep NVRM",
			  gpu->bus);
}

static void report_foreign(struct doctor *doctor, const struct doctor_gpu *gpu)
{
	struct doctor_finding *finding = doctor_add(doctor, DOCTOR_FAIL, "GPU %s", gpu->bus);
	doctor_need(doctor_found(finding, "the driver %s", gpu->driver), "nvidia");

	if (strcmp(gpu->driver, "nouveau") == 0)
		doctor_do(finding, "sluice doctor --only driver.nouveau");
	else
		doctor_do(finding,
			  "echo %s > /sys/bus/pci/drivers/%s/unbind\n"
			  "echo %s > /sys/bus/pci/drivers/nvidia/bind",
			  gpu->bus, gpu->driver, gpu->bus);
}

void check_driver_bound(struct doctor *doctor)
{
	uint32_t right = 0;

	for (uint32_t i = 0; i < doctor->facts.gpu_count; i++) {
		const struct doctor_gpu *gpu = &doctor->facts.gpus[i];
		if (!gpu->has_driver_link)
			doctor_unreadable(doctor, gpu->bus, -EACCES);
		else if (strcmp(gpu->driver, "nvidia") == 0)
			right++;
		else if (strcmp(gpu->driver, "vfio-pci") == 0)
			doctor_found(doctor_add(doctor, DOCTOR_INFO, "GPU %s", gpu->bus),
				     "vfio-pci: it is passed through to a virtual machine");
		else if (gpu->driver[0] == '\0')
			report_unbound(doctor, gpu);
		else
			report_foreign(doctor, gpu);
	}

	if (right > 0)
		doctor_found(doctor_add(doctor, DOCTOR_OK, "GPUs"), "nvidia on %u of %u", right,
			     doctor->facts.gpu_count);
}

/* --- memory ---------------------------------------------------------------------------------- */

void check_mem_numa(struct doctor *doctor)
{
	char nodes[DOCTOR_WORD_MAX];
	const struct doctor_facts *facts = &doctor->facts;
	uint32_t unknown = 0;

	if (rootfs_word(&doctor->rootfs, "/sys/devices/system/node/online", nodes, sizeof(nodes)) <
		0 ||
	    strpbrk(nodes, ",-") == NULL) {
		doctor_skip(doctor, "the machine has one NUMA node");
		return;
	}

	for (uint32_t i = 0; i < facts->gpu_count; i++)
		unknown += facts->gpus[i].numa_node < 0;

	if (unknown == 0) {
		doctor_found(doctor_add(doctor, DOCTOR_OK, "GPUs"), "the NUMA node of each");
		return;
	}

	struct doctor_finding *finding = doctor_add(doctor, DOCTOR_WARN, "GPUs");
	doctor_found(finding, "no NUMA node told for %u of %u, on a machine with nodes %s", unknown,
		     facts->gpu_count, nodes);
	doctor_need(finding, "the node of each in /sys/bus/pci/devices/*/numa_node");
	doctor_do(finding, "BIOS: switch NUMA (and ACPI SRAT/_PXM) on; a virtual machine: pass the "
			   "host's topology on");
}
