/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of `sluice bench gpu`. */
#ifndef SLUICE_CMD_PROOF_BENCH_GPU_H
#define SLUICE_CMD_PROOF_BENCH_GPU_H

#include "cmd/cmd.h"

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
