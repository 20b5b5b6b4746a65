/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/machine/devices_rdma.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "cmd/machine/machine.h"
#include "cmd/table.h"
#include "hardware/rdma.h"
#include "hardware/rdma_counters.h"

enum { LIST_MAX = 4096 }; /* bytes of one cell */

static bool is_simulated(const struct rdma_inventory *inventory)
{
	for (uint32_t i = 0; i < inventory->function_count; i++)
		if (inventory->function[i].simulated)
			return true;
	return false;
}

/* Each is one RDMA device. */
static uint32_t count_software(const struct rdma_inventory *inventory)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < inventory->function_count; i++)
		count += inventory->function[i].is_software;
	return count;
}

/* ---- the table ---- */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* "uverbs0! umad0 issm0": a mark at what is not usable. */
static void add_nodes(struct table *table, const struct rdma_device *device)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, LIST_MAX);

	for (uint32_t i = 0; i < device->node_count; i++) {
		const struct rdma_node *node = &device->node[i];
		(void)buf_printf(&text, "%s%s%s", text.length ? " " : "", base_name(node->path),
				 rdma_node_is_usable(node) ? "" : "!");
	}

	table_add(table, buf_text(&text));
}

static void add_interfaces(struct table *table, const struct rdma_function *function)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, LIST_MAX);
	for (uint32_t i = 0; i < function->interface_count; i++)
		(void)buf_printf(&text, "%s%s", i ? " " : "", function->interface[i].name);
	table_add(table, buf_text(&text));
}

static void add_reasons(struct table *table, const struct rdma_function *function)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, LIST_MAX);

	for (uint32_t i = 0; i < function->reason_count; i++) {
		const struct rdma_reason *reason = &function->reason[i];
		(void)buf_printf(&text, "%s%s%s%s", i ? "; " : "",
				 rdma_reason_to_string(reason->code),
				 reason->subject[0] ? ": " : "", reason->subject);
	}

	table_add(table, buf_text(&text));
}

static void add_empty(struct table *table, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		table_add(table, NULL);
}

/* Of the port columns: number, link, state, rate. */
static void add_port(struct table *table, const struct rdma_port *port)
{
	table_add_u64(table, port->number);
	table_add(table, rdma_link_layer_to_string(port->link_layer));

	if (rdma_port_is_up(port))
		table_add(table, "up");
	else
		table_addf(table, "%s, %s", port->state_text[0] ? port->state_text : "unknown",
			   port->phys_text[0] ? port->phys_text : "unknown");

	table_add(table, port->rate_text);
}

/* A row for each port; what belongs to the function and the device stands in their first one. */
static void add_function(struct table *table, const struct rdma_inventory *inventory,
			 const struct rdma_function *function)
{
	char bus[PCI_TEXT_MAX];
	bool first = true;

	pci_address_to_string(&function->address, bus);
	if (function->is_software)
		(void)snprintf(bus, sizeof(bus), "software");

	for (uint32_t d = 0; d < function->device_count || first; d++) {
		const struct rdma_device *device =
		    d < function->device_count ? &inventory->device[function->devices[d]] : NULL;
		uint32_t ports = device ? device->port_count : 0;

		for (uint32_t p = 0; p < ports || p == 0; p++) {
			table_add(table, first ? bus : NULL);
			if (device && p == 0)
				table_addf(table, "%s%s", device->name,
					   function->simulated ? " (simulated)" : "");
			else
				table_add(table,
					  !device && function->simulated ? "(simulated)" : NULL);

			table_add(table, first ? function->driver : NULL);
			if (first)
				add_interfaces(table, function);
			else
				table_add(table, NULL);

			if (first && function->numa_node != GPU_NUMA_NONE)
				table_addf(table, "%d", function->numa_node);
			else
				table_add(table, NULL);

			if (p < ports)
				add_port(table, &device->port[p]);
			else
				add_empty(table, 4);

			if (device && p == 0)
				add_nodes(table, device);
			else
				table_add(table, NULL);

			if (first)
				add_reasons(table, function);
			else
				table_add(table, NULL);

			first = false;
		}
	}
}

/* What a reader of the table would have to find out by comparing its rows. */
static void print_slow_ports(const struct rdma_inventory *inventory)
{
	for (uint32_t f = 0; f < inventory->function_count; f++) {
		const struct rdma_function *function = &inventory->function[f];

		for (uint32_t d = 0; d < function->device_count; d++) {
			const struct rdma_device *device = &inventory->device[function->devices[d]];

			for (uint32_t p = 0; p < device->port_count; p++) {
				const struct rdma_port *port = &device->port[p];
				uint32_t expected =
				    rdma_port_expected_mbit(inventory, function, port);
				if (expected == RDMA_UNKNOWN || expected == port->rate_mbit)
					continue;

				cmd_print(stdout, device->name);
				printf(
				    " port %u carries %g Gb/s; adapters like it carry %g: is the "
				    "cable, or the port at its other end, right?\n",
				    port->number, port->rate_mbit / 1000.0, expected / 1000.0);
			}
		}
	}
}

static void print_notes(const struct rdma_inventory *inventory)
{
	putchar('\n');
	print_slow_ports(inventory);

	if (inventory->netns == RDMA_NETNS_EXCLUSIVE)
		printf("The RDMA subsystem is in exclusive netns mode, in which containers cannot "
		       "share adapters: 'rdma system set netns shared' changes it.\n");
	if (inventory->has_ib_core && !inventory->has_ib_uverbs)
		printf("The module ib_uverbs is not loaded, without which there are no nodes: "
		       "'modprobe ib_uverbs'.\n");

	printf("%s is %s.\n", inventory->rdma_cm.path,
	       inventory->rdma_cm.state == RDMA_NODE_MISSING ? "missing ('modprobe rdma_ucm')"
	       : rdma_node_is_usable(&inventory->rdma_cm)    ? "there, once for the machine"
							     : "not the node that it should be");
	if (count_software(inventory) > 0)
		printf("Adapters in software are for resources with 'softwareAdapters: true'.\n");
	if (inventory->truncated)
		printf("This machine has more than is listed here.\n");
}

static int print_table(const struct rdma_inventory *inventory, struct err *err)
{
	static const struct table_column columns[] = {
	    {.title = "BUS"},
	    {.title = "DEVICE"},
	    {.title = "DRIVER"},
	    {.title = "INTERFACES", .may_shrink = true},
	    {.title = "NUMA", .align = TABLE_RIGHT},
	    {.title = "PORT", .align = TABLE_RIGHT},
	    {.title = "LINK"},
	    {.title = "STATE"},
	    {.title = "RATE"},
	    {.title = "NODES", .may_shrink = true},
	    {.title = "NOT OFFERED BECAUSE"},
	};
	uint32_t functions = inventory->function_count, software = count_software(inventory);
	uint32_t devices = inventory->device_count - software, cards = functions - software;

	printf("%u%s RDMA device%s on %u network adapter%s", devices,
	       is_simulated(inventory) ? " simulated" : "", devices == 1 ? "" : "s", cards,
	       cards == 1 ? "" : "s");
	if (software > 0)
		printf(", and %u in software", software);
	putchar('\n');

	if (functions == 0) {
		printf("There is no network adapter on the PCI bus that RDMA could use.\n");
		return 0;
	}

	putchar('\n');
	_cleanup_table_ struct table *table = table_new(columns, array_length(columns));
	if (!table)
		return err_set(err, -ENOMEM, "printing the RDMA adapters: no memory");

	for (uint32_t i = 0; i < functions; i++)
		add_function(table, inventory, &inventory->function[i]);

	int rc = table_print(table, stdout, table_width(stdout), err);
	if (rc == 0 && inventory->device_count > 0)
		print_notes(inventory);

	return rc;
}

/* ---- JSON ---- */

static json_t *json_text(const char *text)
{
	return table_json_text(*text ? text : NULL);
}

/* As selectors name it: "15b3"; null of what is not on PCI. */
static json_t *json_hex(const struct rdma_function *function, uint32_t number, int digits)
{
	char text[16];
	(void)snprintf(text, sizeof(text), "%0*x", digits, number);
	return function->is_software ? json_null() : json_string(text);
}

static json_t *json_node(const struct rdma_node *node)
{
	char mode[16];
	(void)snprintf(mode, sizeof(mode), "%04o", node->mode);
	return json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:s}", "path",
			 table_json_text(node->path), "kind", rdma_node_kind_to_string(node->kind),
			 "port", node->port ? json_integer(node->port) : json_null(), "major",
			 machine_json_u32(node->major), "minor", machine_json_u32(node->minor),
			 "mode", node->mode == RDMA_UNKNOWN ? json_null() : json_string(mode),
			 "uid", machine_json_u32(node->uid), "gid", machine_json_u32(node->gid),
			 "state", rdma_node_state_to_string(node->state));
}

/* Those that the kernel has; a counter that is not known is not there. */
static json_t *json_counters(const struct rdma_device *device, const struct rdma_port *port)
{
	struct rdma_counters counters;
	json_t *object = json_object();

	rdma_counters_read(pci_root(), device->name, port->number, &counters);

	for (uint32_t i = 0; i < RDMA_COUNTER_COUNT; i++)
		if (counters.value[i] <= INT64_MAX)
			(void)json_object_set_new(object, rdma_counter_to_string(i),
						  json_integer((json_int_t)counters.value[i]));

	return object;
}

static json_t *json_port(const struct rdma_inventory *inventory,
			 const struct rdma_function *function, const struct rdma_device *device,
			 const struct rdma_port *port)
{
	uint32_t expected = rdma_port_expected_mbit(inventory, function, port);
	return json_pack("{s:I, s:b, s:o, s:o, s:s, s:o, s:o, s:b, s:o}", "port",
			 (json_int_t)port->number, "up", rdma_port_is_up(port), "state",
			 json_text(port->state_text), "phys_state", json_text(port->phys_text),
			 "link_layer", rdma_link_layer_to_string(port->link_layer), "rate",
			 json_text(port->rate_text), "rate_mbit", machine_json_u32(port->rate_mbit),
			 "degraded", expected != RDMA_UNKNOWN && expected != port->rate_mbit,
			 "counters", json_counters(device, port));
}

static json_t *json_device(const struct rdma_inventory *inventory,
			   const struct rdma_function *function, const struct rdma_device *device)
{
	json_t *ports = json_array(), *nodes = json_array();
	for (uint32_t i = 0; i < device->port_count; i++)
		(void)json_array_append_new(
		    ports, json_port(inventory, function, device, &device->port[i]));

	for (uint32_t i = 0; i < device->node_count; i++)
		(void)json_array_append_new(nodes, json_node(&device->node[i]));

	return json_pack("{s:o, s:o, s:o, s:o, s:o}", "name", table_json_text(device->name),
			 "fw_ver", json_text(device->fw_ver), "node_guid",
			 json_text(device->node_guid), "ports", ports, "nodes", nodes);
}

static json_t *json_function(const struct rdma_inventory *inventory,
			     const struct rdma_function *function)
{
	char bus[PCI_TEXT_MAX];
	json_t *interfaces = json_array(), *devices = json_array(), *reasons = json_array();

	for (uint32_t i = 0; i < function->interface_count; i++) {
		const struct rdma_interface *interface = &function->interface[i];
		(void)json_array_append_new(
		    interfaces,
		    json_pack("{s:o, s:o}", "name", table_json_text(interface->name), "link_type",
			      json_text(rdma_link_type_to_string(interface->link_type))));
	}

	for (uint32_t i = 0; i < function->device_count; i++)
		(void)json_array_append_new(
		    devices,
		    json_device(inventory, function, &inventory->device[function->devices[i]]));

	for (uint32_t i = 0; i < function->reason_count; i++)
		(void)json_array_append_new(
		    reasons, json_pack("{s:s, s:o}", "reason",
				       rdma_reason_to_string(function->reason[i].code), "subject",
				       json_text(function->reason[i].subject)));

	pci_address_to_string(&function->address, bus);
	return json_pack("{s:o, s:b, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o}", "bus",
			 function->is_software ? json_null() : json_string(bus), "software",
			 function->is_software, "simulated", function->simulated, "vendor",
			 json_hex(function, function->vendor, 4), "device",
			 json_hex(function, function->device, 4), "class",
			 json_hex(function, function->class_, 6), "driver",
			 json_text(function->driver), "numa_node",
			 function->numa_node == GPU_NUMA_NONE ? json_null()
							      : json_integer(function->numa_node),
			 "interfaces", interfaces, "rdma_devices", devices, "offered",
			 function->reason_count == 0, "reasons", reasons);
}

static int print_json(const struct rdma_inventory *inventory, struct err *err)
{
	json_t *adapters = json_array();
	for (uint32_t i = 0; i < inventory->function_count; i++)
		(void)json_array_append_new(adapters,
					    json_function(inventory, &inventory->function[i]));

	json_t *root =
	    json_pack("{s:b, s:s, s:{s:b, s:b, s:b, s:b}, s:o, s:b, s:o}", "simulated",
		      is_simulated(inventory), "netns_mode", rdma_netns_to_string(inventory->netns),
		      "modules", "ib_core", inventory->has_ib_core, "ib_uverbs",
		      inventory->has_ib_uverbs, "ib_umad", inventory->has_ib_umad, "rdma_ucm",
		      inventory->has_rdma_ucm, "rdma_cm", json_node(&inventory->rdma_cm),
		      "truncated", inventory->truncated, "adapters", adapters);
	int rc = table_print_json(root, stdout, err);

	json_decref(root);
	return rc;
}

int devices_rdma(const struct cmd_call *call, enum option_output output)
{
	struct err err = {.code = 0};
	_cleanup_free_ struct rdma_inventory *inventory = calloc(1, sizeof(*inventory));
	int rc = inventory ? rdma_read(pci_root(), inventory, &err)
			   : err_set(&err, -ENOMEM, "reading the RDMA adapters: no memory");
	if (rc == 0)
		rc = output == OPTION_OUTPUT_JSON ? print_json(inventory, &err)
						  : print_table(inventory, &err);

	return rc < 0 ? cmd_fail(call, CMD_EXIT_FAILED, &err) : CMD_EXIT_OK;
}
