/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/kube/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

static int rig_join(const char *text, size_t length, void *context)
{
	struct buf *all = context;
	if (length == 4 && memcmp(text, "stop", 4) == 0)
		return -ECANCELED;
	int result = buf_add(all, text, length);
	return result < 0 ? result : buf_add(all, "|", 1);
}

static void test_pieces(void **state)
{
	static const char text[] = "one\n\ntwo\r\n\r\nthree\nrest";
	for (size_t size = 1; size < sizeof(text); size++) {
		struct lines lines;
		struct buf all;
		lines_init(&lines);
		buf_init(&all, 100);
		for (size_t at = 0; at < sizeof(text) - 1; at += size) {
			size_t left = sizeof(text) - 1 - at;
			assert_int_equal(lines_feed(&lines, text + at, left < size ? left : size,
						    rig_join, &all),
					 0);
		}
		assert_string_equal(buf_text(&all), "one|two|three|");
		lines_clear(&lines);
		assert_int_equal(lines_feed(&lines, "x\n", 2, rig_join, &all), 0);
		assert_string_equal(buf_text(&all), "one|two|three|x|");
		assert_int_equal(lines_feed(&lines, "stop\ny\n", 7, rig_join, &all), -ECANCELED);
		buf_done(&all);
		lines_done(&lines);
	}
}

static int rig_count(const char *text, size_t length, void *context)
{
	*(size_t *)context += length;
	return 0;
}

static void test_a_line_that_is_too_long(void **state)
{
	struct lines lines;
	size_t count = 0, size = LINES_MAX + 2;
	char *text = malloc(size);
	assert_non_null(text);
	memset(text, 'x', size);
	lines_init(&lines);
	assert_int_equal(lines_feed(&lines, text, LINES_MAX, rig_count, &count), 0);
	assert_int_equal(lines_feed(&lines, "\n", 1, rig_count, &count), 0);
	assert_int_equal(count, LINES_MAX);
	assert_true(lines.part.capacity <= LINES_KEEP);
	/* In two pieces, and in one. */
	assert_int_equal(lines_feed(&lines, text, LINES_MAX, rig_count, &count), 0);
	assert_int_equal(lines_feed(&lines, text, 1, rig_count, &count), -EMSGSIZE);
	lines_clear(&lines);
	text[size - 1] = '\n';
	assert_int_equal(lines_feed(&lines, text, size, rig_count, &count), -EMSGSIZE);
	lines_done(&lines);
	free(text);
}

static int rig_scenario(void *context)
{
	struct lines lines;
	size_t count = 0;
	lines_init(&lines);
	int result = lines_feed(&lines, "one\ntwo", 7, rig_count, &count);
	if (result == 0)
		result = lines_feed(&lines, "three\n", 6, rig_count, &count);
	lines_done(&lines);
	return result;
}

static void test_no_memory(void **state)
{
	assert_true(failmalloc_each(rig_scenario, NULL) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_pieces),
	    cmocka_unit_test(test_a_line_that_is_too_long),
	    cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
