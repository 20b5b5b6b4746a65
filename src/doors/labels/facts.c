/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/labels/facts.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "doors/labels/label.h"
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
		const struct gpu *gpu = &inventory->gpus[i];
		if (gpu->has_pci)
			(void)pci_read_class(root, &gpu->pci, &out->class_[i]);
	}

	out->vgpu_presence = vgpu_read(root, &out->vgpu);
}

#define DISCOVERY	"feature.node.kubernetes.io/"
#define VENDOR_MELLANOX 0x15b3u

static bool facts_has_module(const char *root, const char *name)
{
	char path[FILE_PATH_MAX];
	return file_path(path, NULL, "%s/sys/module/%s", root, name) == 0 && file_exists(path);
}

/* https://kubernetes-sigs.github.io/node-feature-discovery/stable/usage/features.html (pci), and
 * the rules for RDMA of its examples. */
void facts_read_discovery(const char *root, struct label_set *out)
{
	enum { VGA = 0x0300, COMPUTE = 0x0302 };
	struct pci_address found[PCI_LIST_MAX];
	uint32_t count = pci_list_vendor(root, PCI_VENDOR_NVIDIA, found, PCI_LIST_MAX);
	if (count > 0)
		label_set_put(out, DISCOVERY "pci-10de.present", "true");

	for (uint32_t i = 0; i < count; i++) {
		char key[LABEL_KEY_SIZE];
		uint32_t class_;

		if (pci_read_class(root, &found[i], &class_) < 0)
			continue;

		class_ >>= 8;
		(void)snprintf(key, sizeof(key), DISCOVERY "pci-%04x_10de.present",
			       (unsigned)class_);
		if (class_ == VGA || class_ == COMPUTE)
			label_set_put(out, key, "true");
	}

	if (pci_list_vendor(root, VENDOR_MELLANOX, found, PCI_LIST_MAX) > 0) {
		label_set_put(out, DISCOVERY "pci-15b3.present", "true");
		label_set_put(out, DISCOVERY "rdma.capable", "true");
	}

	if (facts_has_module(root, "ib_uverbs") && facts_has_module(root, "rdma_ucm"))
		label_set_put(out, DISCOVERY "rdma.available", "true");
}
