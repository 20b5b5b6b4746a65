/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/kubelet/allocate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "doors/kubelet/resource.h"
#include "tests/unit/doors/kubelet/rig.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"
#include "wire/arena.h"
#include "wire/message.h"

#define GPU_NAME "nvidia.com/gpu"
#define UUID	 "01020304-0506-4708-890a-0b0c0d0e0f10"

enum test_limits { TEST_IDS = 8, TEST_CONTAINERS = 3, TEST_ARENA = 1 << 20 };

static int count_up(void *bytes, size_t size, void *context)
{
	(void)context;
	for (size_t i = 0; i < size; i++)
		((uint8_t *)bytes)[i] = (uint8_t)(i + 1);
	return 0;
}
static const struct allocate_random counting = {.fill = count_up};

/* A request from text: ids apart by blanks, containers by '|'. */
struct request {
	V1beta1__AllocateRequest message;
	V1beta1__ContainerAllocateRequest container[TEST_CONTAINERS];
	V1beta1__ContainerAllocateRequest *containers[TEST_CONTAINERS];
	char *ids[TEST_CONTAINERS][TEST_IDS];
	char text[512];
};

static void request_fill(struct request *request, const char *text)
{
	(void)snprintf(request->text, sizeof(request->text), "%s", text);
	v1beta1__allocate_request__init(&request->message);
	request->message.container_requests = request->containers;
	char *rest = request->text, *part;
	while ((part = strsep(&rest, "|"))) {
		size_t n = request->message.n_container_requests++;
		assert_true(n < TEST_CONTAINERS);
		V1beta1__ContainerAllocateRequest *container = &request->container[n];
		v1beta1__container_allocate_request__init(container);
		request->containers[n] = container;
		container->devices_ids = request->ids[n];
		char *id;
		while ((id = strsep(&part, " "))) {
			if (*id != '\0')
				container->devices_ids[container->n_devices_ids++] = id;
		}
	}
}

/* Everything in a reply, a line each; containers apart by "--". */
static const char *tell(const V1beta1__AllocateResponse *response)
{
	static char text[8192];
	struct buf buf;
	buf_init(&buf, sizeof(text) - 1);
	for (size_t c = 0; c < response->n_container_responses; c++) {
		const V1beta1__ContainerAllocateResponse *one = response->container_responses[c];
		if (c > 0)
			(void)buf_add_text(&buf, "--\n");
		for (size_t i = 0; i < one->n_envs; i++)
			(void)buf_printf(&buf, "%s=%s\n", one->envs[i]->key, one->envs[i]->value);
		for (size_t i = 0; i < one->n_mounts; i++)
			(void)buf_printf(&buf, "mount %s %s%s\n", one->mounts[i]->host_path,
					 one->mounts[i]->container_path,
					 one->mounts[i]->read_only ? " ro" : "");
		for (size_t i = 0; i < one->n_devices; i++)
			(void)buf_printf(&buf, "node %s %s %s\n", one->devices[i]->host_path,
					 one->devices[i]->container_path,
					 one->devices[i]->permissions);
		for (size_t i = 0; i < one->n_annotations; i++)
			(void)buf_printf(&buf, "@%s=%s\n", one->annotations[i]->key,
					 one->annotations[i]->value);
		for (size_t i = 0; i < one->n_cdi_devices; i++)
			(void)buf_printf(&buf, "cdi %s\n", one->cdi_devices[i]->name);
	}
	(void)snprintf(text, sizeof(text), "%s", buf_text(&buf));
	buf_done(&buf);
	return text;
}

/* Asks `resource` and compares; `expected` is the reply, or the error when `code` is not 0. */
static void expect_of(const struct kubelet_resource *resource, const char *ids, int code,
		      const char *expected)
{
	_cleanup_arena_ struct arena arena;
	arena_init(&arena, TEST_ARENA);
	struct request request = {.text = ""};
	request_fill(&request, ids);
	V1beta1__AllocateResponse response = V1BETA1__ALLOCATE_RESPONSE__INIT;
	struct err err = {0};
	int rc = allocate_answer(resource, &request.message, &counting, &arena, &response, &err);
	assert_int_equal(rc, code);
	if (rc < 0) {
		assert_string_equal(err.text, expected);
		assert_int_equal(response.n_container_responses, 0);
		return;
	}
	assert_string_equal(tell(&response), expected);
	/* It can be sent. */
	_cleanup_buf_ struct buf out;
	buf_init(&out, TEST_ARENA);
	assert_int_equal(wire_message_encode(&response.base, &out, NULL), 0);
}

static void expect(const struct rig *rig, const char *config, const char *ids, int code,
		   const char *expected)
{
	struct kubelet_resource *resource = rig_resource(rig, config, GPU_NAME);
	expect_of(resource, ids, code, expected);
	assert_null(resource_free(resource));
}

static void test_list_strategies(void **state)
{
	(void)state;
	static const struct {
		const char *strategy, *id, *expected;
	} rows[] = {
	    {"envvar", "uuid", "NVIDIA_VISIBLE_DEVICES=GPU-b,GPU-a\n"},
	    {"envvar", "index", "NVIDIA_VISIBLE_DEVICES=0,1\n"},
	    {"volume-mounts", "uuid",
	     "NVIDIA_VISIBLE_DEVICES=/var/run/nvidia-container-devices\n"
	     "mount /dev/null /var/run/nvidia-container-devices/GPU-b\n"
	     "mount /dev/null /var/run/nvidia-container-devices/GPU-a\n"},
	    {"volume-mounts", "index",
	     "NVIDIA_VISIBLE_DEVICES=/var/run/nvidia-container-devices\n"
	     "mount /dev/null /var/run/nvidia-container-devices/0\n"
	     "mount /dev/null /var/run/nvidia-container-devices/1\n"},
	    {"cdi-annotations", "uuid",
	     "@cdi.k8s.io/nvidia-device-plugin_" UUID
	     "=k8s.device-plugin.nvidia.com/gpu=GPU-b,k8s.device-plugin.nvidia.com/gpu=GPU-a\n"},
	    {"cdi-annotations", "index",
	     "@cdi.k8s.io/nvidia-device-plugin_" UUID
	     "=k8s.device-plugin.nvidia.com/gpu=0,k8s.device-plugin.nvidia.com/gpu=1\n"},
	    {"cdi-cri", "uuid",
	     "cdi k8s.device-plugin.nvidia.com/gpu=GPU-b\n"
	     "cdi k8s.device-plugin.nvidia.com/gpu=GPU-a\n"},
	    {"cdi-cri", "index",
	     "cdi k8s.device-plugin.nvidia.com/gpu=0\n"
	     "cdi k8s.device-plugin.nvidia.com/gpu=1\n"},
	    {"envvar, volume-mounts", "index",
	     "NVIDIA_VISIBLE_DEVICES=/var/run/nvidia-container-devices\n"
	     "mount /dev/null /var/run/nvidia-container-devices/0\n"
	     "mount /dev/null /var/run/nvidia-container-devices/1\n"},
	    {"envvar, cdi-annotations, cdi-cri", "index",
	     "NVIDIA_VISIBLE_DEVICES=0,1\n"
	     "@cdi.k8s.io/nvidia-device-plugin_" UUID
	     "=k8s.device-plugin.nvidia.com/gpu=0,k8s.device-plugin.nvidia.com/gpu=1\n"
	     "cdi k8s.device-plugin.nvidia.com/gpu=0\n"
	     "cdi k8s.device-plugin.nvidia.com/gpu=1\n"},
	};
	struct rig *rig = rig_new(2);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char config[256];
		(void)snprintf(config, sizeof(config),
			       "flags: {plugin: {deviceListStrategy: [%s], deviceIDStrategy: %s}}",
			       rows[i].strategy, rows[i].id);
		expect(rig, config, "GPU-b GPU-a", 0, rows[i].expected);
	}
	assert_null(rig_free(rig));
}

static void test_containers_and_duplicates(void **state)
{
	(void)state;
	struct rig *rig = rig_new(2);
	expect(rig, RIG_SHARE("{name: gpu, replicas: 3}"),
	       "GPU-b::2 GPU-a::0 GPU-b::0 GPU-b::2|GPU-b::1|", 0,
	       "NVIDIA_VISIBLE_DEVICES=GPU-b,GPU-a\n--\nNVIDIA_VISIBLE_DEVICES=GPU-b\n--\n"
	       "NVIDIA_VISIBLE_DEVICES=\n");
	/* Nothing to name, so nothing is named. */
	rig->surroundings.imex_host_path = "/x";
	expect(rig,
	       "imex: {channelIDs: [0]}\n"
	       "flags: {plugin: {deviceListStrategy: [cdi-cri, cdi-annotations]}}",
	       "", 0, "");
	assert_null(rig_free(rig));
}

/* Twelve GPUs: 10 and 11 come behind 2, and holes do not matter. */
static void test_indices_are_numbers(void **state)
{
	(void)state;
	struct rig *rig = rig_new(12);
	expect(rig, "flags: {plugin: {deviceIDStrategy: index}}", "GPU-l GPU-c GPU-k GPU-a", 0,
	       "NVIDIA_VISIBLE_DEVICES=0,2,10,11\n");
	assert_null(rig_free(rig));
}

static void test_device_nodes(void **state)
{
	(void)state;
	struct rig *rig = rig_new(2);
	expect(rig,
	       "flags: {nvidiaDevRoot: /run/nvidia/driver, plugin: {passDeviceSpecs: "
	       "true}}\n" RIG_SHARE("{name: gpu, replicas: 2}"),
	       "GPU-b::1 GPU-a::1 GPU-b::0", 0,
	       "NVIDIA_VISIBLE_DEVICES=GPU-b,GPU-a\n"
	       "node /run/nvidia/driver/dev/nvidiactl /dev/nvidiactl rw\n"
	       "node /run/nvidia/driver/dev/nvidia-uvm /dev/nvidia-uvm rw\n"
	       "node /run/nvidia/driver/dev/nvidia-uvm-tools /dev/nvidia-uvm-tools rw\n"
	       "node /run/nvidia/driver/dev/nvidia-modeset /dev/nvidia-modeset rw\n"
	       "node /run/nvidia/driver/dev/nvidia101 /dev/nvidia101 rw\n"
	       "node /run/nvidia/driver/dev/nvidia100 /dev/nvidia100 rw\n");
	rig->surroundings.control = RESOURCE_NVIDIACTL | RESOURCE_UVM;
	rig->surroundings.imex_host_path = "/i/channel0";
	expect(rig, "flags: {plugin: {passDeviceSpecs: true}}\nimex: {channelIDs: [0]}", "GPU-a", 0,
	       "NVIDIA_IMEX_CHANNELS=0\n"
	       "NVIDIA_VISIBLE_DEVICES=GPU-a\n"
	       "node /dev/nvidiactl /dev/nvidiactl rw\n"
	       "node /dev/nvidia-uvm /dev/nvidia-uvm rw\n"
	       "node /dev/nvidia100 /dev/nvidia100 rw\n"
	       "node /i/channel0 /dev/nvidia-caps-imex-channels/channel0 rw\n");
	/* With CDI alone there are none. */
	expect(rig, "flags: {plugin: {passDeviceSpecs: true, deviceListStrategy: [cdi-cri]}}",
	       "GPU-a", 0, "cdi k8s.device-plugin.nvidia.com/gpu=GPU-a\n");
	assert_null(rig_free(rig));
}

static void test_mig_devices(void **state)
{
	(void)state;
	struct rig *rig = rig_new(1);
	rig_add_mig(rig, 0, "1g.5gb");
	rig_add_mig(rig, 0, "1g.5gb");
	rig->surroundings.control = 0;
	expect(rig,
	       "flags: {migStrategy: single, plugin: {passDeviceSpecs: true, "
	       "deviceIDStrategy: index}}",
	       "MIG-0-1 MIG-0-0", 0,
	       "NVIDIA_VISIBLE_DEVICES=0:0,0:1\n"
	       "node /dev/nvidia100 /dev/nvidia100 rw\n"
	       "node /dev/nvidia-caps/nvidia-cap21 /dev/nvidia-caps/nvidia-cap21 rw\n"
	       "node /dev/nvidia-caps/nvidia-cap22 /dev/nvidia-caps/nvidia-cap22 rw\n"
	       "node /dev/nvidia-caps/nvidia-cap31 /dev/nvidia-caps/nvidia-cap31 rw\n"
	       "node /dev/nvidia-caps/nvidia-cap32 /dev/nvidia-caps/nvidia-cap32 rw\n");
	assert_null(rig_free(rig));
}

static void test_imex_and_modes(void **state)
{
	(void)state;
	struct rig *rig = rig_new(1);
	rig->inventory.simulated = true;
	rig->surroundings.imex_host_path = "/i";
	rig->surroundings.cdi = (struct resource_cdi){
	    .is_known = true,
	    .modes = RESOURCE_CDI_GDRCOPY | RESOURCE_CDI_MOFED | RESOURCE_CDI_IMEX};
	static const char all[] =
	    "imex: {channelIDs: [0]}\n"
	    "flags: {gdrcopyEnabled: true, gdsEnabled: true, mofedEnabled: true, "
	    "plugin: {cdiAnnotationPrefix: my.org/, "
	    "deviceListStrategy: [envvar, volume-mounts, cdi-annotations, cdi-cri]}}";
	/* The file for GDS holds nothing, so it is not named. */
	expect(rig, all, "GPU-a", 0,
	       "NVIDIA_GDRCOPY=enabled\n"
	       "NVIDIA_GDS=enabled\n"
	       "NVIDIA_IMEX_CHANNELS=0\n"
	       "NVIDIA_MOFED=enabled\n"
	       "NVIDIA_VISIBLE_DEVICES=/var/run/nvidia-container-devices\n"
	       "mount /dev/null /var/run/nvidia-container-devices/GPU-a\n"
	       "mount /dev/null /var/run/nvidia-container-devices/imex/0\n"
	       "@my.org/nvidia-device-plugin_" UUID
	       "=sluice.sim/gpu=GPU-a,sluice.sim/imex-channel=0,sluice.sim/gdrcopy=all,"
	       "sluice.sim/mofed=all\n"
	       "cdi sluice.sim/gpu=GPU-a\n"
	       "cdi sluice.sim/imex-channel=0\n"
	       "cdi sluice.sim/gdrcopy=all\n"
	       "cdi sluice.sim/mofed=all\n");
	expect(rig, "flags: {gdsEnabled: true, plugin: {deviceListStrategy: cdi-cri}}", "GPU-a", 0,
	       "NVIDIA_GDS=enabled\ncdi sluice.sim/gpu=GPU-a\n");
	assert_null(rig_free(rig));
}

/* No runtime reads the variable: CDI goes along, the device nodes stay. */
static void test_cdi_beside_the_variable(void **state)
{
	(void)state;
	struct rig *rig = rig_new(1);
	rig->surroundings.also_cdi = true;
	rig->surroundings.control = 0;
	struct kubelet_resource *resource =
	    rig_resource(rig, "flags: {plugin: {passDeviceSpecs: true}}", GPU_NAME);
	static const char with_cdi[] =
	    "NVIDIA_VISIBLE_DEVICES=GPU-a\n"
	    "node /dev/nvidia100 /dev/nvidia100 rw\n"
	    "@cdi.k8s.io/nvidia-device-plugin_" UUID "=k8s.device-plugin.nvidia.com/gpu=GPU-a\n"
	    "cdi k8s.device-plugin.nvidia.com/gpu=GPU-a\n";
	expect_of(resource, "GPU-a", 0, with_cdi);
	resource->settings.also_cdi = false;
	resource->settings.alloc_env = true;
	expect_of(resource, "GPU-a", 0,
		  "NVIDIA_VISIBLE_DEVICES=GPU-a\nSLUICE_ALLOC=" UUID "\n"
		  "node /dev/nvidia100 /dev/nvidia100 rw\n");
	assert_null(resource_free(resource));
	assert_null(rig_free(rig));
}

/* Neither CDI nor a runtime of NVIDIA's: the kubelet passes the nodes, by whichever strategy. */
static void test_nodes_where_nobody_injects(void **state)
{
	(void)state;
	struct rig *rig = rig_new(1);
	rig->surroundings.also_nodes = true;
	rig->surroundings.control = RESOURCE_NVIDIACTL;
	struct kubelet_resource *resource = rig_resource(rig, "", GPU_NAME);
	expect_of(resource, "GPU-a", 0,
		  "NVIDIA_VISIBLE_DEVICES=GPU-a\n"
		  "node /dev/nvidiactl /dev/nvidiactl rw\n"
		  "node /dev/nvidia100 /dev/nvidia100 rw\n");
	expect_of(resource, "", 0, "NVIDIA_VISIBLE_DEVICES=\n"); /* and no node */
	assert_null(resource_free(resource));

	resource = rig_resource(rig, "flags: {plugin: {deviceListStrategy: cdi-cri}}", GPU_NAME);
	expect_of(resource, "GPU-a", 0,
		  "node /dev/nvidiactl /dev/nvidiactl rw\n"
		  "node /dev/nvidia100 /dev/nvidia100 rw\n"
		  "cdi k8s.device-plugin.nvidia.com/gpu=GPU-a\n");
	assert_null(resource_free(resource));

	/* As NVIDIA's plugin would reply. */
	expect(rig, "sluice: {doors: {kubelet: {inject: peer}}}", "GPU-a", 0,
	       "NVIDIA_VISIBLE_DEVICES=GPU-a\n");
	assert_null(rig_free(rig));
}

static void test_refused(void **state)
{
	(void)state;
	static const char one_each[] =
	    "sharing: {timeSlicing: {failRequestsGreaterThanOne: true, resources: "
	    "[{name: gpu, replicas: 2, devices: [0]}]}}";
	static const char strict[] =
	    "flags: {plugin: {sharedDevicesAllocationPolicy: spread-strict}}\n" RIG_SHARE(
		"{name: gpu, replicas: 2}");
#define REFUSED "invalid allocation request for \"nvidia.com/gpu\": invalid request: "
	static const struct {
		const char *config, *ids, *error;
	} rows[] = {
	    {"", "GPU-x", REFUSED "unknown device: GPU-x"},
	    {"", "GPU-a|GPU-a::0", REFUSED "unknown device: GPU-a::0"},
	    {"", "GPU-a|GPU-b GPU-", REFUSED "unknown device: GPU-"},
	    {one_each, "GPU-a::0 GPU-b",
	     REFUSED "maximum request size for shared resources is 1; found 2"},
	    {one_each, "GPU-b|GPU-a::0 GPU-a::1",
	     REFUSED "maximum request size for shared resources is 1; found 2"},
	    {one_each, "GPU-a::0 GPU-a::1 GPU-y", REFUSED "unknown device: GPU-y"},
	    {strict, "GPU-a::0 GPU-a::1",
	     REFUSED "two slots on one physical GPU refused by policy spread-strict"},
	};
	struct rig *rig = rig_new(3);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		expect(rig, rows[i].config, rows[i].ids, -EINVAL, rows[i].error);
	/* What is only like it. */
	expect(rig, one_each, "GPU-b GPU-c", 0, "NVIDIA_VISIBLE_DEVICES=GPU-b,GPU-c\n");
	expect(rig, one_each, "GPU-a::1", 0, "NVIDIA_VISIBLE_DEVICES=GPU-a\n");
	expect(rig, strict, "GPU-a::0 GPU-b::0|GPU-a::1", 0,
	       "NVIDIA_VISIBLE_DEVICES=GPU-a,GPU-b\n--\nNVIDIA_VISIBLE_DEVICES=GPU-a\n");
	expect(rig, strict, "GPU-a::0 GPU-a::0", 0, "NVIDIA_VISIBLE_DEVICES=GPU-a\n");
	/* An unhealthy device is the kubelet's decision. */
	rig->gpus[0].state = GPU_STATE_LOST;
	expect(rig, "", "GPU-a", 0, "NVIDIA_VISIBLE_DEVICES=GPU-a\n");
	assert_null(rig_free(rig));

	assert_int_equal(allocate_status(-EINVAL), WIRE_UNKNOWN);
	assert_int_equal(allocate_status(0), WIRE_OK);
	assert_int_equal(allocate_status(-ENOMEM), WIRE_RESOURCE_EXHAUSTED);
}

static int no_random(void *bytes, size_t size, void *context)
{
	(void)bytes;
	(void)size;
	(void)context;
	return -EIO;
}

static void test_random_ids(void **state)
{
	(void)state;
	struct rig *rig = rig_new(1);
	struct kubelet_resource *resource =
	    rig_resource(rig, "flags: {plugin: {deviceListStrategy: cdi-annotations}}", GPU_NAME);
	char keys[2][128];
	for (int i = 0; i < 2; i++) {
		_cleanup_arena_ struct arena arena;
		arena_init(&arena, TEST_ARENA);
		struct request request = {.text = ""};
		request_fill(&request, "GPU-a");
		V1beta1__AllocateResponse response;
		assert_int_equal(
		    allocate_answer(resource, &request.message, NULL, &arena, &response, NULL), 0);
		(void)snprintf(keys[i], sizeof(keys[i]), "%s",
			       response.container_responses[0]->annotations[0]->key);
		const struct allocate_random none = {.fill = no_random};
		struct err err = {0};
		assert_int_equal(
		    allocate_answer(resource, &request.message, &none, &arena, &response, &err),
		    -EIO);
		assert_string_equal(err.text,
				    "nvidia.com/gpu: no random bytes for the id of an allocation");
	}
	assert_int_equal(strlen(keys[0]), strlen("cdi.k8s.io/nvidia-device-plugin_") + 36);
	assert_string_not_equal(keys[0], keys[1]);
	assert_null(resource_free(resource));
	assert_null(rig_free(rig));
}

/*
 * The same bytes as protoc makes of the kubelet's own field numbers, with map<string,string> where
 * proto/deviceplugin.proto has a message of key and value.
 */
static void test_bytes_on_the_wire(void **state)
{
	(void)state;
	static const char expected[] =
	    "0afd010a3b0a164e56494449415f56495349424c455f4445564943455312212f7661722f7275"
	    "6e2f6e76696469612d636f6e7461696e65722d6465766963657312340a272f7661722f72756e"
	    "2f6e76696469612d636f6e7461696e65722d646576696365732f4750552d6112092f6465762f"
	    "6e756c6c1a240a0e2f6465762f6e7669646961313030120e2f6465762f6e7669646961313030"
	    "1a02727722530a446364692e6b38732e696f2f6e76696469612d6465766963652d706c756769"
	    "6e5f30313032303330342d303530362d343730382d383930612d306230633064306530663130"
	    "120b762f6770753d4750552d612a0d0a0b762f6770753d4750552d61";
	struct rig *rig = rig_new(1);
	rig->surroundings.control = 0;
	struct kubelet_resource *resource =
	    rig_resource(rig,
			 "flags: {plugin: {passDeviceSpecs: true, deviceListStrategy: "
			 "[volume-mounts, cdi-annotations, cdi-cri]}}",
			 GPU_NAME);
	(void)snprintf(resource->settings.cdi_vendor, 2, "v");
	_cleanup_arena_ struct arena arena;
	arena_init(&arena, TEST_ARENA);
	/* container_requests { devices_ids: "GPU-a" } */
	static const uint8_t bytes[] = {0x0a, 7, 0x0a, 5, 'G', 'P', 'U', '-', 'a'};
	ProtobufCMessage *request = NULL;
	assert_int_equal(wire_message_decode(&v1beta1__allocate_request__descriptor, bytes,
					     sizeof(bytes), &arena, &request, NULL),
			 0);
	V1beta1__AllocateResponse response;
	assert_int_equal(allocate_answer(resource, (const V1beta1__AllocateRequest *)request,
					 &counting, &arena, &response, NULL),
			 0);
	_cleanup_buf_ struct buf out;
	buf_init(&out, TEST_ARENA);
	assert_int_equal(wire_message_encode(&response.base, &out, NULL), 0);
	assert_int_equal(out.length - WIRE_FRAME_HEADER, strlen(expected) / 2);
	for (size_t i = WIRE_FRAME_HEADER; i < out.length; i++) {
		char hex[3];
		(void)snprintf(hex, sizeof(hex), "%02x", (unsigned)(uint8_t)out.data[i]);
		assert_memory_equal(hex, &expected[2 * (i - WIRE_FRAME_HEADER)], 2);
	}
	assert_null(resource_free(resource));
	assert_null(rig_free(rig));
}

struct scenario {
	struct kubelet_resource *resource;
	size_t arena_max;
};

static int scenario(void *context)
{
	const struct scenario *how = context;
	_cleanup_arena_ struct arena arena;
	arena_init(&arena, how->arena_max);
	struct request request = {.text = ""};
	request_fill(&request, "GPU-a GPU-b|GPU-b");
	V1beta1__AllocateResponse response;
	return allocate_answer(how->resource, &request.message, &counting, &arena, &response, NULL);
}

/* Whatever is missing, the call fails as a whole and nothing is written where there is no room. */
static void test_out_of_memory(void **state)
{
	(void)state;
	struct rig *rig = rig_new(2);
	rig->surroundings.imex_host_path = "/i";
	struct scenario how = {.arena_max = TEST_ARENA};
	how.resource = rig_resource(rig,
				    "imex: {channelIDs: [0]}\nflags: {gdsEnabled: true, plugin: "
				    "{passDeviceSpecs: true, deviceListStrategy: [envvar, "
				    "volume-mounts, cdi-annotations, cdi-cri]}}",
				    GPU_NAME);
	assert_true(failmalloc_each(scenario, &how) > 0);
	int rc = -ENOMEM;
	for (how.arena_max = 0; rc == -ENOMEM && how.arena_max < TEST_ARENA; how.arena_max += 16)
		rc = scenario(&how);
	assert_int_equal(rc, 0);
	assert_true(how.arena_max > 1024);
	assert_null(resource_free(how.resource));
	assert_null(rig_free(rig));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_list_strategies),
	    cmocka_unit_test(test_containers_and_duplicates),
	    cmocka_unit_test(test_indices_are_numbers),
	    cmocka_unit_test(test_device_nodes),
	    cmocka_unit_test(test_mig_devices),
	    cmocka_unit_test(test_imex_and_modes),
	    cmocka_unit_test(test_cdi_beside_the_variable),
	    cmocka_unit_test(test_nodes_where_nobody_injects),
	    cmocka_unit_test(test_refused),
	    cmocka_unit_test(test_random_ids),
	    cmocka_unit_test(test_bytes_on_the_wire),
	    cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
