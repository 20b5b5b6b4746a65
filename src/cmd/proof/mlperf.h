/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of `sluice mlperf`, and what they share. */
#ifndef SLUICE_CMD_PROOF_MLPERF_H
#define SLUICE_CMD_PROOF_MLPERF_H

#include "bench/mlrun.h"
#include "cmd/cmd.h"

extern const struct command cmd_mlperf_check, cmd_mlperf_compare, cmd_mlperf_log, cmd_mlperf_rcp,
    cmd_mlperf_summary;

enum { MLPERF_FILES_MAX = 4096 };

/* The files that are meant by arguments: a directory stands for the result_*.txt in it, or else all
 * its *.log, *.txt and *.out; in the order of their names, numbers by value. */
struct mlperf_files {
	char **paths; /* owned, and each of them */
	size_t count;
};
/* -ENOENT: a directory has none; -E2BIG: more than MLPERF_FILES_MAX. */
int mlperf_files_find(char *const *arguments, size_t count, struct mlperf_files *out,
		      struct err *err);
void mlperf_files_done(struct mlperf_files *files);
#define _cleanup_mlperf_files_ __attribute__((cleanup(mlperf_files_done)))

/* Reads a log to its end, with findings by those rules; `out` is initialised here. The file may be
 * of any length. */
int mlperf_read(const char *path, enum mlrules_round ruleset, struct mlrun *out, struct err *err);

#endif
