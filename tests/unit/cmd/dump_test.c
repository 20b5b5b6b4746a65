/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/cmd/sample.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	assert_non_null(text);
	return text;
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
	assert_int_equal(json_array_size(options), 14); /* without the hidden one, with --help */
	const json_t *output = json_array_get(options, 10);
	assert_string_equal(text_of(output, "name"), "output");
	assert_string_equal(text_of(output, "letter"), "o");
	assert_string_equal(text_of(output, "value"), "table|json");
	assert_int_equal(json_array_size(json_object_get(output, "words")), 2);
	assert_true(json_is_null(json_object_get(json_array_get(options, 0), "value")));
	assert_true(json_is_true(json_object_get(json_array_get(options, 11), "repeats")));
	assert_string_equal(text_of(json_array_get(options, 12), "bare"), "1/all");
	assert_true(json_is_null(json_object_get(output, "bare")));

	const json_t *sim = json_array_get(commands, 1);
	const json_t *verbs = json_object_get(sim, "commands");
	assert_int_equal(json_array_size(verbs), 2);
	assert_string_equal(text_of(json_array_get(verbs, 1), "path"), "sluice sim stop");
	json_decref(tree);
	free(out);
	free(err);
}

struct output {
	FILE *out, *err;
	long length; /* of the whole tree */
};

/* Either the whole tree comes out, or an error and exit code 1. */
static int use_dump(void *context)
{
	struct output *output = context;
	FILE *saved[2] = {stdout, stderr};
	const char *argv[] = {"sluice", "__dump", NULL};
	rewind(output->out);
	stdout = output->out;
	stderr = output->err;
	int exit_code = cmd_main(&sample_root, 2, (char **)argv);
	stdout = saved[0];
	stderr = saved[1];
	if (exit_code == CMD_EXIT_OK)
		assert_int_equal(ftell(output->out), output->length);
	return exit_code == CMD_EXIT_FAILED ? -ENOMEM : exit_code;
}

static void test_out_of_memory(void **state)
{
	struct output output = {.out = tmpfile(), .err = fopen("/dev/null", "we")};
	char *out, *err;
	assert_non_null(output.out);
	assert_non_null(output.err);
	assert_int_equal(sample_call("sluice __dump", &out, &err), 0);
	output.length = (long)strlen(out);
	free(out);
	free(err);
	assert_true(failmalloc_each(use_dump, &output) > 500);
	(void)fclose(output.out);
	(void)fclose(output.err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_dump),
	    cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
