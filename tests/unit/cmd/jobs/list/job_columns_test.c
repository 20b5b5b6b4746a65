/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/list/job_columns.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "unit/unit.h"

static void test_names(void **state)
{
	struct job_columns columns;
	struct err err = {0};
	/* Each of the words that completion offers is one, and they are all. */
	const char *word = JOB_COLUMNS_WORDS;
	uint32_t count = 0;
	while (*word) {
		char name[32] = "";
		size_t length = strcspn(word, "|");
		assert_true(length < sizeof(name));
		memcpy(name, word, length);
		assert_int_equal(job_columns_parse(name, &columns, &err), 0);
		assert_int_equal(columns.count, 1);
		assert_int_equal(columns.at[0], count++);
		word += length + (word[length] == '|');
	}
	assert_int_equal(job_columns_parse("REASON,Id,id", &columns, &err), 0);
	assert_int_equal(columns.count, 3);
	assert_int_equal(columns.at[0], count - 1);
	assert_int_equal(columns.at[2], 0);

	static const char *const bad[] = {"", ",", "id,", ",id", "id,,name", "id name", "i", "id;"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		columns.count = 77;
		assert_int_equal(job_columns_parse(bad[i], &columns, &err), -EINVAL);
		assert_int_equal(columns.count, 77);
		assert_non_null(strstr(err.text, "the columns are id, name, "));
	}
	assert_int_equal(job_columns_parse("id,nmae", &columns, &err), -EINVAL);
	assert_non_null(strstr(err.text, "there is no column 'nmae', did you mean 'name'?"));
}

static void test_many(void **state)
{
	char list[3 * (JOB_COLUMNS_MAX + 1) + 1] = "";
	struct job_columns columns;
	struct err err = {0};
	for (size_t i = 0; i < JOB_COLUMNS_MAX; i++)
		memcpy(list + 3 * i, "id,", 4);
	list[3 * JOB_COLUMNS_MAX - 1] = '\0';
	assert_int_equal(job_columns_parse(list, &columns, &err), 0);
	assert_int_equal(columns.count, JOB_COLUMNS_MAX);
	memcpy(list + 3 * JOB_COLUMNS_MAX - 1, ",id", 4);
	assert_int_equal(job_columns_parse(list, &columns, &err), -EINVAL);
	char *long_name = calloc(1, 100001);
	assert_non_null(long_name);
	memset(long_name, 'x', 100000);
	assert_int_equal(job_columns_parse(long_name, &columns, &err), -EINVAL);
	free(long_name);
}

/* Every cell of a job of which nothing is known: as many as there are columns. */
static void test_cells(void **state)
{
	struct job_columns columns;
	struct table_column titles[JOB_COLUMNS_MAX];
	struct table_give give[JOB_COLUMNS_MAX];
	struct err err = {0};
	char all[] = JOB_COLUMNS_WORDS, *text = NULL;
	size_t size;
	for (char *at = all; *at; at++)
		*at = *at == '|' ? ',' : *at;
	assert_int_equal(job_columns_parse(all, &columns, &err), 0);
	job_columns_titles(&columns, true, titles, give);
	for (size_t i = 0; i < columns.count; i++)
		assert_true(titles[i].title[0] && give[i].drop == 0 && !give[i].may_vanish);

	Sluice__V1__Job job = SLUICE__V1__JOB__INIT;
	struct table *table = table_new(titles, columns.count);
	FILE *out = open_memstream(&text, &size);
	assert_non_null(table);
	assert_non_null(out);
	job.id = 17;
	job.submitted_unix_ns = 1;
	job_columns_add(&columns, &job, 1, table);
	const struct table_style style = {.no_header = true};
	assert_int_equal(table_print_as(table, &style, out, &err), 0);
	(void)fclose(out);
	table = table_free(table);
	size_t words = 0;
	for (const char *at = text; *at; at++)
		words += *at != ' ' && (at[1] == ' ' || at[1] == '\n');
	assert_int_equal(words, columns.count + 1); /* a time is two words */
	assert_memory_equal(text, "17  -  0  0  Unknown  -  0.00s  -", 33);
	free(text);

	job_columns_usual(false, &columns);
	job_columns_titles(&columns, false, titles, give);
	assert_string_equal(titles[columns.count - 1].title, "REASON");
	assert_int_equal(give[columns.count - 1].drop, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_names),
					   cmocka_unit_test(test_many),
					   cmocka_unit_test(test_cells)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
