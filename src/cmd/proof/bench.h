/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of `sluice bench`. */
#ifndef SLUICE_CMD_PROOF_BENCH_H
#define SLUICE_CMD_PROOF_BENCH_H

#include "cmd/cmd.h"
#include "cmd/options.h"

/* The row of those that tell on standard error how far they are; `type` has `bool quiet`. */
#define BENCH_QUIET_ROW(type)                                                                      \
	{                                                                                          \
		.name = "quiet", .letter = 'q', .kind = OPTION_FLAG,                               \
		.help = "no progress on standard error", OPTION_FIELD(type, quiet)                 \
	}

extern const struct command cmd_bench_collectives;
extern const struct command cmd_bench_compare;
extern const struct command cmd_bench_gpu;
extern const struct command cmd_bench_storage;

#endif
