/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/rshserver.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "unit/unit.h"

struct rig {
	struct rshserver *server;
	char name[64];
	bool is_ours;
	size_t asked, gone, call;
	struct packet packet;
	char host[64];
	int out_fd; /* a copy of the second descriptor; -1 */
	pid_t peer;
};

static bool is_ours(void *context, pid_t pid)
{
	struct rig *rig = context;
	rig->peer = pid;
	return rig->is_ours;
}

static void asked(void *context, size_t call, const struct packet *packet, const int *fds,
		  pid_t peer)
{
	struct rig *rig = context;
	rig->asked++;
	rig->call = call;
	rig->packet = *packet;
	(void)snprintf(rig->host, sizeof(rig->host), "%s", packet->host);
	rig->out_fd = fds ? dup(fds[1]) : -1;
	assert_int_equal(peer, getpid());
}

static void gone(void *context, size_t call)
{
	struct rig *rig = context;
	rig->gone++;
	assert_int_equal(call, rig->call);
}

static void start(struct rig *rig, uid_t uid)
{
	struct err err;
	*rig = (struct rig){.is_ours = true, .out_fd = -1};
	(void)snprintf(rig->name, sizeof(rig->name), "sluice/test/rsh/%d", (int)getpid());
	const struct rshserver_options options = {.name = rig->name,
						  .uid = uid,
						  .is_ours = is_ours,
						  .asked = asked,
						  .gone = gone,
						  .context = rig};
	assert_int_equal(rshserver_new(&options, &rig->server, &err), 0);
}

static int connect_to(const struct rig *rig)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t length = strlen(rig->name);
	memcpy(address.sun_path + 1, rig->name, length);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address,
				 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)),
			 0);
	return fd;
}

static void send_packet(int fd, const char *bytes, size_t length, const int *fds, size_t count)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(4 * sizeof(int))];
	} control;
	memset(&control, 0, sizeof(control));
	struct iovec vector = {.iov_base = (char *)bytes, .iov_len = length};
	struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
	if (count > 0) {
		control.head.cmsg_len = CMSG_LEN(count * sizeof(int));
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		memcpy(CMSG_DATA(&control.head), fds, count * sizeof(int));
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
	}
	assert_int_equal(sendmsg(fd, &message, MSG_NOSIGNAL), (ssize_t)length);
}

static void ask(int fd, const struct packet *packet, size_t count)
{
	static char bytes[PACKET_MAX];
	const int fds[] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, STDERR_FILENO};
	send_packet(fd, bytes, packet_format(packet, bytes, sizeof(bytes)), fds, count);
}

/* Serves until nothing comes any more. */
static void serve(struct rig *rig)
{
	struct pollfd wait = {.fd = rshserver_fd(rig->server), .events = POLLIN};
	while (poll(&wait, 1, 0) == 1)
		rshserver_serve(rig->server);
}

static bool is_closed(int fd)
{
	char byte;
	ssize_t length = recv(fd, &byte, 1, MSG_DONTWAIT);
	return length == 0 || (length < 0 && errno == ECONNRESET);
}

static const struct packet command = {.kind = PACKET_RUN, .host = "w-1", .text = "ls"};

static void a_question_and_its_answer(void **state)
{
	struct rig rig;
	char bytes[PACKET_ANSWER_MAX];
	struct packet answer;
	start(&rig, getuid());
	int fd = connect_to(&rig);
	ask(fd, &command, 3);
	serve(&rig);
	assert_int_equal(rig.asked, 1);
	assert_string_equal(rig.host, "w-1");
	assert_true(rig.out_fd >= 0);
	(void)close(rig.out_fd);
	rshserver_answer(rig.server, rig.call, &(struct packet){.kind = PACKET_ENDED, .value = 7});
	ssize_t length = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	assert_true(length > 0 && packet_parse(bytes, (size_t)length, &answer));
	assert_int_equal(answer.kind, PACKET_ENDED);
	assert_int_equal(answer.value, 7);
	assert_true(is_closed(fd));
	(void)close(fd);
	serve(&rig);
	assert_int_equal(rig.gone, 0);
	rig.server = rshserver_free(rig.server);
}

static void who_is_not_of_the_job_is_not_heard(void **state)
{
	struct rig rig;
	start(&rig, getuid());
	rig.is_ours = false;
	int fd = connect_to(&rig);
	serve(&rig);
	assert_int_equal(rig.peer, getpid());
	assert_true(is_closed(fd));
	(void)close(fd);
	rig.server = rshserver_free(rig.server);
	start(&rig, getuid() + 1); /* another user */
	fd = connect_to(&rig);
	serve(&rig);
	assert_int_equal(rig.peer, 0); /* not even looked at */
	assert_true(is_closed(fd));
	(void)close(fd);
	rig.server = rshserver_free(rig.server);
}

/* Who connects, hands the connection on and ends: its number is a stranger's when the question
 * comes, and the stranger is not moved into the job. */
static void a_number_that_was_given_on_is_not_touched(void **state)
{
	struct rig rig;
	const struct packet enter = {.kind = PACKET_ENTER, .value = 1};
	start(&rig, getuid());
	int fd = connect_to(&rig);
	serve(&rig);
	rig.is_ours = false;
	ask(fd, &enter, 0);
	serve(&rig);
	assert_int_equal(rig.asked, 0);
	assert_true(is_closed(fd));
	(void)close(fd);
	rig.is_ours = true;
	fd = connect_to(&rig);
	ask(fd, &enter, 0);
	serve(&rig);
	assert_int_equal(rig.asked, 1);
	(void)close(fd);
	rig.server = rshserver_free(rig.server);
}

static void nonsense_is_dropped(void **state)
{
	struct rig rig;
	start(&rig, getuid());
	for (int i = 0; i < 4; i++) {
		int fd = connect_to(&rig);
		if (i == 0)
			send_packet(fd, "garbage", 7, NULL, 0);
		else if (i == 1)
			ask(fd, &command, 2); /* a descriptor is missing */
		else if (i == 2)
			ask(fd, &command, 4); /* one too many */
		else
			ask(fd, &(struct packet){.kind = PACKET_ENDED}, 3);
		serve(&rig);
		assert_true(is_closed(fd));
		(void)close(fd);
	}
	assert_int_equal(rig.asked, 0);
	assert_int_equal(rig.gone, 0);
	rig.server = rshserver_free(rig.server);
}

static void who_goes_away_is_told_of_once(void **state)
{
	struct rig rig;
	start(&rig, getuid());
	int fd = connect_to(&rig);
	ask(fd, &command, 3);
	serve(&rig);
	(void)close(rig.out_fd);
	(void)close(fd);
	serve(&rig);
	assert_int_equal(rig.gone, 1);
	/* Too late. */
	rshserver_answer(rig.server, rig.call, &(struct packet){.kind = PACKET_ENDED});
	serve(&rig);
	assert_int_equal(rig.gone, 1);
	rig.server = rshserver_free(rig.server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_question_and_its_answer),
	    cmocka_unit_test(who_is_not_of_the_job_is_not_heard),
	    cmocka_unit_test(a_number_that_was_given_on_is_not_touched),
	    cmocka_unit_test(nonsense_is_dropped),
	    cmocka_unit_test(who_goes_away_is_told_of_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
