/* SPDX-License-Identifier: Apache-2.0 */
#include "job/rights.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

static void make(struct spec *spec)
{
	spec_init(spec);
	spec->gid = 100;
	for (gid_t group = 10; group < 15; group++)
		assert_int_equal(spec_add_group(spec, group, NULL), 0);
	spec->limits[0] = (struct spec_limit){.resource = 6, .soft = 50, .hard = 100};
	spec->limits[1] = (struct spec_limit){.resource = 7, .soft = 50, .hard = 100};
	spec->limit_count = 2;
}

static struct rights rights_with(gid_t *groups, size_t count)
{
	struct rights rights = {.gid = 100, .groups = groups, .group_count = count};
	for (uint32_t i = 0; i < SPEC_LIMITS_MAX; i++)
		rights.limits[i] = (struct spec_limit){i, 1000, 1000};
	return rights;
}

static void test_what_is_not_had_is_taken(void **state)
{
	(void)state;
	struct spec spec _cleanup_spec_;
	gid_t groups[] = {14, 99, 11};
	struct rights rights = rights_with(groups, 3);
	make(&spec);
	rights.limits[6] = (struct spec_limit){6, 20, 70};
	rights.limits[7] = (struct spec_limit){7, 20, 30};
	assert_int_equal(rights_lower(&spec, &rights, NULL), 0);
	assert_int_equal(spec.group_count, 2);
	assert_int_equal(spec.groups[0], 11);
	assert_int_equal(spec.groups[1], 14);
	assert_int_equal(spec.limits[0].hard, 70);
	assert_int_equal(spec.limits[0].soft, 50);
	assert_int_equal(spec.limits[1].hard, 30);
	assert_int_equal(spec.limits[1].soft, 30);
}

static void test_all_that_is_had_stays(void **state)
{
	(void)state;
	struct spec spec _cleanup_spec_;
	gid_t groups[] = {10, 11, 12, 13, 14, 15};
	const struct rights rights = rights_with(groups, 6);
	make(&spec);
	assert_int_equal(rights_lower(&spec, &rights, NULL), 0);
	assert_int_equal(spec.group_count, 5);
	assert_int_equal(spec.limits[0].hard, 100);
	assert_false(rights_keep_groups(&spec, 100, groups, 6));
	assert_true(rights_keep_groups(&spec, 12, NULL, 0)); /* the own one counts */
	assert_int_equal(spec.group_count, 1);
	assert_int_equal(spec.groups[0], 12);
}

static void test_who_is_not_in_its_group_changes_nothing(void **state)
{
	(void)state;
	struct spec spec _cleanup_spec_;
	struct err err = {0};
	gid_t groups[] = {10};
	struct rights rights = rights_with(groups, 1);
	make(&spec);
	rights.gid = 101;
	assert_int_equal(rights_lower(&spec, &rights, &err), -EPERM);
	assert_non_null(strstr(err.text, "group 100"));
	assert_int_equal(spec.group_count, 5);
	groups[0] = 100; /* as a supplementary one */
	assert_int_equal(rights_lower(&spec, &rights, &err), 0);
}

static int copy_one(void *context)
{
	struct rights copy = {.gid = 0};
	int rc = rights_copy(context, &copy);
	if (rc == 0)
		assert_int_equal(copy.groups[1], 11);
	rights_done(&copy);
	rights_done(&copy);
	return rc;
}

static void test_a_copy(void **state)
{
	(void)state;
	gid_t groups[] = {10, 11};
	struct rights rights = rights_with(groups, 2);
	(void)failmalloc_each(copy_one, &rights);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_what_is_not_had_is_taken),
	    cmocka_unit_test(test_all_that_is_had_stays),
	    cmocka_unit_test(test_who_is_not_in_its_group_changes_nothing),
	    cmocka_unit_test(test_a_copy),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
