/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/container/words.h"

#include <errno.h>

#include "unit/failmalloc.h"
#include "unit/unit.h"

enum { MANY = 100 };

static void a_line_of_any_length(void **state)
{
	struct words words = {.count = 0};
	char **argv = NULL;
	for (int i = 0; i < MANY; i++)
		words_add(&words, "%d%%s", i);
	assert_int_equal(words_take(&words, &argv, NULL), 0);
	assert_string_equal(argv[0], "0%s");
	assert_string_equal(argv[MANY - 1], "99%s");
	assert_null(argv[MANY]);
	assert_null(words_free(argv));
	assert_null(words_free(NULL));
}

static void a_word_is_there_once(void **state)
{
	struct words words = {.count = 0};
	char **argv = NULL;
	words_add_once(&words, "a");
	words_add_once(&words, "b");
	words_add_once(&words, "%s", "a");
	words_add(&words, "a");
	assert_int_equal(words_take(&words, &argv, NULL), 0);
	assert_string_equal(argv[1], "b");
	assert_string_equal(argv[2], "a");
	assert_null(argv[3]);
	words_free(argv);
}

static int once(void *context)
{
	struct words words = {.count = 0};
	char **argv = NULL;
	for (int i = 0; i < MANY; i++)
		words_add(&words, "%d", i);
	int result = words_take(&words, &argv, NULL);
	if (result == 0)
		words_free(argv);
	return result;
}

static void without_memory_it_says_so(void **state)
{
	assert_true(failmalloc_each(once, NULL) > 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_line_of_any_length),
					   cmocka_unit_test(a_word_is_there_once),
					   cmocka_unit_test(without_memory_it_says_so)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
