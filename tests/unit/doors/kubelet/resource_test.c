/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/kubelet/resource.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "tests/unit/doors/kubelet/rig.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

/* "ID=INDEX PATH,PATH" of each device, and "!REASON" of an unhealthy one. */
static const char *tell(const struct kubelet_resource *resource)
{
	static char text[4096];
	size_t length = 0;
	text[0] = '\0';
	for (uint32_t i = 0; i < resource->device_count; i++) {
		const struct kubelet_device *device = &resource->devices[i];
		const struct kubelet_hardware *hardware = device->hardware;
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%s=%s",
					   i ? "; " : "", device->id, hardware->index);
		for (uint32_t p = 0; p < hardware->path_count; p++)
			length += (size_t)snprintf(text + length, sizeof(text) - length, "%c%s",
						   p ? ',' : ' ', hardware->path[p]);
		if (!hardware->healthy)
			length += (size_t)snprintf(text + length, sizeof(text) - length, "!%s",
						   hardware->reason);
		assert_ptr_equal(resource_find(resource, device->id), device);
	}
	return text;
}

static void test_whole_gpus(void **state)
{
	(void)state;
	struct rig *rig = rig_new(2);
	struct kubelet_resource *resource = rig_resource(rig, "", "nvidia.com/gpu");
	assert_string_equal(resource->name, "nvidia.com/gpu");
	assert_string_equal(tell(resource), "GPU-a=0 /dev/nvidia100; GPU-b=1 /dev/nvidia101");
	assert_false(resource->shared || resource->partial || resource->one_each);
	assert_int_equal(resource->devices[0].hardware->numa, 0);
	assert_int_equal(resource->devices[1].hardware->numa, 1);
	assert_int_equal(resource->devices[1].hardware->mig, POLICY_WHOLE_GPU);
	assert_int_equal(resource->settings.list_strategy, CONFIG_LIST_ENVVAR);
	assert_string_equal(resource->settings.cdi_vendor, "k8s.device-plugin.nvidia.com");
	assert_string_equal(resource->settings.cdi_annotation_prefix, "cdi.k8s.io/");
	assert_string_equal(resource->settings.dev_root, "");
	assert_null(resource_find(resource, ""));
	assert_null(resource_find(resource, "GPU-"));
	assert_null(resource_find(resource, "GPU-b::0"));
	assert_null(resource_free(resource));
	assert_null(rig_free(rig));
}

/* NVML's numbers decide, not the places in the inventory. */
static void test_order_of_indices(void **state)
{
	(void)state;
	struct rig *rig = rig_new(3);
	rig->gpus[0].index = 11;
	rig->gpus[1].index = 2;
	rig->gpus[2].index = 10;
	struct kubelet_resource *resource = rig_resource(
	    rig, RIG_SHARE("{name: gpu, replicas: 11, devices: [2]}"), "nvidia.com/gpu");
	const char *text = tell(resource);
	assert_memory_equal(text, "GPU-b::0=2 ", 11);
	assert_non_null(strstr(text, "GPU-b::9=2 /dev/nvidia101; GPU-b::10=2 /dev/nvidia101; "
				     "GPU-c=10 /dev/nvidia102; GPU-a=11 /dev/nvidia100"));
	assert_int_equal(resource->hardware_count, 3);
	assert_int_equal(resource->device_count, 13);
	assert_int_equal(resource->per_gpu[0], 1);
	assert_int_equal(resource->per_gpu[1], 11);
	assert_true(resource->shared && resource->partial);
	assert_null(resource_free(resource));
	assert_null(rig_free(rig));
}

static void test_mig_devices(void **state)
{
	(void)state;
	struct rig *rig = rig_new(2);
	rig_add_mig(rig, 0, "1g.5gb");
	rig_add_mig(rig, 0, "1g.5gb");
	rig_add_mig(rig, 0, "1g.5gb");
	struct kubelet_resource *resource =
	    rig_resource(rig, "flags: {migStrategy: mixed}", "nvidia.com/mig-1g.5gb");
	/* The third has no line in the driver's file: it alone is unhealthy. */
	assert_string_equal(
	    tell(resource),
	    "MIG-0-0=0:0 /dev/nvidia100,/dev/nvidia-caps/nvidia-cap21,/dev/nvidia-caps/"
	    "nvidia-cap22; "
	    "MIG-0-1=0:1 /dev/nvidia100,/dev/nvidia-caps/nvidia-cap31,/dev/nvidia-caps/"
	    "nvidia-cap32; "
	    "MIG-0-2=0:2 /dev/nvidia100!its capability is not in "
	    "/proc/driver/nvidia-caps/mig-minors");
	assert_true(resource->partial);
	assert_false(resource->shared);
	assert_null(resource_free(resource));

	/* What concerns one instance concerns only that. */
	static const char *const of_instances[] = {"", "XID 94", NULL};
	rig->surroundings.mig_unhealthy = of_instances;
	resource = rig_resource(rig, "flags: {migStrategy: mixed}", "nvidia.com/mig-1g.5gb");
	assert_true(resource->devices[0].hardware->healthy);
	assert_false(resource->devices[1].hardware->healthy);
	assert_string_equal(resource->devices[1].hardware->reason, "XID 94");
	assert_null(resource_free(resource));

	/* A GPU that is handed out whole is as well as all its instances. */
	resource = rig_resource(rig, "flags: {migStrategy: none}", "nvidia.com/gpu");
	assert_string_equal(tell(resource),
			    "GPU-a=0 /dev/nvidia100!XID 94; GPU-b=1 /dev/nvidia101");
	assert_null(resource_free(resource));
	assert_null(rig_free(rig));
}

static void test_health(void **state)
{
	(void)state;
	struct rig *rig = rig_new(4);
	const char *unhealthy[4] = {NULL, "", "XID 79", "XID 48"};
	rig->gpus[1].minor = GPU_U32_UNKNOWN;
	rig->gpus[2].state = GPU_STATE_LOST;
	(void)snprintf(rig->gpus[2].reason, GPU_REASON_MAX, "fell off the bus");
	rig->surroundings.unhealthy = unhealthy;
	struct kubelet_resource *resource = rig_resource(
	    rig, RIG_SHARE("{name: gpu, replicas: 2, devices: [3]}"), "nvidia.com/gpu");
	assert_string_equal(tell(resource),
			    "GPU-a=0 /dev/nvidia100; "
			    "GPU-b=1!the number of its node in /dev is not known; "
			    "GPU-c=2 /dev/nvidia102!fell off the bus; "
			    "GPU-d::0=3 /dev/nvidia103!XID 48; GPU-d::1=3 /dev/nvidia103!XID 48");
	assert_null(resource_free(resource));
	assert_null(rig_free(rig));
}

static void test_settings(void **state)
{
	(void)state;
	struct rig *rig = rig_new(1);
	rig->inventory.simulated = true;
	rig->surroundings.imex_host_path = "/run/x/channel0";
	static const char config[] =
	    "flags: {nvidiaDriverRoot: /run/driver, nvidiaDevRoot: /run/dev//, gdsEnabled: true, "
	    "plugin: {deviceListStrategy: [volume-mounts, cdi-cri], deviceIDStrategy: index, "
	    "passDeviceSpecs: true, cdiAnnotationPrefix: x/, "
	    "sharedDevicesAllocationPolicy: spread-strict}}\n";
	struct kubelet_resource *resource = rig_resource(rig, config, "nvidia.com/gpu");
	const struct kubelet_settings *settings = &resource->settings;
	assert_int_equal(settings->list_strategy, CONFIG_LIST_VOLUME_MOUNTS | CONFIG_LIST_CDI_CRI);
	assert_true(settings->index_ids && settings->pass_device_specs && settings->gds);
	assert_false(settings->gdrcopy || settings->mofed || settings->also_cdi ||
		     settings->also_nodes);
	assert_int_equal(settings->policy, CONFIG_SPREAD_STRICT);
	assert_string_equal(settings->dev_root, "/run/dev");
	assert_string_equal(settings->cdi_vendor, "sluice.sim");
	assert_string_equal(settings->cdi_annotation_prefix, "x/");
	assert_string_equal(settings->imex_host_path, ""); /* not asked for */
	assert_null(resource_free(resource));

	rig->surroundings.also_cdi = rig->surroundings.also_nodes = true;
	resource = rig_resource(rig,
				"sluice: {cdi: {vendor: example.com}, allocEnv: true, doors: "
				"{kubelet: {inject: peer}}}",
				"nvidia.com/gpu");
	assert_string_equal(resource->settings.cdi_vendor, "example.com");
	assert_true(resource->settings.alloc_env);
	assert_false(resource->settings.also_cdi ||
		     resource->settings.also_nodes); /* as NVIDIA's plugin would reply */
	assert_null(resource_free(resource));

	resource =
	    rig_resource(rig, "flags: {nvidiaDriverRoot: /run/driver}\nimex: {channelIDs: [0]}",
			 "nvidia.com/gpu");
	assert_true(resource->settings.also_cdi && resource->settings.also_nodes);
	assert_false(resource->settings.alloc_env);
	assert_string_equal(resource->settings.dev_root, "/run/driver");
	assert_string_equal(resource->settings.imex_host_path, "/run/x/channel0");
	assert_null(resource_free(resource));
	assert_null(rig_free(rig));
}

static void test_ids_that_the_kubelet_refuses(void **state)
{
	(void)state;
	struct rig *rig = rig_new(2);
	struct kubelet_resource *resource = NULL;
	struct err err = {0};
	memset(rig->gpus[0].uuid, 'x', 63);
	resource = rig_resource(rig, "", "nvidia.com/gpu");
	assert_null(resource_free(resource));
	rig->gpus[0].uuid[63] = 'x';
	assert_int_equal(rig_try(rig, "", "nvidia.com/gpu", &resource, &err), -EINVAL);
	assert_non_null(strstr(err.text, "has 64 characters; the kubelet takes 1 to 63"));
	(void)snprintf(rig->gpus[0].uuid, GPU_UUID_MAX, "GPU-b");
	assert_int_equal(rig_try(rig, "", "nvidia.com/gpu", &resource, &err), -EINVAL);
	assert_string_equal(err.text, "nvidia.com/gpu: the device id 'GPU-b' is there twice");
	assert_null(rig_free(rig));
}

static void test_what_is_the_same(void **state)
{
	(void)state;
	struct rig *rig = rig_new(2);
	struct kubelet_resource *a = rig_resource(rig, "", "nvidia.com/gpu");
	struct kubelet_resource *b = rig_resource(rig, "", "nvidia.com/gpu");
	assert_true(resource_is_same(a, b));
	b->settings.gds = true;
	assert_false(resource_is_same(a, b));
	assert_true(resource_list_is_same(a, b));
	b->settings.gds = false;
	b->hardware[1].path[0][5] = 'x';
	assert_false(resource_is_same(a, b));
	assert_true(resource_list_is_same(a, b));
	b->hardware[1].numa = 5;
	assert_false(resource_list_is_same(a, b));
	b->hardware[1].numa = a->hardware[1].numa;
	b->hardware[0].healthy = false;
	assert_false(resource_list_is_same(a, b));
	b->device_count = 1;
	assert_false(resource_list_is_same(a, b));
	assert_null(resource_free(a));
	assert_null(resource_free(b));
	assert_null(rig_free(rig));
}

static void test_control_paths(void **state)
{
	(void)state;
	assert_string_equal(resource_control_path(RESOURCE_NVIDIACTL), "/dev/nvidiactl");
	assert_string_equal(resource_control_path(RESOURCE_MODESET), "/dev/nvidia-modeset");
	assert_null(resource_control_path((enum resource_control)16));
}

static int scenario(void *context)
{
	struct kubelet_resource *resource = NULL;
	int rc = rig_try(context, RIG_SHARE("{name: gpu, replicas: 3}"), "nvidia.com/gpu",
			 &resource, NULL);
	(void)resource_free(resource);
	return rc;
}

static void test_out_of_memory(void **state)
{
	(void)state;
	struct rig *rig = rig_new(2);
	assert_true(failmalloc_each(scenario, rig) > 8);
	assert_null(rig_free(rig));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_whole_gpus),
	    cmocka_unit_test(test_order_of_indices),
	    cmocka_unit_test(test_mig_devices),
	    cmocka_unit_test(test_health),
	    cmocka_unit_test(test_settings),
	    cmocka_unit_test(test_ids_that_the_kubelet_refuses),
	    cmocka_unit_test(test_what_is_the_same),
	    cmocka_unit_test(test_control_paths),
	    cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
