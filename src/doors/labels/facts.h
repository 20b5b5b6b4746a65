/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the labels need beside the inventory and is read from files of this machine: its name, the
 * PCI classes, the vGPU's host. What cannot be read is not known and costs its own label only.
 * Reads /sys and one file, so it belongs where waiting for a disk is allowed.
 */
#ifndef SLUICE_DOORS_LABELS_FACTS_H
#define SLUICE_DOORS_LABELS_FACTS_H

struct inventory;
struct label_set;
struct labels_facts;

/* Fills all but the start time. `root` is in front of /sys; `machine_file` is taken as it is, ""
 * for none. */
void facts_read(const char *root, const char *machine_file, const struct inventory *inventory,
		struct labels_facts *out);

/* Labels that node feature discovery makes by itself, for nodes without it: which PCI devices of
 * NVIDIA's and Mellanox's there are, and RDMA. */
void facts_read_discovery(const char *root, struct label_set *out);

#endif
