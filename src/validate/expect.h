/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast links ought to be, by their kind. Pure. None of these limits has been compared with
 * hardware: see doc/unproven.md.
 */
#ifndef SLUICE_VALIDATE_EXPECT_H
#define SLUICE_VALIDATE_EXPECT_H

#include <stdint.h>

/* What a PCIe link carries in one direction, GB/s (1e9 bytes): 0.985 a lane for generation 3 and
 * twice that for each further one. 0: not known. */
double expect_pcie(uint32_t gen, uint32_t width);
/* What a copy between host and GPU must reach: three quarters. */
double expect_host(uint32_t gen, uint32_t width);
/* What a copy from GPU to GPU must reach: 0.85 of that. */
double expect_peer(uint32_t architecture, uint32_t links);
/* And the bus bandwidth of an all-reduce: 0.7. */
double expect_all_reduce(uint32_t architecture, uint32_t links);

#endif
