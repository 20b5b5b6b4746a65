/* SPDX-License-Identifier: Apache-2.0 */
#include "base/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

enum { RIG_LINE_MAX = 4 << 20 };

/* Adds the lines that are whole to `all`, a '|' behind each. */
static int rig_join(struct lines *lines, bool is_end, struct buf *all)
{
	char *line;
	size_t length;
	int rc;
	while ((rc = lines_next(lines, is_end, &line, &length)) > 0) {
		assert_int_equal(strlen(line), length);
		rc = buf_add(all, line, length);
		if (rc == 0)
			rc = buf_add(all, "|", 1);
		if (rc < 0)
			return rc;
	}
	return rc;
}

static void test_pieces(void **state)
{
	static const char text[] = "one\n\ntwo\r\n\r\nthree\nrest";
	for (size_t size = 1; size < sizeof(text); size++) {
		struct lines lines;
		struct buf all;
		lines_init(&lines, 5);
		buf_init(&all, 100);
		for (size_t at = 0; at < sizeof(text) - 1; at += size) {
			size_t left = sizeof(text) - 1 - at;
			assert_int_equal(lines_feed(&lines, text + at, left < size ? left : size),
					 0);
			assert_int_equal(rig_join(&lines, false, &all), 0);
		}
		assert_string_equal(buf_text(&all), "one||two||three|");
		assert_int_equal(lines.number, 5);
		assert_int_equal(rig_join(&lines, true, &all), 0);
		assert_string_equal(buf_text(&all), "one||two||three|rest|");
		assert_int_equal(rig_join(&lines, true, &all), 0);
		assert_int_equal(lines_feed(&lines, "lost", 4), 0);
		lines_clear(&lines);
		assert_int_equal(lines_feed(&lines, "x\n", 2), 0);
		assert_int_equal(rig_join(&lines, false, &all), 0);
		assert_string_equal(buf_text(&all), "one||two||three|rest|x|");
		buf_done(&all);
		lines_done(&lines);
	}
}

static void test_a_line_that_is_too_long(void **state)
{
	struct lines lines;
	char *line, *text = malloc(LINES_PIECE_MAX);
	size_t length;
	assert_non_null(text);
	memset(text, 'x', LINES_PIECE_MAX);
	lines_init(&lines, RIG_LINE_MAX);
	for (size_t at = 0; at < RIG_LINE_MAX; at += LINES_PIECE_MAX) {
		assert_int_equal(lines_feed(&lines, text, LINES_PIECE_MAX), 0);
		assert_int_equal(lines_next(&lines, false, &line, &length), 0);
	}
	assert_int_equal(lines_feed(&lines, "\n", 1), 0);
	assert_int_equal(lines_next(&lines, false, &line, &length), 1);
	assert_int_equal(length, RIG_LINE_MAX);
	/* The memory of a long line does not stay. */
	assert_int_equal(lines_feed(&lines, "short\n", 6), 0);
	assert_true(lines.bytes.capacity <= LINES_KEEP);
	assert_int_equal(lines.number, 1);
	lines_done(&lines);
	/* Whole, not whole, and at the end. */
	for (int i = 0; i < 3; i++) {
		lines_init(&lines, 3);
		assert_int_equal(lines_feed(&lines, "four\n", i == 0 ? 5 : 4), 0);
		assert_int_equal(lines_next(&lines, i == 2, &line, &length), -E2BIG);
		assert_int_equal(lines.number, 0);
		lines_done(&lines);
	}
	/* Fed, though it is too long already. */
	lines_init(&lines, 3);
	assert_int_equal(lines_feed(&lines, text, LINES_PIECE_MAX), 0);
	assert_int_equal(lines_feed(&lines, "abcde", 5), -E2BIG);
	lines_done(&lines);
	free(text);
}

static int rig_scenario(void *context)
{
	struct lines lines;
	struct buf all;
	lines_init(&lines, 100);
	buf_init(&all, 100);
	int rc = lines_feed(&lines, "one\ntwo", 7);
	if (rc == 0)
		rc = rig_join(&lines, false, &all);
	if (rc == 0)
		rc = lines_feed(&lines, "three\n", 6);
	if (rc == 0)
		rc = rig_join(&lines, false, &all);
	lines_done(&lines);
	buf_done(&all);
	return rc;
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
