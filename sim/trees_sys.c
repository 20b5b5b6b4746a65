/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ROOT/sys: the PCI functions with their files and links, the kernel modules, NUMA nodes and DMI
 * names, as Documentation/ABI/testing/sysfs-bus-pci and sysfs-devices-node of the kernel say.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/error.h"
#include "sim/trees_pci.h"
#include "sim/trees_plan.h"
#include "sim/trees_rdma.h"

struct sys {
	struct sim_plan *plan;
	const struct sim_machine *machine;
};

/* What the files of one function say. */
struct identity {
	uint16_t vendor, device, subsystem_vendor, subsystem_device;
	uint32_t class_code; /* 24 bits */
	uint8_t revision;
	uint32_t irq;
	const char *driver; /* NULL: none */
	uint32_t gen, width, gen_max, width_max;
	bool is_gone; /* answers 0xff to everything */
	uint32_t bar_lines;
};

enum {
	VENDOR_INTEL = 0x8086,
	VENDOR_NVIDIA = 0x10de,
	VENDOR_MELLANOX = 0x15b3,
	VENDOR_PLX = 0x10b5,
	CONFIG_SIZE = 256,
	CONFIG_EXTENDED = 4096, /* of ports: GPUs and adapters show no more than the first part */
	ACS_AT = 0x100,
	LINES_PLAIN = 7,
	LINES_SRIOV = 13,
	ARCHITECTURE_VOLTA = 5,
	ARCHITECTURE_AMPERE = 7,
	ARCHITECTURE_HOPPER = 9,
};

static uint32_t newest_architecture(const struct sim_machine *machine)
{
	uint32_t architecture = 0;
	for (uint32_t i = 0; i < machine->model_count; i++)
		architecture = machine->model[i].architecture > architecture
				   ? machine->model[i].architecture
				   : architecture;
	return architecture;
}

static struct identity identity_gpu(const struct sim_machine *machine, const struct sim_gpu *gpu)
{
	const struct sim_model *model = sim_model_of(machine, gpu);
	bool sriov = model->architecture >= ARCHITECTURE_AMPERE && !model->quadro_class;

	return (struct identity){
	    .vendor = (uint16_t)(model->pci_device_id & 0xffff),
	    .device = (uint16_t)(model->pci_device_id >> 16),
	    .subsystem_vendor = (uint16_t)(model->pci_subsystem_id & 0xffff),
	    .subsystem_device = (uint16_t)(model->pci_subsystem_id >> 16),
	    .class_code = model->quadro_class ? 0x030000 : 0x030200,
	    .revision = 0xa1,
	    .irq = gpu->irq,
	    .driver = sim_driver_is_loaded(machine) ? "nvidia" : NULL,
	    .gen = gpu->pcie_gen ? gpu->pcie_gen : model->pcie_gen_max,
	    .width = gpu->pcie_width ? gpu->pcie_width : model->pcie_width_max,
	    .gen_max = model->pcie_gen_max,
	    .width_max = model->pcie_width_max,
	    .is_gone = gpu->health == SIM_GPU_LOST,
	    .bar_lines = sriov ? LINES_SRIOV : LINES_PLAIN,
	};
}

static struct identity identity_nic(const struct sim_machine *machine, uint32_t nic)
{
	uint32_t architecture = newest_architecture(machine);
	/* ConnectX-4, -6 and -7: the adapters of those years */
	uint16_t device = architecture >= ARCHITECTURE_HOPPER	? 0x1021
			  : architecture >= ARCHITECTURE_AMPERE ? 0x101b
								: 0x1013;
	uint32_t gen = architecture >= ARCHITECTURE_HOPPER   ? 5
		       : architecture >= ARCHITECTURE_AMPERE ? 4
							     : 3;

	return (struct identity){
	    .vendor = VENDOR_MELLANOX,
	    .device = device,
	    .subsystem_vendor = VENDOR_MELLANOX,
	    .subsystem_device = SIM_NIC_SUBSYSTEM,
	    .class_code = sim_nic_is_ethernet(machine, nic) ? 0x020000 : 0x020700,
	    .driver = machine->nic[nic].unbound ? NULL : "mlx5_core",
	    .gen = gen,
	    .width = 16,
	    .gen_max = gen,
	    .width_max = 16,
	    .bar_lines = LINES_SRIOV,
	};
}

static struct identity identity_nvswitch(const struct sim_machine *machine)
{
	uint32_t architecture = newest_architecture(machine);
	return (struct identity){
	    .vendor = VENDOR_NVIDIA,
	    .device = architecture >= ARCHITECTURE_HOPPER   ? 0x22a3
		      : architecture >= ARCHITECTURE_AMPERE ? 0x1af1
							    : 0x1ac2,
	    .subsystem_vendor = VENDOR_NVIDIA,
	    .subsystem_device = 0x0000,
	    .class_code = 0x068000,
	    .revision = 0xa1,
	    .driver = sim_driver_is_loaded(machine) ? "nvidia-nvswitch" : NULL,
	    .gen = 4,
	    .width = 2,
	    .gen_max = 4,
	    .width_max = 2,
	    .bar_lines = LINES_PLAIN,
	};
}

static struct identity identity_bridge(enum sim_pci_kind kind)
{
	if (kind == SIM_PCI_HOST)
		return (struct identity){
		    .vendor = VENDOR_INTEL,
		    .device = 0x2020,
		    .class_code = 0x060000,
		    .gen_max = 5,
		    .width_max = 16,
		    .bar_lines = LINES_PLAIN,
		};

	bool root = kind == SIM_PCI_ROOT_PORT;
	return (struct identity){
	    .vendor = root ? VENDOR_INTEL : VENDOR_PLX,
	    .device = root ? 0x2030 : 0x8796,
	    .class_code = 0x060400,
	    .driver = "pcieport",
	    .gen = 5,
	    .width = 16,
	    .gen_max = 5,
	    .width_max = 16,
	    .bar_lines = LINES_SRIOV,
	};
}

static struct identity identity_of(const struct sys *sys, const struct sim_pci_function *function)
{
	struct identity identity;

	switch (function->kind) {
	case SIM_PCI_GPU:
		return identity_gpu(sys->machine, &sys->machine->gpu[function->index]);
	case SIM_PCI_NIC:
		identity = identity_nic(sys->machine, function->index);
		break;
	case SIM_PCI_NVSWITCH:
		identity = identity_nvswitch(sys->machine);
		break;
	case SIM_PCI_HOST:
	case SIM_PCI_ROOT_PORT:
	case SIM_PCI_UPSTREAM:
	case SIM_PCI_DOWNSTREAM:
	default:
		identity = identity_bridge(function->kind);
		break;
	}
	identity.irq = 24 + function->bus;

	return identity;
}

static void put16(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)value;
	at[1] = (uint8_t)(value >> 8);
}

static void put32(uint8_t *at, uint32_t value)
{
	put16(at, value);
	put16(at + 2, value >> 16);
}

/* Where a function's memory would be: as many regions of 32 MiB as there are buses. */
static uint64_t bar_address(const struct sim_pci_function *function, uint32_t bar)
{
	if (bar == 0)
		return UINT64_C(0x80000000) + ((uint64_t)function->bus << 21);
	return UINT64_C(0x200000000000) + ((uint64_t)function->bus << 40) +
	       ((uint64_t)function->device << 35) + ((uint64_t)bar << 37) / 2;
}

static uint8_t pcie_type(enum sim_pci_kind kind)
{
	switch (kind) {
	case SIM_PCI_ROOT_PORT:
		return 4;
	case SIM_PCI_UPSTREAM:
		return 5;
	case SIM_PCI_DOWNSTREAM:
		return 6;
	case SIM_PCI_HOST:
	case SIM_PCI_GPU:
	case SIM_PCI_NIC:
	case SIM_PCI_NVSWITCH:
		break;
	}

	return 0;
}

static bool kind_is_bridge(enum sim_pci_kind kind)
{
	return pcie_type(kind) != 0;
}

/* Power management at 0x60, MSI at 0x68, PCI Express at 0x78 and, for a guest's vGPU, the vendor
 * capability at 0xd0 that names the host's driver. */
static void config_capabilities(const struct sys *sys, const struct sim_pci_function *function,
				const struct identity *identity, uint8_t config[CONFIG_SIZE])
{
	bool guest = sys->machine->vgpu_guest && function->kind == SIM_PCI_GPU;

	config[0x34] = 0x60;
	config[0x60] = 0x01;
	config[0x61] = 0x68;
	put16(config + 0x62, 0x0003);
	config[0x68] = 0x05;
	config[0x69] = 0x78;
	put16(config + 0x6a, 0x0081);
	config[0x78] = 0x10;
	config[0x79] = guest ? 0xd0 : 0;
	put16(config + 0x7a, 0x0002 | ((uint32_t)pcie_type(function->kind) << 4));
	put32(config + 0x84, identity->gen_max | (identity->width_max << 4));
	put16(config + 0x8a, identity->gen | (identity->width << 4));
	put32(config + 0xa4, ((1U << identity->gen_max) - 1) << 1);

	if (!guest)
		return;

	config[0xd0] = 0x09;
	config[0xd2] = 27;
	config[0xd3] = 'V';
	config[0xd4] = 'F';
	config[0xd5] = 0; /* record 0: the host's driver, two texts of ten bytes */
	config[0xd6] = 22;

	char version[11];
	(void)snprintf(version, sizeof(version), "%-10.10s", sys->machine->driver_version);
	memcpy(config + 0xd7, version, 10);
	(void)snprintf(version, sizeof(version), "r%.3s_00   ", sys->machine->driver_version);
	memcpy(config + 0xe1, version, strlen(version));
}

static void config_fill(const struct sys *sys, const struct sim_pci_function *function,
			const struct identity *identity, uint8_t config[CONFIG_SIZE])
{
	memset(config, 0, CONFIG_SIZE);
	put16(config + 0x00, identity->vendor);
	put16(config + 0x02, identity->device);
	put16(config + 0x04, function->kind == SIM_PCI_HOST ? 0x0000 : 0x0406);
	put16(config + 0x06, function->kind == SIM_PCI_HOST ? 0x0000 : 0x0010);
	config[0x08] = identity->revision;
	config[0x09] = (uint8_t)identity->class_code;
	config[0x0a] = (uint8_t)(identity->class_code >> 8);
	config[0x0b] = (uint8_t)(identity->class_code >> 16);
	config[0x3c] = (uint8_t)identity->irq;

	if (function->kind == SIM_PCI_HOST)
		return;

	config[0x3d] = 1;
	if (kind_is_bridge(function->kind)) {
		config[0x0e] = 1;
		config[0x18] = (uint8_t)function->bus;
		config[0x19] = (uint8_t)function->secondary;
		config[0x1a] = (uint8_t)function->subordinate;
	} else {
		put32(config + 0x10, (uint32_t)bar_address(function, 0));
		put32(config + 0x14, (uint32_t)bar_address(function, 1) | 0xc);
		put32(config + 0x18, (uint32_t)(bar_address(function, 1) >> 32));
		put16(config + 0x2c, identity->subsystem_vendor);
		put16(config + 0x2e, identity->subsystem_device);
	}

	config_capabilities(sys, function, identity, config);
}

/* Access control services (ACS), the only extended capability: what a port can do, and does. The
 * upstream port of a switch has none. */
static void config_extend(const struct sys *sys, enum sim_pci_kind kind,
			  uint8_t config[CONFIG_EXTENDED])
{
	if (kind == SIM_PCI_UPSTREAM)
		return;
	put32(config + ACS_AT, 0x0001000d);
	put16(config + ACS_AT + 4, 0x001f);
	put16(config + ACS_AT + 6, sys->machine->acs_redirects ? 0x001d : 0x0000);
}

static const char *link_speed(uint32_t gen)
{
	static const char *const speed[] = {"Unknown",	     "2.5 GT/s PCIe",  "5.0 GT/s PCIe",
					    "8.0 GT/s PCIe", "16.0 GT/s PCIe", "32.0 GT/s PCIe",
					    "64.0 GT/s PCIe"};
	return gen < sizeof(speed) / sizeof(*speed) ? speed[gen] : speed[0];
}

static uint32_t cpus_of(const struct sim_machine *machine, int32_t node, uint32_t *out_first)
{
	uint32_t nodes = machine->numa_count ? machine->numa_count : 1;
	uint32_t each = machine->cpus_per_node ? machine->cpus_per_node : 1;
	*out_first = node < 0 ? 0 : (uint32_t)node * each;
	return node < 0 ? nodes * each : each;
}

static void text_cpulist(struct sys *sys, uint32_t first, uint32_t count)
{
	if (count == 1)
		sim_plan_text(sys->plan, "%u\n", first);
	else
		sim_plan_text(sys->plan, "%u-%u\n", first, first + count - 1);
}

/* Groups of 32 bits, highest first, as the kernel prints a CPU mask. */
static void text_cpumask(struct sys *sys, uint32_t first, uint32_t count, uint32_t all)
{
	for (uint32_t word = (all + 31) / 32; word-- > 0;) {
		uint32_t bits = 0;
		for (uint32_t bit = 0; bit < 32; bit++) {
			uint32_t cpu = word * 32 + bit;
			if (cpu >= first && cpu < first + count)
				bits |= UINT32_C(1) << bit;
		}

		sim_plan_text(sys->plan, "%08x%s", bits, word ? "," : "\n");
	}
}

static void function_place(struct sys *sys, const struct sim_pci_function *function)
{
	const char *path = function->path;
	uint32_t first, all, count = cpus_of(sys->machine, function->numa_node, &first);

	all = cpus_of(sys->machine, -1, &all);
	sim_plan_file(sys->plan, 0644, "%s/numa_node", path);
	sim_plan_text(sys->plan, "%d\n", function->numa_node);
	sim_plan_file(sys->plan, 0444, "%s/local_cpulist", path);
	text_cpulist(sys, first, count);
	sim_plan_file(sys->plan, 0444, "%s/local_cpus", path);
	text_cpumask(sys, first, count, all);
}

static void function_ids(struct sys *sys, const struct sim_pci_function *function,
			 const struct identity *identity)
{
	static const char *const name[] = {"vendor", "device", "subsystem_vendor",
					   "subsystem_device"};
	const uint16_t value[] = {identity->vendor, identity->device, identity->subsystem_vendor,
				  identity->subsystem_device};
	const char *path = function->path;

	for (size_t i = 0; i < sizeof(name) / sizeof(*name); i++) {
		sim_plan_file(sys->plan, 0444, "%s/%s", path, name[i]);
		sim_plan_text(sys->plan, "0x%04x\n", value[i]);
	}

	sim_plan_file(sys->plan, 0444, "%s/class", path);
	sim_plan_text(sys->plan, "0x%06x\n", identity->class_code);
	sim_plan_file(sys->plan, 0444, "%s/revision", path);
	sim_plan_text(sys->plan, "0x%02x\n", identity->revision);
	sim_plan_file(sys->plan, 0444, "%s/irq", path);
	sim_plan_text(sys->plan, "%u\n", identity->irq);
	sim_plan_file(sys->plan, 0644, "%s/enable", path);
	sim_plan_text(sys->plan, "1\n");

	char modalias[80];
	(void)snprintf(modalias, sizeof(modalias), "pci:v%08Xd%08Xsv%08Xsd%08Xbc%02Xsc%02Xi%02X",
		       identity->vendor, identity->device, identity->subsystem_vendor,
		       identity->subsystem_device, identity->class_code >> 16,
		       identity->class_code >> 8 & 0xff, identity->class_code & 0xff);
	sim_plan_file(sys->plan, 0444, "%s/modalias", path);
	sim_plan_text(sys->plan, "%s\n", modalias);
	sim_plan_file(sys->plan, 0644, "%s/uevent", path);

	if (identity->driver)
		sim_plan_text(sys->plan, "DRIVER=%s\n", identity->driver);
	sim_plan_text(sys->plan,
		      "PCI_CLASS=%X\nPCI_ID=%04X:%04X\nPCI_SUBSYS_ID=%04X:%04X\n"
		      "PCI_SLOT_NAME=%04x:%02x:%02x.0\nMODALIAS=%s\n",
		      identity->class_code, identity->vendor, identity->device,
		      identity->subsystem_vendor, identity->subsystem_device, function->domain,
		      function->bus, function->device, modalias);
}

static void function_link(struct sys *sys, const struct sim_pci_function *function,
			  const struct identity *identity)
{
	const char *path = function->path;

	if (function->kind == SIM_PCI_HOST)
		return;

	sim_plan_file(sys->plan, 0444, "%s/current_link_speed", path);
	sim_plan_text(sys->plan, "%s\n", link_speed(identity->gen));
	sim_plan_file(sys->plan, 0444, "%s/current_link_width", path);
	sim_plan_text(sys->plan, "%u\n", identity->width);
	sim_plan_file(sys->plan, 0444, "%s/max_link_speed", path);
	sim_plan_text(sys->plan, "%s\n", link_speed(identity->gen_max));
	sim_plan_file(sys->plan, 0444, "%s/max_link_width", path);
	sim_plan_text(sys->plan, "%u\n", identity->width_max);
}

static void function_memory(struct sys *sys, const struct sim_pci_function *function,
			    const struct identity *identity)
{
	uint8_t config[CONFIG_EXTENDED] = {0};
	bool is_port = kind_is_bridge(function->kind);

	config_fill(sys, function, identity, config);
	if (is_port)
		config_extend(sys, function->kind, config);
	if (identity->is_gone)
		memset(config, 0xff, sizeof(config));
	sim_plan_file(sys->plan, 0644, "%s/config", function->path);
	sim_plan_bytes(sys->plan, config, is_port ? CONFIG_EXTENDED : CONFIG_SIZE);
	sim_plan_file(sys->plan, 0444, "%s/resource", function->path);

	bool has_bars = function->kind >= SIM_PCI_GPU;
	uint64_t bar1 = UINT64_C(32) << 20;

	if (function->kind == SIM_PCI_GPU) {
		const struct sim_gpu *gpu = &sys->machine->gpu[function->index];
		bar1 = sim_model_of(sys->machine, gpu)->bar1_bytes;
	}

	for (uint32_t line = 0; line < identity->bar_lines; line++) {
		uint64_t start = 0, end = 0, flags = 0;

		if (has_bars && line < 2) {
			uint64_t size = line == 0 ? UINT64_C(16) << 20 : bar1;
			start = bar_address(function, line);
			end = start + (size ? size : UINT64_C(1) << 20) - 1;
			flags = line == 0 ? 0x40200 : 0x14220c;
		}

		sim_plan_text(sys->plan, "0x%016llx 0x%016llx 0x%016llx\n",
			      (unsigned long long)start, (unsigned long long)end,
			      (unsigned long long)flags);
	}
}

static void function_drm(struct sys *sys, const struct sim_pci_function *function)
{
	static const struct {
		const char *name;
		uint32_t first;
	} kind[] = {{"card", 0}, {"renderD", 128}, {"controlD", 64}};

	/* drivers before 4.12 of the kernel left controlD names that have no node any more */
	size_t kinds = sys->machine->breaks & SIM_BREAK_STALE_DRI ? 3 : 2;

	for (size_t i = 0; i < kinds; i++) {
		char path[SIM_PATH_MAX + 64], from[SIM_TEXT_MAX], target[SIM_PATH_MAX];
		uint32_t number = kind[i].first + function->index;

		(void)snprintf(path, sizeof(path), "%s/drm/%s%u", function->path, kind[i].name,
			       number);
		sim_plan_file(sys->plan, 0444, "%s/dev", path);
		sim_plan_text(sys->plan, "%d:%u\n", SIM_MAJOR_DRM, number);
		sim_plan_link(sys->plan, "../..", "%s/device", path);
		(void)snprintf(from, sizeof(from), "sys/class/drm/%s%u", kind[i].name, number);
		sim_plan_link(sys->plan, sim_plan_relative(target, from, path), "%s", from);
		(void)snprintf(from, sizeof(from), "sys/dev/char/%d:%u", SIM_MAJOR_DRM, number);
		sim_plan_link(sys->plan, sim_plan_relative(target, from, path), "%s", from);
	}
}

/* A link at `path` + `name` to `to`, and nothing more. */
static void link_to(struct sys *sys, const char *path, const char *name, const char *to)
{
	char from[SIM_PATH_MAX + 32], target[SIM_PATH_MAX];
	(void)snprintf(from, sizeof(from), "%s/%s", path, name);
	sim_plan_link(sys->plan, sim_plan_relative(target, from, to), "%s", from);
}

static void sys_function(struct sys *sys, const struct sim_pci_function *function, uint32_t number)
{
	struct identity identity = identity_of(sys, function);
	char name[32], from[SIM_PATH_MAX];

	(void)snprintf(name, sizeof(name), "%04x:%02x:%02x.0", function->domain, function->bus,
		       function->device);
	function_ids(sys, function, &identity);
	function_place(sys, function);
	function_link(sys, function, &identity);
	function_memory(sys, function, &identity);

	if (function->kind == SIM_PCI_GPU && identity.driver)
		function_drm(sys, function);
	if (function->kind == SIM_PCI_NIC)
		sim_trees_plan_nic(sys->plan, sys->machine, function, identity.device);
	link_to(sys, "sys/bus/pci/devices", name, function->path);
	link_to(sys, function->path, "subsystem", "sys/bus/pci");

	if (identity.driver) {
		(void)snprintf(from, sizeof(from), "sys/bus/pci/drivers/%s", identity.driver);
		link_to(sys, from, name, function->path);
		link_to(sys, function->path, "driver", from);
	}

	if (function->kind == SIM_PCI_HOST)
		return;

	(void)snprintf(from, sizeof(from), "sys/kernel/iommu_groups/%u", number);
	link_to(sys, function->path, "iommu_group", from);
	sim_plan_file(sys->plan, 0644, "%s/type", from);
	sim_plan_text(sys->plan, sys->machine->iommu_translates ? "DMA-FQ\n" : "identity\n");
	(void)snprintf(from, sizeof(from), "sys/kernel/iommu_groups/%u/devices", number);
	link_to(sys, from, name, function->path);
}

static void sys_modules(struct sys *sys)
{
	static const char *const module[] = {"nvidia", "nvidia_uvm", "nvidia_modeset",
					     "nvidia_drm"};
	const struct sim_machine *machine = sys->machine;
	const char *version = machine->kernel_driver_version[0] ? machine->kernel_driver_version
								: machine->driver_version;

	sim_plan_dir(sys->plan, "sys/module");

	for (size_t i = 0; sim_driver_is_loaded(machine) && i < sizeof(module) / sizeof(*module);
	     i++) {
		if (i == 1 && (machine->breaks & SIM_BREAK_UVM_MISSING))
			continue;

		sim_plan_file(sys->plan, 0444, "sys/module/%s/version", module[i]);
		sim_plan_text(sys->plan, "%s\n", version);
		sim_plan_file(sys->plan, 0444, "sys/module/%s/initstate", module[i]);
		sim_plan_text(sys->plan, "live\n");
	}

	if (!sim_driver_is_loaded(machine))
		return;

	link_to(sys, "sys/bus/pci/drivers/nvidia", "module", "sys/module/nvidia");
	if (machine->nic_count == 0 || machine->open_kernel_module)
		return;

	/* how adapters reach GPU memory where the kernel modules have no DMA-BUF: OFED's registry
	 */
	sim_plan_file(sys->plan, 0444, "sys/module/nvidia_peermem/refcnt");
	sim_plan_text(sys->plan, "0\n");
	sim_plan_file(sys->plan, 0444, "sys/kernel/mm/memory_peers/nv_mem/version");
	sim_plan_text(sys->plan, "1.0-0\n");
}

static void sys_nodes(struct sys *sys)
{
	const struct sim_machine *machine = sys->machine;
	static const char directory[] = "sys/devices/system";
	uint32_t first, all = cpus_of(machine, -1, &first);
	uint32_t nodes = machine->numa_count ? machine->numa_count : 1;

	static const char *const list[] = {"online", "possible"};

	for (size_t i = 0; i < 2; i++) {
		sim_plan_file(sys->plan, 0444, "%s/node/%s", directory, list[i]);
		text_cpulist(sys, 0, nodes);
	}

	for (uint32_t node = 0; node < nodes; node++) {
		uint32_t count = cpus_of(machine, (int32_t)node, &first);

		sim_plan_file(sys->plan, 0444, "%s/node/node%u/cpulist", directory, node);
		text_cpulist(sys, first, count);
		sim_plan_file(sys->plan, 0444, "%s/node/node%u/cpumap", directory, node);
		text_cpumask(sys, first, count, all);
		sim_plan_file(sys->plan, 0444, "%s/node/node%u/distance", directory, node);

		for (uint32_t other = 0; other < nodes; other++)
			sim_plan_text(sys->plan, "%u%s", other == node ? 10 : 21,
				      other + 1 == nodes ? "\n" : " ");
	}
}

static void sys_dmi(struct sys *sys)
{
	static const char directory[] = "sys/devices/virtual/dmi/id";
	sim_plan_file(sys->plan, 0444, "%s/product_name", directory);
	sim_plan_text(sys->plan, "%s\n", sys->machine->product);
	sim_plan_file(sys->plan, 0444, "%s/sys_vendor", directory);
	sim_plan_text(sys->plan, "sluice (simulated)\n");
	link_to(sys, "sys/class/dmi", "id", directory);
}

int sim_trees_plan_sys(struct sim_plan *plan, const struct sim_machine *machine,
		       struct sim_error *error)
{
	struct sys sys = {.plan = plan, .machine = machine};
	struct sim_pci *pci = malloc(sizeof(*pci));
	if (!pci)
		return sim_fail(error, SIM_EXIT_FAILED, "out of memory");
	if (sim_pci_layout(machine, pci, error) != 0) {
		free(pci);
		return -1;
	}

	sim_plan_dir(plan, "sys/bus/pci/devices");
	sim_plan_dir(plan, "sys/bus/pci/drivers");

	for (uint32_t i = 0; i < pci->count; i++) {
		const struct sim_pci_function *function = &pci->function[i];
		if (function->kind == SIM_PCI_GPU &&
		    !sim_gpu_is_plugged(&machine->gpu[function->index]))
			continue;
		if (function->kind == SIM_PCI_NIC && !sim_nic_is_present(machine, function->index))
			continue;

		sys_function(&sys, function, i);
	}

	free(pci);
	sys_modules(&sys);
	sim_trees_plan_rdma_sys(plan, machine);
	sys_nodes(&sys);
	sys_dmi(&sys);

	return 0;
}
