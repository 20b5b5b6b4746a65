/* SPDX-License-Identifier: Apache-2.0 */
/* What the table of faults (fault_kinds.c) uses of the machinery (fault.c). */
#ifndef SLUICE_SIM_FAULT_PRIVATE_H
#define SLUICE_SIM_FAULT_PRIVATE_H

#include "sim/fault.h"

/* nvmlEventType bits (https://docs.nvidia.com/deploy/nvml-api/, nvmlEvents). */
enum fault_event_type {
	EVENT_ECC_CORRECTED = 0x1,
	EVENT_ECC_UNCORRECTED = 0x2,
	EVENT_XID = 0x8,
	EVENT_MIG = 0x100,
	EVENT_ECC_STORM = 0x200,
	EVENT_RETIREMENT = 0x400,
	EVENT_RETIREMENT_FAILURE = 0x800,
	EVENT_UNAVAILABLE = 0x4000,
	EVENT_RECOVERY = 0x8000,
};

enum {
	XID_UNKNOWN = 999,
	RECOVERY_RESET = 1,
};

/* A decimal number up to `max`. */
bool fault_number(const char *text, uint64_t max, uint64_t *out);
/* "" when there are fewer. */
const char *fault_argument(const struct sim_fault *fault, uint32_t index);

void fault_event(struct sim_machine *machine, const struct sim_fault *fault, uint64_t type,
		 uint64_t data);
/* Kernel-log record, NVML event and last_xid; nothing more. */
int fault_xid(struct sim_machine *machine, const struct sim_fault *fault, uint32_t xid,
	      const char *text, struct sim_error *error);
int fault_record(struct sim_machine *machine, const struct sim_fault *fault,
		 const struct sim_kmsg_xid *record, struct sim_error *error);
/* Field 230 becomes `action`, with XID 154 and event 0x8000. */
int fault_recovery(struct sim_machine *machine, const struct sim_fault *fault, uint32_t action,
		   struct sim_error *error);

/* Of network adapters (fault_rdma.c). */
int fault_apply_rdma(struct sim_machine *machine, const struct sim_fault *fault,
		     struct sim_error *error);
int fault_apply_rdma_netns(struct sim_machine *machine, const struct sim_fault *fault,
			   struct sim_error *error);
/* Of the bus between adapters and GPUs. */
int fault_apply_acs(struct sim_machine *machine, const struct sim_fault *fault,
		    struct sim_error *error);
int fault_apply_iommu(struct sim_machine *machine, const struct sim_fault *fault,
		      struct sim_error *error);
/* Takes them back: of the adapter `which` ("mlx5_3"), NULL for all. */
int fault_heal_rdma(struct sim_machine *machine, const char *which, struct sim_error *error);

#endif
