/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What /proc/driver/nvidia and /sys/bus/pci say about devices: it needs no driver call, so it is
 * there for a GPU that is lost or hangs too. The parsers are pure functions over bytes; the readers
 * take the root in front of /proc and /sys ("" is the real one). Knows nothing of NVML.
 *
 * Facts: Documentation/ABI/testing/sysfs-bus-pci of the Linux kernel; nv-procfs.c of
 * https://github.com/NVIDIA/open-gpu-kernel-modules.
 */
#ifndef SLUICE_HARDWARE_PCI_H
#define SLUICE_HARDWARE_PCI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hardware/gpu.h"

struct err;

enum pci_limits {
	PCI_PATH_DEPTH_MAX = 16, /* bridges above a device */
	PCI_CPULIST_MAX = 256,
	PCI_FILE_MAX = 4096, /* one sysfs or procfs file */
	PCI_LIST_MAX = 256,  /* devices that one listing keeps */
};

enum pci_class { PCI_CLASS_NETWORK = 0x02, PCI_CLASS_DISPLAY = 0x03 };
#define PCI_VENDOR_NVIDIA 0x10deu

/* The bridges from the root complex down to a device. */
struct pci_path {
	uint32_t root_domain, root_bus; /* of "pci0000:00", the host bridge */
	uint32_t depth;
	struct pci_address hop[PCI_PATH_DEPTH_MAX]; /* the device itself is the last */
};

/* What /proc/driver/nvidia/gpus/<address>/information says. Texts are "" when not told. */
struct pci_nvidia_information {
	char model[GPU_NAME_MAX];
	char uuid[GPU_UUID_MAX]; /* "" also when the driver prints question marks for a lost GPU */
	uint32_t minor;		 /* GPU_U32_UNKNOWN */
};

struct pci_device {
	struct pci_address address;
	uint32_t vendor, device;
	uint32_t class_; /* 0x030200 */
	int32_t numa_node;
	char cpulist[PCI_CPULIST_MAX];
	uint32_t link_gen, link_width; /* 0: not known */
	uint32_t link_gen_max, link_width_max;
	bool has_path;
	struct pci_path path;
};

/*
 * The root in front of /proc, /sys and /dev: $SLUICE_ROOT, else "" for the real one. Where a
 * simulated machine is used without its trees ($SLUICE_SIM_STATE or $SLUICE_SIM_PROFILE without
 * $SLUICE_ROOT) it is PCI_NO_ROOT, below which nothing is: the real machine's files must never be
 * mixed with simulated GPUs. Borrowed: of the environment.
 */
const char *pci_root(void);
#define PCI_NO_ROOT "/dev/null"

/* "0000:07:00.0", "00000000:07:00.0", "07:00.0", "0000:07:00"; any letter case. 0 or -EINVAL. */
int pci_parse_address(const char *text, size_t length, struct pci_address *out);
/* "3\n", "-1\n". 0 or -EINVAL. */
int pci_parse_numa_node(const char *text, size_t length, int32_t *out);
/* "0x030200\n". 0 or -EINVAL. */
int pci_parse_hex(const char *text, size_t length, uint32_t *out);
/* "16.0 GT/s PCIe\n" -> generation 4; "2.5 GT/s" -> 1. 0 when it is "Unknown" or garbage. */
uint32_t pci_parse_link_speed(const char *text, size_t length);
/* "16\n" -> 16; 0 when it is 0, "255" (unknown) or garbage. */
uint32_t pci_parse_link_width(const char *text, size_t length);
/* "0-15,32-47\n": copies what is a list of CPUs. 0, -EINVAL, -ENAMETOOLONG. */
int pci_parse_cpulist(const char *text, size_t length, char out[PCI_CPULIST_MAX]);
/* The target of /sys/bus/pci/devices/<address>:
 * "../../../devices/pci0000:00/0000:00:01.0/0000:07:00.0". 0 or -EINVAL. */
int pci_parse_path(const char *text, size_t length, struct pci_path *out);
/* The body of /proc/driver/nvidia/gpus/<address>/information. Always succeeds; what is not there
 * stays unknown. */
void pci_parse_nvidia_information(const char *text, size_t length,
				  struct pci_nvidia_information *out);
/* The version in the body of /proc/driver/nvidia/version, closed and open kernel modules.
 * 0 or -EINVAL. */
int pci_parse_nvidia_version(const char *text, size_t length, char out[GPU_VERSION_MAX]);

/* How near two devices are by their paths; `numa_a`, `numa_b` tell NODE from SYS. */
enum gpu_level pci_path_level(const struct pci_path *a, int32_t numa_a, const struct pci_path *b,
			      int32_t numa_b);
/* 2.5 GT/s -> 1 ... 64 GT/s -> 6; given in tenths of GT/s. 0 for others. */
uint32_t pci_gen_of_speed(uint32_t tenths_gt_per_second);
/* GT/s per lane, in tenths, of a generation; 0 for others. */
uint32_t pci_speed_of_gen(uint32_t gen);

/* Reads what sysfs says about one device. Files that are missing or cannot be read leave their
 * value unknown; only a device that is not there at all is an error (-ENOENT). */
int pci_read_device(const char *root, const struct pci_address *address, struct pci_device *out,
		    struct err *err);
/* The class alone, as in struct pci_device. -ENOENT, or -EINVAL of what is no number: `*out` stays.
 */
int pci_read_class(const char *root, const struct pci_address *address, uint32_t *out);
/* The devices of a class (its first byte), ordered by address; at most `max`. Returns how many. */
uint32_t pci_list_class(const char *root, enum pci_class class_, struct pci_device *out,
			uint32_t max);
/* The devices of a vendor, ordered by address; at most `max`. Returns how many. */
uint32_t pci_list_vendor(const char *root, uint32_t vendor, struct pci_address *out, uint32_t max);
/* The GPUs that the driver has bound: the directories of /proc/driver/nvidia/gpus, ordered. */
uint32_t pci_list_nvidia(const char *root, struct pci_address *out, uint32_t max);
void pci_read_nvidia_information(const char *root, const struct pci_address *address,
				 struct pci_nvidia_information *out);
/* The version of the loaded kernel module, from /sys/module/nvidia/version or
 * /proc/driver/nvidia/version. -ENOENT when none is loaded. */
int pci_read_nvidia_version(const char *root, char out[GPU_VERSION_MAX]);

#endif
