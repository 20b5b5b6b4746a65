/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "job/entries.h"
#include "unit/unit.h"

static void what_is_written_is_read_in_order(void **state)
{
	struct buf text _cleanup_buf_;
	buf_init(&text, 1000);
	assert_int_equal(entries_add_magic(&text, "thing 1"), 0);
	assert_int_equal(entries_add(&text, "a", "x=y\n"), 0);
	assert_int_equal(entries_add(&text, "b", ""), 0);
	assert_int_equal(entries_add_u64(&text, "n", UINT64_MAX), 0);

	struct entries entries;
	struct entry entry;
	assert_int_equal(entries_init(&entries, text.data, text.length, "thing 1", NULL), 0);
	assert_int_equal(entries_next(&entries, &entry, NULL), 1);
	assert_true(entry_is(&entry, "a") && !entry_is(&entry, "aa") && !entry_is(&entry, ""));
	assert_string_equal(entry.value, "x=y\n");
	assert_int_equal(entry.value_length, 4);
	assert_int_equal(entries_next(&entries, &entry, NULL), 1);
	assert_string_equal(entry.value, "");
	assert_int_equal(entries_next(&entries, &entry, NULL), 1);
	uint64_t number = 0;
	assert_int_equal(entry_u64(&entry, 0, 5, &number), -ERANGE);
	assert_int_equal(entry_u64(&entry, 0, UINT64_MAX, &number), 0);
	assert_true(number == UINT64_MAX);
	assert_int_equal(entries_next(&entries, &entry, NULL), 0);
}

static void a_value_is_copied_whole_or_not(void **state)
{
	struct entry entry = {.name = "a", .name_length = 1, .value = "four", .value_length = 4};
	char room[5] = "";
	assert_int_equal(entry_copy(&entry, room, 4), -ENAMETOOLONG);
	assert_string_equal(room, "");
	assert_int_equal(entry_copy(&entry, room, 5), 0);
	assert_string_equal(room, "four");
}

static void other_bytes_are_refused(void **state)
{
	struct entries entries;
	struct entry entry;
	struct err err = {0};
	assert_int_equal(entries_init(&entries, "thing 1", 7, "thing 1", &err), -EINVAL);
	assert_int_equal(entries_init(&entries, "thing 2\n", 8, "thing 1", &err), -EINVAL);
	assert_int_equal(entries_init(&entries, "thing 1\n", 8, "thing 1", &err), 0);
	assert_int_equal(entries_next(&entries, &entry, &err), 0);
	assert_int_equal(entries_init(&entries, "thing 1\na=b\0c", 13, "thing 1", &err), 0);
	assert_int_equal(entries_next(&entries, &entry, &err), 1);
	assert_int_equal(entries_next(&entries, &entry, &err), -EINVAL);
	assert_string_equal(err.text, "'thing 1': entry 2: it is cut short");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_written_is_read_in_order),
	    cmocka_unit_test(a_value_is_copied_whole_or_not),
	    cmocka_unit_test(other_bytes_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
