/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/labels/labels.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/domain.h"
#include "base/err.h"
#include "doors/labels/label.h"
#include "policy/config.h"
#include "policy/policy.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

enum test_limits {
	TEST_GPUS = 16,
	TEST_MIGS = 112,
	MIB = 1 << 20,
};

/* A node that a test fills. */
struct node {
	struct inventory inventory;
	struct gpu gpus[TEST_GPUS];
	struct mig_device migs[TEST_MIGS];
	struct labels_facts facts;
	const char *config;
	struct label_set set;
};

static void node_model(struct node *node, uint32_t gpu, const char *name, uint32_t cc, uint64_t mib)
{
	(void)snprintf(node->gpus[gpu].name, GPU_NAME_MAX, "%s", name);
	node->gpus[gpu].cc_major = cc / 10;
	node->gpus[gpu].cc_minor = cc % 10;
	node->gpus[gpu].memory_bytes = mib * MIB;
}

static struct node *node_new(uint32_t gpus)
{
	struct node *node = calloc(1, sizeof(*node));
	assert_non_null(node);
	label_set_init(&node->set);
	node->config = "";
	node->inventory.gpu_count = gpus;
	node->inventory.gpus = node->gpus;
	node->inventory.migs = node->migs;
	node->inventory.cuda_version = 13000;
	(void)snprintf(node->inventory.driver_version, GPU_VERSION_MAX, "580.105.08");
	for (uint32_t i = 0; i < gpus; i++) {
		node->gpus[i].index = i;
		(void)snprintf(node->gpus[i].uuid, GPU_UUID_MAX, "GPU-%c", 'a' + (int)i);
		node_model(node, i, "NVIDIA A100-SXM4-40GB", 80, 40960);
		node->gpus[i].mig_current = GPU_MIG_DISABLED;
		node->facts.class_[i] = 0x030200;
	}
	memcpy(node->facts.machine, "NVIDIA DGX-2H\n", 14);
	node->facts.machine_length = 14;
	node->facts.has_machine = true;
	node->facts.vgpu_presence = VGPU_NONE;
	return node;
}

static struct node *node_free(struct node *node)
{
	label_set_done(&node->set);
	free(node);
	return NULL;
}

static struct mig_device *node_mig(struct node *node, uint32_t gpu, const char *profile,
				   uint32_t count)
{
	struct mig_device *mig = NULL;
	node->gpus[gpu].mig_current = GPU_MIG_ENABLED;
	for (uint32_t i = 0; i < count; i++) {
		mig = &node->migs[node->inventory.mig_count++];
		*mig = (struct mig_device){.parent = gpu,
					   .index = i,
					   .memory_bytes = UINT64_C(4864) * MIB,
					   .sm_count = 14,
					   .gi_slices = 1,
					   .ci_slices = 1,
					   .copy_engines = 1};
		(void)snprintf(mig->profile, sizeof(mig->profile), "%s", profile);
		(void)snprintf(mig->uuid, sizeof(mig->uuid), "MIG-%u-%u", gpu,
			       node->inventory.mig_count);
	}
	return mig;
}

static int try_make(struct node *node)
{
	struct config *config = NULL;
	struct policy *policy = NULL;
	struct err err = {0};
	const struct policy_surroundings surroundings = {.has_kubelet = true};
	int rc =
	    config_parse(node->config, strlen(node->config), "c.yaml", NULL, true, &config, &err);
	if (rc == 0)
		rc = policy_make(&node->inventory, config, &surroundings, &policy, &err);
	if (rc == 0)
		rc = labels_make(&node->inventory, config, &surroundings, policy, &node->facts,
				 &node->set, &err);
	(void)policy_free(policy);
	(void)config_free(config);
	if (rc < 0 && rc != -ENOMEM)
		fail_msg("%s", err.text);
	return rc;
}

static void make(struct node *node)
{
	assert_int_equal(try_make(node), 0);
	for (size_t i = 0; i < node->set.count; i++) {
		assert_true(label_key_is_valid(node->set.items[i].key));
		assert_true(label_value_is_valid(node->set.items[i].value));
		assert_true(i == 0 ||
			    strcmp(node->set.items[i - 1].key, node->set.items[i].key) < 0);
	}
}

/* The value below nvidia.com/, "-" when there is no such label. */
static const char *get(const struct node *node, const char *name)
{
	char key[LABEL_KEY_SIZE];
	(void)snprintf(key, sizeof(key), "%s%s", strchr(name, '/') ? "" : "nvidia.com/", name);
	const char *value = label_set_get(&node->set, key);
	return value ? value : "-";
}

struct expected {
	const char *name, *value;
};

static void expect_all(const struct node *node, const struct expected *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(get(node, rows[i].name), rows[i].value) != 0)
			fail_msg("%s is '%s', not '%s'", rows[i].name, get(node, rows[i].name),
				 rows[i].value);
	}
}

#define EXPECT(node, ...)                                                                          \
	do {                                                                                       \
		const struct expected rows_[] = {__VA_ARGS__};                                     \
		expect_all((node), rows_, array_length(rows_));                                    \
	} while (0)

static void test_the_example_of_the_peer(void **state)
{
	(void)state;
	/* docs/gpu-feature-discovery/README.md of k8s-device-plugin, "Verifying". */
	struct node *node = node_new(1);
	(void)snprintf(node->inventory.driver_version, GPU_VERSION_MAX, "455.06");
	node->inventory.cuda_version = 11010;
	node->facts.start_s = 1594644571;
	node_model(node, 0, "A100-SXM4-40GB", 80, 39538);
	make(node);
	EXPECT(node, {"cuda.driver.major", "455"}, {"cuda.driver.minor", "06"},
	       {"cuda.driver.rev", ""}, {"cuda.driver-version.revision", ""},
	       {"cuda.driver-version.full", "455.06"}, {"cuda.runtime.major", "11"},
	       {"cuda.runtime.minor", "1"}, {"cuda.runtime-version.full", "11.1"},
	       {"gpu.compute.major", "8"}, {"gpu.compute.minor", "0"},
	       {"gfd.timestamp", "1594644571"}, {"gpu.count", "1"}, {"gpu.family", "ampere"},
	       {"gpu.machine", "NVIDIA-DGX-2H"}, {"gpu.memory", "39538"},
	       {"gpu.product", "A100-SXM4-40GB"}, {"gpu.replicas", "1"},
	       {"gpu.sharing-strategy", "none"}, {"gpu.mode", "compute"}, {"mig.capable", "true"},
	       {"mps.capable", "false"}, {"vgpu.present", "false"}, {"mig.strategy", "-"},
	       {"gpu.clique", "-"}, {"gpu.present", "-"});
	assert_int_equal(node->set.count, 26);
	assert_null(node_free(node));
}

static void test_the_mig_example_of_the_peer(void **state)
{
	(void)state;
	/* The same page, "MIG 'single' strategy": 8 GPUs, 56 MIG devices. */
	struct node *node = node_new(8);
	for (uint32_t i = 0; i < 8; i++) {
		node_model(node, i, "A100-SXM4-40GB", 80, 40536);
		(void)node_mig(node, i, "1g.5gb", 7);
	}
	for (uint32_t i = 0; i < 56; i++) {
		node->migs[i].memory_bytes = UINT64_C(5120) * MIB;
		node->migs[i].decoders = node->migs[i].encoders = 1;
	}
	node->config = "flags: {migStrategy: single}";
	make(node);
	EXPECT(node, {"mig.strategy", "single"}, {"gpu.product", "A100-SXM4-40GB-MIG-1g.5gb"},
	       {"gpu.count", "56"}, {"gpu.memory", "5120"}, {"gpu.multiprocessors", "14"},
	       {"gpu.slices.gi", "1"}, {"gpu.slices.ci", "1"}, {"gpu.engines.copy", "1"},
	       {"gpu.engines.decoder", "1"}, {"gpu.engines.encoder", "1"},
	       {"gpu.engines.jpeg", "0"}, {"gpu.engines.ofa", "0"}, {"gpu.family", "ampere"},
	       {"gpu.replicas", "1"}, {"gpu.sharing-strategy", "none"}, {"gpu.mode", "compute"});
	assert_int_equal(node->set.warning_count, 0);
	/* Shared: under its own name, and renamed. */
	node->config = "flags: {migStrategy: single}\n"
		       "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 3}]}}";
	make(node);
	EXPECT(node, {"gpu.product", "A100-SXM4-40GB-MIG-1g.5gb-SHARED"}, {"gpu.replicas", "3"},
	       {"gpu.sharing-strategy", "time-slicing"}, {"gpu.count", "56"});
	assert_null(node_free(node));
}

static void test_versions(void **state)
{
	(void)state;
	struct node *node = node_new(1);
	static const struct {
		const char *version, *major, *minor, *rev, *full;
	} rows[] = {
	    {"580", "580", "-", "-", "580"},
	    {"525.60", "525", "60", "", "525.60"},
	    {"525.60.12", "525", "60", "12", "525.60.12"},
	    {"1.2.3.4", "1", "2", "3", "1.2.3.4"},
	    {"1.2.3.4.5", "1", "2", "3", "1.2.3.4.5"},
	    {"580.x y.1", "580", "-", "1", "-"},
	    {"", "-", "-", "-", "-"},
	};
	for (size_t i = 0; i < array_length(rows); i++) {
		(void)snprintf(node->inventory.driver_version, GPU_VERSION_MAX, "%s",
			       rows[i].version);
		make(node);
		EXPECT(node, {"cuda.driver.major", rows[i].major},
		       {"cuda.driver.minor", rows[i].minor}, {"cuda.driver.rev", rows[i].rev},
		       {"cuda.driver-version.revision", rows[i].rev},
		       {"cuda.driver-version.full", rows[i].full}, {"gpu.count", "1"});
	}
	node->inventory.cuda_version = 0;
	make(node);
	EXPECT(node, {"cuda.runtime.major", "-"}, {"cuda.runtime-version.full", "-"});
	node->inventory.cuda_version = 12090;
	make(node);
	EXPECT(node, {"cuda.runtime.minor", "9"}, {"cuda.runtime-version.full", "12.9"});
	assert_null(node_free(node));
}

static void test_families(void **state)
{
	(void)state;
	static const struct {
		uint32_t major, first, last;
		const char *family;
	} rows[] = {
	    {0, 0, 9, "undefined"},  {1, 0, 9, "tesla"},	 {2, 0, 9, "fermi"},
	    {3, 0, 9, "kepler"},     {4, 0, 9, "undefined"},	 {5, 0, 9, "maxwell"},
	    {6, 0, 9, "pascal"},     {7, 0, 4, "volta"},	 {7, 5, 9, "turing"},
	    {8, 0, 8, "ampere"},     {8, 9, 12, "ada-lovelace"}, {9, 0, 9, "hopper"},
	    {10, 0, 9, "blackwell"}, {11, 0, 9, "undefined"},	 {12, 0, 9, "blackwell"},
	    {13, 0, 9, "rubin"},     {14, 0, 9, "undefined"},
	};
	for (size_t i = 0; i < array_length(rows); i++) {
		for (uint32_t minor = rows[i].first; minor <= rows[i].last; minor++)
			assert_string_equal(labels_family(rows[i].major, minor), rows[i].family);
	}
}

static void test_what_is_not_known(void **state)
{
	(void)state;
	struct node *node = node_new(1);
	struct gpu *gpu = &node->gpus[0];
	gpu->cc_major = GPU_U32_UNKNOWN;
	gpu->memory_bytes = GPU_U64_UNKNOWN;
	gpu->name[0] = '\0';
	gpu->mig_current = GPU_MIG_UNSUPPORTED;
	node->facts.class_[0] = LABELS_CLASS_UNKNOWN;
	node->facts.has_machine = false;
	node->facts.vgpu_presence = VGPU_UNKNOWN;
	make(node);
	EXPECT(node, {"gpu.family", "-"}, {"gpu.compute.major", "-"}, {"gpu.memory", "-"},
	       {"gpu.product", "-"}, {"gpu.count", "1"}, {"gpu.mode", "unknown"},
	       {"gpu.machine", "unknown"}, {"vgpu.present", "-"}, {"mig.capable", "false"});
	assert_int_equal(node->set.warning_count, 1);
	gpu->cc_major = 0;
	make(node);
	EXPECT(node, {"gpu.family", "-"}, {"gpu.compute.major", "-"});
	assert_null(node_free(node));
}

static void test_no_gpu(void **state)
{
	(void)state;
	struct node *node = node_new(1);
	node->facts.start_s = 7;
	node->gpus[0].state = GPU_STATE_LOST;
	make(node);
	EXPECT(node, {"gfd.timestamp", "7"}, {"vgpu.present", "false"});
	assert_int_equal(node->set.count, 2);
	node->gpus[0].state = GPU_STATE_OK;
	(void)snprintf(node->gpus[0].name, GPU_NAME_MAX, "NVIDIA DGX Display");
	make(node);
	assert_int_equal(node->set.count, 2);
	node->inventory.gpu_count = 0;
	make(node);
	assert_int_equal(node->set.count, 2);
	assert_null(node_free(node));
}

static void test_mode_and_vgpu(void **state)
{
	(void)state;
	struct node *node = node_new(2);
	node->facts.class_[0] = node->facts.class_[1] = 0x030000;
	node->facts.vgpu_presence = VGPU_PRESENT;
	(void)snprintf(node->facts.vgpu.host_version, VGPU_TEXT_SIZE, "525.60.12");
	(void)snprintf(node->facts.vgpu.host_branch, VGPU_TEXT_SIZE, "r525_00   ");
	make(node);
	EXPECT(node, {"gpu.mode", "graphics"}, {"vgpu.present", "true"},
	       {"vgpu.host-driver-version", "525.60.12"}, {"vgpu.host-driver-branch", "r525_00"});
	node->facts.class_[1] = 0x030200;
	make(node);
	EXPECT(node, {"gpu.mode", "unknown"});
	(void)node_mig(node, 0, "1g.5gb", 1);
	make(node);
	EXPECT(node, {"gpu.mode", "compute"});
	node->facts.class_[1] = 0x120000;
	make(node);
	EXPECT(node, {"gpu.mode", "unknown"});
	assert_null(node_free(node));
}

static void test_clique(void **state)
{
	(void)state;
	static const uint8_t cluster[GPU_FABRIC_UUID_SIZE] = {0x7b, 0x96, 0x8a, 0x6d, 0xc8, 0xaa,
							      0x45, 0xe1, 0x9e, 0x07, 0xe1, 0xe5,
							      0x1b, 0xe9, 0x9c, 0x31};
	struct node *node = node_new(3);
	for (uint32_t i = 1; i < 3; i++) {
		node->gpus[i].has_fabric = true;
		node->gpus[i].fabric_clique = 1;
		memcpy(node->gpus[i].fabric_cluster, cluster, sizeof(cluster));
	}
	make(node);
	EXPECT(node, {"gpu.clique", "7b968a6d-c8aa-45e1-9e07-e1e51be99c31.1"});
	node->gpus[2].fabric_clique = 2;
	make(node);
	EXPECT(node, {"gpu.clique", "-"}, {"gpu.count", "3"});
	assert_int_equal(node->set.warning_count, 1);
	node->gpus[2].fabric_clique = 1;
	node->gpus[2].fabric_cluster[15] = 0;
	make(node);
	EXPECT(node, {"gpu.clique", "-"});
	assert_null(node_free(node));
}

#define SHARING(entries) "sharing: {timeSlicing: {resources: [" entries "]}}\n"

static void test_sharing(void **state)
{
	(void)state;
	struct node *node = node_new(2);
	node->config = SHARING("{name: gpu, replicas: 4}");
	make(node);
	EXPECT(node, {"gpu.product", "NVIDIA-A100-SXM4-40GB-SHARED"}, {"gpu.replicas", "4"},
	       {"gpu.sharing-strategy", "time-slicing"}, {"gpu.count", "2"});
	/* Only one of them: the fewest count. */
	node->config = SHARING("{name: gpu, replicas: 4, devices: [0]}");
	make(node);
	EXPECT(node, {"gpu.product", "NVIDIA-A100-SXM4-40GB"}, {"gpu.replicas", "1"},
	       {"gpu.sharing-strategy", "none"});
	node->config = SHARING("{name: gpu, replicas: 4, devices: [0]}, "
			       "{name: gpu, replicas: 3, devices: [1]}");
	make(node);
	EXPECT(node, {"gpu.product", "NVIDIA-A100-SXM4-40GB-SHARED"}, {"gpu.replicas", "3"});
	node->config = SHARING("{name: gpu, replicas: 3, devices: [0]}, "
			       "{name: gpu, replicas: 4, devices: [1]}");
	make(node);
	EXPECT(node, {"gpu.replicas", "3"});
	/* Renamed by default: the keys stay, -SHARED goes, as with the peer. */
	node->config = "sharing: {timeSlicing: {renameByDefault: true, resources: "
		       "[{name: gpu, replicas: 4}]}}";
	make(node);
	EXPECT(node, {"gpu.product", "NVIDIA-A100-SXM4-40GB"}, {"gpu.replicas", "4"},
	       {"gpu.sharing-strategy", "time-slicing"}, {"gpu.shared.count", "-"});
	/* By a name of the user's: labels of its own too. */
	node->config = SHARING("{name: gpu, replicas: 4, rename: slice}");
	make(node);
	EXPECT(node, {"gpu.product", "NVIDIA-A100-SXM4-40GB"}, {"gpu.replicas", "4"},
	       {"slice.product", "NVIDIA-A100-SXM4-40GB"}, {"slice.count", "2"},
	       {"slice.replicas", "4"}, {"slice.sharing-strategy", "time-slicing"},
	       {"slice.memory", "40960"}, {"slice.family", "ampere"}, {"slice.compute.major", "8"},
	       {"slice.compute.minor", "0"});
	assert_null(node_free(node));
}

static void test_mig_none(void **state)
{
	(void)state;
	struct node *node = node_new(2);
	(void)node_mig(node, 0, "1g.5gb", 2);
	node->config = SHARING("{name: gpu, replicas: 4}");
	make(node);
	EXPECT(node, {"gpu.count", "2"}, {"gpu.replicas", "4"}, {"mig.strategy", "-"},
	       {"mig-1g.5gb.count", "-"});
	/* None of them is handed out whole. */
	(void)node_mig(node, 1, "1g.5gb", 2);
	make(node);
	EXPECT(node, {"gpu.count", "2"}, {"gpu.replicas", "0"}, {"gpu.sharing-strategy", "none"},
	       {"gpu.product", "NVIDIA-A100-SXM4-40GB"});
	assert_null(node_free(node));
}

static void expect_invalid(struct node *node, const char *model, const char *why)
{
	char warning[LABEL_WARNING_SIZE];
	make(node);
	EXPECT(node, {"gpu.product", model}, {"gpu.count", "0"}, {"gpu.replicas", "0"},
	       {"gpu.memory", "0"}, {"gpu.sharing-strategy", ""}, {"gpu.family", "ampere"},
	       {"gpu.multiprocessors", "-"}, {"mig.strategy", "single"});
	(void)snprintf(warning, sizeof(warning),
		       "invalid configuration detected for mig-strategy=single: %s", why);
	assert_string_equal(node->set.warning[node->set.warning_count - 1], warning);
}

static void test_mig_single(void **state)
{
	(void)state;
	struct node *node = node_new(2);
	const char *model = "NVIDIA-A100-SXM4-40GB-MIG-INVALID";
	node->config = "flags: {migStrategy: single}";
	make(node);
	EXPECT(node, {"mig.strategy", "single"}, {"gpu.count", "2"}, {"gpu.memory", "40960"},
	       {"gpu.multiprocessors", "-"});
	/* On and off; with an empty one that is told first. */
	struct mig_device *mig = node_mig(node, 1, "1g.5gb", 1);
	expect_invalid(node, model, "devices with MIG enabled and disable detected");
	node->gpus[0].mig_current = GPU_MIG_ENABLED;
	expect_invalid(node, model, "at least one MIG device is enabled but empty");
	(void)node_mig(node, 0, "2g.10gb", 1);
	expect_invalid(node, model, "more than one MIG device type present on node");
	(void)snprintf(mig->profile, sizeof(mig->profile), "2g.10gb");
	make(node);
	EXPECT(node, {"gpu.product", "NVIDIA-A100-SXM4-40GB-MIG-2g.10gb"}, {"gpu.count", "2"},
	       {"gpu.memory", "4864"});
	/* Attributes that the driver does not tell cost their own labels. */
	for (int i = 0; i < 2; i++) {
		node->migs[i].memory_bytes = GPU_U64_UNKNOWN;
		node->migs[i].sm_count = GPU_U32_UNKNOWN;
	}
	make(node);
	EXPECT(node, {"gpu.product", "NVIDIA-A100-SXM4-40GB-MIG-2g.10gb"}, {"gpu.count", "2"},
	       {"gpu.memory", "-"}, {"gpu.multiprocessors", "-"});
	assert_null(node_free(node));
}

static void test_mig_mixed(void **state)
{
	(void)state;
	struct node *node = node_new(3);
	node->config = "flags: {migStrategy: mixed}\n" SHARING("{name: mig-1g.5gb, replicas: 2}");
	(void)node_mig(node, 0, "1g.5gb", 3);
	(void)node_mig(node, 0, "1c.3g.20gb", 1);
	(void)node_mig(node, 0, "1g.5gb+me", 1);
	node->gpus[2].mig_current = GPU_MIG_ENABLED; /* an empty one is no problem here */
	make(node);
	EXPECT(node, {"mig.strategy", "mixed"}, {"gpu.product", "NVIDIA-A100-SXM4-40GB"},
	       {"gpu.count", "3"}, {"gpu.replicas", "1"},
	       {"mig-1g.5gb.product", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED"},
	       {"mig-1g.5gb.count", "3"}, {"mig-1g.5gb.replicas", "2"},
	       {"mig-1g.5gb.sharing-strategy", "time-slicing"}, {"mig-1g.5gb.memory", "4864"},
	       {"mig-1g.5gb.multiprocessors", "14"}, {"mig-1g.5gb.slices.gi", "1"},
	       {"mig-1g.5gb.slices.ci", "1"}, {"mig-1g.5gb.engines.copy", "1"},
	       {"mig-1g.5gb.engines.decoder", "0"}, {"mig-1g.5gb.engines.encoder", "0"},
	       {"mig-1g.5gb.engines.jpeg", "0"}, {"mig-1g.5gb.engines.ofa", "0"},
	       {"mig-1c.3g.20gb.product", "NVIDIA-A100-SXM4-40GB-MIG-1c.3g.20gb"},
	       {"mig-1c.3g.20gb.replicas", "1"},
	       {"mig-1g.5gb.me.product", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb.me"});
	/* One profile on two models: all are counted, the bigger model is described. */
	node_model(node, 1, "NVIDIA H100", 90, 81559);
	(void)node_mig(node, 1, "1g.5gb", 1);
	make(node);
	EXPECT(node, {"mig-1g.5gb.count", "4"},
	       {"mig-1g.5gb.product", "NVIDIA-H100-MIG-1g.5gb-SHARED"});
	/* Without a profile there is nothing to call it. */
	node->migs[node->inventory.mig_count - 1].profile[0] = '\0';
	make(node);
	EXPECT(node, {"mig-1g.5gb.count", "3"});
	assert_null(node_free(node));
}

static void test_devices_that_are_excluded(void **state)
{
	(void)state;
	struct node *node = node_new(3);
	node->config = "sluice: {devices: {exclude: [1]}}";
	make(node);
	EXPECT(node, {"gpu.count", "2"});
	/* One MIG device only. */
	(void)node_mig(node, 0, "1g.5gb", 2);
	node->config = "flags: {migStrategy: mixed}\nsluice: {devices: {include: ['0:1']}}";
	make(node);
	EXPECT(node, {"gpu.count", "1"}, {"mig-1g.5gb.count", "1"});
	assert_null(node_free(node));
}

/* --- several models --------------------------------------------------------------------------- */

static struct node *two_models(void)
{
	struct node *node = node_new(6);
	for (uint32_t i = 0; i < 2; i++)
		node_model(node, i * 3, "Tesla T4", 75, 15360);
	return node;
}

static void test_several_models(void **state)
{
	(void)state;
	struct node *node = two_models();
	node->config = "sluice: {labels: {extended: true, present: true}}";
	make(node);
	EXPECT(node, {"gpu.product", "NVIDIA-A100-SXM4-40GB"}, {"gpu.count", "4"},
	       {"gpu.memory", "40960"}, {"gpu.compute.major", "8"}, {"gpu.present", "true"},
	       {SLUICE_DOMAIN "/gpu.models", "2"}, {SLUICE_DOMAIN "/gpu-model.tesla-t4.count", "2"},
	       {SLUICE_DOMAIN "/gpu-model.tesla-t4.memory", "15360"},
	       {SLUICE_DOMAIN "/gpu-model.nvidia-a100-sxm4-40gb.count", "4"});
	assert_string_equal(node->set.warning[0],
			    "several GPU models: NVIDIA A100-SXM4-40GB x4, Tesla T4 x2; labels "
			    "describe NVIDIA A100-SXM4-40GB");
	/* A model that is handed out whole goes before one that is cut up. */
	node->config = "";
	for (uint32_t i = 0; i < 6; i++)
		node->gpus[i].mig_current = i % 3 ? GPU_MIG_ENABLED : GPU_MIG_UNSUPPORTED;
	make(node);
	EXPECT(node, {"gpu.product", "Tesla-T4"}, {"gpu.count", "2"});
	/* Same memory: the compute capability, then the name. */
	for (uint32_t i = 0; i < 6; i++) {
		node->gpus[i].mig_current = GPU_MIG_DISABLED;
		node->gpus[i].memory_bytes = UINT64_C(40960) * MIB;
	}
	make(node);
	EXPECT(node, {"gpu.product", "NVIDIA-A100-SXM4-40GB"});
	node->gpus[0].cc_major = node->gpus[3].cc_major = 8;
	node->gpus[0].cc_minor = node->gpus[3].cc_minor = 0;
	(void)snprintf(node->gpus[3].name, GPU_NAME_MAX, "A");
	make(node);
	EXPECT(node, {"gpu.product", "A"}, {"gpu.count", "1"});
	/* More memory goes before a higher compute capability. */
	node_model(node, 0, "Tesla V100", 70, 65536);
	make(node);
	EXPECT(node, {"gpu.product", "Tesla-V100"}, {"gpu.memory", "65536"});
	node_model(node, 0, node->gpus[1].name, 80, 40960);
	/* One name, two memories: the smaller. */
	(void)snprintf(node->gpus[0].name, GPU_NAME_MAX, "%s", node->gpus[1].name);
	(void)snprintf(node->gpus[3].name, GPU_NAME_MAX, "%s", node->gpus[1].name);
	node->gpus[4].memory_bytes = UINT64_C(16384) * MIB;
	make(node);
	EXPECT(node, {"gpu.count", "6"}, {"gpu.memory", "16384"});
	assert_int_equal(node->set.warning_count, 0);
	assert_null(node_free(node));
}

static void test_resources_by_model(void **state)
{
	(void)state;
	struct node *node = two_models();
	node->config = "resources: {gpus: [{pattern: '*A100*', name: a100}, "
		       "{pattern: '*T4*', name: t4}]}\n" SHARING("{name: t4, replicas: 3}");
	make(node);
	EXPECT(node, {"a100.product", "NVIDIA-A100-SXM4-40GB"}, {"a100.count", "4"},
	       {"a100.replicas", "1"}, {"a100.memory", "40960"}, {"t4.product", "Tesla-T4-SHARED"},
	       {"t4.count", "2"}, {"t4.replicas", "3"}, {"t4.sharing-strategy", "time-slicing"},
	       {"t4.family", "turing"}, {"gpu.product", "NVIDIA-A100-SXM4-40GB"});
	/* Both models under one name: the rule holds inside it. */
	node->config = "resources: {gpus: [{pattern: '*', name: any}]}";
	make(node);
	EXPECT(node, {"any.product", "NVIDIA-A100-SXM4-40GB"}, {"any.count", "4"});
	assert_int_equal(node->set.warning_count, 2);
	assert_null(node_free(node));
}

static void dump(const struct node *node, struct buf *out)
{
	buf_clear(out);
	for (size_t i = 0; i < node->set.count; i++)
		assert_int_equal(
		    buf_printf(out, "%s=%s\n", node->set.items[i].key, node->set.items[i].value),
		    0);
}

/* Whatever the order in which GPUs are found, and however often: the same bytes. */
static void test_order(void **state)
{
	(void)state;
	_cleanup_buf_ struct buf first, again;
	buf_init(&first, 1 << 16);
	buf_init(&again, 1 << 16);
	struct node *node = two_models();
	node->config = "resources: {gpus: [{pattern: '*', name: any}]}\n"
		       "sluice: {labels: {extended: true}}";
	make(node);
	dump(node, &first);
	for (uint32_t round = 0; round < 1000; round++) {
		uint32_t a = round % 6, b = (round * 7 + 1) % 6;
		struct gpu swap = node->gpus[a];
		node->gpus[a] = node->gpus[b];
		node->gpus[b] = swap;
		make(node);
		dump(node, &again);
		assert_string_equal(buf_text(&first), buf_text(&again));
	}
	assert_null(node_free(node));
}

/* Losing a GPU changes gpu.count and nothing else while one of the model is left. */
static void test_a_lost_gpu(void **state)
{
	(void)state;
	struct node *node = two_models(), *whole = two_models();
	make(whole);
	for (uint32_t lost = 0; lost < 6; lost++) {
		for (uint32_t i = 0; i < 6; i++)
			node->gpus[i].state = i == lost ? GPU_STATE_LOST : GPU_STATE_OK;
		make(node);
		assert_int_equal(node->set.count, whole->set.count);
		for (size_t i = 0; i < node->set.count; i++) {
			const struct label *label = &node->set.items[i];
			assert_string_equal(label->key, whole->set.items[i].key);
			if (strcmp(label->key, "nvidia.com/gpu.count") == 0)
				assert_string_equal(label->value, lost % 3 ? "3" : "4");
			else
				assert_string_equal(label->value, whole->set.items[i].value);
		}
	}
	assert_null(node_free(node));
	assert_null(node_free(whole));
}

/* Names of every length and of bytes that mean something elsewhere. */
static void test_odd_names(void **state)
{
	(void)state;
	struct node *node = node_new(1);
	node->config = "flags: {migStrategy: mixed}\nsluice: {labels: {extended: true}}\n" //
	    SHARING("{name: gpu, replicas: 2}");
	unsigned seed = 1;
	for (size_t length = 0; length < GPU_NAME_MAX; length++) {
		struct gpu *gpu = &node->gpus[0];
		for (size_t i = 0; i < GPU_NAME_MAX; i++) {
			seed = seed * 1103515245U + 12345U;
			gpu->name[i] = (char)(seed >> 16 | 1);
		}
		gpu->name[length] = '\0';
		make(node);
		EXPECT(node, {"gpu.count", "1"});
		memset(gpu->name, 'x', GPU_NAME_MAX);
		gpu->name[length] = '\0';
		make(node);
		assert_int_equal(node->set.warning_count, 0);
		if (length > 0)
			assert_non_null(strstr(get(node, "gpu.product"), "x-SHARED"));
	}
	node_model(node, 0, "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 120, 97887);
	make(node);
	EXPECT(
	    node,
	    {SLUICE_DOMAIN "/gpu-model.nvidia-rtx-pro-6000-blackwell-max-q-work-208c.count", "1"},
	    {"gpu.family", "blackwell"});
	/* Profiles are bytes of the driver too. */
	(void)node_mig(node, 0, "1g/5gb \x01", 1);
	make(node);
	EXPECT(node, {"gpu.count", "1"});
	assert_true(node->set.warning_count > 0);
	assert_null(node_free(node));
}

static int scenario(void *context)
{
	struct node *node = context;
	int rc = try_make(node);
	label_set_done(&node->set);
	return rc;
}

static void test_no_memory(void **state)
{
	(void)state;
	struct node *node = node_new(TEST_GPUS);
	for (uint32_t i = 0; i < TEST_GPUS; i++)
		(void)node_mig(node, i, i % 2 ? "1g.5gb" : "2g.10gb", 7);
	node->config = "flags: {migStrategy: mixed}";
	assert_int_not_equal(failmalloc_each(scenario, node), 0);
	assert_null(node_free(node));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_the_example_of_the_peer),
	    cmocka_unit_test(test_the_mig_example_of_the_peer),
	    cmocka_unit_test(test_versions),
	    cmocka_unit_test(test_families),
	    cmocka_unit_test(test_what_is_not_known),
	    cmocka_unit_test(test_no_gpu),
	    cmocka_unit_test(test_mode_and_vgpu),
	    cmocka_unit_test(test_clique),
	    cmocka_unit_test(test_sharing),
	    cmocka_unit_test(test_mig_none),
	    cmocka_unit_test(test_mig_single),
	    cmocka_unit_test(test_mig_mixed),
	    cmocka_unit_test(test_devices_that_are_excluded),
	    cmocka_unit_test(test_several_models),
	    cmocka_unit_test(test_resources_by_model),
	    cmocka_unit_test(test_order),
	    cmocka_unit_test(test_a_lost_gpu),
	    cmocka_unit_test(test_odd_names),
	    cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
