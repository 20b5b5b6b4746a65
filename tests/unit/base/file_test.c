/* SPDX-License-Identifier: Apache-2.0 */
/* Linked with --wrap=write and --wrap=fsync, so that a full disk and a failing one can be had. */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "unit/unit.h"

static ssize_t write_room = -1; /* bytes that write() still takes; -1: the real one */
static int fsync_fail_at;	/* the nth call fails; 0: none does */

ssize_t __real_write(int fd, const void *data, size_t length);
ssize_t __wrap_write(int fd, const void *data, size_t length);
int __real_fsync(int fd);
int __wrap_fsync(int fd);

ssize_t __wrap_write(int fd, const void *data, size_t length)
{
	if (write_room < 0)
		return __real_write(fd, data, length);
	if (write_room == 0) {
		errno = ENOSPC;
		return -1;
	}
	size_t take = length < (size_t)write_room ? length : (size_t)write_room;
	write_room -= (ssize_t)take;
	return __real_write(fd, data, take);
}

int __wrap_fsync(int fd)
{
	if (fsync_fail_at > 0 && --fsync_fail_at == 0) {
		errno = EIO;
		return -1;
	}
	return __real_fsync(fd);
}

static int setup(void **state)
{
	write_room = -1;
	fsync_fail_at = 0;
	*state = unit_tmp_new();
	return 0;
}

static int teardown(void **state)
{
	write_room = -1;
	*state = unit_tmp_free(*state);
	return 0;
}

static unsigned entries(const char *directory)
{
	unsigned count = 0;
	DIR *dir = opendir(directory);
	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count - 2;
}

static void expect_content(const char *path, const char *text)
{
	_cleanup_buf_ struct buf buf;
	buf_init(&buf, 1 << 20);
	struct err err = {0};
	assert_int_equal(file_read(path, &buf, &err), 0);
	assert_string_equal(buf_text(&buf), text);
}

static void test_read_appends_up_to_the_cap(void **state)
{
	const char *path = unit_path(*state, "f");
	unit_write(path, "12345");
	_cleanup_buf_ struct buf buf;
	buf_init(&buf, 10);
	struct err err = {0};
	assert_int_equal(file_read(path, &buf, &err), 0);
	assert_int_equal(file_read(path, &buf, &err), 0);
	assert_string_equal(buf_text(&buf), "1234512345");

	assert_int_equal(file_read(path, &buf, &err), -EFBIG);
	assert_non_null(strstr(err.text, path));
	assert_string_equal(buf_text(&buf), "1234512345");

	buf_consume(&buf, 8);
	buf.max = 6;
	assert_int_equal(file_read(path, &buf, &err), -EFBIG);
	assert_string_equal(buf_text(&buf), "45");
}

static void test_read_long_and_proc(void **state)
{
	const char *path = unit_path(*state, "long");
	char *text = malloc(100001);
	assert_non_null(text);
	memset(text, 'a', 100000);
	text[100000] = '\0';
	unit_write(path, text);
	expect_content(path, text);
	free(text);

	_cleanup_buf_ struct buf buf;
	buf_init(&buf, 1 << 16);
	assert_int_equal(file_read("/proc/self/status", &buf, NULL), 0);
	assert_non_null(strstr(buf_text(&buf), "Name:"));
}

static void test_read_errors_name_the_path(void **state)
{
	_cleanup_buf_ struct buf buf;
	buf_init(&buf, 100);
	struct err err = {0};
	const char *path = unit_path(*state, "none");
	assert_int_equal(file_read(path, &buf, &err), -ENOENT);
	assert_int_equal(err.code, -ENOENT);
	assert_non_null(strstr(err.text, path));
	assert_int_equal(file_read(*state, &buf, &err), -EISDIR);
	assert_non_null(strstr(err.text, *state));

	path = unit_path(*state, "fifo");
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(file_read(path, &buf, &err), 0); /* and does not hang */
	assert_int_equal(buf.length, 0);
}

static void test_write_creates_and_replaces(void **state)
{
	mode_t mask = umask(022);
	const char *path = unit_path(*state, "f");
	struct err err = {0};
	assert_int_equal(file_write_atomic(path, "one", 3, 0666, &err), 0);
	expect_content(path, "one");
	struct stat status;
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0644);

	assert_int_equal(file_write_atomic(path, "two!", 4, 0600, &err), 0);
	expect_content(path, "two!");
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0600);
	assert_int_equal(file_write_atomic(path, NULL, 0, 0600, &err), 0);
	expect_content(path, "");
	assert_int_equal(entries(*state), 1);
	umask(mask);
}

static void test_write_replaces_a_link_not_its_target(void **state)
{
	const char *target = unit_path(*state, "target");
	const char *path = unit_path(*state, "link");
	unit_write(target, "precious");
	assert_int_equal(symlink(target, path), 0);
	assert_int_equal(file_write_atomic(path, "new", 3, 0600, NULL), 0);
	expect_content(target, "precious");
	expect_content(path, "new");
}

static void test_write_replaces_no_device(void **state)
{
	const char *device = unit_path(*state, "null"), *pipe = unit_path(*state, "pipe");
	const char *out = unit_path(*state, "stdout");
	const char *const paths[] = {device, pipe, out};
	struct stat before, after;
	assert_int_equal(symlink("/dev/null", device), 0); /* mknod is root's */
	assert_int_equal(mkfifo(pipe, 0600), 0);
	assert_int_equal(symlink("/proc/self/fd/1", out), 0);
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		struct err err = {0};
		assert_int_equal(lstat(paths[i], &before), 0);
		assert_int_equal(file_write_atomic(paths[i], "new", 3, 0600, &err), -EEXIST);
		assert_non_null(strstr(err.text, paths[i]));
		assert_int_equal(lstat(paths[i], &after), 0);
		assert_int_equal(before.st_ino, after.st_ino);
	}
	assert_int_equal(entries(*state), 3);
}

static void test_full_disk_leaves_the_old_file(void **state)
{
	const char *path = unit_path(*state, "f");
	unit_write(path, "old");
	for (ssize_t room = 0; room < 8; room++) {
		struct err err = {0};
		write_room = room;
		assert_int_equal(file_write_atomic(path, "new text", 8, 0600, &err), -ENOSPC);
		write_room = -1;
		assert_non_null(strstr(err.text, path));
		expect_content(path, "old");
		assert_int_equal(entries(*state), 1);
	}
	write_room = 8;
	assert_int_equal(file_write_atomic(path, "new text", 8, 0600, NULL), 0);
	write_room = -1;
	expect_content(path, "new text");
}

static void test_size_limit_of_the_kernel(void **state)
{
	const char *path = unit_path(*state, "f");
	unit_write(path, "old");
	struct rlimit before;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	struct rlimit small = {.rlim_cur = 4, .rlim_max = before.rlim_max};
	void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	struct err err = {0};
	int rc = file_write_atomic(path, "new text", 8, 0600, &err);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	signal(SIGXFSZ, handler);
	assert_int_equal(rc, -EFBIG);
	expect_content(path, "old");
	assert_int_equal(entries(*state), 1);
}

static void test_failing_fsync(void **state)
{
	const char *path = unit_path(*state, "f");
	unit_write(path, "old");
	struct err err = {0};
	fsync_fail_at = 1; /* of the file */
	assert_int_equal(file_write_atomic(path, "new", 3, 0600, &err), -EIO);
	assert_non_null(strstr(err.text, path));
	expect_content(path, "old");
	assert_int_equal(entries(*state), 1);

	fsync_fail_at = 2; /* of the directory: too late to take it back, but not silent */
	assert_int_equal(file_write_atomic(path, "new", 3, 0600, &err), -EIO);
	assert_non_null(strstr(err.text, "durable"));
	expect_content(path, "new");
	assert_int_equal(entries(*state), 1);
}

static void test_write_errors(void **state)
{
	struct err err = {0};
	assert_int_equal(file_write_atomic(unit_path(*state, "a/b"), "x", 1, 0600, &err), -ENOENT);
	assert_non_null(strstr(err.text, "/a'"));
	assert_int_equal(file_write_atomic(unit_path(*state, ""), "x", 1, 0600, &err), -EISDIR);
	assert_int_equal(file_write_atomic(unit_path(*state, ".."), "x", 1, 0600, &err), -EISDIR);
	assert_int_equal(file_mkdirs(unit_path(*state, "dir/sub"), 0700, &err), 0);
	assert_int_equal(file_write_atomic(unit_path(*state, "dir"), "x", 1, 0600, &err), -EISDIR);
	assert_int_equal(entries(*state), 1);
}

static void test_write_like_keeps_mode_and_owner(void **state)
{
	const char *path = unit_path(*state, "a");
	struct err err = {0};
	struct stat like = {.st_mode = S_IFREG | 0666, .st_uid = getuid(), .st_gid = getgid()};
	if (getuid() == 0) {
		like.st_uid = 12;
		like.st_gid = 34;
	}
	assert_int_equal(file_write_like(path, "one", 3, &like, &err), 0);
	struct stat status;
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0666); /* whatever the umask */
	assert_int_equal(status.st_uid, like.st_uid);
	assert_int_equal(status.st_gid, like.st_gid);
	assert_int_equal(status.st_size, 3);
	like.st_mode = S_IFREG | 0640;
	fsync_fail_at = 1; /* nothing waits for the disk */
	assert_int_equal(file_write_transient(path, "four", 4, &like, &err), 0);
	assert_int_equal(fsync_fail_at, 1);
	fsync_fail_at = 0;
	expect_content(path, "four");
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0640);
	assert_int_equal(status.st_uid, like.st_uid);
}

static void test_path(void **state)
{
	char path[FILE_PATH_MAX] = "before";
	struct err err = {0};
	assert_int_equal(file_path(path, &err, "%s/proc/%d/stat", "/root", 7), 0);
	assert_string_equal(path, "/root/proc/7/stat");
	char *text = malloc(FILE_PATH_MAX + 1);
	assert_non_null(text);
	memset(text, 'x', FILE_PATH_MAX);
	text[FILE_PATH_MAX] = '\0';
	assert_int_equal(file_path(path, &err, "%s", text), -ENAMETOOLONG);
	assert_string_equal(path, "/root/proc/7/stat");
	assert_int_equal(file_path(path, &err, "%s", text + 1), 0);
	free(text);
}

static void test_mkdirs(void **state)
{
	struct err err = {0};
	const char *path = unit_path(*state, "a//b/c/");
	assert_int_equal(file_mkdirs(path, 0700, &err), 0);
	assert_int_equal(file_mkdirs(path, 0700, &err), 0);
	struct stat status;
	assert_int_equal(stat(path, &status), 0);
	assert_true(S_ISDIR(status.st_mode));

	unit_write(unit_path(*state, "file"), "");
	assert_int_equal(file_mkdirs(unit_path(*state, "file"), 0700, &err), -ENOTDIR);
	assert_int_equal(file_mkdirs(unit_path(*state, "file/x"), 0700, &err), -ENOTDIR);
	assert_non_null(strstr(err.text, "/file'"));
	assert_int_equal(file_mkdirs("", 0700, &err), -ENOENT);
}

static void test_exists(void **state)
{
	assert_true(file_exists(*state));
	assert_false(file_exists(unit_path(*state, "none")));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_read_appends_up_to_the_cap),
	    TEST(test_read_long_and_proc),
	    TEST(test_read_errors_name_the_path),
	    TEST(test_write_creates_and_replaces),
	    TEST(test_write_replaces_a_link_not_its_target),
	    TEST(test_write_replaces_no_device),
	    TEST(test_full_disk_leaves_the_old_file),
	    TEST(test_size_limit_of_the_kernel),
	    TEST(test_failing_fsync),
	    TEST(test_write_errors),
	    TEST(test_write_like_keeps_mode_and_owner),
	    TEST(test_path),
	    TEST(test_mkdirs),
	    TEST(test_exists),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
