/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of `sluice bench`. */
#ifndef SLUICE_CMD_PROOF_BENCH_H
#define SLUICE_CMD_PROOF_BENCH_H

#include "cmd/cmd.h"

extern const struct command cmd_bench_collectives;
extern const struct command cmd_bench_compare;
extern const struct command cmd_bench_gpu;
extern const struct command cmd_bench_storage;

#endif
