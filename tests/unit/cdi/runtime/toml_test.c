/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/runtime/toml.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

static const struct toml_path cri = {{"plugins", "io.containerd.grpc.v1.cri"}, 2};

#define CRI "[plugins.\"io.containerd.grpc.v1.cri\"]"

static struct toml toml_of(const char *text)
{
	return (struct toml){"x.toml", text, strlen(text)};
}

/* The edit of `text` gives `wanted`; NULL: nothing has to be done. And then nothing more. */
static void expect(const char *text, const char *wanted)
{
	_cleanup_buf_ struct buf out;
	buf_init(&out, 65536);
	struct err err = {0};
	const struct toml toml = toml_of(text);
	int rc = toml_set_true(&toml, &cri, "enable_cdi", &out, &err);
	if (rc != (wanted ? 1 : 0))
		fail_msg("%d: %s\n%s", rc, err.text, text);
	assert_string_equal(buf_text(&out), wanted ? wanted : "");
	if (wanted)
		expect(wanted, NULL);
}

static void expect_refused(const char *text, const char *why)
{
	_cleanup_buf_ struct buf out;
	buf_init(&out, 65536);
	struct err err = {0};
	const struct toml toml = toml_of(text);
	if (toml_set_true(&toml, &cri, "enable_cdi", &out, &err) != -EINVAL)
		fail_msg("accepted, or another error: %s\n%s", err.text, text);
	if (!strstr(err.text, why) || strncmp(err.text, "x.toml:", 7) != 0)
		fail_msg("'%s' is not in: %s", why, err.text);
	assert_int_equal(out.length, 0);
}

static void test_key_that_is_there(void **state)
{
	(void)state;
	expect(CRI "\nenable_cdi = false # why\nb = 1\n", CRI "\nenable_cdi = true # why\nb = 1\n");
	expect(CRI "\n  a = 1\n  \"enable_cdi\"=false", CRI "\n  a = 1\n  \"enable_cdi\"=true");
	expect(CRI "\nenable_cdi = true\n", NULL);
	expect("plugins.'io.containerd.grpc.v1.cri'.enable_cdi = false\n",
	       "plugins.'io.containerd.grpc.v1.cri'.enable_cdi = true\n");
	expect("[plugins]\n\"io.containerd.grpc.v1.cri\" = {a = [], enable_cdi = false}\n",
	       "[plugins]\n\"io.containerd.grpc.v1.cri\" = {a = [], enable_cdi = true}\n");
	expect("[ plugins . \"io.containerd.grpc.v1\\u002Ecri\" ]\nenable_cdi=false\n",
	       "[ plugins . \"io.containerd.grpc.v1\\u002Ecri\" ]\nenable_cdi=true\n");
}

static void test_table_that_is_there(void **state)
{
	(void)state;
	expect(CRI "\n    a = 1\n", CRI "\n    enable_cdi = true\n    a = 1\n");
	expect(CRI " # comment\n\n# enable_cdi = false\n\ta = 1\n",
	       CRI " # comment\n\tenable_cdi = true\n\n# enable_cdi = false\n\ta = 1\n");
	expect(CRI, CRI "\nenable_cdi = true");
	expect("a = 1\r\n" CRI "\r\n  b = 2\r\n",
	       "a = 1\r\n" CRI "\r\n  enable_cdi = true\r\n  b = 2\r\n");
	/* Another table's key, and the key's name in texts of every kind. */
	expect(CRI "\na = '''\nenable_cdi = false'''\nb = \"\"\"\n" CRI "\n\"\"\"\n[other]\n"
		   "enable_cdi = false\n",
	       CRI "\nenable_cdi = true\na = '''\nenable_cdi = false'''\nb = \"\"\"\n" CRI
		   "\n\"\"\"\n[other]\nenable_cdi = false\n");
}

static void test_table_that_is_not_there(void **state)
{
	(void)state;
	expect("", CRI "\n  enable_cdi = true\n");
	expect("version = 2\n", "version = 2\n\n" CRI "\n  enable_cdi = true\n");
	expect("version = 2", "version = 2\n\n" CRI "\n  enable_cdi = true\n");
	expect("version = 2\r\n", "version = 2\r\n\r\n" CRI "\r\n  enable_cdi = true\r\n");
	/* A table below it has made it, but it may still be given a header. */
	expect("[plugins.\"io.containerd.grpc.v1.cri\".cni]\na = 1\n",
	       "[plugins.\"io.containerd.grpc.v1.cri\".cni]\na = 1\n\n" CRI
	       "\n  enable_cdi = true\n");
	expect("[plugins.\"io.containerd.cri.v1.runtime\"]\nenable_cdi = false\n",
	       "[plugins.\"io.containerd.cri.v1.runtime\"]\nenable_cdi = false\n\n" CRI
	       "\n  enable_cdi = true\n");
	expect("a = [\n[1], # [x]\n'" CRI "',\n]\n",
	       "a = [\n[1], # [x]\n'" CRI "',\n]\n\n" CRI "\n  enable_cdi = true\n");
}

static void test_what_is_not_edited(void **state)
{
	(void)state;
	static const struct {
		const char *text, *why;
	} cases[] = {
	    {CRI "\nenable_cdi = \"false\"\n", "x.toml:2: is neither true nor false"},
	    {CRI "\nenable_cdi = 0\n", "neither"},
	    {CRI "\nenable_cdi.a = 1\n", "x.toml:2: is neither"},
	    {"\n[plugins.\"io.containerd.grpc.v1.cri\".enable_cdi]\n", "x.toml:2: is neither"},
	    {"plugins.\"io.containerd.grpc.v1.cri\".a = 1\n", "x.toml:1: the table is not written"},
	    {"plugins = {}\n", "put 'enable_cdi = true' there yourself"},
	    {"[plugins]\n\"io.containerd.grpc.v1.cri\" = 3\n", "x.toml:2: the table"},
	    {"[[plugins]]\n", "array of tables"},
	    {CRI "\na = 1\n" CRI "\n", "x.toml:3: has a table for the second time"},
	    {CRI "\nenable_cdi = false\nenable_cdi = false\n", "x.toml:3: has a key for the"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		expect_refused(cases[i].text, cases[i].why);
}

static void test_what_is_not_toml(void **state)
{
	(void)state;
	static const struct {
		const char *text, *why;
	} cases[] = {
	    {"\xef\xbb\xbf" CRI "\n", "byte order mark"},
	    {"a = \"\xff\"\n", "x.toml:1: is not UTF-8"},
	    {"a = 1\nb = \"\x01\"\n", "x.toml:2: has a control character"},
	    {"a = 1\rb = 2\n", "control character"},
	    {"a\n", "without '='"},
	    {"= 1\n", "no name"},
	    {"a. = 1\n", "no name"},
	    {"a = \n", "value that is not understood"},
	    {"a = yes\n", "value that is not understood"},
	    {"a = 1 b = 2\n", "behind its value"},
	    {CRI " a\n", "behind its value"},
	    {"[a\n", "without its end"},
	    {"[[a]\n", "without its end"},
	    {"\na = \"b\nc = 1\n", "x.toml:2: has a string without an end"},
	    {"\na = \"\"\"b\nc = 1\n", "x.toml:2: has a string without an end"},
	    {"a = 'b\n'\n", "string without an end"},
	    {"a = \"\\q\"\n", "escape that is not understood"},
	    {"a = \"\\u00g0\"\n", "escape that is not understood"},
	    {"a = \"\\ud800\"\n", "no character"},
	    {"\"\"\"a\"\"\" = 1\n", "over several lines"},
	    {"a = [1 2]\n", "array that is not understood"},
	    {"a = [1,\n", "value that is not understood"},
	    {"a = {b = 1,}\n", "no name"},
	    {"a = {b = 1 c = 2}\n", "inline table"},
	    {"a = [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]\n", "too deep"},
	    {"a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q = 1\n", "too many parts"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		expect_refused(cases[i].text, cases[i].why);
	char *text = malloc(TOML_PART_MAX + 8);
	assert_non_null(text);
	memset(text, 'a', TOML_PART_MAX);
	memcpy(text + TOML_PART_MAX, " = 1\n", 6);
	expect_refused(text, "too long");
	free(text);
}

static void test_size(void **state)
{
	(void)state;
	char *text = malloc(TOML_TEXT_MAX + 1);
	assert_non_null(text);
	memset(text, '\n', TOML_TEXT_MAX + 1);
	struct toml_look look;
	struct toml toml = {"x.toml", text, TOML_TEXT_MAX};
	assert_int_equal(toml_find(&toml, &cri, &look, NULL), 0);
	toml.length++;
	assert_int_equal(toml_find(&toml, &cri, &look, NULL), -E2BIG);
	free(text);
}

static void test_find(void **state)
{
	(void)state;
	const struct toml toml =
	    toml_of("# x\nimports = [\"/a/*.toml\", # one\n 'b', \"\"\"c\\\n  d\"\"\"]\n"
		    "[plugins.cri]\nsandbox = 'x'\n[plugins.cri.a]\n");
	static const struct toml_path imports = {{"imports"}, 1}, old = {{"plugins", "cri"}, 2},
				      any = {.count = 0}, none = {{"plugins", "cr"}, 2};
	struct toml_look look;
	assert_int_equal(toml_find(&toml, &imports, &look, NULL), 0);
	assert_int_equal(look.kind, TOML_ARRAY);
	assert_int_equal(look.value_line, 2);
	static const char *const wanted[] = {"/a/*.toml", "b", "cd"};
	char text[16];
	size_t at = look.start;
	for (size_t i = 0; i < 3; i++) {
		assert_true(toml_next_string(&toml, &at, look.end, text, sizeof(text)));
		assert_string_equal(text, wanted[i]);
	}
	assert_false(toml_next_string(&toml, &at, look.end, text, sizeof(text)));
	at = look.start;
	assert_false(toml_next_string(&toml, &at, look.end, text, 9)); /* one byte too small */

	assert_int_equal(toml_find(&toml, &old, &look, NULL), 0);
	assert_int_equal(look.header_line, 5);
	assert_int_equal(look.line, 5);
	assert_int_equal(toml_find(&toml, &any, &look, NULL), 0);
	assert_int_equal(look.line, 2);
	assert_int_equal(toml_find(&toml, &none, &look, NULL), 0);
	assert_int_equal(look.line, 0);
}

static void test_escapes_in_names(void **state)
{
	(void)state;
	static const struct toml_path path = {{"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\t\"\\"}, 1};
	const struct toml toml = toml_of("\"\\u00e9\\u20AC\\U0001f600\\t\\\"\\\\\" = 1\n");
	struct toml_look look;
	assert_int_equal(toml_find(&toml, &path, &look, NULL), 0);
	assert_int_equal(look.value_line, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_key_that_is_there),
	    cmocka_unit_test(test_table_that_is_there),
	    cmocka_unit_test(test_table_that_is_not_there),
	    cmocka_unit_test(test_what_is_not_edited),
	    cmocka_unit_test(test_what_is_not_toml),
	    cmocka_unit_test(test_size),
	    cmocka_unit_test(test_find),
	    cmocka_unit_test(test_escapes_in_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
