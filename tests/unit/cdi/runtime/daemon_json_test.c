/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/runtime/daemon_json.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

#define WHOLE "{\n    \"features\": {\n        \"cdi\": true\n    }\n}"

static void expect(const char *text, const char *wanted)
{
	_cleanup_buf_ struct buf out;
	buf_init(&out, 65536);
	struct err err = {0};
	int rc = daemon_json_set_cdi(text, strlen(text), "x.json", &out, &err);
	if (rc != (wanted ? 1 : 0))
		fail_msg("%d: %s\n%s", rc, err.text, text);
	assert_string_equal(buf_text(&out), wanted ? wanted : "");
	if (wanted)
		expect(wanted, NULL);
}

static void test_whole_file(void **state)
{
	(void)state;
	expect("", WHOLE "\n");
	expect(" \r\n\t", WHOLE "\n");
	expect("{}", WHOLE);
	expect("{\n}\n", WHOLE "\n");
	expect("\xef\xbb\xbf{}", "\xef\xbb\xbf" WHOLE);
	expect("\xef\xbb\xbf", "\xef\xbb\xbf" WHOLE "\n");
}

static void test_other_keys_stay(void **state)
{
	(void)state;
	expect("{\n  \"b\": 1,\n  \"a\": [ \"}\", \"\\\"{\" ]\n}\n",
	       "{\n  \"b\": 1,\n  \"a\": [ \"}\", \"\\\"{\" ],\n  \"features\": {\n"
	       "    \"cdi\": true\n  }\n}\n");
	expect("{\r\n\t\"b\": 1\r\n}\r\n",
	       "{\r\n\t\"b\": 1,\r\n\t\"features\": {\r\n\t\t\"cdi\": true\r\n\t}\r\n}\r\n");
	expect("{\"b\": 1, \"a\": null}", "{\"b\": 1, \"a\": null, \"features\": {\"cdi\": true}}");
	expect("{\"b\":1.50}", "{\"b\":1.50,\"features\": {\"cdi\": true}}");
	expect("{\n\n  \"a\": {\"features\": {\"cdi\": true}}}",
	       "{\n\n  \"a\": {\"features\": {\"cdi\": true}},\n\n  \"features\": {\n"
	       "    \"cdi\": true\n  }}");
}

static void test_features_that_are_there(void **state)
{
	(void)state;
	expect("{\"features\": {}, \"a\": 1}", "{\"features\": {\"cdi\": true}, \"a\": 1}");
	expect("{\"features\": {\"buildkit\": true}}",
	       "{\"features\": {\"buildkit\": true, \"cdi\": true}}");
	expect("{\"features\": { \"a\": true, \"b\": false }}",
	       "{\"features\": { \"a\": true, \"b\": false, \"cdi\": true }}");
	expect("{\n  \"features\": {\n    \"a\": true\n  }\n}",
	       "{\n  \"features\": {\n    \"a\": true,\n    \"cdi\": true\n  }\n}");
	expect("{\"features\" : {\"cdi\" :false , \"a\": true}}",
	       "{\"features\" : {\"cdi\" :true , \"a\": true}}");
	expect("{\"\\u0066eatures\": {\"\\u0063di\": false}}",
	       "{\"\\u0066eatures\": {\"\\u0063di\": true}}");
	expect("{\"features\": {\"cdi\": true}}", NULL);
}

static void test_what_is_refused(void **state)
{
	(void)state;
	static const struct {
		const char *text, *why;
	} cases[] = {
	    {"{", "x.json:1:"},
	    {"{\"a\": 1,}", "is not JSON"},
	    {"{\n// comment\n}", "x.json:2:"},
	    {"[]", "has to be an object"},
	    {"{\"a\": 1, \"a\": 2}", "is not JSON"},
	    {"{} x", "is not JSON"},
	    {"\xff\xfe{", "is not JSON"},
	    {"{\"features\": []}", "'features' has to be an object"},
	    {"{\"features\": null}", "'features' has to be an object"},
	    {"{\"features\": {\"cdi\": \"true\"}}", "'features.cdi' has to be true or false"},
	    {"{\"features\": {\"cdi\": null}}", "'features.cdi' has to be true or false"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_buf_ struct buf out;
		buf_init(&out, 65536);
		struct err err = {0};
		const char *text = cases[i].text;
		if (daemon_json_set_cdi(text, strlen(text), "x.json", &out, &err) != -EINVAL ||
		    !strstr(err.text, cases[i].why))
			fail_msg("'%s' is not in '%s': %s", cases[i].why, err.text, text);
		assert_int_equal(out.length, 0);
		struct daemon_json json;
		assert_int_equal(daemon_json_parse(text, strlen(text), "x.json", &json, NULL),
				 -EINVAL);
	}
}

static void test_nul_and_length(void **state)
{
	(void)state;
	static const char nul[] = "{\"a\": 1\0}";
	struct err err = {0};
	struct daemon_json json;
	assert_int_equal(daemon_json_parse(nul, sizeof(nul) - 1, "x", &json, &err), -EINVAL);
	assert_non_null(strstr(err.text, "NUL"));
	static char blanks[DAEMON_JSON_TEXT_MAX + 1];
	memset(blanks, ' ', sizeof(blanks));
	assert_int_equal(daemon_json_parse(blanks, sizeof(blanks) - 1, "x", &json, &err), 0);
	assert_int_equal(daemon_json_parse(blanks, sizeof(blanks), "x", &json, &err), -E2BIG);
}

static void test_parse(void **state)
{
	(void)state;
	static const char text[] = "{\"runtimes\": {\"x\": {\"path\": \"/bin/x\"},\n"
				   "\"y\": {\"path\": \"/usr/bin/nvidia-container-runtime\"}},\n"
				   "\"default-runtime\": \"y\", \"features\": {\n\"cdi\": false},\n"
				   "\"cdi-spec-dirs\": [\"/etc/cdi\", \"/var/run/cdi\"]}";
	struct daemon_json json;
	assert_int_equal(daemon_json_parse(text, sizeof(text) - 1, "x", &json, NULL), 0);
	assert_int_equal(json.cdi, DAEMON_JSON_OFF);
	assert_int_equal(json.cdi_line, 4);
	assert_string_equal(json.default_runtime, "y");
	assert_string_equal(json.nvidia_path, "/usr/bin/nvidia-container-runtime");
	assert_true(json.has_directories && json.has_run_directory);
	static const char other[] =
	    "{\"runtimes\": {\"nvidia\": {}}, \"cdi-spec-dirs\": [\"/etc/cdi\"]}";
	assert_int_equal(daemon_json_parse(other, sizeof(other) - 1, "x", &json, NULL), 0);
	assert_int_equal(json.cdi, DAEMON_JSON_UNSET);
	assert_string_equal(json.nvidia_path, "nvidia");
	assert_true(json.has_directories && !json.has_run_directory);
	assert_int_equal(daemon_json_parse("", 0, "x", &json, NULL), 0);
	assert_false(json.has_directories);
}

static int edit_once(void *context)
{
	(void)context;
	static const char text[] = "{\"a\": 1, \"features\": {\"buildkit\": true}}";
	_cleanup_buf_ struct buf out;
	buf_init(&out, 65536);
	struct err err = {0};
	int rc = daemon_json_set_cdi(text, sizeof(text) - 1, "x", &out, &err);
	/* Out of memory can look like a name that is not there; then the result is refused. */
	return rc == 1 ? 0 : rc == -EINVAL ? -ENOMEM : rc;
}

static void test_out_of_memory(void **state)
{
	(void)state;
	assert_true(failmalloc_each(edit_once, NULL) > 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_whole_file),
	    cmocka_unit_test(test_other_keys_stay),
	    cmocka_unit_test(test_features_that_are_there),
	    cmocka_unit_test(test_what_is_refused),
	    cmocka_unit_test(test_nul_and_length),
	    cmocka_unit_test(test_parse),
	    cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
