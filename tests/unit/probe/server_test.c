/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/server.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "hardware/snapshot.h"
#include "probe/message.h"
#include "unit/unit.h"

#define SECOND UINT64_C(1000000000)

static pid_t pid;
static int fd = -1;
static struct call_marks *marks;
static struct buf input;
static size_t used; /* bytes of the message that next() gave last */

static void start(const char *behaviour, bool once)
{
	char path[4096];
	int pair[2];
	(void)snprintf(path, sizeof(path), "%s/whole", getenv("FAKE_NVML_DIR"));
	setenv("LD_LIBRARY_PATH", path, 1);
	setenv("SLUICE_SIM_STATE", "/nonexistent/state", 1);
	setenv("FAKE_NVML", behaviour, 1);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	int marks_fd = memfd_create("marks", MFD_CLOEXEC);
	assert_int_equal(ftruncate(marks_fd, sizeof(struct call_marks)), 0);
	marks = mmap(NULL, sizeof(*marks), PROT_READ, MAP_SHARED, marks_fd, 0);
	assert_ptr_not_equal(marks, MAP_FAILED);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)close(pair[0]);
		const struct server_options options = {.fd = pair[1],
						       .marks_fd = marks_fd,
						       .once = once,
						       .period_ns = SECOND / 50,
						       .kmsg_after = UINT64_MAX,
						       .snapshot_sequence = 41,
						       .root = "/nonexistent"};
		server_run(&options);
	}
	(void)close(pair[1]);
	(void)close(marks_fd);
	fd = pair[0];
	buf_init(&input, 2 * MESSAGE_BODY_MAX);
	used = 0;
}

/* The next message; its body is good until the next call. */
static enum message_kind next(const void **body, size_t *length)
{
	uint64_t end = unit_now_ns() + 20 * SECOND;
	if (used > 0)
		buf_consume(&input, used);
	used = 0;
	for (;;) {
		enum message_kind kind;
		int rc = message_next(input.data, input.length, &kind, body, length, &used);
		assert_true(rc >= 0);
		if (rc == 1)
			return kind;
		used = 0;
		struct pollfd wait = {.fd = fd, .events = POLLIN};
		assert_true(unit_now_ns() < end);
		(void)poll(&wait, 1, 1000);
		assert_int_equal(buf_reserve(&input, 65536), 0);
		ssize_t got = recv(fd, input.data + input.length, 65536, MSG_DONTWAIT);
		if (got == 0)
			fail_msg("the probe ended");
		if (got > 0)
			input.length += (size_t)got;
	}
}

static int wait_for_end(void)
{
	int status = -1;
	uint64_t end = unit_now_ns() + 20 * SECOND;
	while (waitpid(pid, &status, WNOHANG) == 0) {
		assert_true(unit_now_ns() < end);
		(void)poll(NULL, 0, 5);
	}
	pid = 0;
	return status;
}

static int teardown(void **state)
{
	if (pid > 0) {
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
		pid = 0;
	}
	if (fd >= 0)
		(void)close(fd);
	fd = -1;
	buf_done(&input);
	(void)munmap(marks, sizeof(*marks));
	return 0;
}

static void test_once(void **state)
{
	const void *body;
	size_t length;
	struct inventory inventory;
	struct snapshot *snapshot;
	start("gpus=64", true);
	assert_int_equal(next(&body, &length), MESSAGE_INVENTORY);
	assert_int_equal(message_read_inventory(body, length, &inventory), 0);
	assert_int_equal(inventory.gpu_count, 64);
	inventory_done(&inventory);
	assert_int_equal(next(&body, &length), MESSAGE_SNAPSHOT);
	assert_int_equal(message_read_snapshot(body, length, &snapshot), 0);
	assert_int_equal(snapshot->gpu_count, 64);
	assert_int_equal(snapshot->sequence, 42);
	assert_int_equal(snapshot->simulated, 1);
	free(snapshot);
	assert_int_equal(next(&body, &length), MESSAGE_DONE);
	assert_int_equal(wait_for_end(), 0);
}

static void test_goes_on_and_ends_with_its_client(void **state)
{
	const void *body;
	size_t length;
	start("gpus=2", false);
	assert_int_equal(next(&body, &length), MESSAGE_INVENTORY);
	for (uint64_t sequence = 42; sequence < 47; sequence++) {
		struct snapshot *snapshot;
		assert_int_equal(next(&body, &length), MESSAGE_SNAPSHOT);
		assert_int_equal(message_read_snapshot(body, length, &snapshot), 0);
		assert_int_equal(snapshot->sequence, sequence);
		assert_true(malloc_usable_size(snapshot) < 2 * (size_t)snapshot_length(2));
		free(snapshot);
	}
	(void)close(fd);
	fd = -1;
	assert_int_equal(wait_for_end(), 0);
}

static void test_driver_down(void **state)
{
	const void *body;
	size_t length;
	struct message_notice notice;
	start("init=9", false);
	assert_int_equal(next(&body, &length), MESSAGE_DRIVER_DOWN);
	assert_int_equal(message_read_notice(body, length, &notice), 0);
	assert_int_equal(notice.code, -ENODEV);
	assert_int_equal(wait_for_end(), 0);
}

/* The call that hangs is named in the page, and the process still ends when its client goes. */
static void test_hang_is_marked(void **state)
{
	struct call_stuck stuck = {.gpu = 0};
	start("gpus=2 name:1=hang", false);
	uint64_t end = unit_now_ns() + 20 * SECOND;
	while (!call_mark_is_stuck(&marks->slot[0], clock_real_ns(), SECOND / 5, &stuck)) {
		assert_true(unit_now_ns() < end);
		(void)poll(NULL, 0, 5);
	}
	assert_int_equal(stuck.gpu, 1);
	assert_string_equal(stuck.bus, "0000:02:00.0");
	assert_string_equal(stuck.function, "nvmlDeviceGetName");
	(void)close(fd);
	fd = -1;
	assert_int_equal(wait_for_end(), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_once),
	    TEST(test_goes_on_and_ends_with_its_client),
	    TEST(test_driver_down),
	    TEST(test_hang_is_marked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
