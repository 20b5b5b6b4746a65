/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "job/interleave.h"
#include "unit/unit.h"

enum { O = INTERLEAVE_OUT, E = INTERLEAVE_ERR, RECORDS = 8, SHOWN = 256 };

struct index {
	uint8_t bytes[RECORDS * INTERLEAVE_RECORD];
	size_t count;
};

static void put(struct index *index, int stream, uint64_t length)
{
	interleave_format((enum interleave_stream)stream, length,
			  index->bytes + index->count++ * INTERLEAVE_RECORD);
}

/* "o0+2 e0+3 ": all that may be shown now. */
static const char *show(struct interleave *self, const struct index *index, uint64_t out,
			uint64_t errors, bool is_final)
{
	static char text[SHOWN];
	struct interleave_piece piece;
	struct interleave_view view = {.index = index->bytes,
				       .index_length = index->count * INTERLEAVE_RECORD,
				       .sizes = {out, errors},
				       .is_final = is_final};
	size_t at = 0;
	text[0] = '\0';
	while (interleave_next(self, &view, &piece))
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%c%d+%d ",
				       piece.stream == INTERLEAVE_OUT ? 'o' : 'e',
				       (int)piece.offset, (int)piece.length);
	return text;
}

static void a_record_is_read_as_it_was_written(void **state)
{
	static const uint64_t lengths[] = {1, 255, 256, INT64_MAX};
	uint8_t record[INTERLEAVE_RECORD];
	enum interleave_stream stream;
	uint64_t length;
	for (size_t i = 0; i < array_length(lengths); i++)
		for (int s = 0; s < INTERLEAVE_STREAMS; s++) {
			interleave_format((enum interleave_stream)s, lengths[i], record);
			assert_int_equal(interleave_parse(record, &stream, &length), 0);
			assert_int_equal(stream, s);
			assert_true(length == lengths[i]);
		}
	memset(record, 0, sizeof(record));
	assert_true(interleave_parse(record, &stream, &length) < 0);
	record[7] = 0x80;
	assert_true(interleave_parse(record, &stream, &length) < 0);
}

static void pieces_come_as_the_records_say(void **state)
{
	struct interleave self = {0};
	struct index index = {.count = 0};
	put(&index, O, 2);
	put(&index, E, 3);
	put(&index, O, 4);
	assert_string_equal(show(&self, &index, 6, 3, false), "o0+2 e0+3 o2+4 ");
	assert_string_equal(show(&self, &index, 6, 3, true), "");
	index.count = 2; /* the last one grows, and another comes */
	put(&index, O, 9);
	put(&index, E, 1);
	assert_string_equal(show(&self, &index, 11, 4, false), "o6+5 e3+1 ");
}

static void one_that_has_more_alone_is_shown_before_its_record(void **state)
{
	struct interleave self = {0};
	struct index index = {.count = 0};
	assert_string_equal(show(&self, &index, 2, 0, false), "o0+2 ");
	assert_string_equal(show(&self, &index, 4, 0, false), "o2+2 ");
	/* now both have: it is not known in which order */
	assert_string_equal(show(&self, &index, 6, 5, false), "");
	put(&index, O, 5);
	put(&index, E, 5);
	put(&index, O, 1);
	assert_string_equal(show(&self, &index, 6, 5, false), "o4+1 e0+5 o5+1 ");
}

static void sizes_are_believed_as_they_were_looked_at(void **state)
{
	struct interleave self = {.at = {10, 10}};
	uint64_t sizes[INTERLEAVE_STREAMS];
	interleave_sizes(&self, 12, 10, 14, sizes);
	assert_true(sizes[O] == 12 && sizes[E] == 10);
	interleave_sizes(&self, 10, 11, 10, sizes);
	assert_true(sizes[O] == 10 && sizes[E] == 11);
	assert_true(interleave_is_stuck(&self, sizes)); /* the index says what is next */
	sizes[E] = 10;
	assert_false(interleave_is_stuck(&self, sizes));
	interleave_sizes(&self, 10, 11, 14, sizes);
	assert_true(interleave_is_stuck(&self, sizes));
}

static void what_has_no_order_comes_last(void **state)
{
	struct interleave self = {0};
	struct index index = {.count = 0};
	put(&index, E, 1);
	assert_string_equal(show(&self, &index, 3, 4, false), "e0+1 ");
	assert_string_equal(show(&self, &index, 3, 4, true), "o0+3 e1+3 ");
}

static void a_lie_loses_no_byte(void **state)
{
	struct interleave self = {0};
	struct index index = {.count = 0};
	put(&index, O, INT64_MAX); /* more than there is */
	put(&index, E, 1);
	assert_string_equal(show(&self, &index, 3, 2, false), "o0+3 ");
	assert_string_equal(show(&self, &index, 3, 2, true), "e0+1 e1+1 ");

	self = (struct interleave){0};
	index = (struct index){.count = 0};
	put(&index, O, 1);
	memset(index.bytes + INTERLEAVE_RECORD, 0, INTERLEAVE_RECORD);
	index.count = 2;
	assert_string_equal(show(&self, &index, 3, 2, true), "o0+1 o1+2 e0+2 ");
	assert_true(self.is_bad);

	/* cut short meanwhile */
	assert_string_equal(show(&self, &index, 0, 0, true), "");
}

/* --- split ------------------------------------------------------------------------------------ */

static char split_text[SHOWN];

static void split_add(enum interleave_stream stream, uint64_t length, void *context)
{
	size_t at = strlen(split_text);
	(void)context;
	(void)snprintf(split_text + at, sizeof(split_text) - at, "%c%d ",
		       stream == INTERLEAVE_OUT ? 'o' : 'e', (int)length);
}

static void expect_split(int first, size_t turns, const char *out, const char *errors,
			 const char *expected, size_t empty)
{
	const struct interleave_window window = {.first = (enum interleave_stream)first,
						 .run_count = turns,
						 .grown = {strlen(out), strlen(errors)},
						 .text = {out, errors}};
	split_text[0] = '\0';
	assert_int_equal(interleave_split(&window, split_add, NULL), empty);
	assert_string_equal(split_text, expected);
}

static void each_turn_gets_a_line_and_the_last_one_the_rest(void **state)
{
	expect_split(O, 0, "", "", "", 0);
	expect_split(O, 1, "a\nb\n", "", "o4 ", 0);
	expect_split(O, 2, "a\nb\n", "c\nd\ne\n", "o4 e6 ", 0);
	expect_split(E, 4, "1\n333\n", "22\n4444\n", "e3 o2 e5 o4 ", 0);
	expect_split(O, 3, "a\nb\nc\n", "x\n", "o2 e2 o4 ", 0);
	expect_split(O, 5, "a\nb", "x\ny\n", "o2 e2 o1 e2 ", 1); /* without an end of a line */
	expect_split(O, 4, "a\n", "x\n", "o2 e2 ", 2);		 /* not there yet */
	expect_split(O, 4, "a\n", "x\ny\n", "o2 e2 ", 2);	 /* and what came after it waits */
	expect_split(O, 0, "a\n", "x\n", "o2 e2 ", 0);		 /* nothing was told */
	expect_split(E, 1, "a\n", "x\n", "e2 o2 ", 0);

	const struct interleave_window window = {
	    .first = INTERLEAVE_OUT, .run_count = 4, .grown = {5, 7}};
	split_text[0] = '\0';
	assert_int_equal(interleave_split(&window, split_add, NULL), 2);
	assert_string_equal(split_text, "o5 e7 ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_record_is_read_as_it_was_written),
	    cmocka_unit_test(pieces_come_as_the_records_say),
	    cmocka_unit_test(one_that_has_more_alone_is_shown_before_its_record),
	    cmocka_unit_test(sizes_are_believed_as_they_were_looked_at),
	    cmocka_unit_test(what_has_no_order_comes_last),
	    cmocka_unit_test(a_lie_loses_no_byte),
	    cmocka_unit_test(each_turn_gets_a_line_and_the_last_one_the_rest),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
