/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `sluice devices --rdma` prints: the RDMA adapters of this machine, with their ports and
 * nodes, and why one cannot be handed out. Reads /sys and /dev alone; asks no driver and no
 * service.
 */
#ifndef SLUICE_CMD_MACHINE_DEVICES_RDMA_H
#define SLUICE_CMD_MACHINE_DEVICES_RDMA_H

#include "cmd/cmd.h"
#include "cmd/options.h"

/* Returns the exit code. A machine without adapters is no error. */
int devices_rdma(const struct cmd_call *call, enum option_output output);

#endif
