/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of RDMA adapters: modules, name spaces, nodes, ports. */
#include "doctor/checks.h"

#include <stdio.h>
#include <string.h>

#include "doctor/doctor.h"
#include "doctor/shared.h"
#include "hardware/rdma.h"

enum {
	RDMA_STATE_INIT = 2,
	RDMA_PHYS_DISABLED = 3,
	RDMA_MBIT_PER_GBIT = 1000,
	RDMA_SOFTWARE_TEXT_MAX = 32
};

/* --- rdma.modules ----------------------------------------------------------------------------- */

static void rdma_report_module(struct doctor *doctor, enum doctor_status status, const char *name,
			       const char *need)
{
	struct doctor_finding *finding = doctor_add(doctor, status, "module %s", name);
	doctor_need(doctor_found(finding, "that it is not loaded"), "%s", need);
	doctor_do(finding, "modprobe %s\necho %s > /etc/modules-load.d/%s.conf", name, name, name);
}

/* An adapter that has its driver and no RDMA device: the other half of the driver is missing. */
static bool rdma_lacks_half(const struct rdma_inventory *inventory, const char *driver)
{
	bool has_function = false, has_device = false;

	for (uint32_t i = 0; i < inventory->function_count; i++) {
		const struct rdma_function *function = &inventory->function[i];
		if (strcmp(function->driver, driver) != 0)
			continue;
		has_function = true;
		has_device |= function->device_count > 0;
	}

	return has_function && !has_device;
}

void check_rdma_modules(struct doctor *doctor)
{
	const struct rdma_inventory *inventory = shared_rdma_or_skip(doctor);
	if (!inventory)
		return;

	uint32_t before = doctor->count;

	if (!inventory->has_ib_core)
		rdma_report_module(doctor, DOCTOR_FAIL, "ib_core", "it for every RDMA device");
	if (!inventory->has_ib_uverbs)
		rdma_report_module(doctor, DOCTOR_FAIL, "ib_uverbs",
				   "it for the devices /dev/infiniband/uverbs*");
	if (!inventory->has_rdma_ucm)
		rdma_report_module(doctor, DOCTOR_WARN, "rdma_ucm",
				   "it for connections by address: /dev/infiniband/rdma_cm");
	if (inventory->has_ib_core && rdma_lacks_half(inventory, "mlx5_core"))
		rdma_report_module(doctor, DOCTOR_FAIL, "mlx5_ib",
				   "it for RDMA devices of these adapters");

	if (doctor->count == before)
		doctor_found(doctor_add(doctor, DOCTOR_OK, "modules"),
			     "ib_core, ib_uverbs and rdma_ucm");
	if (!inventory->has_ib_umad)
		doctor_found(doctor_add(doctor, DOCTOR_INFO, "module ib_umad"),
			     "that it is not loaded: tools such as ibstat and a subnet manager "
			     "need it");
}

/* --- rdma.netns ------------------------------------------------------------------------------- */

void check_rdma_netns(struct doctor *doctor)
{
	const struct rdma_inventory *inventory = shared_rdma_or_skip(doctor);
	if (!inventory)
		return;

	bool is_exclusive = inventory->netns == RDMA_NETNS_EXCLUSIVE;
	struct doctor_finding *finding =
	    doctor_add(doctor,
		       is_exclusive			       ? DOCTOR_FAIL
		       : inventory->netns == RDMA_NETNS_SHARED ? DOCTOR_OK
							       : DOCTOR_UNKNOWN,
		       "network name spaces of RDMA");

	doctor_found(finding, "mode %s", rdma_netns_to_string(inventory->netns));
	if (!is_exclusive)
		return;

	doctor_need(finding, "mode shared");
	doctor_do(finding, "rdma system set netns shared\n"
			   "echo 'options ib_core netns_mode=1' > /etc/modprobe.d/ib_core.conf");
}

/* --- rdma.device ------------------------------------------------------------------------------ */

static void rdma_report_reason(struct doctor *doctor, const struct rdma_inventory *inventory,
			       const struct rdma_function *function,
			       const struct rdma_reason *reason)
{
	char bus[RDMA_NAME_MAX];
	(void)rdma_function_name(inventory, function, bus);

	struct doctor_finding *finding = doctor_add(doctor, DOCTOR_WARN, "adapter %s", bus);
	doctor_found(finding, "%s%s%s", rdma_reason_to_string(reason->code),
		     reason->subject[0] != '\0' ? ": " : "", reason->subject);

	switch (reason->code) {
	case RDMA_REASON_NO_DRIVER:
		doctor_need(finding, "a driver that has it");
		doctor_do(finding, "modprobe mlx5_core\nlspci -ks %s", bus);
		break;
	case RDMA_REASON_NO_DEVICE:
		doctor_need(finding, "an RDMA device of it");
		doctor_do(finding, "modprobe mlx5_ib\nrdma link\ndmesg | grep %s", bus);
		break;
	default:
		doctor_need(finding, "the device nodes of it, with the kernel's numbers");
		doctor_do(finding, "modprobe ib_uverbs\n"
				   "udevadm trigger --subsystem-match=infiniband_verbs");
	}
}

void check_rdma_device(struct doctor *doctor)
{
	const struct rdma_inventory *inventory = shared_rdma(doctor);
	uint32_t adapters = 0, usable = 0, software = 0;

	for (uint32_t i = 0; inventory && i < inventory->function_count; i++) {
		const struct rdma_function *function = &inventory->function[i];
		struct rdma_reason reasons[RDMA_REASON_MAX];

		if (!shared_is_adapter(function))
			continue;

		adapters++;
		software += function->is_software;

		uint32_t count =
		    rdma_reasons(inventory, function, RDMA_KIND_BIT(RDMA_UVERBS), reasons);
		/* What is wrong with all of them is said by rdma.netns and rdma.modules. */
		bool is_told = !inventory->has_ib_uverbs;

		usable += count == 0;

		for (uint32_t j = 0; j < count && !is_told; j++)
			if (reasons[j].code != RDMA_REASON_NETNS)
				rdma_report_reason(doctor, inventory, function, &reasons[j]);
	}

	if (!inventory)
		return;

	char in_software[RDMA_SOFTWARE_TEXT_MAX] = "";

	if (software > 0)
		(void)snprintf(in_software, sizeof(in_software), "; %u in software", software);

	if (adapters > 0)
		doctor_found(doctor_add(doctor, DOCTOR_OK, "adapters"),
			     "%u, of which %u can be used%s%s", adapters, usable, in_software,
			     doctor->options.is_simulated ? " (simulated)" : "");
	else if (doctor_is_for(doctor, DOCTOR_FOR_RDMA))
		doctor_need(
		    doctor_found(doctor_add(doctor, DOCTOR_FAIL, "PCI bus"), "no RDMA adapter"),
		    "one: InfiniBand or RoCE");
	else
		doctor_skip(doctor, "no RDMA adapter here");
}

/* --- rdma.port -------------------------------------------------------------------------------- */

static void rdma_advise_port(const struct rdma_function *function, const struct rdma_device *device,
			     const struct rdma_port *port, struct doctor_finding *finding)
{
	const char *interface = function->interface_count > 0 ? function->interface[0].name : NULL;
	char bus[PCI_TEXT_MAX];

	(void)pci_address_to_string(&function->address, bus);
	if (port->state == RDMA_STATE_INIT && port->link_layer == RDMA_LAYER_INFINIBAND)
		/* The link stands, and nobody has given the port an address. */
		doctor_do(finding, "sminfo -C %s -P %u\nsystemctl start opensm", device->name,
			  port->number);
	else if (port->phys_state == RDMA_PHYS_DISABLED && interface)
		doctor_do(finding, "ip link set %s up", interface);
	else if (function->is_software)
		doctor_do(finding, "rdma link show %s/%u\nip link show%s%s", device->name,
			  port->number, interface ? " " : "", interface ? interface : "");
	else
		doctor_do(finding, "rdma link show %s/%u\nmlxlink -d %s", device->name,
			  port->number, bus);
}

static void rdma_judge_port(struct doctor *doctor, const struct rdma_inventory *inventory,
			    const struct rdma_function *function, const struct rdma_device *device,
			    const struct rdma_port *port, uint32_t *up)
{
	uint32_t expected = rdma_port_expected_mbit(inventory, function, port);
	bool is_slow = expected != RDMA_UNKNOWN && port->rate_mbit < expected;

	if (rdma_port_is_up(port) && !is_slow) {
		++*up;
		return;
	}

	if (port->state == RDMA_UNKNOWN) {
		doctor_found(
		    doctor_add(doctor, DOCTOR_UNKNOWN, "port %s/%u", device->name, port->number),
		    "a state that cannot be read");
		return;
	}

	struct doctor_finding *finding =
	    doctor_add(doctor, DOCTOR_WARN, "port %s/%u", device->name, port->number);

	if (is_slow) {
		doctor_found(finding, "%s", port->rate_text);
		doctor_need(finding, "%u Gb/sec, as others of its kind have",
			    expected / RDMA_MBIT_PER_GBIT);
	} else {
		doctor_found(finding, "state %s, link %s", port->state_text, port->phys_text);
		doctor_need(finding, "4: ACTIVE and 5: LinkUp");
	}

	rdma_advise_port(function, device, port, finding);
}

void check_rdma_port(struct doctor *doctor)
{
	const struct rdma_inventory *inventory = shared_rdma_or_skip(doctor);
	uint32_t up = 0, ports = 0;

	for (uint32_t i = 0; inventory && i < inventory->function_count; i++) {
		const struct rdma_function *function = &inventory->function[i];
		for (uint32_t j = 0; j < function->device_count; j++) {
			const struct rdma_device *device = &inventory->device[function->devices[j]];
			for (uint32_t k = 0; k < device->port_count; k++, ports++)
				rdma_judge_port(doctor, inventory, function, device,
						&device->port[k], &up);
		}
	}

	if (inventory && up > 0)
		doctor_found(doctor_add(doctor, DOCTOR_OK, "ports"), "%u of %u up", up, ports);
	else if (inventory && ports == 0)
		doctor_skip(doctor, "no RDMA device, and so no port");
}
