/* SPDX-License-Identifier: Apache-2.0 */
/* ROOT/dev: the driver's nodes, in the three styles, and what a half-installed driver lacks. */
#include <stdio.h>

#include "sim/trees_plan.h"
#include "sim/trees_rdma.h"

/* Pairs that open on every machine and can be told apart: null, zero, full, random, urandom. */
static const uint32_t openable_minor[] = {3, 5, 7, 8, 9};

struct dev {
	struct sim_plan *plan;
	const struct sim_machine *machine;
};

static mode_t dev_mode(const struct dev *dev, mode_t mode)
{
	bool closed = (dev->machine->breaks & SIM_BREAK_MODE_0600) ||
		      dev->machine->driver_state == SIM_DRIVER_NO_PERMISSION;
	return closed ? 0600 : mode;
}

/* A node of any driver. */
static void dev_any(const void *context, mode_t mode, uint32_t major_number, uint32_t minor_number,
		    const char *path)
{
	const struct dev *dev = context;
	if (dev->machine->dev_style == SIM_DEV_NVIDIA)
		sim_plan_node(dev->plan, mode, major_number, minor_number, "%s", path);
	else if (dev->machine->dev_style == SIM_DEV_OPENABLE)
		sim_plan_node(dev->plan, mode, 1, openable_minor[0], "%s", path);
	else
		sim_plan_file(dev->plan, mode, "%s", path);
}

static void dev_node(const struct dev *dev, mode_t mode, uint32_t major_number,
		     uint32_t minor_number, const char *path)
{
	dev_any(dev, dev_mode(dev, mode), major_number, minor_number, path);
}

static void dev_gpu(const struct dev *dev, const struct sim_gpu *gpu)
{
	uint32_t minor_number = gpu->minor;

	if (dev->machine->dev_style == SIM_DEV_OPENABLE) {
		size_t pair = minor_number % (sizeof(openable_minor) / sizeof(*openable_minor));
		sim_plan_node(dev->plan, dev_mode(dev, 0666), 1, openable_minor[pair],
			      "dev/sluice-sim%u", gpu->minor);
		return;
	}

	if (dev->machine->breaks & SIM_BREAK_WRONG_MINOR)
		minor_number = (minor_number + 1) % 254;

	char path[SIM_TEXT_MAX];
	(void)snprintf(path, sizeof(path), "dev/nvidia%u", gpu->minor);
	dev_node(dev, 0666, SIM_MAJOR_NVIDIA, minor_number, path);
}

static void dev_dri(const struct dev *dev, const struct sim_gpu *gpu, uint32_t index)
{
	char path[SIM_TEXT_MAX], target[SIM_TEXT_MAX];
	(void)snprintf(path, sizeof(path), "dev/dri/card%u", index);
	dev_node(dev, 0660, SIM_MAJOR_DRM, index, path);
	(void)snprintf(path, sizeof(path), "dev/dri/renderD%u", 128 + index);
	dev_node(dev, 0666, SIM_MAJOR_DRM, 128 + index, path);
	(void)snprintf(target, sizeof(target), "../card%u", index);
	sim_plan_link(dev->plan, target, "dev/dri/by-path/pci-" SIM_BDF_FORMAT "-card",
		      SIM_BDF_ARGS(gpu));
	(void)snprintf(target, sizeof(target), "../renderD%u", 128 + index);
	sim_plan_link(dev->plan, target, "dev/dri/by-path/pci-" SIM_BDF_FORMAT "-render",
		      SIM_BDF_ARGS(gpu));
}

static void dev_cap(const struct dev *dev, mode_t mode, uint32_t minor_number)
{
	char path[SIM_TEXT_MAX];
	(void)snprintf(path, sizeof(path), "dev/nvidia-caps/nvidia-cap%u", minor_number);
	dev_node(dev, mode, SIM_MAJOR_CAPS, minor_number, path);
}

static void dev_gpu_caps(const struct dev *dev, const struct sim_gpu *gpu)
{
	for (uint32_t g = 0; g < SIM_GI_MAX; g++) {
		const struct sim_gi *gi = &gpu->gi[g];
		if (!gi->used)
			continue;

		uint32_t first = sim_cap_minor(gpu->minor, gi->id);
		dev_cap(dev, 0444, first);

		for (uint32_t c = 0; c < SIM_CI_MAX; c++) {
			if (gi->ci[c].used)
				dev_cap(dev, 0444, first + 1 + gi->ci[c].id);
		}
	}
}

void sim_trees_plan_dev(struct sim_plan *plan, const struct sim_machine *machine)
{
	struct dev dev = {.plan = plan, .machine = machine};

	sim_plan_dir(plan, "dev");
	sim_trees_plan_rdma_dev(plan, machine, dev_any, &dev);
	if (!sim_driver_is_loaded(machine))
		return;

	dev_node(&dev, 0666, SIM_MAJOR_NVIDIA, 255, "dev/nvidiactl");
	dev_node(&dev, 0666, SIM_MAJOR_NVIDIA, 254, "dev/nvidia-modeset");

	if (!(machine->breaks & SIM_BREAK_UVM_MISSING)) {
		dev_node(&dev, 0666, SIM_MAJOR_UVM, 0, "dev/nvidia-uvm");
		dev_node(&dev, 0666, SIM_MAJOR_UVM, 1, "dev/nvidia-uvm-tools");
	}

	if (sim_machine_has_mig(machine)) {
		dev_cap(&dev, 0400, 1);
		dev_cap(&dev, 0444, 2);
	}

	for (uint32_t i = 0; i < machine->gpu_count; i++) {
		const struct sim_gpu *gpu = &machine->gpu[i];
		if (!sim_gpu_is_plugged(gpu))
			continue;

		dev_gpu(&dev, gpu);
		dev_dri(&dev, gpu, i);
		if (gpu->mig_current)
			dev_gpu_caps(&dev, gpu);
	}

	for (uint32_t i = 0; i < sim_imex_channels(machine); i++) {
		char path[SIM_TEXT_MAX];
		(void)snprintf(path, sizeof(path), "dev/nvidia-caps-imex-channels/channel%u", i);
		dev_node(&dev, 0666, SIM_MAJOR_IMEX, i, path);
	}
}
