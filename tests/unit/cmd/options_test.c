/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/options.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "unit/cmd/sample.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

static int parse(struct sample_options *values, struct option_result *result, struct err *err,
		 bool posix, const char *const *words)
{
	const char *argv[16] = {"prog"};
	int argc = 1;
	for (; words[argc - 1]; argc++)
		argv[argc] = words[argc - 1];
	return options_parse(sample_rows, posix ? OPTION_MANNER_POSIX : OPTION_MANNER_PLAIN, argc,
			     (char **)argv, values, result, err);
}

#define PARSE(...) parse(&values, &result, &err, false, (const char *const[]){__VA_ARGS__, NULL})

static void test_values(void **state)
{
	struct sample_options values = {0};
	struct option_result result;
	struct err err = {0};
	assert_int_equal(PARSE("--quiet", "--name=x y", "-f", "/p", "-n4", "--limit", "7",
			       "--ambient=-5", "--mask=0xfF", "--memory=2Gi", "--wait", "1.5s",
			       "--share=0.25", "-ojson"),
			 0);
	assert_true(values.quiet);
	assert_string_equal(values.name, "x y");
	assert_string_equal(values.file, "/p");
	assert_int_equal(values.gpus, 4);
	assert_int_equal(values.limit, 7);
	assert_int_equal(values.ambient, -5);
	assert_int_equal(values.mask, 0xff);
	assert_int_equal(values.memory, UINT64_C(2) << 30);
	assert_int_equal(values.wait_ns, 1500000000);
	assert_true(values.share == 0.25);
	assert_int_equal(values.output, OPTION_OUTPUT_JSON);
}

static void test_a_value_may_be_left_out(void **state)
{
	static const struct {
		const char *words[3];
		const char *part;
		int first;
	} cases[] = {
	    {{"--part", "3/4"}, "1/all", 2}, {{"--part=3/4", "x"}, "3/4", 2},
	    {{"-p", "3/4"}, "1/all", 2},     {{"-p3/4", "x"}, "3/4", 2},
	    {{"--part=", "x"}, "", 2},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sample_options values = {0};
		struct option_result result;
		struct err err = {0};
		assert_int_equal(parse(&values, &result, &err, true, cases[i].words), 0);
		assert_string_equal(values.part, cases[i].part);
		assert_int_equal(result.first, cases[i].first);
	}
}

static void test_lists_and_positionals(void **state)
{
	struct sample_options values = {0};
	struct option_result result;
	struct err err = {0};
	const char *argv[] = {"prog", "a", "-e", "A=1", "b", "--env=B=2", "--", "-q", NULL};
	assert_int_equal(options_parse(sample_rows, OPTION_MANNER_PLAIN, 8, (char **)argv, &values,
				       &result, &err),
			 0);
	assert_int_equal(values.env.count, 2);
	assert_string_equal(values.env.items[0], "A=1");
	assert_string_equal(values.env.items[1], "B=2");
	assert_false(values.quiet);
	assert_string_equal(argv[result.first], "a");
	assert_string_equal(argv[result.first + 1], "b");
	assert_string_equal(argv[result.first + 2], "-q");
	assert_null(argv[result.first + 3]);
	options_done(sample_rows, &values);
	assert_null(values.env.items);
}

static void test_posix_stops_at_the_command(void **state)
{
	struct sample_options values = {0};
	struct option_result result;
	struct err err = {0};
	static const char *const words[] = {"-n", "2", "python3", "-q", "--name", NULL};
	assert_int_equal(parse(&values, &result, &err, true, words), 0);
	assert_int_equal(result.first, 3);
	assert_int_equal(values.gpus, 2);
	assert_false(values.quiet);
	assert_null(values.name);
}

static void test_wrong(void **state)
{
	static const struct {
		const char *word;
		const char *says;
	} cases[] = {
	    {"--gpus=0", "option '--gpus': 0 is outside the range 1 to 16"},
	    {"-n17", "outside the range 1 to 16"},
	    {"--gpus=two", "option '--gpus' takes a whole number, not 'two'"},
	    {"--gpus=", "takes a whole number, not ''"},
	    {"--gpus", "option '--gpus' needs a value: N"},
	    {"-n", "option '--gpus' needs a value: N"},
	    {"--gpsu=1", "unknown option '--gpsu'; did you mean '--gpus'?"},
	    {"--frobnicate", "unknown option '--frobnicate'"},
	    {"--secrte", "unknown option '--secrte'"},
	    {"-x", "unknown option '-x'"},
	    {"--gpu=2", "--gpu is not an option; did you mean --gpus?"},
	    {"--gpu", "--gpu is not an option; did you mean --gpus?"},
	    {"--quie", "--quie is not an option; did you mean --quiet?"},
	    {"--quie=1", "--quie is not an option; did you mean --quiet?"},
	    {"--pa", "--pa is not an option; did you mean --part?"},
	    {"--hel", "--hel is not an option; did you mean --help?"},
	    {"--secre", "unknown option '--secre'"},
	    {"--m", "unknown option '--m'"},
	    {"--quiet=1", "option '--quiet' takes no value"},
	    {"--help=1", "option '--help' takes no value"},
	    {"--ambient=-41", "outside the range -40 to 60"},
	    {"--mask=10000", "outside the range"},
	    {"--mask=xyz", "takes a hexadecimal number"},
	    {"--memory=4K", "takes a size such as"},
	    {"--wait=61s", "outside the range 0 to 1m"},
	    {"--wait=soon", "takes a time such as"},
	    {"--share=1.5", "outside the range 0 to 1"},
	    {"--share=half", "takes a number such as 0.75"},
	    {"--output=jsn", "option '--output' takes table|json, not 'jsn'; did you mean 'json'?"},
	    {"--output=xml", "option '--output' takes table|json, not 'xml'"},
	};
	for (size_t i = 0; i < array_length(cases); i++) {
		struct sample_options values = {.gpus = 3};
		struct option_result result;
		struct err err = {0};
		assert_int_equal(PARSE(cases[i].word), -EINVAL);
		bool hints = strstr(err.text, "did you mean") != NULL;
		if (!strstr(err.text, cases[i].says) ||
		    hints != (strstr(cases[i].says, "did you mean") != NULL))
			fail_msg("%s: '%s' does not say '%s'", cases[i].word, err.text,
				 cases[i].says);
		assert_int_equal(values.gpus, 3);
	}
}

/* A number that no word holds is too large, not too small, and the bound that is told is one. */
static void test_too_large(void **state)
{
	static const struct option_row rows[] = {
	    {.name = "time",
	     .kind = OPTION_DURATION,
	     .help = "a time",
	     .min = 1,
	     OPTION_FIELD(struct sample_options, wait_ns)},
	    {.name = "memory",
	     .kind = OPTION_SIZE,
	     .help = "memory",
	     .min = 1,
	     OPTION_FIELD(struct sample_options, memory)},
	    {.name = "gpus",
	     .kind = OPTION_U32,
	     .help = "GPUs",
	     OPTION_FIELD(struct sample_options, gpus)},
	    {0},
	};
	static const struct {
		const char *word, *says;
	} cases[] = {
	    {"--time=9999999h",
	     "option '--time': 9999999h is too long a time, the longest is 213503d"},
	    {"--time=99999999999999999999d", "is too long a time, the longest is 213503d"},
	    {"--time=213503d24h", "is too long a time"},
	    {"--time=0", "option '--time': 0 is too short a time"},
	    {"--memory=0", "0 is outside the range 1 to 18446744073709551615 bytes"},
	    {"--memory=99999999T", "outside the range 1 to 18446744073709551615 bytes"},
	    {"--gpus=4294967296", "outside the range 0 to 4294967295"},
	};
	(void)state;
	for (size_t i = 0; i < array_length(cases); i++) {
		struct sample_options values = {0};
		struct option_result result;
		struct err err = {0};
		char *argv[] = {(char *)"sample", (char *)cases[i].word, NULL};
		assert_int_equal(
		    options_parse(rows, OPTION_MANNER_PLAIN, 2, argv, &values, &result, &err),
		    -EINVAL);
		if (!strstr(err.text, cases[i].says))
			fail_msg("%s: '%s' does not say '%s'", cases[i].word, err.text,
				 cases[i].says);
	}
}

static void test_help_wins_and_required(void **state)
{
	struct sample_options values = {0};
	struct option_result result = {0};
	struct err err = {0};
	assert_int_equal(PARSE("-h", "--nonsense"), 0);
	assert_true(result.help);

	static const struct option_row rows[] = {
	    {.name = "gpus",
	     .kind = OPTION_U32,
	     .required = true,
	     .help = "",
	     OPTION_FIELD(struct sample_options, gpus)},
	    {0},
	};
	const char *argv[] = {"prog", NULL};
	assert_int_equal(
	    options_parse(rows, OPTION_MANNER_PLAIN, 1, (char **)argv, &values, &result, &err),
	    -EINVAL);
	assert_string_equal(err.text, "option '--gpus' is missing");
	assert_int_equal(
	    options_parse(NULL, OPTION_MANNER_PLAIN, 1, (char **)argv, NULL, &result, &err), 0);
	assert_int_equal(result.first, 1);
}

static const struct option_row renamed_rows[] = {
    {.name = "min-memory",
     .kind = OPTION_SIZE,
     .help = "how much at least",
     OPTION_FIELD(struct sample_options, memory)},
    {.name = "memory",
     .kind = OPTION_SIZE,
     .help = "the old name",
     .hidden = true,
     .renamed = "min-memory",
     OPTION_FIELD(struct sample_options, memory)},
    {0},
};

static void test_an_old_name_is_told_once(void **state)
{
	struct sample_options values = {0};
	struct option_result result;
	struct err err = {0};
	const char *argv[] = {"prog", "--memory", "1Gi", "--memory=2Gi", NULL};
	const char *newer[] = {"prog", "--min-memory=3Gi", NULL};
	const char *abbreviated[] = {"prog", "--mem", "1Gi", NULL};

	assert_int_equal(options_check(renamed_rows, &err), 0);
	assert_int_equal(options_parse(renamed_rows, OPTION_MANNER_PLAIN, 4, (char **)argv, &values,
				       &result, &err),
			 0);
	assert_int_equal(values.memory, UINT64_C(2) << 30);
	assert_int_equal(result.renamed_count, 1);
	assert_string_equal(result.renamed[0]->renamed, "min-memory");

	assert_int_equal(options_parse(renamed_rows, OPTION_MANNER_PLAIN, 2, (char **)newer,
				       &values, &result, &err),
			 0);
	assert_int_equal(values.memory, UINT64_C(3) << 30);
	assert_int_equal(result.renamed_count, 0);
	assert_int_equal(options_parse(renamed_rows, OPTION_MANNER_PLAIN, 3, (char **)abbreviated,
				       &values, &result, &err),
			 -EINVAL);
}

/* The value of an option is not taken for its name. */
static void test_whole_names_with_values_apart(void **state)
{
	struct sample_options values = {0};
	struct option_result result;
	struct err err = {0};

	assert_int_equal(PARSE("word", "--name", "--gpu", "--gpus", "2", "last"), 0);
	assert_string_equal(values.name, "--gpu");
	assert_int_equal(values.gpus, 2);
	assert_int_equal(PARSE("word", "--gpu", "2", "last"), -EINVAL);
	assert_string_equal(err.text, "--gpu is not an option; did you mean --gpus?");
}

static void test_words_and_names(void **state)
{
	char word[OPTION_WORD_SIZE];
	assert_true(options_word("a|bc|", 0, word));
	assert_string_equal(word, "a");
	assert_true(options_word("a|bc|", 1, word));
	assert_string_equal(word, "bc");
	assert_false(options_word("a|bc", 2, word));
	assert_false(options_word(NULL, 0, word));
	for (const struct option_row *row = sample_rows; row->name; row++) {
		assert_true((options_value_name(row) == NULL) == (row->kind == OPTION_FLAG));
		assert_non_null(option_kind_to_string(row->kind));
	}
}

static void test_check(void **state)
{
	struct err err = {0};
	assert_int_equal(options_check(sample_rows, &err), 0);
	assert_int_equal(options_check(NULL, &err), 0);

	/* one row that is right, and how each thing that can be wrong with it reads */
	const struct option_row right = {.name = "gpus",
					 .letter = 'n',
					 .kind = OPTION_U32,
					 .help = "how many",
					 OPTION_FIELD(struct sample_options, gpus)};
	struct option_row rows[3] = {right, {0}, {0}};
	rows[0].kind = OPTION_U64;
	assert_int_equal(options_check(rows, &err), -EINVAL);
	assert_string_equal(err.text, "option '--gpus' fills 4 bytes, its kind has 8");
	rows[0] = right;
	rows[0].help = "";
	assert_int_equal(options_check(rows, &err), -EINVAL);
	rows[0] = right;
	rows[0].kind = OPTION_CHOICE;
	assert_int_equal(options_check(rows, &err), -EINVAL);
	rows[0] = right;
	rows[0].kind = OPTION_FLAG;
	rows[0].size = sizeof(bool);
	rows[0].bare = "1";
	assert_int_equal(options_check(rows, &err), -EINVAL);
	rows[0] = right;
	rows[0].letter = 'h';
	assert_int_equal(options_check(rows, &err), -EINVAL);
	rows[0] = rows[1] = right;
	rows[1].name = "other";
	assert_int_equal(options_check(rows, &err), -EINVAL);
	assert_string_equal(err.text, "option '--other' or its letter is there twice");
	rows[1].letter = 'm';
	assert_int_equal(options_check(rows, &err), 0);
	rows[1].renamed = "gpus";
	assert_int_equal(options_check(rows, &err), -EINVAL);
	rows[1].hidden = true;
	assert_int_equal(options_check(rows, &err), 0);
	rows[1].renamed = "absent";
	assert_int_equal(options_check(rows, &err), -EINVAL);
	assert_string_equal(err.text, "option '--other' is not an old name of '--absent'");
}

static void test_lenient_leaves_out_what_it_does_not_know(void **state)
{
	struct sample_options values = {0};
	struct option_result result;
	struct err err = {0};
	const char *argv[] = {"prog", "-Z", "7", "-n4", "--no-such=3", "word", "--absent", NULL};
	assert_int_equal(options_parse(sample_rows, OPTION_MANNER_LENIENT, 7, (char **)argv,
				       &values, &result, &err),
			 0);
	assert_int_equal(values.gpus, 4);
	assert_int_equal(result.unknown_count, 3);
	assert_string_equal(result.unknown[0], "-Z");
	assert_string_equal(result.unknown[1], "--no-such");
	assert_string_equal(result.unknown[2], "--absent");
	assert_string_equal(argv[result.first], "7");
	assert_string_equal(argv[result.first + 1], "word");

	const char *wrong[] = {"prog", "-Z", "--gpus=many", NULL};
	assert_int_equal(options_parse(sample_rows, OPTION_MANNER_LENIENT, 3, (char **)wrong,
				       &values, &result, &err),
			 -EINVAL);
	const char *flag[] = {"prog", "--quiet=1", NULL};
	assert_int_equal(options_parse(sample_rows, OPTION_MANNER_LENIENT, 2, (char **)flag,
				       &values, &result, &err),
			 -EINVAL);
	assert_non_null(strstr(err.text, "--quiet"));

	const char *short_[] = {"prog", "--limi=1", NULL};
	assert_int_equal(options_parse(sample_rows, OPTION_MANNER_LENIENT, 2, (char **)short_,
				       &values, &result, &err),
			 -EINVAL);
	assert_string_equal(err.text, "--limi is not an option; did you mean --limit?");
}

static int use_options(void *context)
{
	struct sample_options values = {0};
	struct option_result result;
	struct err err = {0};
	int rc = PARSE("-e", "A=1", "-e", "B=2", "--gpus=3");
	options_done(sample_rows, &values);
	return rc;
}

static void test_out_of_memory(void **state)
{
	assert_int_equal(failmalloc_each(use_options, NULL), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_values),
	    cmocka_unit_test(test_a_value_may_be_left_out),
	    cmocka_unit_test(test_lists_and_positionals),
	    cmocka_unit_test(test_posix_stops_at_the_command),
	    cmocka_unit_test(test_lenient_leaves_out_what_it_does_not_know),
	    cmocka_unit_test(test_wrong),
	    cmocka_unit_test(test_an_old_name_is_told_once),
	    cmocka_unit_test(test_whole_names_with_values_apart),
	    cmocka_unit_test(test_too_large),
	    cmocka_unit_test(test_help_wins_and_required),
	    cmocka_unit_test(test_words_and_names),
	    cmocka_unit_test(test_check),
	    cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
