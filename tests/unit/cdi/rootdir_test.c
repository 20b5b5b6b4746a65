/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/rootdir.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "tests/unit/unit.h"

static int setup(void **state)
{
	assert_int_equal(unit_top_setup(state), 0);
	assert_int_equal(mkdir(unit_path(unit_top, "usr"), 0755), 0);
	assert_int_equal(mkdir(unit_path(unit_top, "usr/lib"), 0755), 0);
	unit_write(unit_path(unit_top, "usr/lib/a"), "inside");
	assert_int_equal(chmod(unit_path(unit_top, "usr/lib/a"), 0644), 0);
	return 0;
}

static void expect(const char *path, mode_t type, const char *real_expected)
{
	_cleanup_rootdir_ struct rootdir root = ROOTDIR_CLOSED;
	struct err err = {0};
	assert_int_equal(rootdir_open(unit_top, &root, &err), 0);
	char real[FILE_PATH_MAX];
	if (rootdir_find(&root, path, type, real, NULL, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(real, real_expected);
}

static void expect_error(const char *path, mode_t type, int code, const char *text)
{
	_cleanup_rootdir_ struct rootdir root = ROOTDIR_CLOSED;
	struct err err = {0};
	assert_int_equal(rootdir_open(unit_top, &root, &err), 0);
	char real[FILE_PATH_MAX] = "untouched";
	assert_int_equal(rootdir_find(&root, path, type, real, NULL, &err), code);
	if (!strstr(err.text, text))
		fail_msg("'%s' is not in: %s", text, err.text);
	assert_string_equal(real, "untouched");
}

static void test_links_stay_inside(void **state)
{
	(void)state;
	assert_int_equal(symlink("/usr/lib", unit_path(unit_top, "lib")), 0);
	assert_int_equal(symlink("../../../../../../usr/lib/a", unit_path(unit_top, "usr/lib/up")),
			 0);
	assert_int_equal(symlink("/etc/passwd", unit_path(unit_top, "usr/lib/out")), 0);
	assert_int_equal(symlink("loop", unit_path(unit_top, "usr/lib/loop")), 0);
	assert_int_equal(
	    symlink("/proc/self/root/etc/passwd", unit_path(unit_top, "usr/lib/magic")), 0);
	expect("/usr/lib/a", S_IFREG, "/usr/lib/a");
	expect("/lib/a", S_IFREG, "/usr/lib/a");
	expect("/lib/up", S_IFREG, "/usr/lib/a");
	expect("/../../usr/lib/a", S_IFREG, "/usr/lib/a");
	expect("/usr", S_IFDIR, "/usr");
	expect("/", S_IFDIR, "/");
	expect_error("/lib/out", S_IFREG, -ENOENT, "/lib/out");
	expect_error("/lib/magic", S_IFREG, -ENOENT, "/lib/magic");
	expect_error("/lib/loop", S_IFREG, -ELOOP, "/lib/loop");
}

static void test_only_what_nobody_else_can_write(void **state)
{
	(void)state;
	assert_int_equal(chmod(unit_path(unit_top, "usr/lib/a"), 0664), 0);
	expect_error("/usr/lib/a", S_IFREG, -EPERM, "/usr/lib/a' may be written by others");
	assert_int_equal(chmod(unit_path(unit_top, "usr/lib/a"), 0644), 0);
	assert_int_equal(chmod(unit_path(unit_top, "usr"), 01777), 0);
	expect_error("/usr/lib/a", S_IFREG, -EPERM, "/usr' may be written by others");
	assert_int_equal(chmod(unit_path(unit_top, "usr"), 0755), 0);
	if (geteuid() == 0) {
		assert_int_equal(chown(unit_path(unit_top, "usr/lib"), 65534, 65534), 0);
		expect_error("/usr/lib/a", S_IFREG, -EPERM, "/usr/lib' belongs to user 65534");
		assert_int_equal(chown(unit_path(unit_top, "usr/lib"), 0, 0), 0);
		assert_int_equal(chown(unit_path(unit_top, "usr/lib/a"), 65534, 65534), 0);
		expect_error("/usr/lib/a", S_IFREG, -EPERM, "/usr/lib/a' belongs to user 65534");
	}
}

static void test_type_is_what_was_asked(void **state)
{
	(void)state;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const char *path = unit_path(unit_top, "usr/socket");
	assert_true(strlen(path) < sizeof(address.sun_path));
	memcpy(address.sun_path, path, strlen(path) + 1);
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(mkfifo(unit_path(unit_top, "usr/fifo"), 0644), 0);
	expect_error("/usr/socket", S_IFREG, -EINVAL, "is no regular file");
	expect_error("/usr/fifo", S_IFREG, -EINVAL, "is no regular file");
	expect_error("/usr/lib", S_IFREG, -EINVAL, "is no regular file");
	expect_error("/usr/lib/a", S_IFDIR, -EINVAL, "is no directory");
	char real[FILE_PATH_MAX];
	_cleanup_rootdir_ struct rootdir root = ROOTDIR_CLOSED;
	struct err err = {0};
	assert_int_equal(rootdir_open(unit_top, &root, &err), 0);
	assert_int_equal(rootdir_find_daemon(&root, "/usr", "fifo", real, &err), -EINVAL);
	assert_non_null(strstr(err.text, "is no socket"));
	assert_int_equal(rootdir_find_daemon(&root, "/usr", "none", real, &err), -ENOENT);
	assert_int_equal(rootdir_find_daemon(&root, "/usr", "socket", real, &err), 0);
	assert_string_equal(real, "/usr");
	/* A link could lead to another's socket, and its directory would be mounted. */
	assert_int_equal(mkdir(unit_path(unit_top, "run"), 0755), 0);
	assert_int_equal(symlink("/usr/socket", unit_path(unit_top, "run/socket")), 0);
	assert_int_equal(rootdir_find_daemon(&root, "/run", "socket", real, &err), -EINVAL);
	/* The directory may be the daemon's, but not everybody's; those above it may not. */
	if (geteuid() == 0)
		assert_int_equal(chown(unit_path(unit_top, "usr"), 65534, 65534), 0);
	assert_int_equal(rootdir_find_daemon(&root, "/usr", "socket", real, &err), 0);
	assert_int_equal(chmod(unit_path(unit_top, "usr"), 0777), 0);
	assert_int_equal(rootdir_find_daemon(&root, "/usr", "socket", real, &err), -EPERM);
	assert_int_equal(chmod(unit_path(unit_top, "usr"), 0755), 0);
	if (geteuid() == 0)
		expect_error("/usr/lib/a", S_IFREG, -EPERM, "/usr' belongs to user 65534");
	assert_int_equal(chown(unit_path(unit_top, "usr"), geteuid(), getegid()), 0);
	expect_error("/usr/lib/a/b", S_IFREG, -ENOTDIR, "/usr/lib/a/b");
}

/* What a directory says is asked once, and of those above another one not again. */
static void test_entries(void **state)
{
	(void)state;
	_cleanup_rootdir_ struct rootdir root = ROOTDIR_CLOSED;
	struct err err = {0};
	char real[FILE_PATH_MAX];
	_cleanup_close_ int directory = -1, file = -1, link = -1, bad = -1;
	assert_int_equal(symlink("/usr/lib/a", unit_path(unit_top, "usr/lib/link")), 0);
	assert_int_equal(symlink("/etc/passwd", unit_path(unit_top, "usr/lib/out")), 0);
	assert_int_equal(mkfifo(unit_path(unit_top, "usr/lib/fifo"), 0644), 0);
	assert_int_equal(rootdir_open(unit_top, &root, &err), 0);
	assert_int_equal(rootdir_find(&root, "/usr/lib", S_IFDIR, real, &directory, &err), 0);
	assert_string_equal(root.trusted, "/usr/lib");
	assert_int_equal(rootdir_entry(&root, directory, "/usr/lib", "a", real, &file, &err), 0);
	assert_string_equal(real, "/usr/lib/a");
	assert_true(file >= 0);
	assert_int_equal(rootdir_entry(&root, directory, "/usr/lib", "link", real, &link, &err), 0);
	assert_string_equal(real, "/usr/lib/a");
	static const struct {
		const char *name;
		int code;
	} wrong[] = {{"out", -ENOENT}, {"fifo", -EINVAL}, {".", -EINVAL}, {"none", -ENOENT}};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(
		    rootdir_entry(&root, directory, "/usr/lib", wrong[i].name, real, &bad, &err),
		    wrong[i].code);
	assert_int_equal(chmod(unit_path(unit_top, "usr/lib/a"), 0666), 0);
	assert_int_equal(rootdir_entry(&root, directory, "/usr/lib", "a", real, &bad, &err),
			 -EPERM);
	/* "/usr/li" is not "/usr/lib". */
	assert_int_equal(mkdir(unit_path(unit_top, "usr/li"), 0777), 0);
	assert_int_equal(chmod(unit_path(unit_top, "usr/li"), 0777), 0);
	assert_int_equal(mkdir(unit_path(unit_top, "usr/li/in"), 0755), 0);
	assert_int_equal(rootdir_find(&root, "/usr/li/in", S_IFDIR, real, NULL, &err), -EPERM);
	assert_int_equal(bad, -1);
}

static void test_root(void **state)
{
	(void)state;
	struct rootdir root = ROOTDIR_CLOSED;
	struct err err = {0};
	assert_int_equal(rootdir_open("relative", &root, &err), -EINVAL);
	assert_int_equal(rootdir_open(unit_path(unit_top, "missing"), &root, &err), -ENOENT);
	assert_int_equal(rootdir_open(unit_path(unit_top, "usr/lib/a"), &root, &err), -ENOTDIR);
	assert_int_equal(chmod(unit_top, 0777), 0);
	assert_int_equal(rootdir_open(unit_top, &root, &err), -EPERM);
	assert_non_null(strstr(err.text, "driver root"));
	assert_int_equal(chmod(unit_top, 0755), 0);

	/* Without openat2(2) only "/" can be looked through. */
	char real[FILE_PATH_MAX];
	assert_int_equal(rootdir_open(unit_top, &root, &err), 0);
	root.without_openat2 = true;
	assert_int_equal(rootdir_find(&root, "/usr", S_IFDIR, real, NULL, &err), -EOPNOTSUPP);
	rootdir_close(&root);
	assert_int_equal(rootdir_open("/", &root, &err), 0);
	assert_string_equal(root.path, "");
	root.without_openat2 = true;
	assert_int_equal(rootdir_find(&root, "/usr", S_IFDIR, real, NULL, &err), 0);
	assert_string_equal(real, "/usr");
	rootdir_close(&root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_links_stay_inside, setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_only_what_nobody_else_can_write, setup,
					    unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_type_is_what_was_asked, setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_entries, setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_root, setup, unit_top_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
