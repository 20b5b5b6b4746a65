/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/labels/facts.h"

#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "doors/labels/labels.h"
#include "hardware/pci.h"

void facts_read(const char *root, const char *machine_file, const struct inventory *inventory,
		struct labels_facts *out)
{
	_cleanup_buf_ struct buf machine;
	buf_init(&machine, LABELS_MACHINE_MAX);
	out->has_machine = machine_file[0] != '\0' && file_read(machine_file, &machine, NULL) == 0;
	out->machine_length = machine.length;
	if (machine.length > 0)
		memcpy(out->machine, machine.data, machine.length);

	for (uint32_t i = 0; i < GPU_MAX; i++)
		out->class_[i] = LABELS_CLASS_UNKNOWN;
	for (uint32_t i = 0; i < inventory->gpu_count; i++) {
		struct pci_device device;
		const struct gpu *gpu = &inventory->gpus[i];
		if (gpu->has_pci && pci_read_device(root, &gpu->pci, &device, NULL) == 0)
			out->class_[i] = device.class_;
	}
	out->vgpu_presence = vgpu_read(root, &out->vgpu);
}
