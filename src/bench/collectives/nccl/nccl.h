/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives by NCCL (libnccl.so.2) between GPUs, both loaded when they are asked for; memory and
 * streams by the driver library alone. One process is one rank and has one GPU. What NCCL has no
 * call for is made of its sends and receives.
 *
 * Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api.html
 */
#ifndef SLUICE_BENCH_COLLECTIVES_NCCL_NCCL_H
#define SLUICE_BENCH_COLLECTIVES_NCCL_NCCL_H

#include <stdbool.h>
#include <stdint.h>

struct backend;
struct bootstrap;
struct err;
struct nccl_transport;

enum { NCCL_ID_BYTES = 128, NCCL_DESCRIPTION_MAX = 512 };

struct nccl_options {
	const char *library;	     /* NULL: libnccl.so.2 */
	const char *cuda_library;    /* NULL: libcuda.so.1 */
	uint32_t device;	     /* number of the GPU in this process's sight */
	struct bootstrap *bootstrap; /* borrowed, until the backend is freed; says who we are */
	uint64_t timeout_ns;	     /* of one wait */
	uint64_t start_timeout_ns;   /* until NCCL has connected all ranks; 0: timeout_ns */
	bool reads_transport;	     /* has NCCL write its log to a file of ours */
};
/*
 * Loads both, takes the GPU, and connects the ranks: all call it. -ENOENT: a library is not there
 * ("cannot load libnccl.so.2: ..."); -ENODEV: no such GPU; -ENOSYS: a call is missing in the
 * library; -ENOMEM; -ETIMEDOUT; -EPIPE: NCCL said no, in its words, with what may be done.
 */
int nccl_backend_new(const struct nccl_options *options, struct backend **out, struct err *err);

/* How the ranks reach each other, by NCCL's own log; the same on all ranks, which all call it.
 * `out` is initialised here. -ENODATA: there is no log (reads_transport was not asked for, or
 * NCCL_DEBUG_FILE is set by the user); bootstrap_share's errors. */
int nccl_backend_transport(struct backend *backend, struct nccl_transport *out, struct err *err);

/* Bytes that are free on this rank's GPU; UINT64_MAX: the driver does not say. */
uint64_t nccl_backend_free_bytes(const struct backend *backend);

/* "NCCL 2.21.5", from what ncclGetVersion says: up to 2.8 four digits, five since. Returns `out`.
 * Pure. */
const char *nccl_version_to_string(int version, char out[32]);

#endif
