/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/labels/label.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

static void test_values(void **state)
{
	(void)state;
	char text[80];
	assert_true(label_value_is_valid(""));
	assert_true(label_value_is_valid("a"));
	assert_true(label_value_is_valid("580.105.08"));
	assert_false(label_value_is_valid("-1"));
	assert_false(label_value_is_valid("a-"));
	assert_false(label_value_is_valid("a b"));
	assert_false(label_value_is_valid("a/b"));
	assert_false(label_value_is_valid("\xc3\xa4"));
	memset(text, 'x', sizeof(text));
	text[63] = '\0';
	assert_true(label_value_is_valid(text));
	text[63] = 'x';
	text[64] = '\0';
	assert_false(label_value_is_valid(text));
	assert_true(label_key_is_valid("nvidia.com/gpu.count"));
	assert_false(label_key_is_valid("gpu.count"));
	assert_false(label_key_is_valid("nvidia.com/"));
	assert_false(label_key_is_valid("/gpu"));
	assert_false(label_key_is_valid("nvidia.com/gpu+x"));
}

static const char *sanitised(const char *text)
{
	static char out[64];
	label_sanitise(text, strlen(text), out, sizeof(out));
	return out;
}

static void test_sanitising(void **state)
{
	(void)state;
	assert_string_equal(sanitised("NVIDIA A100-SXM4-40GB"), "NVIDIA-A100-SXM4-40GB");
	assert_string_equal(sanitised("  a   b "), "a-b");
	assert_string_equal(sanitised("Standard PC (i440FX + PIIX, 1996)"),
			    "Standard-PC-i440FX-PIIX-1996");
	assert_string_equal(sanitised("a\tb\nc/d"), "abcd");
	assert_string_equal(sanitised("() -"), "-");
	assert_string_equal(sanitised(""), "");
	/* Every byte stays, becomes a '-' or vanishes. */
	for (int c = 1; c < 256; c++) {
		const char text[] = {'a', (char)c, 'b', '\0'};
		bool stays = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
			     (c >= 'A' && c <= 'Z') || c == '-' || c == '_' || c == '.';
		char expected[4] = {'a', (char)(c == ' ' ? '-' : c), 'b', '\0'};
		assert_string_equal(sanitised(text), stays || c == ' ' ? expected : "ab");
	}
	/* A NUL among the bytes is none of them. */
	char out[64];
	label_sanitise("a\0b", 3, out, sizeof(out));
	assert_string_equal(out, "ab");
	label_sanitise("abcdef", 6, out, 4);
	assert_string_equal(out, "abc");
}

static const char *made(const char *text, const char *suffix)
{
	static char out[LABEL_VALUE_SIZE];
	if (suffix)
		label_value_with_suffix(text, suffix, out);
	else
		label_value(text, strlen(text), out);
	assert_true(label_value_is_valid(out));
	return out;
}

static void test_long_values(void **state)
{
	(void)state;
	assert_string_equal(made("To Be Filled By O.E.M.", NULL), "To-Be-Filled-By-O.E.M");
	assert_string_equal(made("(-)", NULL), "");
	assert_string_equal(made("Tesla T4", "-SHARED"), "Tesla-T4-SHARED");
	assert_string_equal(made("", "-SHARED"), "");
	/* 55 characters and a suffix of 16: the model is cut, the suffix is not. */
	assert_string_equal(
	    made("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "-MIG-1g.24gb.gfx"),
	    "NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-MIG-1g.24gb.gfx");
	/* The cut falls behind a '-', which goes too. */
	assert_string_equal(made("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
				 "-MIG-1g.24gb.gfx-0123456789"),
			    "NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-MIG-1g.24gb.gfx-0123456789");
	char text[200];
	memset(text, 'x', sizeof(text));
	text[199] = '\0';
	assert_int_equal(strlen(made(text, NULL)), 63);
	assert_int_equal(strlen(made(text, "-MIG-INVALID")), 63);
	assert_string_equal(made(text, "-MIG-INVALID") + 51, "-MIG-INVALID");
}

static void test_a_set(void **state)
{
	(void)state;
	_cleanup_label_set_ struct label_set set;
	label_set_init(&set);
	label_set_put(&set, "x/b", "2");
	label_set_put(&set, "x/a", "1");
	label_set_put(&set, "x/c", "");
	label_set_put(&set, "x/b", "3");
	if (set.error < 0)
		return;
	assert_int_equal(set.count, 3);
	assert_string_equal(set.items[0].key, "x/a");
	assert_string_equal(set.items[1].value, "3");
	assert_string_equal(label_set_get(&set, "x/c"), "");
	label_set_drop(&set, "x/a");
	label_set_drop(&set, "x/a");
	assert_null(label_set_get(&set, "x/a"));
	assert_int_equal(set.count, 2);
	/* What is not valid costs nobody else. */
	assert_int_equal(set.warning_count, 0);
	label_set_put(&set, "x/d", "not valid");
	label_set_put(&set, "x/not valid", "d");
	assert_int_equal(set.count, 2);
	assert_int_equal(set.warning_count, 2);
	assert_string_equal(set.warning[0],
			    "label x/d=not valid is left out: Kubernetes would refuse it");
}

static int put_many(void *context)
{
	(void)context;
	struct label_set set;
	label_set_init(&set);
	for (int i = LABEL_SET_MAX + 20; i > 0; i--) {
		char key[32];
		(void)snprintf(key, sizeof(key), "x/k%04d", i);
		label_set_put(&set, key, "v");
	}
	int rc = set.error;
	if (rc == 0) {
		assert_int_equal(set.count, LABEL_SET_MAX);
		assert_int_equal(set.warning_count, 20);
		assert_string_equal(set.items[0].key, "x/k0021");
	}
	label_set_done(&set);
	return rc;
}

static void test_limits(void **state)
{
	(void)state;
	assert_int_not_equal(failmalloc_each(put_many, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_values),	cmocka_unit_test(test_sanitising),
	    cmocka_unit_test(test_long_values), cmocka_unit_test(test_a_set),
	    cmocka_unit_test(test_limits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
