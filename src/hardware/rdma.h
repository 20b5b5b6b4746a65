/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The RDMA adapters (HCAs) of this machine as plain data: every PCI function of a network card and
 * every RDMA device that the kernel makes in software (rdma_rxe, siw), with interfaces, RDMA
 * devices, ports and character devices, and why it could not be handed out. Filled by pure reads
 * below one root; nothing is changed, no driver is called. Knows nothing of resources, selectors or
 * who gets an adapter.
 *
 * A figure that a file does not give is RDMA_UNKNOWN or the empty string: absent is never zero.
 *
 * Facts: Documentation/ABI/stable/sysfs-class-infiniband of the Linux kernel;
 * drivers/infiniband/core/{sysfs,user_mad,uverbs_main}.c.
 */
#ifndef SLUICE_HARDWARE_RDMA_H
#define SLUICE_HARDWARE_RDMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hardware/gpu.h"
#include "hardware/pci.h"

struct err;

enum rdma_limits {
	RDMA_FUNCTION_MAX = 256,  /* network functions of one machine */
	RDMA_DEVICE_MAX = 256,	  /* RDMA devices of one machine */
	RDMA_INTERFACE_MAX = 64,  /* of one function; many in switchdev mode */
	RDMA_OF_FUNCTION_MAX = 8, /* RDMA devices of one function */
	RDMA_PORT_MAX = 8,	  /* of one RDMA device */
	RDMA_NODE_MAX = 20,	  /* of one RDMA device: uverbs, ucm, and umad and issm per port */
	RDMA_REASON_MAX = 8,	  /* of one function */
	RDMA_SOFTWARE_MAX = 64,	  /* adapters in software */
	RDMA_NAME_MAX = 64,	  /* IB_DEVICE_NAME_MAX */
	RDMA_IFNAME_MAX = 16,	  /* IFNAMSIZ */
	RDMA_TEXT_MAX = 48,	  /* "400 Gb/sec (4X NDR)" */
	RDMA_PATH_MAX = 48,	  /* "/dev/infiniband/uverbs255" */
	RDMA_ENTRY_MAX = 4096,	  /* entries of one directory that are looked at */
};

#define RDMA_UNKNOWN UINT32_MAX
/* The PCI subsystem device of a simulated function; no vendor has given it to a network card. */
#define RDMA_SIMULATED_SUBSYSTEM 0x51ceu

enum rdma_node_kind { RDMA_UVERBS, RDMA_UMAD, RDMA_ISSM, RDMA_UCM, RDMA_CM, RDMA_NODE_KINDS };
/* A set of kinds, for what an adapter must have to be offered. */
#define RDMA_KIND_BIT(kind) (1u << (kind))

enum rdma_node_state {
	RDMA_NODE_OK,	    /* a character device with the numbers that the kernel gives */
	RDMA_NODE_MISSING,  /* nothing at its path */
	RDMA_NODE_WRONG,    /* a character device with other numbers, or something else */
	RDMA_NODE_STAND_IN, /* of a simulated adapter: a plain file or a memory device in its place
			     */
};

/* One character device below /dev/infiniband. */
struct rdma_node {
	uint32_t kind;		  /* enum rdma_node_kind */
	uint32_t state;		  /* enum rdma_node_state */
	char path[RDMA_PATH_MAX]; /* "/dev/infiniband/uverbs0", without the root */
	uint32_t port;		  /* of umad and issm; 0 otherwise */
	uint32_t major, minor;	  /* as the kernel gives them; RDMA_UNKNOWN */
	uint32_t mode, uid, gid;  /* of the node, permission bits; RDMA_UNKNOWN when missing */
};

enum rdma_link_layer { RDMA_LAYER_UNKNOWN, RDMA_LAYER_INFINIBAND, RDMA_LAYER_ETHERNET };

enum rdma_state { RDMA_STATE_ACTIVE = 4, RDMA_PHYS_LINK_UP = 5 };

struct rdma_port {
	uint32_t number;
	uint32_t state;	     /* 0 NOP, 1 DOWN, 2 INIT, 3 ARMED, 4 ACTIVE, 5 ACTIVE_DEFER */
	uint32_t phys_state; /* 2 Polling, 3 Disabled, 5 LinkUp, ... */
	uint32_t link_layer; /* enum rdma_link_layer */
	uint32_t rate_mbit;  /* Mbit per second; RDMA_UNKNOWN */
	char state_text[RDMA_TEXT_MAX]; /* as found, without the line end: "4: ACTIVE" */
	char phys_text[RDMA_TEXT_MAX];	/* "5: LinkUp" */
	char rate_text[RDMA_TEXT_MAX];	/* "100 Gb/sec (4X EDR)" */
};

/* One RDMA device: /sys/class/infiniband/mlx5_0. */
struct rdma_device {
	char name[RDMA_NAME_MAX];
	char fw_ver[RDMA_TEXT_MAX];
	char node_guid[RDMA_TEXT_MAX]; /* "b859:9f03:00d4:1a2c" */
	uint32_t port_count;
	struct rdma_port port[RDMA_PORT_MAX]; /* by number */
	uint32_t node_count;
	struct rdma_node node[RDMA_NODE_MAX]; /* by kind, then port, then path; never RDMA_CM */
};

/* What ARPHRD_ETHER and ARPHRD_INFINIBAND are called by the kernel and by selectors. */
enum rdma_link_type { RDMA_LINK_OTHER, RDMA_LINK_ETHER, RDMA_LINK_INFINIBAND };

struct rdma_interface {
	char name[RDMA_IFNAME_MAX];
	uint32_t link_type; /* enum rdma_link_type */
};

enum rdma_reason_code {
	RDMA_REASON_NO_DRIVER,	  /* no driver bound */
	RDMA_REASON_NO_DEVICE,	  /* no RDMA device */
	RDMA_REASON_NO_NODE,	  /* the kernel gives no node of a kind that is required */
	RDMA_REASON_NODE_MISSING, /* node missing */
	RDMA_REASON_NODE_WRONG,	  /* node has wrong numbers */
	RDMA_REASON_NETNS,	  /* rdma subsystem is in exclusive netns mode */
	RDMA_REASON_SOFTWARE,	  /* a resource that takes no software adapters */
	RDMA_REASON_COUNT,
};

struct rdma_reason {
	uint32_t code;		     /* enum rdma_reason_code */
	char subject[RDMA_PATH_MAX]; /* the node's path or kind; "" */
};

/* One PCI function whose class is that of a network card; or an RDMA device in software, which has
 * neither address nor numbers nor a place: they are 0, GPU_NUMA_NONE and false. */
struct rdma_function {
	bool is_software;
	struct pci_address address;
	uint32_t vendor, device, class_; /* 0x15b3, 0x1017, 0x020700; 0: not known */
	char driver[RDMA_NAME_MAX];	 /* "mlx5_core", "rdma_rxe"; "" when none is bound */
	int32_t numa_node;		 /* GPU_NUMA_NONE */
	bool simulated;
	bool has_path;
	struct pci_path path; /* the bridges above it */
	uint32_t interface_count;
	struct rdma_interface interface[RDMA_INTERFACE_MAX]; /* by name: mlx5_2 before mlx5_10 */
	uint32_t device_count;
	uint32_t devices[RDMA_OF_FUNCTION_MAX]; /* places in rdma_inventory.device, by name */
	/* Why it cannot be offered if only uverbs is required: rdma_reasons(). */
	uint32_t reason_count;
	struct rdma_reason reason[RDMA_REASON_MAX];
};

enum rdma_netns { RDMA_NETNS_UNKNOWN, RDMA_NETNS_SHARED, RDMA_NETNS_EXCLUSIVE };

/* Plain data without pointers, about 1 MiB of which only what is in use is ever touched: lives on
 * the heap (calloc), never on a stack. */
struct rdma_inventory {
	uint32_t function_count;
	uint32_t device_count;
	bool truncated; /* the machine has more than one of the limits above */
	uint32_t netns; /* enum rdma_netns */
	bool has_ib_core, has_ib_uverbs, has_ib_umad, has_rdma_ucm; /* modules, or built in */
	/* /dev/infiniband/rdma_cm, one for the machine; RDMA_NODE_MISSING when it is not there */
	struct rdma_node rdma_cm;
	/* by address, then those in software by the name of their device */
	struct rdma_function function[RDMA_FUNCTION_MAX];
	struct rdma_device device[RDMA_DEVICE_MAX];
};

/*
 * Reads everything below `root` ("" for the real one) into `out`, whose old content is of no
 * matter. A file that is missing, unreadable, too long or nonsense costs its own fact only; a
 * machine without adapters is 0 functions. Never waits, except for what a driver needs to answer a
 * read of its port state. -ENOMEM, -EMFILE, -ENFILE, and any error but ENOENT of the list of PCI
 * devices itself: `out` is then of no use.
 */
int rdma_read(const char *root, struct rdma_inventory *out, struct err *err);

/* Whether two readings say the same in every field. Pure. */
bool rdma_is_same(const struct rdma_inventory *a, const struct rdma_inventory *b);

/* The device of that exact name, or NULL. Borrowed: of `inventory`. */
const struct rdma_device *rdma_find_device(const struct rdma_inventory *inventory,
					   const char *name);
/* How an adapter is called: by its PCI address, in software by its device ("rxe0"). Returns out. */
const char *rdma_function_name(const struct rdma_inventory *inventory,
			       const struct rdma_function *function, char out[RDMA_NAME_MAX]);

/*
 * Why the function cannot be offered to somebody who needs the `required` kinds of node (a set of
 * RDMA_KIND_BIT). Returns how many reasons; 0: it can. Pure.
 */
uint32_t rdma_reasons(const struct rdma_inventory *inventory, const struct rdma_function *function,
		      uint32_t required, struct rdma_reason out[RDMA_REASON_MAX]);
/* Whether the node can be used: there with the right numbers, or a stand-in. */
bool rdma_node_is_usable(const struct rdma_node *node);

/* ACTIVE and LinkUp. */
bool rdma_port_is_up(const struct rdma_port *port);
/* At least one port is up. */
bool rdma_device_is_up(const struct rdma_device *device);
/* At least one port of one of its RDMA devices is up. */
bool rdma_function_is_up(const struct rdma_inventory *inventory,
			 const struct rdma_function *function);
/*
 * The rate that a port should have: the highest of all ports that are up, of the same link layer,
 * on adapters of the same vendor and device id. A port that is up and slower is degraded.
 * RDMA_UNKNOWN when the port is down or its rate is not known. Of an adapter in software it is what
 * the interface below gives, and nothing can be said of it.
 */
uint32_t rdma_port_expected_mbit(const struct rdma_inventory *inventory,
				 const struct rdma_function *function,
				 const struct rdma_port *port);

/* How near an adapter is to a GPU (or to any other function): GPU_LEVEL_SINGLE (PIX) ... _SYSTEM
 * (SYS); GPU_LEVEL_UNKNOWN when the place of one of them is not known. */
enum gpu_level rdma_distance(const struct pci_device *gpu, const struct rdma_function *function);

/* ---- parsers: pure, of bytes that need not end in NUL ---- */

/* "4: ACTIVE\n", "5: LinkUp\n": the number. 0 or -EINVAL. */
int rdma_parse_state(const char *text, size_t length, uint32_t *out);
/* "100 Gb/sec (4X EDR)\n", "2.5 Gb/sec (1X SDR)": Mbit per second. 0, -EINVAL, -ERANGE. */
int rdma_parse_rate(const char *text, size_t length, uint32_t *out_mbit);
/* "InfiniBand\n", "Ethernet\n"; RDMA_LAYER_UNKNOWN for anything else. */
enum rdma_link_layer rdma_parse_link_layer(const char *text, size_t length);
/* "231:192\n". 0 or -EINVAL. */
int rdma_parse_dev(const char *text, size_t length, uint32_t *out_major, uint32_t *out_minor);
/* "eth0\n": the name of an interface as the kernel allows them (dev_valid_name()). 0 or -EINVAL. */
int rdma_parse_interface(const char *text, size_t length, char out[RDMA_IFNAME_MAX]);
/* "1\n", "32\n" of /sys/class/net/<name>/type. */
enum rdma_link_type rdma_parse_link_type(const char *text, size_t length);
/* "Y\n" is shared, "N\n" exclusive. */
enum rdma_netns rdma_parse_netns(const char *text, size_t length);

/* "uverbs", "umad", "issm", "ucm", "rdma_cm". */
const char *rdma_node_kind_to_string(uint32_t kind);
/* "ok", "missing", "wrong numbers", "stand-in". */
const char *rdma_node_state_to_string(uint32_t state);
/* "InfiniBand", "Ethernet", "unknown": the kernel's spelling. */
const char *rdma_link_layer_to_string(uint32_t layer);
/* "ether", "infiniband"; "" for others. */
const char *rdma_link_type_to_string(uint32_t type);
/* "shared", "exclusive", "unknown". */
const char *rdma_netns_to_string(uint32_t netns);
/* "no driver bound", "no RDMA device", "node missing", "node has wrong numbers", ...: the same
 * words in every place; for a metric's label too. */
const char *rdma_reason_to_string(uint32_t code);

#endif
