/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "job/note.h"
#include "unit/unit.h"

static int read_text(const char *text, struct note *out)
{
	return note_parse(text, strlen(text), out, NULL);
}

static void what_is_written_is_read(void **state)
{
	struct note note = {.pid = 123, .uid = 1000, .since_s = 1700000000};
	note_set_name(&note, "train");
	char text[NOTE_TEXT_MAX];
	size_t length = note_format(&note, text);
	assert_string_equal(text, "sluice 1 pid=123 uid=1000 since=1700000000 name=train\n");

	struct note again;
	assert_int_equal(note_parse(text, length, &again, NULL), 0);
	assert_int_equal(again.pid, 123);
	assert_int_equal(again.uid, 1000);
	assert_int_equal(again.since_s, 1700000000);
	assert_string_equal(again.name, "train");
}

static void the_longest_note_fits(void **state)
{
	struct note note = {.pid = INT32_MAX, .uid = UINT32_MAX, .since_s = UINT32_MAX};
	char name[200];
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	note_set_name(&note, name);
	assert_int_equal(strlen(note.name), NOTE_NAME_MAX - 1);

	char text[NOTE_TEXT_MAX];
	size_t length = note_format(&note, text);
	assert_true(length < NOTE_TEXT_MAX - 1);
	struct note again;
	assert_int_equal(note_parse(text, length, &again, NULL), 0);
	assert_string_equal(again.name, note.name);
}

static void names_lose_what_could_harm_a_terminal(void **state)
{
	struct note note = {0};
	note_set_name(&note, "a b\x1b[31m\xc3\xa9");
	assert_string_equal(note.name, "a-b-[31m--");
	note_set_name(&note, "");
	assert_string_equal(note.name, "job");
}

static void anything_else_is_refused(void **state)
{
	static const char *const bad[] = {
	    "",
	    "\n",
	    "hello",
	    "sluice 2 pid=1 uid=1 since=1 name=x\n",
	    "sluice 1 pid= uid=1 since=1 name=x\n",
	    "sluice 1 pid=-1 uid=1 since=1 name=x\n",
	    "sluice 1 pid=99999999999 uid=1 since=1 name=x\n",
	    "sluice 1 pid=1 uid=4294967296 since=1 name=x\n",
	    "sluice 1 pid=1 uid=1 since=1",
	    "sluice 1 pid=1 uid=1 since=1 name=a b\n",
	    "sluice 1 pid=1 uid=1 since=1 name=\x1b[2J\n",
	    "sluice 1 pid=1 uid=1 since=1 name=x\nx\n",
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct note note = {.pid = 7};
		print_message("refused: %zu\n", i);
		assert_int_equal(read_text(bad[i], &note), -EINVAL);
		assert_int_equal(note.pid, 7);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_written_is_read),
	    cmocka_unit_test(the_longest_note_fits),
	    cmocka_unit_test(names_lose_what_could_harm_a_terminal),
	    cmocka_unit_test(anything_else_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
