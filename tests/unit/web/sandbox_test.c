/* SPDX-License-Identifier: Apache-2.0 */
#include "web/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "unit/unit.h"

/* A sanitizer makes system calls of its own, which the filter does not know. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IS_SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define IS_SANITIZED 1
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED 0
#endif

enum { WORKED = 0, DENIED = 1, KILLED = 2, OTHER = 3, NO_FILTER = 4 };

static int pair[2];
static int epoll_fd;

/* --- what is tried; each returns as a system call does ---------------------------------------- */

static long try_open(void)
{
	return open("/etc/passwd", O_RDONLY);
}
static long try_openat2(void)
{
	return syscall(437, AT_FDCWD, "/etc/passwd", NULL, 0);
}
static long try_stat(void)
{
	return access("/etc/passwd", R_OK);
}
static long try_unlink(void)
{
	return unlink("/nothing/here");
}
static long try_socket(void)
{
	return socket(AF_INET, SOCK_STREAM, 0);
}
static long try_connect(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = 1};
	return connect(pair[0], (struct sockaddr *)&to, sizeof(to));
}
static long try_exec(void)
{
	char *const argv[] = {(char *)(uintptr_t) "true", NULL};
	return execv("/bin/true", argv);
}
static long try_fork(void)
{
	return fork();
}
static long try_clone3(void)
{
	return syscall(435, NULL, 0);
}
static long try_ptrace(void)
{
	return syscall(SYS_ptrace, 16, getppid(), 0, 0);
}
static long try_kill(void)
{
	return kill(getppid(), 0);
}
static long try_tgkill(void)
{
	return syscall(SYS_tgkill, getpid(), getpid(), 0);
}
static long try_code(void)
{
	void *at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return at == MAP_FAILED ? -1 : 0;
}
static long try_map_file(void)
{
	return mmap(NULL, 4096, PROT_READ, MAP_SHARED, pair[0], 0) == MAP_FAILED ? -1 : 0;
}
static long try_protect(void)
{
	return mprotect((void *)((uintptr_t)&pair & ~UINT64_C(4095)), 4096, PROT_READ | PROT_EXEC);
}
static long try_setuid(void)
{
	return setresuid(0, 0, 0);
}
static long try_chroot(void)
{
	return chroot("/");
}
static long try_prctl(void)
{
	return syscall(SYS_prctl, 3, 0, 0, 0, 0);
}
static long try_memfd(void)
{
	return memfd_create("x", 0);
}
static long try_sendto(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = 1};
	return sendto(pair[0], "x", 1, 0, (struct sockaddr *)&to, sizeof(to));
}
static long try_ioctl(void)
{
	return syscall(SYS_ioctl, 0, 0x5412, "x"); /* TIOCSTI: types into a terminal */
}
static long try_limit(void)
{
	const struct rlimit limit = {1, 1};
	return setrlimit(RLIMIT_CORE, &limit);
}
static long try_dup(void)
{
	return dup(0);
}

static long do_memory(void)
{
	void *at = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return -1;
	memset(at, 1, 1 << 20);
	at = mremap(at, 1 << 20, 2 << 20, MREMAP_MAYMOVE);
	return at == MAP_FAILED ? -1 : madvise(at, 2 << 20, MADV_DONTNEED) | munmap(at, 2 << 20);
}
static long do_talk(void)
{
	char byte;
	struct epoll_event event = {.events = EPOLLIN};
	if (send(pair[0], "x", 1, MSG_NOSIGNAL) != 1 ||
	    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, pair[1], &event) < 0 ||
	    epoll_wait(epoll_fd, &event, 1, 1000) != 1)
		return -1;
	return recv(pair[1], &byte, 1, 0) == 1 && shutdown(pair[0], SHUT_WR) == 0 ? close(pair[1])
										  : -1;
}

static const struct row {
	const char *name;
	long (*act)(void);
	int expected;
} rows[] = {
    {"open", try_open, DENIED},	       {"openat2", try_openat2, DENIED},
    {"access", try_stat, DENIED},      {"unlink", try_unlink, DENIED},
    {"socket", try_socket, KILLED},    {"connect", try_connect, KILLED},
    {"exec", try_exec, KILLED},	       {"fork", try_fork, KILLED},
    {"clone3", try_clone3, KILLED},    {"ptrace", try_ptrace, KILLED},
    {"kill", try_kill, KILLED},	       {"tgkill", try_tgkill, DENIED},
    {"code", try_code, KILLED},	       {"map a file", try_map_file, DENIED},
    {"mprotect", try_protect, KILLED}, {"setresuid", try_setuid, KILLED},
    {"chroot", try_chroot, KILLED},    {"prctl", try_prctl, DENIED},
    {"memfd", try_memfd, KILLED},      {"sendto elsewhere", try_sendto, DENIED},
    {"ioctl", try_ioctl, DENIED},      {"setrlimit", try_limit, DENIED},
    {"dup", try_dup, DENIED},	       {"memory", do_memory, WORKED},
    {"talk", do_talk, WORKED},
};

static int outcome(const struct row *row)
{
	int status;
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		int rc = sandbox_filter(NULL);
		if (rc < 0)
			_exit(rc == -ENOTSUP ? NO_FILTER : OTHER);
		errno = 0;
		long result = row->act();
		_exit(result >= 0 ? WORKED : errno == EPERM ? DENIED : OTHER);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGSYS ? KILLED : OTHER;
	return WEXITSTATUS(status);
}

static void test_filter(void **state)
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	epoll_fd = epoll_create1(0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int got = outcome(&rows[i]);
		if (got == NO_FILTER)
			skip();
		if (got != rows[i].expected && !(IS_SANITIZED && rows[i].expected == WORKED))
			fail_msg("%s: outcome %d, not %d", rows[i].name, got, rows[i].expected);
	}
	(void)close(pair[0]);
	(void)close(pair[1]);
	(void)close(epoll_fd);
}

#ifdef __x86_64__
/* Calls by the numbers of i386 (int 0x80) and of x32 go past no list. */
static long try_i386(void)
{
	long result;
	__asm__ volatile("int $0x80" : "=a"(result) : "a"(20L) : "memory");
	return result;
}
static long try_x32(void)
{
	return syscall(0x40000000 + 39);
}
static void test_other_numbers(void **state)
{
	static const struct row others[] = {{"i386", try_i386, KILLED}, {"x32", try_x32, KILLED}};
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_int_equal(outcome(&others[i]), KILLED);
}
#endif

/* As whoever runs the tests is: all but the change of user. */
static void test_enter(void **state)
{
	pid_t child = fork();
	int status;
	assert_true(child >= 0);
	if (child == 0) {
		struct err err = {.code = 0};
		bool is_root = geteuid() == 0;
		uint32_t who = is_root ? 65534 : SANDBOX_KEEP;
		struct rlimit limit;
		if (sandbox_enter(who, who, &err) < 0)
			_exit(10);
		if (open("/", O_RDONLY) >= 0 || errno != EPERM)
			_exit(11);
		if (getrlimit(RLIMIT_CORE, &limit) == 0)
			_exit(12); /* not on the list */
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (!IS_SANITIZED)
		assert_int_equal(WEXITSTATUS(status), 0);
}

/* Whoever may not become another user must not go on as if he were. */
static void test_cannot_become(void **state)
{
	struct err err = {.code = 0};
	if (geteuid() == 0)
		skip();
	assert_true(sandbox_enter(12345, 12345, &err) < 0);
	assert_true(err.text[0] != '\0');
}

static int drop_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{.effective = 0}};
	return (int)syscall(SYS_capset, &header, none);
}

/* Whether somebody of the same user without capabilities may look into the memory of `pid`. */
static bool can_look_into(pid_t pid)
{
	char path[64];
	int status;
	(void)snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(drop_capabilities() < 0 ? 2 : open(path, O_RDONLY) >= 0 ? 1 : 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
	return WEXITSTATUS(status) == 1;
}

/* The token is in it: nobody looks into its memory, and no program that the kernel pipes cores to
 * gets one, whatever the limit of cores says (core(5)). */
static void test_no_look_into_it(void **state)
{
	int ends[2], status;
	char byte;
	if (geteuid() != 0)
		skip();
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct err err = {.code = 0};
		(void)close(ends[0]);
		if (drop_capabilities() < 0 || sandbox_enter(65534, 65534, &err) < 0)
			_exit(10);
		_exit(write(ends[1], "x", 1) == 1 && read(ends[1], &byte, 1) == 0 ? 0 : 11);
	}
	(void)close(ends[1]);
	bool entered = read(ends[0], &byte, 1) == 1;
	bool seen = entered && can_look_into(child);
	(void)close(ends[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	if (IS_SANITIZED)
		skip();
	assert_true(entered);
	assert_false(seen);
}

/* Root of a container that has no capability: it stays who it is, behind the filter. */
static void test_no_capabilities(void **state)
{
	if (geteuid() != 0)
		skip();
	pid_t child = fork();
	int status;
	assert_true(child >= 0);
	if (child == 0) {
		struct err err = {.code = 0};
		if (drop_capabilities() < 0)
			_exit(9);
		if (sandbox_enter(65534, 65534, &err) < 0)
			_exit(10);
		if (open("/", O_RDONLY) >= 0 || errno != EPERM)
			_exit(11);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (!IS_SANITIZED)
		assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_filter),
#ifdef __x86_64__
	    cmocka_unit_test(test_other_numbers),
#endif
	    cmocka_unit_test(test_enter),	    cmocka_unit_test(test_cannot_become),
	    cmocka_unit_test(test_no_capabilities), cmocka_unit_test(test_no_look_into_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
