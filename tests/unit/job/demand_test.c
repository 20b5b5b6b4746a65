/* SPDX-License-Identifier: Apache-2.0 */
#include "job/demand.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/err.h"
#include "unit/unit.h"

static void a_list_is_read_entry_by_entry(void **state)
{
	const char *list = "a.b/c=2,rdma/shared_ib0=16384";
	struct demand demand;
	assert_int_equal(demand_next(&list, &demand, NULL), 1);
	assert_string_equal(demand.name, "a.b/c");
	assert_int_equal(demand.units, 2);
	assert_int_equal(demand_next(&list, &demand, NULL), 1);
	assert_string_equal(demand.name, "rdma/shared_ib0");
	assert_int_equal(demand.units, 16384);
	assert_int_equal(demand_next(&list, &demand, NULL), 0);
	list = "";
	assert_int_equal(demand_next(&list, &demand, NULL), 0);
	list = NULL;
	assert_int_equal(demand_next(&list, &demand, NULL), 0);
}

static void what_is_no_list_is_refused(void **state)
{
	static const char *const bad[] = {
	    "rdma/a",
	    "rdma=1",
	    "rdma/=1",
	    "/a=1",
	    "rdma/a=0",
	    "rdma/a=16385",
	    "rdma/a=-1",
	    "rdma/a=1,",
	    "rdma/a=1x",
	    "rdma/a b=1",
	    "rdma/a=1,rdma/a=1",
	    ",",
	    "rdma/b=1,rdma/a=1",
	    "a/b/c=1",
	    "-rdma/a=1",
	    "rdma/a-=1",
	    "rdma-/a=1",
	    "rdma/.a=1",
	    "rdma/\xff=1",
	};
	for (size_t i = 0; i < array_length(bad); i++) {
		struct err err = {0};
		assert_int_equal(demand_check(bad[i], &err), -EINVAL);
		assert_string_not_equal(err.text, "");
	}
	char text[DEMAND_TEXT_MAX + 1];
	memset(text, 'a', sizeof(text));
	text[DEMAND_TEXT_MAX] = '\0';
	assert_int_equal(demand_check(text, NULL), -E2BIG);
	memcpy(text + 1, "/", 1);
	text[DEMAND_NAME_MAX] = '\0'; /* one more than a name may have */
	strcat(text, "=1");
	assert_int_equal(demand_check(text, NULL), -EINVAL);
	size_t length = 0;
	for (int i = 0; i <= DEMAND_LIST_MAX; i++)
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%sr/%02d=1",
					   i ? "," : "", i);
	assert_int_equal(demand_check(text, NULL), -E2BIG);
	text[length - strlen(",r/32=1")] = '\0';
	assert_int_equal(demand_check(text, NULL), 0);
}

static int make(const char *const *items, size_t count, struct buf *out, struct err *err)
{
	buf_init(out, DEMAND_TEXT_MAX - 1);
	return demand_make(items, count, out, err);
}

static void what_a_user_writes_becomes_a_list(void **state)
{
	static const char *const items[] = {"rdma/b=3", "rdma/a"};
	static const char *const twice[] = {"rdma/b=3", "rdma/b"};
	static const char *const bad[] = {"rdma/b="};
	const char *many[DEMAND_LIST_MAX + 1];
	struct buf text;
	struct err err = {0};
	assert_int_equal(make(items, 2, &text, NULL), 0);
	assert_string_equal(buf_text(&text), "rdma/a=1,rdma/b=3");
	assert_int_equal(demand_check(buf_text(&text), NULL), 0);
	buf_done(&text);
	assert_int_equal(make(twice, 2, &text, &err), -EINVAL);
	assert_string_equal(err.text, "the resource 'rdma/b' is named twice");
	buf_done(&text);
	assert_int_equal(make(bad, 1, &text, &err), -EINVAL);
	buf_done(&text);
	for (size_t i = 0; i < array_length(many); i++)
		many[i] = "rdma/a";
	assert_int_equal(make(many, array_length(many), &text, NULL), -E2BIG);
	buf_done(&text);
	assert_int_equal(make(items, 0, &text, NULL), 0);
	assert_string_equal(buf_text(&text), "");
	buf_done(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_list_is_read_entry_by_entry),
	    cmocka_unit_test(what_is_no_list_is_refused),
	    cmocka_unit_test(what_a_user_writes_becomes_a_list),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
