/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/cluster/digest.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "tests/unit/unit.h"

static json_t *facts;
static struct err err;

static int rig_setup(void **state)
{
	facts = json_object();
	err = (struct err){.code = 0};
	return facts ? 0 : -1;
}

static int rig_teardown(void **state)
{
	json_decref(facts);
	return 0;
}

/* The facts, as text; good until the next call. */
static const char *rig_facts(const char *name)
{
	static char *text;
	free(text);
	text = json_dumps(json_object_get(facts, name), JSON_COMPACT | JSON_ENCODE_ANY);
	return text ? text : "(none)";
}

#define OF(text) text, strlen(text)

static void test_groups(void **state)
{
	struct digest_groups groups;
	assert_int_equal(digest_groups(OF("{\"groups\": [{\"name\": \"nvidia.com\"}, 3, "
					  "{\"name\": \"security.openshift.io\"}]}"),
				       &groups, &err),
			 0);
	assert_true(groups.openshift && groups.gpu_operator);
	assert_false(groups.network_operator || groups.images);
	assert_int_equal(digest_groups(OF("{\"groups\": {}}"), &groups, &err), -EBADMSG);
	assert_int_equal(digest_groups(OF("<html>"), &groups, &err), -EBADMSG);
}

static void test_daemonsets(void **state)
{
	char more[DIGEST_CONTINUE_MAX];
	static const char text[] =
	    "{\"metadata\": {\"continue\": \"abc\"}, \"items\": [7, {},"
	    "{\"metadata\": {\"name\": \"gpu-feature-discovery\", \"namespace\": \"g\","
	    "  \"ownerReferences\": [{\"kind\": \"ClusterPolicy\"}]},"
	    " \"spec\": {\"template\": {\"spec\": {\"containers\":"
	    "  [{\"image\": \"nvcr.io/nvidia/k8s-device-plugin:v0.17\"}]}}},"
	    " \"status\": {\"desiredNumberScheduled\": 3, \"numberReady\": 2}},"
	    "{\"metadata\": {\"name\": \"x\"}, \"spec\": {\"template\": {\"spec\": {\"containers\":"
	    "  [{\"image\": \"nvcr.io/nvidia/k8s-device-plugin:v0.17\"}]}}}},"
	    "{\"metadata\": {\"name\": \"kube-sriov-device-plugin\"}}]}";
	assert_int_equal(digest_daemonsets(OF(text), facts, more, &err), 0);
	assert_string_equal(more, "abc");
	assert_string_equal(
	    rig_facts("daemonsets"),
	    "[{\"component\":\"gpu-feature-discovery\",\"namespace\":\"g\","
	    "\"name\":\"gpu-feature-discovery\",\"account\":\"\",\"desired\":3,\"ready\":2,"
	    "\"owner\":\"ClusterPolicy\"},{\"component\":\"nvidia-device-plugin\","
	    "\"namespace\":\"\",\"name\":\"x\",\"account\":\"\",\"desired\":0,\"ready\":0,"
	    "\"owner\":\"\"}]");
	assert_int_equal(digest_daemonsets(OF("{\"items\": 3}"), facts, more, &err), -EBADMSG);
}

static void test_nodes(void **state)
{
	char more[DIGEST_CONTINUE_MAX] = "x";
	static const char text[] =
	    "{\"items\": [{\"metadata\": {\"name\": \"a\"}, \"status\": {\"capacity\":"
	    " {\"nvidia.com/gpu\": \"8\", \"cpu\": \"4\", \"hugepages-2Mi\": \"1\","
	    "  \"attachable-volumes.kubernetes.io/x\": \"2\", \"rdma/ib\": \"1\"},"
	    " \"allocatable\": {\"nvidia.com/gpu\": \"7\", \"cpu\": \"3\"}}}, {}, 5]}";
	assert_int_equal(digest_nodes(OF(text), facts, more, &err), 0);
	assert_string_equal(more, "");
	assert_string_equal(rig_facts("node_count"), "3");
	assert_string_equal(
	    rig_facts("nodes"),
	    "[{\"name\":\"a\",\"ostree\":\"\",\"lacks\":[{\"resource\":\"nvidia.com/gpu\","
	    "\"capacity\":\"8\",\"allocatable\":\"7\"},{\"resource\":\"rdma/ib\","
	    "\"capacity\":\"1\",\"allocatable\":\"\"}]}]");
	/* A second part is added. */
	assert_int_equal(digest_nodes(OF("{\"items\": [{}]}"), facts, more, &err), 0);
	assert_string_equal(rig_facts("node_count"), "4");
}

static void test_a_long_continue(void **state)
{
	char text[DIGEST_CONTINUE_MAX + 64], more[DIGEST_CONTINUE_MAX];
	memset(text, 'a', sizeof(text));
	memcpy(text, "{\"items\": [], \"metadata\": {\"continue\": \"", 40);
	memcpy(text + sizeof(text) - 4, "\"}}", 4);
	assert_int_equal(digest_nodes(OF(text), facts, more, &err), -EBADMSG);
}

static void test_single_objects(void **state)
{
	assert_int_equal(
	    digest_namespace(OF("{\"metadata\": {\"name\": \"n\", \"labels\": "
				"{\"pod-security.kubernetes.io/enforce\": \"baseline\"}}}"),
			     facts, &err),
	    0);
	assert_string_equal(rig_facts("namespace"),
			    "{\"name\":\"n\",\"enforce\":\"baseline\",\"sync\":null}");
	assert_int_equal(digest_review(OF("{\"status\": {\"allowed\": true}}"), facts, &err), 0);
	assert_string_equal(rig_facts("scc"), "{\"allowed\":true}");
	assert_int_equal(digest_review(OF("{\"status\": {}}"), facts, &err), -EBADMSG);
	assert_int_equal(
	    digest_tags(OF("{\"status\": {\"tags\": [{\"tag\": \"1\"}, 2]}}"), facts, &err), 0);
	assert_string_equal(rig_facts("tags"), "[\"1\",\"\"]");
	assert_int_equal(digest_events(OF("{\"items\": []}"), facts, &err), 0);
	assert_string_equal(rig_facts("event"), "null");
}

static void test_policies(void **state)
{
	assert_int_equal(
	    digest_policies(OF("{\"items\": [{\"metadata\": {\"name\": \"p\"}, \"spec\": "
			       "{\"gfd\": {\"enabled\": false}}}]}"),
			    "ClusterPolicy", facts, &err),
	    0);
	assert_int_equal(digest_policies(OF("{\"items\": [{}]}"), "NicClusterPolicy", facts, &err),
			 0);
	const json_t *all = json_object_get(facts, "operators"), *settings;
	assert_int_equal(json_array_size(all), 2);
	assert_int_equal(
	    json_object_set(facts, "on", json_object_get(json_array_get(all, 0), "on")), 0);
	assert_string_equal(rig_facts("on"), "[\"devicePlugin\"]");
	settings = json_object_get(json_array_get(all, 0), "settings");
	assert_true(json_is_false(json_object_get(settings, "labels")));
	assert_true(json_is_null(json_object_get(settings, "config")));
	assert_int_equal(
	    json_object_set(facts, "on", json_object_get(json_array_get(all, 1), "on")), 0);
	assert_string_equal(rig_facts("on"), "[]");
}

#define RIG(test) cmocka_unit_test_setup_teardown(test, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    RIG(test_groups),	       RIG(test_daemonsets),	 RIG(test_nodes),
	    RIG(test_a_long_continue), RIG(test_single_objects), RIG(test_policies),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
