/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `sluice devices` and nvidia-container-cli (container_cli.c) print alike: the GPUs, as lines
 * that scripts know. Called by those two.
 */
#ifndef SLUICE_CMD_DEVICES_H
#define SLUICE_CMD_DEVICES_H

#include "cmd/machine.h"

/*
 * The driver's versions and a block, or a row of comma-separated values, for each GPU: the output
 * of `nvidia-container-cli info`. Returns the exit code; CMD_EXIT_FAILED when a GPU does not
 * answer: it is printed with what is known of it, and named on standard error.
 */
int devices_info(const struct cmd_call *call, uint64_t timeout_ns, bool csv);

#endif
