/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "unit/cmd/sample.h"
#include "unit/unit.h"

static const char *text_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static void test_dump(void **state)
{
	char *out, *err;
	assert_int_equal(sample_call("sluice __dump", &out, &err), 0);
	json_t *tree = json_loads(out, 0, NULL);
	assert_non_null(tree);
	assert_string_equal(text_of(tree, "program"), "sluice");

	const json_t *commands = json_object_get(tree, "commands");
	assert_int_equal(json_array_size(commands), 4); /* without the hidden one */
	const json_t *run = json_array_get(commands, 0);
	assert_string_equal(text_of(run, "path"), "sluice run");
	assert_string_equal(json_string_value(json_array_get(json_object_get(run, "usage"), 0)),
			    "sluice run [OPTION...] [--] COMMAND [ARGUMENT...]");
	assert_int_equal(json_array_size(json_object_get(run, "exits")), 3);
	assert_int_equal(json_array_size(json_object_get(run, "examples")), 1);

	const json_t *options = json_object_get(run, "options");
	assert_int_equal(json_array_size(options), 13); /* without the hidden one, with --help */
	const json_t *output = json_array_get(options, 10);
	assert_string_equal(text_of(output, "name"), "output");
	assert_string_equal(text_of(output, "letter"), "o");
	assert_string_equal(text_of(output, "value"), "table|json");
	assert_int_equal(json_array_size(json_object_get(output, "words")), 2);
	assert_true(json_is_null(json_object_get(json_array_get(options, 0), "value")));
	assert_true(json_is_true(json_object_get(json_array_get(options, 11), "repeats")));

	const json_t *sim = json_array_get(commands, 1);
	const json_t *verbs = json_object_get(sim, "commands");
	assert_int_equal(json_array_size(verbs), 2);
	assert_string_equal(text_of(json_array_get(verbs, 1), "path"), "sluice sim stop");
	json_decref(tree);
	free(out);
	free(err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_dump)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
