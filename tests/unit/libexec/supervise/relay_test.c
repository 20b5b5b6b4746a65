/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libexec/supervise/relay.h"
#include "unit/unit.h"

struct pipe_and_file {
	char *tmp;
	char path[4096];
	int write_fd;
	uint64_t now_ns;
	struct relay relay;
};

static void open_relay(struct pipe_and_file *test, const char *directory, uint64_t limit)
{
	int ends[2];
	(void)snprintf(test->path, sizeof(test->path), "%s/out", directory);
	int fd = open(test->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(relay_init(&test->relay, fd, limit), 0);
	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	test->relay.in_fd = ends[0];
	test->write_fd = ends[1];
	test->now_ns = 1;
	test->relay.clock.fake_ns = &test->now_ns;
}

static int setup(void **state)
{
	struct pipe_and_file *test = calloc(1, sizeof(*test));
	test->tmp = unit_tmp_new();
	test->relay = RELAY_NONE;
	test->write_fd = -1;
	*state = test;
	return 0;
}

static int teardown(void **state)
{
	struct pipe_and_file *test = *state;
	relay_done(&test->relay);
	if (test->write_fd >= 0)
		(void)close(test->write_fd);
	test->tmp = unit_tmp_free(test->tmp);
	free(test);
	return 0;
}

static void put(const struct pipe_and_file *test, const char *text)
{
	assert_int_equal(write(test->write_fd, text, strlen(text)), strlen(text));
}

static const char *content(const struct pipe_and_file *test)
{
	static char text[65536];
	int fd = open(test->path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	ssize_t length = read(fd, text, sizeof(text) - 1);
	assert_true(length >= 0);
	text[length] = '\0';
	(void)close(fd);
	return text;
}

static void what_is_written_is_stored_at_once(void **state)
{
	struct pipe_and_file *test = *state;
	open_relay(test, test->tmp, 0);
	assert_int_equal(relay_move(&test->relay), RELAY_EMPTY);
	put(test, "one\n");
	assert_int_equal(relay_move(&test->relay), RELAY_EMPTY);
	assert_string_equal(content(test), "one\n");
	put(test, "two\n");
	(void)close(test->write_fd);
	test->write_fd = -1;
	assert_int_equal(relay_move(&test->relay), RELAY_ENDED);
	assert_int_equal(test->relay.in_fd, -1);
	assert_string_equal(content(test), "one\ntwo\n");
}

static void others_may_append_to_the_file(void **state)
{
	struct pipe_and_file *test = *state;
	open_relay(test, test->tmp, 0);
	put(test, "one\n");
	(void)relay_move(&test->relay);
	int fd = open(test->path, O_WRONLY | O_APPEND | O_CLOEXEC);
	assert_int_equal(write(fd, "podman\n", 7), 7);
	put(test, "two\n");
	(void)relay_move(&test->relay);
	assert_string_equal(content(test), "one\npodman\ntwo\n");
	assert_int_equal(ftruncate(fd, 0), 0); /* the job's user may, and gets no hole */
	put(test, "three\n");
	(void)relay_move(&test->relay);
	assert_string_equal(content(test), "three\n");
	(void)close(fd);
}

static void beyond_the_limit_it_is_dropped_and_said_once(void **state)
{
	struct pipe_and_file *test = *state;
	open_relay(test, test->tmp, 1024);
	char block[1001];
	memset(block, 'x', 1000);
	block[1000] = '\0';
	for (int i = 0; i < 20; i++) {
		put(test, block);
		assert_int_equal(relay_move(&test->relay), RELAY_EMPTY);
	}
	const char *text = content(test);
	assert_int_equal(strspn(text, "x"), 1024);
	assert_string_equal(text + 1024, "\nsluice: output beyond 1 KiB was dropped\n");
	/* What came otherwise, too. */
	assert_true(relay_store(&test->relay, "more", 4));
	assert_int_equal(strlen(content(test)), strlen(text));
}

static void exactly_the_limit_is_whole(void **state)
{
	struct pipe_and_file *test = *state;
	open_relay(test, test->tmp, 4);
	put(test, "four");
	assert_int_equal(relay_move(&test->relay), RELAY_EMPTY);
	assert_string_equal(content(test), "four");
	assert_true(relay_store(&test->relay, "5", 1));
	assert_string_equal(content(test), "four\nsluice: output beyond 4 bytes was dropped\n");
}

static void a_chunk_is_cut_in_its_middle(void **state)
{
	struct pipe_and_file *test = *state;
	open_relay(test, test->tmp, 4);
	assert_true(relay_store(&test->relay, "fourfive", 8));
	assert_string_equal(content(test), "four\nsluice: output beyond 4 bytes was dropped\n");
}

static void read_copy(int fd, const char *expected)
{
	char text[65536];
	ssize_t length = read(fd, text, sizeof(text) - 1);
	assert_true(length >= 0);
	text[length] = '\0';
	assert_string_equal(text, expected);
}

static void a_copy_gets_the_same_and_may_be_slow(void **state)
{
	struct pipe_and_file *test = *state;
	int copy[2];
	open_relay(test, test->tmp, 4);
	assert_int_equal(pipe2(copy, O_CLOEXEC | O_NONBLOCK), 0);
	(void)fcntl(copy[1], F_SETPIPE_SZ, 4096);
	test->relay.copy_fd = copy[1];
	put(test, "all of it");
	assert_int_equal(relay_move(&test->relay), RELAY_EMPTY);
	read_copy(copy[0], "all of it"); /* has no limit */
	assert_string_equal(content(test), "all \nsluice: output beyond 4 bytes was dropped\n");
	(void)close(copy[0]);
}

static void a_copy_without_room_holds_it_up_and_loses_nothing(void **state)
{
	struct pipe_and_file *test = *state;
	int copy[2];
	open_relay(test, test->tmp, 0);
	assert_int_equal(pipe2(copy, O_CLOEXEC | O_NONBLOCK), 0);
	assert_int_equal(fcntl(copy[1], F_SETPIPE_SZ, 4096), 4096);
	test->relay.copy_fd = copy[1];
	assert_int_equal(write(copy[1], "0", 1), 1); /* its one buffer is taken */
	put(test, "late");
	assert_int_equal(relay_move(&test->relay), RELAY_BLOCKED);
	char drain[4096];
	(void)!read(copy[0], drain, sizeof(drain));
	assert_int_equal(relay_move(&test->relay), RELAY_EMPTY);
	read_copy(copy[0], "late");
	/* Whoever reads it is gone. */
	(void)close(copy[0]);
	(void)signal(SIGPIPE, SIG_IGN);
	put(test, "alone");
	assert_int_equal(relay_move(&test->relay), RELAY_EMPTY);
	assert_int_equal(test->relay.copy_fd, -1);
	assert_non_null(strstr(content(test), "late"));
	assert_non_null(strstr(content(test), "alone"));
}

static void a_disk_without_room_is_said_and_does_not_end_it(void **state)
{
	struct pipe_and_file *test = *state;
	char disk[4096], ballast[4200];
	(void)snprintf(disk, sizeof(disk), "%s/disk", test->tmp);
	assert_int_equal(mkdir(disk, 0700), 0);
	if (mount("tmpfs", disk, "tmpfs", 0, "size=1m") < 0) {
		print_message("skipped: mounting a small disk: %s\n", strerror(errno));
		skip();
	}
	open_relay(test, disk, 0);
	(void)snprintf(ballast, sizeof(ballast), "%s/ballast", disk);
	int fd = open(ballast, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(posix_fallocate(fd, 0, 1000 << 10), 0);
	put(test, "lost\n");
	assert_int_equal(relay_move(&test->relay), RELAY_EMPTY);
	assert_true(test->relay.is_full);
	assert_null(strstr(content(test), "lost"));
	assert_non_null(strstr(content(test), "on: the disk is nearly full\n"));
	assert_int_equal(ftruncate(fd, 0), 0);
	put(test, "lost, too\n"); /* it does not look again at once */
	assert_int_equal(relay_move(&test->relay), RELAY_EMPTY);
	assert_null(strstr(content(test), "lost, too"));
	test->now_ns += RELAY_LOOK_NS;
	put(test, "kept\n");
	assert_int_equal(relay_move(&test->relay), RELAY_EMPTY);
	assert_non_null(strstr(content(test), "room again: 15 bytes were dropped until"));
	assert_non_null(strstr(content(test), "kept\n"));
	(void)close(fd);
	relay_done(&test->relay);
	assert_int_equal(umount2(disk, MNT_DETACH), 0);
}

static void a_file_that_takes_nothing_does_not_end_it(void **state)
{
	struct pipe_and_file *test = *state;
	open_relay(test, test->tmp, 0);
	(void)close(test->relay.file_fd);
	test->relay.file_fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	put(test, "lost");
	assert_int_equal(relay_move(&test->relay), RELAY_EMPTY);
	assert_true(test->relay.is_full);
	assert_int_equal(test->relay.full_code, -ENOSPC);
	assert_int_equal(test->relay.dropped_bytes, 4);
	assert_true(relay_store(&test->relay, "lost", 4));
	assert_int_equal(test->relay.dropped_bytes, 8);
}

static void sizes_are_for_people(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} rows[] = {{0, "0 bytes"},
		    {1000, "1000 bytes"},
		    {1 << 10, "1 KiB"},
		    {1536 << 10, "1536 KiB"},
		    {UINT64_C(1) << 30, "1 GiB"},
		    {UINT64_C(3) << 40, "3 TiB"},
		    {UINT64_MAX, "18446744073709551615 bytes"}};
	char text[RELAY_SIZE_MAX];
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		relay_size_text(rows[i].bytes, text);
		assert_string_equal(text, rows[i].text);
	}
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(what_is_written_is_stored_at_once),
	    CASE(others_may_append_to_the_file),
	    CASE(beyond_the_limit_it_is_dropped_and_said_once),
	    CASE(exactly_the_limit_is_whole),
	    CASE(a_chunk_is_cut_in_its_middle),
	    CASE(a_copy_gets_the_same_and_may_be_slow),
	    CASE(a_copy_without_room_holds_it_up_and_loses_nothing),
	    CASE(a_disk_without_room_is_said_and_does_not_end_it),
	    CASE(a_file_that_takes_nothing_does_not_end_it),
	    cmocka_unit_test(sizes_are_for_people),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
