/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/service/service_select.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "job/job.h"
#include "unit/unit.h"

static bool has(const Sluice__V1__ListRequest *asked, uint64_t id, uint64_t array_id,
		uint32_t index, const char *name, bool sees_name)
{
	struct service_select select = {.name_count = 0};
	struct job job = {.id = id, .array_id = array_id, .array_index = index};
	struct err err;
	(void)snprintf(job.name, sizeof(job.name), "%s", name);
	int rc = service_select_take(&select, asked, &err);
	bool found = rc == 0 && service_select_has(&select, &job, sees_name);
	service_select_done(&select);
	if (rc != -ENOMEM)
		assert_int_equal(rc, 0);
	return found || rc == -ENOMEM;
}

static void test_names(void **state)
{
	Sluice__V1__ListRequest asked = SLUICE__V1__LIST_REQUEST__INIT;
	char train[] = "train-*", eval[] = "eval", *names[] = {train, eval};
	assert_true(has(&asked, 1, 0, 0, "any", false));

	asked.names = names;
	asked.n_names = 2;
	assert_true(has(&asked, 1, 0, 0, "train-3", true));
	assert_true(has(&asked, 1, 0, 0, "eval", true));
	struct service_select select = {.name_count = 0};
	struct job job = {.id = 1, .name = "eval"};
	struct err err;
	if (service_select_take(&select, &asked, &err) == 0) {
		assert_false(
		    service_select_has(&select, &job, false)); /* whose name it is not to see */
		(void)snprintf(job.name, sizeof(job.name), "evaluate");
		assert_false(service_select_has(&select, &job, true));
	}
	service_select_done(&select);
}

static void test_ranges(void **state)
{
	Sluice__V1__JobRange range = SLUICE__V1__JOB_RANGE__INIT, *ranges[] = {&range};
	Sluice__V1__ListRequest asked = SLUICE__V1__LIST_REQUEST__INIT;
	asked.ranges = ranges;
	asked.n_ranges = 1;
	range.first = 12;
	range.last = 20;
	assert_true(has(&asked, 12, 0, 0, "", false));
	assert_true(has(&asked, 25, 20, 5, "", false));

	struct service_select select = {.name_count = 0};
	struct job member = {.id = 15, .array_id = 11, .array_index = 4};
	struct err err;
	if (service_select_take(&select, &asked, &err) == 0)
		assert_false(service_select_has(&select, &member, false));
	service_select_done(&select);
	range.alone = true;
	assert_true(has(&asked, 15, 11, 4, "", false));

	range.array_id = 11;
	range.first = range.last = 4;
	assert_true(has(&asked, 15, 11, 4, "", false));
}

static void refused(const Sluice__V1__ListRequest *asked, const char *says)
{
	struct service_select select = {.name_count = 0};
	struct err err = {0};
	int rc = service_select_take(&select, asked, &err);
	service_select_done(&select);
	if (rc == -ENOMEM)
		return;
	assert_int_equal(rc, -EINVAL);
	if (!strstr(err.text, says))
		fail_msg("%s", err.text);
}

static void test_refused(void **state)
{
	Sluice__V1__JobRange range = SLUICE__V1__JOB_RANGE__INIT;
	Sluice__V1__JobRange *ranges[SELECT_RANGES_MAX + 1];
	char *names[SELECT_NAMES_MAX + 1], name[SELECT_NAME_BYTES_MAX + 1];
	char plain[] = "a", open[] = "a[b";
	Sluice__V1__ListRequest asked = SLUICE__V1__LIST_REQUEST__INIT;
	for (size_t i = 0; i <= SELECT_RANGES_MAX; i++)
		ranges[i] = &range;
	for (size_t i = 0; i <= SELECT_NAMES_MAX; i++)
		names[i] = plain;
	asked.names = names;
	asked.ranges = ranges;
	asked.n_names = SELECT_NAMES_MAX + 1;
	refused(&asked, "too many");
	asked.n_names = 0;
	asked.n_ranges = SELECT_RANGES_MAX + 1;
	refused(&asked, "too many");
	asked.n_ranges = 1;
	range.first = 2;
	range.last = 1;
	refused(&asked, "begins behind its end");

	asked.n_ranges = 0;
	asked.n_names = 1;
	names[0] = open;
	refused(&asked, "character 2");
	memset(name, 'a', SELECT_NAME_BYTES_MAX);
	name[SELECT_NAME_BYTES_MAX] = '\0';
	names[0] = name;
	refused(&asked, "so long a name");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_names),
	    cmocka_unit_test(test_ranges),
	    cmocka_unit_test(test_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
