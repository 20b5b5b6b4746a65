/* SPDX-License-Identifier: Apache-2.0 */
/* PCI configuration space with the capability of a vGPU: any bytes. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hardware/vgpu.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vgpu vgpu;
	int rc = vgpu_parse(data, size, &vgpu);
	if (rc > 1 || (rc < 0) != (size < VGPU_CONFIG_MIN))
		abort();
	if (rc == 1 && (strlen(vgpu.host_version) >= VGPU_TEXT_SIZE ||
			strlen(vgpu.host_branch) >= VGPU_TEXT_SIZE))
		abort();
	return 0;
}
