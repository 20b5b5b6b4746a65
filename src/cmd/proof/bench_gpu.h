/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of `sluice bench gpu`. */
#ifndef SLUICE_CMD_PROOF_BENCH_GPU_H
#define SLUICE_CMD_PROOF_BENCH_GPU_H

#include "cmd/cmd.h"
#include "cmd/options.h"

/* Rows of the options that loads have; `type` has the member. */
#define BENCH_GPU_DEVICE_ROW(type, member)                                                         \
	{                                                                                          \
		.name = "device", .kind = OPTION_TEXT, .value = "INDEX|UUID",                      \
		.help = "which GPU (default 0)", OPTION_FIELD(type, member)                        \
	}
#define BENCH_GPU_LIBRARY_ROW(type, member)                                                        \
	{                                                                                          \
		.name = "lib", .kind = OPTION_PATH,                                                \
		.help = "the driver's library (default libcuda.so.1)", OPTION_FIELD(type, member)  \
	}

extern const struct command cmd_bench_gpu_all;
extern const struct command cmd_bench_gpu_alloc;
extern const struct command cmd_bench_gpu_bandwidth;
extern const struct command cmd_bench_gpu_burn;
extern const struct command cmd_bench_gpu_gemm;
extern const struct command cmd_bench_gpu_graph;
extern const struct command cmd_bench_gpu_lc;
extern const struct command cmd_bench_gpu_metrics;
extern const struct command cmd_bench_gpu_p2p;
extern const struct command cmd_bench_gpu_probe;
extern const struct command cmd_bench_gpu_ruler;
extern const struct command cmd_bench_gpu_small;
extern const struct command cmd_bench_gpu_timeslice;
extern const struct command cmd_bench_gpu_stress;
extern const struct command cmd_bench_gpu_vectoradd;

#endif
