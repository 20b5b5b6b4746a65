/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

enum { DEADLINE_S = 20 };

/* What happened, in order: one letter each. */
static char trace[64];

static void note(char letter)
{
	size_t length = strlen(trace);
	assert_true(length + 1 < sizeof(trace));
	trace[length] = letter;
	trace[length + 1] = '\0';
}

/* A callback's context that stands for a letter. */
static void *letter(char which)
{
	return (void *)(intptr_t)which;
}

static void on_letter(void *context)
{
	note((char)(intptr_t)context);
}

static int setup(void **state)
{
	memset(trace, 0, sizeof(trace));
	*state = loop_new(LOOP_FAKE, NULL);
	return *state ? 0 : -1;
}

static int setup_real(void **state)
{
	memset(trace, 0, sizeof(trace));
	*state = loop_new(LOOP_REAL, NULL);
	return *state ? 0 : -1;
}

static int teardown(void **state)
{
	*state = loop_free(*state);
	return 0;
}

/* Passes until the trace has `length` letters. */
static void run_until(struct loop *loop, size_t length)
{
	uint64_t deadline = unit_now_ns() + DEADLINE_S * CLOCK_NS_PER_S;
	while (strlen(trace) < length && unit_now_ns() < deadline)
		assert_int_equal(loop_pass(loop, CLOCK_NS_PER_S, NULL), 0);
	assert_int_equal(strlen(trace), length);
}

static void test_timers_fire_in_order_and_at_their_time(void **state)
{
	struct loop *loop = *state;
	struct loop_timer *timers[26];
	/* started from last to first, two of them for the same time */
	for (int i = 25; i >= 0; i--) {
		timers[i] = loop_timer_new(loop, on_letter, letter((char)('a' + i)), NULL);
		assert_non_null(timers[i]);
		loop_timer_start(timers[i], (uint64_t)(i == 7 ? 6 : i) * 10);
	}
	uint64_t start = loop_now_ns(loop);
	assert_int_equal(loop_advance(loop, 0, NULL), 0);
	assert_string_equal(trace, "a");
	assert_int_equal(loop_advance(loop, 49, NULL), 0);
	assert_string_equal(trace, "abcde");
	assert_int_equal(loop_now_ns(loop), start + 49);
	loop_timer_stop(timers[9]);
	assert_false(loop_timer_is_running(timers[9]));
	loop_timer_start(timers[10], 1000);
	assert_int_equal(loop_advance(loop, 61, NULL), 0);
	assert_string_equal(trace, "abcdefhgil"); /* h was started before g */
	assert_true(loop_timer_is_running(timers[10]));
	for (int i = 0; i < 26; i++)
		timers[i] = loop_timer_free(timers[i]);
	assert_int_equal(loop_advance(loop, 10000, NULL), 0);
	assert_string_equal(trace, "abcdefhgil");
}

struct ticker {
	struct loop_timer *timer;
	struct loop *loop;
	uint64_t times[5];
	unsigned count;
};

static void on_tick(void *context)
{
	struct ticker *ticker = context;
	ticker->times[ticker->count++] = loop_now_ns(ticker->loop);
	if (ticker->count < 4)
		loop_timer_start(ticker->timer, 100);
	else
		ticker->timer = loop_timer_free(ticker->timer); /* inside its own callback */
}

static void test_restarting_inside_the_callback(void **state)
{
	struct ticker ticker = {.loop = *state};
	uint64_t start = loop_now_ns(*state);
	ticker.timer = loop_timer_new(*state, on_tick, &ticker, NULL);
	assert_non_null(ticker.timer);
	loop_timer_start(ticker.timer, 100);
	assert_int_equal(loop_advance(*state, 1000, NULL), 0);
	assert_int_equal(ticker.count, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(ticker.times[i], start + 100 * (i + 1));
}

static void on_again(void *context)
{
	struct ticker *ticker = context;
	ticker->count++;
	loop_timer_start(ticker->timer, 0);
}

static void test_a_timer_for_now_does_not_starve_the_loop(void **state)
{
	struct loop *loop = loop_new(LOOP_REAL, NULL);
	assert_non_null(loop);
	struct ticker ticker = {.loop = loop};
	ticker.timer = loop_timer_new(loop, on_again, &ticker, NULL);
	assert_non_null(ticker.timer);
	loop_timer_start(ticker.timer, 0);
	assert_int_equal(loop_pass(loop, CLOCK_NS_PER_S, NULL), 0);
	assert_int_equal(ticker.count, 1);
	ticker.timer = loop_timer_free(ticker.timer);
	loop = loop_free(loop);
}

static void on_stop(void *context)
{
	note('s');
	loop_stop(context);
}

static void test_real_timers_are_not_early(void **state)
{
	uint64_t start = unit_now_ns();
	struct loop_timer *timer = loop_timer_new(*state, on_stop, *state, NULL);
	assert_non_null(timer);
	struct loop_timer *never = loop_timer_new(*state, on_letter, letter('n'), NULL);
	assert_non_null(never);
	loop_timer_start(timer, 3 * CLOCK_NS_PER_MS);
	loop_timer_start(never, UINT64_MAX);
	assert_int_equal(loop_run(*state, NULL), 0);
	assert_true(unit_now_ns() - start >= 3 * CLOCK_NS_PER_MS);
	assert_string_equal(trace, "s");
	timer = loop_timer_free(timer);
	never = loop_timer_free(never);
}

static void on_fd(int fd, unsigned events, void *context)
{
	char byte;
	if (events & LOOP_READ) {
		ssize_t count = read(fd, &byte, 1);
		note(count == 1 ? 'r' : 'e'); /* e: hang-up */
		if (count <= 0)
			*(struct loop_fd **)context = loop_fd_free(*(struct loop_fd **)context);
	}
	if (events & LOOP_WRITE)
		note('w');
}

static void test_descriptors(void **state)
{
	int ends[2];
	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	struct loop_fd *in = NULL, *out = NULL;
	in = loop_fd_new(*state, ends[0], LOOP_READ, on_fd, &in, NULL);
	assert_non_null(in);
	assert_int_equal(loop_pass(*state, 0, NULL), 0);
	assert_string_equal(trace, "");
	assert_int_equal(write(ends[1], "xy", 2), 2);
	run_until(*state, 2);
	assert_string_equal(trace, "rr");

	out = loop_fd_new(*state, ends[1], LOOP_WRITE, on_fd, &out, NULL);
	assert_non_null(out);
	run_until(*state, 3);
	assert_int_equal(loop_fd_watch(out, 0, NULL), 0);
	assert_int_equal(loop_pass(*state, 0, NULL), 0);
	assert_string_equal(trace, "rrw");
	assert_int_equal(loop_fd_watch(out, LOOP_WRITE, NULL), 0);
	run_until(*state, 4);
	out = loop_fd_free(out);
	(void)close(ends[1]);
	run_until(*state, 5);
	assert_string_equal(trace, "rrwwe");
	assert_null(in);
	(void)close(ends[0]);
}

static void test_regular_files_are_refused(void **state)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct err err = {0};
	assert_null(loop_fd_new(*state, fd, LOOP_READ, on_fd, NULL, &err));
	assert_int_equal(err.code, -EPERM);
	(void)close(fd);
}

/* Two descriptors ready in the same pass; the callback of one frees the other and itself. */
static struct loop_fd *pair[2];

static void on_pair(int fd, unsigned events, void *context)
{
	note('p');
	pair[0] = loop_fd_free(pair[0]);
	pair[1] = loop_fd_free(pair[1]);
}

static void test_freeing_another_in_the_same_pass(void **state)
{
	int ends[2][2];
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pipe2(ends[i], O_CLOEXEC), 0);
		assert_int_equal(write(ends[i][1], "x", 1), 1);
		pair[i] = loop_fd_new(*state, ends[i][0], LOOP_READ, on_pair, NULL, NULL);
		assert_non_null(pair[i]);
	}
	assert_int_equal(loop_pass(*state, CLOCK_NS_PER_S, NULL), 0);
	assert_int_equal(loop_pass(*state, 0, NULL), 0);
	assert_string_equal(trace, "p");
	for (int i = 0; i < 2; i++) {
		(void)close(ends[i][0]);
		(void)close(ends[i][1]);
	}
}

static void test_signals(void **state)
{
	struct loop_signal *watch = loop_signal_new(*state, SIGUSR1, on_letter, letter('u'), NULL);
	assert_non_null(watch);
	assert_int_equal(raise(SIGUSR1), 0);
	run_until(*state, 1);
	watch = loop_signal_free(watch);
	assert_string_equal(trace, "u");
}

enum { POSTERS = 4, POSTS = 500 };

struct poster {
	struct loop *loop;
	struct loop_task tasks[POSTS];
	unsigned seen; /* loop thread only */
};

struct posted {
	struct poster *poster;
	unsigned number;
};

static struct posted posted[POSTERS][POSTS];

static void on_posted(void *context)
{
	struct posted *item = context;
	assert_int_equal(item->poster->seen, item->number); /* in order */
	item->poster->seen++;
}

static void *post_all(void *context)
{
	struct posted *items = context;
	struct poster *poster = items[0].poster;
	for (unsigned i = 0; i < POSTS; i++)
		loop_post(poster->loop, &poster->tasks[i], on_posted, &items[i]);
	return NULL;
}

static void test_posting_from_threads(void **state)
{
	static struct poster posters[POSTERS];
	pthread_t threads[POSTERS];
	memset(posters, 0, sizeof(posters));
	for (unsigned i = 0; i < POSTERS; i++) {
		posters[i].loop = *state;
		for (unsigned j = 0; j < POSTS; j++)
			posted[i][j] = (struct posted){&posters[i], j};
		assert_int_equal(pthread_create(&threads[i], NULL, post_all, posted[i]), 0);
	}
	uint64_t deadline = unit_now_ns() + DEADLINE_S * CLOCK_NS_PER_S;
	unsigned seen = 0;
	while (seen < POSTERS * POSTS && unit_now_ns() < deadline) {
		assert_int_equal(loop_pass(*state, CLOCK_NS_PER_S, NULL), 0);
		seen = 0;
		for (unsigned i = 0; i < POSTERS; i++)
			seen += posters[i].seen;
	}
	assert_int_equal(seen, POSTERS * POSTS);
	for (unsigned i = 0; i < POSTERS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static void test_tasks_once_in_order_and_cancelled(void **state)
{
	struct loop_task a = {0}, b = {0}, c = {0}, d = {0};
	loop_post(*state, &a, on_letter, letter('a'));
	loop_post(*state, &b, on_letter, letter('b'));
	loop_post(*state, &a, on_letter, letter('a'));
	loop_post(*state, &c, on_letter, letter('c'));
	loop_defer(*state, &d, on_letter, letter('d'));
	loop_cancel(*state, &c);
	loop_cancel(*state, &c);
	assert_int_equal(loop_pass(*state, CLOCK_NS_PER_S, NULL), 0);
	assert_string_equal(trace, "abd"); /* deferred: after everything else of the pass */
	loop_post(*state, &a, on_letter, letter('a'));
	assert_int_equal(loop_pass(*state, CLOCK_NS_PER_S, NULL), 0);
	assert_string_equal(trace, "abda");
	loop_defer(*state, &d, on_letter, letter('d'));
	loop_cancel(*state, &d);
	assert_int_equal(loop_pass(*state, 0, NULL), 0);
	assert_string_equal(trace, "abda");
	loop_defer(*state, &d, on_letter, letter('d'));
	*state = loop_free(*state); /* deferred frees are not lost */
	assert_string_equal(trace, "abdad");
}

static void test_a_pass_ends_at_its_limit(void **state)
{
	uint64_t start = unit_now_ns();
	assert_int_equal(loop_pass(*state, 2 * CLOCK_NS_PER_MS, NULL), 0);
	assert_true(unit_now_ns() - start >= CLOCK_NS_PER_MS);
}

static int use_loop(void *context)
{
	struct err err = {0};
	struct loop *loop = loop_new(LOOP_REAL, &err);
	struct loop_timer *timers[20] = {NULL};
	struct loop_fd *watch = NULL;
	struct loop_signal *signal = NULL;
	if (!loop)
		return err.code;
	for (int i = 0; i < 20 && err.code == 0; i++) {
		timers[i] = loop_timer_new(loop, on_stop, loop, &err);
		if (timers[i])
			loop_timer_start(timers[i], 0);
	}
	if (err.code == 0)
		watch = loop_fd_new(loop, *(int *)context, LOOP_READ, on_fd, NULL, &err);
	if (err.code == 0)
		signal = loop_signal_new(loop, SIGUSR2, on_stop, loop, &err);
	if (err.code == 0)
		(void)loop_pass(loop, 0, &err);
	for (int i = 0; i < 20; i++)
		timers[i] = loop_timer_free(timers[i]);
	watch = loop_fd_free(watch);
	signal = loop_signal_free(signal);
	loop = loop_free(loop);
	trace[0] = '\0';
	return err.code;
}

static void test_out_of_memory(void **state)
{
	int ends[2];
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_true(failmalloc_each(use_loop, &ends[0]) > 25);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

int main(void)
{
#define TEST(name)	cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_REAL(name) cmocka_unit_test_setup_teardown(name, setup_real, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_timers_fire_in_order_and_at_their_time),
	    TEST(test_restarting_inside_the_callback),
	    TEST(test_a_timer_for_now_does_not_starve_the_loop),
	    TEST_REAL(test_real_timers_are_not_early),
	    TEST(test_descriptors),
	    TEST(test_regular_files_are_refused),
	    TEST(test_freeing_another_in_the_same_pass),
	    TEST(test_signals),
	    TEST(test_posting_from_threads),
	    TEST(test_tasks_once_in_order_and_cancelled),
	    TEST(test_a_pass_ends_at_its_limit),
	    TEST(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
