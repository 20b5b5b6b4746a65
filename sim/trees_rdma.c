/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a network adapter shows beside its PCI function: interfaces, the RDMA device with its ports,
 * the character devices in /sys and /dev, and the kernel modules. Forms of the files:
 * Documentation/ABI/stable/sysfs-class-infiniband of the kernel; minor numbers of the nodes:
 * drivers/infiniband/core/{uverbs_main,user_mad}.c. Their major is one that no RDMA driver has.
 */
#include "sim/trees_rdma.h"

#include <stdio.h>
#include <string.h>

enum {
	VERBS_FIRST = 192,
	ISSM_FIRST = 64,
	CM_MINOR = 255,
	GBIT_DOWN_INFINIBAND = 10,
	GBIT_DOWN_ETHERNET = 40,
};

struct nic {
	struct sim_plan *plan;
	const struct sim_machine *machine;
	const struct sim_pci_function *function;
	char name[16];		      /* "mlx5_0" */
	char path[SIM_PATH_MAX + 64]; /* of its RDMA device below sys/devices */
};

bool sim_nic_is_ethernet(const struct sim_machine *machine, uint32_t nic)
{
	return nic + machine->nic_ethernet >= machine->nic_count;
}

bool sim_nic_is_present(const struct sim_machine *machine, uint32_t nic)
{
	return nic < SIM_NIC_MAX && nic < machine->nic_count && !machine->nic[nic].gone;
}

static bool nic_has_driver(const struct sim_machine *machine, uint32_t nic)
{
	return sim_nic_is_present(machine, nic) && !machine->nic[nic].unbound;
}

/* ---- ports ---- */

static const char *lanes_of(uint32_t gbit)
{
	static const struct {
		uint32_t gbit;
		const char *lanes;
	} known[] = {{10, "4X SDR"},  {20, "4X DDR"}, {25, "1X EDR"},  {40, "4X QDR"},
		     {50, "1X HDR"},  {56, "4X FDR"}, {100, "4X EDR"}, {200, "4X HDR"},
		     {400, "4X NDR"}, {800, "4X XDR"}};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].gbit == gbit)
			return known[i].lanes;

	return "4X EDR";
}

static void put(const struct nic *nic, const char *dir, const char *name, const char *text)
{
	sim_plan_file(nic->plan, 0444, "%s/%s", dir, name);
	sim_plan_text(nic->plan, "%s\n", text);
}

static void put_number(const struct nic *nic, const char *dir, const char *name, uint32_t number)
{
	sim_plan_file(nic->plan, 0444, "%s/%s", dir, name);
	sim_plan_text(nic->plan, "%u\n", number);
}

static void link_to(const struct nic *nic, const char *from, const char *to)
{
	char target[SIM_PATH_MAX];
	sim_plan_link(nic->plan, sim_plan_relative(target, from, to), "%s", from);
}

static void port_counters(const struct nic *nic, const char *dir, uint32_t number, uint32_t downed)
{
	static const char *const zero[] = {"symbol_error", "link_error_recovery", "port_rcv_errors",
					   "port_xmit_discards"};
	static const char *const hardware[] = {"out_of_sequence", "packet_seq_err",
					       "rnr_nak_retry_err", "np_cnp_sent",
					       "rp_cnp_handled"};

	char sub[SIM_PATH_MAX + 128];
	(void)snprintf(sub, sizeof(sub), "%s/counters", dir);

	/* in words of 32 bits */
	put_number(nic, sub, "port_xmit_data", 250000 * (number + 1));
	put_number(nic, sub, "port_rcv_data", 125000 * (number + 1));

	for (size_t i = 0; i < sizeof(zero) / sizeof(zero[0]); i++)
		put_number(nic, sub, zero[i], 0);

	put_number(nic, sub, "link_downed", downed);
	(void)snprintf(sub, sizeof(sub), "%s/hw_counters", dir);

	for (size_t i = 0; i < sizeof(hardware) / sizeof(hardware[0]); i++)
		put_number(nic, sub, hardware[i], 0);
}

static void nic_port(const struct nic *nic, uint32_t port)
{
	const struct sim_machine *machine = nic->machine;
	uint32_t index = nic->function->index;
	const struct sim_nic *state = &machine->nic[index];
	bool ethernet = sim_nic_is_ethernet(machine, index), down = state->down[port];
	uint32_t gbit = state->rate_gbit[port] ? state->rate_gbit[port] : machine->nic_rate_gbit;

	if (down)
		gbit = ethernet ? GBIT_DOWN_ETHERNET : GBIT_DOWN_INFINIBAND;

	char dir[SIM_PATH_MAX + 96];
	(void)snprintf(dir, sizeof(dir), "%s/ports/%u", nic->path, port + 1);
	put(nic, dir, "state", down ? "1: DOWN" : "4: ACTIVE");
	put(nic, dir, "phys_state", !down ? "5: LinkUp" : ethernet ? "3: Disabled" : "2: Polling");
	put(nic, dir, "link_layer", ethernet ? "Ethernet" : "InfiniBand");
	sim_plan_file(nic->plan, 0444, "%s/rate", dir);
	sim_plan_text(nic->plan, "%u Gb/sec (%s)\n", gbit, lanes_of(gbit));
	sim_plan_file(nic->plan, 0444, "%s/lid", dir);
	sim_plan_text(nic->plan, "0x%x\n", ethernet ? 0 : index * SIM_NIC_PORT_MAX + port + 1);
	put(nic, dir, "sm_lid", ethernet ? "0x0" : "0x1");
	port_counters(nic, dir, index * machine->nic_ports + port, state->downed[port]);
}

/* ---- character devices ---- */

/* The entry of a class and the links to it: sys/class/infiniband_verbs/uverbs0. */
static void nic_node(const struct nic *nic, const char *class_, const char *kind, uint32_t number,
		     uint32_t minor_number, int port)
{
	char dir[SIM_PATH_MAX + 96], from[SIM_PATH_MAX + 128];
	(void)snprintf(dir, sizeof(dir), "%s/%s/%s%u", nic->function->path, class_, kind, number);
	put(nic, dir, "ibdev", nic->name);
	sim_plan_file(nic->plan, 0444, "%s/dev", dir);
	sim_plan_text(nic->plan, "%d:%u\n", SIM_MAJOR_RDMA, minor_number);

	if (port > 0)
		put_number(nic, dir, "port", (uint32_t)port);
	(void)snprintf(from, sizeof(from), "%s/device", dir);
	link_to(nic, from, nic->function->path);
	(void)snprintf(from, sizeof(from), "sys/class/%s/%s%u", class_, kind, number);
	link_to(nic, from, dir);
	(void)snprintf(from, sizeof(from), "sys/dev/char/%d:%u", SIM_MAJOR_RDMA, minor_number);
	link_to(nic, from, dir);
}

/* ---- interfaces ---- */

static void nic_interface(const struct nic *nic, uint32_t port)
{
	const struct sim_machine *machine = nic->machine;
	uint32_t index = nic->function->index;
	bool ethernet = sim_nic_is_ethernet(machine, index), down = machine->nic[index].down[port];
	char name[16], dir[SIM_PATH_MAX + 32], from[SIM_PATH_MAX + 64];

	if (ethernet)
		(void)snprintf(name, sizeof(name), "enp%us0np%u", nic->function->bus & 0xff,
			       port & 1);
	else
		(void)snprintf(name, sizeof(name), "ib%u",
			       (index * machine->nic_ports + port) & 0xff);

	(void)snprintf(dir, sizeof(dir), "%s/net/%s", nic->function->path, name);
	put(nic, dir, "type", ethernet ? "1" : "32");
	put(nic, dir, "operstate", down ? "down" : "up");
	put(nic, dir, "mtu", ethernet ? "1500" : "2044");
	put_number(nic, dir, "dev_port", port);
	sim_plan_file(nic->plan, 0444, "%s/address", dir);
	sim_plan_text(nic->plan, "02:51:ce:00:%02x:%02x\n", index, port);
	(void)snprintf(from, sizeof(from), "%s/device", dir);
	link_to(nic, from, nic->function->path);
	(void)snprintf(from, sizeof(from), "sys/class/net/%s", name);
	link_to(nic, from, dir);
}

static const char *firmware_of(uint16_t device)
{
	return device == 0x1021 ? "28.36.1010" : device == 0x101b ? "20.35.1012" : "12.28.2006";
}

void sim_trees_plan_nic(struct sim_plan *plan, const struct sim_machine *machine,
			const struct sim_pci_function *function, uint16_t device)
{
	uint32_t index = function->index;
	struct nic nic = {.plan = plan, .machine = machine, .function = function};

	if (!nic_has_driver(machine, index))
		return;

	(void)snprintf(nic.name, sizeof(nic.name), "mlx5_%u", index);
	(void)snprintf(nic.path, sizeof(nic.path), "%s/infiniband/%s", function->path, nic.name);
	put(&nic, nic.path, "node_type", "1: CA");
	sim_plan_file(plan, 0444, "%s/node_guid", nic.path);
	sim_plan_text(plan, "51ce:51ce:0000:%04x\n", index);
	sim_plan_file(plan, 0444, "%s/node_desc", nic.path);
	sim_plan_text(plan, "%s (simulated)\n", nic.name);
	sim_plan_file(plan, 0444, "%s/hca_type", nic.path);
	sim_plan_text(plan, "MT%u\n", device);
	put(&nic, nic.path, "board_id", "SIMULATED");
	put(&nic, nic.path, "fw_ver", firmware_of(device));

	char from[SIM_PATH_MAX + 128];
	(void)snprintf(from, sizeof(from), "%s/device", nic.path);
	link_to(&nic, from, function->path);
	(void)snprintf(from, sizeof(from), "sys/class/infiniband/%s", nic.name);
	link_to(&nic, from, nic.path);

	nic_node(&nic, "infiniband_verbs", "uverbs", index, VERBS_FIRST + index, 0);

	for (uint32_t p = 0; p < machine->nic_ports; p++) {
		uint32_t number = index * machine->nic_ports + p;

		nic_interface(&nic, p);
		nic_port(&nic, p);
		nic_node(&nic, "infiniband_mad", "umad", number, number, (int)p + 1);

		if (!sim_nic_is_ethernet(machine, index))
			nic_node(&nic, "infiniband_mad", "issm", number, ISSM_FIRST + number,
				 (int)p + 1);
	}
}

/* ---- the machine ---- */

static const char *const modules[] = {"ib_core",  "ib_uverbs", "ib_umad",   "ib_cm",  "rdma_cm",
				      "rdma_ucm", "ib_ipoib",  "mlx5_core", "mlx5_ib"};

void sim_trees_plan_rdma_sys(struct sim_plan *plan, const struct sim_machine *machine)
{
	if (machine->nic_count == 0)
		return;

	for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++) {
		sim_plan_file(plan, 0444, "sys/module/%s/initstate", modules[i]);
		sim_plan_text(plan, "live\n");
	}

	sim_plan_file(plan, 0444, "sys/module/ib_core/parameters/netns_mode");
	sim_plan_text(plan, machine->rdma_exclusive ? "N\n" : "Y\n");
	sim_plan_dir(plan, "sys/class/infiniband");
	sim_plan_file(plan, 0444, "sys/class/infiniband_verbs/abi_version");
	sim_plan_text(plan, "6\n");
	sim_plan_file(plan, 0444, "sys/class/infiniband_mad/abi_version");
	sim_plan_text(plan, "5\n");
	sim_plan_file(plan, 0444, "sys/class/misc/rdma_cm/dev");
	sim_plan_text(plan, "%d:%d\n", SIM_MAJOR_RDMA, CM_MINOR);
}

void sim_trees_plan_rdma_modules(struct sim_plan *plan, const struct sim_machine *machine)
{
	if (machine->nic_count == 0)
		return;
	for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++)
		sim_plan_text(plan, "%s 131072 0 - Live 0x0000000000000000\n", modules[i]);
}

/* A stand-in has no numbers that could be wrong: there a directory takes the node's place. */
static void dev_uverbs(struct sim_plan *plan, const struct sim_machine *machine, uint32_t index,
		       sim_rdma_node_fn *node, const void *context)
{
	char path[SIM_TEXT_MAX];
	const struct sim_nic *nic = &machine->nic[index];

	(void)snprintf(path, sizeof(path), "dev/infiniband/uverbs%u", index);
	if (nic->no_node)
		return;

	if (nic->wrong_node && machine->dev_style != SIM_DEV_NVIDIA)
		sim_plan_dir(plan, "%s", path);
	else
		node(context, 0666, SIM_MAJOR_RDMA, VERBS_FIRST + index + (nic->wrong_node ? 1 : 0),
		     path);
}

void sim_trees_plan_rdma_dev(struct sim_plan *plan, const struct sim_machine *machine,
			     sim_rdma_node_fn *node, const void *context)
{
	char path[SIM_TEXT_MAX];

	if (machine->nic_count > 0)
		node(context, 0666, SIM_MAJOR_RDMA, CM_MINOR, "dev/infiniband/rdma_cm");

	for (uint32_t i = 0; i < machine->nic_count && i < SIM_NIC_MAX; i++) {
		if (!nic_has_driver(machine, i))
			continue;

		dev_uverbs(plan, machine, i, node, context);

		for (uint32_t p = 0; p < machine->nic_ports; p++) {
			uint32_t number = i * machine->nic_ports + p;
			(void)snprintf(path, sizeof(path), "dev/infiniband/umad%u", number);
			node(context, 0600, SIM_MAJOR_RDMA, number, path);
			(void)snprintf(path, sizeof(path), "dev/infiniband/issm%u", number);

			if (!sim_nic_is_ethernet(machine, i))
				node(context, 0600, SIM_MAJOR_RDMA, ISSM_FIRST + number, path);
		}
	}
}
