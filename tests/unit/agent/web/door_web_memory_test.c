/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/web/door_web_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit/unit.h"
#include "web/view.h"

static void test_what_the_reader_can(void **state)
{
	struct web_memory memory = WEB_MEMORY_NONE;
	struct view *copy = calloc(1, sizeof(*copy));
	uint64_t sequence = 1;
	assert_non_null(copy);
	assert_int_equal(web_memory_open(&memory, NULL), 0);
	int fd = web_memory_reader(&memory, NULL);
	assert_true(fd >= 0);
	struct view_shared *shared = mmap(NULL, sizeof(*shared), PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	assert_true(view_copy(shared, copy, &sequence)); /* valid from the beginning */
	view_begin(memory.shared);
	strcpy(memory.shared->view.node.host, "one");
	view_end(memory.shared);
	assert_true(view_copy(shared, copy, &sequence));
	assert_string_equal(copy->node.host, "one");
	/* Neither written, nor made writable, nor resized. */
	assert_int_equal(pwrite(fd, "x", 1, 0), -1);
	assert_int_equal(mprotect(shared, sizeof(*shared), PROT_READ | PROT_WRITE), -1);
	assert_ptr_equal(mmap(NULL, sizeof(*shared), PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(ftruncate(memory.fd, 0), -1);
	/* Whoever opens it again cannot, either, where the kernel seals it. */
	if (fcntl(memory.fd, F_GET_SEALS) & 0x0010) {
		char path[64];
		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		int again = open(path, O_RDWR | O_CLOEXEC);
		if (again >= 0) { /* root may open it */
			assert_int_equal(pwrite(again, "x", 1, 0), -1);
			(void)close(again);
		}
	} else {
		print_message("skipped: this kernel has no F_SEAL_FUTURE_WRITE\n");
	}
	assert_int_equal(munmap(shared, sizeof(*shared)), 0);
	(void)close(fd);
	web_memory_close(&memory);
	assert_int_equal(memory.fd, -1);
	web_memory_close(&memory);
	free(copy);
}

static void test_a_tick_never_waits(void **state)
{
	int fds[2];
	uint64_t value = 0;
	assert_int_equal(web_tick_open(fds, NULL), 0);
	/* The other side may do with its end what it likes. */
	assert_int_equal(fcntl(fds[1], F_SETFL, 0), 0);
	for (int i = 0; i < 10000; i++)
		web_tick(fds[0]);
	assert_int_equal(read(fds[1], &value, sizeof(value)), sizeof(value));
	assert_int_equal(value, 1);
	(void)close(fds[1]);
	web_tick(fds[0]); /* nobody is there: no signal */
	(void)close(fds[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_what_the_reader_can),
	    cmocka_unit_test(test_a_tick_never_waits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
