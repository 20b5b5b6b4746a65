/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/belonging.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "unit/unit.h"

/* What was captured from running containers, and what could not be. */
static json_t *fixture_load(void)
{
	json_error_t error;
	json_t *json = json_load_file(getenv("CGROUPS_FIXTURE"), 0, &error);
	assert_non_null(json);
	return json;
}

static const char *expected(const json_t *entry, const char *key)
{
	const char *text =
	    json_string_value(json_object_get(json_object_get(entry, "expect"), key));
	return text ? text : "";
}

static uint64_t expected_number(const json_t *entry, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(json_object_get(entry, "expect"), key));
}

static void check_entry(const json_t *entry)
{
	const char *text = json_string_value(json_object_get(entry, "text"));
	struct belonging told;
	print_message("%s\n", json_string_value(json_object_get(entry, "name")));
	bool found = belonging_parse(text, strlen(text), &told);
	assert_string_equal(told.container, expected(entry, "container"));
	assert_string_equal(told.pod, expected(entry, "pod"));
	assert_string_equal(told.runtime, expected(entry, "runtime"));
	assert_string_equal(told.job_instance, expected(entry, "job_instance"));
	assert_int_equal(told.job, expected_number(entry, "job"));
	assert_int_equal(told.slurm_job, expected_number(entry, "slurm_job"));
	assert_int_equal(found, json_object_size(json_object_get(entry, "expect")) > 0);
}

static void test_every_runtime(void **state)
{
	json_t *json = fixture_load();
	size_t i, captured = 0;
	json_t *entry;
	(void)state;
	json_array_foreach(json_object_get(json, "entries"), i, entry)
	{
		check_entry(entry);
		captured += json_is_true(json_object_get(entry, "captured"));
	}
	assert_in_range(captured, 15, i);
	json_decref(json);
}

/* However a text is cut, nothing is read behind its end and no other id comes out of it. */
static void test_cut_short(void **state)
{
	json_t *json = fixture_load();
	size_t i;
	json_t *entry;
	(void)state;
	json_array_foreach(json_object_get(json, "entries"), i, entry)
	{
		const char *text = json_string_value(json_object_get(entry, "text"));
		for (size_t length = 0; length <= strlen(text); length++) {
			struct belonging told;
			char *copy = malloc(length + 1);
			assert_non_null(copy);
			memcpy(copy, text, length);
			(void)belonging_parse(copy, length, &told);
			if (told.container[0] && expected(entry, "container")[0])
				assert_non_null(strstr(text, told.container));
			free(copy);
		}
	}
	json_decref(json);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_every_runtime),
	    cmocka_unit_test(test_cut_short),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
