/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/job_select.h"

#include "base/check.h"
#include "unit/unit.h"

static const struct command command = {.name = "cancel"};

static int read_all(char **arguments, const struct job_select_options *options,
		    struct job_select *out)
{
	const struct cmd_call call = {
	    .root = &command, .command = &command, .path = "sluice cancel", .argv = arguments};
	struct cmd_call counted = call;
	while (arguments[counted.argc])
		counted.argc++;
	return job_select_read(&counted, options, out);
}

static void test_plain(void **state)
{
	char first[] = "17", second[] = "20.3", range[] = "12-20", name[] = "train";
	char *numbers[] = {first, second, NULL}, *mixed[] = {first, range, name, NULL};
	const struct job_select_options options = {.all = false};
	struct job_select select;
	assert_int_equal(read_all(numbers, &options, &select), CMD_EXIT_OK);
	assert_true(select.is_plain && select.item_count == 2);
	job_select_done(&select);

	assert_int_equal(read_all(mixed, &options, &select), CMD_EXIT_OK);
	assert_true(!select.is_plain && select.item_count == 3);
	assert_int_equal(select.items[1].kind, JOB_SET_RANGE);
	assert_int_equal(select.items[2].kind, JOB_SET_NAME);
	job_select_done(&select);

	const struct job_select_options users = {.user = "alice"};
	assert_int_equal(read_all(numbers, &users, &select), CMD_EXIT_OK);
	assert_false(select.is_plain);
	job_select_done(&select);
}

static void test_names(void **state)
{
	const char *items[] = {"17", "train-*"};
	char *none[] = {NULL};
	const struct job_select_options options = {.names = {items, 2}};
	struct job_select select;
	assert_int_equal(read_all(none, &options, &select), CMD_EXIT_OK);
	assert_true(select.item_count == 2 && select.argument_count == 0);
	assert_int_equal(select.items[0].kind, JOB_SET_NAME); /* as it says */
	job_select_done(&select);
}

static void test_refused(void **state)
{
	char number[] = "17", wrong[] = "20-12";
	char *none[] = {NULL}, *one[] = {number, NULL}, *two[] = {number, wrong, NULL};
	const struct job_select_options nothing = {.all = false}, all = {.all = true};
	struct job_select select;
	assert_int_equal(read_all(none, &nothing, &select), CMD_EXIT_USAGE);
	job_select_done(&select);
	assert_int_equal(read_all(one, &all, &select), CMD_EXIT_USAGE);
	job_select_done(&select);
	assert_int_equal(read_all(two, &nothing, &select), CMD_EXIT_USAGE);
	job_select_done(&select);
	assert_int_equal(read_all(none, &all, &select), CMD_EXIT_OK);
	assert_false(select.is_plain);
	job_select_done(&select);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_plain),
	    cmocka_unit_test(test_names),
	    cmocka_unit_test(test_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
