/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/labels/feature_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "doors/labels/label.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

static int text_of(int64_t expires_s, struct buf *out)
{
	struct label_set set;
	label_set_init(&set);
	label_set_put(&set, "nvidia.com/gpu.count", "2");
	label_set_put(&set, "nvidia.com/cuda.driver.rev", "");
	int rc = set.error;
	if (rc == 0)
		rc = feature_file_text(&set, expires_s, out, NULL);
	label_set_done(&set);
	return rc;
}

static void test_text(void **state)
{
	(void)state;
	_cleanup_buf_ struct buf text;
	buf_init(&text, FEATURE_FILE_MAX);
	assert_int_equal(text_of(0, &text), 0);
	assert_string_equal(buf_text(&text),
			    "nvidia.com/cuda.driver.rev=\nnvidia.com/gpu.count=2\n");
	buf_clear(&text);
	assert_int_equal(text_of(1690637440, &text), 0);
	assert_string_equal(buf_text(&text),
			    "# +expiry-time=2023-07-29T13:30:40Z\n"
			    "nvidia.com/cuda.driver.rev=\nnvidia.com/gpu.count=2\n");
	struct buf small;
	buf_init(&small, 20);
	assert_int_equal(text_of(0, &small), -ENOSPC);
	buf_done(&small);
}

static void test_file(void **state)
{
	(void)state;
	struct stat status;
	struct err err = {0};
	char *directory = unit_tmp_new();
	const char *path = unit_path(directory, "gfd");
	_cleanup_buf_ struct buf text;
	buf_init(&text, FEATURE_FILE_MAX);
	assert_int_equal(text_of(0, &text), 0);
	assert_false(feature_file_is(path, &text));
	(void)umask(077);
	assert_int_equal(feature_file_write(path, &text, &err), 0);
	(void)umask(022);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0644);
	assert_true(feature_file_is(path, &text));
	/* Other bytes, other rights. */
	assert_int_equal(chmod(path, 0600), 0);
	assert_false(feature_file_is(path, &text));
	unit_write(path, "else");
	assert_int_equal(chmod(path, 0644), 0);
	assert_false(feature_file_is(path, &text));
	assert_int_equal(feature_file_remove(path, &err), 0);
	assert_int_equal(feature_file_remove(path, &err), 0);
	assert_false(file_exists(path));
	assert_true(feature_file_remove(directory, &err) < 0);
	assert_int_equal(feature_file_write(unit_path(directory, "no/gfd"), &text, &err), -ENOENT);
	assert_null(unit_tmp_free(directory));
}

static void test_keep(void **state)
{
	(void)state;
	struct feature_keep keep;
	struct stat before, after;
	char *directory = unit_tmp_new();
	const char *path = unit_path(directory, "gfd");
	_cleanup_buf_ struct buf plain;
	buf_init(&plain, FEATURE_FILE_MAX);
	feature_keep_init(&keep);
	assert_int_equal(text_of(0, &plain), 0);
	assert_int_equal(feature_keep_put(&keep, path, &plain, 0, 1000, NULL), 1);
	assert_int_equal(stat(path, &before), 0);
	assert_int_equal(feature_keep_put(&keep, path, &plain, 0, 9000, NULL), 0);
	/* One that finds the file right does not write it, either. */
	feature_keep_done(&keep);
	feature_keep_init(&keep);
	assert_int_equal(feature_keep_put(&keep, path, &plain, 0, 9000, NULL), 0);
	assert_int_equal(stat(path, &after), 0);
	assert_true(before.st_ino == after.st_ino);
	unit_write(path, "else");
	assert_int_equal(feature_keep_put(&keep, path, &plain, 0, 9000, NULL), 1);
	/* With an expiry it is written again after a third of it. */
	assert_int_equal(feature_keep_put(&keep, path, &plain, 300, 9000, NULL), 1);
	assert_int_equal(feature_keep_put(&keep, path, &plain, 300, 9099, NULL), 0);
	assert_int_equal(feature_keep_put(&keep, path, &plain, 300, 9100, NULL), 1);
	assert_int_equal(
	    feature_keep_put(&keep, unit_path(directory, "no/gfd"), &plain, 0, 1, NULL), -ENOENT);
	feature_keep_done(&keep);
	assert_null(unit_tmp_free(directory));
}

static int scenario(void *context)
{
	(void)context;
	struct buf text;
	buf_init(&text, FEATURE_FILE_MAX);
	int rc = text_of(1, &text);
	buf_done(&text);
	return rc;
}

static void test_no_memory(void **state)
{
	(void)state;
	assert_int_not_equal(failmalloc_each(scenario, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_text),
	    cmocka_unit_test(test_file),
	    cmocka_unit_test(test_keep),
	    cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
