/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of `sluice mlperf`, and what they share. */
#ifndef SLUICE_CMD_MLPERF_H
#define SLUICE_CMD_MLPERF_H

#include "bench/mlrun.h"
#include "cmd/cmd.h"

extern const struct command cmd_mlperf_check, cmd_mlperf_compare, cmd_mlperf_log,
    cmd_mlperf_summary;

/* Reads a log to its end; `out` is initialised here. The file may be of any length. */
int mlperf_read(const char *path, struct mlrun *out, struct err *err);

#endif
