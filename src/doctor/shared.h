/* SPDX-License-Identifier: Apache-2.0 */
/* What several checks look at and what is read once: RDMA adapters, and the processes that hold
 * devices. */
#ifndef SLUICE_DOCTOR_SHARED_H
#define SLUICE_DOCTOR_SHARED_H

#include <stdbool.h>

struct doctor;
struct holders;
struct rdma_inventory;

/* Borrowed: of `doctor`. NULL: they cannot be read, and the check has said so. */
const struct rdma_inventory *shared_rdma(struct doctor *doctor);
/* NULL: out of memory, and the check has said so. */
const struct holders *shared_holders(struct doctor *doctor);
/* For readers that take a root and not a rootfs: below which /proc, /sys and /dev lie. */
const char *shared_root(const struct doctor *doctor);

/* An adapter is one that has RDMA, or ought to have: InfiniBand, or of a maker of such adapters. */
struct rdma_function;
bool shared_is_adapter(const struct rdma_function *function);
/* The same; skips the check, with that reason, where there is none. */
const struct rdma_inventory *shared_rdma_or_skip(struct doctor *doctor);

#endif
