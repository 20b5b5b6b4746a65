/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What several checks need of a machine: its GPUs as the PCI bus names them, kernel, distribution,
 * the loaded kernel module and where the driver's libraries are. Read from files; what cannot be
 * read stays empty.
 */
#ifndef SLUICE_DOCTOR_FACTS_H
#define SLUICE_DOCTOR_FACTS_H

struct doctor_facts;
struct rootfs;

/* Where a driver container puts its driver:
 * https://github.com/NVIDIA/gpu-driver-container */
#define FACTS_DRIVER_ROOT "/run/nvidia/driver"

void facts_find(const struct rootfs *rootfs, struct doctor_facts *out);

#endif
