/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/gpu.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "base/text.h"

void inventory_init(struct inventory *inventory)
{
	memset(inventory, 0, sizeof(*inventory));
	memset(inventory->level, GPU_LEVEL_UNKNOWN, sizeof(inventory->level));
}

void inventory_done(struct inventory *inventory)
{
	if (!inventory)
		return;
	free(inventory->gpus);
	free(inventory->migs);
	inventory_init(inventory);
}

int inventory_copy(const struct inventory *from, struct inventory *out)
{
	struct gpu *gpus = NULL;
	struct mig_device *migs = NULL;

	if (from->gpu_count > 0) {
		gpus = calloc(from->gpu_count, sizeof(*gpus));
		if (!gpus)
			return -ENOMEM;
		memcpy(gpus, from->gpus, from->gpu_count * sizeof(*gpus));
	}

	if (from->mig_count > 0) {
		migs = calloc(from->mig_count, sizeof(*migs));
		if (!migs) {
			free(gpus);
			return -ENOMEM;
		}

		memcpy(migs, from->migs, from->mig_count * sizeof(*migs));
	}

	*out = *from;
	out->gpus = gpus;
	out->migs = migs;

	return 0;
}

const struct gpu *inventory_find_gpu(const struct inventory *inventory, const char *uuid)
{
	for (uint32_t i = 0; i < inventory->gpu_count; i++) {
		if (strcmp(inventory->gpus[i].uuid, uuid) == 0)
			return &inventory->gpus[i];
	}
	return NULL;
}

const struct mig_device *inventory_find_mig(const struct inventory *inventory, const char *uuid)
{
	for (uint32_t i = 0; i < inventory->mig_count; i++) {
		if (strcmp(inventory->migs[i].uuid, uuid) == 0)
			return &inventory->migs[i];
	}
	return NULL;
}

const char *gpu_state_to_string(uint32_t state)
{
	static const char *const names[] = {
	    [GPU_STATE_OK] = "ok",	 [GPU_STATE_LOST] = "lost",
	    [GPU_STATE_HUNG] = "hung",	 [GPU_STATE_RESET_REQUIRED] = "reset required",
	    [GPU_STATE_ERROR] = "error",
	};
	return names_at(names, state, "unknown");
}

const char *gpu_architecture_to_string(uint32_t architecture)
{
	static const char *const names[] = {
	    [GPU_ARCH_KEPLER] = "Kepler",
	    [GPU_ARCH_MAXWELL] = "Maxwell",
	    [GPU_ARCH_PASCAL] = "Pascal",
	    [GPU_ARCH_VOLTA] = "Volta",
	    [GPU_ARCH_TURING] = "Turing",
	    [GPU_ARCH_AMPERE] = "Ampere",
	    [GPU_ARCH_ADA] = "Ada",
	    [GPU_ARCH_HOPPER] = "Hopper",
	    [GPU_ARCH_BLACKWELL] = "Blackwell",
	};
	return names_at(names, architecture, "unknown");
}

/* Up to 6 as in libnvidia-container (src/driver.c); newer ones as in NVIDIA's go-nvlib, with which
 * what is known of newer releases ("Nvidia") agrees. */
const char *gpu_brand_to_string(uint32_t brand)
{
	static const char *const names[] = {
	    "Unknown",	 "Quadro",	"Tesla",     "NVS",	   "GRID",	"GeForce",
	    "TITAN",	 "NvidiaVApps", "NvidiaVPC", "NvidiaVCS",  "NvidiaVWS", "NvidiaCloudGaming",
	    "QuadroRTX", "NvidiaRTX",	"Nvidia",    "GeForceRTX", "TitanRTX",
	};
	return names_at(names, brand, names[0]);
}

const char *gpu_mig_mode_to_string(uint32_t mode)
{
	static const char *const names[] = {
	    [GPU_MIG_UNSUPPORTED] = "unsupported",
	    [GPU_MIG_DISABLED] = "disabled",
	    [GPU_MIG_ENABLED] = "enabled",
	};
	return names_at(names, mode, "unknown");
}

const char *gpu_level_to_string(uint32_t level)
{
	static const char *const names[] = {
	    [GPU_LEVEL_INTERNAL] = "X",	  [GPU_LEVEL_SINGLE] = "PIX",
	    [GPU_LEVEL_MULTIPLE] = "PXB", [GPU_LEVEL_HOSTBRIDGE] = "PHB",
	    [GPU_LEVEL_NODE] = "NODE",	  [GPU_LEVEL_SYSTEM] = "SYS",
	};
	return names_at(names, level, "?");
}

bool gpu_uuid_is_simulated(const char *uuid)
{
	return text_starts_with(uuid, GPU_SIMULATED_PREFIX) ||
	       text_starts_with(uuid, MIG_SIMULATED_PREFIX);
}

const char *pci_address_to_string(const struct pci_address *address, char out[PCI_TEXT_MAX])
{
	(void)snprintf(out, PCI_TEXT_MAX, "%04x:%02x:%02x.%x", address->domain, address->bus,
		       address->device & 0x1f, address->function & 0x7);
	return out;
}

static int compare_u32(uint32_t a, uint32_t b)
{
	return (a > b) - (a < b);
}

int pci_address_compare(const struct pci_address *a, const struct pci_address *b)
{
	int order = compare_u32(a->domain, b->domain);
	if (order == 0)
		order = compare_u32(a->bus, b->bus);
	if (order == 0)
		order = compare_u32(a->device, b->device);
	return order != 0 ? order : compare_u32(a->function, b->function);
}
