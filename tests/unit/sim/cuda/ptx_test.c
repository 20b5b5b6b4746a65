/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/ptx.h"

#include <stdlib.h>
#include <string.h>

#include "unit/unit.h"

static struct ptx ptx;
static char log_text[256];

static int parse(const char *text)
{
	return ptx_parse(text, strlen(text), &ptx, log_text, sizeof(log_text));
}

static void test_version_target_and_kernels_are_read(void **state)
{
	(void)state;
	assert_int_equal(parse("// made by hand\n.version 7.0 /* so\nlong */\n.target sm_80\n"
			       ".address_size 64\n.visible .entry one(\n.param .u64 a\n)\n{ret;}\n"
			       ".func help() { }\n.visible .entry two() .maxntid 256, 1, 1 {ret;}"),
			 0);
	assert_int_equal(ptx.version, 70);
	assert_int_equal(ptx.target, 80);
	assert_false(ptx.is_exact);
	assert_int_equal(ptx.entry_count, 2);
	assert_string_equal(ptx.entry[0], "one");
	assert_string_equal(ptx.entry[1], "two");
	assert_int_equal(parse(".version 8.0\n.target sm_90a\n"), 0);
	assert_true(ptx.is_exact);
}

static void test_what_is_wrong_is_said_with_its_line(void **state)
{
	static const struct {
		const char *text, *log;
	} rows[] = {
	    {"", "Missing .version"},
	    {".target sm_75\n", "Missing .version directive"},
	    {".version x\n", "line 1; fatal   : Parsing error near '.version'"},
	    {".version 6.3\n.target sm_75\n.version 0.0\n",
	     "line 3; fatal   : Parsing error near '.version'"},
	    {".version 6.3\n.target compute_75\n", "Parsing error near '.target'"},
	    {".version 6.3\n.target sm_75z\n", "Unknown .target"},
	    {".version 6.3\n.visible .entry a() {}\n", "Missing .target"},
	    {".version 6.3\n.target sm_75\n.entry a() {\n", "near end of file"},
	    {".version 6.3\n.target sm_75\n}\n", "syntax error"},
	    {".version 6.3\n.target sm_75\n.entry a(){}\n.entry a(){}\n", "Duplicate"},
	    {".version 6.3\n.target sm_75\n/* never", "syntax error"},
	    {".version 6.3\n.target sm_75\n\xc3\xa4", "non-ASCII"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		assert_int_equal(parse(rows[i].text), -1);
		assert_non_null(strstr(log_text, rows[i].log));
	}
}

/* Whatever it is cut at, a text is either whole or refused with words. */
static void test_a_text_that_is_cut_is_refused(void **state)
{
	static const char text[] =
	    ".version 6.3\n.target sm_75\n.visible .entry a(\n.param .u64 b\n)\n"
	    "{\nret;\n}";

	(void)state;
	for (size_t length = 0; length + 1 < sizeof(text); length++) {
		int result = ptx_parse(text, length, &ptx, log_text, sizeof(log_text));

		if (length > 41) /* from the kernel on */
			assert_int_equal(result, -1);
		if (result != 0)
			assert_true(log_text[0] != '\0');
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_version_target_and_kernels_are_read),
	    cmocka_unit_test(test_what_is_wrong_is_said_with_its_line),
	    cmocka_unit_test(test_a_text_that_is_cut_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
