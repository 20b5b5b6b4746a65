/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/choice.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/err.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

static int setup(void **state)
{
	*state = unit_tmp_new();
	return 0;
}

static int teardown(void **state)
{
	*state = unit_tmp_free(*state);
	return 0;
}

/* A row of the table below: which of a, b, default are there. */
struct row {
	const char *files; /* "a b" */
	const char *label, *default_name;
	uint32_t fallbacks;
	const char *running; /* NULL: the first start */
	const char *name, *missing;
	bool has_path;
};

enum { ALL = CHOICE_NAMED | CHOICE_SINGLE | CHOICE_EMPTY };

static const struct row rows[] = {
    /* what the label says ... */
    {"a b", "a", "b", ALL, NULL, "a", "", true},
    {"a b", "a", NULL, 0, "b", "a", "", true},
    /* ... else the default ... */
    {"a b", NULL, "b", ALL, NULL, "b", "", true},
    {"a b", "", "b", ALL, "a", "b", "", true},
    /* ... else the fallbacks, in this order */
    {"a b default", NULL, NULL, ALL, NULL, "default", "", true},
    {"a", NULL, "", ALL, NULL, "a", "", true},
    {"a b", NULL, NULL, ALL, NULL, "", "", false},
    {"a", NULL, NULL, CHOICE_NAMED | CHOICE_EMPTY, NULL, "", "", false},
    {"default", NULL, NULL, CHOICE_SINGLE, NULL, "default", "", true},
    {"a b", NULL, NULL, CHOICE_SINGLE, NULL, "", "", false},
    {"", NULL, NULL, 0, NULL, "", "", false},
    /* one that is not there: what runs goes on, */
    {"a b", "c", "b", ALL, "a", "a", "c", true},
    {"a b", NULL, "c", ALL, "b", "b", "c", true},
    {"a b", "c", NULL, ALL, "", "", "c", false},
    /* at the first start the fallbacks */
    {"a", "c", NULL, ALL, NULL, "a", "c", true},
    {"a b", "c", "b", ALL, NULL, "", "c", false},
    {"a b default", "c", NULL, ALL, NULL, "default", "c", true},
    /* what runs is gone as well, and stays as it was read */
    {"b", "c", NULL, ALL, "a", "a", "c", false},
    /* nothing is asked for any more, and nothing else applies */
    {"a b", NULL, NULL, 0, "a", "a", "", true},
    {"b c", NULL, NULL, CHOICE_NAMED, "a", "a", "a", false},
    {"b c", NULL, NULL, ALL, "a", "", "", false},
};

static void make_files(const char *directory, const char *files)
{
	static const char *const all[] = {"a", "b", "c", "default"};
	for (size_t i = 0; i < array_length(all); i++) {
		char word[16];
		(void)unlink(unit_path(directory, all[i]));
		(void)snprintf(word, sizeof(word), " %s ", all[i]);
		char text[64];
		(void)snprintf(text, sizeof(text), " %s ", files);
		if (strstr(text, word))
			unit_write(unit_path(directory, all[i]), "version: v1\n");
	}
}

static void test_choices(void **state)
{
	for (size_t i = 0; i < array_length(rows); i++) {
		const struct row *row = &rows[i];
		const struct choice_rules rules = {*state, row->default_name, row->fallbacks};
		struct choice choice;
		struct err err = {0};
		make_files(*state, row->files);
		assert_int_equal(choice_make(&rules, row->label, row->running, &choice, &err), 0);
		if (strcmp(choice.name, row->name) != 0 ||
		    strcmp(choice.missing, row->missing) != 0 ||
		    (choice.path[0] != '\0') != row->has_path)
			fail_msg("row %zu: name '%s', missing '%s', path '%s'", i, choice.name,
				 choice.missing, choice.path);
		if (row->has_path)
			assert_string_equal(choice.path, unit_path(*state, choice.name));
	}
}

/* As the kubelet lays out the volume of a ConfigMap; an editor has left its files, too. */
static void test_what_is_no_configuration(void **state)
{
	const struct choice_rules rules = {*state, NULL, CHOICE_SINGLE};
	struct choice choice;
	struct err err = {0};
	assert_int_equal(mkdir(unit_path(*state, "..2026_11_22"), 0755), 0);
	unit_write(unit_path(*state, "..2026_11_22/only"), "");
	assert_int_equal(symlink("..2026_11_22", unit_path(*state, "..data")), 0);
	assert_int_equal(symlink("..data/only", unit_path(*state, "only")), 0);
	assert_int_equal(symlink("..data/gone", unit_path(*state, "gone")), 0);
	assert_int_equal(mkdir(unit_path(*state, "directory"), 0755), 0);
	unit_write(unit_path(*state, ".only.swp"), "");
	unit_write(unit_path(*state, "only~"), "");
	unit_write(unit_path(*state, "on ly"), "");
	assert_int_equal(choice_make(&rules, NULL, NULL, &choice, &err), 0);
	assert_string_equal(choice.name, "only");
	assert_int_equal(choice_make(&rules, "directory", "only", &choice, &err), 0);
	assert_string_equal(choice.missing, "directory");
	assert_string_equal(choice.name, "only");
}

static void test_refused(void **state)
{
	static const char *const wrong[] = {"../a", "/etc/passwd", "..data", "a/b",
					    ".a",   "a b",	   "a."};
	struct choice_rules rules = {*state, "a", ALL};
	struct choice choice = {.name = "untouched"};
	struct err err = {0};
	unit_write(unit_path(*state, "a"), "");
	for (size_t i = 0; i < array_length(wrong); i++) {
		assert_int_equal(choice_make(&rules, wrong[i], NULL, &choice, &err), -EINVAL);
		assert_non_null(strstr(err.text, wrong[i]));
		assert_non_null(strstr(err.text, "node's label"));
	}
	rules.default_name = "../a";
	assert_int_equal(choice_make(&rules, NULL, NULL, &choice, &err), -EINVAL);
	assert_non_null(strstr(err.text, "--default-config"));
	char long_name[CHOICE_NAME_MAX + 1];
	memset(long_name, 'a', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	assert_int_equal(choice_make(&rules, long_name, NULL, &choice, &err), -EINVAL);
	rules = (struct choice_rules){unit_path(*state, "none"), NULL, ALL};
	assert_int_equal(choice_make(&rules, NULL, NULL, &choice, &err), -ENOENT);
	assert_non_null(strstr(err.text, rules.directory));
	rules.directory = unit_path(*state, "a");
	assert_int_equal(choice_make(&rules, NULL, NULL, &choice, &err), -ENOTDIR);
	assert_string_equal(choice.name, "untouched");
}

static void test_too_many(void **state)
{
	const struct choice_rules rules = {*state, NULL, ALL};
	struct choice choice;
	struct err err = {0};
	for (unsigned i = 0; i < CHOICE_FILES_MAX; i++) {
		char name[16];
		(void)snprintf(name, sizeof(name), "f%u", i);
		unit_write(unit_path(*state, name), "");
	}
	assert_int_equal(choice_make(&rules, "f7", NULL, &choice, &err), -E2BIG);
	assert_non_null(strstr(err.text, "1024"));
}

static void test_fallbacks(void **state)
{
	static const struct {
		const char *text;
		uint32_t bits;
	} good[] = {
	    {"named,single,empty", ALL},
	    {"single", CHOICE_SINGLE},
	    {"empty,named", CHOICE_EMPTY}, /* the second is never tried */
	    {"single,empty,named", CHOICE_SINGLE | CHOICE_EMPTY},
	    {"", 0},
	};
	static const char *const bad[] = {"nmaed", "named,", ",", "Named", "named single"};
	uint32_t bits;
	struct err err = {0};
	(void)state;
	for (size_t i = 0; i < array_length(good); i++) {
		assert_int_equal(choice_fallbacks_parse(good[i].text, &bits, &err), 0);
		assert_int_equal(bits, good[i].bits);
	}
	bits = 77;
	for (size_t i = 0; i < array_length(bad); i++)
		assert_int_equal(choice_fallbacks_parse(bad[i], &bits, &err), -EINVAL);
	assert_int_equal(bits, 77);
	(void)choice_fallbacks_parse("nmaed", &bits, &err);
	assert_string_equal(err.text, "unknown fallback strategy 'nmaed' (expected named, single "
				      "or empty; did you mean 'named'?)");
}

static void test_memory(void **state)
{
	static const char *const bad[] = {"",
					  "configuration a\n",
					  "configuration a\nlabel b",
					  "configuration a\nlabel b\n\n",
					  "configuration ../a\nlabel \n",
					  "label a\nconfiguration b\n"};
	struct choice_memory memory = {true, "a-1.x_Y", ""}, again;
	struct err err = {0};
	_cleanup_buf_ struct buf text;
	(void)state;
	buf_init(&text, CHOICE_MEMORY_MAX);
	assert_int_equal(choice_memory_format(&memory, &text), 0);
	assert_string_equal(buf_text(&text), "configuration a-1.x_Y\nlabel \n");
	assert_int_equal(choice_memory_parse(text.data, text.length, &again, &err), 0);
	assert_true(again.is_known);
	assert_string_equal(again.name, memory.name);
	assert_string_equal(again.label, "");
	for (size_t i = 0; i < array_length(bad); i++)
		assert_int_equal(choice_memory_parse(bad[i], strlen(bad[i]), &again, &err),
				 -EINVAL);
	/* A NUL byte is no part of a name. */
	assert_int_equal(choice_memory_parse("configuration a\0b\nlabel \n", 25, &again, &err),
			 -EINVAL);
}

static int format(void *context)
{
	const struct choice_memory memory = {true, "a", "b"};
	_cleanup_buf_ struct buf text;
	(void)context;
	buf_init(&text, CHOICE_MEMORY_MAX);
	return choice_memory_format(&memory, &text);
}

static void test_out_of_memory(void **state)
{
	(void)state;
	(void)failmalloc_each(format, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_choices, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_what_is_no_configuration, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_too_many, setup, teardown),
	    cmocka_unit_test(test_fallbacks),
	    cmocka_unit_test(test_memory),
	    cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
