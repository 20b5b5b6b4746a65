/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/shared.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "doctor/doctor.h"
#include "doctor/holders.h"
#include "hardware/rdma.h"

enum { SHARED_VENDOR_MELLANOX = 0x15b3, SHARED_CLASS_INFINIBAND = 0x0207, SHARED_CLASS_SHIFT = 8 };

const char *shared_root(const struct doctor *doctor)
{
	/* A container without /proc of its host below the root sees the kernel as its own. */
	return doctor->rootfs.kernel_fd >= 0 ? "" : doctor->rootfs.path;
}

const struct rdma_inventory *shared_rdma(struct doctor *doctor)
{
	struct err err = {0};

	if (doctor->rdma)
		return doctor->rdma;

	struct rdma_inventory *inventory = calloc(1, sizeof(*inventory));
	int rc = inventory ? rdma_read(shared_root(doctor), inventory, &err) : -ENOMEM;
	if (rc < 0) {
		free(inventory);
		doctor_unreadable(doctor, "RDMA adapters", rc);
		return NULL;
	}

	doctor->rdma = inventory;
	return inventory;
}

const struct holders *shared_holders(struct doctor *doctor)
{
	if (!doctor->holders) {
		doctor->holders = calloc(1, sizeof(*doctor->holders));
		if (doctor->holders)
			holders_scan(&doctor->rootfs, doctor->holders);
		else
			doctor_unreadable(doctor, "/proc", -ENOMEM);
	}

	return doctor->holders;
}

bool shared_is_adapter(const struct rdma_function *function)
{
	return function->device_count > 0 || function->vendor == SHARED_VENDOR_MELLANOX ||
	       function->class_ >> SHARED_CLASS_SHIFT == SHARED_CLASS_INFINIBAND;
}

const struct rdma_inventory *shared_rdma_or_skip(struct doctor *doctor)
{
	const struct rdma_inventory *inventory = shared_rdma(doctor);
	for (uint32_t i = 0; inventory && i < inventory->function_count; i++)
		if (shared_is_adapter(&inventory->function[i]))
			return inventory;
	if (inventory)
		doctor_skip(doctor, "no RDMA adapter here");
	return NULL;
}
