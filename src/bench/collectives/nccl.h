/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives by NCCL (libnccl.so.2) between GPUs, both loaded when they are asked for; memory and
 * streams by the driver library alone. One process is one rank and has one GPU.
 */
#ifndef SLUICE_BENCH_COLLECTIVES_NCCL_H
#define SLUICE_BENCH_COLLECTIVES_NCCL_H

#include <stdint.h>

struct backend;
struct err;

enum { NCCL_ID_BYTES = 128 };

/* For the first rank; the others get the bytes from it. -ENOENT: no library. */
int nccl_unique_id(const char *library, uint8_t out[NCCL_ID_BYTES], struct err *err);

struct nccl_options {
	const char *library;	  /* NULL: libnccl.so.2 */
	const char *cuda_library; /* NULL: libcuda.so.1 */
	uint32_t rank, ranks;
	uint32_t device;   /* number of the GPU in this process's sight */
	const uint8_t *id; /* NCCL_ID_BYTES; borrowed */
	uint64_t timeout_ns;
};
int nccl_backend_new(const struct nccl_options *options, struct backend **out, struct err *err);

#endif
