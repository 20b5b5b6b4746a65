/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/reader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "unit/unit.h"

enum { LARGE = READER_BLOCK_MAX, FILES = 300, FILE_BYTES = 10000 };

static void make(struct reader_set *out)
{
	struct err err = {0};
	if (reader_set_make(unit_top, LARGE, FILES, FILE_BYTES, NULL, NULL, out, &err) < 0)
		fail_msg("%s", err.text);
}

static size_t count_entries(const char *path)
{
	DIR *list = opendir(path);
	size_t count = 0;
	assert_non_null(list);
	for (struct dirent *entry; (entry = readdir(list));)
		count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
	(void)closedir(list);
	return count;
}

static int run(const struct reader_set *set, struct reader_case what, struct reader_outcome *out)
{
	struct err err = {0};
	int result = reader_run(set, &what, 5000000, 9, NULL, out, &err);
	if (result < 0 && result != -EOPNOTSUPP)
		fail_msg("%s", err.text);
	return result;
}

static void all_that_was_written_is_read(void **state)
{
	struct reader_set set;
	make(&set);
	for (int pattern = 0; pattern < READER_PATTERN_COUNT; pattern++) {
		for (int cache = 0; cache < READER_CACHE_COUNT; cache++) {
			for (unsigned readers = 1; readers <= 5; readers += 4) {
				struct reader_outcome out = {0};
				struct reader_case what = {.pattern = pattern,
							   .cache = cache,
							   .block = 65536,
							   .readers = readers};
				if (run(&set, what, &out) < 0)
					continue; /* no O_DIRECT here */
				assert_true(out.reads > 0 && out.took_ns > 0);
				assert_int_equal(out.wrong, 0);
				assert_true(out.p50_ns <= out.p99_ns);
				if (pattern == READER_FILES) {
					assert_int_equal(out.reads, FILES);
					assert_int_equal(out.bytes, FILES * FILE_BYTES);
				} else {
					assert_int_equal(out.bytes, out.reads * 65536);
				}
				if (pattern != READER_FILES && cache == READER_COLD)
					assert_true(out.bytes <= LARGE + readers * 65536);
			}
		}
	}
	reader_set_remove(&set);
	assert_int_equal(count_entries(unit_top), 0);
	reader_set_remove(&set); /* again: nothing */
}

static void what_is_wrong_is_counted(void **state)
{
	struct reader_set set;
	struct reader_outcome out = {0};
	char path[READER_PATH_MAX + 16];
	make(&set);
	(void)snprintf(path, sizeof(path), "%s/data", set.directory);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	/* One bit in the place that one block claims. */
	assert_int_equal(pwrite(fd, "\xff", 1, (off_t)3 * READER_BLOCK_MIN + 9), 1);
	(void)close(fd);
	assert_int_equal(run(&set,
			     (struct reader_case){.pattern = READER_SEQUENTIAL,
						  .cache = READER_COLD,
						  .block = READER_BLOCK_MAX,
						  .readers = 1},
			     &out),
			 0);
	assert_true(out.wrong >= 1 && out.wrong <= 2);
	struct reader_set moved = set;
	moved.seed++;
	assert_int_equal(
	    run(&moved,
		(struct reader_case){
		    .pattern = READER_FILES, .cache = READER_CACHED, .block = 4096, .readers = 2},
		&out),
	    0);
	assert_int_equal(out.wrong, FILES * 3); /* each block of each file, the last one is cut */
	reader_set_remove(&set);
}

static void what_takes_long_can_be_ended(void **state)
{
	struct reader_set set;
	struct reader_outcome out;
	struct err err = {0};
	const atomic_bool stop = true;
	make(&set);
	for (int pattern = 0; pattern < READER_PATTERN_COUNT; pattern++) {
		struct reader_case what = {
		    .pattern = pattern, .cache = READER_CACHED, .block = 4096, .readers = 3};
		assert_int_equal(
		    reader_run(&set, &what, UINT64_C(3600000000000), 9, &stop, &out, &err), -EINTR);
	}
	reader_set_remove(&set);
}

static void a_file_that_is_cut_is_told(void **state)
{
	struct reader_set set;
	struct reader_outcome out;
	struct err err = {0};
	char path[READER_PATH_MAX + 16];
	make(&set);
	(void)snprintf(path, sizeof(path), "%s/d1/f256", set.directory);
	assert_int_equal(truncate(path, 5000), 0);
	struct reader_case what = {
	    .pattern = READER_FILES, .cache = READER_CACHED, .block = 4096, .readers = 3};
	assert_int_equal(reader_run(&set, &what, 1, 9, NULL, &out, &err), -EIO);
	assert_non_null(strstr(err.text, "d1/f256"));
	assert_int_equal(unlink(path), 0);
	assert_int_equal(reader_run(&set, &what, 1, 9, NULL, &out, &err), -ENOENT);
	reader_set_remove(&set);
	assert_int_equal(count_entries(unit_top), 0);
}

static bool stop_early(uint64_t done, uint64_t all, void *context)
{
	*(uint64_t *)context = all;
	return done < 4 << 20;
}

static void nothing_is_left_of_what_was_not_made(void **state)
{
	struct reader_set set;
	struct err err = {0};
	uint64_t all = 0;
	assert_int_equal(
	    reader_set_make(unit_top, LARGE, FILES, FILE_BYTES, stop_early, &all, &set, &err),
	    -EINTR);
	assert_int_equal(all, LARGE + FILES * FILE_BYTES);
	assert_int_equal(
	    reader_set_make(unit_top, (uint64_t)LARGE << 30, 0, 0, NULL, NULL, &set, &err),
	    -ENOSPC);
	assert_non_null(strstr(err.text, "--size"));
	assert_int_equal(
	    reader_set_make(unit_path(unit_top, "none"), LARGE, 0, 0, NULL, NULL, &set, &err),
	    -ENOENT);
	assert_int_equal(reader_set_make(unit_top, LARGE + 1, 0, 0, NULL, NULL, &set, &err),
			 -EINVAL);
	assert_int_equal(count_entries(unit_top), 0);
}

static void what_cannot_be_meant_is_refused(void **state)
{
	struct reader_set set = {.bytes = LARGE};
	struct reader_outcome out;
	struct err err = {0};
	static const struct reader_case bad[] = {
	    {READER_RANDOM, READER_CACHED, 4095, 1},
	    {READER_RANDOM, READER_CACHED, 12288, 1},
	    {READER_RANDOM, READER_CACHED, 2 * READER_BLOCK_MAX, 1},
	    {READER_RANDOM, READER_CACHED, 4096, 0},
	    {READER_RANDOM, READER_CACHED, 4096, READER_READERS_MAX + 1},
	    {READER_FILES, READER_CACHED, 4096, 1},
	};
	for (size_t i = 0; i < array_length(bad); i++)
		assert_int_equal(reader_run(&set, &bad[i], 1, 1, NULL, &out, &err), -EINVAL);
	assert_string_equal(reader_pattern_to_string(READER_FILES), "files");
	assert_string_equal(reader_cache_to_string(READER_COLD), "cold");
	assert_string_equal(reader_pattern_to_string((enum reader_pattern)7), "?");
	assert_string_equal(reader_cache_to_string((enum reader_cache)7), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(all_that_was_written_is_read, unit_top_setup,
					    unit_top_teardown),
	    cmocka_unit_test_setup_teardown(what_is_wrong_is_counted, unit_top_setup,
					    unit_top_teardown),
	    cmocka_unit_test_setup_teardown(what_takes_long_can_be_ended, unit_top_setup,
					    unit_top_teardown),
	    cmocka_unit_test_setup_teardown(a_file_that_is_cut_is_told, unit_top_setup,
					    unit_top_teardown),
	    cmocka_unit_test_setup_teardown(nothing_is_left_of_what_was_not_made, unit_top_setup,
					    unit_top_teardown),
	    cmocka_unit_test(what_cannot_be_meant_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
