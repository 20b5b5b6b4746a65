/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice bench gpu`: the table of its verbs. */
#include "cmd/proof/bench_gpu.h"

#include <stddef.h>

#include "cmd/proof/bench.h"

static const struct command *const verbs[] = {
    &cmd_bench_gpu_gemm,      &cmd_bench_gpu_burn,
    &cmd_bench_gpu_small,     &cmd_bench_gpu_graph,
    &cmd_bench_gpu_lc,	      &cmd_bench_gpu_alloc,
    &cmd_bench_gpu_probe,     &cmd_bench_gpu_ruler,
    &cmd_bench_gpu_timeslice, &cmd_bench_gpu_vectoradd,
    &cmd_bench_gpu_bandwidth, &cmd_bench_gpu_p2p,
    &cmd_bench_gpu_stress,    &cmd_bench_gpu_metrics,
    &cmd_bench_gpu_all,	      NULL,
};

static const struct cmd_example examples[] = {
    {"sluice bench gpu gemm --seconds 60", "products on tensor cores, and their rate"},
    {"sluice bench gpu vectoradd", "does every GPU compute?"},
    {"sluice sim exec -- sluice bench gpu gemm", "the same on a simulated GPU"},
    {"sluice bench gpu timeslice", "does either of two that share a GPU get about half?"},
    {NULL, NULL},
};

const struct command cmd_bench_gpu = {
    .name = "gpu",
    .summary = "Load and check GPUs through the driver alone",
    .description =
	"Opens the driver's library and gives it kernels that are part of this program: no CUDA "
	"toolkit is needed, neither to build nor to run. Every load verifies that the GPU computes "
	"rightly before it times anything.",
    .commands = verbs,
    .examples = examples,
};
