/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/expect.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "unit/unit.h"

static const char good[] = "# of this class\n"
			   "all_reduce float any peak_busbw >= 2\n"
			   "\n"
			   "  all_reduce\tf32 8 latency_us <= 5.5   # small\r\n"
			   "broadcast double 1K latency_us <= 1";

static struct measure_row row_of(uint64_t bytes, double stream, double isolated)
{
	struct measure_row row = {
	    .plan = {.op = COLLECTIVE_ALL_REDUCE, .type = COLLECTIVE_F32},
	    .out_of_place = {.is_there = true, .stream = stream, .isolated = isolated},
	    .in_place = {.is_there = true, .stream = stream / 2, .isolated = isolated},
	};
	collective_shape(COLLECTIVE_ALL_REDUCE, COLLECTIVE_F32, bytes, 2, &row.plan.shape);
	return row;
}

static void lines_are_judged_by_the_better_column(void **state)
{
	struct expect expect _cleanup_expect_ = {0};
	struct err err = {0};
	if (expect_parse(good, strlen(good), &expect, &err) == -ENOMEM)
		return;
	assert_int_equal(expect.count, 3);
	assert_int_equal(expect.lines[1].number, 4);
	assert_int_equal(expect.lines[2].size, 1024);
	struct measure_row row = row_of(1 << 20, 1e-3, NAN); /* 1.05 and 2.10 GB/s */
	expect_row(&expect, &row, 2);
	assert_int_equal(expect_status(&expect.lines[0]), EXPECT_PASS);
	assert_int_equal(expect_status(&expect.lines[1]), EXPECT_SKIP);
	row = row_of(8, 1e-6, 6e-6);
	expect_row(&expect, &row, 2);
	assert_int_equal(expect_status(&expect.lines[1]), EXPECT_SLOW);
	row = row_of(8, 1e-6, 5e-6);
	expect_row(&expect, &row, 2);
	assert_int_equal(expect_status(&expect.lines[1]), EXPECT_PASS);
	row = row_of(8, 1e-6, 9e-6); /* the best counts, not the last */
	expect_row(&expect, &row, 2);
	row = row_of(1 << 20, 5e-3, NAN);
	expect_row(&expect, &row, 2);
	assert_int_equal(expect_status(&expect.lines[0]), EXPECT_PASS);
	assert_int_equal(expect_status(&expect.lines[1]), EXPECT_PASS);
	assert_int_equal(expect_status(&expect.lines[2]), EXPECT_SKIP);
	char text[EXPECT_TEXT_MAX];
	expect_text(&expect.lines[1], text);
	assert_string_equal(text, "all_reduce float 8 latency_us <= 5.5");
	expect_text(&expect.lines[0], text);
	assert_string_equal(text, "all_reduce float any peak_busbw >= 2");
	expect.lines[0].is_at_least = false;
	assert_int_equal(expect_status(&expect.lines[0]), EXPECT_SLOW);
}

/* 256M asks all_gather over 3 ranks for a little less. */
static void a_size_may_be_what_was_asked_for(void **state)
{
	static const char text[] = "all_gather float 1M peak_busbw >= 0.1\n"
				   "all_gather float 1048560 peak_busbw >= 0.1\n"
				   "all_gather float 2M peak_busbw >= 0.1\n"
				   "all_gather float 8 latency_us <= 100\n";
	struct expect expect _cleanup_expect_ = {0};
	struct err err = {0};
	if (expect_parse(text, strlen(text), &expect, &err) < 0)
		return;
	struct measure_row row = row_of(0, 1e-3, 1e-3);
	row.plan.op = COLLECTIVE_ALL_GATHER;
	collective_shape(COLLECTIVE_ALL_GATHER, COLLECTIVE_F32, 1 << 20, 3, &row.plan.shape);
	expect_row(&expect, &row, 3);
	assert_int_equal(expect_status(&expect.lines[0]), EXPECT_PASS);
	assert_int_equal(expect_status(&expect.lines[1]), EXPECT_PASS);
	assert_int_equal(expect_status(&expect.lines[2]), EXPECT_SKIP);
	/* nothing is not 8 bytes */
	collective_shape(COLLECTIVE_ALL_GATHER, COLLECTIVE_F32, 8, 3, &row.plan.shape);
	expect_row(&expect, &row, 3);
	assert_int_equal(expect_status(&expect.lines[3]), EXPECT_SKIP);
}

static void wrong_lines_are_named(void **state)
{
	static const char *const cases[][2] = {
	    {"all_reduce float 8 latency_us <=", "line 1: OP TYPE SIZE"},
	    {"\nall_reduce float 8 latency_us <= 3 4", "line 2: OP TYPE SIZE"},
	    {"allreduse float 8 latency_us <= 3", "line 1: 'allreduse' is no operation"},
	    {"all_reduce f8 8 latency_us <= 3", "'f8' is no type"},
	    {"all_reduce float 8x latency_us <= 3", "'8x' is no size"},
	    {"all_reduce float 8 latency <= 3", "'latency' is neither"},
	    {"all_reduce float 8 latency_us < 3", "'<' is neither"},
	    {"all_reduce float 8 latency_us <= fast", "'fast' is no number"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct expect expect;
		struct err err = {0};
		assert_int_equal(expect_parse(cases[i][0], strlen(cases[i][0]), &expect, &err),
				 -EINVAL);
		assert_non_null(strstr(err.text, cases[i][1]));
		assert_null(expect.lines);
	}
	struct expect expect;
	struct err err = {0};
	assert_int_equal(expect_parse("a\0b", 3, &expect, &err), -EINVAL);
	static char wide[EXPECT_LINE_MAX + 1];
	memset(wide, ' ', sizeof(wide));
	assert_int_equal(expect_parse(wide, sizeof(wide), &expect, &err), -EINVAL);
	assert_int_equal(expect_parse(wide, EXPECT_BYTES_MAX + 1, &expect, &err), -E2BIG);
	assert_int_equal(expect_parse("# nothing\n\n", 11, &expect, &err), 0);
	assert_int_equal(expect.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lines_are_judged_by_the_better_column),
	    cmocka_unit_test(a_size_may_be_what_was_asked_for),
	    cmocka_unit_test(wrong_lines_are_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
