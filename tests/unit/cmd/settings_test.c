/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/settings.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "policy/config.h"
#include "unit/unit.h"

struct values {
	struct settings settings;
};

#define SETTINGS_TYPE struct values
static const struct option_row table[] = {
#include "cmd/settings.def"
    {.name = NULL},
};

/* The overrides of a command line; 0 or -errno. */
static int parse(const char *const *words, struct values *values, struct settings_words *lists,
		 struct config_overrides *out, struct err *err)
{
	const char *argv[16] = {"prog"};
	struct option_result result;
	int argc = 1;
	for (; words[argc - 1]; argc++)
		argv[argc] = words[argc - 1];
	memset(values, 0, sizeof(*values));
	int rc =
	    options_parse(table, OPTION_MANNER_PLAIN, argc, (char **)argv, values, &result, err);
	if (rc == 0) {
		assert_int_equal(result.first, argc);
		rc = settings_overrides(&values->settings, lists, out, err);
	}
	return rc;
}

#define PARSE(...) parse((const char *const[]){__VA_ARGS__, NULL}, &values, &words, &out, &err)

static void test_the_table_is_sound(void **state)
{
	struct err err = {0};
	size_t expected = 0, rows = 0;
	(void)state;
	assert_int_equal(options_check(table, &err), 0);
	for (size_t i = 0; i < SCHEMA_COUNT; i++) {
		const struct schema_row *row = schema_row((enum schema_id)i);
		/* Those of GPU feature discovery are options of `sluice labels`. */
		if (strncmp(row->path, "flags.gfd.", 10) != 0)
			expected += (row->flag != NULL) + (row->other_flag != NULL);
	}
	while (table[rows].name)
		rows++;
	assert_int_equal(rows, expected);
}

static void test_values(void **state)
{
	struct values values;
	struct settings_words words;
	struct config_overrides out = {0};
	struct err err = {0};
	(void)state;
	assert_int_equal(PARSE("--mig-strategy", "single", "--nvidia-driver-root=/a",
			       "--pass-device-specs", "--fail-on-init-error=false",
			       "--imex-channel-ids=0", "--device-list-strategy", "envvar,cdi-cri",
			       "--device-list-strategy=volume-mounts", "--mps-root="),
			 0);
	assert_string_equal(out.flag[SCHEMA_MIG_STRATEGY], "single");
	assert_string_equal(out.flag[SCHEMA_DRIVER_ROOT], "/a");
	assert_string_equal(out.flag[SCHEMA_PASS_DEVICE_SPECS], "true");
	assert_string_equal(out.flag[SCHEMA_FAIL_ON_INIT_ERROR], "false");
	assert_string_equal(out.flag[SCHEMA_IMEX_CHANNELS], "0");
	assert_string_equal(out.flag[SCHEMA_LIST_STRATEGY], "envvar,cdi-cri,volume-mounts");
	assert_string_equal(out.flag[SCHEMA_MPS_ROOT], ""); /* given, and empty */
	assert_null(out.flag[SCHEMA_GDS]);
	options_done(table, &values);
}

static void test_a_list_that_is_too_long(void **state)
{
	struct values values;
	struct settings_words words;
	struct config_overrides out = {0};
	struct err err = {0};
	char text[SETTINGS_WORDS_MAX];
	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(PARSE("--device-list-strategy", text), -E2BIG);
	assert_non_null(strstr(err.text, "--device-list-strategy"));
	options_done(table, &values);
	text[sizeof(text) - 3] = '\0';
	assert_int_equal(PARSE("--device-list-strategy", text), 0);
	assert_string_equal(out.flag[SCHEMA_LIST_STRATEGY], text);
	options_done(table, &values);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_the_table_is_sound),
	    cmocka_unit_test(test_values),
	    cmocka_unit_test(test_a_list_that_is_too_long),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
