/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/script/run_script.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "unit/unit.h"

/* Its words with a '|' behind each; "!" and the error; "" without memory. */
static const char *words_of(const char *text, char out[1024])
{
	struct run_script script;
	struct err err = {0};
	int rc = run_script_read("x.sh", text, strlen(text), &script, &err);
	size_t used = 0;
	out[0] = '\0';
	for (size_t i = 0; rc == 0 && i < script.count; i++)
		used += (size_t)snprintf(out + used, 1024 - used, "%zu:%s|", script.lines[i],
					 script.words[i]);
	if (rc < 0 && rc != -ENOMEM)
		(void)snprintf(out, 1024, "!%s", err.text);
	run_script_done(&script);
	return rc == -ENOMEM ? NULL : out;
}

static void test_words(void **state)
{
	static const struct {
		const char *text, *words;
	} rows[] = {
	    {"", ""},
	    {"#!/bin/sh\n#SLUICE -g 2\necho\n", "2:-g|2:2|"},
	    {"#!/bin/sh\n\n# a remark\n#SLUICE --time=1h  -g\t2 # why\n", "4:--time=1h|4:-g|4:2|"},
	    {"#SLUICE --name 'a b' \"c d\" e\\ f\r\n", "1:--name|1:a b|1:c d|1:e f|"},
	    {"#SLUICE 'a\\b' \"a\\\"b\" a''b ''\n", "1:a\\b|1:a\"b|1:ab|1:|"},
	    {"#SLUICE a#b\n#SLUICE\n#SLUICE c", "1:a#b|3:c|"},
	    {"#SLUICEX -g 2\n# SLUICE -g 2\n #SLUICE -g 2\n#sluice -g 2\n", ""},
	    {"true\n#SLUICE -g 2\n", ""},
	    {"  set -e\n#SLUICE -g 2\n", ""},
	    {"#SLUICE --env '$HOME'\n", "1:--env|1:$HOME|"},
	    {"#SLUICE a 'b\n", "!x.sh:1:11: the quote is not closed"},
	    {"\n#SLUICE a\\", "!x.sh:2:10: nothing behind the backslash"},
	};
	for (size_t i = 0; i < array_length(rows); i++) {
		char out[1024];
		const char *words = words_of(rows[i].text, out);
		if (words)
			assert_string_equal(words, rows[i].words);
	}
}

static void test_limits(void **state)
{
	enum { SIZE = 4096 };
	char *text = calloc(1, SIZE), out[1024];
	if (!text)
		return;
	(void)snprintf(text, SIZE, "#SLUICE");
	for (size_t i = 0, at = strlen(text); i <= RUN_SCRIPT_WORDS_MAX; i++, at += 2)
		memcpy(text + at, " a", 2);
	const char *words = words_of(text, out);
	if (words)
		assert_non_null(strstr(words, "more than 256 words"));

	struct run_script script;
	struct err err;
	static const char nul[] = "#SLUICE a\0b";
	int rc = run_script_read("x", nul, sizeof(nul) - 1, &script, &err);
	run_script_done(&script);
	if (rc != -ENOMEM)
		assert_int_equal(rc, -EINVAL);
	free(text);
}

static void test_notes(void **state)
{
	static const char text[] =
	    "#!/bin/sh\n#SBATCH --gres=gpu:2 \n#SLUICE -g 1\ntrue\n#SLUICE -t "
	    "1h\n#SBATCH -t 1\n";
	struct run_script script;
	struct err err;
	if (run_script_read("x", text, sizeof(text) - 1, &script, &err) == 0) {
		assert_int_equal(script.note_count, 2);
		assert_true(script.notes[0].line == 2 && !script.notes[0].is_late);
		assert_int_equal(script.notes[0].length, strlen("--gres=gpu:2"));
		assert_memory_equal(script.notes[0].text, "--gres=gpu:2", script.notes[0].length);
		assert_true(script.notes[1].line == 5 && script.notes[1].is_late);
	}
	run_script_done(&script);
}

static void test_interpreter(void **state)
{
	static const struct {
		const char *text, *program, *argument;
	} rows[] = {
	    {"#!/bin/sh\n", "/bin/sh", NULL},
	    {"#! /usr/bin/env python3 \nx", "/usr/bin/env", "python3"},
	    {"#!/usr/bin/env -S a b", "/usr/bin/env", "-S a b"},
	    {"#!\n", NULL, NULL},
	    {"#", NULL, NULL},
	    {"echo", NULL, NULL},
	};
	for (size_t i = 0; i < array_length(rows); i++) {
		char *words[2];
		size_t count = run_script_interpreter(rows[i].text, strlen(rows[i].text), words);
		size_t wanted = rows[i].argument ? 2 : rows[i].program ? 1 : 0;
		assert_true(count <= wanted);
		if (count == wanted && wanted > 0)
			assert_string_equal(words[0], rows[i].program);
		if (count == wanted && wanted > 1)
			assert_string_equal(words[1], rows[i].argument);
		free(words[0]);
		free(words[1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_words),
	    cmocka_unit_test(test_limits),
	    cmocka_unit_test(test_notes),
	    cmocka_unit_test(test_interpreter),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
