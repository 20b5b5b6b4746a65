/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the files that a machine with RDMA adapters has below /sys and /dev, as small as the reader
 * needs them, in a directory of the test. Nodes are links to /dev/null and the class entries say
 * its numbers, so that no privilege is needed.
 */
#ifndef TESTS_UNIT_HARDWARE_RDMA_TREE_H
#define TESTS_UNIT_HARDWARE_RDMA_TREE_H

#include <stdbool.h>

#define RDMA_TREE_DEV "1:3" /* of /dev/null */

struct rdma_tree_function {
	const char *bdf;    /* "0000:0c:00.0" */
	const char *above;  /* "pci0000:00/0000:00:01.0"; NULL: below the root complex itself */
	const char *class_; /* NULL: "0x020700" */
	const char *vendor; /* NULL: "0x15b3" */
	const char *device; /* NULL: "0x1017" */
	const char *driver; /* NULL: mlx5_core; "": none bound */
	int numa;
	bool simulated;
};

void rdma_tree_function(const char *root, const struct rdma_tree_function *function);
/* `type`: "1" for Ethernet, "32" for InfiniBand. */
void rdma_tree_interface(const char *root, const char *bdf, const char *name, const char *type);
/* An RDMA device with its uverbs node: /dev/infiniband/uverbs<number>. */
void rdma_tree_device(const char *root, const char *bdf, const char *name, unsigned number);
/* One in software with its node, as rdma_rxe makes it on `interface` (Linux 6.1): without a parent.
 * It has one port, which is up. */
void rdma_tree_software(const char *root, const char *name, const char *interface, unsigned number);
/* A port that is up; umad<number>, and issm<number> when the layer is InfiniBand. */
void rdma_tree_port(const char *root, const char *device, unsigned port, const char *layer,
		    unsigned number);
/* An entry "sys/class/<class>/<name>" for a device, and its node. */
void rdma_tree_node(const char *root, const char *class_, const char *name, const char *ibdev,
		    const char *port);
/* One file below the root: its directory is made, what was there is replaced. */
void rdma_tree_write(const char *root, const char *path, const char *text);
void rdma_tree_remove(const char *root, const char *path);
void rdma_tree_link(const char *root, const char *path, const char *target);

#endif
