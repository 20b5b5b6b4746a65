/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the ranks of a simulated communicator reach each other, by the machine that is simulated: the
 * lines that NCCL_DEBUG=INFO has of it, and how fast that is. The figures are of nobody's
 * measurement; doc/unproven.md says so.
 */
#ifndef SLUICE_SIM_NCCL_REPORT_H
#define SLUICE_SIM_NCCL_REPORT_H

#include <stdbool.h>
#include <stdint.h>

struct comm_world;

struct report {
	double bytes_per_ns; /* of a rank, each direction */
	uint64_t latency_ns; /* of one operation */
};

/* Looks at the machine, writes what the environment asks for to NCCL_DEBUG_FILE (or standard
 * output). `device` is CUDA's number of this rank's GPU. */
void report_init(const struct comm_world *world, uint32_t rank, uint32_t ranks, int device,
		 bool is_socket, struct report *out);
/* One line, if NCCL_DEBUG asks for it ("WARN" is written at INFO too). */
void report_line(int device, const char *level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
