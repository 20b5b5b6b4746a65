/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/scan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
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

static void put(const char *name, const char *kind, const char *device)
{
	char text[512];
	(void)snprintf(text, sizeof(text),
		       "cdiVersion: 0.5.0\nkind: %s\ndevices:\n- name: %s\n  containerEdits:\n"
		       "    env: [A=b]\n",
		       kind, device);
	unit_write(unit_path(unit_top, name), text);
}

static void expect(const struct scan *scan, const char *name, enum scan_state state,
		   const char *file, const char *other)
{
	const struct scan_file *found, *second;
	enum scan_state is = scan_find(scan, name, &found, &second);
	if (is != state)
		fail_msg("%s: %s", name, scan_state_to_string(is));
	assert_int_equal(!found, !file);
	assert_int_equal(!second, !other);
	if (file)
		assert_string_equal(found->path, unit_path(unit_top, file));
	if (other)
		assert_string_equal(second->path, unit_path(unit_top, other));
}

static void test_finds_devices(void **state)
{
	(void)state;
	put("etc/cdi/b.yaml", "nvidia.com/gpu", "0");
	put("etc/cdi/a.json", "acme.com/nic", "x");
	put("var/run/cdi/c.yaml", "nvidia.com/gpu", "1");
	put("etc/cdi/readme.txt", "nvidia.com/gpu", "2");
	put("etc/cdi/.yaml", "nvidia.com/gpu", "2");
	assert_int_equal(mkdir(unit_path(unit_top, "etc/cdi/sub.yaml"), 0755), 0);
	put("etc/cdi/sub.yaml/d.yaml", "nvidia.com/gpu", "2");
	assert_int_equal(mkfifo(unit_path(unit_top, "etc/cdi/fifo.yaml"), 0644), 0);
	_cleanup_scan_ struct scan scan = {0};
	assert_int_equal(scan_read(unit_top, &scan, NULL), 0);
	assert_int_equal(scan.count, 3);
	assert_string_equal(scan.files[0].kind, "acme.com/nic");
	expect(&scan, "nvidia.com/gpu=0", SCAN_FOUND, "etc/cdi/b.yaml", NULL);
	expect(&scan, "nvidia.com/gpu=1", SCAN_FOUND, "var/run/cdi/c.yaml", NULL);
	expect(&scan, "nvidia.com/gpu=2", SCAN_NO_DEVICE, NULL, NULL);
	expect(&scan, "amd.com/gpu=0", SCAN_NO_KIND, NULL, NULL);
	expect(&scan, "/dev/nvidia0", SCAN_NO_NAME, NULL, NULL);
	expect(&scan, "nvidia.com/gpu=", SCAN_NO_NAME, NULL, NULL);
	expect(&scan, "gpu=0", SCAN_NO_NAME, NULL, NULL);
}

static void test_priority_and_conflict(void **state)
{
	(void)state;
	put("etc/cdi/a.yaml", "nvidia.com/gpu", "0");
	put("etc/cdi/b.yaml", "nvidia.com/gpu", "0");
	_cleanup_scan_ struct scan twice = {0}, higher = {0}, both = {0};
	assert_int_equal(scan_read(unit_top, &twice, NULL), 0);
	expect(&twice, "nvidia.com/gpu=0", SCAN_CONFLICT, "etc/cdi/b.yaml", "etc/cdi/a.yaml");
	put("var/run/cdi/c.yaml", "nvidia.com/gpu", "0");
	assert_int_equal(scan_read(unit_top, &higher, NULL), 0);
	/* as the CDI project's package has it */
	expect(&higher, "nvidia.com/gpu=0", SCAN_CONFLICT, "etc/cdi/b.yaml", "etc/cdi/a.yaml");
	unlink(unit_path(unit_top, "etc/cdi/a.yaml"));
	_cleanup_scan_ struct scan one = {0};
	assert_int_equal(scan_read(unit_top, &one, NULL), 0);
	expect(&one, "nvidia.com/gpu=0", SCAN_FOUND, "var/run/cdi/c.yaml", NULL);
	put("var/run/cdi/d.json", "nvidia.com/gpu", "0");
	assert_int_equal(scan_read(unit_top, &both, NULL), 0);
	expect(&both, "nvidia.com/gpu=0", SCAN_CONFLICT, "var/run/cdi/d.json",
	       "var/run/cdi/c.yaml");
}

static void test_broken_files_lose_only_their_devices(void **state)
{
	(void)state;
	put("etc/cdi/good.yaml", "nvidia.com/gpu", "0");
	unit_write(unit_path(unit_top, "etc/cdi/bad.yaml"),
		   "cdiVersion: 0.5.0\nkind: acme.com/nic\nnonsense: 1\n");
	unit_write(unit_path(unit_top, "etc/cdi/garbage.json"), "{");
	assert_int_equal(symlink("nowhere", unit_path(unit_top, "etc/cdi/link.yaml")), 0);
	_cleanup_scan_ struct scan scan = {0};
	assert_int_equal(scan_read(unit_top, &scan, NULL), 0);
	assert_int_equal(scan.count, 4);
	assert_non_null(
	    strstr(scan.files[0].why, "bad.yaml:3:1: specification: has no such field"));
	assert_string_equal(scan.files[0].kind, "acme.com/nic");
	assert_non_null(strstr(scan.files[1].why, "garbage.json"));
	assert_string_equal(scan.files[1].kind, "");
	assert_string_equal(scan.files[2].why, "");
	assert_non_null(strstr(scan.files[3].why, "link.yaml"));
	expect(&scan, "nvidia.com/gpu=0", SCAN_FOUND, "etc/cdi/good.yaml", NULL);
	expect(&scan, "acme.com/nic=0", SCAN_NO_KIND, NULL, NULL);
}

static void test_what_we_may_write(void **state)
{
	(void)state;
	char own[FILE_PATH_MAX];
	const struct scan_file *foreign;
	assert_int_equal(file_path(own, NULL, "%s/var/run/cdi/nvidia.com-gpu.json", unit_top), 0);
	put("var/run/cdi/nvidia.com-gpu.json", "nvidia.com/gpu", "0");
	_cleanup_scan_ struct scan alone = {0}, beside = {0}, broken = {0};
	assert_int_equal(scan_read(unit_top, &alone, NULL), 0);
	assert_true(scan_may_write(&alone, "nvidia.com/gpu", own, &foreign));
	assert_null(foreign);

	/* Of another device, and in the other directory: the kind is theirs. */
	put("etc/cdi/nvidia.yaml", "nvidia.com/gpu", "7");
	put("etc/cdi/odd.yaml", "sluice.dev/gpu", "7");
	assert_int_equal(scan_read(unit_top, &beside, NULL), 0);
	assert_false(scan_may_write(&beside, "nvidia.com/gpu", own, &foreign));
	assert_string_equal(foreign->path, unit_path(unit_top, "etc/cdi/nvidia.yaml"));
	assert_true(scan_may_write(&beside, "k8s.device-plugin.nvidia.com/gpu", own, NULL));
	assert_true(scan_may_write(&beside, "sluice.dev/gpu", own, NULL));
	assert_true(scan_may_write(&beside, "sluice.sim/gpu", own, NULL));

	/* Its writer may be about to repair it. */
	unit_write(unit_path(unit_top, "etc/cdi/nvidia.yaml"), "kind: nvidia.com/gpu\n");
	assert_int_equal(scan_read(unit_top, &broken, NULL), 0);
	assert_false(scan_may_write(&broken, "nvidia.com/gpu", own, NULL));
}

static void test_all_devices(void **state)
{
	(void)state;
	put("etc/cdi/a.yaml", "nvidia.com/gpu", "10");
	put("etc/cdi/b.yaml", "nvidia.com/gpu", "2");
	put("etc/cdi/c.yaml", "nvidia.com/gpu", "2");
	put("etc/cdi/d.yaml", "acme.com/nic", "x");
	put("etc/cdi/e.yaml", "acme.com/nic", "y");
	put("etc/cdi/f.yaml", "acme.com/nic", "y");
	put("etc/cdi/g.yaml", "acme.com/nic", "z");
	put("var/run/cdi/c.yaml", "acme.com/nic", "y");
	put("var/run/cdi/d.yaml", "acme.com/nic", "z");
	unit_write(unit_path(unit_top, "var/run/cdi/bad.yaml"), "kind: acme.com/nic\n");
	static const struct {
		const char *name, *file, *other;
		enum scan_state state;
	} expected[] = {
	    {"x", "etc/cdi/d.yaml", NULL, SCAN_FOUND},
	    {"y", "var/run/cdi/c.yaml", "etc/cdi/f.yaml", SCAN_CONFLICT},
	    {"y", "etc/cdi/e.yaml", "etc/cdi/f.yaml", SCAN_CONFLICT},
	    {"y", "etc/cdi/f.yaml", "etc/cdi/e.yaml", SCAN_CONFLICT},
	    {"z", "var/run/cdi/d.yaml", NULL, SCAN_FOUND},
	    {"z", "etc/cdi/g.yaml", "var/run/cdi/d.yaml", SCAN_HIDDEN},
	    {"2", "etc/cdi/b.yaml", "etc/cdi/c.yaml", SCAN_CONFLICT},
	    {"2", "etc/cdi/c.yaml", "etc/cdi/b.yaml", SCAN_CONFLICT},
	    {"10", "etc/cdi/a.yaml", NULL, SCAN_FOUND},
	};
	_cleanup_scan_ struct scan scan = {0};
	_cleanup_free_ struct scan_device *devices = NULL;
	size_t count;
	assert_int_equal(scan_read(unit_top, &scan, NULL), 0);
	assert_int_equal(scan.directory_count, 2);
	assert_string_equal(scan.directories[1], unit_path(unit_top, "var/run/cdi"));
	assert_int_equal(scan_devices(&scan, &devices, &count, NULL), 0);
	assert_int_equal(count, array_length(expected));
	for (size_t i = 0; i < count; i++) {
		assert_string_equal(devices[i].name, expected[i].name);
		assert_string_equal(devices[i].file->path, unit_path(unit_top, expected[i].file));
		assert_int_equal(devices[i].state, expected[i].state);
		assert_int_equal(!devices[i].other, !expected[i].other);
		if (expected[i].other)
			assert_string_equal(devices[i].other->path,
					    unit_path(unit_top, expected[i].other));
		bool is_second = strcmp(expected[i].file, "etc/cdi/f.yaml") == 0 ||
				 strcmp(expected[i].file, "etc/cdi/c.yaml") == 0;
		assert_int_equal(scan_is_second(&devices[i]), is_second);
	}
}

static void test_other_directories(void **state)
{
	(void)state;
	char first[FILE_PATH_MAX], second[FILE_PATH_MAX];
	put("etc/cdi/a.yaml", "nvidia.com/gpu", "0");
	put("var/run/cdi/b.yaml", "nvidia.com/gpu", "0");
	assert_int_equal(file_path(first, NULL, "%s/var/run/cdi", unit_top), 0);
	assert_int_equal(file_path(second, NULL, "%s/etc/cdi", unit_top), 0);
	const char *const directories[SCAN_DIRECTORIES_MAX + 1] = {first, second};
	_cleanup_scan_ struct scan scan = {0};
	assert_int_equal(scan_read_directories(directories, 2, &scan, NULL), 0);
	expect(&scan, "nvidia.com/gpu=0", SCAN_FOUND, "etc/cdi/a.yaml", NULL);
	assert_int_equal(scan_read_directories(directories, SCAN_DIRECTORIES_MAX + 1, &scan, NULL),
			 -E2BIG);
}

/* As a DRA driver leaves one for each of a node's claims. */
static void test_many_files(void **state)
{
	(void)state;
	if (getenv("FAILMALLOC_AT"))
		skip(); /* nothing of its own fails, and it would take the time of the others */
	char name[64];
	struct err err = {0};
	for (int i = 0; i < SCAN_FILES_MAX; i++) {
		(void)snprintf(name, sizeof(name), "etc/cdi/claim%d.yaml", i);
		put(name, "k8s.acme.com/claim", name + strlen("etc/cdi/claim"));
		if (i == 511) {
			_cleanup_scan_ struct scan half = {0};
			assert_int_equal(scan_read(unit_top, &half, NULL), 0);
			assert_int_equal(half.count, 512);
		}
	}
	_cleanup_scan_ struct scan scan = {0};
	assert_int_equal(scan_read(unit_top, &scan, NULL), 0);
	assert_int_equal(scan.count, SCAN_FILES_MAX);
	struct scan more = {0};
	put("var/run/cdi/a.yaml", "acme.com/nic", "0");
	assert_int_equal(scan_read(unit_top, &more, &err), -E2BIG);
	assert_non_null(strstr(err.text, "/var/run/cdi/a.yaml': more than 1024 CDI files"));
	put("etc/cdi/z.yaml", "acme.com/nic", "0");
	assert_int_equal(scan_read(unit_top, &more, &err), -E2BIG);
	assert_non_null(strstr(err.text, "/etc/cdi': more than 1024 CDI files"));
}

/* As 4096 devices with three nodes each: more than a configuration may have. */
static void test_large_file(void **state)
{
	(void)state;
	struct buf text;
	buf_init(&text, 8 << 20);
	assert_int_equal(buf_add_text(&text, "cdiVersion: 0.5.0\nkind: acme.com/nic\ndevices:\n"),
			 0);
	for (int i = 0; i < DOCUMENT_DEVICES_MAX; i++) {
		assert_int_equal(
		    buf_printf(&text, "- name: %d\n  containerEdits:\n    deviceNodes:\n", i), 0);
		for (int j = 0; j < 5; j++)
			assert_int_equal(buf_printf(&text,
						    "    - path: /dev/acme%d-%d\n"
						    "      permissions: rw\n",
						    i, j),
					 0);
	}
	assert_true(text.length > YAML_TEXT_MAX && text.length < DOCUMENT_TEXT_MAX);
	unit_write(unit_path(unit_top, "etc/cdi/large.yaml"), buf_text(&text));
	while (text.length < DOCUMENT_TEXT_MAX + 1)
		assert_int_equal(buf_add_text(&text, "# and more of it\n"), 0);
	unit_write(unit_path(unit_top, "etc/cdi/larger.yaml"), buf_text(&text));
	buf_done(&text);
	_cleanup_scan_ struct scan scan = {0};
	assert_int_equal(scan_read(unit_top, &scan, NULL), 0);
	assert_string_equal(scan.files[0].why, "");
	assert_int_equal(scan.files[1].code, -EFBIG);
	expect(&scan, "acme.com/nic=4095", SCAN_FOUND, "etc/cdi/large.yaml", NULL);
}

static void test_nothing_there(void **state)
{
	(void)state;
	_cleanup_scan_ struct scan scan = {0};
	assert_int_equal(scan_read(unit_path(unit_top, "missing"), &scan, NULL), 0);
	assert_int_equal(scan.count, 0);
	expect(&scan, "nvidia.com/gpu=0", SCAN_NO_KIND, NULL, NULL);
}

static int scan_again(void *context)
{
	(void)context;
	_cleanup_scan_ struct scan scan = {0};
	_cleanup_free_ struct scan_device *devices = NULL;
	size_t count;
	int rc = scan_read(unit_top, &scan, NULL);
	return rc < 0 ? rc : scan_devices(&scan, &devices, &count, NULL);
}

static void test_without_memory(void **state)
{
	(void)state;
	put("etc/cdi/b.yaml", "nvidia.com/gpu", "0");
	put("etc/cdi/c.yaml", "nvidia.com/gpu", "1");
	assert_true(failmalloc_each(scan_again, NULL) > 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_finds_devices, setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_priority_and_conflict, setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_broken_files_lose_only_their_devices, setup,
					    unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_what_we_may_write, setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_all_devices, setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_other_directories, setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_many_files, setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_large_file, setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_nothing_there, setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_without_memory, setup, unit_top_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
