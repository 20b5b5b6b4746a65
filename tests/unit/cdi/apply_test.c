/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/apply.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/file.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

static int setup(void **state)
{
	assert_int_equal(unit_top_setup(state), 0);
	assert_int_equal(file_mkdirs(unit_path(unit_top, "etc/cdi"), 0755, NULL), 0);
	assert_int_equal(file_mkdirs(unit_path(unit_top, "var/run/cdi"), 0755, NULL), 0);
	return 0;
}

/* A file of kind acme.com/x: what it gives to all, and devices; YAML of one line each. */
static void put(const char *name, const char *edits, const char *devices)
{
	char text[4096];
	assert_true((size_t)snprintf(text, sizeof(text),
				     "{cdiVersion: 1.1.0, kind: acme.com/x, containerEdits: {%s},"
				     " devices: [%s]}\n",
				     edits, devices) < sizeof(text));
	unit_write(unit_path(unit_top, name), text);
}

static json_t *json(const char *text)
{
	json_t *value = json_loads(text, 0, NULL);
	assert_non_null(value);
	return value;
}

static void expect_json(const json_t *value, const char *wanted)
{
	json_auto_t *want = json(wanted);
	if (json_equal(value, want))
		return;
	char *text = json_dumps(value, JSON_ENCODE_ANY);
	fail_msg("%s\nis not\n%s", text, wanted);
}

/* Applies "a" or "a b" (devices of acme.com/x) to a configuration; again must change nothing. */
static json_t *apply(const char *config_text, size_t count, const char *const *names)
{
	_cleanup_scan_ struct scan scan = {0};
	struct err err = {0};
	assert_int_equal(scan_read(unit_top, &scan, NULL), 0);
	json_auto_t *config = json(config_text);
	json_auto_t *before = json(config_text);
	json_t *once = NULL;
	if (apply_devices(&scan, names, count, NULL, config, &once, &err) < 0)
		fail_msg("%s", err.text);
	assert_true(json_equal(config, before));
	json_auto_t *twice = NULL;
	assert_int_equal(apply_devices(&scan, names, count, NULL, once, &twice, &err), 0);
	char *first = json_dumps(once, 0), *second = json_dumps(twice, 0);
	assert_non_null(first);
	assert_non_null(second);
	assert_string_equal(first, second);
	free(first);
	free(second);
	return once;
}

static json_t *apply_one(const char *config)
{
	return apply(config, 1, (const char *[]){"acme.com/x=a"});
}

static void expect_error(int code, const char *name, const char *config_text, const char *says)
{
	_cleanup_scan_ struct scan scan = {0};
	struct err err = {0};
	assert_int_equal(scan_read(unit_top, &scan, NULL), 0);
	json_auto_t *config = json(config_text);
	json_t *out = NULL;
	int rc = apply_devices(&scan, &name, 1, NULL, config, &out, &err);
	assert_null(out);
	if (rc != code || !strstr(err.text, says))
		fail_msg("%d: %s", rc, err.text);
}

static void test_env_is_replaced_in_its_place(void **state)
{
	(void)state;
	put("etc/cdi/x.yaml", "env: [B=all, C=all]",
	    "{name: a, containerEdits: {env: [C=own, D=]}}");
	json_auto_t *out = apply_one(
	    "{\"process\": {\"env\": [\"A=1\", \"B=2\", \"BB=3\", \"B=4\", \"C\", 7]}, \"x\": 1}");
	expect_json(out, "{\"process\": {\"env\": [\"A=1\", \"B=all\", \"BB=3\", \"C=own\", 7,"
			 "\"D=\"]}, \"x\": 1}");
	json_auto_t *fresh = apply_one("{\"process\": {\"env\": null}}");
	expect_json(fresh, "{\"process\": {\"env\": [\"B=all\", \"C=own\", \"D=\"]}}");
}

/* In the order asked, a file's own edits before those of its first device. */
static void test_order(void **state)
{
	(void)state;
	put("etc/cdi/x.yaml", "env: [A=all]",
	    "{name: a, containerEdits: {env: [E=a]}}, {name: b, containerEdits: {env: [E=b, "
	    "A=b]}}");
	json_auto_t *ab = apply("{}", 2, (const char *[]){"acme.com/x=a", "acme.com/x=b"});
	expect_json(ab, "{\"process\": {\"env\": [\"A=b\", \"E=b\"]}}");
	json_auto_t *ba =
	    apply("{}", 3, (const char *[]){"acme.com/x=b", "acme.com/x=a", "acme.com/x=b"});
	expect_json(ba, "{\"process\": {\"env\": [\"A=b\", \"E=a\"]}}");
	json_auto_t *kind = apply("{}", 1, (const char *[]){"acme.com/x"});
	expect_json(kind, "{\"process\": {\"env\": [\"A=all\"]}}");
}

#define RULE(type, major, minor, access)                                                           \
	"{\"allow\": true, \"type\": \"" type "\", \"major\": " major ", \"minor\": " minor        \
	", \"access\": \"" access "\"}"

static void test_nodes_are_found_on_the_machine(void **state)
{
	(void)state;
	put("etc/cdi/x.yaml", "",
	    "{name: a, containerEdits: {deviceNodes: [{path: /dev/acme, hostPath: /dev/null,"
	    " permissions: rw}, {path: /dev/zero, uid: 3, fileMode: 432}]}}");
	json_auto_t *out = apply_one("{\"process\": {\"user\": {\"uid\": 7, \"gid\": 8}}}");
	expect_json(
	    json_object_get(out, "linux"),
	    "{\"devices\": [{\"path\": \"/dev/acme\", \"type\": \"c\", \"major\": 1,"
	    "\"minor\": 3, \"fileMode\": 438, \"uid\": 7, \"gid\": 8}, {\"path\": \"/dev/zero\","
	    "\"type\": \"c\", \"major\": 1, \"minor\": 5, \"fileMode\": 432, \"uid\": 3,"
	    "\"gid\": 8}], \"resources\": {\"devices\": [" RULE("c", "1", "3", "rw") "," RULE(
		"c", "1", "5", "rwm") "]}}");
	json_auto_t *root = apply_one("{\"process\": {\"user\": {\"uid\": 0, \"gid\": 0}}}");
	json_t *first =
	    json_array_get(json_object_get(json_object_get(root, "linux"), "devices"), 0);
	expect_json(first, "{\"path\": \"/dev/acme\", \"type\": \"c\", \"major\": 1, \"minor\": 3,"
			   "\"fileMode\": 438}");
}

static void test_nodes_replace_and_rules_come_last(void **state)
{
	(void)state;
	put("etc/cdi/x.yaml", "",
	    "{name: a, containerEdits: {deviceNodes: ["
	    "{path: /dev/a, type: c, major: 240, permissions: rw},"
	    "{path: /dev/b, type: b, major: 8, minor: 1, gid: 0, permissions: none},"
	    "{path: /dev/u, type: u, major: 241, minor: 2, permissions: r},"
	    "{path: /dev/p, type: p}]}}");
	const char *const rule = RULE("c", "240", "0", "rw");
	char config[1024];
	(void)snprintf(config, sizeof(config),
		       "{\"linux\": {\"devices\": [{\"path\": \"/dev/b\", \"type\": \"c\"},"
		       "{\"path\": \"/dev/o\"}], \"resources\": {\"pids\": 1, \"devices\": [%s,"
		       "{\"allow\": false, \"access\": \"rwm\"}]}}}",
		       rule);
	json_auto_t *out = apply_one(config);
	expect_json(
	    json_object_get(out, "linux"),
	    "{\"devices\": [{\"path\": \"/dev/o\"},"
	    "{\"path\": \"/dev/a\", \"type\": \"c\", \"major\": 240, \"minor\": 0},"
	    "{\"path\": \"/dev/b\", \"type\": \"b\", \"major\": 8, \"minor\": 1, \"gid\": 0},"
	    "{\"path\": \"/dev/u\", \"type\": \"u\", \"major\": 241, \"minor\": 2},"
	    "{\"path\": \"/dev/p\", \"type\": \"p\"}], \"resources\": {\"pids\": 1,"
	    "\"devices\": [{\"allow\": false, \"access\": \"rwm\"}," RULE(
		"c", "240", "0", "rw") "," RULE("c", "241", "2", "r") "]}}");
}

static void test_mounts_are_sorted_by_depth(void **state)
{
	(void)state;
	put("etc/cdi/x.yaml",
	    "mounts: [{hostPath: /etc, containerPath: /a/b/c, options: [ro, rbind]},"
	    "{hostPath: tmpfs, containerPath: /t, type: tmpfs}]",
	    "{name: a, containerEdits: {mounts: [{hostPath: /usr, containerPath: /proc}]}}");
	/* A source that is no path is refused before it comes here. */
	expect_error(-ENODEV, "acme.com/x=a", "{}", "absolute path");
	put("etc/cdi/x.yaml",
	    "mounts: [{hostPath: /etc, containerPath: /a/b/c, options: [ro, rbind]},"
	    "{hostPath: /nowhere, containerPath: /t, type: tmpfs}]",
	    "{name: a, containerEdits: {mounts: [{hostPath: /usr, containerPath: /proc}]}}");
	json_auto_t *out = apply_one(
	    "{\"mounts\": [{\"destination\": \"/dev/pts/x/y\"}, {\"destination\": \"/proc\"},"
	    "{\"destination\": \"/a/b/c\"}, {\"destination\": \"/\"}, {\"destination\": \"/dev\"},"
	    "{\"destination\": \"/a/./b//c/../../\"}, {\"destination\": \"/a/b/c\"}]}");
	expect_json(
	    json_object_get(out, "mounts"),
	    "[{\"destination\": \"/\"}, {\"destination\": \"/dev\"},"
	    "{\"destination\": \"/a/./b//c/../../\"},"
	    "{\"destination\": \"/t\", \"source\": \"/nowhere\", \"type\": \"tmpfs\", \"options\": "
	    "[]},"
	    "{\"destination\": \"/proc\", \"source\": \"/usr\", \"options\": []},"
	    "{\"destination\": \"/a/b/c\", \"source\": \"/etc\", \"options\": [\"ro\", \"rbind\"]},"
	    "{\"destination\": \"/dev/pts/x/y\"}]");
}

static void test_hooks_groups_and_the_rest(void **state)
{
	(void)state;
	put("etc/cdi/x.yaml",
	    "hooks: [{hookName: prestart, path: /bin/h, args: [h, '1'], env: [A=1], timeout: 3},"
	    "{hookName: prestart, path: /bin/i}], additionalGids: [0, 44, 44, 5],"
	    "intelRdt: {closID: c, enableCMT: true, schemata: [x]},"
	    "netDevices: [{hostInterfaceName: eth1, name: n}]",
	    "{name: a, containerEdits: {hooks: [{hookName: poststop, path: /bin/h}]}}");
	json_auto_t *out =
	    apply_one("{\"process\": {\"user\": {\"additionalGids\": [5, 6]}}, \"hooks\":"
		      "{\"prestart\": [{\"path\": \"/bin/mine\"}, {\"path\": \"/bin/i\"}]}}");
	expect_json(
	    out, "{\"process\": {\"user\": {\"additionalGids\": [5, 6, 44]}}, \"hooks\":"
		 "{\"prestart\": [{\"path\": \"/bin/mine\"}, {\"path\": \"/bin/i\"}, {\"path\":"
		 "\"/bin/h\", \"args\": [\"h\", \"1\"], \"env\": [\"A=1\"], \"timeout\": 3}],"
		 "\"poststop\": [{\"path\": \"/bin/h\"}]}, \"linux\": {\"netDevices\": {\"eth1\":"
		 "{\"name\": \"n\"}}, \"intelRdt\": {\"closID\": \"c\", \"enableCMT\": true,"
		 "\"schemata\": [\"x\"]}}}");
}

static void test_says_what_is_missing(void **state)
{
	(void)state;
	put("etc/cdi/x.yaml", "",
	    "{name: a, containerEdits: {deviceNodes: [{path: /dev/no-such-node}]}},"
	    "{name: b, containerEdits: {mounts: [{hostPath: /no/such, containerPath: /x}]}},"
	    "{name: c, containerEdits: {deviceNodes: [{path: /dev/null, type: b}]}},"
	    "{name: d, containerEdits: {deviceNodes: [{path: /etc}]}}");
	unit_write(unit_path(unit_top, "etc/cdi/y.yaml"), "kind: acme.com/y\nnonsense: 1\n");
	expect_error(-ENOENT, "acme.com/x=a", "{}", "device node '/dev/no-such-node'");
	expect_error(-ENOENT, "acme.com/x=b", "{}", "mounts '/no/such'");
	expect_error(-EINVAL, "acme.com/x=c", "{}", "'/dev/null': it is no block device");
	expect_error(-EINVAL, "acme.com/x=d", "{}", "'/etc': it is no device node");
	expect_error(-ENODEV, "acme.com/x=z", "{}", "'acme.com/x=z': no such device");
	expect_error(-ENODEV, "acme.com/z=a", "{}", "'acme.com/z=a': no such kind");
	expect_error(-ENODEV, "acme.com/z", "{}", "'acme.com/z': no such kind");
	expect_error(-ENODEV, "acme.com/y=a", "{}", "y.yaml:2:1: specification: has no such field");
	expect_error(-ENODEV, "/dev/null", "{}", "'/dev/null': not VENDOR/CLASS=NAME");
	put("etc/cdi/w.yaml", "", "{name: a, containerEdits: {env: [A=b]}}");
	expect_error(-ENODEV, "acme.com/x=a", "{}", "claimed by two files");
}

static void test_what_is_no_oci_configuration(void **state)
{
	(void)state;
	put("etc/cdi/x.yaml",
	    "env: [A=b], hooks: [{hookName: prestart, path: /h}], additionalGids: [3],"
	    "mounts: [{hostPath: /, containerPath: /x}]",
	    "{name: a, containerEdits: {deviceNodes: [{path: /dev/null}]}}");
	static const char *const wrong[] = {
	    "{\"process\": 1}",
	    "{\"process\": {\"env\": {}}}",
	    "{\"linux\": []}",
	    "{\"linux\": {\"devices\": \"\"}}",
	    "{\"mounts\": {}}",
	    "{\"linux\": {\"resources\": {\"devices\": 1}}}",
	    "{\"hooks\": []}",
	    "{\"hooks\": {\"prestart\": 0}}",
	    "{\"linux\": {\"resources\": false}}",
	    "{\"process\": {\"user\": {\"additionalGids\": {}}}}",
	};
	for (size_t i = 0; i < array_length(wrong); i++)
		expect_error(-EINVAL, "acme.com/x=a", wrong[i], " is no ");
	expect_error(-EINVAL, "acme.com/x=a", "[]", "it is no object");
}

static bool wants(void *context, const char *kind, const char *path)
{
	assert_string_equal(kind, "acme.com/x");
	return strcmp(path, context) != 0;
}

static void test_a_kind_alone_is_of_the_highest_priority(void **state)
{
	(void)state;
	put("etc/cdi/x.yaml", "env: [A=etc]", "{name: a, containerEdits: {env: [B=1]}}");
	put("var/run/cdi/x.yaml", "env: [A=run]", "{name: a, containerEdits: {env: [B=1]}}");
	json_auto_t *out = apply("{\"process\": {\"env\": []}}", 1, (const char *[]){"acme.com/x"});
	expect_json(out, "{\"process\": {\"env\": [\"A=run\"]}}");
}

static void test_a_filter_leaves_out(void **state)
{
	(void)state;
	put("etc/cdi/x.yaml", "mounts: [{hostPath: /nowhere, containerPath: /x}]",
	    "{name: a, containerEdits: {deviceNodes: [{path: /dev/null}]}}");
	_cleanup_scan_ struct scan scan = {0};
	assert_int_equal(scan_read(unit_top, &scan, NULL), 0);
	const char *name = "acme.com/x=a";
	struct apply_filter filter = {wants, (void *)(uintptr_t) "/x"};
	json_auto_t *config = json("{}");
	json_auto_t *out = NULL;
	assert_int_equal(apply_devices(&scan, &name, 1, &filter, config, &out, NULL), 0);
	assert_null(json_object_get(out, "mounts"));
	assert_non_null(json_object_get(out, "linux"));
}

static int apply_again(void *context)
{
	_cleanup_scan_ struct scan scan = {0};
	int rc = scan_read(unit_top, &scan, NULL);
	if (rc < 0)
		return rc;
	const char *name = "acme.com/x=a";
	json_auto_t *out = NULL;
	return apply_devices(&scan, &name, 1, NULL, context, &out, NULL);
}

static void test_without_memory(void **state)
{
	(void)state;
	put("etc/cdi/x.yaml",
	    "env: [A=b], additionalGids: [3], intelRdt: {closID: c}, netDevices: "
	    "[{hostInterfaceName: e, name: f}], hooks: [{hookName: prestart, path: /h, args: [a]}]",
	    "{name: a, containerEdits: {deviceNodes: [{path: /dev/null}], mounts: "
	    "[{hostPath: /, containerPath: /x, options: [ro]}]}}");
	json_auto_t *config = json(
	    "{\"process\": {\"env\": [\"A=1\", \"B=2\"]}, \"mounts\": [{\"destination\": \"/\"}]}");
	assert_true(failmalloc_each(apply_again, config) > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_env_is_replaced_in_its_place, setup,
					    unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_order, setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_nodes_are_found_on_the_machine, setup,
					    unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_nodes_replace_and_rules_come_last, setup,
					    unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_mounts_are_sorted_by_depth, setup,
					    unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_hooks_groups_and_the_rest, setup,
					    unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_says_what_is_missing, setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_what_is_no_oci_configuration, setup,
					    unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_a_kind_alone_is_of_the_highest_priority, setup,
					    unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_a_filter_leaves_out, setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_without_memory, setup, unit_top_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
