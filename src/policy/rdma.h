/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which RDMA adapters each resource of the configuration has on this machine, and why others that
 * it means are not offered. Pure: inventory and configuration in, plain data out. Knows nothing of
 * who takes a unit or how an adapter's health was told from its ports.
 */
#ifndef SLUICE_POLICY_RDMA_H
#define SLUICE_POLICY_RDMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hardware/rdma.h"
#include "policy/rdma_config.h"

struct err;

enum rdma_policy_limits {
	RDMA_POLICY_REASON_MAX = 128, /* bytes of a sentence */
};

/* An adapter (a PCI function) that the selectors of a resource mean. */
struct rdma_candidate {
	uint32_t function;     /* place in the inventory */
	uint32_t reason_count; /* why it is not offered; 0: it is */
	struct rdma_reason reason[RDMA_REASON_MAX];
};

struct rdma_resource {
	char name[RDMA_CONFIG_RESOURCE_MAX];   /* "rdma/hca" */
	const struct rdma_config_entry *entry; /* borrowed: of the configuration */
	struct rdma_candidate *candidates;     /* owned; by address */
	uint32_t candidate_count;
	uint32_t offered; /* of them */
};

struct rdma_policy {
	struct rdma_resource *resources; /* owned; in the order of the configuration */
	size_t count;
};

/* `config` is borrowed by what comes out. -ENOMEM. */
int rdma_policy_make(const struct rdma_config *config, const struct rdma_inventory *inventory,
		     struct rdma_policy *out, struct err *err);
void rdma_policy_done(struct rdma_policy *policy);

/* Whether two policies of two inventories hand out the same: adapters, reasons and nodes. */
bool rdma_candidate_is_same(const struct rdma_candidate *a, const struct rdma_candidate *b);

/* Offered, and not one of those that are down: `is_down` has an entry for each function of the
 * inventory, NULL: none is. A resource without health checks does not look at it. */
bool rdma_resource_is_healthy(const struct rdma_resource *resource,
			      const struct rdma_candidate *candidate, const bool *is_down);
uint32_t rdma_resource_healthy(const struct rdma_resource *resource, const bool *is_down);
/* The NUMA node of all adapters that are offered; GPU_NUMA_NONE: they are on several, or that is
 * not known, or nobody is to be told. */
int32_t rdma_resource_numa(const struct rdma_resource *resource,
			   const struct rdma_inventory *inventory);
/*
 * The nodes that each container of the resource gets: all of its healthy adapters, each once, by
 * path, with rdma_cm if there is one. None where no adapter is healthy. `*out` is given, to be
 * freed. -ENOMEM.
 */
int rdma_resource_nodes(const struct rdma_resource *resource,
			const struct rdma_inventory *inventory, const bool *is_down,
			struct rdma_node **out, size_t *out_count, struct err *err);
/* The same of one RDMA device (place `device` in the inventory). */
int rdma_device_nodes(const struct rdma_inventory *inventory, uint32_t device, bool management,
		      struct rdma_node **out, size_t *out_count, struct err *err);

/* "0000:c4:00.1 not offered as rdma/hca: no driver bound". */
void rdma_policy_explain(const struct rdma_resource *resource,
			 const struct rdma_inventory *inventory,
			 const struct rdma_candidate *candidate, char *out, size_t size);
/* Why a resource has nothing to hand out; "" when it has. */
void rdma_policy_problem(const struct rdma_resource *resource,
			 const struct rdma_inventory *inventory, const bool *is_down,
			 char out[RDMA_POLICY_REASON_MAX]);

#endif
