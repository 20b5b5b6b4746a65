/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ROOT/proc: devices, driver/nvidia and driver/nvidia-caps, in the forms of the driver's own
 * procfs code (https://github.com/NVIDIA/open-gpu-kernel-modules, kernel-open/nvidia/nv-procfs.c).
 */
#include <stdio.h>
#include <string.h>

#include "sim/processor.h"
#include "sim/trees_plan.h"
#include "sim/trees_rdma.h"

enum proc_limits {
	/* mig-minors names every instance that could ever exist, not those that do */
	PROC_MINOR_MAX = 32,
	PROC_GI_MAX = 15,
	PROC_CI_MAX = 8,
	PROC_CAP_CONFIG = 1,
	PROC_CAP_MONITOR = 2,
	PROC_CAP_IMEX = 4323, /* the one behind the last of mig-minors */
	PROC_PID_PERSISTENCED = 801,
	PROC_PID_FABRIC_MANAGER = 802,
};

static const char proc_date[] = "Wed Oct 29 22:15:28 UTC 2025";

/* The first number of a driver version: 580 of "580.105.08"; 0 when there is none. */
static uint32_t driver_branch(const struct sim_machine *machine)
{
	uint32_t branch = 0;
	for (const char *c = machine->driver_version; *c >= '0' && *c <= '9' && branch < 100000;
	     c++)
		branch = branch * 10 + (uint32_t)(*c - '0');
	return branch;
}

static const char *kernel_version(const struct sim_machine *machine)
{
	return machine->kernel_driver_version[0] ? machine->kernel_driver_version
						 : machine->driver_version;
}

static void proc_devices(struct sim_plan *plan, const struct sim_machine *machine)
{
	sim_plan_file(plan, 0444, "proc/devices");
	sim_plan_text(plan, "Character devices:\n  1 mem\n  5 /dev/tty\n 10 misc\n");

	if (sim_driver_is_loaded(machine) && driver_branch(machine) >= 550)
		sim_plan_text(plan, "%3d nvidia\n%3d nvidia-modeset\n%3d nvidiactl\n",
			      SIM_MAJOR_NVIDIA, SIM_MAJOR_NVIDIA, SIM_MAJOR_NVIDIA);
	else if (sim_driver_is_loaded(machine))
		sim_plan_text(plan, "%3d nvidia-frontend\n", SIM_MAJOR_NVIDIA);

	sim_plan_text(plan, "%3d drm\n", SIM_MAJOR_DRM);
	if (machine->nic_count > 0)
		sim_plan_text(plan, "%3d infiniband_verbs\n", SIM_MAJOR_RDMA);

	if (sim_driver_is_loaded(machine)) {
		if (driver_branch(machine) >= 550)
			sim_plan_text(plan, "%3d nvidia-caps-imex-channels\n", SIM_MAJOR_IMEX);
		sim_plan_text(plan, "%3d nvidia-caps\n", SIM_MAJOR_CAPS);
		if (!(machine->breaks & SIM_BREAK_UVM_MISSING))
			sim_plan_text(plan, "%3d nvidia-uvm\n", SIM_MAJOR_UVM);
	}

	sim_plan_text(plan, "\nBlock devices:\n  7 loop\n  8 sd\n259 blkext\n");
}

static void proc_modules(struct sim_plan *plan, const struct sim_machine *machine)
{
	static const char *const driver[] = {"nvidia_uvm", "nvidia_drm", "nvidia_modeset",
					     "nvidia"};
	sim_plan_file(plan, 0444, "proc/modules");

	for (size_t i = 0; sim_driver_is_loaded(machine) && i < 4; i++) {
		if (i == 0 && (machine->breaks & SIM_BREAK_UVM_MISSING))
			continue;
		sim_plan_text(plan, "%s 4194304 0 - Live 0x0000000000000000\n", driver[i]);
	}

	sim_trees_plan_rdma_modules(plan, machine);
}

static void proc_version(struct sim_plan *plan, const struct sim_machine *machine)
{
	sim_plan_file(plan, 0444, "proc/driver/nvidia/version");
	if (machine->open_kernel_module)
		sim_plan_text(plan,
			      "NVRM version: NVIDIA UNIX Open Kernel Module for " PROCESSOR_NAME
			      "  %s  "
			      "Release Build  (sluice@simulated)  %s\n",
			      kernel_version(machine), proc_date);
	else
		sim_plan_text(
		    plan, "NVRM version: NVIDIA UNIX " PROCESSOR_NAME " Kernel Module  %s  %s\n",
		    kernel_version(machine), proc_date);

	sim_plan_text(plan, "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14+deb12u1) \n");
}

/* nvidia-modprobe stops at the first line that its "%31[^:]: %u" does not match, and
 * InitializeSystemMemoryAllocations is longer: what it needs comes first. */
static void proc_params(struct sim_plan *plan, const struct sim_machine *machine)
{
	static const struct {
		const char *key;
		uint32_t value;
	} number[] = {
	    {"ResmanDebugLevel", UINT32_MAX},
	    {"RmLogonRC", 1},
	    {"ModifyDeviceFiles", 1},
	    {"DeviceFileUID", 0},
	    {"DeviceFileGID", 0},
	    {"DeviceFileMode", 0666},
	    {"InitializeSystemMemoryAllocations", 1},
	    {"UsePageAttributeTable", UINT32_MAX},
	    {"EnableMSI", 1},
	    {"EnablePCIeGen3", 0},
	    {"MemoryPoolSize", 0},
	    {"KMallocHeapMaxSize", 0},
	    {"VMallocHeapMaxSize", 0},
	    {"IgnoreMMIOCheck", 0},
	    {"EnableStreamMemOPs", 0},
	    {"EnableUserNUMAManagement", 1},
	    {"NvLinkDisable", 0},
	    {"RmProfilingAdminOnly", 1},
	    {"PreserveVideoMemoryAllocations", 0},
	    {"EnableS0ixPowerManagement", 0},
	    {"S0ixPowerManagementVideoMemoryThreshold", 256},
	    {"DynamicPowerManagement", 3},
	    {"DynamicPowerManagementVideoMemoryThreshold", 200},
	    {"RegisterPCIDriver", 1},
	    {"EnablePCIERelaxedOrderingMode", 0},
	    {"EnableResizableBar", 0},
	    {"EnableGpuFirmware", 18},
	    {"EnableGpuFirmwareLogs", 2},
	    {"EnableDbgBreakpoint", 0},
	    {"OpenRmEnableUnsupportedGpus", 1},
	    {"DmaRemapPeerMmio", 1},
	    {"ImexChannelCount", 2048},
	    {"CreateImexChannel0", 0},
	};
	static const char *const text[] = {
	    "RegistryDwords", "RegistryDwordsPerDevice", "RmMsg",
	    "GpuBlacklist",   "TemporaryFilePath",	 "ExcludedGpus"};
	(void)machine;
	sim_plan_file(plan, 0444, "proc/driver/nvidia/params");

	for (size_t i = 0; i < sizeof(number) / sizeof(*number); i++)
		sim_plan_text(plan, "%s: %u\n", number[i].key, number[i].value);

	for (size_t i = 0; i < sizeof(text) / sizeof(*text); i++)
		sim_plan_text(plan, "%s: \"\"\n", text[i]);
}

static void proc_gpu(struct sim_plan *plan, const struct sim_machine *machine,
		     const struct sim_gpu *gpu)
{
	const struct sim_model *model = sim_model_of(machine, gpu);

	sim_plan_file(plan, 0444, "proc/driver/nvidia/gpus/" SIM_BDF_FORMAT "/information",
		      SIM_BDF_ARGS(gpu));
	sim_plan_text(plan, "Model: \t\t %s\n", model->name);
	sim_plan_text(plan, "IRQ:   \t\t %u\n", gpu->irq);
	sim_plan_text(plan, "GPU UUID: \t %s\n", gpu->uuid);
	sim_plan_text(plan, "Video BIOS: \t %s\n", model->vbios);
	sim_plan_text(plan, "Bus Type: \t PCIe\n");
	sim_plan_text(plan, "DMA Size: \t 47 bits\n");
	sim_plan_text(plan, "DMA Mask: \t 0x7fffffffffff\n");
	sim_plan_text(plan, "Bus Location: \t " SIM_BDF_FORMAT "\n", SIM_BDF_ARGS(gpu));
	sim_plan_text(plan, "Device Minor: \t %u\n", gpu->minor);

	if (sim_machine_has_firmware(machine, gpu))
		sim_plan_text(plan, "GPU Firmware: \t %s\n", kernel_version(machine));
	sim_plan_text(plan, "GPU Excluded:\t No\n");
}

static void proc_cap(struct sim_plan *plan, uint32_t minor_number, uint32_t mode)
{
	sim_plan_text(plan, "DeviceFileMinor: %u\nDeviceFileMode: %u\nDeviceFileModify: 1\n",
		      minor_number, mode);
}

static void proc_gpu_caps(struct sim_plan *plan, const struct sim_gpu *gpu)
{
	static const char directory[] = "proc/driver/nvidia/capabilities";
	sim_plan_dir(plan, "%s/gpu%u/mig", directory, gpu->minor);

	for (uint32_t g = 0; gpu->mig_current && g < SIM_GI_MAX; g++) {
		const struct sim_gi *gi = &gpu->gi[g];
		if (!gi->used)
			continue;

		uint32_t first = sim_cap_minor(gpu->minor, gi->id);

		sim_plan_file(plan, 0444, "%s/gpu%u/mig/gi%u/access", directory, gpu->minor,
			      gi->id);
		proc_cap(plan, first, 0444);

		for (uint32_t c = 0; c < SIM_CI_MAX; c++) {
			if (!gi->ci[c].used)
				continue;
			sim_plan_file(plan, 0444, "%s/gpu%u/mig/gi%u/ci%u/access", directory,
				      gpu->minor, gi->id, gi->ci[c].id);
			proc_cap(plan, first + 1 + gi->ci[c].id, 0444);
		}
	}
}

static void proc_mig_minors(struct sim_plan *plan)
{
	sim_plan_file(plan, 0444, "proc/driver/nvidia-caps/mig-minors");
	sim_plan_text(plan, "config %d\nmonitor %d\n", PROC_CAP_CONFIG, PROC_CAP_MONITOR);

	for (uint32_t m = 0; m < PROC_MINOR_MAX; m++) {
		for (uint32_t g = 0; g < PROC_GI_MAX; g++) {
			uint32_t first = sim_cap_minor(m, g);
			sim_plan_text(plan, "gpu%u/gi%u/access %u\n", m, g, first);
			for (uint32_t c = 0; c < PROC_CI_MAX; c++)
				sim_plan_text(plan, "gpu%u/gi%u/ci%u/access %u\n", m, g, c,
					      first + 1 + c);
		}
	}
}

/* The daemons of a node that was set up well. Of a name the kernel keeps 15 bytes. */
static void proc_daemons(struct sim_plan *plan, const struct sim_machine *machine)
{
	sim_plan_file(plan, 0444, "proc/%d/comm", PROC_PID_PERSISTENCED);
	sim_plan_text(plan, "nvidia-persiste\n");
	if (machine->switch_count == 0)
		return;
	sim_plan_file(plan, 0444, "proc/%d/comm", PROC_PID_FABRIC_MANAGER);
	sim_plan_text(plan, "nv-fabricmanage\n");
}

void sim_trees_plan_proc(struct sim_plan *plan, const struct sim_machine *machine)
{
	bool mig = sim_machine_has_mig(machine);

	proc_devices(plan, machine);
	proc_modules(plan, machine);
	sim_plan_dir(plan, "proc/driver");
	sim_plan_file(plan, 0444, "proc/cmdline");
	sim_plan_text(plan, "BOOT_IMAGE=/boot/vmlinuz root=/dev/sda1 ro quiet\n");

	if (!sim_driver_is_loaded(machine))
		return;

	proc_version(plan, machine);
	proc_daemons(plan, machine);
	proc_params(plan, machine);
	sim_plan_dir(plan, "proc/driver/nvidia/gpus");

	for (uint32_t i = 0; i < machine->gpu_count; i++) {
		const struct sim_gpu *gpu = &machine->gpu[i];
		if (!sim_gpu_is_plugged(gpu))
			continue;

		proc_gpu(plan, machine, gpu);
		if (sim_model_of(machine, gpu)->has_mig)
			proc_gpu_caps(plan, gpu);
	}

	sim_plan_dir(plan, "proc/driver/nvidia/capabilities");
	if (mig) {
		sim_plan_file(plan, 0444, "proc/driver/nvidia/capabilities/mig/config");
		proc_cap(plan, PROC_CAP_CONFIG, 0400);
		sim_plan_file(plan, 0444, "proc/driver/nvidia/capabilities/mig/monitor");
		proc_cap(plan, PROC_CAP_MONITOR, 0444);
		proc_mig_minors(plan);
	}

	if (driver_branch(machine) >= 550) {
		sim_plan_file(plan, 0444, "proc/driver/nvidia/capabilities/fabric-imex-mgmt");
		proc_cap(plan, PROC_CAP_IMEX, 0400);
	}
}
