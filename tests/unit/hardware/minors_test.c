/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/minors.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

static struct minors *parse(const char *text)
{
	struct minors *minors = NULL;
	assert_int_equal(minors_parse(text, strlen(text), &minors, NULL), 0);
	return minors;
}

static void expect(const struct minors *minors, uint32_t gpu, uint32_t gi, uint32_t ci,
		   int64_t expected)
{
	uint32_t cap = 77;
	int rc = minors_find(minors, gpu, gi, ci, &cap);
	assert_int_equal(rc, expected < 0 ? -ENOENT : 0);
	assert_int_equal(cap, expected < 0 ? 77 : expected);
}

static void test_finds_what_the_file_names(void **state)
{
	(void)state;
	struct minors *minors = parse("config 1\n"
				      "monitor 2\n"
				      "gpu1/gi0/access 138\n"
				      "gpu0/gi13/ci2/access 124\n"
				      "gpu0/gi13/access 121\n"
				      "gpu0/gi13/ci0/access 122");
	assert_int_equal(minors_count(minors), 4);
	expect(minors, 0, 13, MINORS_GPU_INSTANCE, 121);
	expect(minors, 0, 13, 0, 122);
	expect(minors, 0, 13, 2, 124);
	expect(minors, 1, 0, MINORS_GPU_INSTANCE, 138);
	expect(minors, 0, 13, 1, -1);
	expect(minors, 1, 0, 0, -1);
	expect(minors, 2, 0, MINORS_GPU_INSTANCE, -1);
	expect(NULL, 0, 0, 0, -1);

	uint32_t cap = 77;
	assert_int_equal(minors_find_machine(minors, MINORS_CONFIG, &cap), 0);
	assert_int_equal(cap, 1);
	assert_int_equal(minors_find_machine(minors, MINORS_MONITOR, &cap), 0);
	assert_int_equal(cap, 2);
	assert_int_equal(minors_find_machine(NULL, MINORS_CONFIG, &cap), -ENOENT);
	static const uint32_t of_gpu_0[] = {121, 122, 124}; /* the GPU instance first */
	size_t at = 0;
	for (size_t i = 0; i < 3; i++) {
		assert_true(minors_next(minors, 0, &at, &cap));
		assert_int_equal(cap, of_gpu_0[i]);
	}
	assert_false(minors_next(minors, 0, &at, &cap));
	at = 0;
	assert_false(minors_next(minors, 2, &at, &cap));
	assert_false(minors_next(NULL, 0, &at, &cap));
	assert_null(minors_free(minors));
}

static void test_skips_what_it_does_not_know(void **state)
{
	(void)state;
	static const char *const lines[] = {
	    "",
	    "\n\n",
	    "gpu0/gi1/access",
	    "gpu0/gi1/access ",
	    "gpu0/gi1/access x",
	    "gpu0/gi1/access 1 2",
	    "gpu0/gi1/access 4294967295",
	    "gpu/gi1/access 3",
	    "gpu-1/gi1/access 3",
	    "gpu0/gi1/ci/access 3",
	    "gpu0/gi1/ci4294967295/access 3",
	    "gpu0/gi4294967296/access 3",
	    "gpu0/gi1/ei1/access 3",
	    " gpu0/gi1/access 3",
	    "gpu0",
	    "gpu0/",
	    "config",
	    "config ",
	    "config x",
	    "config  1",
	    "configs 1",
	    "configs1",
	    "monitor 4294967295",
	};
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct minors *minors = parse(lines[i]);
		assert_int_equal(minors_count(minors), 0);
		expect(minors, 0, 1, MINORS_GPU_INSTANCE, -1);
		uint32_t cap;
		assert_int_equal(minors_find_machine(minors, MINORS_CONFIG, &cap), -ENOENT);
		assert_int_equal(minors_find_machine(minors, MINORS_MONITOR, &cap), -ENOENT);
		assert_null(minors_free(minors));
	}
}

static void test_has_caps(void **state)
{
	(void)state;
	size_t size = MINORS_SIZE_MAX + 1;
	char *text = malloc(size);
	assert_non_null(text);
	memset(text, '\n', size);
	struct minors *minors = NULL;
	struct err err = {0};
	assert_int_equal(minors_parse(text, size, &minors, &err), -EFBIG);
	assert_string_equal(err.text,
			    "/proc/driver/nvidia-caps/mig-minors: more than 1048576 bytes");
	assert_int_equal(minors_parse(text, MINORS_COUNT_MAX, &minors, &err), -EFBIG);
	assert_string_equal(err.text, "/proc/driver/nvidia-caps/mig-minors: more than 32768 lines");
	assert_int_equal(minors_parse(text, MINORS_COUNT_MAX - 1, &minors, &err), 0);
	assert_int_equal(minors_count(minors), 0);
	(void)minors_free(minors);
	free(text);
}

static int scenario(void *context)
{
	(void)context;
	static const char text[] = "gpu0/gi1/access 3\n";
	struct minors *minors = NULL;
	int rc = minors_parse(text, strlen(text), &minors, NULL);
	(void)minors_free(minors);
	return rc;
}

static void test_out_of_memory(void **state)
{
	(void)state;
	assert_int_equal(failmalloc_each(scenario, NULL), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_finds_what_the_file_names),
	    cmocka_unit_test(test_skips_what_it_does_not_know),
	    cmocka_unit_test(test_has_caps),
	    cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
