/* SPDX-License-Identifier: Apache-2.0 */
/* A job's terminal through its supervisor, the real program. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "job/attach.h"
#include "unit/libexec/supervise/rig.h"
#include "unit/unit.h"

enum { PATIENCE_MS = 10000 };

static int visit(struct rig *rig)
{
	uint64_t until_ns = unit_now_ns() + UINT64_C(20000000000);
	int fd;
	/* Its supervisor is heard of before the terminal is there. */
	while ((fd = attach_connect(rig->job_fd, NULL)) < 0)
		assert_true(unit_now_ns() < until_ns);
	return fd;
}

static void type(int fd, const char *text)
{
	char packet[ATTACH_PACKET_MAX];
	size_t length = attach_format(
	    &(struct attach_message){.kind = ATTACH_DATA, .data = text, .length = strlen(text)},
	    packet);
	assert_int_equal(send(fd, packet, length, MSG_NOSIGNAL), length);
}

static void resize(int fd, uint16_t rows, uint16_t columns)
{
	char packet[ATTACH_PACKET_MAX];
	size_t length = attach_format(
	    &(struct attach_message){.kind = ATTACH_SIZE, .rows = rows, .columns = columns},
	    packet);
	assert_int_equal(send(fd, packet, length, MSG_NOSIGNAL), length);
}

/* Reads until `text` was shown; -1 for its end: until it hangs up. */
static void expect(int fd, const char *text)
{
	static char shown[1 << 20];
	size_t used = 0;
	for (;;) {
		struct pollfd wait = {.fd = fd, .events = POLLIN};
		char packet[ATTACH_PACKET_MAX];
		assert_int_equal(poll(&wait, 1, PATIENCE_MS), 1);
		ssize_t length = recv(fd, packet, sizeof(packet), MSG_DONTWAIT);
		if (length <= 0) {
			if (text)
				fail_msg("hung up without '%s' but with '%s'", text, shown);
			return;
		}
		assert_int_equal(packet[0], ATTACH_DATA);
		assert_true(used + (size_t)length < sizeof(shown));
		memcpy(shown + used, packet + 1, (size_t)length - 1);
		used += (size_t)length - 1;
		shown[used] = '\0';
		if (text && strstr(shown, text))
			return;
	}
}

static void it_is_the_jobs_terminal(void **state)
{
	struct rig *rig = *state;
	rig->launch.spec.pty = true;
	rig_run(rig, "test -t 0 && test -t 1 && test -t 2 && echo here > /dev/tty; stty size;"
		     "read line; echo \"got $line\"; echo oops >&2; exit 3");
	int fd = visit(rig);
	expect(fd, "here\r\n24 80\r\n");
	type(fd, "words\r");
	expect(fd, "got words\r\noops\r\n");
	expect(fd, NULL);
	(void)close(fd);
	assert_int_equal(rig_finish(rig).value, 3);
	assert_string_equal(rig_output(rig), "here\r\n24 80\r\nwords\r\ngot words\r\noops\r\n");
	assert_int_equal(attach_connect(rig->job_fd, NULL), -ENOENT);
}

static void its_size_is_the_last_visitors(void **state)
{
	struct rig *rig = *state;
	rig->launch.spec.pty = true;
	rig_run(rig, "trap 'stty size' WINCH; echo ready; while :; do sleep 0.01; done");
	int first = visit(rig), second = visit(rig);
	expect(first, "ready");
	resize(first, 50, 132);
	expect(first, "50 132");
	resize(second, 10, 40);
	expect(first, "10 40");
	expect(second, "10 40"); /* all see the same */
	type(second, "\003");
	assert_int_equal(rig_finish(rig).value, SIGINT);
	(void)close(first);
	(void)close(second);
}

static void nobody_need_sit_there(void **state)
{
	struct rig *rig = *state;
	rig->launch.spec.pty = true;
	rig->launch.log_bytes = 1000;
	rig_run(rig, "echo begin; seq 1 200000; touch $1/done; read line; echo end $line");
	int fd = visit(rig);
	expect(fd, "begin");
	(void)close(fd); /* the terminal was closed, or its program killed */
	uint64_t until_ns = unit_now_ns() + UINT64_C(20000000000);
	while (access(unit_path(rig->tmp, "done"), F_OK) != 0)
		assert_true(unit_now_ns() < until_ns);
	fd = visit(rig);     /* and he comes back */
	expect(fd, "begin"); /* what was before */
	type(fd, "well\r");
	expect(fd, "end well");
	(void)close(fd);
	struct jobdir_result result = rig_finish(rig);
	assert_int_equal(result.value, 0);
	assert_int_equal(result.lost, JOBDIR_LOST_CUT);
	assert_null(strstr(rig_output(rig), "was dropped"));
}

static void one_who_does_not_read_is_sent_away(void **state)
{
	struct rig *rig = *state;
	rig->launch.spec.pty = true;
	rig->launch.log_bytes = 1000;
	rig_run(rig, "seq 1 1000000; exit 5");
	int fd = visit(rig);
	/* It takes TERMINAL_PATIENCE_NS, and the job's end does not need him. */
	assert_int_equal(rig_finish(rig).value, 5);
	(void)close(fd);
}

static void too_many_visitors(void **state)
{
	struct rig *rig = *state;
	int fds[6];
	rig->launch.spec.pty = true;
	rig_run(rig, "echo ready; read line; echo $line");
	for (int i = 0; i < 6; i++) {
		fds[i] = visit(rig);
		expect(fds[i], "ready");
	}
	expect(fds[0], NULL); /* the oldest had to go */
	expect(fds[1], NULL);
	type(fds[5], "x");
	(void)send(fds[4], "garbage", 7, MSG_NOSIGNAL);
	expect(fds[4], NULL);
	type(fds[5], "y\r");
	expect(fds[3], "xy\r\nxy\r\n");
	for (int i = 0; i < 6; i++)
		(void)close(fds[i]);
	assert_int_equal(rig_finish(rig).value, 0);
}

static void read_file(const char *path, char *out, size_t size)
{
	FILE *file = fopen(path, "re");
	assert_non_null(file);
	size_t length = fread(out, 1, size - 1, file);
	out[length] = '\0';
	assert_int_equal(fclose(file), 0);
}

static void it_has_a_copy_too(void **state)
{
	struct rig *rig = *state;
	char text[64], path[4096];
	(void)snprintf(path, sizeof(path), "%s", unit_path(rig->tmp, "copy"));
	rig->launch.spec.pty = true;
	(void)snprintf(rig->launch.spec.output, sizeof(rig->launch.spec.output), "%s", path);
	rig->launch.spec.grace_ns = UINT64_C(30000000000);
	uint64_t begin_ns = unit_now_ns();
	rig_run(rig, "echo one; echo two");
	assert_int_equal(rig_finish(rig).value, 0);
	/* Its end waits for no grace time. */
	assert_true(unit_now_ns() - begin_ns < UINT64_C(15000000000));
	read_file(path, text, sizeof(text));
	assert_string_equal(text, "one\r\ntwo\r\n");
}

static void a_job_that_closes_it_goes_on(void **state)
{
	struct rig *rig = *state;
	rig->launch.spec.pty = true;
	rig_run(rig, "echo one; exec >/dev/null 2>&1 </dev/null; sleep 1.5; (echo two) >/dev/tty;"
		     "exit 4");
	struct jobdir_result result = rig_finish(rig);
	assert_int_equal(result.end, JOBDIR_EXITED);
	assert_int_equal(result.value, 4);
	assert_string_equal(rig_output(rig), "one\r\ntwo\r\n");
}

static void one_who_reads_slowly_gets_all(void **state)
{
	struct rig *rig = *state;
	rig->launch.spec.pty = true;
	rig_run(rig, "read line; seq 1 60000; echo end");
	int fd = visit(rig);
	type(fd, "go\r");
	size_t total = 0;
	for (;;) {
		struct pollfd wait = {.fd = fd, .events = POLLIN};
		char packet[ATTACH_PACKET_MAX];
		const struct timespec pause = {.tv_nsec = 10000000};
		assert_int_equal(poll(&wait, 1, PATIENCE_MS), 1);
		(void)nanosleep(&pause, NULL); /* what is slow here is the reader */
		ssize_t length = recv(fd, packet, sizeof(packet), MSG_DONTWAIT);
		if (length <= 0)
			break;
		total += (size_t)length - 1;
	}
	(void)close(fd);
	assert_int_equal(rig_finish(rig).value, 0);
	/* 60000 lines, what was typed, and the end. */
	assert_int_equal(total, 348894 + 60000 + strlen("go\r\n") + strlen("end\r\n"));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, rig_new, rig_free)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(it_is_the_jobs_terminal),
	    CASE(its_size_is_the_last_visitors),
	    CASE(nobody_need_sit_there),
	    CASE(too_many_visitors),
	    CASE(it_has_a_copy_too),
	    CASE(a_job_that_closes_it_goes_on),
	    CASE(one_who_reads_slowly_gets_all),
	    CASE(one_who_does_not_read_is_sent_away),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
