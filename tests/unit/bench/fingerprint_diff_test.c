/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "bench/fingerprint.h"
#include "unit/unit.h"

static void what_differs_is_named(void **state)
{
	struct buf out _cleanup_buf_;
	size_t count = 9;
	buf_init(&out, 1 << 16);
	assert_int_equal(
	    fingerprint_differences("{\"kernel\": \"6.1\", \"cpu\": \"x\", \"shm_free_bytes\": 1, "
				    "\"gone\": 3, \"environment\": {\"OMP_NUM_THREADS\": \"2\"}}",
				    "{\"kernel\": \"6.2\\u001b\", \"cpu\": \"x\", "
				    "\"shm_free_bytes\": 2, \"new\": [1], \"environment\": "
				    "{\"OMP_NUM_THREADS\": \"4\", \"NCCL_DEBUG\": \"INFO\"}}",
				    &out, &count, NULL),
	    0);
	assert_int_equal(count, 5);
	assert_non_null(strstr(buf_text(&out), "kernel: A 6.1, B 6.2"));
	assert_null(strchr(buf_text(&out), '\x1b'));
	assert_non_null(strstr(buf_text(&out), "gone: A 3, B -\n"));
	assert_non_null(strstr(buf_text(&out), "new: A -, B [1]\n"));
	assert_non_null(strstr(buf_text(&out), "environment.OMP_NUM_THREADS: A 2, B 4\n"));
	assert_non_null(strstr(buf_text(&out), "environment.NCCL_DEBUG: A -, B INFO\n"));
	assert_null(strstr(buf_text(&out), "cpu"));
	assert_null(strstr(buf_text(&out), "shm_free_bytes"));
}

static void alike_is_nothing(void **state)
{
	struct buf out _cleanup_buf_;
	size_t count = 9;
	buf_init(&out, 1 << 16);
	assert_int_equal(fingerprint_differences("{\"a\": {\"b\": 1}}", "{\"a\": {\"b\": 1}}", &out,
						 &count, NULL),
			 0);
	assert_int_equal(count, 0);
	assert_int_equal(out.length, 0);
}

static void what_is_none_is_refused(void **state)
{
	struct buf out _cleanup_buf_, small _cleanup_buf_;
	struct err err = {0};
	buf_init(&out, 1 << 16);
	buf_init(&small, 4);
	assert_int_equal(fingerprint_differences("[]", "{}", &out, NULL, &err), -EINVAL);
	assert_int_equal(fingerprint_differences("{}", "{", &out, NULL, &err), -EINVAL);
	assert_true(fingerprint_differences("{\"a\": 1}", "{}", &small, NULL, &err) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_differs_is_named),
	    cmocka_unit_test(alike_is_nothing),
	    cmocka_unit_test(what_is_none_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
