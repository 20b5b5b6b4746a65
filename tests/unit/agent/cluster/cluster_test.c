/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cluster/cluster.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cluster/kube.h"
#include "base/err.h"
#include "base/loop.h"
#include "base/repeats.h"
#include "tests/unit/unit.h"

/* --- instead of sluice-kube: --wrap ------------------------------------------------------------
 */

static struct {
	int result;
	struct kube_options options;
	unsigned opened, closed, events;
	char last[2048];
} fake;

int __wrap_kube_open(const struct kube_options *options, struct kube **out, struct err *err);
struct kube *__wrap_kube_close(struct kube *kube);
void __wrap_kube_event(struct kube *kube, enum kube_event_type type, const char *reason,
		       const char *message);
const char *__wrap_kube_problem(const struct kube *kube);
pid_t __wrap_kube_pid(const struct kube *kube);

int __wrap_kube_open(const struct kube_options *options, struct kube **out, struct err *err)
{
	fake.opened++;
	fake.options = *options;
	if (fake.result < 0)
		return err_set(err, fake.result, "cannot");
	*out = (struct kube *)&fake;
	return 0;
}

struct kube *__wrap_kube_close(struct kube *kube)
{
	fake.closed += kube != NULL;
	return NULL;
}

void __wrap_kube_event(struct kube *kube, enum kube_event_type type, const char *reason,
		       const char *message)
{
	fake.events++;
	(void)snprintf(fake.last, sizeof(fake.last), "%s %s: %s",
		       type == KUBE_EVENT_WARNING ? "Warning" : "Normal", reason, message);
}

const char *__wrap_kube_problem(const struct kube *kube)
{
	return "a problem";
}

pid_t __wrap_kube_pid(const struct kube *kube)
{
	return 17;
}

/* --- the tests ---------------------------------------------------------------------------------
 */

static struct cluster_options rig_options = {
    .node_name = "n", .node_label = "l", .kubeconfig = "/config"};

static int rig_set_up(void **state)
{
	memset(&fake, 0, sizeof(fake));
	assert_int_equal(unsetenv("KUBERNETES_SERVICE_HOST"), 0);
	struct cluster *cluster = NULL;
	rig_options.loop = loop_new(LOOP_FAKE, NULL);
	assert_non_null(rig_options.loop);
	assert_int_equal(cluster_new(&rig_options, &cluster, NULL), 0);
	*state = cluster;
	return 0;
}

static int rig_tear_down(void **state)
{
	assert_null(cluster_free(*state));
	rig_options.loop = loop_free(rig_options.loop);
	return 0;
}

static void test_whether_there_is_one(void **state)
{
	struct cluster_options options = {.kubeconfig = "/config"};
	assert_false(cluster_is_there(&options)); /* which node of it would we be? */
	options.node_name = "n";
	assert_true(cluster_is_there(&options));
	options.kubeconfig = "";
	assert_false(cluster_is_there(&options));
	assert_int_equal(setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1), 0);
	assert_int_equal(unit_top_setup(NULL), 0);
	options.account = unit_top;
	assert_false(
	    cluster_is_there(&options)); /* the pod has no token: the name is for metrics */
	unit_write(unit_path(unit_top, "token"), "t");
	assert_true(cluster_is_there(&options));
	struct cluster *cluster = NULL;
	assert_int_equal(cluster_new(&options, &cluster, NULL), 0);
	assert_null(fake.options.kubeconfig);
	assert_string_equal(cluster_problem(cluster), "a problem");
	assert_int_equal(cluster_pid(cluster), 17);
	assert_null(cluster_free(cluster));
	assert_int_equal(fake.closed, 1);
	assert_int_equal(unit_top_teardown(NULL), 0);
}

static void test_without_one(void **state)
{
	const struct cluster_options options = {.node_name = NULL};
	struct cluster *cluster = NULL;
	unsigned opened = fake.opened;
	assert_int_equal(cluster_new(&options, &cluster, NULL), 0);
	assert_int_equal(fake.opened, opened);
	cluster_no_injection(cluster, "x");
	cluster_policy(cluster, "x");
	cluster_labels(cluster, "x");
	struct err err = {0};
	assert_false(cluster_can_publish(cluster));
	assert_int_equal(cluster_publish(cluster, NULL, &err), -ENOTCONN);
	assert_non_null(strstr(err.text, "required flag node-name not set"));
	assert_int_equal(cluster_publish(NULL, NULL, &err), -ENOTCONN);
	assert_string_equal(cluster_problem(cluster), "");
	assert_int_equal(cluster_pid(cluster), -1);
	cluster = cluster_free(cluster);
	cluster_policy(NULL, "x");
	cluster_no_injection(NULL, "x");
	assert_string_equal(cluster_problem(NULL), "");
	assert_int_equal(cluster_pid(NULL), -1);
	assert_int_equal(fake.events, 0);
}

/* A service without sluice-kube is a service. */
static void test_one_that_is_not_installed(void **state)
{
	struct cluster *cluster = NULL;
	struct err err = {0};
	fake.result = -ENOPKG;
	assert_int_equal(cluster_new(&rig_options, &cluster, &err), 0);
	assert_string_equal(cluster_problem(cluster), "cannot");
	assert_int_equal(cluster_publish(cluster, NULL, &err), -ENOTCONN);
	assert_string_equal(err.text, "cannot");
	assert_null(cluster_free(cluster));
	fake.result = -ENOMEM;
	assert_int_equal(cluster_new(&rig_options, &cluster, &err), -ENOMEM);
}

static void test_events(void **state)
{
	struct cluster *cluster = *state;
	cluster_labels(cluster, "the node's label x is y");
	assert_string_equal(fake.last, "Normal NodeLabels: the node's label x is y: nothing is "
				       "handed out to the kubelet");
	cluster_labels(cluster, "");
	assert_non_null(strstr(fake.last, "no label of the node keeps devices"));
	fake.events = 0;
	cluster_configuration(cluster, RELOAD_MISSING, "specified config x does not exist");
	assert_string_equal(fake.last,
			    "Warning ConfigurationMissing: specified config x does not exist");
	cluster_configuration(cluster, RELOAD_REFUSED, "a:1:2: no");
	assert_string_equal(fake.last, "Warning ConfigurationRefused: the configuration was "
				       "refused, the one before stays: a:1:2: no");
	cluster_configuration(cluster, RELOAD_APPLIED, "");
	assert_string_equal(fake.last,
			    "Normal ConfigurationApplied: the configuration is built in");
	cluster_no_injection(cluster, "enable CDI");
	assert_string_equal(fake.last, "Warning NoInjection: containers get no driver: enable CDI");
	cluster_verdict(cluster, "GPU-1", 3, HEALTH_HEALTHY, HEALTH_UNHEALTHY, "XID 79");
	assert_string_equal(fake.last, "Warning GPUUnhealthy: GPU 3 (GPU-1) is unhealthy and gets "
				       "no new containers: XID 79");
	cluster_verdict(cluster, "GPU-1", 3, HEALTH_UNHEALTHY, HEALTH_DEGRADED, "");
	assert_string_equal(fake.last, "Normal GPUHealthy: GPU 3 (GPU-1) may be used again");
	assert_int_equal(fake.events, 6);
	/* What does not change whether it is handed out is no Event. */
	cluster_verdict(cluster, "GPU-1", 3, HEALTH_DEGRADED, HEALTH_HEALTHY, "");
	cluster_verdict(cluster, "GPU-1", 3, HEALTH_HEALTHY, HEALTH_DEGRADED, "XID 63");
	assert_int_equal(fake.events, 6);
	cluster_policy(cluster, "mig strategy");
	cluster_policy(cluster, "mig strategy");
	assert_int_equal(fake.events, 7);
	assert_string_equal(fake.last, "Warning NoDevices: mig strategy");
	cluster_policy(cluster, "");
	cluster_policy(cluster, "mig strategy");
	assert_int_equal(fake.events, 8);
}

/* Whatever goes wrong, the API server is not flooded. */
static void test_the_same_event_at_a_bounded_rate(void **state)
{
	struct cluster *cluster = *state;
	fake.events = 0;
	for (unsigned i = 0; i < 10000; i++)
		cluster_verdict(cluster, "", 2, HEALTH_UNKNOWN, HEALTH_UNHEALTHY, "lost");
	assert_int_equal(fake.events, REPEATS_BURST);
	cluster_verdict(cluster, "", 3, HEALTH_UNKNOWN, HEALTH_UNHEALTHY, "lost");
	assert_int_equal(fake.events, REPEATS_BURST + 1);
	assert_int_equal(loop_advance(rig_options.loop, REPEATS_EVERY_NS, NULL), 0);
	for (unsigned i = 0; i < 10000; i++)
		cluster_verdict(cluster, "", 2, HEALTH_UNKNOWN, HEALTH_UNHEALTHY, "lost");
	assert_int_equal(fake.events, REPEATS_BURST + 2);
	assert_non_null(strstr(fake.last, "lost (and 9990 times more)"));
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    RIG_TEST(test_whether_there_is_one),
	    RIG_TEST(test_without_one),
	    RIG_TEST(test_one_that_is_not_installed),
	    RIG_TEST(test_events),
	    RIG_TEST(test_the_same_event_at_a_bounded_rate),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
