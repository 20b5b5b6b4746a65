/* SPDX-License-Identifier: Apache-2.0 */
#include "base/yaml.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

static struct yaml *parse(const char *text)
{
	struct yaml *yaml = NULL;
	struct err err = {0};
	if (yaml_parse(text, strlen(text), "f.yaml", &yaml, &err) < 0)
		fail_msg("%s", err.text);
	return yaml;
}

static void refuse(const char *text, size_t length, int code, const char *message)
{
	struct yaml *yaml = NULL;
	struct err err = {0};
	assert_int_equal(yaml_parse(text, length, "f.yaml", &yaml, &err), code);
	if (!strstr(err.text, message))
		fail_msg("'%s' does not hold '%s'", err.text, message);
	assert_null(yaml);
}

static void refuse_text(const char *text, int code, const char *message)
{
	refuse(text, strlen(text), code, message);
}

static void test_tree_with_positions(void **state)
{
	(void)state;
	struct yaml *yaml = parse("version: v1\nflags:\n  list: [a, \"2\", ~]\n");
	const struct yaml_node *root = yaml_root(yaml);
	assert_int_equal(root->kind, YAML_MAP);
	assert_string_equal(yaml_get(root, "version")->text, "v1");
	assert_null(yaml_get(root, "Version"));
	const struct yaml_node *list = yaml_get(yaml_get(root, "flags"), "list");
	assert_int_equal(list->kind, YAML_LIST);
	assert_int_equal(list->line, 3);
	assert_int_equal(list->column, 9);
	assert_int_equal(list->entry_count, 3);
	assert_null(list->entries[0].key);
	assert_true(list->entries[1].value->quoted);
	assert_true(yaml_is_null(list->entries[2].value));
	char text[64];
	assert_string_equal(yaml_describe(list, text, sizeof(text)), "a list");
	assert_string_equal(yaml_describe(list->entries[0].value, text, sizeof(text)), "'a'");
	assert_null(yaml_free(yaml));
}

static void test_json_and_empty(void **state)
{
	(void)state;
	struct yaml *yaml = parse("{\"a\": {\"b\": [1, true]}}");
	assert_int_equal(yaml_get(yaml_get(yaml_root(yaml), "a"), "b")->entry_count, 2);
	assert_null(yaml_free(yaml));
	yaml = parse("");
	assert_true(yaml_is_null(yaml_root(yaml)));
	assert_null(yaml_free(yaml));
	yaml = parse("# only a comment\n");
	assert_true(yaml_is_null(yaml_root(yaml)));
	assert_null(yaml_free(yaml));
	yaml = parse("a: ''\nb:\n");
	assert_false(yaml_is_null(yaml_get(yaml_root(yaml), "a")));
	assert_true(yaml_is_null(yaml_get(yaml_root(yaml), "b")));
	assert_null(yaml_free(yaml));
}

static void test_aliases(void **state)
{
	(void)state;
	struct yaml *yaml = parse("a: &x {k: v}\nb: *x\n");
	assert_string_equal(yaml_get(yaml_get(yaml_root(yaml), "b"), "k")->text, "v");
	assert_null(yaml_free(yaml));
	refuse_text("a: &x [*x]\n", -EINVAL, "f.yaml:1:8: an alias inside");
	refuse_text("a: *y\n", -EINVAL, "f.yaml:1:4: an alias without its anchor");
}

static void test_billion_laughs(void **state)
{
	(void)state;
	struct buf text;
	buf_init(&text, YAML_TEXT_MAX);
	assert_int_equal(buf_add_text(&text, "a0: &a0 [lol,lol,lol,lol,lol,lol,lol,lol,lol]\n"), 0);
	for (int i = 1; i < 12; i++) {
		assert_int_equal(buf_printf(&text, "a%d: &a%d [", i, i), 0);
		for (int j = 0; j < 9; j++)
			assert_int_equal(buf_printf(&text, "%s*a%d", j ? "," : "", i - 1), 0);
		assert_int_equal(buf_add_text(&text, "]\n"), 0);
	}
	refuse_text(buf_text(&text), -E2BIG, "aliases written out");
	buf_done(&text);
}

static void test_limits(void **state)
{
	(void)state;
	struct buf text;
	buf_init(&text, 2 * YAML_TEXT_MAX);
	for (int i = 0; i <= YAML_DEPTH_MAX; i++)
		assert_int_equal(buf_add_text(&text, "["), 0);
	refuse_text(buf_text(&text), -E2BIG, "f.yaml:1:33: nested deeper");

	buf_clear(&text);
	assert_int_equal(buf_add_text(&text, "["), 0);
	for (int i = 0; i <= YAML_NODES_MAX; i++)
		assert_int_equal(buf_add_text(&text, "1,"), 0);
	refuse_text(buf_text(&text), -E2BIG, "65536 values");

	struct yaml *yaml;
	assert_int_equal(buf_add_text(&text, "1]"), 0);
	assert_int_equal(yaml_parse_large(buf_text(&text), text.length, 2 * YAML_TEXT_MAX, "f.yaml",
					  &yaml, NULL),
			 0);
	assert_int_equal(yaml_root(yaml)->entry_count, YAML_NODES_MAX + 2);
	(void)yaml_free(yaml);

	buf_clear(&text);
	for (int i = 0; i < 200; i++)
		assert_int_equal(buf_printf(&text, "- &a%d 1\n", i), 0);
	refuse_text(buf_text(&text), -E2BIG, "f.yaml:129:3: more than 128 anchors");

	buf_clear(&text);
	assert_int_equal(buf_reserve(&text, YAML_TEXT_MAX + 1), 0);
	memset(text.data, ' ', YAML_TEXT_MAX + 1);
	refuse(text.data, YAML_TEXT_MAX + 1, -E2BIG, "larger than 1 MiB");
	buf_done(&text);
}

static void test_refused_with_position(void **state)
{
	(void)state;
	refuse_text("a: 1\nb: 2\na: 3\n", -EINVAL,
		    "f.yaml:3:1: the key 'a' is here a second time (first on line 1)");
	refuse_text("a:\n\tb: 1\n", -EINVAL, "f.yaml:2:1: a tab");
	/* What comes with a text that was copied out of a page. */
	refuse_text("a: 1\nEOF\n", -EINVAL, "f.yaml:2:1: 'EOF' ends what a shell reads");
	refuse_text("a:\n- b: 1\n  ...\n", -EINVAL, "f.yaml:3:3: '...' stands for what was left");
	refuse_text("a:\n  - b\n  [...] \n\nc: 1\n", -EINVAL, "f.yaml:3:3: '[...]' stands for");
	refuse_text("a: [\nEOF\nb\n\"c: d: e\n", -EINVAL, "f.yaml:4:3: did not find");
	refuse_text("\xef\xbb\xbf"
		    "a: 1\n",
		    -EINVAL, "f.yaml:1:1: the file begins with a byte-order");
	refuse("a: 1\nb: \0x\n", 11, -EINVAL, "f.yaml:2:4: a NUL byte");
	refuse_text("a: \"\\0\"\n", -EINVAL, "f.yaml:1:4: text with a NUL byte");
	refuse_text("a: \xff\n", -EINVAL, "f.yaml:1:4: not UTF-8");
	refuse_text("a: 1\n--- \nb: 1\n", -EINVAL, "f.yaml:2:1: a second document");
	refuse_text("? [a]\n: 1\n", -EINVAL, "f.yaml:1:3: a key must be");
	refuse_text("a: [1\n", -EINVAL, "f.yaml:2:1: ");
	refuse_text("a: b: c\n", -EINVAL, "f.yaml:1:5: ");
}

static int scenario_parse(void *context)
{
	const struct buf *text = context;
	struct yaml *yaml = NULL;
	int rc = yaml_parse(buf_text(text), text->length, "f.yaml", &yaml, NULL);
	(void)yaml_free(yaml);
	return rc;
}

static void test_out_of_memory(void **state)
{
	(void)state;
	struct buf text;
	buf_init(&text, YAML_TEXT_MAX);
	assert_int_equal(
	    buf_add_text(&text, "a: &x [1, {b: c}]\nd: *x\ne: {f: g, h: i, j: k, l: m, n: o}\n"),
	    0);
	for (int i = 0; i < 1000; i++) /* enough for several blocks of memory */
		assert_int_equal(buf_printf(&text, "p%d: q\n", i), 0);
	assert_true(failmalloc_each(scenario_parse, &text) > 7);
	buf_done(&text);
}

static void test_stream(void **state)
{
	static const char text[] = "a: &x 1\n---\n---\nb: [2]\n";
	struct yaml *yaml = NULL;
	struct err err = {0};
	assert_int_equal(yaml_parse_stream(text, strlen(text), "f.yaml", &yaml, &err), 0);
	assert_int_equal(yaml_document_count(yaml), 3);
	assert_string_equal(yaml_get(yaml_document(yaml, 0), "a")->text, "1");
	assert_true(yaml_is_null(yaml_document(yaml, 1)));
	assert_int_equal(yaml_get(yaml_document(yaml, 2), "b")->line, 4);
	assert_null(yaml_free(yaml));
	assert_int_equal(yaml_parse_stream("", 0, "f.yaml", &yaml, &err), 0);
	assert_int_equal(yaml_document_count(yaml), 0);
	assert_null(yaml_free(yaml));
}

static void refuse_stream(const char *text, int code, const char *message)
{
	struct yaml *yaml = NULL;
	struct err err = {0};
	assert_int_equal(yaml_parse_stream(text, strlen(text), "f.yaml", &yaml, &err), code);
	if (!strstr(err.text, message))
		fail_msg("'%s' does not hold '%s'", err.text, message);
}

static void test_stream_limits(void **state)
{
	struct buf text;
	buf_init(&text, 1 << 20);
	/* An anchor ends with its document. */
	refuse_stream("a: &x 1\n---\nb: *x\n", -EINVAL, "an alias without its anchor");
	refuse_stream("a: 1\n---\nb: 1\nb: 2\n", -EINVAL, "f.yaml:4:1: the key 'b'");
	for (int i = 0; i <= YAML_DOCUMENTS_MAX; i++)
		assert_int_equal(buf_add_text(&text, "---\na\n"), 0);
	refuse_stream(buf_text(&text), -E2BIG, "more than 256 documents");
	buf_clear(&text);
	assert_int_equal(buf_printf(&text, "a: &a \"%04000d\"\nb: [", 0), 0);
	for (int i = 0; i < 17; i++)
		assert_int_equal(buf_add_text(&text, "*a,"), 0);
	assert_int_equal(buf_add_text(&text, "]\n"), 0);
	refuse_stream(buf_text(&text), -E2BIG, "grows by more than 64 KiB");
	buf_done(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_tree_with_positions),
	    cmocka_unit_test(test_json_and_empty),
	    cmocka_unit_test(test_aliases),
	    cmocka_unit_test(test_billion_laughs),
	    cmocka_unit_test(test_limits),
	    cmocka_unit_test(test_refused_with_position),
	    cmocka_unit_test(test_out_of_memory),
	    cmocka_unit_test(test_stream),
	    cmocka_unit_test(test_stream_limits),
	};
	return cmocka_run_group_tests_name("base/yaml", tests, NULL, NULL);
}
