/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cluster/nodelabels.h"

#include <stdio.h>
#include <string.h>

#include "agent/doors/door_kubelet.h"
#include "agent/cluster/kube.h"
#include "agent/node.h"
#include "base/check.h"
#include "policy/config.h"
#include "unit/unit.h"

/* --- instead of node and door: --wrap ----------------------------------------------------------
 */

static struct {
	struct config config;
	uint64_t released_ns; /* what node_release() was called with last; 0: resumed */
	unsigned releases;
	enum door_kubelet_hold hold;
	char why[NODELABELS_TEXT_MAX];
} fake;

const struct config *__wrap_node_config(const struct node *node);
uint64_t __wrap_node_released_until_ns(const struct node *node);
void __wrap_node_release(struct node *node, uint64_t for_ns);
void __wrap_door_kubelet_hold(struct door_kubelet *door, enum door_kubelet_hold how,
			      const char *why);

const struct config *__wrap_node_config(const struct node *node)
{
	(void)node;
	return &fake.config;
}

uint64_t __wrap_node_released_until_ns(const struct node *node)
{
	(void)node;
	return fake.released_ns;
}

void __wrap_node_release(struct node *node, uint64_t for_ns)
{
	(void)node;
	fake.released_ns = for_ns;
	fake.releases++;
}

void __wrap_door_kubelet_hold(struct door_kubelet *door, enum door_kubelet_hold how,
			      const char *why)
{
	(void)door;
	fake.hold = how;
	(void)snprintf(fake.why, sizeof(fake.why), "%s", why);
}

static struct nodelabels nodelabels;
static struct node *const node = (struct node *)&fake; /* nobody looks into it */
static struct door_kubelet *const door = (struct door_kubelet *)&fake;

static int setup(void **state)
{
	(void)state;
	memset(&fake, 0, sizeof(fake));
	nodelabels = (struct nodelabels){.is_upgrading = false};
	return 0;
}

static bool say(const char *name, const char *value)
{
	const struct kube_label labels[] = {{"example.com/other", "x"}, {name, value}};
	nodelabels_set(&nodelabels, labels, name ? 2 : 1);
	return nodelabels_apply(&nodelabels, node, door, NULL);
}

/* --- the tests ---------------------------------------------------------------------------------
 */

#define DEPLOY "nvidia.com/gpu.deploy."

static void test_what_each_label_means(void **state)
{
	(void)state;
	enum { KUBELET = 1, LABELS = 2, RELEASE = 4 };
	static const struct {
		const char *name, *value;
		unsigned obeyed, ignored;
	} rows[] = {
	    {"nvidia.com/gpu.workload.config", "container", 0, 0},
	    {"nvidia.com/gpu.workload.config", "vm-passthrough", KUBELET | LABELS,
	     KUBELET | LABELS},
	    {"nvidia.com/gpu.workload.config", "vm-vgpu", KUBELET | LABELS, KUBELET | LABELS},
	    {DEPLOY "operands", "false", KUBELET | LABELS, 0},
	    {DEPLOY "operands", "true", 0, 0},
	    {DEPLOY "device-plugin", "false", KUBELET, 0},
	    {DEPLOY "device-plugin", "true", 0, 0},
	    {DEPLOY "gpu-feature-discovery", "false", LABELS, 0},
	    {DEPLOY "device-plugin", "paused-for-driver-upgrade", RELEASE, RELEASE},
	    {DEPLOY "gpu-feature-discovery", "paused-for-driver-upgrade", RELEASE, RELEASE},
	    {DEPLOY "device-plugin", "paused-for-mig-change", RELEASE, RELEASE},
	    {DEPLOY "device-plugin", "paused", 0, 0},
	    {"nvidia.com/gpu-driver-upgrade-state", "upgrade-required", 0, 0},
	    {"nvidia.com/gpu-driver-upgrade-state", "cordon-required", RELEASE, RELEASE},
	    {"nvidia.com/gpu-driver-upgrade-state", "wait-for-jobs-required", RELEASE, RELEASE},
	    {"nvidia.com/gpu-driver-upgrade-state", "pod-deletion-required", RELEASE, RELEASE},
	    {"nvidia.com/gpu-driver-upgrade-state", "drain-required", RELEASE, RELEASE},
	    {"nvidia.com/gpu-driver-upgrade-state", "pod-restart-required", RELEASE, RELEASE},
	    {"nvidia.com/gpu-driver-upgrade-state", "validation-required", 0, 0},
	    {"nvidia.com/gpu-driver-upgrade-state", "uncordon-required", 0, 0},
	    {"nvidia.com/gpu-driver-upgrade-state", "upgrade-done", 0, 0},
	    {"nvidia.com/gpu-driver-upgrade-state", "upgrade-failed", 0, 0},
	};
	for (size_t i = 0; i < array_length(rows); i++) {
		(void)say(rows[i].name, rows[i].value);
		for (int obeys = 0; obeys < 2; obeys++) {
			struct nodelabels_wish wish;
			char sentence[NODELABELS_TEXT_MAX];
			unsigned wanted = obeys ? rows[i].obeyed : rows[i].ignored;
			nodelabels_judge(&nodelabels.values, obeys, &wish);
			(void)snprintf(sentence, sizeof(sentence), "the node's label %s is %s",
				       rows[i].name, rows[i].value);
			assert_string_equal(wish.kubelet_off, wanted & KUBELET ? sentence : "");
			assert_string_equal(wish.labels_off, wanted & LABELS ? sentence : "");
			assert_string_equal(wish.release, wanted & RELEASE ? sentence : "");
		}
	}
}

static void test_a_door_is_shut_and_opened(void **state)
{
	(void)state;
	assert_false(say(NULL, NULL));
	assert_int_equal(fake.hold, DOOR_KUBELET_OPEN);
	assert_true(say(DEPLOY "device-plugin", "false"));
	assert_int_equal(fake.hold, DOOR_KUBELET_SHUT);
	assert_non_null(strstr(fake.why, DEPLOY "device-plugin is false"));
	assert_false(say(DEPLOY "device-plugin", "false"));
	fake.config.deploy_labels = CONFIG_DEPLOY_IGNORE;
	assert_true(nodelabels_apply(&nodelabels, node, door, NULL));
	assert_int_equal(fake.hold, DOOR_KUBELET_OPEN);
	assert_false(nodelabels_apply(&nodelabels, node, NULL, NULL));
	assert_int_equal(fake.releases, 0);
}

static void test_an_upgrade(void **state)
{
	(void)state;
	(void)say("nvidia.com/gpu-driver-upgrade-state", "cordon-required");
	assert_int_equal(fake.released_ns, NODELABELS_UPGRADE_NS);
	assert_int_equal(fake.hold, DOOR_KUBELET_UNHEALTHY);
	assert_non_null(strstr(fake.why, "cordon-required"));
	(void)say("nvidia.com/gpu-driver-upgrade-state", "pod-restart-required");
	assert_int_equal(fake.releases, 1);
	/* Somebody has it opened before its time: then it is not ours to close again. */
	fake.released_ns = 0;
	(void)say("nvidia.com/gpu-driver-upgrade-state", "pod-restart-required");
	assert_int_equal(fake.hold, DOOR_KUBELET_OPEN);
	assert_int_equal(fake.releases, 1);
	(void)say("nvidia.com/gpu-driver-upgrade-state", "validation-required");
	assert_int_equal(fake.releases, 2);
	assert_int_equal(fake.released_ns, 0);
	assert_false(nodelabels.is_upgrading);
}

static void test_a_signal(void **state)
{
	(void)state;
	nodelabels_signal(&nodelabels, node);
	assert_int_equal(fake.released_ns, NODELABELS_SIGNAL_NS);
	(void)nodelabels_apply(&nodelabels, node, door, NULL);
	assert_int_equal(fake.hold, DOOR_KUBELET_UNHEALTHY);
	assert_non_null(strstr(fake.why, "SIGUSR2"));
	fake.released_ns = 0; /* its time is over */
	(void)nodelabels_apply(&nodelabels, node, door, NULL);
	assert_int_equal(fake.hold, DOOR_KUBELET_OPEN);
	/* One that 'sluice health release' asked for takes nothing from the kubelet. */
	fake.released_ns = 7;
	(void)nodelabels_apply(&nodelabels, node, door, NULL);
	assert_int_equal(fake.hold, DOOR_KUBELET_OPEN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(test_what_each_label_means, setup),
	    cmocka_unit_test_setup(test_a_door_is_shut_and_opened, setup),
	    cmocka_unit_test_setup(test_an_upgrade, setup),
	    cmocka_unit_test_setup(test_a_signal, setup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
