/* SPDX-License-Identifier: Apache-2.0 */
/* The parsers and judgements of hardware/rdma.h; what reads files is in rdma_read.c. */
#include "hardware/rdma.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "base/parse.h"

enum {
	RATE_MAX_MBIT = 100 * 1000 * 1000, /* a hundred times what is sold today */
	STATE_MAX = 255,
	DEV_MAX = 1 << 20, /* MINORBITS is 20 */
};

/* ---- parsers ---- */

static size_t without_line_end(const char *text, size_t length)
{
	while (length > 0 && isspace((unsigned char)text[length - 1]))
		length--;
	return length;
}

static bool span_is(const char *text, size_t length, const char *word)
{
	return strlen(word) == length && memcmp(text, word, length) == 0;
}

static size_t digits_at(const char *text, size_t length)
{
	size_t count = 0;
	while (count < length && isdigit((unsigned char)text[count]))
		count++;
	return count;
}

int rdma_parse_state(const char *text, size_t length, uint32_t *out)
{
	length = without_line_end(text, length);
	size_t digits = digits_at(text, length);
	uint64_t number;

	/* A number without its word is no line that the kernel writes. */
	if (digits + 2 >= length || text[digits] != ':' || text[digits + 1] != ' ' ||
	    parse_u64_span(text, digits, 0, STATE_MAX, &number) < 0)
		return -EINVAL;

	*out = (uint32_t)number;
	return 0;
}

int rdma_parse_rate(const char *text, size_t length, uint32_t *out_mbit)
{
	static const char unit[] = " Gb/sec";

	length = without_line_end(text, length);
	size_t whole = digits_at(text, length), at = whole;
	uint64_t gbit, tenth = 0;

	if (whole == 0)
		return -EINVAL;

	/* The kernel prints tenths: "2.5 Gb/sec". */
	if (at + 1 < length && text[at] == '.' && isdigit((unsigned char)text[at + 1])) {
		tenth = (uint64_t)(text[at + 1] - '0');
		at += 2;
	}

	size_t rest = length - at;
	if (rest < sizeof(unit) - 1 || memcmp(text + at, unit, sizeof(unit) - 1) != 0 ||
	    (rest > sizeof(unit) - 1 && text[at + sizeof(unit) - 1] != ' '))
		return -EINVAL;

	int rc = parse_u64_span(text, whole, 0, RATE_MAX_MBIT / 1000, &gbit);
	if (rc < 0)
		return rc;

	*out_mbit = (uint32_t)(gbit * 1000 + tenth * 100);
	return 0;
}

enum rdma_link_layer rdma_parse_link_layer(const char *text, size_t length)
{
	length = without_line_end(text, length);
	if (span_is(text, length, "InfiniBand"))
		return RDMA_LAYER_INFINIBAND;
	return span_is(text, length, "Ethernet") ? RDMA_LAYER_ETHERNET : RDMA_LAYER_UNKNOWN;
}

int rdma_parse_dev(const char *text, size_t length, uint32_t *out_major, uint32_t *out_minor)
{
	length = without_line_end(text, length);
	const char *colon = length > 0 ? memchr(text, ':', length) : NULL;
	if (!colon)
		return -EINVAL;

	size_t before = (size_t)(colon - text);
	uint64_t major, minor;

	if (parse_u64_span(text, before, 0, DEV_MAX - 1, &major) < 0 ||
	    parse_u64_span(colon + 1, length - before - 1, 0, DEV_MAX - 1, &minor) < 0)
		return -EINVAL;

	*out_major = (uint32_t)major;
	*out_minor = (uint32_t)minor;
	return 0;
}

enum rdma_link_type rdma_parse_link_type(const char *text, size_t length)
{
	/* ARPHRD_ETHER and ARPHRD_INFINIBAND of linux/if_arp.h */
	length = without_line_end(text, length);
	if (span_is(text, length, "1"))
		return RDMA_LINK_ETHER;
	return span_is(text, length, "32") ? RDMA_LINK_INFINIBAND : RDMA_LINK_OTHER;
}

int rdma_parse_interface(const char *text, size_t length, char out[RDMA_IFNAME_MAX])
{
	length = without_line_end(text, length);
	if (length == 0 || length >= RDMA_IFNAME_MAX || span_is(text, length, ".") ||
	    span_is(text, length, ".."))
		return -EINVAL;

	for (size_t i = 0; i < length; i++)
		if (text[i] == '/' || text[i] == ':' || text[i] == '\0' ||
		    isspace((unsigned char)text[i]))
			return -EINVAL;

	memset(out, 0, RDMA_IFNAME_MAX);
	memcpy(out, text, length);
	return 0;
}

enum rdma_netns rdma_parse_netns(const char *text, size_t length)
{
	length = without_line_end(text, length);
	if (span_is(text, length, "Y") || span_is(text, length, "1"))
		return RDMA_NETNS_SHARED;
	if (span_is(text, length, "N") || span_is(text, length, "0"))
		return RDMA_NETNS_EXCLUSIVE;
	return RDMA_NETNS_UNKNOWN;
}

/* ---- finding ---- */

const struct rdma_device *rdma_find_device(const struct rdma_inventory *inventory, const char *name)
{
	for (uint32_t i = 0; i < inventory->device_count; i++)
		if (strcmp(inventory->device[i].name, name) == 0)
			return &inventory->device[i];
	return NULL;
}

const char *rdma_function_name(const struct rdma_inventory *inventory,
			       const struct rdma_function *function, char out[RDMA_NAME_MAX])
{
	_Static_assert((int)PCI_TEXT_MAX <= (int)RDMA_NAME_MAX, "an address fits");
	if (!function->is_software)
		return pci_address_to_string(&function->address, out);
	memcpy(out, inventory->device[function->devices[0]].name, RDMA_NAME_MAX);
	return out;
}

/* ---- judging ---- */

bool rdma_node_is_usable(const struct rdma_node *node)
{
	return node->state == RDMA_NODE_OK || node->state == RDMA_NODE_STAND_IN;
}

struct reasons {
	struct rdma_reason *out;
	uint32_t count;
};

static void reasons_add(struct reasons *reasons, enum rdma_reason_code code, const char *subject)
{
	if (reasons->count == RDMA_REASON_MAX)
		return;
	struct rdma_reason *reason = &reasons->out[reasons->count++];
	memset(reason, 0, sizeof(*reason));
	reason->code = code;
	(void)snprintf(reason->subject, sizeof(reason->subject), "%s", subject);
}

static void reasons_add_node(struct reasons *reasons, const struct rdma_node *node)
{
	if (node->state == RDMA_NODE_MISSING)
		reasons_add(reasons, RDMA_REASON_NODE_MISSING, node->path);
	else if (node->state == RDMA_NODE_WRONG)
		reasons_add(reasons, RDMA_REASON_NODE_WRONG, node->path);
}

static void reasons_of_device(struct reasons *reasons, const struct rdma_device *device,
			      uint32_t kind)
{
	bool any = false;
	for (uint32_t i = 0; i < device->node_count; i++) {
		if (device->node[i].kind != kind)
			continue;
		any = true;
		reasons_add_node(reasons, &device->node[i]);
	}

	if (!any)
		reasons_add(reasons, RDMA_REASON_NO_NODE, rdma_node_kind_to_string(kind));
}

uint32_t rdma_reasons(const struct rdma_inventory *inventory, const struct rdma_function *function,
		      uint32_t required, struct rdma_reason out[RDMA_REASON_MAX])
{
	struct reasons reasons = {.out = out};

	if (inventory->netns == RDMA_NETNS_EXCLUSIVE)
		reasons_add(&reasons, RDMA_REASON_NETNS, "");
	if (function->driver[0] == '\0' && !function->is_software)
		reasons_add(&reasons, RDMA_REASON_NO_DRIVER, "");
	else if (function->device_count == 0)
		reasons_add(&reasons, RDMA_REASON_NO_DEVICE, "");

	for (uint32_t i = 0; i < function->device_count; i++)
		for (uint32_t kind = 0; kind < RDMA_CM; kind++)
			if (required & RDMA_KIND_BIT(kind))
				reasons_of_device(&reasons,
						  &inventory->device[function->devices[i]], kind);

	if (function->device_count > 0 && (required & RDMA_KIND_BIT(RDMA_CM)))
		reasons_add_node(&reasons, &inventory->rdma_cm);

	return reasons.count;
}

bool rdma_port_is_up(const struct rdma_port *port)
{
	return port->state == RDMA_STATE_ACTIVE && port->phys_state == RDMA_PHYS_LINK_UP;
}

bool rdma_device_is_up(const struct rdma_device *device)
{
	for (uint32_t i = 0; i < device->port_count; i++)
		if (rdma_port_is_up(&device->port[i]))
			return true;
	return false;
}

bool rdma_function_is_up(const struct rdma_inventory *inventory,
			 const struct rdma_function *function)
{
	for (uint32_t i = 0; i < function->device_count; i++)
		if (rdma_device_is_up(&inventory->device[function->devices[i]]))
			return true;
	return false;
}

uint32_t rdma_port_expected_mbit(const struct rdma_inventory *inventory,
				 const struct rdma_function *function, const struct rdma_port *port)
{
	if (!rdma_port_is_up(port) || port->rate_mbit == RDMA_UNKNOWN || function->is_software)
		return RDMA_UNKNOWN;

	uint32_t highest = port->rate_mbit;

	for (uint32_t f = 0; f < inventory->function_count; f++) {
		const struct rdma_function *other = &inventory->function[f];
		if (other->vendor != function->vendor || other->device != function->device ||
		    other->is_software)
			continue;

		for (uint32_t d = 0; d < other->device_count; d++) {
			const struct rdma_device *device = &inventory->device[other->devices[d]];

			for (uint32_t p = 0; p < device->port_count; p++) {
				const struct rdma_port *sibling = &device->port[p];
				if (rdma_port_is_up(sibling) &&
				    sibling->link_layer == port->link_layer &&
				    sibling->rate_mbit != RDMA_UNKNOWN &&
				    sibling->rate_mbit > highest)
					highest = sibling->rate_mbit;
			}
		}
	}

	return highest;
}

enum gpu_level rdma_distance(const struct pci_device *gpu, const struct rdma_function *function)
{
	if (!gpu->has_path || !function->has_path)
		return GPU_LEVEL_UNKNOWN;
	return pci_path_level(&gpu->path, gpu->numa_node, &function->path, function->numa_node);
}

/* ---- comparing: by field, because structs have padding ---- */

static bool node_is_same(const struct rdma_node *a, const struct rdma_node *b)
{
	return a->kind == b->kind && a->state == b->state && strcmp(a->path, b->path) == 0 &&
	       a->port == b->port && a->major == b->major && a->minor == b->minor &&
	       a->mode == b->mode && a->uid == b->uid && a->gid == b->gid;
}

static bool port_is_same(const struct rdma_port *a, const struct rdma_port *b)
{
	return a->number == b->number && a->state == b->state && a->phys_state == b->phys_state &&
	       a->link_layer == b->link_layer && a->rate_mbit == b->rate_mbit &&
	       strcmp(a->state_text, b->state_text) == 0 &&
	       strcmp(a->phys_text, b->phys_text) == 0 && strcmp(a->rate_text, b->rate_text) == 0;
}

static bool device_is_same(const struct rdma_device *a, const struct rdma_device *b)
{
	if (strcmp(a->name, b->name) != 0 || strcmp(a->fw_ver, b->fw_ver) != 0 ||
	    strcmp(a->node_guid, b->node_guid) != 0 || a->port_count != b->port_count ||
	    a->node_count != b->node_count)
		return false;

	for (uint32_t i = 0; i < a->port_count; i++)
		if (!port_is_same(&a->port[i], &b->port[i]))
			return false;

	for (uint32_t i = 0; i < a->node_count; i++)
		if (!node_is_same(&a->node[i], &b->node[i]))
			return false;

	return true;
}

static bool path_is_same(const struct pci_path *a, const struct pci_path *b)
{
	if (a->root_domain != b->root_domain || a->root_bus != b->root_bus || a->depth != b->depth)
		return false;
	for (uint32_t i = 0; i < a->depth; i++)
		if (pci_address_compare(&a->hop[i], &b->hop[i]) != 0)
			return false;
	return true;
}

static bool function_is_same(const struct rdma_function *a, const struct rdma_function *b)
{
	if (a->is_software != b->is_software ||
	    pci_address_compare(&a->address, &b->address) != 0 || a->vendor != b->vendor ||
	    a->device != b->device || a->class_ != b->class_ || strcmp(a->driver, b->driver) != 0 ||
	    a->numa_node != b->numa_node || a->simulated != b->simulated ||
	    a->has_path != b->has_path || a->interface_count != b->interface_count ||
	    a->device_count != b->device_count || a->reason_count != b->reason_count)
		return false;

	if (a->has_path && !path_is_same(&a->path, &b->path))
		return false;

	for (uint32_t i = 0; i < a->interface_count; i++)
		if (strcmp(a->interface[i].name, b->interface[i].name) != 0 ||
		    a->interface[i].link_type != b->interface[i].link_type)
			return false;

	for (uint32_t i = 0; i < a->device_count; i++)
		if (a->devices[i] != b->devices[i])
			return false;

	for (uint32_t i = 0; i < a->reason_count; i++)
		if (a->reason[i].code != b->reason[i].code ||
		    strcmp(a->reason[i].subject, b->reason[i].subject) != 0)
			return false;

	return true;
}

bool rdma_is_same(const struct rdma_inventory *a, const struct rdma_inventory *b)
{
	if (a->function_count != b->function_count || a->device_count != b->device_count ||
	    a->truncated != b->truncated || a->netns != b->netns ||
	    a->has_ib_core != b->has_ib_core || a->has_ib_uverbs != b->has_ib_uverbs ||
	    a->has_ib_umad != b->has_ib_umad || a->has_rdma_ucm != b->has_rdma_ucm ||
	    !node_is_same(&a->rdma_cm, &b->rdma_cm))
		return false;

	for (uint32_t i = 0; i < a->function_count; i++)
		if (!function_is_same(&a->function[i], &b->function[i]))
			return false;

	for (uint32_t i = 0; i < a->device_count; i++)
		if (!device_is_same(&a->device[i], &b->device[i]))
			return false;

	return true;
}

/* ---- words ---- */

const char *rdma_node_kind_to_string(uint32_t kind)
{
	static const char *const words[] = {[RDMA_UVERBS] = "uverbs",
					    [RDMA_UMAD] = "umad",
					    [RDMA_ISSM] = "issm",
					    [RDMA_UCM] = "ucm",
					    [RDMA_CM] = "rdma_cm"};
	return names_at(words, kind, "unknown");
}

const char *rdma_node_state_to_string(uint32_t state)
{
	static const char *const words[] = {[RDMA_NODE_OK] = "ok",
					    [RDMA_NODE_MISSING] = "missing",
					    [RDMA_NODE_WRONG] = "wrong numbers",
					    [RDMA_NODE_STAND_IN] = "stand-in"};
	return names_at(words, state, "unknown");
}

const char *rdma_link_layer_to_string(uint32_t layer)
{
	static const char *const words[] = {
	    [RDMA_LAYER_INFINIBAND] = "InfiniBand", [RDMA_LAYER_ETHERNET] = "Ethernet"};
	return names_at(words, layer, "unknown");
}

const char *rdma_link_type_to_string(uint32_t type)
{
	static const char *const words[] = {
	    [RDMA_LINK_ETHER] = "ether", [RDMA_LINK_INFINIBAND] = "infiniband"};
	return names_at(words, type, "");
}

const char *rdma_netns_to_string(uint32_t netns)
{
	static const char *const words[] = {
	    [RDMA_NETNS_SHARED] = "shared", [RDMA_NETNS_EXCLUSIVE] = "exclusive"};
	return names_at(words, netns, "unknown");
}

const char *rdma_reason_to_string(uint32_t code)
{
	static const char *const words[] = {
	    [RDMA_REASON_NO_DRIVER] = "no driver bound",
	    [RDMA_REASON_NO_DEVICE] = "no RDMA device",
	    [RDMA_REASON_NO_NODE] = "no such node",
	    [RDMA_REASON_NODE_MISSING] = "node missing",
	    [RDMA_REASON_NODE_WRONG] = "node has wrong numbers",
	    [RDMA_REASON_NETNS] = "rdma subsystem is in exclusive netns mode",
	    [RDMA_REASON_SOFTWARE] = "software adapter, and softwareAdapters is not set",
	};
	return names_at(words, code, "unknown");
}
