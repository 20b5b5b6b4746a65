/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/migrate.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "tests/unit/unit.h"

/* What is printed for the settings of a policy; good until the next call. */
static const char *rig_values(const char *kind, const char *settings)
{
	static struct buf out;
	_cleanup_buf_ struct buf text;
	struct err err = {0};
	buf_done(&out);
	buf_init(&out, 10000);
	buf_init(&text, 10000);
	assert_int_equal(buf_printf(&text,
				    "{\"operators\": [{\"kind\": \"%s\", \"settings\": %s}]}", kind,
				    settings),
			 0);
	json_t *facts = json_loads(buf_text(&text), 0, NULL);
	assert_non_null(facts);
	assert_int_equal(migrate_values(facts, &out, &err), 0);
	json_decref(facts);
	return buf_text(&out);
}

static void test_drivers(void **state)
{
	assert_non_null(
	    strstr(rig_values("ClusterPolicy", "{}"), "root: \"/run/nvidia/driver\"\n"));
	assert_non_null(
	    strstr(rig_values("ClusterPolicy", "{\"driver\": false}"), "root: \"/\"\n"));
	assert_null(strstr(rig_values("ClusterPolicy", "{\"driver\": false}"), "nodeLabel"));
	assert_non_null(strstr(rig_values("ClusterPolicy", "{\"driverRoot\": \"/opt/d\"}"),
			       "root: \"/opt/d\"\n"));
}

static void test_configurations(void **state)
{
	const char *text = rig_values("ClusterPolicy", "{\"migStrategy\": \"mixed\"}");
	assert_non_null(strstr(text, "        migStrategy: mixed\n"));
	/* One that is named has its own. */
	text = rig_values("ClusterPolicy", "{\"migStrategy\": \"mixed\", \"config\": \"c\"}");
	assert_null(strstr(text, "migStrategy"));
	assert_non_null(strstr(text, "  name: \"c\"\n"));
}

/* Nothing that a policy says becomes another key. */
static void test_hostile_policies(void **state)
{
	const char *text =
	    rig_values("ClusterPolicy", "{\"migStrategy\": \"x\\nprofile: full\", "
					"\"priorityClassName\": \"a\\nhostPID: true\", "
					"\"tolerations\": [\"\\u2028\"], \"driverRoot\": 7}");
	assert_null(strstr(text, "profile"));
	assert_null(strstr(text, "\nhostPID"));
	assert_non_null(strstr(text, "tolerations: [\"\\u2028\"]\n"));
	assert_non_null(strstr(text, "root: \"/run/nvidia/driver\"\n"));
}

static void test_rdma(void **state)
{
	assert_non_null(strstr(rig_values("NicClusterPolicy", "{\"rdmaConfig\": \"{}\"}"),
			       "rdma:\n  configMap: rdma-devices\n"));
	assert_null(strstr(rig_values("NicClusterPolicy", "{}"), "configMap"));
}

static void test_nothing_to_take(void **state)
{
	struct buf out;
	struct err err = {0};
	json_t *facts = json_pack("{s:[{s:s}]}", "operators", "kind", "Other");
	buf_init(&out, 1000);
	assert_int_equal(migrate_values(facts, &out, &err), -ENOENT);
	assert_int_equal(migrate_values(NULL, &out, &err), -ENOENT);
	json_decref(facts);
	out.max = 10;
	facts = json_pack("{s:[{s:s}]}", "operators", "kind", "ClusterPolicy");
	assert_int_equal(migrate_values(facts, &out, &err), -ENOSPC);
	json_decref(facts);
	buf_done(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_drivers),	     cmocka_unit_test(test_configurations),
	    cmocka_unit_test(test_hostile_policies), cmocka_unit_test(test_rdma),
	    cmocka_unit_test(test_nothing_to_take),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
