/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads of a PTX text what a driver decides by: version, target, and the names of its kernels. It
 * does not compile: of the bodies it only sees that they are closed. Pure.
 */
#ifndef SLUICE_SIM_CUDA_PTX_H
#define SLUICE_SIM_CUDA_PTX_H

#include <stdbool.h>
#include <stdint.h>

enum ptx_limits { PTX_TEXT_MAX = 16 << 20, PTX_ENTRY_MAX = 64, PTX_NAME_MAX = 96 };

struct ptx {
	uint32_t version; /* 63 is 6.3 */
	uint32_t target;  /* 75 is sm_75 */
	bool is_exact;	  /* sm_90a: for this capability alone */
	uint32_t entry_count;
	char entry[PTX_ENTRY_MAX][PTX_NAME_MAX];
};

/* 0, or -1 with a message like a compiler's in `log` (`log_bytes` above 0). */
int ptx_parse(const char *text, uint64_t bytes, struct ptx *out, char *log, uint32_t log_bytes);

#endif
