/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds two vectors of 50,000 numbers on a GPU and checks every sum: the smallest thing that shows
 * that a GPU computes for whoever asks. The same lines as the vectorAdd of the CUDA samples, which
 * people's scripts look for. Knows nothing of grants.
 */
#ifndef SLUICE_VALIDATE_GPU_VECTORADD_H
#define SLUICE_VALIDATE_GPU_VECTORADD_H

#include <stdint.h>

struct checks_sink;
struct driver;
struct driver_device;

enum { VECTORADD_COUNT = 50000 };

/* The check "vectoradd" of this GPU; `place` is its number for checks_begin(). */
void vectoradd_check(const struct driver *driver, const struct driver_device *device,
		     uint64_t place, const struct checks_sink *sink);

#endif
