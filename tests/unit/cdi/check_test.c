/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "base/file.h"
#include "tests/unit/cdi/checked.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

#define NIC(name) CHECKED_HEAD("acme.com/nic") CHECKED_DEVICE(name, "/dev/acme")
#define GPU(name) CHECKED_HEAD("nvidia.com/gpu") CHECKED_DEVICE(name, "/dev/nvidia0")

static void test_fresh(void **state)
{
	struct checked *checked = *state;
	checked_node(checked, "/dev/acme");
	checked_write(checked, "/etc/cdi/a.yaml", NIC("x"));
	checked_run(checked, NULL);
	checked_expect(checked, 0, CHECK_NOTE);
	assert_int_equal(checked->check.file_count, 1);
	assert_int_equal(checked->check.device_count, 1);
	checked_run(checked, (const char *const[]){"acme.com/nic=x", NULL});
	checked_expect(checked, 0, CHECK_NOTE);
}

static void test_others_write(void **state)
{
	struct checked *checked = *state;
	const char *file = "/etc/cdi/a.yaml";
	checked_node(checked, "/dev/acme");
	checked_write(checked, file, NIC("x"));
	char path[FILE_PATH_MAX];
	assert_int_equal(file_path(path, NULL, "%s%s", checked->root, file), 0);
	assert_int_equal(chmod(path, 0646), 0);
	checked_run(checked, NULL);
	checked_expect(checked, 1, CHECK_NOTE);
	checked_says(checked, CHECK_OTHERS_WRITE, "a.yaml' can be changed by others than root");
	assert_non_null(strstr(checked_find(checked, CHECK_OTHERS_WRITE)->fix, "chmod go-w "));
	assert_int_equal(chmod(path, 0644), 0);
	*strrchr(path, '/') = '\0';
	assert_int_equal(chmod(path, 0775), 0);
	checked_run(checked, NULL);
	checked_expect(checked, 1, CHECK_NOTE);
	checked_says(checked, CHECK_OTHERS_WRITE, "/etc/cdi' can be changed by others");
	assert_int_equal(chmod(path, 0755), 0);
	if (geteuid() == 0) {
		assert_int_equal(chown(path, 4242, 4242), 0);
		checked_run(checked, NULL);
		checked_expect(checked, 1, CHECK_NOTE);
		assert_non_null(
		    strstr(checked_find(checked, CHECK_OTHERS_WRITE)->fix, "chown root:root "));
	}
}

static void test_nothing_there(void **state)
{
	struct checked *checked = *state;
	checked_run(checked, NULL);
	checked_expect(checked, 1, CHECK_STALE);
	checked_says(checked, CHECK_NOTHING, "/etc/cdi' and '");
	assert_non_null(
	    strstr(checked_find(checked, CHECK_NOTHING)->fix, "sluice cdi generate --output "));
	checked_run(checked, (const char *const[]){"nvidia.com/gpu=0", NULL});
	checked_expect(checked, 2, CHECK_STALE);
	checked_says(checked, CHECK_KIND_UNKNOWN, "there is none at all");
}

static void test_names(void **state)
{
	struct checked *checked = *state;
	checked_node(checked, "/dev/acme");
	checked_write(checked, "/etc/cdi/a.yaml", NIC("left") CHECKED_DEVICE("right", "/dev/acme"));
	checked_write(checked, "/etc/cdi/bad.yaml", "kind: nvidia.com/gpu\n");
	checked_run(checked, (const char *const[]){"/dev/nvidia0", "x", NULL});
	checked_expect(checked, 2, CHECK_STALE);
	checked_says(checked, CHECK_NAME_INVALID, "path of a device");
	checked_run(checked, (const char *const[]){"acme.com/nics=left", NULL});
	checked_expect(checked, 1, CHECK_STALE);
	checked_says(checked, CHECK_KIND_UNKNOWN, "did you mean 'acme.com/nic'");
	checked_run(checked, (const char *const[]){"acme.com/nic=rigth", NULL});
	checked_expect(checked, 1, CHECK_STALE);
	checked_says(checked, CHECK_DEVICE_UNKNOWN, "did you mean 'right'");
	checked_says(checked, CHECK_DEVICE_UNKNOWN, "it has left, right");
	/* What was refused may have had it. */
	checked_run(checked, (const char *const[]){"nvidia.com/gpu=0", NULL});
	checked_expect(checked, 2, CHECK_UNREADABLE);
	checked_says(checked, CHECK_FILE_REJECTED, "bad.yaml:1:1: ");
	/* And what works is not spoilt by it. */
	checked_run(checked, (const char *const[]){"acme.com/nic=left", NULL});
	checked_expect(checked, 0, CHECK_NOTE);
	checked_run(checked, NULL);
	checked_expect(checked, 1, CHECK_UNREADABLE);
}

static void test_two_files(void **state)
{
	struct checked *checked = *state;
	checked_node(checked, "/dev/acme");
	checked_write(checked, "/etc/cdi/a.yaml", NIC("x") CHECKED_DEVICE("y", "/dev/acme"));
	checked_write(checked, "/etc/cdi/sluice-b.yaml", NIC("x") CHECKED_DEVICE("y", "/dev/acme"));
	checked_run(checked, NULL);
	checked_expect(checked, 1, CHECK_STALE);
	checked_says(checked, CHECK_DEVICE_CONFLICT, "sluice-b.yaml' and '");
	assert_int_equal(checked_find(checked, CHECK_DEVICE_CONFLICT)->count, 2);
	assert_non_null(strstr(checked_find(checked, CHECK_DEVICE_CONFLICT)->fix, "sluice-b.yaml"));
	checked_run(checked, (const char *const[]){"acme.com/nic=y", NULL});
	checked_expect(checked, 1, CHECK_STALE);
	/* One of higher priority does not end it, and hides what is wrong in a single other one. */
	checked_write(checked, "/var/run/cdi/c.yaml",
		      NIC("x") CHECKED_DEVICE("y", "/dev/acme") "containerEdits: {env: [A=b]}\n");
	checked_write(checked, "/etc/cdi/sluice-b.yaml",
		      CHECKED_HEAD("acme.com/nic") CHECKED_DEVICE("x", "/dev/gone"));
	checked_run(checked, NULL);
	checked_expect(checked, 2, CHECK_STALE);
	checked_says(checked, CHECK_DEVICE_CONFLICT, "sluice-b.yaml' and '");
	assert_int_equal(unlink(unit_path(checked->root, "etc/cdi/a.yaml")), 0);
	checked_run(checked, NULL);
	checked_expect(checked, 0, CHECK_NOTE);
	assert_int_equal(checked->check.file_count, 1);
}

static void test_runtime_version(void **state)
{
	struct checked *checked = *state;
	checked_node(checked, "/dev/acme");
	checked_write(
	    checked, "/etc/cdi/a.yaml",
	    "cdiVersion: 0.7.0\nkind: acme.com/nic\ndevices:\n" CHECKED_DEVICE("x", "/dev/acme"));
	checked_run(checked, NULL);
	checked_expect(checked, 1, CHECK_NOTE);
	checked_says(checked, CHECK_VERSION_TOO_NEW, "cdiVersion is 0.7.0");
	checked->options.runtime = "podman 4.6.1";
	checked->options.runtime_version = "0.6.0";
	checked_run(checked, (const char *const[]){"acme.com/nic=x", NULL});
	checked_expect(checked, 1, CHECK_STALE);
	checked_says(checked, CHECK_VERSION_TOO_NEW, "and podman 4.6.1 reads up to 0.6.0");
	checked->options.runtime_version = "0.7.0";
	checked_run(checked, NULL);
	checked_expect(checked, 0, CHECK_NOTE);
}

static void test_module(void **state)
{
	struct checked *checked = *state;
	checked_node(checked, "/dev/nvidia0");
	checked_write(checked, "/etc/cdi/a.yaml", GPU("0"));
	checked->options.module_version = "";
	checked_run(checked, NULL);
	checked_expect(checked, 1, CHECK_STALE);
	assert_string_equal(checked_find(checked, CHECK_MODULE_MISSING)->fix, "modprobe nvidia");
}

static int asked;

static int ask(void *context, struct check_machine *out, struct err *err)
{
	(void)out;
	asked++;
	if (context)
		return err_set(err, -ELIBBAD, "two versions");
	return err_set(err, -ETIMEDOUT, "the driver did not answer in 1 s");
}

static void test_silent_driver(void **state)
{
	struct checked *checked = *state;
	checked_node(checked, "/dev/nvidia0");
	checked_write(checked, "/etc/cdi/a.yaml", NIC("x"));
	checked_node(checked, "/dev/acme");
	checked->options.ask = ask;
	asked = 0;
	checked_run(checked, NULL);
	assert_int_equal(asked, 0); /* no file has GPUs */
	checked_write(checked, "/etc/cdi/b.yaml", GPU("0"));
	checked_write(checked, "/etc/cdi/c.yaml",
		      CHECKED_HEAD("acme.com/gpu") CHECKED_DEVICE("0", "/dev/nvidia0"));
	checked_run(checked, NULL);
	assert_int_equal(asked, 1);
	checked_expect(checked, 1, CHECK_NOTE);
	checked_says(checked, CHECK_DRIVER_SILENT, "did not answer in 1 s");
	checked->options.context = checked;
	checked_run(checked, NULL);
	checked_expect(checked, 1, CHECK_STALE);
	checked_says(checked, CHECK_DRIVER_UNFIT, "two versions");
}

/* More differences than are kept. */
static void test_limit(void **state)
{
	struct checked *checked = *state;
	static char text[1 << 18];
	size_t length = (size_t)snprintf(text, sizeof(text), "%s", CHECKED_HEAD("acme.com/nic"));
	for (int i = 0; i < CHECK_FINDINGS_MAX + 5; i++)
		length += (size_t)snprintf(
		    text + length, sizeof(text) - length,
		    "- {name: '%d', containerEdits: {deviceNodes: [{path: /dev/n%d}]}}\n", i, i);
	assert_true(length < sizeof(text));
	checked_write(checked, "/etc/cdi/a.yaml", text);
	checked_run(checked, NULL);
	checked_expect(checked, CHECK_FINDINGS_MAX, CHECK_STALE);
	assert_int_equal(checked->check.total, CHECK_FINDINGS_MAX + 5);
}

/* The limits are ours: a runtime may well read it. */
static void test_too_large_is_not_refused_by_runtimes(void **state)
{
	struct checked *checked = *state;
	checked_write(checked, "/etc/cdi/large.yaml", "kind: nvidia.com/gpu\n");
	assert_int_equal(
	    truncate(unit_path(checked->root, "etc/cdi/large.yaml"), DOCUMENT_TEXT_MAX + 1), 0);
	checked_run(checked, NULL);
	checked_says(checked, CHECK_FILE_REJECTED, "bytes that are allowed: it was not checked");
	assert_null(checked_find(checked, CHECK_FILE_REJECTED)->fix);
}

static void test_fixes_are_words_of_the_shell(void **state)
{
	struct checked *checked = *state;
	checked_write(checked, "/etc/cdi/it's b.yaml", "kind: nvidia.com/gpu\n");
	checked_run(checked, NULL);
	const char *fix = checked_find(checked, CHECK_FILE_REJECTED)->fix;
	assert_non_null(strstr(fix, "sluice cdi generate --vendor nvidia.com --output '/"));
	assert_non_null(strstr(fix, "/it'\\''s b.yaml'"));
}

static void test_fix_names_the_class(void **state)
{
	struct checked *checked = *state;
	checked_write(checked, "/etc/cdi/a.yaml", "kind: sluice.dev/mine\n");
	checked_run(checked, NULL);
	assert_non_null(strstr(checked_find(checked, CHECK_FILE_REJECTED)->fix,
			       "generate --vendor sluice.dev --class mine --output "));
}

static void test_long_lists_are_cut(void **state)
{
	struct checked *checked = *state;
	checked_write(checked, "/etc/cdi/a.yaml",
		      NIC("a") CHECKED_DEVICE("b", "/dev/acme") CHECKED_DEVICE("c", "/dev/acme")
			  CHECKED_DEVICE("d", "/dev/acme") CHECKED_DEVICE("e", "/dev/acme")
			      CHECKED_DEVICE("f", "/dev/acme") CHECKED_DEVICE("g", "/dev/acme")
				  CHECKED_DEVICE("h", "/dev/acme") CHECKED_DEVICE("i", "/dev/acme")
				      CHECKED_DEVICE("j", "/dev/acme"));
	checked_run(checked, (const char *const[]){"acme.com/nic=zz", NULL});
	checked_says(checked, CHECK_DEVICE_UNKNOWN, "it has a, b, c, d, e, f, g, h and 2 more");
}

static void test_ids(void **state)
{
	(void)state;
	for (int i = 0; i < CHECK_ID_COUNT; i++) {
		assert_string_not_equal(check_id_to_string((enum check_id)i), "unknown");
		for (int j = 0; j < i; j++)
			assert_string_not_equal(check_id_to_string((enum check_id)i),
						check_id_to_string((enum check_id)j));
	}
}

static int check_again(void *context)
{
	struct checked *checked = context;
	_cleanup_check_ struct cdi_check check = {.count = 0};
	return check_scan(&checked->scan, &checked->options, &check, NULL);
}

static void test_without_memory(void **state)
{
	struct checked *checked = *state;
	checked_write(checked, "/etc/cdi/a.yaml", GPU("0"));
	checked_write(checked, "/etc/cdi/b.yaml", NIC("x"));
	checked_write(checked, "/etc/cdi/c.yaml", NIC("x"));
	checked_write(checked, "/etc/cdi/d.yaml", "kind: nvidia.com/gpu\n");
	checked_run(checked, NULL);
	assert_true(failmalloc_each(check_again, checked) > 10);
	checked_run(checked, (const char *const[]){"a.b/c=d", "nvidia.com/gpu=7", "acme.com/nic=x",
						   "nvidia.com/gpu=0", NULL});
	assert_true(failmalloc_each(check_again, checked) > 10);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, checked_setup, checked_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_fresh),
	    TEST(test_nothing_there),
	    TEST(test_others_write),
	    TEST(test_names),
	    TEST(test_two_files),
	    TEST(test_runtime_version),
	    TEST(test_module),
	    TEST(test_silent_driver),
	    TEST(test_limit),
	    TEST(test_too_large_is_not_refused_by_runtimes),
	    TEST(test_fixes_are_words_of_the_shell),
	    TEST(test_fix_names_the_class),
	    TEST(test_long_lists_are_cut),
	    TEST(test_ids),
	    TEST(test_without_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
