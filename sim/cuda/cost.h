/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long work takes on a simulated GPU, from what its profile says: processors times clock times
 * what they do in a cycle, the width of the memory times its clock, generation and lanes of PCIe,
 * NVLinks. Integers, so that it is the same everywhere; shares of the peak are rough figures, and
 * nothing here was measured on a GPU. Pure.
 */
#ifndef SLUICE_SIM_CUDA_COST_H
#define SLUICE_SIM_CUDA_COST_H

#include <stdint.h>

struct sim_model;

enum cost_figures {
	COST_LAUNCH_NS = 2000,	  /* of the host, for a launch */
	COST_GRAPH_NODE_NS = 600, /* of the GPU, between two kernels of a graph */
	COST_KERNEL_NS = 1500,	  /* of the GPU, for a kernel that does nothing */
	COST_COPY_NS = 4000,	  /* of a copy engine, for no bytes */
	COST_QUERY_NS = 500,	  /* of the host, for a question */
	COST_CLOCK_NS = 50,	  /* of the host, to look at the clock */
	COST_JIT_NS = 10000000,	  /* of the host, to compile a text, and for each KiB of it: */
	COST_JIT_KIB_NS = 500000,
};

/* Bytes or operations in a microsecond. */
struct cost_rates {
	uint64_t tensor;     /* FP16 with FP32 sums, the peak of the tensor cores */
	uint64_t burn, gemm; /* what our kernels reach of it */
	uint64_t memory;     /* of the device: read or written */
	uint64_t pcie;	     /* to or from pinned host memory */
	uint64_t pageable;
	uint64_t spin; /* cycles */
};

/* `sm_count`: of the GPU or the MIG instance. */
void cost_rates(const struct sim_model *model, uint32_t sm_count, struct cost_rates *out);
/* Bytes in a microsecond between two GPUs with that many NVLinks; 0 links: over PCIe. */
uint64_t cost_peer_rate(const struct sim_model *model, uint32_t links);
/* Nanoseconds for an amount, at least 1; a rate of 0 counts as 1. */
uint64_t cost_ns(uint64_t amount, uint64_t rate);

#endif
