/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "base/file.h"
#include "hardware/gpunodes.h"
#include "hardware/minors.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

static void inventory_make(struct inventory *out)
{
	static const struct gpu gpus[] = {
	    {.uuid = "GPU-a", .minor = 0, .has_pci = true, .pci = {.bus = 7}},
	    {.uuid = "GPU-b", .minor = 5, .has_pci = true, .pci = {.bus = 8}},
	    {.uuid = "GPU-c", .minor = GPU_U32_UNKNOWN},
	};
	static const struct mig_device migs[] = {
	    {.parent = 1, .uuid = "MIG-0", .gi = 1, .ci = 0},
	    {.parent = 1, .uuid = "MIG-1", .gi = 1, .ci = 1},
	    {.parent = 1, .uuid = "MIG-2", .gi = 2, .ci = 0},
	};
	inventory_init(out);
	out->gpu_count = 3;
	out->gpus = (struct gpu *)gpus; /* never freed here */
	out->mig_count = 3;
	out->migs = (struct mig_device *)migs;
}

static char *root_make(void)
{
	char *root = unit_tmp_new();
	char path[FILE_PATH_MAX];
	static const char *const directories[] = {
	    "dev/nvidia-caps", "dev/dri", "sys/bus/pci/devices/0000:07:00.0/drm/card3",
	    "sys/bus/pci/devices/0000:07:00.0/drm/renderD131", "proc/driver/nvidia-caps"};
	for (size_t i = 0; i < array_length(directories); i++)
		assert_int_equal(file_mkdirs(unit_path(root, directories[i]), 0755, NULL), 0);
	assert_int_equal(file_path(path, NULL, "%s" MINORS_PATH, root), 0);
	unit_write(path, "config 1\nmonitor 2\ngpu5/gi1/access 12\ngpu5/gi1/ci0/access 13\n"
			 "gpu5/gi1/ci1/access 14\ngpu5/gi2/access 21\ngpu5/gi2/ci0/access 22\n");
	return root;
}

static void node_make(const char *root, const char *name, unsigned major_, unsigned minor_)
{
	if (mknod(unit_path(root, name), S_IFCHR | 0600, makedev(major_, minor_)) == 0)
		return;
	assert_int_equal(errno, EPERM);
	print_message("skipped: device nodes cannot be made here\n");
	skip();
}

static void nodes_make(const char *root)
{
	node_make(root, "dev/nvidia0", 195, 0);
	node_make(root, "dev/nvidia5", 195, 5);
	node_make(root, "dev/dri/card3", 226, 3);
	static const unsigned caps[] = {1, 2, 12, 13, 14, 21, 22};
	for (size_t i = 0; i < array_length(caps); i++) {
		char name[64];
		(void)snprintf(name, sizeof(name), "dev/nvidia-caps/nvidia-cap%u", caps[i]);
		node_make(root, name, 237, caps[i]);
	}
}

static int find(const char *root, const char *uuid, struct gpunodes *out)
{
	struct inventory inventory;
	struct gpunodes_plan plan = {.count = 0};
	inventory_make(&inventory);
	int result = gpunodes_plan(&inventory, &uuid, uuid ? 1 : 0, &plan, NULL);
	if (result == 0)
		result = gpunodes_find(&plan, root, out, NULL);
	gpunodes_plan_done(&plan);
	return result;
}

static void expect(const char *root, const char *uuid, const char *expected, uint32_t unknown)
{
	struct gpunodes nodes;
	char text[512] = "";
	assert_int_equal(find(root, uuid, &nodes), 0);
	for (size_t i = 0; i < nodes.count; i++)
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%u:%u",
			       i ? " " : "", nodes.nodes[i].major, nodes.nodes[i].minor);
	assert_string_equal(text, expected);
	assert_int_equal(nodes.unknown, unknown);
	gpunodes_done(&nodes);
}

static void whoever_gets_one_device_is_kept_from_the_others(void **state)
{
	char *root = root_make();
	nodes_make(root);
	/* GPU-c has no number: that is counted. */
	expect(root, NULL, "195:0 195:5 226:3 237:1 237:2 237:12 237:13 237:14 237:21 237:22", 1);
	expect(root, "GPU-a", "195:5 237:1 237:2 237:12 237:13 237:14 237:21 237:22", 1);
	expect(root, "GPU-b", "195:0 226:3 237:1 237:2", 1);
	/* Of two compute instances in one GPU instance each needs that one's. */
	expect(root, "MIG-0", "195:0 226:3 237:1 237:2 237:14 237:21 237:22", 1);
	expect(root, "MIG-2", "195:0 226:3 237:1 237:2 237:12 237:13 237:14", 1);
	root = unit_tmp_free(root);
}

static void expect_ranges(const char *root, const char *uuid, const char *expected)
{
	struct gpunodes nodes;
	struct gpunodes_range *ranges = NULL;
	size_t count = 0;
	char text[512] = "";
	assert_int_equal(find(root, uuid, &nodes), 0);
	assert_int_equal(gpunodes_ranges(&nodes, &ranges, &count, NULL), 0);
	for (size_t i = 0; i < count; i++)
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%u:%u-%u",
			       i ? " " : "", ranges[i].major, ranges[i].first, ranges[i].last);
	assert_string_equal(text, expected);
	free(ranges);
	gpunodes_done(&nodes);
}

static void what_appears_later_is_denied_before(void **state)
{
	char *root = root_make();
	nodes_make(root);
	node_make(root, "dev/dri/card9", 226, 9); /* another vendor's */
	expect_ranges(root, NULL, "195:0-253 226:0-8 226:10-255 237:1-2 237:12-14 237:21-22");
	expect_ranges(root, "GPU-a",
		      "195:1-253 226:0-2 226:4-8 226:10-255 237:1-2 237:12-14 "
		      "237:21-22");
	/* Of a MIG device that was given all but its own two capabilities. */
	expect_ranges(root, "MIG-2",
		      "195:0-4 195:6-253 226:0-8 226:10-255 237:0-20 237:23-1048575");
	/* Not known which of the numbers it has: what is known is denied, and no more. */
	expect_ranges(root, "GPU-c", "195:0-0 195:5-5 226:3-3 237:1-2 237:12-14 237:21-22");
	root = unit_tmp_free(root);
}

static void stand_ins_that_others_use_stay_free(void **state)
{
	char *root = root_make();
	node_make(root, "dev/nvidia0", 1, 5); /* /dev/zero */
	unit_write(unit_path(root, "dev/nvidia5"), "");
	expect(root, NULL, "", 4); /* nor are there nodes of the capabilities */
	root = unit_tmp_free(root);
}

static void what_is_not_there_is_counted(void **state)
{
	expect("/nowhere", NULL, "", 6);
}

static void a_real_gpu_needs_no_node_yet(void **state)
{
	static struct gpu gpu = {.uuid = "GPU-x", .minor = 250};
	struct inventory inventory;
	struct gpunodes_plan plan;
	struct gpunodes nodes;
	inventory_init(&inventory);
	inventory.gpus = &gpu;
	inventory.gpu_count = 1;
	assert_int_equal(gpunodes_plan(&inventory, NULL, 0, &plan, NULL), 0);
	assert_int_equal(gpunodes_find(&plan, "", &nodes, NULL), 0);
	bool is_there = false;
	for (size_t i = 0; i < nodes.count; i++)
		is_there |= nodes.nodes[i].major == 195 && nodes.nodes[i].minor == 250;
	assert_true(is_there);
	assert_int_equal(nodes.unknown, 0);
	gpunodes_done(&nodes);
	gpunodes_plan_done(&plan);
}

static int once(void *context)
{
	struct gpunodes nodes = {.count = 0};
	int result = find(context, "MIG-0", &nodes);
	gpunodes_done(&nodes);
	return result;
}

static void without_memory_it_says_so(void **state)
{
	char *root = root_make();
	assert_true(failmalloc_each(once, root) > 1);
	root = unit_tmp_free(root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(whoever_gets_one_device_is_kept_from_the_others),
	    cmocka_unit_test(what_appears_later_is_denied_before),
	    cmocka_unit_test(stand_ins_that_others_use_stay_free),
	    cmocka_unit_test(what_is_not_there_is_counted),
	    cmocka_unit_test(a_real_gpu_needs_no_node_yet),
	    cmocka_unit_test(without_memory_it_says_so),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
