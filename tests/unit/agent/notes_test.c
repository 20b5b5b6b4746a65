/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/notes.h"

#include <stdio.h>
#include <string.h>

#include "unit/unit.h"

static char told[256];

static void tell(const char *text, void *context)
{
	assert_ptr_equal(context, told);
	(void)snprintf(told + strlen(told), sizeof(told) - strlen(told), "%s|", text);
}

static void found(struct notes *known, const char *a, const char *b, const char *expected)
{
	struct notes now = {.count = 0};
	if (a)
		notes_add(&now, "%s", a);
	if (b)
		notes_add(&now, "%s", b);
	told[0] = '\0';
	notes_replace(known, &now, tell, told);
	assert_string_equal(told, expected);
	assert_int_equal(now.count, 0);
	assert_int_equal(known->count, (a != NULL) + (b != NULL));
}

static void test_each_once(void **state)
{
	(void)state;
	struct notes known = {.count = 0};
	found(&known, "a", NULL, "a|");
	found(&known, "a", NULL, "");
	found(&known, "b", "a", "b|");
	assert_true(notes_have(&known, "a"));
	found(&known, "b", NULL, "");
	assert_false(notes_have(&known, "a"));
	found(&known, NULL, NULL, "");
	found(&known, "b", "c", "b|c|");
	notes_done(&known);
}

static void test_limits(void **state)
{
	(void)state;
	struct notes notes = {.count = 0};
	for (int i = 0; i < NOTES_MAX + 10; i++)
		notes_add(&notes, "%*d", NOTES_TEXT_MAX + 10, i);
	assert_int_equal(notes.count, NOTES_MAX);
	assert_int_equal(strlen(notes.items[0]), NOTES_TEXT_MAX - 1);
	notes_done(&notes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_each_once),
	    cmocka_unit_test(test_limits),
	};
	return cmocka_run_group_tests_name("agent/notes", tests, NULL, NULL);
}
