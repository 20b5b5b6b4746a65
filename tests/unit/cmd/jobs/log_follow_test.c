/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/log_follow.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/loop.h"
#include "unit/cmd/fake_agent.h"
#include "unit/unit.h"
#include "wire/client.h"

enum { LARGE = 3 << 20 };

struct fixture {
	char *directory;
	struct loop *loop;
	struct fake_agent fake;
	int out[2]; /* a pipe: what is shown is read from out[0] */
	struct log_follow *log;
	bool ended;
	int result;
	char *got;
	size_t got_length;
};

static void on_end(int result, const struct err *err, void *context)
{
	struct fixture *fixture = context;
	assert_false(fixture->ended);
	fixture->ended = true;
	fixture->result = result;
}

static struct log_follow_options options_of(struct fixture *fixture)
{
	return (struct log_follow_options){
	    .loop = fixture->loop, .out_fd = fixture->out[1], .ended = on_end, .context = fixture};
}

/* Takes what is there; the pipe is read without waiting. */
static void drain(struct fixture *fixture)
{
	ssize_t got;
	while ((got = read(fixture->out[0], fixture->got + fixture->got_length,
			   2 * LARGE - fixture->got_length)) > 0)
		fixture->got_length += (size_t)got;
}

static void until_got(struct fixture *fixture, size_t length)
{
	uint64_t until_ns = unit_now_ns() + UINT64_C(10000000000);
	for (;;) {
		drain(fixture);
		if (fixture->got_length >= length)
			return;
		assert_true(unit_now_ns() < until_ns);
		assert_int_equal(loop_pass(fixture->loop, 5000000, NULL), 0);
	}
}

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	assert_non_null(fixture);
	fixture->directory = unit_tmp_new();
	fixture->loop = loop_new(LOOP_REAL, NULL);
	fixture->got = malloc(2 * LARGE);
	assert_non_null(fixture->loop);
	assert_non_null(fixture->got);
	assert_int_equal(pipe2(fixture->out, O_CLOEXEC), 0);
	assert_int_equal(fcntl(fixture->out[0], F_SETFL, O_NONBLOCK), 0);
	(void)signal(SIGPIPE, SIG_IGN);
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;
	fixture->log = log_follow_free(fixture->log);
	fixture->loop = loop_free(fixture->loop);
	(void)close(fixture->out[0]);
	(void)close(fixture->out[1]);
	unit_tmp_free(fixture->directory);
	free(fixture->got);
	free(fixture);
	return 0;
}

/* Many bytes, a slow reader, and more that comes meanwhile: each byte once and in order. */
static void test_every_byte_once(void **state)
{
	struct fixture *fixture = *state;
	const char *path = unit_path(fixture->directory, "out");
	char *bytes = malloc(LARGE);
	assert_non_null(bytes);
	for (size_t i = 0; i < LARGE; i++)
		bytes[i] = (char)(i * 2654435761U >> 11);
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, LARGE / 2), LARGE / 2);
	const struct log_follow_options options = options_of(fixture);
	fixture->log = log_follow_file(path, &options, NULL);
	assert_non_null(fixture->log);
	until_got(fixture, LARGE / 4);
	assert_int_equal(write(fd, bytes + LARGE / 2, LARGE / 4), LARGE / 4);
	until_got(fixture, 3 * LARGE / 4);
	assert_false(fixture->ended);
	assert_int_equal(log_follow_offset(fixture->log), 3 * LARGE / 4);
	assert_int_equal(write(fd, bytes + 3 * LARGE / 4, LARGE / 4), LARGE / 4);
	(void)close(fd);
	log_follow_finish(fixture->log);
	until_got(fixture, LARGE);
	fake_agent_until(&(struct fake_agent){.loop = fixture->loop}, &fixture->ended);
	assert_int_equal(fixture->result, 0);
	drain(fixture);
	assert_int_equal(fixture->got_length, LARGE);
	assert_memory_equal(fixture->got, bytes, LARGE);
	free(bytes);
}

/* inotify instances of this process. */
static size_t count_listeners(void)
{
	size_t count = 0;
	for (int fd = 0; fd < 64; fd++) {
		char link[64], target[64] = "";
		(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		if (readlink(link, target, sizeof(target) - 1) > 0 && strstr(target, "inotify"))
			count++;
	}
	return count;
}

/* Ending an inotify instance waits for the kernel, longer than a short job takes: only an output
 * that is still written after a while is listened to. */
static void test_a_short_one_is_not_listened_to(void **state)
{
	struct fixture *fixture = *state;
	const char *path = unit_path(fixture->directory, "out");
	unit_write(path, "one");
	const struct log_follow_options options = options_of(fixture);
	fixture->log = log_follow_file(path, &options, NULL);
	assert_non_null(fixture->log);
	until_got(fixture, 3);
	assert_int_equal(count_listeners(), 0);

	uint64_t until_ns = unit_now_ns() + UINT64_C(10000000000);
	while (count_listeners() == 0) {
		assert_true(unit_now_ns() < until_ns);
		assert_int_equal(loop_pass(fixture->loop, 5000000, NULL), 0);
	}
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, " two", 4), 4);
	(void)close(fd);
	until_got(fixture, 7);
	assert_memory_equal(fixture->got, "one two", 7);
}

static void test_from_an_offset(void **state)
{
	struct fixture *fixture = *state;
	const char *path = unit_path(fixture->directory, "out");
	unit_write(path, "one two");
	struct log_follow_options options = options_of(fixture);
	options.offset = 4;
	fixture->log = log_follow_file(path, &options, NULL);
	assert_non_null(fixture->log);
	log_follow_finish(fixture->log);
	fake_agent_until(&(struct fake_agent){.loop = fixture->loop}, &fixture->ended);
	drain(fixture);
	assert_int_equal(fixture->got_length, 3);
	assert_memory_equal(fixture->got, "two", 3);
}

static void test_a_reader_that_goes(void **state)
{
	struct fixture *fixture = *state;
	const char *path = unit_path(fixture->directory, "out");
	unit_write(path, "text");
	const struct log_follow_options options = options_of(fixture);
	(void)close(fixture->out[0]);
	fixture->log = log_follow_file(path, &options, NULL);
	assert_non_null(fixture->log);
	fake_agent_until(&(struct fake_agent){.loop = fixture->loop}, &fixture->ended);
	assert_int_equal(fixture->result, -EPIPE);
	fixture->out[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void test_what_is_no_file(void **state)
{
	struct fixture *fixture = *state;
	const struct log_follow_options options = options_of(fixture);
	struct err err = {0};
	assert_null(log_follow_file(unit_path(fixture->directory, "none"), &options, &err));
	assert_int_equal(err.code, -ENOENT);
	assert_null(log_follow_file(fixture->directory, &options, &err));
	assert_int_equal(err.code, -EINVAL);
	const char *fifo = unit_path(fixture->directory, "fifo");
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_null(log_follow_file(fifo, &options, &err));
	assert_int_equal(err.code, -EINVAL);
	const char *link = unit_path(fixture->directory, "link");
	unit_write(unit_path(fixture->directory, "file"), "x");
	assert_int_equal(symlink("file", link), 0);
	assert_null(log_follow_file(link, &options, &err));
	assert_int_equal(err.code, -ELOOP);
}

/* The agent's pieces: those that were shown already are not shown again. */
static void test_by_way_of_the_agent(void **state)
{
	struct fixture *fixture = *state;
	struct fake_agent *fake = &fixture->fake;
	fake_agent_start(fake, fixture->loop, fixture->directory);
	fake->log = "hello, world";
	fake->piece = 5;
	fake->log_from_start = true;
	struct wire_client *client = wire_client_new(fixture->loop, fake->path, NULL, NULL);
	assert_non_null(client);
	struct log_follow_options options = options_of(fixture);
	options.offset = 7;
	fixture->log = log_follow_remote(client, 17, 1, false, true, &options, NULL);
	assert_non_null(fixture->log);
	fake_agent_until(fake, &fixture->ended);
	assert_int_equal(fixture->result, 0);
	assert_int_equal(fake->last_offset, 7);
	assert_int_equal(log_follow_offset(fixture->log), 12);
	drain(fixture);
	assert_int_equal(fixture->got_length, 5);
	assert_memory_equal(fixture->got, "world", 5);

	fixture->log = log_follow_free(fixture->log);
	fixture->ended = false;
	fake->refuse = WIRE_PERMISSION_DENIED;
	fixture->log = log_follow_remote(client, 17, 1, false, true, &options, NULL);
	assert_non_null(fixture->log);
	fake_agent_until(fake, &fixture->ended);
	assert_int_equal(fixture->result, -EACCES);

	fixture->log = log_follow_free(fixture->log);
	fixture->ended = false;
	fixture->log = log_follow_remote(client, 17, 1, false, true, &options, NULL);
	assert_non_null(fixture->log);
	fake_agent_stop(fake);
	fake_agent_until(fake, &fixture->ended);
	assert_int_equal(fixture->result, -ECONNRESET);
	(void)wire_client_free(client);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_every_byte_once, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_a_short_one_is_not_listened_to, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_from_an_offset, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_a_reader_that_goes, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_what_is_no_file, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_by_way_of_the_agent, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
