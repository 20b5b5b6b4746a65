/* SPDX-License-Identifier: Apache-2.0 */
/* rdma_read() of hardware/rdma.h: files of /sys and nodes of /dev in, the parsers of rdma.c behind.
 */
#include "hardware/rdma.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/text.h"

#define DEVICES "bus/pci/devices" /* below /sys */
#define DEV	"/dev/infiniband"

enum {
	CLASS_SHIFT = 16, /* the first byte of three */
	MEMORY_MAJOR = 1, /* /dev/zero and its like */
	PORT_NUMBER_MAX = 255,
	GIDS_LOOKED_AT = 16, /* entries of a port's table; those in use come first */
};

struct rdma_scan {
	const char *root;
	int sys; /* the directory /sys below the root */
	struct rdma_inventory *out;
	int failure; /* of ours, not of a file: then nothing read is worth anything */
	size_t length;
	char text[PCI_FILE_MAX + 1]; /* the file that was read last, and a NUL */
};

/* ---- files ---- */

/* What says something about this process and nothing about the machine. */
static bool is_ours(int rc)
{
	return rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE;
}

static bool scan_fails(struct rdma_scan *scan, int rc)
{
	if (is_ours(rc))
		scan->failure = rc;
	return rc < 0;
}

/* A directory below another, to read files in: their paths are long, and walked for each of them.
 * -1: not there. */
static int scan_enter(struct rdma_scan *scan, int at, const char *path)
{
	int fd = openat(at, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		(void)scan_fails(scan, -errno);
	return fd;
}

/*
 * The bytes of a file below the directory `at`, or false and no bytes. One read is all there is: an
 * attribute of sysfs is given whole, and hundreds of them are read here.
 */
static bool scan_file(struct rdma_scan *scan, int at, const char *path)
{
	scan->length = 0;
	scan->text[0] = '\0';
	if (at < 0)
		return false;

	/* O_NONBLOCK: a FIFO in place of the file must not hang us. */
	_cleanup_close_ int fd = openat(at, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return !scan_fails(scan, -errno);

	ssize_t count = read(fd, scan->text, sizeof(scan->text));
	if (count < 0 || (size_t)count == sizeof(scan->text)) {
		scan->text[0] = '\0';
		return false;
	}

	scan->length = (size_t)count;
	scan->text[count] = '\0';
	return true;
}

/* The file as one printable line; "" when it cannot be read. */
static void scan_text(struct rdma_scan *scan, int at, const char *path, char *out, size_t size)
{
	memset(out, 0, size);
	if (!scan_file(scan, at, path))
		return;
	const char *text = scan->text;
	size_t length = strcspn(text, "\n");
	for (size_t i = 0; i < length && i + 1 < size; i++)
		out[i] = isprint((unsigned char)text[i]) ? text[i] : '?';
}

/* Open directories are read to RDMA_ENTRY_MAX entries, hidden ones left out. NULL: not there. */
static DIR *scan_open(struct rdma_scan *scan, int at, const char *path)
{
	if (at < 0)
		return NULL;

	int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		(void)scan_fails(scan, -errno);
		return NULL;
	}

	DIR *listing = fdopendir(fd);
	if (!listing) {
		(void)scan_fails(scan, -errno);
		(void)close(fd);
	}

	return listing;
}

static const char *scan_next(struct rdma_scan *scan, DIR *listing, uint32_t *seen)
{
	const struct dirent *entry;

	while (scan->failure == 0 && (entry = readdir(listing))) {
		if (++*seen > RDMA_ENTRY_MAX) {
			scan->out->truncated = true;
			return NULL;
		}

		if (entry->d_name[0] != '.')
			return entry->d_name;
	}

	return NULL;
}

/*
 * Puts `name` into an ordered list of `count` names of `size` bytes each, of which the lowest `max`
 * are kept: numbers in names count as such, and each name is kept once. Returns the new count.
 */
static uint32_t keep_name(char *names, size_t size, uint32_t count, uint32_t max, const char *name,
			  bool *truncated)
{
	if (strlen(name) >= size)
		return count;

	uint32_t at = count;
	while (at > 0 && strverscmp(names + (at - 1) * size, name) > 0)
		at--;

	if (at > 0 && strcmp(names + (at - 1) * size, name) == 0)
		return count;
	if (count == max)
		*truncated = true;
	if (at == max)
		return count;

	uint32_t moved = (count == max ? max - 1 : count) - at;
	memmove(names + (at + 1) * size, names + at * size, moved * size);
	memset(names + at * size, 0, size);
	memcpy(names + at * size, name, strlen(name));

	return count == max ? max : count + 1;
}

/* ---- nodes ---- */

/* What is at node->path, and whether it is what the kernel says. */
static void look_at_node(const struct rdma_scan *scan, struct rdma_node *node, bool simulated)
{
	char path[FILE_PATH_MAX];
	struct stat status;

	node->mode = node->uid = node->gid = RDMA_UNKNOWN;
	node->state = RDMA_NODE_MISSING;
	if (file_path(path, NULL, "%s%s", scan->root, node->path) < 0 || stat(path, &status) < 0)
		return;

	node->mode = status.st_mode & 07777;
	node->uid = status.st_uid;
	node->gid = status.st_gid;

	bool is_device = S_ISCHR(status.st_mode);
	if (is_device && node->kind == RDMA_CM && node->major == RDMA_UNKNOWN) {
		/* Its class entry may be hidden; there is only one such node anyway. */
		node->major = major(status.st_rdev);
		node->minor = minor(status.st_rdev);
	}

	if (is_device && major(status.st_rdev) == node->major &&
	    minor(status.st_rdev) == node->minor)
		node->state = RDMA_NODE_OK;
	else if (simulated &&
		 (S_ISREG(status.st_mode) || (is_device && major(status.st_rdev) == MEMORY_MAJOR)))
		node->state = RDMA_NODE_STAND_IN;
	else
		node->state = RDMA_NODE_WRONG;
}

static int compare_node(const void *a, const void *b)
{
	const struct rdma_node *x = a, *y = b;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->port != y->port)
		return x->port < y->port ? -1 : 1;
	return strverscmp(x->path, y->path);
}

static bool device_is_simulated(const struct rdma_inventory *inventory, uint32_t place)
{
	for (uint32_t f = 0; f < inventory->function_count; f++)
		for (uint32_t d = 0; d < inventory->function[f].device_count; d++)
			if (inventory->function[f].devices[d] == place)
				return inventory->function[f].simulated;
	return false;
}

/* The device that the entry's file 'ibdev' names. The whole name counts: "mlx5_1" is not the start
 * of "mlx5_10" here. */
static struct rdma_device *owner_of(struct rdma_scan *scan, int entry)
{
	if (!scan_file(scan, entry, "ibdev"))
		return NULL;

	char name[RDMA_NAME_MAX] = "";
	const char *text = scan->text;
	size_t length = strcspn(text, "\n");

	while (length > 0 && isspace((unsigned char)text[length - 1]))
		length--;

	if (length == 0 || length >= sizeof(name))
		return NULL;

	memcpy(name, text, length);

	for (uint32_t i = 0; i < scan->out->device_count; i++)
		if (strcmp(scan->out->device[i].name, name) == 0)
			return &scan->out->device[i];

	return NULL;
}

static void add_node(struct rdma_scan *scan, enum rdma_node_kind kind, int class_, const char *name)
{
	_cleanup_close_ int entry = scan_enter(scan, class_, name);
	struct rdma_device *device = owner_of(scan, entry);
	if (!device)
		return;
	if (device->node_count == RDMA_NODE_MAX) {
		scan->out->truncated = true;
		return;
	}

	struct rdma_node *node = &device->node[device->node_count++];
	memset(node, 0, sizeof(*node));
	node->kind = kind;
	node->major = node->minor = RDMA_UNKNOWN;
	(void)snprintf(node->path, sizeof(node->path), DEV "/%.20s", name);

	uint64_t port;
	if ((kind == RDMA_UMAD || kind == RDMA_ISSM) && scan_file(scan, entry, "port") &&
	    parse_u64_span(scan->text, strcspn(scan->text, "\n"), 0, PORT_NUMBER_MAX, &port) == 0)
		node->port = (uint32_t)port;
	if (scan_file(scan, entry, "dev"))
		(void)rdma_parse_dev(scan->text, scan->length, &node->major, &node->minor);

	uint32_t place = (uint32_t)(device - scan->out->device);
	look_at_node(scan, node, device_is_simulated(scan->out, place));
}

/* Every entry of a class that is called after its kind: the directory holds other files too. */
static void read_nodes(struct rdma_scan *scan)
{
	static const struct {
		const char *dir;
		enum rdma_node_kind kind;
	} places[] = {{"class/infiniband_verbs", RDMA_UVERBS},
		      {"class/infiniband_mad", RDMA_UMAD},
		      {"class/infiniband_mad", RDMA_ISSM},
		      {"class/infiniband_cm", RDMA_UCM}};

	for (size_t i = 0; i < array_length(places); i++) {
		const char *kind = rdma_node_kind_to_string(places[i].kind);
		_cleanup_closedir_ DIR *listing = scan_open(scan, scan->sys, places[i].dir);
		const char *name;
		uint32_t seen = 0;
		uint64_t number;

		while (listing && (name = scan_next(scan, listing, &seen)))
			if (text_starts_with(name, kind) &&
			    parse_u64(name + strlen(kind), 0, UINT32_MAX, &number) == 0)
				add_node(scan, places[i].kind, dirfd(listing), name);
	}

	for (uint32_t i = 0; i < scan->out->device_count; i++)
		qsort(scan->out->device[i].node, scan->out->device[i].node_count,
		      sizeof(struct rdma_node), compare_node);
}

/* ---- RDMA devices ---- */

static void read_port(struct rdma_scan *scan, int ports, struct rdma_port *port)
{
	char path[32];
	(void)snprintf(path, sizeof(path), "%u/state", port->number);
	scan_text(scan, ports, path, port->state_text, sizeof(port->state_text));
	(void)snprintf(path, sizeof(path), "%u/phys_state", port->number);
	scan_text(scan, ports, path, port->phys_text, sizeof(port->phys_text));
	(void)snprintf(path, sizeof(path), "%u/rate", port->number);
	scan_text(scan, ports, path, port->rate_text, sizeof(port->rate_text));
	(void)snprintf(path, sizeof(path), "%u/link_layer", port->number);

	if (scan_file(scan, ports, path))
		port->link_layer = rdma_parse_link_layer(scan->text, scan->length);
	port->state = port->phys_state = port->rate_mbit = RDMA_UNKNOWN;
	(void)rdma_parse_state(port->state_text, strlen(port->state_text), &port->state);
	(void)rdma_parse_state(port->phys_text, strlen(port->phys_text), &port->phys_state);
	(void)rdma_parse_rate(port->rate_text, strlen(port->rate_text), &port->rate_mbit);
}

static void read_ports(struct rdma_scan *scan, int dir, struct rdma_device *device)
{
	char names[RDMA_PORT_MAX][RDMA_IFNAME_MAX];
	_cleanup_closedir_ DIR *listing = scan_open(scan, dir, "ports");
	const char *name;
	uint32_t seen = 0, count = 0;
	uint64_t number;

	while (listing && (name = scan_next(scan, listing, &seen)))
		if (parse_u64(name, 0, PORT_NUMBER_MAX, &number) == 0)
			count = keep_name(names[0], sizeof(names[0]), count, RDMA_PORT_MAX, name,
					  &scan->out->truncated);

	for (uint32_t i = 0; i < count; i++) {
		struct rdma_port *port = &device->port[device->port_count];
		memset(port, 0, sizeof(*port));
		if (parse_u64(names[i], 0, PORT_NUMBER_MAX, &number) < 0)
			continue;

		port->number = (uint32_t)number;
		read_port(scan, dirfd(listing), port);
		device->port_count++;
	}
}

/* The place of the device of that name; a new one when it was not met before: with several
 * functions behind one RDMA device each of them shows it. RDMA_UNKNOWN: no room. */
static uint32_t place_device(struct rdma_scan *scan, const char name[RDMA_NAME_MAX])
{
	const struct rdma_device *known = rdma_find_device(scan->out, name);
	if (known)
		return (uint32_t)(known - scan->out->device);
	if (scan->out->device_count == RDMA_DEVICE_MAX) {
		scan->out->truncated = true;
		return RDMA_UNKNOWN;
	}

	uint32_t place = scan->out->device_count;
	struct rdma_device *device = &scan->out->device[place];

	device->port_count = device->node_count = 0;
	memcpy(device->name, name, sizeof(device->name));

	char path[RDMA_NAME_MAX + sizeof("class/infiniband/")];
	(void)snprintf(path, sizeof(path), "class/infiniband/%s", device->name);

	_cleanup_close_ int dir = scan_enter(scan, scan->sys, path);
	scan_text(scan, dir, "fw_ver", device->fw_ver, sizeof(device->fw_ver));
	scan_text(scan, dir, "node_guid", device->node_guid, sizeof(device->node_guid));
	read_ports(scan, dir, device);
	scan->out->device_count++;

	return place;
}

/* ---- functions ---- */

/* The entries of a directory of a function, in their order; at most `max` names of `size` bytes. */
static uint32_t list_names(struct rdma_scan *scan, int dir, const char *directory, char *names,
			   size_t size, uint32_t max)
{
	_cleanup_closedir_ DIR *listing = scan_open(scan, dir, directory);
	const char *name;
	uint32_t seen = 0, count = 0;
	while (listing && (name = scan_next(scan, listing, &seen)))
		count = keep_name(names, size, count, max, name, &scan->out->truncated);
	return count;
}

static void add_interface(struct rdma_scan *scan, struct rdma_function *function,
			  const char name[RDMA_IFNAME_MAX])
{
	struct rdma_interface *interface = &function->interface[function->interface_count++];
	char path[RDMA_IFNAME_MAX + sizeof("class/net//type")];
	memset(interface, 0, sizeof(*interface));
	memcpy(interface->name, name, sizeof(interface->name));
	(void)snprintf(path, sizeof(path), "class/net/%s/type", interface->name);
	if (scan_file(scan, scan->sys, path))
		interface->link_type = rdma_parse_link_type(scan->text, scan->length);
}

static void read_interfaces(struct rdma_scan *scan, int dir, struct rdma_function *function)
{
	char names[RDMA_INTERFACE_MAX][RDMA_IFNAME_MAX];
	uint32_t count =
	    list_names(scan, dir, "net", names[0], sizeof(names[0]), RDMA_INTERFACE_MAX);
	for (uint32_t i = 0; i < count; i++)
		add_interface(scan, function, names[i]);
}

static void read_devices(struct rdma_scan *scan, int dir, struct rdma_function *function)
{
	char names[RDMA_OF_FUNCTION_MAX][RDMA_NAME_MAX];
	uint32_t count =
	    list_names(scan, dir, "infiniband", names[0], sizeof(names[0]), RDMA_OF_FUNCTION_MAX);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t place = place_device(scan, names[i]);
		if (place != RDMA_UNKNOWN)
			function->devices[function->device_count++] = place;
	}
}

/* The target of a link; the number of its bytes, 0 when there is none. */
static size_t read_target(int at, const char *path, char out[PATH_MAX])
{
	ssize_t size = at < 0 ? -1 : readlinkat(at, path, out, PATH_MAX - 1);
	out[size > 0 ? size : 0] = '\0';
	return size > 0 ? (size_t)size : 0;
}

static void read_driver(int dir, struct rdma_function *function)
{
	char target[PATH_MAX];
	memset(function->driver, 0, sizeof(function->driver));
	(void)read_target(dir, "driver", target);
	const char *slash = strrchr(target, '/');
	const char *name = slash ? slash + 1 : target;
	if (strlen(name) < sizeof(function->driver))
		memcpy(function->driver, name, strlen(name));
}

static uint32_t read_hex(struct rdma_scan *scan, int dir, const char *name)
{
	uint32_t number = 0;
	if (scan_file(scan, dir, name))
		(void)pci_parse_hex(scan->text, scan->length, &number);
	return number;
}

/* Not by pci_read_device(), to which a lack of descriptors is a file that is not there: an adapter
 * must not seem to be another one because of that. */
static void read_function(struct rdma_scan *scan, struct rdma_function *function)
{
	char text[PCI_TEXT_MAX], path[sizeof(DEVICES) + PCI_TEXT_MAX], target[PATH_MAX];
	(void)snprintf(path, sizeof(path), DEVICES "/%s",
		       pci_address_to_string(&function->address, text));

	_cleanup_close_ int dir = scan_enter(scan, scan->sys, path);

	function->is_software = false;
	function->device_count = function->interface_count = function->reason_count = 0;
	function->vendor = read_hex(scan, dir, "vendor");
	function->device = read_hex(scan, dir, "device");
	function->simulated = read_hex(scan, dir, "subsystem_device") == RDMA_SIMULATED_SUBSYSTEM;
	function->numa_node = GPU_NUMA_NONE;

	if (scan_file(scan, dir, "numa_node"))
		(void)pci_parse_numa_node(scan->text, scan->length, &function->numa_node);

	size_t length = read_target(scan->sys, path, target);
	function->has_path = pci_parse_path(target, length, &function->path) == 0;
	read_driver(dir, function);
	read_interfaces(scan, dir, function);
	read_devices(scan, dir, function);
}

static int compare_function(const void *a, const void *b)
{
	return pci_address_compare(&((const struct rdma_function *)a)->address,
				   &((const struct rdma_function *)b)->address);
}

/* The functions of network cards, by address: only this is known of them afterwards. */
static void list_functions(struct rdma_scan *scan, DIR *listing)
{
	struct rdma_inventory *out = scan->out;
	const char *name;
	uint32_t seen = 0, class_;
	struct pci_address address;

	while ((name = scan_next(scan, listing, &seen))) {
		char file[NAME_MAX + sizeof("/class")];

		if (pci_parse_address(name, strlen(name), &address) < 0)
			continue;

		(void)snprintf(file, sizeof(file), "%s/class", name);
		if (!scan_file(scan, dirfd(listing), file) ||
		    pci_parse_hex(scan->text, scan->length, &class_) < 0 ||
		    class_ >> CLASS_SHIFT != PCI_CLASS_NETWORK)
			continue;

		if (out->function_count == RDMA_FUNCTION_MAX) {
			out->truncated = true;
			break;
		}

		struct rdma_function *function = &out->function[out->function_count++];
		function->address = address;
		function->class_ = class_;
	}

	qsort(out->function, out->function_count, sizeof(*out->function), compare_function);
}

/* ---- adapters in software ---- */

/* What has no parent at all: the adapters of drivers for cards that are not on PCI, and parts of
 * PCI functions, have one. */
static bool is_software(const struct rdma_scan *scan, const char *name)
{
	char path[RDMA_NAME_MAX + sizeof("class/infiniband/")], target[PATH_MAX];
	(void)snprintf(path, sizeof(path), "class/infiniband/%s", name);
	return read_target(scan->sys, path, target) > 0 &&
	       strstr(target, "/devices/virtual/infiniband/") != NULL;
}

/* The interface below it. rdma_rxe says it in a file of its own; of all others, and of it, the
 * entries of the port's table of addresses are of an interface, where there are any. */
static bool find_interface(struct rdma_scan *scan, int dir, const struct rdma_device *device,
			   char out[RDMA_IFNAME_MAX])
{
	char path[64];

	if (scan_file(scan, dir, "parent") &&
	    rdma_parse_interface(scan->text, scan->length, out) == 0)
		return true;

	for (uint32_t i = 0; device->port_count > 0 && i < GIDS_LOOKED_AT; i++) {
		(void)snprintf(path, sizeof(path), "ports/%u/gid_attrs/ndevs/%u",
			       device->port[0].number, i);
		if (scan_file(scan, dir, path) &&
		    rdma_parse_interface(scan->text, scan->length, out) == 0)
			return true;
	}

	return false;
}

static void read_software(struct rdma_scan *scan, struct rdma_function *function, uint32_t place)
{
	const struct rdma_device *device = &scan->out->device[place];
	char path[RDMA_NAME_MAX + sizeof("class/infiniband/")], name[RDMA_IFNAME_MAX];

	(void)snprintf(path, sizeof(path), "class/infiniband/%s", device->name);
	_cleanup_close_ int dir = scan_enter(scan, scan->sys, path);

	memset(function, 0, sizeof(*function));
	function->is_software = true;
	function->numa_node = GPU_NUMA_NONE;
	function->devices[function->device_count++] = place;

	if (scan_file(scan, dir, "parent"))
		(void)snprintf(function->driver, sizeof(function->driver), "rdma_rxe");
	if (find_interface(scan, dir, device, name))
		add_interface(scan, function, name);
}

/* RDMA devices that no function shows and that nothing else is the parent of. */
static void list_software(struct rdma_scan *scan)
{
	char names[RDMA_SOFTWARE_MAX][RDMA_NAME_MAX];
	_cleanup_closedir_ DIR *listing = scan_open(scan, scan->sys, "class/infiniband");
	const char *name;
	uint32_t seen = 0, count = 0;

	while (listing && (name = scan_next(scan, listing, &seen)))
		if (strlen(name) < RDMA_NAME_MAX && !rdma_find_device(scan->out, name) &&
		    is_software(scan, name))
			count = keep_name(names[0], sizeof(names[0]), count, RDMA_SOFTWARE_MAX,
					  name, &scan->out->truncated);

	for (uint32_t i = 0; i < count; i++) {
		if (scan->out->function_count == RDMA_FUNCTION_MAX) {
			scan->out->truncated = true;
			return;
		}

		uint32_t place = place_device(scan, names[i]);
		if (place != RDMA_UNKNOWN)
			read_software(scan, &scan->out->function[scan->out->function_count++],
				      place);
	}
}

/* ---- the machine ---- */

static bool has_module(const struct rdma_scan *scan, const char *name)
{
	char path[RDMA_NAME_MAX];
	(void)snprintf(path, sizeof(path), "module/%s", name);
	return scan->sys >= 0 && faccessat(scan->sys, path, F_OK, 0) == 0;
}

static void read_machine(struct rdma_scan *scan)
{
	struct rdma_inventory *out = scan->out;
	out->has_ib_core = has_module(scan, "ib_core");
	out->has_ib_uverbs = has_module(scan, "ib_uverbs");
	out->has_ib_umad = has_module(scan, "ib_umad");
	out->has_rdma_ucm = has_module(scan, "rdma_ucm");
	out->netns = RDMA_NETNS_UNKNOWN;

	if (scan_file(scan, scan->sys, "module/ib_core/parameters/netns_mode"))
		out->netns = rdma_parse_netns(scan->text, scan->length);
	else if (out->has_ib_core)
		/* Before Linux 5.2 there was no other mode. */
		out->netns = RDMA_NETNS_SHARED;

	struct rdma_node *cm = &out->rdma_cm;
	memset(cm, 0, sizeof(*cm));
	cm->kind = RDMA_CM;
	cm->major = cm->minor = RDMA_UNKNOWN;
	(void)snprintf(cm->path, sizeof(cm->path), DEV "/rdma_cm");

	if (scan_file(scan, scan->sys, "class/misc/rdma_cm/dev"))
		(void)rdma_parse_dev(scan->text, scan->length, &cm->major, &cm->minor);

	bool simulated = false;
	for (uint32_t i = 0; i < out->function_count; i++)
		simulated = simulated || out->function[i].simulated;

	look_at_node(scan, cm, simulated);
}

int rdma_read(const char *root, struct rdma_inventory *out, struct err *err)
{
	struct rdma_scan scan;
	char path[FILE_PATH_MAX];

	scan.root = root;
	scan.out = out;
	scan.failure = 0;
	out->function_count = out->device_count = 0;
	out->truncated = false;

	int rc = file_path(path, err, "%s/sys", root);
	if (rc < 0)
		return rc;

	_cleanup_close_ int sys = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	scan.sys = sys;

	_cleanup_closedir_ DIR *listing = sys < 0 ? NULL : scan_open(&scan, sys, DEVICES);
	if (!listing && errno != ENOENT && errno != ENOTDIR)
		return err_set(err, -errno, "cannot list '%s/" DEVICES "': %s", path,
			       err_describe(-errno));
	if (listing)
		list_functions(&scan, listing);

	for (uint32_t i = 0; i < out->function_count; i++)
		read_function(&scan, &out->function[i]);

	list_software(&scan);
	read_machine(&scan);
	read_nodes(&scan);

	for (uint32_t i = 0; i < out->function_count; i++) {
		struct rdma_function *function = &out->function[i];
		function->reason_count =
		    rdma_reasons(out, function, RDMA_KIND_BIT(RDMA_UVERBS), function->reason);
	}

	if (scan.failure < 0)
		return err_set(err, scan.failure, "reading the RDMA adapters below '%s': %s", path,
			       err_describe(scan.failure));

	return 0;
}
