/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "job/trash.h"
#include "unit/unit.h"

enum { ALICE = 4242, BOB = 4343, DEEP = 1000, WIDE = 300 };

/* The state directory, as `unit_top`. */
static int state_open(void)
{
	int fd = open(unit_top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static void make_deep(int fd, int depth)
{
	int at = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < depth; i++) {
		assert_int_equal(mkdirat(at, "deeper", 0700), 0);
		assert_int_equal(mknodat(at, "file", S_IFREG | 0600, 0), 0);
		int next = openat(at, "deeper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		(void)close(at);
		at = next;
	}
	(void)close(at);
}

/* The directories of make_deep(). */
static void give_all(int fd, uid_t uid)
{
	int at = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	while (at >= 0) {
		assert_int_equal(fchown(at, uid, uid), 0);
		int next = openat(at, "deeper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		(void)close(at);
		at = next;
	}
}

static int make_at(int fd, const char *name)
{
	assert_int_equal(mkdirat(fd, name, 0700), 0);
	int made = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(made >= 0);
	return made;
}

static void throw_away(int state, const char *name)
{
	struct err err = {0};
	_cleanup_close_ int trash = trash_open(state, &err);
	assert_true(trash >= 0);
	if (trash_move(trash, state, name, 7, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_not_equal(faccessat(state, name, F_OK, AT_SYMLINK_NOFOLLOW), 0);
}

static struct trash_left clear(int state)
{
	struct err err = {0};
	struct trash_left left = {.left = 99};
	_cleanup_close_ int trash = trash_open(state, &err);
	assert_int_equal(trash_clear(trash, NULL, NULL, &left, &err), 0);
	assert_int_equal(trash_is_empty(trash), left.left == 0);
	return left;
}

static void nothing_is_too_deep(void **state)
{
	_cleanup_close_ int top = state_open();
	_cleanup_close_ int tree = make_at(top, "tree");
	make_deep(tree, DEEP);
	throw_away(top, "tree");
	struct trash_left left = clear(top);
	assert_int_equal(left.left, 0);
	assert_true(left.removed >= 2 * DEEP);
}

static void nor_too_wide(void **state)
{
	_cleanup_close_ int top = state_open();
	_cleanup_close_ int tree = make_at(top, "tree");
	for (int i = 0; i < WIDE; i++) {
		char name[32];
		(void)snprintf(name, sizeof(name), "%d", i);
		assert_int_equal(mkdirat(tree, name, i % 2 ? 0700 : 0), 0);
		(void)snprintf(name, sizeof(name), "file%d", i);
		assert_int_equal(mknodat(tree, name, S_IFREG | 0600, 0), 0);
	}
	assert_int_equal(mknodat(tree, "fifo", S_IFIFO | 0600, 0), 0);
	throw_away(top, "tree");
	assert_int_equal(clear(top).left, 0);
}

static void no_link_is_followed(void **state)
{
	_cleanup_close_ int top = state_open();
	(void)close(make_at(top, "other"));
	unit_write(unit_path(unit_top, "other/file"), "x");
	_cleanup_close_ int tree = make_at(top, "tree");
	_cleanup_close_ int inner = make_at(tree, "inner");
	assert_int_equal(symlinkat("../../other", tree, "link"), 0);
	assert_int_equal(symlinkat(unit_path(unit_top, "other"), inner, "link"), 0);
	throw_away(top, "tree");
	assert_int_equal(symlinkat("other", top, "link"), 0); /* in place of a tree */
	throw_away(top, "link");
	assert_int_equal(clear(top).left, 0);
	assert_int_equal(access(unit_path(unit_top, "other/file"), F_OK), 0);
}

/* As the only one: unit tests of one program share a process. */
static void in_a_child(void (*body)(void))
{
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		body();
		_exit(0);
	}
	int status = 0;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

#define EXPECT(what)                                                                               \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			(void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);           \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static void with_mounts(void)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		_exit(77);
	int top = state_open();
	int tree = make_at(top, "tree");
	EXPECT(mkdirat(tree, "a", 0700) == 0 && mkdirat(tree, "a/mounted", 0700) == 0);
	EXPECT(mkdirat(tree, "b", 0700) == 0 && mkdirat(tree, "b/c", 0700) == 0);
	if (mount("none", unit_path(unit_top, "tree/a/mounted"), "tmpfs", 0, NULL) < 0)
		_exit(77);
	unit_write(unit_path(unit_top, "tree/a/mounted/precious"), "x");
	int mounted = openat(tree, "a/mounted", O_PATH | O_CLOEXEC);

	/* Not even moved, as the very thing that is moved. */
	int a = openat(tree, "a", O_PATH | O_CLOEXEC), trash = trash_open(top, NULL);
	struct err err = {0};
	EXPECT(trash_move(trash, a, "mounted", 1, &err) < 0 && strstr(err.text, "mounted"));

	EXPECT(trash_move(trash, top, "tree", 7, &err) == 0);
	struct trash_left left = {0};
	EXPECT(trash_clear(trash, NULL, NULL, &left, &err) == 0);
	EXPECT(left.left == 1 && strstr(left.first, "mounted"));
	EXPECT(faccessat(mounted, "precious", F_OK, 0) == 0);
	/* The rest of it is gone. */
	struct stat status;
	EXPECT(fstat(tree, &status) == 0 && status.st_nlink == 0);

	/* Nor does it hinder what comes later; and once it is unmounted it goes. */
	char where[64];
	(void)snprintf(where, sizeof(where), "/proc/self/fd/%d", mounted);
	EXPECT(mkdirat(top, "next", 0700) == 0 && trash_move(trash, top, "next", 8, &err) == 0);
	EXPECT(trash_clear(trash, NULL, NULL, &left, &err) == 0 && left.left == 1);
	char path[4096];
	ssize_t length = readlink(where, path, sizeof(path) - 1);
	EXPECT(length > 0);
	path[length] = '\0';
	EXPECT(umount2(path, MNT_DETACH) == 0);
	EXPECT(trash_clear(trash, NULL, NULL, &left, &err) == 0 && left.left == 0);
	EXPECT(trash_is_empty(trash));
}

static void what_is_mounted_there_is_not_entered(void **state)
{
	in_a_child(with_mounts);
}

static void as_root(void)
{
	int top = state_open(), tree = make_at(top, "tree"), inner = make_at(tree, "inner");
	int theirs = make_at(tree, "theirs"), kept = make_at(theirs, "kept");
	struct trash_left left = {0};
	struct err err = {0};
	EXPECT(make_at(tree, "empty") >= 0);
	EXPECT(mknodat(theirs, "file", S_IFREG | 0600, 0) == 0);
	EXPECT(mknodat(kept, "file", S_IFREG | 0600, 0) == 0);
	EXPECT(mknodat(inner, "of-root", S_IFREG | 0600, 0) == 0);
	EXPECT(fchown(theirs, BOB, BOB) == 0 && fchown(kept, BOB, BOB) == 0);
	EXPECT(fchownat(tree, "empty", BOB, BOB, 0) == 0);
	EXPECT(fchown(inner, ALICE, ALICE) == 0 && fchown(tree, ALICE, ALICE) == 0);
	int trash = trash_open(top, &err);
	EXPECT(trash_move(trash, top, "tree", 7, &err) == 0);

	/* What Alice moved in and may not remove herself nobody removes for her. */
	EXPECT(trash_clear(trash, NULL, NULL, &left, &err) == 0);
	EXPECT(left.left == 1 && strstr(left.first, "theirs"));
	EXPECT(faccessat(theirs, "file", F_OK, 0) == 0 && faccessat(kept, "file", F_OK, 0) == 0);

	/* Of a directory of ours it decides whose it is, too: that of a job, as it once was. */
	int job = make_at(top, "job"), mpi = make_at(job, "mpi.1"), worker = make_at(mpi, "w0");
	make_deep(worker, 40);
	EXPECT(fchown(mpi, ALICE, ALICE) == 0);
	give_all(worker, ALICE);
	EXPECT(trash_move(trash, top, "job", 8, &err) == 0);
	EXPECT(trash_clear(trash, NULL, NULL, &left, &err) == 0 && left.left == 1);

	EXPECT(fchown(theirs, ALICE, ALICE) == 0 && fchown(kept, ALICE, ALICE) == 0);
	EXPECT(trash_clear(trash, NULL, NULL, &left, &err) == 0 && left.left == 0);
}

static void what_is_not_the_users_stays(void **state)
{
	if (geteuid() != 0)
		skip();
	in_a_child(as_root);
}

/* Root's own, which Alice could move, being in a directory of hers or open to everybody, and whose
 * files she could not remove: hers go, and it stays with all that is in it. */
static void with_roots_own(void)
{
	int top = state_open(), tree = make_at(top, "tree"), inner = make_at(tree, "inner");
	int open_ = make_at(tree, "open"), data = make_at(inner, "data");
	struct trash_left left = {0};
	struct err err = {0};
	EXPECT(mknodat(open_, "file", S_IFREG | 0600, 0) == 0 && fchmod(open_, 0777) == 0);
	EXPECT(mknodat(data, "file", S_IFREG | 0600, 0) == 0);
	EXPECT(mknodat(inner, "hers", S_IFREG | 0600, 0) == 0);
	EXPECT(fchown(inner, ALICE, ALICE) == 0 && fchown(tree, ALICE, ALICE) == 0);
	int trash = trash_open(top, &err);
	EXPECT(trash_move(trash, top, "tree", 7, &err) == 0);
	for (int i = 0; i < 2; i++)
		EXPECT(trash_clear(trash, NULL, NULL, &left, &err) == 0 && left.left == 2);
	EXPECT(faccessat(open_, "file", F_OK, 0) == 0 && faccessat(data, "file", F_OK, 0) == 0);
	EXPECT(faccessat(inner, "hers", F_OK, 0) < 0);

	EXPECT(unlinkat(open_, "file", 0) == 0 && unlinkat(data, "file", 0) == 0);
	EXPECT(trash_clear(trash, NULL, NULL, &left, &err) == 0 && left.left == 0);
}

static void what_is_roots_stays(void **state)
{
	if (geteuid() != 0)
		skip();
	in_a_child(with_roots_own);
}

static void with_immutable(void)
{
	int top = state_open(), tree = make_at(top, "tree"), flags = FS_IMMUTABLE_FL;
	struct trash_left left = {0};
	int file = openat(tree, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (ioctl(file, FS_IOC_SETFLAGS, &flags) < 0)
		_exit(77);
	int trash = trash_open(top, NULL);
	EXPECT(mkdirat(tree, "inner", 0700) == 0 && mkdirat(tree, "inner/most", 0700) == 0);
	EXPECT(trash_move(trash, top, "tree", 7, NULL) == 0);
	EXPECT(trash_clear(trash, NULL, NULL, &left, NULL) == 0);
	bool is_told = left.left == 1 && strstr(left.first, "/file': Operation not permitted");
	flags = 0;
	EXPECT(ioctl(file, FS_IOC_SETFLAGS, &flags) == 0);
	EXPECT(is_told);
	EXPECT(trash_clear(trash, NULL, NULL, &left, NULL) == 0 && left.left == 0);
}

static void what_cannot_be_removed_is_told_and_passed_over(void **state)
{
	if (geteuid() != 0)
		skip();
	in_a_child(with_immutable);
}

/* --- somebody who does not want it to go ------------------------------------------------------ */

struct hostile {
	int tree, outside;
	atomic_bool stop;
	atomic_uint made;
};

/* Has every directory of it open, and makes files, directories and links there and moves them about
 * as long as it can. */
static void *hostile_main(void *context)
{
	struct hostile *self = context;
	int inner = openat(self->tree, "inner", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (unsigned i = 0; !atomic_load(&self->stop) && i < 200000; i++) {
		char name[32], other[32];
		(void)snprintf(name, sizeof(name), "h%u", i % 50);
		(void)snprintf(other, sizeof(other), "h%u", (i + 7) % 50);
		int where = i % 3 ? inner : self->tree;
		if (mkdirat(where, name, 0700) == 0)
			atomic_fetch_add(&self->made, 1);
		(void)renameat(where, name, i % 2 ? inner : self->tree, other);
		(void)symlinkat("/", where, other);
		(void)unlinkat(where, other, 0);
		/* A link in place of a directory that is about to be entered. */
		(void)renameat(where, other, self->outside, other);
		(void)symlinkat("../outside", where, other);
	}
	(void)close(inner);
	return NULL;
}

static void who_renames_meanwhile_leads_it_nowhere(void **state)
{
	_cleanup_close_ int top = state_open();
	struct hostile hostile = {.tree = make_at(top, "tree"), .outside = make_at(top, "outside")};
	make_deep(hostile.tree, 50);
	(void)close(make_at(hostile.tree, "inner"));
	unit_write(unit_path(unit_top, "outside/precious"), "x");
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, hostile_main, &hostile), 0);
	while (atomic_load(&hostile.made) < 100)
		(void)sched_yield();
	throw_away(top, "tree");
	for (int i = 0; i < 20; i++)
		(void)clear(top);
	atomic_store(&hostile.stop, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(clear(top).left, 0);
	assert_int_equal(access(unit_path(unit_top, "outside/precious"), F_OK), 0);
	(void)close(hostile.tree);
	(void)close(hostile.outside);
}

/* --- begun again ------------------------------------------------------------------------------ */

struct rest {
	unsigned bursts, die_at;
};

static void rest(void *context)
{
	struct rest *self = context;
	if (++self->bursts == self->die_at)
		_exit(9);
}

static void it_is_killed_and_goes_on(void **state)
{
	_cleanup_close_ int top = state_open();
	_cleanup_close_ int tree = make_at(top, "tree");
	make_deep(tree, 400);
	if (geteuid() == 0) /* what is taken of a user has to be known again */
		give_all(tree, ALICE);
	throw_away(top, "tree");
	unsigned deaths = 0;
	for (int status = 9 << 8; status == 9 << 8 && deaths < 1000; deaths++) {
		pid_t pid = fork();
		if (pid == 0) {
			struct rest each = {.die_at = 2};
			struct trash_left left;
			_cleanup_close_ int trash = trash_open(top, NULL);
			_exit(trash_clear(trash, rest, &each, &left, NULL) < 0 || left.left);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		assert_int_not_equal(WEXITSTATUS(status), 1);
	}
	assert_true(deaths > 5);
	assert_int_equal(clear(top).left, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, unit_top_setup, unit_top_teardown)
	const struct CMUnitTest tests[] = {
	    TEST(nothing_is_too_deep),
	    TEST(nor_too_wide),
	    TEST(no_link_is_followed),
	    TEST(what_is_mounted_there_is_not_entered),
	    TEST(what_is_not_the_users_stays),
	    TEST(what_is_roots_stays),
	    TEST(what_cannot_be_removed_is_told_and_passed_over),
	    TEST(who_renames_meanwhile_leads_it_nowhere),
	    TEST(it_is_killed_and_goes_on),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
