/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/cdi/adapters.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "cdi/document.h"
#include "unit/unit.h"

#define FILE_NAME "var/run/cdi/sluice.dev-rdma.json"
#define SIMULATED "var/run/cdi/sluice.sim-rdma.json"

static struct rdma_node nodes[] = {
    {.path = "/dev/infiniband/rdma_cm"},
    {.path = "/dev/infiniband/uverbs0"},
    {.path = "/dev/infiniband/uverbs1"},
    {.path = "/dev/infiniband/absent"},
};
static const struct adapters_device devices[] = {
    {.name = "mlx5_0", .nodes = nodes, .node_count = 2},
    {.name = "gone", .nodes = nodes + 3, .node_count = 1},
    {.name = "rdma:hca", .nodes = nodes, .node_count = 4},
};

/* Nodes that are links to /dev/null, and one that is none. */
static int set_up(void **state)
{
	int rc = unit_top_setup(state);
	assert_int_equal(file_mkdirs(unit_path(unit_top, "dev/infiniband"), 0755, NULL), 0);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(symlink("/dev/null", unit_path(unit_top, nodes[i].path + 1)), 0);
	return rc;
}

static bool is_there(const char *name)
{
	return file_exists(unit_path(unit_top, name));
}

static int keep(const char *kind, size_t count, struct err *err)
{
	return adapters_keep(kind, unit_top, NULL, devices, count, err);
}

static void test_the_text(void **state)
{
	(void)state;
	_cleanup_buf_ struct buf text;
	_cleanup_document_ struct document document = {.yaml = NULL};
	struct err err = {0};
	char name[ADAPTERS_NAME_MAX], path[FILE_PATH_MAX];
	buf_init(&text, ADAPTERS_TEXT_MAX);
	assert_int_equal(adapters_text(ADAPTERS_KIND, unit_top, NULL, devices, 3, &text, &err), 0);
	if (document_parse(buf_text(&text), text.length, "t", &document, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(document.version, "0.5.0");
	assert_string_equal(document.kind, ADAPTERS_KIND);
	assert_int_equal(document.devices->entry_count, 2);
	assert_null(document_find(&document, "gone"));
	adapters_resource_name("rdma/hca", name);
	const struct yaml_node *list =
	    yaml_get(yaml_get(document_find(&document, name), "containerEdits"), "deviceNodes");
	assert_int_equal(list->entry_count, 3); /* not the one that is absent */
	const struct yaml_node *node = list->entries[1].value;
	(void)snprintf(path, sizeof(path), "%s/dev/infiniband/uverbs0", unit_top);
	static const struct {
		const char *key, *value;
	} rows[] = {{"path", "/dev/infiniband/uverbs0"},
		    {"type", "c"},
		    {"major", "1"},
		    {"minor", "3"},
		    {"fileMode", "438"},
		    {"uid", "0"},
		    {"gid", "0"},
		    {"permissions", "rw"}};
	for (size_t i = 0; i < array_length(rows); i++)
		assert_string_equal(yaml_get(node, rows[i].key)->text, rows[i].value);
	assert_string_equal(yaml_get(node, "hostPath")->text, path);
	assert_int_equal(adapters_text(ADAPTERS_KIND, unit_top, NULL, devices + 1, 1, &text, &err),
			 -ENODEV);
}

/* Whatever the administrator has called an adapter, runtimes can read what we write. */
static void test_names_that_are_none(void **state)
{
	static const char *const names[] = {"mlx5 0", "mlx5_0-", "", "\xff\xfe", "a/b", "m\n"};
	(void)state;
	struct adapters_device some[array_length(names) + 1];
	_cleanup_buf_ struct buf text;
	_cleanup_document_ struct document document = {.yaml = NULL};
	struct err err = {0};
	buf_init(&text, ADAPTERS_TEXT_MAX);
	some[0] = devices[0];
	for (size_t i = 0; i < array_length(names); i++) {
		some[i + 1] = devices[0];
		(void)snprintf(some[i + 1].name, sizeof(some[i + 1].name), "%s", names[i]);
	}
	assert_int_equal(
	    adapters_text(ADAPTERS_KIND, unit_top, NULL, some, array_length(some), &text, &err), 0);
	if (document_parse(buf_text(&text), text.length, "t", &document, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(document.devices->entry_count, 1);
}

/* The text of one device with these limits, and whether it is there at all. */
static bool with_memlock(uint64_t bytes, bool warns, const char *hook, struct buf *text)
{
	struct adapters_device device = devices[0];
	device.memlock_bytes = bytes;
	device.memlock_warns = warns;
	buf_clear(text);
	return adapters_text(ADAPTERS_KIND, unit_top, hook, &device, 1, text, NULL) == 0;
}

static void test_the_hook(void **state)
{
	(void)state;
	_cleanup_buf_ struct buf text;
	_cleanup_document_ struct document document = {.yaml = NULL};
	buf_init(&text, ADAPTERS_TEXT_MAX);
	assert_true(with_memlock(UINT64_C(64) << 30, false, "/x/sluice-memlock", &text));
	assert_int_equal(document_parse(buf_text(&text), text.length, "t", &document, NULL), 0);
	const struct yaml_node *hooks =
	    yaml_get(yaml_get(document_find(&document, "mlx5_0"), "containerEdits"), "hooks");
	assert_int_equal(hooks->entry_count, 1);
	const struct yaml_node *hook = hooks->entries[0].value;
	assert_string_equal(yaml_get(hook, "hookName")->text, "createRuntime");
	assert_string_equal(yaml_get(hook, "path")->text, "/x/sluice-memlock");
	assert_string_equal(yaml_get(hook, "args")->entries[1].value->text, "68719476736");
	assert_int_equal(yaml_get(hook, "args")->entry_count, 2);
	assert_string_equal(yaml_get(hook, "env")->entries[0].value->text, "SLUICE_HOOK=1");
	assert_true(with_memlock(UINT64_MAX, true, "/x/sluice-memlock", &text));
	assert_non_null(strstr(buf_text(&text), "\"unlimited\""));
	assert_non_null(strstr(buf_text(&text), "\"warn\""));
	/* None was asked for; it could not be installed. */
	assert_true(with_memlock(0, false, "/x/sluice-memlock", &text));
	assert_null(strstr(buf_text(&text), "hooks"));
	assert_false(with_memlock(1, false, NULL, &text));
	assert_true(with_memlock(1, true, NULL, &text));
	assert_null(strstr(buf_text(&text), "hooks"));
}

static void test_the_file(void **state)
{
	(void)state;
	assert_int_equal(keep(ADAPTERS_KIND, 0, NULL), 0);
	assert_int_equal(keep(ADAPTERS_KIND, 1, NULL), 1);
	assert_true(is_there(FILE_NAME));
	assert_int_equal(keep(ADAPTERS_KIND, 1, NULL), 0);
	assert_int_equal(keep(ADAPTERS_KIND, 3, NULL), 1);
	assert_int_equal(unlink(unit_path(unit_top, FILE_NAME)), 0);
	assert_int_equal(keep(ADAPTERS_KIND, 3, NULL), 1);
	/* Of the other kind, and of nothing. */
	assert_int_equal(keep(ADAPTERS_KIND_SIMULATED, 3, NULL), 1);
	assert_false(is_there(FILE_NAME));
	assert_true(is_there(SIMULATED));
	assert_int_equal(keep(ADAPTERS_KIND_SIMULATED, 0, NULL), 1);
	assert_false(is_there(SIMULATED));
}

/* What somebody else has put there, under our name or his own, stays. */
static void test_files_of_others(void **state)
{
	(void)state;
	static const char theirs[] = "{\"cdiVersion\": \"0.5.0\", \"kind\": \"nvidia.com/rdma\", "
				     "\"devices\": []}";
	struct err err = {0};
	assert_int_equal(keep(ADAPTERS_KIND, 1, NULL), 1);
	unit_write(unit_path(unit_top, "var/run/cdi/nvidia.com-rdma.json"), theirs);
	unit_write(unit_path(unit_top, FILE_NAME), theirs);
	assert_int_equal(keep(ADAPTERS_KIND, 1, &err), -EEXIST);
	assert_non_null(strstr(err.text, "is not a specification that sluice wrote"));
	assert_int_equal(keep(ADAPTERS_KIND, 0, NULL), 0);
	assert_int_equal(keep(ADAPTERS_KIND_SIMULATED, 1, NULL), 1);
	assert_true(is_there(FILE_NAME));
	assert_true(is_there("var/run/cdi/nvidia.com-rdma.json"));
	unit_write(unit_path(unit_top, FILE_NAME), "no json {");
	assert_int_equal(keep(ADAPTERS_KIND, 1, &err), -EEXIST);
}

static void test_a_directory_that_cannot_be_written(void **state)
{
	(void)state;
	struct err err = {0};
	unit_write(unit_path(unit_top, "var"), "");
	assert_int_equal(keep(ADAPTERS_KIND, 1, &err), -ENOTDIR);
	assert_true(err.text[0] != '\0');
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, unit_top_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_the_text),	TEST(test_names_that_are_none),
	    TEST(test_the_hook),	TEST(test_the_file),
	    TEST(test_files_of_others), TEST(test_a_directory_that_cannot_be_written),
	};
	return cmocka_run_group_tests_name("doors/cdi/adapters", tests, NULL, NULL);
}
