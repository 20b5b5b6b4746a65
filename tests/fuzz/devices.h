/* SPDX-License-Identifier: Apache-2.0 */
/* Resources of made-up GPUs, for the targets that ask for their devices. */
#ifndef TESTS_FUZZ_DEVICES_H
#define TESTS_FUZZ_DEVICES_H

#include <stdint.h>

struct allocator;
struct kubelet_resource;

enum devices_limits { DEVICES_GPUS = 4 };

/* By one of a few configurations; GPU i is unhealthy where bit i is set. Owned. */
struct kubelet_resource *devices_make(uint8_t configuration, uint8_t unhealthy);
struct allocator *devices_allocator(void);

#endif
