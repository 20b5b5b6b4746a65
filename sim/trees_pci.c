/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/trees_pci.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "sim/error.h"

enum pci_limits {
	PCI_BUS_MAX = 256,
	PCI_NICS_PER_SWITCH = 2,
};

struct pci_layout {
	const struct sim_machine *machine;
	struct sim_pci *pci;
	uint32_t domain;
	bool used[PCI_BUS_MAX];
	bool failed;
	struct sim_pci_function nowhere; /* what does not fit goes here; then `failed` is set */
	uint32_t nic_next;		 /* index of the next adapter to be placed */
	uint32_t nic_per_host;		 /* adapters under each switch that takes any */
	uint32_t nic_hosts; /* switches that could take adapters, while they are counted */
	/* the GPUs with which each GPU shares a root complex, a root port, a switch: least index */
	uint32_t complex[SIM_GPU_MAX], port[SIM_GPU_MAX], fan[SIM_GPU_MAX];
};

/* GPUs that stand together below one bridge, ascending by bus. */
struct set {
	uint32_t count;
	uint32_t gpu[SIM_GPU_MAX];
};

static struct sim_pci_function *place(struct pci_layout *layout, const char *parent,
				      enum sim_pci_kind kind, uint32_t bus, uint32_t device,
				      int32_t numa_node)
{
	struct sim_pci *pci = layout->pci;
	if (pci->count == SIM_PCI_FUNCTION_MAX || device > 31) {
		layout->failed = true;
		return &layout->nowhere;
	}

	struct sim_pci_function *function = &pci->function[pci->count++];
	*function = (struct sim_pci_function){
	    .kind = kind,
	    .domain = layout->domain,
	    .bus = bus,
	    .device = device,
	    .numa_node = numa_node,
	};

	int length = snprintf(function->path, sizeof(function->path), "%s/%04x:%02x:%02x.0", parent,
			      layout->domain, bus, device);
	if (length < 0 || (size_t)length >= sizeof(function->path))
		layout->failed = true;

	return function;
}

/* The nearest free bus number below `bus`, else above it. */
static uint32_t take_bus(struct pci_layout *layout, uint32_t bus)
{
	for (uint32_t b = bus; b-- > 1;) {
		if (!layout->used[b]) {
			layout->used[b] = true;
			return b;
		}
	}

	for (uint32_t b = bus + 1; b < PCI_BUS_MAX; b++) {
		if (!layout->used[b]) {
			layout->used[b] = true;
			return b;
		}
	}

	layout->failed = true;
	return 0;
}

/* A bus number for a network adapter beside the GPUs on buses first..last: between them, else
 * before them if that leaves room for the bridges above, else behind them. */
static uint32_t take_bus_beside(struct pci_layout *layout, uint32_t first, uint32_t last)
{
	for (uint32_t b = last; b-- > first + 1;) {
		if (!layout->used[b]) {
			layout->used[b] = true;
			return b;
		}
	}

	uint32_t room = 0;
	while (room < first && !layout->used[first - 1 - room])
		room++;

	if (room >= 6)
		return take_bus(layout, first);

	for (uint32_t b = last + 1; b < PCI_BUS_MAX; b++) {
		if (!layout->used[b]) {
			layout->used[b] = true;
			return b;
		}
	}

	return take_bus(layout, first);
}

static void group(struct pci_layout *layout, uint32_t level, uint32_t leader[SIM_GPU_MAX])
{
	const struct sim_machine *machine = layout->machine;

	for (uint32_t i = 0; i < machine->gpu_count; i++) {
		leader[i] = i;
		for (uint32_t j = 0; j < i; j++) {
			if (machine->level[i][j] > 0 && machine->level[i][j] <= level &&
			    machine->gpu[i].pci_domain == machine->gpu[j].pci_domain) {
				leader[i] = leader[j];
				break;
			}
		}
	}
}

/* Those of `from` that have `leader` as theirs, ascending by bus and device. */
static struct set subset(const struct pci_layout *layout, const struct set *from,
			 const uint32_t leaders[SIM_GPU_MAX], uint32_t leader)
{
	struct set set = {0};

	for (uint32_t i = 0; i < from->count; i++) {
		if (leaders[from->gpu[i]] != leader)
			continue;

		const struct sim_gpu *gpu = &layout->machine->gpu[from->gpu[i]];
		uint32_t at = set.count++;

		for (; at > 0; at--) {
			const struct sim_gpu *before = &layout->machine->gpu[set.gpu[at - 1]];
			if (before->pci_bus < gpu->pci_bus ||
			    (before->pci_bus == gpu->pci_bus &&
			     before->pci_device < gpu->pci_device))
				break;

			set.gpu[at] = set.gpu[at - 1];
		}

		set.gpu[at] = from->gpu[i];
	}

	return set;
}

static uint32_t bus_of(const struct pci_layout *layout, uint32_t gpu)
{
	return layout->machine->gpu[gpu].pci_bus;
}

/* A PCIe switch below `parent`; its downstream ports are added as children come. */
struct fan {
	char path[SIM_PATH_MAX];       /* of the upstream port */
	uint32_t upstream, downstream; /* buses */
	uint32_t ports, stride;
	int32_t numa_node;
};

static struct fan fan_place(struct pci_layout *layout, const char *parent, uint32_t upstream,
			    uint32_t downstream, uint32_t children, int32_t numa_node)
{
	struct fan fan = {
	    .upstream = upstream,
	    .downstream = downstream,
	    .stride = children <= 8 ? 4 : 1,
	    .numa_node = numa_node,
	};
	struct sim_pci_function *up =
	    place(layout, parent, SIM_PCI_UPSTREAM, upstream, 0, numa_node);

	up->secondary = downstream;
	memcpy(fan.path, up->path, sizeof(fan.path));
	return fan;
}

static const char *fan_port(struct pci_layout *layout, struct fan *fan, uint32_t secondary)
{
	struct sim_pci_function *port =
	    place(layout, fan->path, SIM_PCI_DOWNSTREAM, fan->downstream,
		  fan->ports++ * fan->stride, fan->numa_node);
	port->secondary = secondary;
	return port->path;
}

/* Puts the GPUs of `set`, one after the other, below ports of `fan`. */
static void fan_gpus(struct pci_layout *layout, struct fan *fan, const struct set *set)
{
	const char *parent = NULL;

	for (uint32_t i = 0; i < set->count; i++) {
		const struct sim_gpu *gpu = &layout->machine->gpu[set->gpu[i]];
		if (i == 0 || gpu->pci_bus != bus_of(layout, set->gpu[i - 1]))
			parent = fan_port(layout, fan, gpu->pci_bus);
		place(layout, parent, SIM_PCI_GPU, gpu->pci_bus, gpu->pci_device, gpu->numa_node)
		    ->index = set->gpu[i];
	}
}

static void fan_nics(struct pci_layout *layout, struct fan *fan, const uint32_t *bus,
		     uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		place(layout, fan_port(layout, fan, bus[i]), SIM_PCI_NIC, bus[i], 0, fan->numa_node)
		    ->index = layout->nic_next++;
}

static uint32_t nic_share(const struct pci_layout *layout)
{
	uint32_t left = layout->machine->nic_count - layout->nic_next;
	return left < layout->nic_per_host ? left : layout->nic_per_host;
}

/* One switch with the GPUs of `set` and adapters beside them. */
struct inner {
	struct set set;
	uint32_t upstream, downstream;
	uint32_t nic[PCI_NICS_PER_SWITCH], nic_count;
};

static void inner_reserve(struct pci_layout *layout, struct inner *inner, uint32_t nics)
{
	uint32_t first = bus_of(layout, inner->set.gpu[0]);
	uint32_t last = bus_of(layout, inner->set.gpu[inner->set.count - 1]);
	for (inner->nic_count = 0; inner->nic_count < nics; inner->nic_count++)
		inner->nic[inner->nic_count] = take_bus_beside(layout, first, last);

	uint32_t lowest = first;
	for (uint32_t i = 0; i < inner->nic_count; i++)
		lowest = inner->nic[i] < lowest ? inner->nic[i] : lowest;

	inner->downstream = take_bus(layout, lowest);
	inner->upstream = take_bus(layout, inner->downstream);
}

static void inner_place(struct pci_layout *layout, struct inner *inner, const char *parent,
			int32_t numa_node)
{
	struct fan fan = fan_place(layout, parent, inner->upstream, inner->downstream,
				   inner->set.count + inner->nic_count, numa_node);
	fan_gpus(layout, &fan, &inner->set);
	fan_nics(layout, &fan, inner->nic, inner->nic_count);
}

/* What is below one root port. */
struct port {
	struct set set;
	bool direct; /* a GPU without any switch */
	uint32_t inner_count;
	struct inner inner[SIM_GPU_MAX];
	uint32_t upstream, downstream; /* of the switch above several inner ones */
	uint32_t nic[PCI_NICS_PER_SWITCH], nic_count;
};

static uint32_t port_reserve(struct pci_layout *layout, struct port *port)
{
	bool shared = false; /* an inner switch with several GPUs has the adapters */

	port->inner_count = 0;
	for (uint32_t i = 0; i < port->set.count; i++) {
		if (layout->fan[port->set.gpu[i]] != port->set.gpu[i])
			continue;
		struct inner *inner = &port->inner[port->inner_count++];
		inner->set = subset(layout, &port->set, layout->fan, port->set.gpu[i]);
		shared |= inner->set.count > 1;
	}

	bool lone = port->inner_count == 1;
	port->direct = lone && port->inner[0].set.count == 1 && nic_share(layout) == 0;
	if (port->direct)
		return bus_of(layout, port->set.gpu[0]);

	uint32_t taken = layout->nic_next;

	for (uint32_t i = 0; i < port->inner_count; i++) {
		struct inner *inner = &port->inner[i];
		uint32_t nics = lone || inner->set.count > 1 ? nic_share(layout) : 0;
		inner_reserve(layout, inner, nics);
		layout->nic_next += nics;
	}

	if (lone) {
		layout->nic_next = taken;
		return port->inner[0].upstream;
	}

	uint32_t first = port->inner[0].upstream;
	uint32_t last = bus_of(layout, port->set.gpu[port->set.count - 1]);
	uint32_t nics = shared ? 0 : nic_share(layout);

	for (port->nic_count = 0; port->nic_count < nics; port->nic_count++)
		port->nic[port->nic_count] = take_bus_beside(layout, first, last);

	layout->nic_next = taken;
	port->downstream = take_bus(layout, first);
	port->upstream = take_bus(layout, port->downstream);

	return port->upstream;
}

static void port_place(struct pci_layout *layout, struct port *port, const char *root, uint32_t bus,
		       uint32_t device)
{
	const struct sim_gpu *first = &layout->machine->gpu[port->set.gpu[0]];
	struct sim_pci_function *function =
	    place(layout, root, SIM_PCI_ROOT_PORT, bus, device, first->numa_node);
	const char *path = function->path;

	if (port->direct) {
		function->secondary = first->pci_bus;
		place(layout, path, SIM_PCI_GPU, first->pci_bus, first->pci_device,
		      first->numa_node)
		    ->index = port->set.gpu[0];
		return;
	}

	if (port->inner_count == 1) {
		function->secondary = port->inner[0].upstream;
		inner_place(layout, &port->inner[0], path, first->numa_node);
		return;
	}

	function->secondary = port->upstream;
	struct fan fan = fan_place(layout, path, port->upstream, port->downstream,
				   port->inner_count + port->nic_count, first->numa_node);
	for (uint32_t i = 0; i < port->inner_count; i++) {
		const char *parent = fan_port(layout, &fan, port->inner[i].upstream);
		inner_place(layout, &port->inner[i], parent, first->numa_node);
	}

	fan_nics(layout, &fan, port->nic, port->nic_count);
}

/* The number of the root bus above `lowest`: a round one, as firmware gives them, if it is free. */
static uint32_t root_bus(struct pci_layout *layout, uint32_t lowest)
{
	uint32_t round = lowest & ~UINT32_C(0xf);
	if (round != lowest && !layout->used[round]) {
		layout->used[round] = true;
		return round;
	}
	return take_bus(layout, lowest);
}

static void root_path(const struct pci_layout *layout, char path[SIM_TEXT_MAX], uint32_t bus)
{
	(void)snprintf(path, SIM_TEXT_MAX, "sys/devices/pci%04x:%02x", layout->domain, bus);
}

static void place_complex(struct pci_layout *layout, const struct set *set)
{
	const struct sim_machine *machine = layout->machine;
	static const uint32_t most_ports = SIM_GPU_MAX;
	char path[SIM_TEXT_MAX];
	uint32_t bus = bus_of(layout, set->gpu[0]);
	const struct sim_gpu *first = &machine->gpu[set->gpu[0]];

	if (bus_of(layout, set->gpu[set->count - 1]) == bus && (bus == 0 || first->pci_device)) {
		/* straight on the root bus, as in virtual machines */
		root_path(layout, path, bus);
		place(layout, path, SIM_PCI_HOST, bus, 0, first->numa_node);

		for (uint32_t i = 0; i < set->count; i++) {
			const struct sim_gpu *gpu = &machine->gpu[set->gpu[i]];
			place(layout, path, SIM_PCI_GPU, bus, gpu->pci_device, gpu->numa_node)
			    ->index = set->gpu[i];
		}

		return;
	}

	uint32_t lowest = PCI_BUS_MAX;
	for (uint32_t i = 0; i < set->count; i++)
		lowest =
		    bus_of(layout, set->gpu[i]) < lowest ? bus_of(layout, set->gpu[i]) : lowest;

	uint32_t device = 0, root = PCI_BUS_MAX;

	for (uint32_t i = 0; i < set->count && device < most_ports; i++) {
		uint32_t gpu = set->gpu[i];
		if (layout->port[gpu] != gpu)
			continue;

		struct port port = {.set = subset(layout, set, layout->port, gpu)};
		uint32_t at = port_reserve(layout, &port);

		if (root == PCI_BUS_MAX) {
			root = root_bus(layout, at < lowest ? at : lowest);
			root_path(layout, path, root);
			place(layout, path, SIM_PCI_HOST, root, 0, first->numa_node);
		}

		port_place(layout, &port, path, root, ++device);
	}
}

/* Functions that no GPU shares a switch with: NVSwitches and the remaining adapters. */
static void place_alone(struct pci_layout *layout, enum sim_pci_kind kind, const uint32_t *bus,
			const uint32_t *device, uint32_t count, uint32_t first_index)
{
	if (count == 0)
		return;

	char path[SIM_TEXT_MAX];
	int32_t numa_node = layout->machine->numa_count > 1 ? 0 : -1;
	uint32_t downstream = take_bus(layout, bus[0]);
	uint32_t upstream = take_bus(layout, downstream);
	uint32_t root = root_bus(layout, upstream);

	root_path(layout, path, root);
	place(layout, path, SIM_PCI_HOST, root, 0, numa_node);

	struct sim_pci_function *port = place(layout, path, SIM_PCI_ROOT_PORT, root, 1, numa_node);
	port->secondary = upstream;

	struct fan fan = fan_place(layout, port->path, upstream, downstream, count, numa_node);
	for (uint32_t i = 0; i < count; i++)
		place(layout, fan_port(layout, &fan, bus[i]), kind, bus[i], device[i], numa_node)
		    ->index = first_index + i;
}

/* The addresses under which GPUs know their switches, in order of appearance. */
static uint32_t collect_switches(const struct sim_machine *machine,
				 uint32_t bus[SIM_PCI_SWITCH_MAX],
				 uint32_t device[SIM_PCI_SWITCH_MAX])
{
	uint32_t count = 0;

	for (uint32_t g = 0; g < machine->gpu_count; g++) {
		for (uint32_t l = 0; l < SIM_LINK_MAX; l++) {
			const struct sim_link *link = &machine->gpu[g].link[l];
			if (link->peer_kind != SIM_LINK_SWITCH)
				continue;

			uint32_t i = 0;
			while (i < count &&
			       (bus[i] != link->switch_bus || device[i] != link->switch_device))
				i++;

			if (i < count || count == SIM_PCI_SWITCH_MAX)
				continue;

			bus[count] = link->switch_bus;
			device[count++] = link->switch_device;
		}
	}

	return count;
}

static void place_domain(struct pci_layout *layout, bool first_domain)
{
	const struct sim_machine *machine = layout->machine;
	uint32_t bus[SIM_PCI_SWITCH_MAX], device[SIM_PCI_SWITCH_MAX] = {0};
	uint32_t switches = first_domain ? collect_switches(machine, bus, device) : 0;
	struct set all = {0};

	for (uint32_t i = 0; i < machine->gpu_count; i++) {
		if (machine->gpu[i].pci_domain != layout->domain)
			continue;
		all.gpu[all.count++] = i;
		layout->used[machine->gpu[i].pci_bus % PCI_BUS_MAX] = true;
	}

	for (uint32_t i = 0; i < switches; i++)
		layout->used[bus[i] % PCI_BUS_MAX] = true;

	for (uint32_t i = 0; i < all.count; i++) {
		if (layout->complex[all.gpu[i]] != all.gpu[i])
			continue;
		struct set set = subset(layout, &all, layout->complex, all.gpu[i]);
		place_complex(layout, &set);
	}

	while (first_domain && switches < machine->switch_count && switches < SIM_PCI_SWITCH_MAX) {
		bus[switches] = take_bus(layout, PCI_BUS_MAX - 1);
		device[switches++] = 0;
	}

	place_alone(layout, SIM_PCI_NVSWITCH, bus, device, switches, 0);
	uint32_t nics = first_domain && machine->nic_count > layout->nic_next
			    ? machine->nic_count - layout->nic_next
			    : 0;
	if (nics > SIM_PCI_SWITCH_MAX)
		nics = SIM_PCI_SWITCH_MAX;

	for (uint32_t i = nics; i-- > 0;) {
		bus[i] = take_bus(layout, 0xe8);
		device[i] = 0;
	}

	place_alone(layout, SIM_PCI_NIC, bus, device, nics, layout->nic_next);
}

/* How many switches could carry adapters: one per group of GPUs that share one. */
static uint32_t count_hosts(const struct pci_layout *layout)
{
	const struct sim_machine *machine = layout->machine;
	uint32_t hosts = 0;

	for (uint32_t i = 0; i < machine->gpu_count; i++) {
		uint32_t fans = 0, shared = 0;

		if (layout->port[i] != i || machine->gpu[i].pci_bus == 0)
			continue;

		for (uint32_t j = 0; j < machine->gpu_count; j++) {
			uint32_t members = 0;

			if (layout->port[j] != i || layout->fan[j] != j)
				continue;

			for (uint32_t k = 0; k < machine->gpu_count; k++)
				members += layout->fan[k] == j;

			fans++;
			shared += members > 1;
		}

		hosts += fans > 1 && shared > 0 ? shared : 1;
	}

	return hosts;
}

static void set_subordinates(struct sim_pci *pci)
{
	for (uint32_t i = 0; i < pci->count; i++) {
		struct sim_pci_function *bridge = &pci->function[i];
		if (bridge->kind < SIM_PCI_ROOT_PORT || bridge->kind > SIM_PCI_DOWNSTREAM)
			continue;

		size_t length = strlen(bridge->path);

		bridge->subordinate = bridge->secondary;
		for (uint32_t j = 0; j < pci->count; j++) {
			const struct sim_pci_function *below = &pci->function[j];
			if (strncmp(below->path, bridge->path, length) != 0 ||
			    below->path[length] != '/')
				continue;
			if (below->bus > bridge->subordinate)
				bridge->subordinate = below->bus;
			if (below->secondary > bridge->subordinate)
				bridge->subordinate = below->secondary;
		}
	}
}

/* Drivers find adapters in the order of their addresses, and call them so. */
static void number_nics(struct sim_pci *pci)
{
	for (uint32_t i = 0; i < pci->count; i++) {
		struct sim_pci_function *nic = &pci->function[i];
		if (nic->kind != SIM_PCI_NIC)
			continue;

		nic->index = 0;
		for (uint32_t j = 0; j < pci->count; j++) {
			const struct sim_pci_function *other = &pci->function[j];
			nic->index += other->kind == SIM_PCI_NIC &&
				      (other->domain < nic->domain ||
				       (other->domain == nic->domain && other->bus < nic->bus));
		}
	}
}

int sim_pci_layout(const struct sim_machine *machine, struct sim_pci *out, struct sim_error *error)
{
	struct pci_layout layout = {.machine = machine, .pci = out};

	out->count = 0;
	group(&layout, 30, layout.complex);
	group(&layout, 20, layout.port);
	group(&layout, 10, layout.fan);

	uint32_t hosts = count_hosts(&layout);
	layout.nic_per_host = hosts ? machine->nic_count / hosts : 0;
	if (layout.nic_per_host > PCI_NICS_PER_SWITCH)
		layout.nic_per_host = PCI_NICS_PER_SWITCH;

	for (uint32_t i = 0; i < machine->gpu_count && !layout.failed; i++) {
		bool seen = false;

		layout.domain = machine->gpu[i].pci_domain;
		for (uint32_t j = 0; j < i; j++)
			seen |= machine->gpu[j].pci_domain == layout.domain;

		if (seen)
			continue;

		memset(layout.used, 0, sizeof(layout.used));
		place_domain(&layout, i == 0);
	}

	if (layout.failed)
		return sim_fail(
		    error, SIM_EXIT_INPUT,
		    "the PCI tree of profile '%s' does not fit: too few bus numbers are "
		    "left between its GPUs",
		    machine->profile);

	set_subordinates(out);
	number_nics(out);
	return 0;
}
