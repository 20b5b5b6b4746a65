/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/fault.h"

#include <string.h>

#include "unit/unit.h"

static struct faults faults;
static uint64_t value;

static void parse(const char *text)
{
	const char *word = NULL;

	assert_int_equal(faults_parse(text, &faults, &word), 0);
}

static void test_each_kind_of_word_is_understood(void **state)
{
	(void)state;
	parse("cuInit=802,flip@3,stall@2=500,missing=cuMemAllocAsync,jit,event-hang");
	assert_int_equal(faults.count, 6);
	assert_true(faults_strike(&faults, FAULT_CALL, "cuInit", &value));
	assert_int_equal(value, 802);
	assert_false(faults_strike(&faults, FAULT_CALL, "cuInitialise", &value));
	assert_true(faults_strike(&faults, FAULT_MISSING, "cuMemAllocAsync", &value));
	assert_true(faults_strike(&faults, FAULT_JIT, NULL, &value));
	assert_false(faults_strike(&faults, FAULT_STALL, NULL, &value));
	assert_true(faults_strike(&faults, FAULT_STALL, NULL, &value));
	assert_int_equal(value, 500);
}

static void test_the_nth_chance_alone_is_struck(void **state)
{
	(void)state;
	parse("flip@3");
	for (int i = 1; i <= 5; i++)
		assert_int_equal(faults_strike(&faults, FAULT_FLIP, NULL, &value), i == 3);
	parse("cuMemAlloc@2=2");
	assert_false(faults_strike(&faults, FAULT_CALL, "cuMemAlloc_v2", &value));
	assert_true(faults_strike(&faults, FAULT_CALL, "cuMemAlloc", &value));
	assert_int_equal(value, 2);
}

static void test_memory_that_ran_out_stays_so(void **state)
{
	(void)state;
	parse("oom@2");
	assert_false(faults_strike(&faults, FAULT_OOM, NULL, &value));
	assert_true(faults_strike(&faults, FAULT_OOM, NULL, &value));
	assert_true(faults_strike(&faults, FAULT_OOM, NULL, &value));
}

static void test_what_is_no_fault_is_named(void **state)
{
	static const char *const bad[] = {
	    "flop@3", "flip",	"flip@0",    "flip@x", "cuInit", "cuInit=", "jit=1",
	    "jit@2",  "die@1=", "missing=x", "@",      "=",	 ",",	    "flip@99999999999"};
	const char *word = NULL;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(faults_parse(bad[i], &faults, &word), -1);
		assert_ptr_equal(word, bad[i]);
	}
	assert_int_equal(faults_parse("jit,what", &faults, &word), -1);
	assert_string_equal(word, "what");
	assert_int_equal(faults_parse(NULL, &faults, &word), 0);
	assert_int_equal(faults.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_each_kind_of_word_is_understood),
	    cmocka_unit_test(test_the_nth_chance_alone_is_struck),
	    cmocka_unit_test(test_memory_that_ran_out_stays_so),
	    cmocka_unit_test(test_what_is_no_fault_is_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
