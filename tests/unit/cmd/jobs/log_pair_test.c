/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/log_pair.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "job/interleave.h"
#include "unit/unit.h"

enum { READ = LOG_PAIR_READ_MIN };

struct fixture {
	char directory[64], out_path[FILE_PATH_MAX];
	char got[READ + 1];
};

static void append(const struct fixture *fixture, const char *name, const void *bytes,
		   size_t length)
{
	char path[FILE_PATH_MAX];
	(void)snprintf(path, sizeof(path), "%s/%s.1", fixture->directory, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, length), length);
	(void)close(fd);
}

static void append_text(const struct fixture *fixture, const char *name, const char *text)
{
	append(fixture, name, text, strlen(text));
}

static void append_record(const struct fixture *fixture, enum interleave_stream stream,
			  uint64_t length)
{
	uint8_t record[INTERLEAVE_RECORD];
	interleave_format(stream, length, record);
	append(fixture, "order", record, sizeof(record));
}

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	if (!fixture)
		return -1;
	(void)snprintf(fixture->directory, sizeof(fixture->directory), "%s",
		       "/tmp/sluice-unit-pair.XXXXXX");
	if (!mkdtemp(fixture->directory))
		return -1;
	(void)snprintf(fixture->out_path, sizeof(fixture->out_path), "%s/out.1",
		       fixture->directory);
	append_text(fixture, "out", "");
	append_text(fixture, "err", "");
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	static const char *const names[] = {"out", "err", "order"};
	struct fixture *fixture = *state;
	for (int i = 0; i < 3; i++) {
		char path[FILE_PATH_MAX];
		(void)snprintf(path, sizeof(path), "%s/%s.1", fixture->directory, names[i]);
		(void)unlink(path);
	}
	(void)rmdir(fixture->directory);
	free(fixture);
	return 0;
}

static struct log_pair *open_pair(const struct fixture *fixture, bool is_json)
{
	struct err err = {0};
	const struct log_pair_options options = {
	    .out_path = fixture->out_path, .is_json = is_json, .job = 7, .attempt = 1};
	return log_pair_new(&options, &err);
}

static const char *read_all(struct fixture *fixture, struct log_pair *pair, bool is_final)
{
	size_t length = 0;
	ssize_t got;
	char part[READ];
	while ((got = log_pair_read(pair, is_final, part, sizeof(part))) > 0) {
		memcpy(fixture->got + length, part, (size_t)got);
		length += (size_t)got;
	}
	fixture->got[length] = '\0';
	return fixture->got;
}

static void siblings_lie_beside(void **state)
{
	char path[FILE_PATH_MAX];
	struct err err = {0};
	assert_int_equal(log_pair_sibling("/s/j/out.d/out.12", "order", path, &err), 0);
	assert_string_equal(path, "/s/j/out.d/order.12");
	assert_int_equal(log_pair_sibling("/s/j/7/w3.out.1", "err", path, &err), 0);
	assert_string_equal(path, "/s/j/7/w3.err.1");
	assert_true(log_pair_sibling("/s/j/7/err.1", "err", path, &err) < 0);
	assert_non_null(strstr(err.text, "/s/j/7/err.1"));
}

static void both_come_in_their_order(void **state)
{
	struct fixture *fixture = *state;
	struct log_pair *pair = open_pair(fixture, false);
	assert_non_null(pair);
	append_text(fixture, "out", "a\n");
	assert_string_equal(read_all(fixture, pair, false), "a\n");
	append_text(fixture, "out", "c\n");
	append_text(fixture, "err", "b\n");
	assert_string_equal(read_all(fixture, pair, false), "");
	assert_true(log_pair_is_stuck(pair));
	append_record(fixture, INTERLEAVE_OUT, 2);
	append_record(fixture, INTERLEAVE_ERR, 2);
	append_record(fixture, INTERLEAVE_OUT, 2);
	assert_string_equal(read_all(fixture, pair, false), "b\nc\n");
	assert_false(log_pair_is_stuck(pair));
	assert_false(log_pair_is_unordered(pair));
	pair = log_pair_free(pair);
}

static void without_an_index_one_comes_after_the_other(void **state)
{
	struct fixture *fixture = *state;
	struct log_pair *pair = open_pair(fixture, false);
	assert_non_null(pair);
	append_text(fixture, "err", "b\n");
	append_text(fixture, "out", "a\n");
	assert_string_equal(read_all(fixture, pair, true), "a\nb\n");
	assert_true(log_pair_is_unordered(pair));
	pair = log_pair_free(pair);
}

static void the_last_lines_are_those_of_both(void **state)
{
	static const char *const expected[] = {"", "d", "c2\nd", "c1\nc2\nd", "b\nc1\nc2\nd"};
	struct fixture *fixture = *state;
	append_text(fixture, "out", "a\nc1\nc2\n");
	append_text(fixture, "err", "b\nd");
	append_record(fixture, INTERLEAVE_OUT, 2);
	append_record(fixture, INTERLEAVE_ERR, 2);
	append_record(fixture, INTERLEAVE_OUT, 6);
	append_record(fixture, INTERLEAVE_ERR, 1);
	for (uint32_t lines = 0; lines < 5; lines++) {
		struct err err = {0};
		struct log_pair *pair = open_pair(fixture, false);
		assert_non_null(pair);
		assert_int_equal(log_pair_tail(pair, lines, true, &err), 0);
		assert_string_equal(read_all(fixture, pair, true), expected[lines]);
		pair = log_pair_free(pair);
	}
}

/* Bytes that this process has read so far; 0: the kernel does not count. */
static uint64_t bytes_read(void)
{
	char line[64];
	unsigned long long count = 0;
	FILE *file = fopen("/proc/self/io", "re");
	if (!file)
		return 0;
	if (fgets(line, sizeof(line), file))
		(void)sscanf(line, "rchar: %llu", &count);
	(void)fclose(file);
	return count;
}

static void the_index_is_read_once(void **state)
{
	enum { LINES = 4096, INDEX = 2 * LINES * INTERLEAVE_RECORD, FILES = 4 * LINES };
	struct fixture *fixture = *state;
	char lines[2][2 * LINES], part[READ];
	uint8_t index[INDEX];

	for (size_t i = 0; i < LINES; i++) {
		memcpy(lines[0] + 2 * i, "o\n", 2);
		memcpy(lines[1] + 2 * i, "e\n", 2);
		interleave_format(INTERLEAVE_OUT, 2, index + 2 * i * INTERLEAVE_RECORD);
		interleave_format(INTERLEAVE_ERR, 2, index + (2 * i + 1) * INTERLEAVE_RECORD);
	}

	append(fixture, "out", lines[0], sizeof(lines[0]));
	append(fixture, "err", lines[1], sizeof(lines[1]));
	append(fixture, "order", index, sizeof(index));

	uint64_t before = bytes_read();
	if (before == 0)
		skip();

	struct log_pair *pair = open_pair(fixture, false);
	assert_non_null(pair);
	size_t shown = 0;
	ssize_t got;

	while ((got = log_pair_read(pair, true, part, sizeof(part))) > 0)
		for (ssize_t i = 0; i < got; i++, shown++)
			assert_int_equal(part[i], "o\ne\n"[shown % 4]);
	assert_int_equal(shown, FILES);
	pair = log_pair_free(pair);

	/* Its last record, which may have grown, is looked at again for each piece. */
	assert_in_range(bytes_read() - before, FILES + INDEX, FILES + 3 * INDEX);
}

static void json_marks_each_line(void **state)
{
	struct fixture *fixture = *state;
	append_text(fixture, "out", "a\"\n\xc3\xa4\xff\n");
	append_text(fixture, "err", "b");
	append_record(fixture, INTERLEAVE_OUT, 3);
	append_record(fixture, INTERLEAVE_ERR, 1);
	append_record(fixture, INTERLEAVE_OUT, 4);
	struct log_pair *pair = open_pair(fixture, true);
	assert_non_null(pair);
	assert_string_equal(
	    read_all(fixture, pair, true),
	    "{\"job\":7,\"attempt\":1,\"stream\":\"stdout\",\"text\":\"a\\\"\\n\"}\n"
	    "{\"job\":7,\"attempt\":1,\"stream\":\"stderr\",\"text\":\"b\"}\n"
	    "{\"job\":7,\"attempt\":1,\"stream\":\"stdout\",\"text\":\"\xc3\xa4"
	    "\xef\xbf\xbd\\n\"}\n");
	pair = log_pair_free(pair);
}

/* A line of several objects: no character stands in two of them. */
static void json_cuts_no_character(void **state)
{
	struct fixture *fixture = *state;
	char line[LOG_PAIR_LINE_MAX + 1];

	for (size_t before = 1; before <= 3; before++) { /* bytes of it that would still fit */
		memset(line, 'x', sizeof(line));
		line[LOG_PAIR_LINE_MAX - before] = '\0';
		assert_int_equal(truncate(fixture->out_path, 0), 0);
		append_text(fixture, "out", line);
		append_text(fixture, "out", "\xf0\x9f\x98\x80!\n");

		struct log_pair *pair = open_pair(fixture, true);
		assert_non_null(pair);
		const char *got = read_all(fixture, pair, true);
		assert_non_null(strstr(got, "x\"}\n"));
		assert_non_null(strstr(got, "\"text\":\"\xf0\x9f\x98\x80!\\n\"}\n"));
		pair = log_pair_free(pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(siblings_lie_beside),
	    cmocka_unit_test_setup_teardown(both_come_in_their_order, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(without_an_index_one_comes_after_the_other, set_up,
					    tear_down),
	    cmocka_unit_test_setup_teardown(the_last_lines_are_those_of_both, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(the_index_is_read_once, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(json_marks_each_line, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(json_cuts_no_character, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
