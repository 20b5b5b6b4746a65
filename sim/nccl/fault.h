/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The faults of the simulated NCCL, as SLUICE_SIM_NCCL_FAULT names them, separated by commas:
 *
 *   wrong=RANK:ELEMENT    that rank's result has that element wrong
 *   hang=BYTES            an operation that sends so many bytes or more never ends
 *   async=BYTES           such an operation fails, seen by ncclCommGetAsyncError
 *   socket                NCCL does not find InfiniBand and takes Socket
 *   shm                   there is no room in /dev/shm when a communicator is made
 *   init                  a communicator is never done
 *
 * Pure. Knows nothing of ranks and streams.
 */
#ifndef SLUICE_SIM_NCCL_FAULT_H
#define SLUICE_SIM_NCCL_FAULT_H

#include <stdbool.h>
#include <stdint.h>

struct nccl_fault {
	bool has_wrong, is_socket, is_shm, is_init;
	uint32_t wrong_rank;
	uint64_t wrong_element;
	uint64_t hang_bytes, async_bytes; /* UINT64_MAX: none */
};

/* NULL and "": no fault. False: `text` is none of the above; `*out_bad` points to the word. */
bool fault_parse(const char *text, struct nccl_fault *out, const char **out_bad);

#endif
