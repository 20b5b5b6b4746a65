/* SPDX-License-Identifier: Apache-2.0 */
/* How MIG devices are called and counted. */
#ifndef SLUICE_SIM_NVML_MIG_H
#define SLUICE_SIM_NVML_MIG_H

#include <stddef.h>
#include <stdint.h>

#include "sim/machine.h"

/* "3g.20gb", or "1c.3g.20gb" for a compute instance smaller than its GPU instance. */
void mig_device_name(const struct sim_model *model, const struct sim_gi *gi,
		     const struct sim_ci *ci, char *out, size_t size);
/* The number of a MIG device among those of its GPU: they are counted without gaps. */
uint32_t mig_index_of(const struct sim_gpu *gpu, uint32_t gi, uint32_t ci);

#endif
