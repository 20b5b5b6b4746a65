/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "hardware/gpunodes_cache.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

#define NOW UINT64_C(5000000000)

static struct gpunodes_device devices[] = {{.minor = 0, .has_pci = true, .pci = {.bus = 7}},
					   {.minor = 5, .has_pci = true, .pci = {.bus = 8}}};

static struct gpunodes_plan plan_of(bool gives_first)
{
	devices[0].is_given = gives_first;
	return (struct gpunodes_plan){.devices = devices, .count = 2};
}

static void node_make(const char *root, const char *name, unsigned major_, unsigned minor_)
{
	if (mknod(unit_path(root, name), S_IFCHR | 0600, makedev(major_, minor_)) == 0)
		return;
	assert_int_equal(errno, EPERM);
	print_message("skipped: device nodes cannot be made here\n");
	skip();
}

static char *root_make(void)
{
	char *root = unit_tmp_new();
	assert_int_equal(file_mkdirs(unit_path(root, "dev/dri"), 0755, NULL), 0);
	node_make(root, "dev/nvidia0", 195, 0);
	node_make(root, "dev/nvidia5", 195, 5);
	node_make(root, "dev/dri/card9", 226, 9); /* another vendor's: it stays open */
	return root;
}

/* As if nobody had touched it for long. */
static void age(const char *root, const char *name)
{
	const struct timespec times[] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
	assert_int_equal(utimensat(AT_FDCWD, unit_path(root, name), times, 0), 0);
}

static void expect(struct gpunodes_cache *cache, const char *root, bool gives_first,
		   uint64_t now_ns, const char *expected, uint32_t expected_unknown)
{
	const struct gpunodes_plan plan = plan_of(gives_first);
	const struct gpunodes_range *ranges = NULL;
	size_t count = 0;
	uint32_t unknown = 0;
	char text[256] = "";

	assert_int_equal(
	    gpunodes_cache_find(cache, &plan, root, now_ns, &ranges, &count, &unknown, NULL), 0);
	for (size_t i = 0; i < count; i++)
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%u:%u-%u",
			       i ? " " : "", ranges[i].major, ranges[i].first, ranges[i].last);
	assert_string_equal(text, expected);
	assert_int_equal(unknown, expected_unknown);
}

#define CLOSED "195:0-253 226:0-8 226:10-255"

static void the_files_are_read_once_in_a_while(void **state)
{
	char *root = root_make();
	struct gpunodes_cache cache = {.is_filled = false};

	age(root, "dev");
	expect(&cache, root, false, NOW, CLOSED, 0);
	/* A change that no directory tells of is not seen, until the time is over. */
	assert_int_equal(unlink(unit_path(root, "dev/nvidia5")), 0);
	age(root, "dev");
	expect(&cache, root, false, NOW + GPUNODES_CACHE_NS - 1, CLOSED, 0);
	expect(&cache, root, false, NOW + GPUNODES_CACHE_NS, CLOSED, 1);
	/* What is not known is looked for each time. */
	node_make(root, "dev/nvidia5", 195, 5);
	age(root, "dev");
	expect(&cache, root, false, NOW + GPUNODES_CACHE_NS + 1, CLOSED, 0);

	gpunodes_cache_done(&cache);
	root = unit_tmp_free(root);
}

static void a_directory_that_has_changed_is_read_again(void **state)
{
	char *root = root_make();
	struct gpunodes_cache cache = {.is_filled = false};

	age(root, "dev/dri");
	expect(&cache, root, false, NOW, CLOSED, 0);
	node_make(root, "dev/dri/card11", 226, 11);
	expect(&cache, root, false, NOW + 1, "195:0-253 226:0-8 226:10-10 226:12-255", 0);
	assert_int_equal(unlink(unit_path(root, "dev/dri/card9")), 0);
	age(root, "dev/dri");
	expect(&cache, root, false, NOW + 2, "195:0-253 226:0-10 226:12-255", 0);

	gpunodes_cache_done(&cache);
	root = unit_tmp_free(root);
}

static void another_plan_and_another_root_have_their_own(void **state)
{
	char *root = root_make(), *other = root_make();
	struct gpunodes_cache cache = {.is_filled = false};

	expect(&cache, root, false, NOW, CLOSED, 0);
	expect(&cache, root, true, NOW, "195:1-253 226:0-8 226:10-255", 0);
	expect(&cache, root, false, NOW, CLOSED, 0);
	assert_int_equal(unlink(unit_path(other, "dev/dri/card9")), 0);
	expect(&cache, other, false, NOW, "195:0-253 226:0-255", 0);

	gpunodes_cache_done(&cache);
	gpunodes_cache_done(&cache);
	root = unit_tmp_free(root);
	other = unit_tmp_free(other);
}

static int once(void *context)
{
	struct gpunodes_cache cache = {.is_filled = false};
	const struct gpunodes_plan plan = plan_of(false);
	const struct gpunodes_range *ranges = NULL;
	size_t count = 0;
	uint32_t unknown = 0;
	int rc = gpunodes_cache_find(&cache, &plan, context, NOW, &ranges, &count, &unknown, NULL);
	gpunodes_cache_done(&cache);
	return rc;
}

static void without_memory_it_says_so(void **state)
{
	char *root = root_make();
	assert_true(failmalloc_each(once, root) > 3);
	root = unit_tmp_free(root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_files_are_read_once_in_a_while),
	    cmocka_unit_test(a_directory_that_has_changed_is_read_again),
	    cmocka_unit_test(another_plan_and_another_root_have_their_own),
	    cmocka_unit_test(without_memory_it_says_so),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
