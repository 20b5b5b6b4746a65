/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "tests/unit/doctor/ward.h"

static const char *rig_text;

static int rig_ask(const void *context, struct buf *out, struct err *err)
{
	return rig_text ? buf_add_text(out, rig_text) : err_set(err, -EIO, "no route to it");
}

static const struct doctor_finding *rig_expect(const char *id, enum doctor_status status,
					       const char *text)
{
	rig_text = text;
	ward_options.ask_cluster = rig_ask;
	return ward_expect(id, status);
}

static void test_not_asked(void **state)
{
	static const char *const ids[] = {
	    "cluster.access",	 "cluster.namespace", "cluster.daemonset",
	    "cluster.operators", "cluster.plugins",   "cluster.nodes",
	    "openshift.scc",	 "openshift.toolkit", "time"};
	for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++)
		(void)ward_expect(ids[i], DOCTOR_SKIP);
	/* Said once, and the others do not repeat it. */
	assert_string_equal(rig_expect("cluster.access", DOCTOR_FAIL, NULL)->found,
			    "no route to it");
	assert_string_equal(rig_expect("cluster.access", DOCTOR_FAIL, "[]")->found,
			    "what was found is no JSON");
	/* Nothing that is expected of the facts is there. */
	for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
		rig_text = "{}";
		struct doctor *doctor = ward_run(ids[i]);
		assert_int_equal(doctor_total(doctor, DOCTOR_FAIL), 0);
		assert_int_equal(doctor->count, 1);
	}
}

static void test_clock(void **state)
{
	(void)rig_expect("time", DOCTOR_OK, "{\"skew_s\": 5}");
	(void)rig_expect("time", DOCTOR_OK, "{\"skew_s\": -5}");
	assert_string_equal(rig_expect("time", DOCTOR_WARN, "{\"skew_s\": -6}")->found,
			    "6 s behind the API server's");
	assert_string_equal(rig_expect("time", DOCTOR_WARN, "{\"skew_s\": 6}")->found,
			    "6 s ahead of the API server's");
}

static void test_namespaces(void **state)
{
	(void)rig_expect("cluster.namespace", DOCTOR_OK,
			 "{\"namespace\": {\"name\": \"n\", \"enforce\": null}}");
	(void)rig_expect("cluster.namespace", DOCTOR_FAIL,
			 "{\"namespace\": {\"name\": \"n\", \"enforce\": \"restricted\"}}");
	assert_non_null(strstr(rig_expect("cluster.namespace", DOCTOR_WARN,
					  "{\"openshift\": true, \"namespace\": {\"name\": \"n\"}}")
				   ->do_,
			       "podSecurityLabelSync=false"));
	(void)rig_expect("cluster.namespace", DOCTOR_OK,
			 "{\"openshift\": true, \"namespace\": {\"name\": \"n\", "
			 "\"sync\": \"false\"}}");
}

static void test_policies(void **state)
{
	(void)rig_expect("cluster.operators", DOCTOR_INFO,
			 "{\"operators\": [{\"kind\": \"ClusterPolicy\", \"name\": \"p\", "
			 "\"on\": []}]}");
	assert_string_equal(
	    rig_expect("cluster.operators", DOCTOR_WARN,
		       "{\"operators\": [{\"kind\": \"ClusterPolicy\", \"name\": \"p\", "
		       "\"on\": [\"devicePlugin\", \"gfd\"]}]}")
		->do_,
	    "kubectl patch clusterpolicy p --type merge -p "
	    "'{\"spec\":{\"devicePlugin\":{\"enabled\":false},\"gfd\":{\"enabled\":false}}}'");
}

static void test_plugins(void **state)
{
	/* Those of an operator would come back, those without a node do nothing. */
	(void)rig_expect("cluster.plugins", DOCTOR_OK,
			 "{\"daemonsets\": [{\"component\": \"nvidia-device-plugin\", "
			 "\"owner\": \"ClusterPolicy\", \"desired\": 2}, "
			 "{\"component\": \"rdma-shared-device-plugin\", \"desired\": 0}]}");
	/* Where there is no sluice it is no rival, and to delete it would leave nobody. */
	assert_string_equal(
	    rig_expect("cluster.plugins", DOCTOR_INFO,
		       "{\"daemonsets\": [{\"component\": \"rdma-shared-device-plugin\", "
		       "\"namespace\": \"n\", \"name\": \"d\", \"desired\": 1}]}")
		->do_,
	    "");
	(void)rig_expect("cluster.plugins", DOCTOR_WARN,
			 "{\"daemonsets\": [{\"component\": \"sluice\"}, "
			 "{\"component\": \"rdma-shared-device-plugin\", "
			 "\"namespace\": \"n\", "
			 "\"name\": \"d\", \"desired\": 1}]}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    ward_test(test_not_asked), ward_test(test_clock),	ward_test(test_namespaces),
	    ward_test(test_policies),  ward_test(test_plugins),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
