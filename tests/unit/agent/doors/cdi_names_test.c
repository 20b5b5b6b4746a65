/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every CDI name that the kubelet is told resolves: on all simulated machines and MIG layouts, with
 * all strategies, ways of naming and vendors, the answers to Allocate for each healthy device
 * against the specifications that the agent has written there, also where a node is missing or
 * another program provides the kind.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/doors/door_cdi.h"
#include "agent/node.h"
#include "agent/paths.h"
#include "base/buf.h"
#include "base/check.h"
#include "base/err.h"
#include "base/loop.h"
#include "base/storage.h"
#include "doors/cdi/keep.h"
#include "cdi/scan.h"
#include "doors/kubelet/allocate.h"
#include "doors/kubelet/resource.h"
#include "doors/kubelet/surroundings.h"
#include "hardware/gpu.h"
#include "policy/config.h"
#include "policy/policy.h"
#include "sim/error.h"
#include "sim/profile.h"
#include "tests/unit/cdi/tree.h"
#include "tests/unit/unit.h"
#include "wire/arena.h"

enum { DEADLINE_S = 60, TEXT_MAX = 1024, ARENA_MAX = 1 << 20, STRATEGIES = 16 };

enum flaw { FLAW_NONE, FLAW_NO_GPU_NODE, FLAW_NO_CAP, FLAW_FOREIGN, FLAW_NO_CHANNEL, FLAWS };

struct choice {
	const char *profile, *layout, *mig, *id, *vendor, *imex;
	enum flaw flaw;
};

static struct {
	struct choice choice;
	struct inventory inventory;
	struct gpu gpus[GPU_MAX];
	struct mig_device migs[GPU_MAX * GPU_MIG_MAX];
	struct config *config;
	struct loop *loop;
	struct storage *storage;
	struct door_cdi *door;
	struct agent_paths paths;
	struct scan scan;
	uint64_t names, channels; /* that were told and resolved */
	uint64_t unhealthy;
} scene;

static struct sim_machine machine;

/* --- instead of the node: --wrap ----------------------------------------------------------------
 */

bool __wrap_node_is_known(const struct node *node);
const struct inventory *__wrap_node_inventory(const struct node *node);
const struct config *__wrap_node_config(const struct node *node);
uint64_t __wrap_node_generation(const struct node *node);
int __wrap_keep_new(const struct keep_options *options, struct keep **out, struct err *err);
int __real_keep_new(const struct keep_options *options, struct keep **out, struct err *err);

bool __wrap_node_is_known(const struct node *node)
{
	return true;
}

const struct inventory *__wrap_node_inventory(const struct node *node)
{
	return &scene.inventory;
}

const struct config *__wrap_node_config(const struct node *node)
{
	return scene.config;
}

uint64_t __wrap_node_generation(const struct node *node)
{
	return 1;
}

/* Every file below /dev is a device. */
static int look(void *context, const char *path, struct stat *out)
{
	if (lstat(path, out) < 0)
		return -errno;
	out->st_mode = S_IFCHR | 0666;
	return 0;
}

int __wrap_keep_new(const struct keep_options *options, struct keep **out, struct err *err)
{
	struct keep_options mine = *options;
	mine.look = look;
	return __real_keep_new(&mine, out, err);
}

/* --- a machine ----------------------------------------------------------------------------------
 */

__attribute__((format(printf, 1, 2))) static void put_node(const char *format, ...)
{
	char path[128];
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(path, sizeof(path), format, arguments);
	va_end(arguments);
	tree_text(unit_top, path, "");
}

static void add_instance(struct buf *minors, uint32_t g, const struct sim_gi *gi,
			 const struct sim_ci *ci, uint32_t index)
{
	uint32_t minor = machine.gpu[g].minor, cap = 21 + 9 * scene.inventory.mig_count;
	bool is_flawed = scene.choice.flaw == FLAW_NO_CAP && scene.inventory.mig_count == 1;
	struct mig_device *mig = &scene.migs[scene.inventory.mig_count++];
	*mig = (struct mig_device){.parent = g, .index = index, .gi = gi->id, .ci = ci->id};
	(void)snprintf(mig->uuid, sizeof(mig->uuid), "%s", ci->uuid);
	(void)snprintf(mig->profile, sizeof(mig->profile), "%s",
		       machine.model[machine.gpu[g].model].mig_profile[gi->profile].name);
	(void)buf_printf(minors, "gpu%u/gi%u/access %u\ngpu%u/gi%u/ci%u/access %u\n", minor, gi->id,
			 cap, minor, gi->id, ci->id, cap + 1);
	put_node("/dev/nvidia-caps/nvidia-cap%u", cap);
	if (!is_flawed)
		put_node("/dev/nvidia-caps/nvidia-cap%u", cap + 1);
}

static void add_gpu(struct buf *minors, uint32_t g)
{
	const struct sim_gpu *from = &machine.gpu[g];
	struct gpu *gpu = &scene.gpus[g];
	uint32_t index = 0;
	*gpu = (struct gpu){.index = g, .minor = from->minor, .has_pci = true};
	gpu->pci.bus = (uint8_t)from->pci_bus;
	gpu->mig_current = from->mig_current ? GPU_MIG_ENABLED : GPU_MIG_DISABLED;
	(void)snprintf(gpu->uuid, sizeof(gpu->uuid), "%s", from->uuid);
	(void)snprintf(gpu->name, sizeof(gpu->name), "%s", machine.model[from->model].name);
	if (scene.choice.flaw != FLAW_NO_GPU_NODE || g > 0)
		put_node("/dev/nvidia%u", from->minor);
	for (size_t i = 0; from->mig_current && i < SIM_GI_MAX; i++) {
		for (size_t c = 0; from->gi[i].used && c < SIM_CI_MAX; c++) {
			if (from->gi[i].ci[c].used)
				add_instance(minors, g, &from->gi[i], &from->gi[i].ci[c], index++);
		}
	}
}

static void make_machine(void)
{
	_cleanup_buf_ struct buf minors;
	buf_init(&minors, 1 << 16);
	scene.inventory = (struct inventory){.gpu_count = machine.gpu_count,
					     .gpus = scene.gpus,
					     .migs = scene.migs,
					     .driver_version = "580.105.08",
					     .simulated = true};
	memset(scene.inventory.level, GPU_LEVEL_UNKNOWN, sizeof(scene.inventory.level));
	tree_module(unit_top, "580.105.08");
	tree_libraries(unit_top, "/usr/lib64", "580.105.08");
	tree_control(unit_top);
	for (uint32_t g = 0; g < machine.gpu_count; g++)
		add_gpu(&minors, g);
	tree_text(unit_top, "/proc/driver/nvidia-caps/mig-minors", buf_text(&minors));
	if (scene.choice.flaw != FLAW_NO_CHANNEL)
		put_node("/dev/nvidia-caps-imex-channels/channel0");
	if (scene.choice.flaw == FLAW_FOREIGN)
		tree_text(unit_top, "/etc/cdi/foreign.yaml",
			  "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: all\n"
			  "  containerEdits: {env: [A=b]}\n");
}

static struct config *make_config(uint32_t strategies)
{
	static const char *const words[] = {"envvar", "volume-mounts", "cdi-annotations",
					    "cdi-cri"};
	const struct choice *choice = &scene.choice;
	char text[TEXT_MAX], list[128] = "";
	struct config *config = NULL;
	struct err err = {0};
	for (size_t i = 0; i < array_length(words); i++) {
		if (!(strategies >> i & 1))
			continue;
		(void)strcat(list, *list ? ", " : "");
		(void)strcat(list, words[i]);
	}
	(void)snprintf(text, sizeof(text),
		       "flags: {migStrategy: %s, plugin: {deviceListStrategy: [%s], "
		       "deviceIDStrategy: %s}}\nimex: %s\nsluice: {cdi: {%s}}\n",
		       choice->mig, list, choice->id, choice->imex, choice->vendor);
	if (config_parse(text, strlen(text), "c.yaml", NULL, true, &config, &err) < 0)
		fail_msg("%s", err.text);
	return config;
}

/* --- what the agent does ------------------------------------------------------------------------
 */

/* The specifications of this configuration. */
static void write_specifications(struct resource_cdi *out)
{
	const struct door_cdi_options options = {
	    .loop = scene.loop, .storage = scene.storage, .paths = &scene.paths, .root = unit_top};
	uint64_t end_ns = unit_now_ns() + DEADLINE_S * UINT64_C(1000000000);
	scan_done(&scene.scan);
	memset(&scene.scan, 0, sizeof(scene.scan));
	assert_int_equal(door_cdi_new(&options, &scene.door, NULL), 0);
	do {
		assert_int_equal(loop_pass(scene.loop, 1000000, NULL), 0);
		assert_true(unit_now_ns() < end_ns);
	} while (storage_pending(scene.storage) > 0);
	door_cdi_found(scene.door, out);
	assert_int_equal(scan_read(unit_top, &scene.scan, NULL), 0);
}

static void expect_name(const char *name, const char *resource)
{
	const struct choice *choice = &scene.choice;
	if (scan_find(&scene.scan, name, NULL, NULL) != SCAN_FOUND)
		fail_msg("%s --mig %s, %s, migStrategy %s, ids by %s, %s, flaw %d: the kubelet is "
			 "told '%s', which no specification has",
			 choice->profile, choice->layout, resource, choice->mig, choice->id,
			 choice->imex, (int)choice->flaw, name);
	scene.names++;
	scene.channels += strstr(name, "/imex-channel=0") != NULL;
}

static void expect_answer(const struct kubelet_resource *resource, const char *id)
{
	_cleanup_arena_ struct arena arena;
	V1beta1__AllocateRequest request = V1BETA1__ALLOCATE_REQUEST__INIT;
	V1beta1__ContainerAllocateRequest container = V1BETA1__CONTAINER_ALLOCATE_REQUEST__INIT;
	V1beta1__ContainerAllocateRequest *containers[] = {&container};
	V1beta1__AllocateResponse response;
	char copy[RESOURCE_ID_MAX], *ids[] = {copy};
	arena_init(&arena, ARENA_MAX);
	(void)snprintf(copy, sizeof(copy), "%s", id);
	container.devices_ids = ids;
	container.n_devices_ids = 1;
	request.container_requests = containers;
	request.n_container_requests = 1;
	assert_int_equal(allocate_answer(resource, &request, NULL, &arena, &response, NULL), 0);
	const V1beta1__ContainerAllocateResponse *answer = response.container_responses[0];
	for (size_t i = 0; i < answer->n_cdi_devices; i++)
		expect_name(answer->cdi_devices[i]->name, resource->name);
	for (size_t i = 0; i < answer->n_annotations; i++) {
		char *rest = answer->annotations[i]->value, *name;
		while ((name = strsep(&rest, ",")))
			expect_name(name, resource->name);
	}
}

static void expect_resource(const struct policy *policy, const struct policy_resource *of,
			    const struct config *config,
			    const struct resource_surroundings *surroundings)
{
	struct kubelet_resource *resource = NULL;
	struct err err = {0};
	if (resource_new(&scene.inventory, policy, of, config, surroundings, &resource, &err) < 0)
		fail_msg("%s", err.text);
	for (uint32_t i = 0; i < resource->device_count; i++) {
		if (resource->devices[i].hardware->healthy)
			expect_answer(resource, resource->devices[i].id);
		else
			scene.unhealthy++;
	}
	(void)resource_free(resource);
}

/* All strategies on the specifications of one configuration. */
static void expect_all_strategies(const struct resource_cdi *cdi)
{
	const struct policy_surroundings has_kubelet = {.has_kubelet = true};
	for (uint32_t strategies = 1; strategies < STRATEGIES; strategies++) {
		struct config *config = make_config(strategies);
		struct policy *policy = NULL;
		struct surroundings surroundings;
		assert_int_equal(policy_make(&scene.inventory, config, &has_kubelet, &policy, NULL),
				 0);
		assert_int_equal(
		    surroundings_read(unit_top, config, &scene.inventory, &surroundings, NULL), 0);
		surroundings.resource.cdi = *cdi;
		surroundings.resource.also_cdi = strategies == 1; /* without NVIDIA's runtime */
		for (uint32_t i = 0; i < policy->resource_count; i++)
			expect_resource(policy, &policy->resources[i], config,
					&surroundings.resource);
		surroundings_done(&surroundings);
		(void)policy_free(policy);
		(void)config_free(config);
	}
}

static void expect_choice(void)
{
	struct resource_cdi cdi;
	assert_int_equal(unit_top_setup(NULL), 0);
	(void)snprintf(scene.paths.runtime_dir, sizeof(scene.paths.runtime_dir), "%s", unit_top);
	scene.loop = loop_new(LOOP_FAKE, NULL);
	assert_non_null(scene.loop);
	scene.storage = storage_new(scene.loop, 16, NULL);
	assert_non_null(scene.storage);
	scene.config = make_config(1);
	make_machine();
	write_specifications(&cdi);
	assert_true(cdi.is_known);
	expect_all_strategies(&cdi);
	scan_done(&scene.scan);
	memset(&scene.scan, 0, sizeof(scene.scan));
	scene.storage = storage_close(scene.storage);
	scene.door = door_cdi_free(scene.door);
	scene.loop = loop_free(scene.loop);
	scene.config = config_free(scene.config);
	assert_int_equal(unit_top_teardown(NULL), 0);
}

/* --- the tests ----------------------------------------------------------------------------------
 */

static const char *const profiles[] = {"a100-mig", "dgx-a100", "dgx1", "dgx2",	     "h100-mig",
				       "hgx-h100", "t4x1",     "t4x4", "workstation"};
static const char *const layouts[] = {"none", "empty", "single", "mixed", "half", "hetero"};
static const char *const strategies_of_mig[] = {"none", "single", "mixed"};
static const char *const ids[] = {"uuid", "index"};
static const char *const vendors[] = {"", "vendor: nvidia.com", "vendor: acme.example"};
static const char *const channels[] = {"{channelIDs: [0]}", "{}",
				       "{channelIDs: [0], required: true}"};

/* Every layout with every strategy; what remains takes turns, so that each meets each. */
static void test_every_name_resolves(void **state)
{
	unsigned turn = 0;
	for (size_t p = 0; p < array_length(profiles); p++) {
		for (size_t l = 0; l < array_length(layouts); l++) {
			const struct sim_options options = {.seed = 1, .mig_layout = layouts[l]};
			struct sim_error error;
			if (sim_profile_load(profiles[p], &options, &machine, &error) < 0)
				continue; /* of a model without MIG */
			for (size_t m = 0; m < array_length(strategies_of_mig); m++, turn++) {
				scene.choice = (struct choice){
				    .profile = profiles[p],
				    .layout = layouts[l],
				    .mig = strategies_of_mig[m],
				    .id = ids[turn % array_length(ids)],
				    .vendor = vendors[turn / 2 % array_length(vendors)],
				    .imex = channels[turn / 6 % array_length(channels)],
				    .flaw = (enum flaw)(turn / 2 % FLAWS),
				};
				expect_choice();
			}
		}
	}
	assert_true(turn >= 3 * array_length(profiles));
	assert_true(scene.names > 1000);
	assert_true(scene.unhealthy > 0);
}

/* Where nothing is wrong nothing is withheld either. */
static void test_a_sound_machine_is_healthy(void **state)
{
	for (size_t m = 0; m < array_length(strategies_of_mig); m++) {
		/* The strategy single refuses a machine of which a part is in MIG mode. */
		const char *layout =
		    strcmp(strategies_of_mig[m], "single") == 0 ? "single" : "half";
		const struct sim_options options = {.seed = 1, .mig_layout = layout};
		struct sim_error error;
		assert_int_equal(sim_profile_load("dgx-a100", &options, &machine, &error), 0);
		for (size_t i = 0; i < array_length(ids); i++) {
			for (size_t v = 0; v < array_length(vendors); v++) {
				scene.unhealthy = scene.channels = 0;
				scene.choice = (struct choice){.profile = "dgx-a100",
							       .layout = layout,
							       .mig = strategies_of_mig[m],
							       .id = ids[i],
							       .vendor = vendors[v],
							       .imex = channels[0]};
				expect_choice();
				assert_int_equal(scene.unhealthy, 0);
				assert_true(scene.channels > 0);
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_every_name_resolves),
	    cmocka_unit_test(test_a_sound_machine_is_healthy),
	};
	(void)unsetenv("KUBERNETES_SERVICE_HOST");
	/* Thousands of files that are synced: not on a disk. */
	if (access("/dev/shm", W_OK) == 0)
		(void)setenv("TMPDIR", "/dev/shm", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
