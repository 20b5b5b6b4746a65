/* SPDX-License-Identifier: Apache-2.0 */
#include "job/desk.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "job/token.h"
#include "unit/unit.h"

#define UNIT "GPU-51ce51ce-0000-4000-8000-000000000001"

static char *directory;
static struct token_place place;
static struct token token;
static struct desk desk;

static int setup(void **state)
{
	directory = unit_tmp_new();
	unit_write(unit_path(directory, "state"), "x");
	assert_int_equal(token_place_open(NULL, unit_path(directory, "state"), &place, NULL), 0);
	struct note claim = {.pid = 1 /* a lie: the kernel knows better */, .since_s = 5};
	note_set_name(&claim, "test");
	assert_int_equal(token_take(&place, UNIT, 0, &claim, &token, NULL), 0);
	assert_int_equal(desk_init(&desk, &claim, NULL), 0);
	assert_int_equal(desk_open_at(&desk, token.socket_fd, NULL), 0);
	return 0;
}

static int teardown(void **state)
{
	desk_done(&desk);
	token_release(&token);
	token_place_close(&place);
	directory = unit_tmp_free(directory);
	return 0;
}

static int visit(struct note *holder)
{
	int fd = token_watch(&place, UNIT, 0, holder, NULL);
	assert_true(fd >= 0);
	return fd;
}

static void wait_for_hangup(int fd)
{
	struct pollfd wait = {.fd = fd, .events = POLLRDHUP};
	assert_int_equal(poll(&wait, 1, 10000), 1);
	assert_true(wait.revents & (POLLHUP | POLLRDHUP));
}

static void a_visitor_is_told_who_holds(void **state)
{
	struct note holder;
	int fd = visit(&holder);
	assert_int_equal(token_read_note(fd, 0, &holder, NULL), -ETIMEDOUT);
	struct pollfd ready = {.fd = desk_fd(&desk), .events = POLLIN};
	assert_int_equal(poll(&ready, 1, 0), 1);
	desk_serve(&desk);
	assert_int_equal(token_read_note(fd, 1000, &holder, NULL), 0);
	assert_string_equal(holder.name, "test");
	assert_int_equal(holder.since_s, 5);
	assert_int_equal(holder.pid, getpid());
	close(fd);
}

static void more_visitors_than_chairs_are_all_answered(void **state)
{
	int visitor[2 * DESK_VISITOR_MAX];
	struct note holder;
	for (int i = 0; i < 2 * DESK_VISITOR_MAX; i++) {
		visitor[i] = visit(&holder);
		desk_serve(&desk);
		assert_int_equal(token_read_note(visitor[i], 1000, &holder, NULL), 0);
	}
	wait_for_hangup(visitor[0]); /* the oldest had to leave, and would come again */
	for (int i = 0; i < 2 * DESK_VISITOR_MAX; i++)
		close(visitor[i]);
}

static void visitors_that_leave_cost_nothing(void **state)
{
	struct note holder;
	int stays = visit(&holder);
	desk_serve(&desk);
	for (int i = 0; i < 4 * DESK_VISITOR_MAX; i++) {
		int fd = visit(&holder);
		desk_serve(&desk);
		close(fd);
		desk_serve(&desk);
	}
	struct pollfd still = {.fd = stays, .events = POLLRDHUP};
	assert_int_equal(poll(&still, 1, 0), 0); /* nobody took its chair */
	struct pollfd idle = {.fd = desk_fd(&desk), .events = POLLIN};
	assert_int_equal(poll(&idle, 1, 0), 0); /* and nothing is left to do */
	close(stays);
}

static void the_end_of_the_holder_is_heard(void **state)
{
	struct note holder;
	int seated = visit(&holder);
	desk_serve(&desk);
	int queued = visit(&holder); /* nobody answers this one any more */
	desk_done(&desk);
	token_release(&token);
	wait_for_hangup(seated);
	wait_for_hangup(queued);
	close(seated);
	close(queued);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(a_visitor_is_told_who_holds),
	    TEST(more_visitors_than_chairs_are_all_answered),
	    TEST(visitors_that_leave_cost_nothing),
	    TEST(the_end_of_the_holder_is_heard),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
