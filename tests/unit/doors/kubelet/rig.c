/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/doors/kubelet/rig.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "hardware/minors.h"
#include "tests/unit/unit.h"

struct rig *rig_new(uint32_t gpus)
{
	static const char caps[] = "gpu100/gi7/access 21\n"
				   "gpu100/gi7/ci0/access 22\n"
				   "gpu100/gi8/access 31\n"
				   "gpu100/gi8/ci0/access 32\n"
				   "gpu101/gi7/access 41\n"
				   "gpu101/gi7/ci0/access 42\n";
	struct rig *rig = calloc(1, sizeof(*rig));
	assert_non_null(rig);
	rig->inventory.gpu_count = gpus;
	rig->inventory.gpus = rig->gpus;
	rig->inventory.migs = rig->migs;
	memset(rig->inventory.level, GPU_LEVEL_UNKNOWN, sizeof(rig->inventory.level));
	for (uint32_t i = 0; i < gpus; i++) {
		struct gpu *gpu = &rig->gpus[i];
		gpu->index = i;
		gpu->minor = 100 + i;
		(void)snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%c", 'a' + (int)i);
		(void)snprintf(gpu->name, sizeof(gpu->name), "NVIDIA A100-SXM4-40GB");
		gpu->has_pci = true;
		gpu->pci.bus = (uint8_t)(0x10 + i);
		gpu->numa_node = i < (gpus + 1) / 2 ? 0 : 1;
		gpu->mig_current = GPU_MIG_DISABLED;
	}
	if (minors_parse(caps, strlen(caps), &rig->minors, NULL) < 0) {
		(void)rig_free(rig);
		fail_msg("out of memory");
	}
	rig->surroundings.minors = rig->minors;
	rig->surroundings.control =
	    RESOURCE_NVIDIACTL | RESOURCE_UVM | RESOURCE_UVM_TOOLS | RESOURCE_MODESET;
	return rig;
}

struct rig *rig_free(struct rig *rig)
{
	if (rig) {
		(void)minors_free(rig->minors);
		free(rig);
	}
	return NULL;
}

void rig_add_mig(struct rig *rig, uint32_t gpu, const char *profile)
{
	assert_true(rig->inventory.mig_count < RIG_MIGS);
	struct mig_device *mig = &rig->migs[rig->inventory.mig_count];
	rig->gpus[gpu].mig_current = GPU_MIG_ENABLED;
	uint32_t index = 0;
	for (uint32_t i = 0; i < rig->inventory.mig_count; i++)
		index += rig->migs[i].parent == gpu;
	mig->parent = gpu;
	mig->index = index;
	mig->gi = 7 + index;
	(void)snprintf(mig->uuid, sizeof(mig->uuid), "MIG-%u-%u", gpu, index);
	(void)snprintf(mig->profile, sizeof(mig->profile), "%s", profile);
	rig->inventory.mig_count++;
}

int rig_try(const struct rig *rig, const char *text, const char *name,
	    struct kubelet_resource **out, struct err *err)
{
	const struct policy_surroundings surroundings = {.has_kubelet = true};
	struct config *config = NULL;
	struct policy *policy = NULL;
	int rc = config_parse(text, strlen(text), "c.yaml", NULL, true, &config, err);
	if (rc == 0)
		rc = policy_make(&rig->inventory, config, &surroundings, &policy, err);
	if (rc == 0) {
		const struct policy_resource *of = policy_find(policy, name, POLICY_DOOR_KUBELET);
		rc = of ? resource_new(&rig->inventory, policy, of, config, &rig->surroundings, out,
				       err)
			: err_set(err, -ENOENT, "no resource '%s'", name);
	}
	(void)policy_free(policy);
	(void)config_free(config);
	return rc;
}

struct kubelet_resource *rig_resource(const struct rig *rig, const char *config, const char *name)
{
	struct kubelet_resource *resource = NULL;
	struct err err = {0};
	if (rig_try(rig, config, name, &resource, &err) < 0)
		fail_msg("%s", err.text);
	return resource;
}
