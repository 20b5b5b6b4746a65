/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "libexec/supervise/agents.h"
#include "unit/unit.h"

struct desk_of_test {
	char *tmp;
	int directory;
	struct agents agents;
	int heard;
	struct control_message last;
};

static void begin(struct desk_of_test *self)
{
	*self = (struct desk_of_test){.tmp = unit_tmp_new()};
	self->directory = open(self->tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd = control_listen(self->directory, NULL);
	assert_true(fd >= 0);
	agents_init(&self->agents, fd);
}

static void end(struct desk_of_test *self)
{
	agents_done(&self->agents);
	(void)close(self->directory);
	(void)unit_tmp_free(self->tmp);
}

static void hear(const struct control_message *message, void *context)
{
	struct desk_of_test *self = context;
	self->heard++;
	self->last = *message;
	agents_say(&self->agents, CONTROL_STUCK, self->heard, 0, NULL);
}

static void serve(struct desk_of_test *self)
{
	struct pollfd wait[AGENTS_POLL_MAX];
	agents_poll(&self->agents, wait);
	if (poll(wait, AGENTS_POLL_MAX, 0) > 0)
		agents_serve(&self->agents, wait, hear, self);
}

static int connect_one(struct desk_of_test *self)
{
	int fd = control_connect(self->directory, NULL);
	assert_true(fd >= 0);
	serve(self);
	return fd;
}

/* The kind of the next message; 0: none now, -1: the end. */
static int next_kind(int fd, struct control_message *out)
{
	char packet[CONTROL_PACKET_MAX];
	ssize_t length = recv(fd, packet, sizeof(packet), MSG_DONTWAIT);
	if (length < 0)
		return errno == EAGAIN ? 0 : -1;
	if (length == 0)
		return -1;
	assert_int_equal(control_parse(packet, (size_t)length, out, NULL), 0);
	return (int)out->kind;
}

static void what_is_true_is_told_in_order(void **state)
{
	struct desk_of_test self;
	struct control_message message;
	begin(&self);
	agents_say(&self.agents, CONTROL_STARTED, 7, 8, NULL);
	agents_say(&self.agents, CONTROL_HELLO, 5, 0, "env");
	agents_say(&self.agents, CONTROL_LEFTOVERS, 3, 0, NULL);
	agents_unsay(&self.agents, CONTROL_LEFTOVERS);
	_cleanup_close_ int fd = connect_one(&self);
	assert_int_equal(next_kind(fd, &message), CONTROL_HELLO);
	assert_string_equal(message.text, "env");
	assert_int_equal(next_kind(fd, &message), CONTROL_STARTED);
	assert_true(message.value == 7 && message.extra == 8);
	assert_int_equal(next_kind(fd, &message), 0);
	agents_say(&self.agents, CONTROL_ENDED, 0, 0, NULL);
	assert_int_equal(next_kind(fd, &message), CONTROL_ENDED);
	end(&self);
	assert_int_equal(next_kind(fd, &message), -1);
}

static void messages_are_heard(void **state)
{
	struct desk_of_test self;
	struct control_message message = {
	    .version = CONTROL_VERSION, .kind = CONTROL_CANCEL, .value = 15, .extra = 9};
	char packet[CONTROL_PACKET_MAX];
	size_t length = control_format(&message, packet);
	begin(&self);
	_cleanup_close_ int fd = connect_one(&self);
	assert_int_equal(send(fd, packet, length, 0), length);
	assert_int_equal(send(fd, packet, length, 0), length);
	serve(&self);
	assert_int_equal(self.heard, 2);
	assert_true(self.last.value == 15 && self.last.extra == 9);
	/* One that goes away is no event. */
	(void)close(take_fd(&fd));
	serve(&self);
	assert_int_equal(agents_count(&self.agents), 0);
	assert_int_equal(self.heard, 2);
	end(&self);
}

static void who_does_not_read_is_dropped(void **state)
{
	struct desk_of_test self;
	struct control_message message;
	begin(&self);
	_cleanup_close_ int deaf = connect_one(&self);
	int said = 0;
	while (agents_count(&self.agents) > 0) {
		agents_say(&self.agents, CONTROL_STUCK, ++said, 0, NULL);
		assert_true(said < 100000);
	}
	/* It may read what it got, and is told the truth when it comes again. */
	assert_int_equal(next_kind(deaf, &message), CONTROL_STUCK);
	_cleanup_close_ int again = connect_one(&self);
	assert_int_equal(next_kind(again, &message), CONTROL_STUCK);
	assert_int_equal(message.value, said);
	end(&self);
}

static void what_a_supervisor_says_is_not_heard_from_an_agent(void **state)
{
	struct desk_of_test self;
	struct control_message message = {.version = CONTROL_VERSION, .kind = CONTROL_HELLO};
	char packet[CONTROL_PACKET_MAX];
	size_t length = control_format(&message, packet);
	begin(&self);
	_cleanup_close_ int fd = connect_one(&self);
	assert_int_equal(send(fd, packet, length, 0), length);
	serve(&self);
	assert_int_equal(self.heard, 0);
	assert_int_equal(next_kind(fd, &message), -1);
	end(&self);
}

static void other_users_are_not_let_in(void **state)
{
	struct desk_of_test self;
	if (geteuid() != 0) {
		print_message("skipped: needs root\n");
		skip();
	}
	begin(&self);
	agents_say(&self.agents, CONTROL_HELLO, 1, 0, NULL);
	/* As if somebody had opened the door to all. */
	assert_int_equal(fchmodat(self.directory, "control", 0666, 0), 0);
	assert_int_equal(fchmod(self.directory, 0777), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (setresuid(65534, 65534, 65534) < 0)
			_exit(9);
		int fd = control_connect(self.directory, NULL);
		char byte;
		struct pollfd wait = {.fd = fd, .events = POLLIN};
		if (fd < 0 || poll(&wait, 1, 10000) != 1)
			_exit(8);
		_exit(recv(fd, &byte, 1, 0) == 0 ? 0 : 7);
	}
	int status;
	uint64_t end_ns = unit_now_ns() + UINT64_C(10000000000);
	while (waitpid(pid, &status, WNOHANG) == 0) {
		serve(&self);
		assert_true(unit_now_ns() < end_ns);
	}
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(agents_count(&self.agents), 0);
	end(&self);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_true_is_told_in_order),
	    cmocka_unit_test(messages_are_heard),
	    cmocka_unit_test(who_does_not_read_is_dropped),
	    cmocka_unit_test(what_a_supervisor_says_is_not_heard_from_an_agent),
	    cmocka_unit_test(other_users_are_not_let_in),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
