/* SPDX-License-Identifier: Apache-2.0 */
#include "job/file/cmdlines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/lines.h"
#include "unit/unit.h"

/* The commands with '|' between them, fed in pieces of `piece` bytes. */
static int joined(const char *text, size_t piece, char out[256])
{
	struct lines lines;
	struct err err = {0};
	size_t length = strlen(text);
	int rc = 0;
	out[0] = '\0';
	lines_init(&lines, CMDLINES_LINE_MAX);
	for (size_t at = 0; rc == 0 && at <= length; at += piece) {
		const char *line;
		size_t now = length - at < piece ? length - at : piece;
		rc = lines_feed(&lines, text + at, now);
		while (rc >= 0 &&
		       (rc = cmdlines_next(&lines, at + piece > length, &line, &err)) > 0) {
			strncat(out, line, 100);
			strncat(out, "|", 2);
		}
	}
	lines_done(&lines);
	return rc;
}

static void test_commands(void **state)
{
	static const char text[] = "echo a\n\n  # no\n\tb c \r\n#x\nlast";
	for (size_t piece = 1; piece < sizeof(text) + 1; piece++) {
		char out[256];
		int rc = joined(text, piece, out);
		assert_int_equal(rc, 0);
		assert_string_equal(out, "echo a|b c|last|");
	}
}

static void test_too_long_and_nul(void **state)
{
	struct lines lines;
	struct err err = {0};
	const char *line;
	static char many[LINES_PIECE_MAX];
	memset(many, 'x', sizeof(many));
	lines_init(&lines, CMDLINES_LINE_MAX);
	int rc = lines_feed(&lines, "a\nb", 3);
	if (rc == 0)
		assert_int_equal(cmdlines_next(&lines, false, &line, &err), 1);
	if (rc == 0)
		assert_int_equal(cmdlines_next(&lines, false, &line, &err), 0);
	for (int i = 0; rc == 0 && i < 4; i++) {
		rc = lines_feed(&lines, many, sizeof(many));
		if (rc == 0)
			rc = cmdlines_next(&lines, false, &line, &err);
	}
	lines_done(&lines);
	assert_int_equal(rc, -E2BIG);
	assert_string_equal(err.text, "line 2 is longer than 131071 bytes");
	lines_init(&lines, CMDLINES_LINE_MAX);
	rc = lines_feed(&lines, "a\n\0b\n", 5);
	if (rc == 0) {
		assert_int_equal(cmdlines_next(&lines, false, &line, &err), 1);
		assert_int_equal(cmdlines_next(&lines, false, &line, &err), -EINVAL);
		assert_string_equal(err.text, "line 2 has a NUL byte in it");
	}
	lines_done(&lines);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_commands),
	    cmocka_unit_test(test_too_long_and_nul),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
