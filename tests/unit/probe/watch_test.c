/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "hardware/pci.h"
#include "unit/unit.h"

static char *directory;
static struct watch watch;
static uint32_t found[32], found_count;

static int setup(void **state)
{
	directory = unit_tmp_new();
	found_count = 0;
	return 0;
}

static int teardown(void **state)
{
	watch_done(&watch);
	directory = unit_tmp_free(directory);
	return 0;
}

static void keep(const struct kmsg_xid *xid, void *context)
{
	assert_ptr_equal(context, &found_count);
	assert_true(found_count < 32);
	found[found_count++] = xid->xid;
}

static void read_log(void)
{
	watch_read_log(&watch, keep, &found_count);
}

static void append(const char *name, const char *text)
{
	FILE *file = fopen(unit_path(directory, name), "a");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

#define XID(sequence, code)                                                                        \
	"4," #sequence ",7000000,-;NVRM: Xid (PCI:0000:07:00): " #code ", pid=1, name=a, text\n"

static void start(uint64_t known)
{
	struct err err;
	assert_int_equal(watch_open(&watch, directory, true, true, known, &err), 0);
	assert_int_equal(watch.uevent_fd, -1); /* of who ends soon */
	watch_follow_devices(&watch, directory, true);
}

static void test_plain_file(void **state)
{
	append("kmsg", XID(1, 31) "4,2,1,-;something else\n" XID(3, 48));
	start(UINT64_MAX);
	read_log();
	assert_int_equal(found_count, 2);
	assert_int_equal(found[1], 48);
	read_log();
	assert_int_equal(found_count, 2);
	append("kmsg", XID(4, 62));
	int fds[WATCH_FD_MAX];
	assert_int_equal(watch_fds(&watch, fds), 1);
	struct pollfd fd = {.fd = fds[0], .events = POLLIN};
	assert_int_equal(poll(&fd, 1, 10000), 1); /* the growth wakes us */
	(void)watch_devices_changed(&watch);
	read_log();
	assert_int_equal(found_count, 3);
}

static void test_half_a_record(void **state)
{
	append("kmsg", "4,1,7,-;NVRM: Xid (PCI:0000:07");
	start(UINT64_MAX);
	read_log();
	assert_int_equal(found_count, 0);
	append("kmsg", ":00): 62, x\n");
	read_log();
	assert_int_equal(found_count, 1);
}

static void test_known_records_are_not_told_again(void **state)
{
	append("kmsg", XID(1, 31) XID(2, 43) XID(3, 48));
	start(2);
	read_log();
	assert_int_equal(found_count, 1);
	assert_int_equal(found[0], 48);
}

/* A record longer than any the kernel writes is dropped, and what follows is read. */
static void test_endless_line(void **state)
{
	FILE *file = fopen(unit_path(directory, "kmsg"), "a");
	assert_non_null(file);
	for (int i = 0; i < 50000; i++)
		(void)fputc('x', file);
	(void)fputs("\n" XID(9, 62), file);
	assert_int_equal(fclose(file), 0);
	start(UINT64_MAX);
	read_log();
	assert_int_equal(found_count, 1);
}

static void test_fifo(void **state)
{
	assert_int_equal(mkfifo(unit_path(directory, "kmsg"), 0600), 0);
	start(UINT64_MAX);
	assert_false(watch.kmsg_is_file);
	int fd = open(unit_path(directory, "kmsg"), O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	static const char record[] = XID(1, 95);
	assert_int_equal(write(fd, record, sizeof(record) - 1), sizeof(record) - 1);
	read_log();
	assert_int_equal(found_count, 1);
	(void)close(fd);
}

static void test_no_log(void **state)
{
	struct err err = {.code = 0};
	assert_int_equal(watch_open(&watch, directory, true, true, UINT64_MAX, &err), 0);
	assert_int_equal(watch.kmsg_fd, -1);
	assert_non_null(strstr(err.text, "cannot be read"));
	read_log();
	watch_done(&watch);
	/* a simulated machine without files: never this machine's own log */
	err.code = 0;
	assert_int_equal(watch_open(&watch, PCI_NO_ROOT, true, true, UINT64_MAX, &err), 0);
	assert_int_equal(watch.kmsg_fd, -1);
	assert_string_equal(err.text, "this simulated machine has no kernel log");
	watch_done(&watch);
	err.code = 0;
	assert_int_equal(watch_open(&watch, "", true, true, UINT64_MAX, &err), 0);
	watch_follow_devices(&watch, "", true);
	assert_int_equal(watch.kmsg_fd, -1);
	assert_int_equal(watch.uevent_fd, -1);
}

static void test_devices(void **state)
{
	append("uevent", "");
	start(UINT64_MAX);
	assert_false(watch_devices_changed(&watch));
	append("uevent", "remove@/devices/pci0000:00/0000:00:1b.0");
	assert_true(watch_devices_changed(&watch));
	assert_false(watch_devices_changed(&watch));
}

/* The time of a log with another clock: its last record is as old as the file. */
static void test_time(void **state)
{
	append("kmsg", XID(1, 31) "6,2,9000000,-;last\n");
	uint64_t before = unit_now_ns();
	start(UINT64_MAX);
	struct kmsg_xid xid = {.time_us = 9000000};
	uint64_t time_ns = watch_time_of(&watch, &xid);
	/* file times are as coarse as the kernel's tick */
	assert_true(time_ns <= unit_now_ns() + 1000000000 && time_ns + 10000000000 >= before);
	xid.time_us = 8000000;
	assert_int_equal(time_ns - watch_time_of(&watch, &xid), 1000000000);
	xid.time_us = UINT64_MAX;
	assert_int_equal(watch_time_of(&watch, &xid), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_plain_file),
	    TEST(test_half_a_record),
	    TEST(test_known_records_are_not_told_again),
	    TEST(test_endless_line),
	    TEST(test_fifo),
	    TEST(test_no_log),
	    TEST(test_devices),
	    TEST(test_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
