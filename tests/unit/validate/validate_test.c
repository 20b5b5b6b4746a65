/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/validate.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "unit/unit.h"

static void names_and_levels(void **state)
{
	(void)state;
	for (unsigned i = 0; i < VALIDATE_WHAT_COUNT; i++) {
		enum validate_what what = VALIDATE_WHAT_COUNT;
		assert_int_equal(
		    validate_what_parse(validate_what_to_string((enum validate_what)i), &what), 0);
		assert_int_equal(what, i);
		uint32_t level = validate_level_of(what);
		assert_true((validate_mask(level) >> i & 1) == 1);
		assert_true((validate_mask(level - 1) >> i & 1) == 0);
	}
	enum validate_what what = VALIDATE_DRIVER;
	assert_int_equal(validate_what_parse("vectorad", &what), -EINVAL);
	assert_int_equal(validate_mask(3), (1u << VALIDATE_WHAT_COUNT) - 1);
}

static struct checks run(const struct validate_plan *like, char *const *environment)
{
	struct validate_plan plan = *like;
	struct checks checks;
	struct err err = {.code = 0};
	plan.root = "/dev/null";
	plan.library = "/no/such/libcuda.so.1";
	plan.environment = environment;
	plan.timeout_ns = VALIDATE_TIMEOUT_NS;
	checks_init(&checks);
	assert_int_equal(validate_run(&plan, &checks, &err), 0);
	return checks;
}

/* Whether a machine without a driver is wrong depends on what it should be. */
static void without_a_driver(void **state)
{
	char *nothing[] = {NULL};
	char given_text[] = "NVIDIA_VISIBLE_DEVICES=GPU-aaaaaaaa";
	char *given[] = {given_text, NULL};
	struct validate_plan plan = {.mask = validate_mask(2)};
	(void)state;
	struct checks checks = run(&plan, nothing);
	assert_int_equal(checks_exit_code(&checks), FINDINGS_EXIT_NOTHING);
	assert_int_equal(checks_of(&checks, CHECK_SKIP), checks.count);
	assert_true(checks.count > 8); /* nothing is passed over in silence */
	assert_non_null(strstr(checks.list[0].reason, "/no/such/libcuda.so.1"));
	checks_done(&checks);
	checks = run(&plan, given);
	assert_int_equal(checks_exit_code(&checks), FINDINGS_EXIT_WRONG);
	checks_done(&checks);
	plan.has_expect = true;
	plan.expect = 4;
	checks = run(&plan, nothing);
	assert_int_equal(checks_exit_code(&checks), FINDINGS_EXIT_WRONG);
	assert_int_equal(checks_of(&checks, CHECK_FAIL), 2); /* the driver, and the number */
	checks_done(&checks);
	plan.expect = 0;
	checks = run(&plan, nothing);
	assert_int_equal(checks_exit_code(&checks), FINDINGS_EXIT_RIGHT); /* none, as expected */
	checks_done(&checks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(names_and_levels),
	    cmocka_unit_test(without_a_driver),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
