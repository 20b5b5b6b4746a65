/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "job/token.h"
#include "unit/unit.h"

#define UNIT "GPU-51ce51ce-0000-4000-8000-000000000001"

/* A private directory, and a private "simulated machine", so that tests can run side by side. */
struct fixture {
	char *directory;
	struct token_place place;
	struct note self;
};

static void fixture_new(struct fixture *fixture, bool with_directory)
{
	fixture->directory = unit_tmp_new();
	unit_write(unit_path(fixture->directory, "state"), "x");
	struct err err = {0};
	int result =
	    token_place_open(with_directory ? unit_path(fixture->directory, "run") : NULL,
			     unit_path(fixture->directory, "state"), &fixture->place, &err);
	if (result < 0)
		fail_msg("%s", err.text);
	fixture->self = (struct note){.pid = getpid(), .uid = getuid(), .since_s = 5};
	note_set_name(&fixture->self, "test");
}

static void fixture_free(struct fixture *fixture)
{
	token_place_close(&fixture->place);
	fixture->directory = unit_tmp_free(fixture->directory);
}

static int take(struct fixture *fixture, struct token *out)
{
	return token_take(&fixture->place, UNIT, 0, &fixture->self, out, NULL);
}

/* Waits until `fd` has hung up: the holder is gone. */
static void wait_for_hangup(int fd)
{
	struct pollfd wait = {.fd = fd, .events = POLLRDHUP};
	assert_int_equal(poll(&wait, 1, 10000), 1);
	assert_true(wait.revents & (POLLHUP | POLLRDHUP));
}

static void only_one_has_it(bool with_directory)
{
	struct fixture fixture;
	fixture_new(&fixture, with_directory);
	struct token first, second;
	assert_int_equal(take(&fixture, &first), 0);
	assert_true(first.socket_fd >= 0);
	assert_int_equal(first.lock_fd >= 0, with_directory);
	assert_int_equal(take(&fixture, &second), -EBUSY);

	struct token other_slot;
	assert_int_equal(token_take(&fixture.place, UNIT, 1, &fixture.self, &other_slot, NULL), 0);
	token_release(&other_slot);

	token_release(&first);
	assert_int_equal(take(&fixture, &second), 0);
	token_release(&second);
	fixture_free(&fixture);
}

static void one_holder_with_a_directory(void **state)
{
	only_one_has_it(true);
}

static void one_holder_with_sockets_alone(void **state)
{
	only_one_has_it(false);
}

static void the_socket_alone_keeps_others_out(void **state)
{
	struct fixture fixture, other;
	fixture_new(&fixture, true);
	fixture_new(&other, true);
	memcpy(other.place.machine, fixture.place.machine, sizeof(other.place.machine));
	struct token first, second;
	assert_int_equal(take(&fixture, &first), 0);
	assert_int_equal(take(&other, &second), -EBUSY); /* another directory, the same machine */
	token_release(&first);
	fixture_free(&other);
	fixture_free(&fixture);
}

static void the_lock_alone_keeps_others_out(void **state)
{
	struct fixture fixture;
	fixture_new(&fixture, true);
	struct token first, second;
	assert_int_equal(take(&fixture, &first), 0);
	/* Whoever cannot see the socket: here by another machine id, in life by another network
	 * namespace. */
	struct token_place place = fixture.place;
	memcpy(place.machine, "x", 2);
	assert_int_equal(token_take(&place, UNIT, 0, &fixture.self, &second, NULL), -EBUSY);

	struct note holder;
	assert_int_equal(token_read_lock(&place, UNIT, 0, &holder, NULL), 0);
	assert_int_equal(holder.pid, getpid());
	assert_string_equal(holder.name, "test");
	token_release(&first);
	assert_int_equal(token_take(&place, UNIT, 0, &fixture.self, &second, NULL), 0);
	token_release(&second);
	fixture_free(&fixture);
}

static void machines_with_equal_uuids_do_not_meet(void **state)
{
	struct fixture one, two;
	fixture_new(&one, true);
	fixture_new(&two, true);
	struct token first, second;
	assert_int_equal(take(&one, &first), 0);
	assert_int_equal(take(&two, &second), 0);
	token_release(&first);
	token_release(&second);
	fixture_free(&two);
	fixture_free(&one);
}

/* Starts a process that takes the token, starts `heirs` children which inherit it, tells us, and
 * waits to be killed. */
static pid_t holder_start(struct fixture *fixture, bool with_heir, pid_t *out_heir)
{
	int ready[2];
	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct token token;
		if (take(fixture, &token) < 0)
			_exit(1);
		pid_t heir = with_heir ? fork() : -1;
		if (heir != 0 && write(ready[1], &heir, sizeof(heir)) != sizeof(heir))
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], out_heir, sizeof(*out_heir)), sizeof(*out_heir));
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static void kill_and_wait(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void a_killed_holder_frees_it(void **state)
{
	struct fixture fixture;
	fixture_new(&fixture, true);
	pid_t heir;
	pid_t pid = holder_start(&fixture, false, &heir);
	struct token token;
	assert_int_equal(take(&fixture, &token), -EBUSY);

	struct note holder;
	int watch = token_watch(&fixture.place, UNIT, 0, &holder, NULL);
	assert_true(watch >= 0);
	assert_int_equal(holder.pid, pid);
	assert_int_equal(holder.uid, getuid());
	kill_and_wait(pid);
	wait_for_hangup(watch);
	assert_int_equal(take(&fixture, &token), 0);
	token_release(&token);
	close(watch);
	fixture_free(&fixture);
}

static void whoever_inherits_it_keeps_it(void **state)
{
	struct fixture fixture;
	fixture_new(&fixture, true);
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	pid_t heir;
	pid_t pid = holder_start(&fixture, true, &heir);
	struct note holder;
	int watch = token_watch(&fixture.place, UNIT, 0, &holder, NULL);
	assert_true(watch >= 0);
	kill_and_wait(pid);
	struct token token;
	assert_int_equal(take(&fixture, &token), -EBUSY);
	struct pollfd wait = {.fd = watch, .events = POLLRDHUP};
	assert_int_equal(poll(&wait, 1, 0), 0);

	kill_and_wait(heir);
	wait_for_hangup(watch);
	assert_int_equal(take(&fixture, &token), 0);
	token_release(&token);
	close(watch);
	fixture_free(&fixture);
}

static void what_is_no_unit_is_refused(void **state)
{
	struct fixture fixture;
	fixture_new(&fixture, true);
	struct token token;
	static const char *const bad[] = {
	    "",	       "../x",	"GPU 1",
	    "GPU-1\n", "GPU.1", "GPU-00000000000000000000000000000000000000000000000000000"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(token_take(&fixture.place, bad[i], 0, &fixture.self, &token, NULL),
				 -EINVAL);
	assert_int_equal(
	    token_take(&fixture.place, UNIT, TOKEN_SLOT_MAX + 1, &fixture.self, &token, NULL),
	    -EINVAL);
	/* The name of a MIG device before R470 has slashes. */
	assert_int_equal(token_take(&fixture.place,
				    "MIG-GPU-51ce51ce-0000-4000-8000-000000000001/1/0", 0,
				    &fixture.self, &token, NULL),
			 0);
	token_release(&token);
	fixture_free(&fixture);
}

static void a_directory_of_others_is_refused(void **state)
{
	char *directory = unit_tmp_new();
	struct token_place place;
	struct err err = {0};

	assert_int_equal(mkdir(unit_path(directory, "open"), 0777), 0);
	assert_int_equal(chmod(unit_path(directory, "open"), 0777), 0);
	assert_int_equal(token_place_open(unit_path(directory, "open"), NULL, &place, &err),
			 -EPERM);
	assert_non_null(strstr(err.text, "can be written by others"));

	assert_int_equal(mkdir(unit_path(directory, "real"), 0755), 0);
	assert_int_equal(symlink("real", unit_path(directory, "link")), 0);
	int result = token_place_open(unit_path(directory, "link"), NULL, &place, &err);
	assert_true(result == -ELOOP || result == -ENOTDIR);

	assert_int_equal(symlink("/tmp", unit_path(directory, "real/gpu")), 0);
	result = token_place_open(unit_path(directory, "real"), NULL, &place, &err);
	assert_true(result == -ELOOP || result == -ENOTDIR);

	if (geteuid() == 0) {
		assert_int_equal(mkdir(unit_path(directory, "theirs"), 0755), 0);
		assert_int_equal(chown(unit_path(directory, "theirs"), 65534, 65534), 0);
		assert_int_equal(
		    token_place_open(unit_path(directory, "theirs"), NULL, &place, &err), -EPERM);
		assert_non_null(strstr(err.text, "belongs to uid 65534"));
	} else {
		print_message("SKIPPED: a directory of another user needs root to be made\n");
	}
	unit_tmp_free(directory);
}

static void a_lock_file_that_is_none_is_refused(void **state)
{
	struct fixture fixture;
	fixture_new(&fixture, true);
	struct token token;
	const char *name = unit_path(fixture.directory, "run/gpu/" UNIT ".0");
	unit_write(unit_path(fixture.directory, "victim"), "precious");
	assert_int_equal(symlink("../../victim", name), 0);
	assert_int_equal(take(&fixture, &token), -ELOOP);
	assert_int_equal(unlink(name), 0);

	assert_int_equal(mkfifo(name, 0600), 0);
	assert_int_equal(take(&fixture, &token), -EPERM);
	assert_int_equal(unlink(name), 0);

	/* A refused lock must not leave the socket behind. */
	assert_int_equal(take(&fixture, &token), 0);
	token_release(&token);

	char text[16] = "";
	int fd = open(unit_path(fixture.directory, "victim"), O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(fd, text, sizeof(text) - 1), 8);
	assert_string_equal(text, "precious");
	close(fd);
	fixture_free(&fixture);
}

static void the_lock_file_stays(void **state)
{
	struct fixture fixture;
	fixture_new(&fixture, true);
	struct token token;
	struct stat before, after;
	const char *name = unit_path(fixture.directory, "run/gpu/" UNIT ".0");
	assert_int_equal(take(&fixture, &token), 0);
	assert_int_equal(stat(name, &before), 0);
	token_release(&token);
	assert_int_equal(take(&fixture, &token), 0);
	token_release(&token);
	assert_int_equal(stat(name, &after), 0);
	assert_int_equal(before.st_ino, after.st_ino);
	fixture_free(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_holder_with_a_directory),
	    cmocka_unit_test(one_holder_with_sockets_alone),
	    cmocka_unit_test(the_socket_alone_keeps_others_out),
	    cmocka_unit_test(the_lock_alone_keeps_others_out),
	    cmocka_unit_test(machines_with_equal_uuids_do_not_meet),
	    cmocka_unit_test(a_killed_holder_frees_it),
	    cmocka_unit_test(whoever_inherits_it_keeps_it),
	    cmocka_unit_test(what_is_no_unit_is_refused),
	    cmocka_unit_test(a_directory_of_others_is_refused),
	    cmocka_unit_test(a_lock_file_that_is_none_is_refused),
	    cmocka_unit_test(the_lock_file_stays),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
