/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/document.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

#define HEAD(version) "cdiVersion: " version "\nkind: acme.com/gpu\n"
#define DEVICE(edits) "devices: [{name: a, containerEdits: {" edits "}}]\n"
#define NODE	      "deviceNodes: [{path: /dev/a}]"

static void expect_good(const char *text)
{
	_cleanup_document_ struct document document = {0};
	struct err err = {0};
	if (document_parse(text, strlen(text), "x.yaml", &document, &err) < 0)
		fail_msg("%s\n%s", err.text, text);
	assert_non_null(
	    document_find(&document, yaml_get(document.devices->entries[0].value, "name")->text));
}

static void expect_bad(const char *text, const char *why)
{
	struct document document = {0};
	struct err err = {0};
	if (document_parse(text, strlen(text), "x.yaml", &document, &err) != -EINVAL)
		fail_msg("accepted, or another error: %s\n%s", err.text, text);
	if (!strstr(err.text, why) || !strstr(err.text, "x.yaml:"))
		fail_msg("'%s' is not in: %s", why, err.text);
	assert_null(document.yaml);
}

static void test_json_and_yaml(void **state)
{
	(void)state;
	static const char text[] =
	    "{\"cdiVersion\": \"0.5.0\", \"kind\": \"nvidia.com/gpu\", \"devices\": [\n"
	    "{\"name\": \"0:1\", \"containerEdits\": {\"deviceNodes\": [{\"path\": \"/dev/a\","
	    " \"hostPath\": \"/x/dev/a\", \"type\": \"c\", \"major\": 195, \"minor\": 0,"
	    " \"fileMode\": 432, \"permissions\": \"rw\", \"uid\": 0, \"gid\": 44}]}}],\n"
	    "\"containerEdits\": {\"env\": [\"A=\"], \"mounts\": [{\"hostPath\": \"/a\","
	    " \"containerPath\": \"/b\", \"type\": \"bind\", \"options\": [\"ro\"]}],"
	    " \"hooks\": [{\"hookName\": \"prestart\", \"path\": \"/bin/true\", \"args\": [\"x\"],"
	    " \"env\": [\"A=1\"], \"timeout\": 3}]}}\n";
	_cleanup_document_ struct document document = {0};
	struct err err = {0};
	if (document_parse(text, strlen(text), "a.json", &document, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(document.version, "0.5.0");
	assert_string_equal(document.kind, "nvidia.com/gpu");
	assert_non_null(document_find(&document, "0:1"));
	assert_null(document_find(&document, "0"));
	expect_good(HEAD("v0.3.0") DEVICE(NODE));
	expect_good(HEAD("1.1.0") DEVICE("netDevices: [{hostInterfaceName: e, name: f}]"));
	expect_good(HEAD("0.3.0") DEVICE("env: [A=b], hooks: null"));
}

/* One case for each rule. */
static void test_lowest_version(void **state)
{
	(void)state;
	static const struct {
		const char *version, *before, *rest;
	} cases[] = {
	    {"0.4.0", "0.3.0", DEVICE("mounts: [{hostPath: /a, containerPath: /b, type: bind}]")},
	    {"0.5.0", "0.4.0", DEVICE("deviceNodes: [{path: /dev/a, hostPath: /dev/b}]")},
	    {"0.5.0", "0.4.0", "devices: [{name: 0, containerEdits: {" NODE "}}]\n"},
	    {"0.6.0", "0.5.0", DEVICE(NODE) "annotations: {a: b}\n"},
	    {"0.6.0", "0.5.0",
	     "devices: [{name: a, annotations: {a: b}, containerEdits: {" NODE "}}]\n"},
	    {"0.7.0", "0.6.0", DEVICE("additionalGids: [5]")},
	    {"0.7.0", "0.6.0", DEVICE("intelRdt: {closID: a, enableCMT: true}")},
	    {"1.1.0", "1.0.0", DEVICE("intelRdt: {schemata: [a]}")},
	    {"1.1.0", "1.0.0", DEVICE("intelRdt: {enableMonitoring: false}")},
	    {"1.1.0", "1.0.0", DEVICE("netDevices: [{hostInterfaceName: e, name: f}]")},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[512];
		(void)snprintf(text, sizeof(text), "cdiVersion: %s\nkind: acme.com/gpu\n%s",
			       cases[i].version, cases[i].rest);
		expect_good(text);
		(void)snprintf(text, sizeof(text), "cdiVersion: %s\nkind: acme.com/gpu\n%s",
			       cases[i].before, cases[i].rest);
		expect_bad(text, cases[i].version);
	}
	expect_bad("cdiVersion: 0.5.0\nkind: acme.com/g.pu\n" DEVICE(NODE), "0.6.0");
	expect_good("cdiVersion: 0.6.0\nkind: acme.com/g.pu\n" DEVICE(NODE));
}

static void test_refuses(void **state)
{
	(void)state;
	static const struct {
		const char *text, *why;
	} cases[] = {
	    {"[]", "specification: has to be a map"},
	    {HEAD("0.2.0") DEVICE(NODE), "cdiVersion: has to be a version"},
	    {HEAD("2.0.0") DEVICE(NODE), "cdiVersion: has to be a version"},
	    {"kind: a/b\n" DEVICE(NODE), "needs 'cdiVersion'"},
	    {HEAD("0.5.0"), "needs 'devices'"},
	    {HEAD("0.5.0") "devices: []\n", "at least one device"},
	    {HEAD("0.5.0") "extra: 1\n" DEVICE(NODE),
	     "x.yaml:3:1: specification: has no such field"},
	    {HEAD("0.5.0") DEVICE("deviceNode: []"), "containerEdits: has no such field"},
	    {HEAD("0.5.0") DEVICE(""), "has to change something"},
	    {HEAD("0.5.0") DEVICE("mounts: []"), "has to change something"},
	    {HEAD("0.5.0") "devices: [{name: a}]\n", "needs 'containerEdits'"},
	    {HEAD("0.5.0") "devices: [{name: a, containerEdits: {" NODE
			   "}}, {name: a, containerEdits: {" NODE "}}]\n",
	     "each device once"},
	    {"cdiVersion: 0.5.0\nkind: gpu\n" DEVICE(NODE), "has to be VENDOR/CLASS"},
	    {HEAD("0.5.0") "devices: [{name: a/b, containerEdits: {" NODE "}}]\n",
	     "name of a device"},
	    {HEAD("0.5.0") DEVICE("env: ['=b']"), "NAME=VALUE"},
	    {HEAD("0.5.0") DEVICE("env: [A]"), "NAME=VALUE"},
	    {HEAD("0.5.0") DEVICE("deviceNodes: [{hostPath: /dev/a}]"), "needs 'path'"},
	    {HEAD("0.5.0") DEVICE("deviceNodes: [{path: dev/a}]"), "absolute path"},
	    {HEAD("0.5.0") DEVICE("deviceNodes: [{path: /dev/../a}]"), "without '..'"},
	    {HEAD("0.5.0") DEVICE("deviceNodes: [{path: /dev/a, permissions: rwx}]"),
	     "'r', 'w', 'm'"},
	    {HEAD("0.5.0") DEVICE("deviceNodes: [{path: /dev/a, type: d}]"), "'b', 'c', 'u'"},
	    {HEAD("0.5.0") DEVICE("deviceNodes: [{path: /dev/a, fileMode: -1}]"),
	     "fileMode: has to be a number, 0 or above"},
	    {HEAD("0.5.0") DEVICE("deviceNodes: [{path: /dev/a, fileMode: '0660'}]"),
	     "has to be a number"},
	    {HEAD("0.5.0") DEVICE("mounts: [{hostPath: /a/.., containerPath: /b}]"),
	     "without '..'"},
	    {HEAD("0.5.0") DEVICE("mounts: [{hostPath: /a}]"), "needs 'containerPath'"},
	    {HEAD("0.5.0") DEVICE("hooks: [{hookName: boot, path: /a}]"), "stage of a hook"},
	    {HEAD("0.5.0") DEVICE("hooks: [{hookName: prestart, path: a}]"), "absolute path"},
	    {HEAD("0.5.0") DEVICE("hooks: [{hookName: prestart, path: /a, timeout: 0}]"),
	     "above 0"},
	    {HEAD("0.5.0") "devices: {a: b}\n", "has to be a list"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		expect_bad(cases[i].text, cases[i].why);
}

static void test_names(void **state)
{
	(void)state;
	static const char *const kinds[] = {"nvidia.com/gpu", "k8s.device-plugin.nvidia.com/gpu",
					    "a/b", "sluice.sim/gpu", "a_b/c-1"};
	static const char *const no_kinds[] = {"",     "/",    "a/",	"/b",	 "1a/b", "a/1b",
					       "a./b", "a/b-", "a/b/c", "a b/c", "a=/b"};
	static const char *const devices[] = {"0", "0:1", "all", "GPU-51ce51ce-0", "a.b_c"};
	static const char *const no_devices[] = {"", "-a", "a-", "a/b", "a b", ":1", "a=b", "a\n"};
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		assert_true(document_is_kind(kinds[i]));
	for (size_t i = 0; i < sizeof(no_kinds) / sizeof(no_kinds[0]); i++)
		assert_false(document_is_kind(no_kinds[i]));
	char longest[DOCUMENT_NAME_MAX + 1];
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	longest[100] = '/';
	assert_false(document_is_kind(longest));
	assert_true(document_is_kind(longest + 1));
	for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++)
		assert_true(document_is_device(devices[i]));
	for (size_t i = 0; i < sizeof(no_devices) / sizeof(no_devices[0]); i++)
		assert_false(document_is_device(no_devices[i]));
}

static int parse_again(void *context)
{
	(void)context;
	static const char text[] = HEAD("0.5.0") DEVICE(NODE);
	_cleanup_document_ struct document document = {0};
	return document_parse(text, strlen(text), "x.yaml", &document, NULL);
}

static void test_without_memory(void **state)
{
	(void)state;
	assert_true(failmalloc_each(parse_again, NULL) > 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_json_and_yaml),  cmocka_unit_test(test_lowest_version),
	    cmocka_unit_test(test_refuses),	   cmocka_unit_test(test_names),
	    cmocka_unit_test(test_without_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
