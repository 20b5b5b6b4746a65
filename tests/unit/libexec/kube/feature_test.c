/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/kube/feature.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

static void json_cleanup(json_t **json)
{
	json_decref(*json);
}
#define _json_ _cleanup_(json_cleanup) json_t *

static json_t *parse(const char *text)
{
	return json_loads(text, JSON_DECODE_ANY, NULL);
}

static void test_object(void **state)
{
	(void)state;
	_json_ labels = parse("{\"nvidia.com/gpu.count\": \"8\"}");
	_json_ owners = parse("[{\"kind\": \"Pod\", \"name\": \"p\"}]");
	struct feature_object wish = {.node = "n", .namespace_ = "s", .labels = labels};
	assert_false(feature_is(NULL, &wish));
	_cleanup_free_ char *made = feature_body(NULL, &wish);
	assert_non_null(made);
	_json_ there = parse(made);
	assert_true(feature_is(there, &wish));
	assert_string_equal(
	    made,
	    "{\"apiVersion\":\"nfd.k8s-sigs.io/v1alpha1\",\"kind\":\"NodeFeature\",\"metadata\":{"
	    "\"name\":\"nvidia-features-for-n\",\"namespace\":\"s\",\"labels\":{\"nfd.node."
	    "kubernetes.io/node-name\":\"n\"}},\"spec\":{\"features\":{\"flags\":{},\"attributes\":"
	    "{},\"instances\":{}},\"labels\":{\"nvidia.com/gpu.count\":\"8\"}}}");
	/* What is not ours in it stays. */
	wish.owners = owners;
	assert_false(feature_is(there, &wish));
	json_t *metadata = json_object_get(there, "metadata");
	assert_int_equal(json_object_set_new(metadata, "resourceVersion", json_string("7")), 0);
	_cleanup_free_ char *updated = feature_body(there, &wish);
	assert_non_null(updated);
	assert_non_null(strstr(updated, "\"resourceVersion\":\"7\""));
	_json_ after = parse(updated);
	assert_true(feature_is(after, &wish));
	wish.node = "other";
	assert_false(feature_is(after, &wish));
	/* Things of another shape. */
	static const char *const odd[] = {
	    "{}", "{\"metadata\": 7, \"spec\": []}",
	    "{\"metadata\": {\"labels\": []}, \"spec\": {\"labels\": 1}}"};
	for (size_t i = 0; i < 3; i++) {
		_json_ thing = parse(odd[i]);
		assert_false(feature_is(thing, &wish));
		_cleanup_free_ char *body = feature_body(thing, &wish);
		(void)body;
		assert_null(feature_owners(thing));
		assert_null(feature_release_body(thing));
		assert_false(feature_on_node(thing, labels));
	}
}

static void test_owners(void **state)
{
	(void)state;
	_json_ pod = parse("{\"metadata\": {\"name\": \"p\", \"uid\": \"1\", \"ownerReferences\": ["
			   "{\"kind\": \"Node\", \"name\": \"n\", \"uid\": \"2\"},"
			   "{\"apiVersion\": \"apps/v1\", \"kind\": \"DaemonSet\", \"name\": \"d\","
			   " \"uid\": \"3\", \"blockOwnerDeletion\": true}]}}");
	_json_ expected = parse("[{\"apiVersion\": \"apps/v1\", \"kind\": \"DaemonSet\", \"name\": "
				"\"d\", \"uid\": \"3\", \"controller\": true},"
				"{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"name\": \"p\", "
				"\"uid\": \"1\"}]");
	_json_ owners = feature_owners(pod);
	assert_true(json_equal(owners, expected));
}

static const char node_text[] =
    "{\"metadata\": {\"resourceVersion\": \"9\", \"labels\": {\"a.b/c\": \"1\", \"d.e/f\": \"2\"},"
    "\"annotations\": {\"nfd.node.kubernetes.io/feature-labels\": "
    "\"cpu-x,a.b/c,pci-10de.present\"},"
    "\"managedFields\": [{\"manager\": \"kubelet\", \"operation\": \"Update\"},"
    "{\"manager\": \"sluice-agent\", \"operation\": \"Update\"},"
    "{\"manager\": \"sluice-agent\", \"operation\": \"Apply\"}]}}";

static void test_node(void **state)
{
	(void)state;
	_json_ node = parse(node_text);
	_json_ labels = parse("{\"a.b/c\": \"1\", \"d.e/f\": \"2\", "
			      "\"feature.node.kubernetes.io/pci-10de.present\": \"true\"}");
	_json_ two = parse("{\"a.b/c\": \"1\", \"d.e/f\": \"2\"}");
	_json_ other = parse("{\"a.b/c\": \"2\"}");
	assert_true(feature_on_node(node, two));
	assert_false(feature_on_node(node, labels));
	assert_false(feature_on_node(node, other));
	assert_false(feature_on_node(NULL, other));
	_json_ taken = feature_of_discovery(node, labels);
	assert_int_equal(json_object_size(taken), 2);
	assert_null(json_object_get(taken, "d.e/f"));
	_cleanup_free_ char *forget = feature_forget_body(node, labels);
	assert_non_null(forget);
	assert_string_equal(forget, "{\"metadata\":{\"resourceVersion\":\"9\",\"annotations\":{"
				    "\"nfd.node.kubernetes.io/feature-labels\":\"cpu-x\"}}}");
	/* Nothing is left: it goes, instead of staying as an empty one. */
	_json_ all = parse("{\"a.b/c\": \"1\", \"feature.node.kubernetes.io/cpu-x\": \"1\", "
			   "\"feature.node.kubernetes.io/pci-10de.present\": \"1\"}");
	_cleanup_free_ char *nothing = feature_forget_body(node, all);
	assert_non_null(nothing);
	assert_string_equal(nothing, "{\"metadata\":{\"resourceVersion\":\"9\",\"annotations\":{"
				     "\"nfd.node.kubernetes.io/feature-labels\":null}}}");
	_cleanup_free_ char *release = feature_release_body(node);
	assert_non_null(release);
	assert_string_equal(release,
			    "[{\"op\":\"test\",\"path\":\"/metadata/managedFields/2/manager\","
			    "\"value\":\"sluice-agent\"},{\"op\":\"remove\",\"path\":\"/metadata/"
			    "managedFields/2\"}]");
	_cleanup_free_ char *apply = feature_apply_body("n", other);
	assert_non_null(apply);
	assert_string_equal(apply,
			    "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":"
			    "\"n\",\"labels\":{\"a.b/c\":\"2\"}}}");
}

static int scenario(void *context)
{
	(void)context;
	int rc = -12; /* -ENOMEM */
	_json_ node = parse(node_text);
	_json_ labels = parse("{\"a.b/c\": \"1\"}");
	if (!node || !labels)
		return rc;
	const struct feature_object wish = {.node = "n", .namespace_ = "s", .labels = labels};
	char *texts[] = {feature_body(NULL, &wish), feature_apply_body("n", labels),
			 feature_forget_body(node, labels), feature_release_body(node)};
	_json_ taken = feature_of_discovery(node, labels);
	rc = taken ? 0 : rc;
	for (size_t i = 0; i < 4; i++) {
		rc = texts[i] ? rc : -12;
		free(texts[i]);
	}
	return rc;
}

static void test_no_memory(void **state)
{
	(void)state;
	assert_int_not_equal(failmalloc_each(scenario, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_object),
	    cmocka_unit_test(test_owners),
	    cmocka_unit_test(test_node),
	    cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
