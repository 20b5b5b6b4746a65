/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

static const struct table_column columns[] = {
    {.title = "GPU", .align = TABLE_RIGHT},
    {.title = "NAME", .may_shrink = true},
    {.title = "MEM", .align = TABLE_RIGHT},
    {.title = "STATE"},
};

static void expect(const struct table *table, size_t width, const char *text)
{
	char *out = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&out, &size);
	assert_non_null(stream);
	struct err err = {0};
	assert_int_equal(table_print(table, stream, width, &err), 0);
	assert_int_equal(table_width(stream), 0);
	(void)fclose(stream);
	assert_string_equal(out, text);
	free(out);
}

static void test_alignment(void **state)
{
	_cleanup_table_ struct table *table = table_new(columns, 4);
	assert_non_null(table);
	expect(table, 0, "GPU  NAME  MEM  STATE\n");
	table_addf(table, "%d", 0);
	table_add(table, "NVIDIA A100");
	table_add(table, "40 GiB");
	table_add(table, "ok");
	table_addf(table, "%d", 11);
	table_add(table, "T4");
	expect(table, 0,
	       "GPU  NAME            MEM  STATE\n"
	       "  0  NVIDIA A100  40 GiB  ok\n"
	       " 11  T4                -  -\n");
}

static void test_hostile_and_wide_cells(void **state)
{
	static const struct table_column two[] = {{.title = "A"}, {.title = "B"}};
	_cleanup_table_ struct table *table = table_new(two, 2);
	assert_non_null(table);
	table_add(table, "\x1b[2J\n");
	table_add(table, NULL);
	table_add(table, "\xe6\xbc\xa2");
	table_add(table, "");
	table_add(table, "\xc3\xa4");
	table_add(table, "x");
	expect(table, 0,
	       "A            B\n"
	       "\\x1b[2J\\x0a  -\n"
	       "\xe6\xbc\xa2           -\n"
	       "\xc3\xa4            x\n");
}

static void test_shrinks_to_the_terminal(void **state)
{
	_cleanup_table_ struct table *table = table_new(columns, 4);
	assert_non_null(table);
	table_add(table, "0");
	table_add(table, "NVIDIA A100-SXM4-40GB");
	table_add(table, "40 GiB");
	table_add(table, "ok");
	expect(table, 30,
	       "GPU  NAME           MEM  STATE\n"
	       "  0  NVIDIA A1…  40 GiB  ok\n");
	expect(table, 10, /* not below TABLE_SHRINK_MIN */
	       "GPU  NAME         MEM  STATE\n"
	       "  0  NVIDIA …  40 GiB  ok\n");
}

static void test_long_cells_are_cut(void **state)
{
	static const struct table_column one[] = {{.title = "A"}};
	_cleanup_table_ struct table *table = table_new(one, 1);
	assert_non_null(table);
	char *text = malloc(3 * TABLE_CELL_MAX);
	assert_non_null(text);
	memset(text, 'a', 3 * TABLE_CELL_MAX - 1);
	text[3 * TABLE_CELL_MAX - 1] = '\0';
	table_add(table, text);
	char *out = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&out, &size);
	assert_non_null(stream);
	assert_int_equal(table_print(table, stream, 0, NULL), 0);
	(void)fclose(stream);
	assert_int_equal(size, 2 + TABLE_CELL_MAX + 1);
	free(out);
	free(text);
}

static void test_many_rows(void **state)
{
	enum { ROWS = 20000 };
	_cleanup_table_ struct table *table = table_new(columns, 4);
	_cleanup_free_ char *expected = NULL;
	size_t size = 0;
	FILE *text = open_memstream(&expected, &size);
	assert_true(table && text);
	fputs("  GPU  NAME  MEM  STATE\n", text);
	for (int i = 0; i < ROWS; i++) {
		table_addf(table, "%d", 10000 + i);
		table_add(table, "T4");
		table_add(table, "1");
		table_add(table, "ok");
		fprintf(text, "%d  T4      1  ok\n", 10000 + i);
	}
	(void)fclose(text);
	expect(table, 0, expected);
}

static void test_write_errors(void **state)
{
	_cleanup_table_ struct table *table = table_new(columns, 4);
	assert_non_null(table);
	struct err err = {0};
	FILE *full = fopen("/dev/full", "we");
	assert_non_null(full);
	assert_int_equal(table_print(table, full, 0, &err), -ENOSPC);
	(void)fclose(full);
	full = fopen("/dev/full", "we");
	json_t *json = json_pack("[i]", 1);
	assert_int_equal(table_print_json(json, full, &err), -ENOSPC);
	json_decref(json);
	(void)fclose(full);
	assert_int_equal(table_print_json(NULL, stdout, &err), -ENOMEM);
}

static void test_json(void **state)
{
	char *out = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&out, &size);
	assert_non_null(stream);
	json_t *json = json_pack("{s:o, s:o, s:o}", "a",
				 table_json_text("g\xc3\xbc\xff\x1b\x7f\xc2\x9b\xe2\x80\xae"), "b",
				 table_json_text(NULL), "c", table_json_text(""));
	assert_int_equal(table_print_json(json, stream, NULL), 0);
	json_decref(json);
	(void)fclose(stream);
	assert_string_equal(
	    out,
	    "{\n  \"a\": \"g\xc3\xbc\xef\xbf\xbd\\u001B\\u007f\\u009b\\u202e\",\n  \"b\": null,\n"
	    "  \"c\": \"\"\n}\n");
	free(out);
}

static void expect_as(const struct table *table, const struct table_style *style, const char *text)
{
	char *out = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&out, &size);
	assert_non_null(stream);
	assert_int_equal(table_print_as(table, style, stream, NULL), 0);
	(void)fclose(stream);
	assert_string_equal(out, text);
	free(out);
}

static void test_gives_way(void **state)
{
	static const struct table_column four[] = {
	    {.title = "ID"}, {.title = "A"}, {.title = "B"}, {.title = "WHY", .may_shrink = true}};
	static const struct table_give give[] = {
	    {.drop = 0}, {.drop = 1}, {.drop = 2, .may_vanish = true}, {.least = 10}};
	static const size_t rows[] = {1, 0};
	_cleanup_table_ struct table *table = table_new(four, 4);
	assert_non_null(table);
	const char *const cells[] = {"1", "aaaa", NULL, "because of this", "2", "bb", NULL, "no"};
	for (size_t i = 0; i < 8; i++)
		table_add(table, cells[i]);
	struct table_style style = {.give = give, .rows = rows, .row_count = 2, .cuts = true};
	expect_as(table, &style, "ID  A     WHY\n2   bb    no\n1   aaaa  because of this\n");
	style.width = 20;
	expect_as(table, &style, "ID  A     WHY\n2   bb    no\n1   aaaa  because o…\n");
	style.width = 19; /* A goes, and there is room */
	expect_as(table, &style, "ID  WHY\n2   no\n1   because of this\n");
	style.width = 5; /* nothing else goes: the lines are cut */
	style.row_count = 1;
	expect_as(table, &style, "ID  …\n2   …\n");
	style.no_header = true;
	style.rows = NULL;
	style.width = 14;
	expect_as(table, &style, "1  because of…\n2  no\n");
	style.row_count = 0;
	style.rows = rows;
	expect_as(table, &style, "");
}

static void test_room(void **state)
{
	size_t width, lines;
	FILE *null = fopen("/dev/null", "we");
	assert_non_null(null);
	(void)unsetenv("COLUMNS");
	(void)setenv("LINES", "10", 1); /* of no terminal */
	table_room(null, &width, &lines);
	assert_int_equal(width, 80);
	assert_int_equal(lines, 0);
	static const struct {
		const char *text;
		size_t columns;
	} rows[] = {{"132", 132},
		    {"20", 20},
		    {"19", 80},
		    {"0", 80},
		    {"", 80},
		    {"-5", 80},
		    {"1e3", 80},
		    {"10000", 10000},
		    {"10001", 80},
		    {"12 ", 80},
		    {"99999999999999999999", 80}};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		(void)setenv("COLUMNS", rows[i].text, 1);
		table_room(null, &width, &lines);
		assert_int_equal(width, rows[i].columns);
	}
	(void)unsetenv("COLUMNS");
	(void)unsetenv("LINES");
	(void)fclose(null);
}

static int use_table(void *context)
{
	struct err err = {0};
	struct table *table = table_new(columns, 4);
	if (!table)
		return -ENOMEM;
	for (int i = 0; i < 200; i++)
		table_addf(table, "cell\t%d", i); /* to be escaped */
	int rc = table_print(table, context, 0, &err);
	table = table_free(table);
	json_t *json = rc < 0 ? NULL : table_json_text("text\xff");
	if (rc == 0)
		rc = table_print_json(json, context, &err);
	json_decref(json);
	return rc;
}

static void test_out_of_memory(void **state)
{
	FILE *null = fopen("/dev/null", "we");
	assert_non_null(null);
	assert_true(failmalloc_each(use_table, null) > 200);
	(void)fclose(null);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_alignment),
	    cmocka_unit_test(test_hostile_and_wide_cells),
	    cmocka_unit_test(test_shrinks_to_the_terminal),
	    cmocka_unit_test(test_long_cells_are_cut),
	    cmocka_unit_test(test_many_rows),
	    cmocka_unit_test(test_write_errors),
	    cmocka_unit_test(test_json),
	    cmocka_unit_test(test_gives_way),
	    cmocka_unit_test(test_room),
	    cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
