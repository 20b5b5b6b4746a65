/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/usage/proctable.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "unit/unit.h"

#define ID "ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12"

/* A /proc of the test's own. */
static void put(uint32_t pid, const char *name, unsigned start, const char *cgroup)
{
	char path[64], text[512];
	(void)snprintf(path, sizeof(path), "%u", pid);
	assert_int_equal(file_mkdirs(unit_path(unit_top, path), 0755, NULL), 0);
	(void)snprintf(path, sizeof(path), "%u/stat", pid);
	(void)snprintf(text, sizeof(text),
		       "%u (%s) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %u 4096 0 0 0 0 0 0 0 0 0 "
		       "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 2 0\n",
		       pid, name, start);
	unit_write(unit_path(unit_top, path), text);
	(void)snprintf(path, sizeof(path), "%u/cgroup", pid);
	if (cgroup)
		unit_write(unit_path(unit_top, path), cgroup);
}

static void gone(uint32_t pid)
{
	char path[64];
	(void)snprintf(path, sizeof(path), "%u/stat", pid);
	(void)unlink(unit_path(unit_top, path));
}

static struct proctable *table_new(void)
{
	struct proctable *table = NULL;
	struct err err = {0};
	return proctable_new(unit_top, &table, &err) == 0 ? table : NULL;
}

static struct proctable_entry *round_of(struct proctable *table, uint32_t pid)
{
	proctable_begin(table);
	(void)proctable_want(table, pid);
	proctable_end(table);
	(void)proctable_read(table, PROCTABLE_SLICE);
	return proctable_find(table, pid);
}

static void test_a_process(void **state)
{
	struct proctable *table = table_new();
	(void)state;
	assert_non_null(table);
	put(10, "a) (b", 77, "0::/docker/" ID "\n");
	struct proctable_entry *entry = round_of(table, 10);
	assert_non_null(entry);
	assert_int_equal(entry->state, PROCTABLE_READ);
	assert_string_equal(entry->name, "a) (b");
	assert_int_equal(entry->start, 77);
	assert_int_equal(entry->uid, getuid());
	assert_string_equal(entry->belonging.container, ID);

	/* Another program and group, the same process. */
	entry->job = 5;
	put(10, "python", 77, "0::/\n");
	entry = round_of(table, 10);
	assert_string_equal(entry->name, "python");
	assert_string_equal(entry->belonging.container, "");
	assert_int_equal(entry->job, 5);

	/* Another process with its number. */
	put(10, "other", 78, "0::/docker/" ID "\n");
	entry = round_of(table, 10);
	assert_int_equal(entry->start, 78);
	assert_int_equal(entry->job, 0);
	assert_string_equal(entry->belonging.container, ID);

	/* It ended, and the driver has not noticed yet. */
	gone(10);
	entry = round_of(table, 10);
	assert_int_equal(entry->state, PROCTABLE_READ);
	assert_string_equal(entry->name, "other");

	/* Nobody wants it any more. */
	proctable_begin(table);
	proctable_end(table);
	assert_null(proctable_find(table, 10));
	assert_null(proctable_free(table));
}

static void test_hidden(void **state)
{
	struct proctable *table = table_new();
	(void)state;
	assert_non_null(table);
	struct proctable_entry *entry = round_of(table, 11);
	assert_non_null(entry);
	assert_int_equal(entry->state, PROCTABLE_HIDDEN);
	put(11, "x", 1, NULL); /* its cgroup cannot be read */
	assert_int_equal(round_of(table, 11)->state, PROCTABLE_HIDDEN);
	put(11, "x", 1, "garbage\n\n::::\n");
	assert_int_equal(round_of(table, 11)->state, PROCTABLE_READ);
	unit_write(unit_path(unit_top, "11/stat"), "11 (x");
	assert_int_equal(round_of(table, 11)->state, PROCTABLE_READ);
	unit_write(unit_path(unit_top, "11/stat"), "");
	assert_int_equal(round_of(table, 11)->state, PROCTABLE_READ);
	assert_null(proctable_free(table));
}

/* Thousands are read a few at a time. */
static void test_many(void **state)
{
	enum { COUNT = 500 };
	struct proctable *table = table_new();
	size_t rounds = 0;
	(void)state;
	assert_non_null(table);
	for (uint32_t i = 0; i < COUNT; i++)
		put(COUNT + 3 - i, "x", i + 1, "0::/\n");
	proctable_begin(table);
	for (uint32_t i = 0; i < COUNT; i++)
		assert_non_null(proctable_want(table, 4 + i));
	proctable_end(table);
	while (proctable_read(table, PROCTABLE_SLICE) > 0)
		assert_in_range(++rounds, 1, COUNT / PROCTABLE_SLICE + 1);
	for (uint32_t i = 0; i < COUNT; i++)
		assert_int_equal(proctable_find(table, 4 + i)->state, PROCTABLE_READ);

	/* A number that was taken over is found when its turn comes. */
	put(4 + COUNT / 2, "new", 9999, "0::/docker/" ID "\n");
	for (rounds = 0; proctable_find(table, 4 + COUNT / 2)->start != 9999; rounds++) {
		assert_in_range(rounds, 0, COUNT / PROCTABLE_SLICE + 1);
		(void)proctable_read(table, PROCTABLE_SLICE);
	}

	/* And there is an end to them. */
	proctable_begin(table);
	proctable_end(table);
	proctable_begin(table);
	for (uint32_t i = 0; i < PROCTABLE_MAX; i++)
		assert_non_null(proctable_want(table, 100000 + i));
	proctable_end(table);
	assert_null(proctable_want(table, 1));
	assert_null(proctable_free(table));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_a_process, unit_top_setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_hidden, unit_top_setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_many, unit_top_setup, unit_top_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
