/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/request.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "unit/unit.h"

static const struct request_options usual = {
    .check = "1",
    .redop = "sum",
    .type = "float",
    .root = "0",
    .threads = 1,
    .gpus = 1,
    .iterations = 20,
    .warmups = 1,
    .aggregated = 1,
    .cycles = 1,
    .average = MEASURE_MEAN,
    .timing = REQUEST_TIMING_BOTH,
    .dirty = REQUEST_AS_USUAL,
    .memory = REQUEST_MEMORY_AS_USUAL,
};

#define TEXTS(...) ((char *const *)(const char *const[]){__VA_ARGS__, NULL})

static struct request request;
static struct err err;

static int make(const struct request_options *options, const char *word, char *const *environment)
{
	char *words[] = {(char *)word, NULL};
	err = (struct err){0};
	return request_make(options, words, word ? 1 : 0, false, environment, &request, &err);
}

static void sizes_have_binary_suffixes(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} right[] = {
	    {"8", 8},
	    {"0", 0},
	    {"1k", 1024},
	    {"64K", 65536},
	    {"1.5M", 3 << 19},
	    {"256m", 256 << 20},
	    {"16GiB", UINT64_C(16) << 30},
	    {"16g", UINT64_C(16) << 30},
	    {"1T", UINT64_C(1) << 40},
	    {"8MB", 8 << 20},
	    {"1023T", UINT64_C(1023) << 40},
	    {"1125899906842623", (UINT64_C(1) << 50) - 1},
	};
	static const char *const wrong[] = {"",	     "x",   "K",    "-1", "1P",	 "8 M", "1KK",
					    "1.2.3", "1e6", "0x10", "8B", "1Mx", "+8"};
	uint64_t bytes;
	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
		assert_int_equal(request_size_parse(right[i].text, &bytes), 0);
		assert_int_equal(bytes, right[i].bytes);
	}
	bytes = 7;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(request_size_parse(wrong[i], &bytes), -EINVAL);
	assert_int_equal(request_size_parse("1024T", &bytes), -ERANGE);
	assert_int_equal(request_size_parse("99999999999999999999", &bytes), -ERANGE);
	assert_int_equal(request_size_parse("1024.0T", &bytes), -ERANGE);
	assert_int_equal(bytes, 7);
}

static void splits_are_read_in_all_their_forms(void **state)
{
	static const struct {
		const char *text;
		enum request_split_kind kind;
		uint32_t value, color; /* of rank 6 */
	} right[] = {
	    {"AND 3", REQUEST_SPLIT_AND, 3, 2},	   {"&0x4", REQUEST_SPLIT_AND, 4, 4},
	    {"or0b1", REQUEST_SPLIT_OR, 1, 7},	   {"|8", REQUEST_SPLIT_OR, 8, 14},
	    {"MOD 4", REQUEST_SPLIT_MOD, 4, 2},	   {"%2", REQUEST_SPLIT_MOD, 2, 0},
	    {"div0X2", REQUEST_SPLIT_DIV, 2, 3},   {"/ 4", REQUEST_SPLIT_DIV, 4, 1},
	    {"AND0b110", REQUEST_SPLIT_AND, 6, 6},
	};
	static const char *const wrong[] = {"",	      "AND",	"MOD0",		 "/0",	   "XOR 3",
					    "AND -1", "AND 3x", "AND 0b2",	 "AND 0b", "7",
					    "AND 0x", "|",	"AND 4294967296"};
	struct request_split split;
	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
		assert_int_equal(request_split_parse(right[i].text, &split), 0);
		assert_int_equal(split.kind, right[i].kind);
		assert_int_equal(split.value, right[i].value);
		assert_int_equal(request_split_color(&split, 6), right[i].color);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(request_split_parse(wrong[i], &split), -EINVAL);
	split = (struct request_split){REQUEST_SPLIT_MOD, 3};
	assert_int_equal(request_split_groups(&split, 8), 3);
	assert_int_equal(request_split_groups(&split, 2), 2);
	split.kind = REQUEST_SPLIT_NONE;
	assert_int_equal(request_split_groups(&split, 8), 1);
}

/* `sluice bench collectives -b 8 -e 256M -f 2 -g 8`: 26 sizes, 8 ranks. */
static void the_call_of_the_slides_has_26_sizes(void **state)
{
	struct request_options options = usual;
	options.min_bytes = "8";
	options.max_bytes = "256M";
	options.step_factor = 2;
	options.gpus = 8;
	assert_int_equal(make(&options, NULL, NULL), 0);
	assert_int_equal(request.ranks, 8);
	assert_int_equal(request_size_count(&request), 26);
	assert_int_equal(request_row_count(&request, 8), 26);
	struct measure_plan plan;
	for (uint64_t i = 0; i < 26; i++) {
		assert_int_equal(request_row(&request, 8, true, i, &plan), 1);
		assert_int_equal(plan.shape.bytes, UINT64_C(8) << i);
		assert_int_equal(plan.op, COLLECTIVE_ALL_REDUCE);
		assert_int_equal(plan.type, COLLECTIVE_F32);
		assert_true(plan.is_dirty && plan.has_stream && plan.has_isolated);
		assert_int_equal(plan.iterations, 20);
	}
	assert_int_equal(request_row(&request, 8, true, 26, &plan), 0);
	/* 2 x 256 MiB and something around them */
	uint64_t bytes = request_memory_bytes(&request, 8);
	assert_in_range(bytes, 512 << 20, (512 << 20) + (8 << 20));
}

static void rows_go_through_everything_that_is_asked_for(void **state)
{
	struct request_options options = usual;
	options.min_bytes = "1K";
	options.max_bytes = "3K";
	options.step_bytes = "1K";
	options.redop = "all";
	options.type = "all";
	options.root = "all";
	options.cycles = 2;
	options.aggregated = 3;
	options.dirty = REQUEST_OFF;
	options.registers = 2;
	assert_int_equal(make(&options, "all", NULL), 0);
	const uint64_t types = COLLECTIVE_TYPE_COUNT, redops = COLLECTIVE_REDOP_COUNT, sizes = 3;
	/* all_reduce, reduce_scatter; broadcast, gather, scatter; reduce; 4 others, and hypercube
	 * where it can be */
	uint64_t rows = 2 * types * redops * sizes + 3 * types * 3 * sizes +
			types * redops * 3 * sizes + 4 * types * sizes;
	assert_int_equal(request_row_count(&request, 3), rows);
	assert_true(request_skips(&request, COLLECTIVE_HYPERCUBE, 3));
	assert_false(request_skips(&request, COLLECTIVE_HYPERCUBE, 4));
	uint64_t seen[COLLECTIVE_OP_COUNT] = {0};
	struct measure_plan plan;
	for (uint64_t i = 0; i < 2 * rows; i++) {
		assert_int_equal(request_row(&request, 3, true, i, &plan), 1);
		assert_true(plan.root < 3);
		assert_false(plan.is_dirty);
		assert_int_equal(plan.iterations, 60);
		assert_int_equal(plan.memory, BACKEND_REGISTERED);
		seen[plan.op]++;
	}
	assert_int_equal(request_row(&request, 3, true, 2 * rows, &plan), 0);
	assert_int_equal(seen[COLLECTIVE_REDUCE], 2 * types * redops * 3 * sizes);
	assert_int_equal(seen[COLLECTIVE_SENDRECV], 2 * types * sizes);
	assert_int_equal(seen[COLLECTIVE_HYPERCUBE], 0);
	/* the last of a cycle: the highest root of the highest type at the largest size */
	request.options.cycles = 0;
	assert_int_equal(request_row(&request, 3, true, UINT64_C(1) << 40, &plan), 1);
}

static void wrong_usage_is_named(void **state)
{
	static const struct {
		struct request_options options;
		const char *word, *message;
	} cases[] = {
	    {{.min_bytes = "0"}, NULL, "-b takes a size from 1 up"},
	    {{.min_bytes = "8x"}, NULL, "-b takes a size from 1 up"},
	    {{.max_bytes = "99999T"}, NULL, "-e: 99999T is too much"},
	    {{.min_bytes = "2G"}, NULL, "-b 2147483648 is more than -e 33554432"},
	    {{.step_bytes = "1M", .step_factor = 2}, NULL, "-i and -f"},
	    {{.min_bytes = "1", .step_bytes = "1"}, NULL, "more than 65536 sizes"},
	    {{.type = "f8"}, NULL, "-d: type 'f8' is unknown"},
	    {{.redop = "summ"}, NULL, "did you mean 'sum'? (sum, prod, min, max, avg, all)"},
	    {{.root = "two"}, NULL, "-r takes a rank"},
	    {{.root = "4", .ranks = 4}, NULL, "-r 4: there are 4 ranks, from 0 to 3"},
	    {{.check = "some"}, NULL, "-c takes a number of checks"},
	    {{.graph = 1, .per_iteration = 1}, NULL, "-G and -I"},
	    {{.graph = 1, .blocking = 3}, NULL, "-G and -z 3"},
	    {{.per_iteration = 1, .timing = REQUEST_TIMING_STREAM}, NULL, "-I and --timing"},
	    {{.ranks = 3, .gpus = 8}, NULL, "contradict"},
	    {{.threads = 64, .gpus = 64}, NULL, "at most 1024 ranks"},
	    {{0}, "all_reduse", "did you mean 'all_reduce'?"},
	    {{0}, "7", "operation '7' is unknown"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct request_options options = cases[i].options;
		options.type = options.type ? options.type : "float";
		options.redop = options.redop ? options.redop : "sum";
		options.root = options.root ? options.root : "0";
		options.check = options.check ? options.check : "1";
		options.threads = options.threads ? options.threads : 1;
		options.gpus = options.gpus ? options.gpus : 1;
		if (options.timing == REQUEST_TIMING_STREAM && !strstr(cases[i].message, "timing"))
			options.timing = REQUEST_TIMING_BOTH;
		assert_int_equal(make(&options, cases[i].word, NULL), -EINVAL);
		if (!strstr(err.text, cases[i].message))
			print_error("%s\n", err.text);
		assert_non_null(strstr(err.text, cases[i].message));
	}
}

static void values_of_unknown_options_are_left_out(void **state)
{
	err = (struct err){0};
	assert_int_equal(
	    request_make(&usual, TEXTS("7", "broadcast"), 2, true, NULL, &request, &err), 0);
	assert_true(request.ops[COLLECTIVE_BROADCAST]);
	assert_false(request.ops[COLLECTIVE_ALL_REDUCE]);
	assert_int_equal(request_make(&usual, TEXTS("7", "bogus"), 2, true, NULL, &request, &err),
			 -EINVAL);
}

static void the_environment_of_nccl_tests_counts(void **state)
{
	char *const *environment =
	    TEXTS("NCCL_TESTS_SPLITTER=x", "NCCL_TESTS_SPLIT=MOD 4", "NCCL_TESTS_MIN_BW=12.5");
	assert_int_equal(make(&usual, NULL, environment), 0);
	assert_int_equal(request.split.kind, REQUEST_SPLIT_MOD);
	assert_true(request.min_average == 12.5);
	char *const *mask = TEXTS("NCCL_TESTS_SPLIT=MOD 4", "NCCL_TESTS_SPLIT_MASK=10");
	assert_int_equal(make(&usual, NULL, mask), 0);
	assert_int_equal(request.split.kind, REQUEST_SPLIT_AND);
	assert_int_equal(request.split.value, 16); /* hexadecimal */
	static const char *const wrong[] = {"NCCL_TESTS_SPLIT=sideways", "NCCL_TESTS_SPLIT_MASK=g",
					    "NCCL_TESTS_MIN_BW=fast"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(make(&usual, NULL, TEXTS(wrong[i])), -EINVAL);
		assert_memory_equal(err.text, wrong[i], 10);
	}
}

static void memory_and_checks_follow_the_options(void **state)
{
	struct request_options options = usual;
	options.check = "all";
	options.memory = REQUEST_MEMORY_PRIVATE;
	options.registers = 1;
	assert_int_equal(make(&options, NULL, NULL), 0);
	assert_true(request.checks_all);
	assert_int_equal(request.checks, 1);
	assert_int_equal(request.memory, BACKEND_PRIVATE);
	assert_int_equal(request_size_count(&request), 1);
	assert_int_equal(request_size(&request, 0), 32 << 20);
	options.check = "0";
	assert_int_equal(make(&options, "allgather", NULL), 0);
	assert_int_equal(request.checks, 0);
	assert_true(request.ops[COLLECTIVE_ALL_GATHER]);
	assert_int_equal(request.ranks, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sizes_have_binary_suffixes),
	    cmocka_unit_test(splits_are_read_in_all_their_forms),
	    cmocka_unit_test(the_call_of_the_slides_has_26_sizes),
	    cmocka_unit_test(rows_go_through_everything_that_is_asked_for),
	    cmocka_unit_test(wrong_usage_is_named),
	    cmocka_unit_test(values_of_unknown_options_are_left_out),
	    cmocka_unit_test(the_environment_of_nccl_tests_counts),
	    cmocka_unit_test(memory_and_checks_follow_the_options),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
