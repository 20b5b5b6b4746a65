/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/devices.h"

#include <stdlib.h>
#include <string.h>

#include "doors/kubelet/resource.h"
#include "units/allocator.h"

static const char *const configs[] = {
    "flags: {plugin: {deviceIDStrategy: index}}",
    "flags: {gdsEnabled: true, plugin: {passDeviceSpecs: true, deviceListStrategy: [envvar, "
    "volume-mounts, cdi-annotations, cdi-cri]}}\nimex: {channelIDs: [0]}",
    "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 3}]}}",
    "flags: {plugin: {sharedDevicesAllocationPolicy: packed}}\n"
    "sharing: {timeSlicing: {failRequestsGreaterThanOne: true, resources: [{name: gpu, replicas: "
    "2, devices: [0, 2]}]}}",
    "flags: {plugin: {sharedDevicesAllocationPolicy: spread-strict}}\n"
    "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 5}]}}",
};

struct kubelet_resource *devices_make(uint8_t configuration, uint8_t unhealthy)
{
	static const struct resource_surroundings here = {
	    .control = 15, .cdi = {.is_known = true, .modes = 15}, .imex_host_path = "/i"};
	static const struct policy_surroundings surroundings = {.has_kubelet = true};
	const char *text = configs[configuration % (sizeof(configs) / sizeof(configs[0]))];
	struct gpu gpus[DEVICES_GPUS];
	struct inventory inventory = {.gpu_count = DEVICES_GPUS, .gpus = gpus};
	memset(gpus, 0, sizeof(gpus));
	for (uint32_t i = 0; i < DEVICES_GPUS; i++) {
		gpus[i].index = i;
		gpus[i].minor = i;
		gpus[i].mig_current = GPU_MIG_DISABLED;
		gpus[i].uuid[0] = (char)('a' + i);
		gpus[i].state = unhealthy >> i & 1 ? GPU_STATE_LOST : GPU_STATE_OK;
	}
	struct config *config = NULL;
	struct policy *policy = NULL;
	struct kubelet_resource *resource = NULL;
	if (config_parse(text, strlen(text), "c", NULL, true, &config, NULL) < 0 ||
	    policy_make(&inventory, config, &surroundings, &policy, NULL) < 0 ||
	    resource_new(&inventory, policy, &policy->resources[0], config, &here, &resource,
			 NULL) < 0)
		abort();
	(void)policy_free(policy);
	(void)config_free(config);
	return resource;
}

struct allocator *devices_allocator(void)
{
	struct allocator *allocator = NULL;
	struct allocator_topology *shape = calloc(1, sizeof(*shape));
	if (!shape)
		abort();
	shape->gpu_count = DEVICES_GPUS;
	if (allocator_new(shape, &allocator, NULL) < 0)
		abort();
	free(shape);
	return allocator;
}
