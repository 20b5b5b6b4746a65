/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the instructions of the filter say of each system call of this processor. An emulated
 * processor has no kernel that runs them, so a small interpreter does; the real kernel is asked by
 * sandbox_test.c.
 */
#include <elf.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/check.h"
#include "unit/unit.h"
#include "web/sandbox.h"

#if defined(__x86_64__)
#define ARCH	   AUDIT_ARCH_X86_64
#define ARCH_OTHER AUDIT_ARCH_I386 /* programs of 32 bits, on the same kernel */
#elif defined(__aarch64__)
#define ARCH	   AUDIT_ARCH_AARCH64
#define ARCH_OTHER AUDIT_ARCH_ARM
#endif

#ifdef ARCH

#define ALLOW SECCOMP_RET_ALLOW
#define KILL  SECCOMP_RET_KILL_PROCESS
#define DENY  (SECCOMP_RET_ERRNO | EPERM)

static struct sock_filter code[SANDBOX_CODE_MAX];
static uint16_t code_length;

/* What the kernel does with such a program (Documentation/networking/filter.rst); fails on an
 * instruction that ours has no use for. */
static uint32_t verdict(const struct seccomp_data *data)
{
	uint32_t word = 0;
	for (uint32_t at = 0; at < code_length; at++) {
		const struct sock_filter *now = &code[at];
		bool is_true = false;
		switch (now->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			assert_true(now->k % 4 == 0 && now->k + 4 <= sizeof(*data));
			memcpy(&word, (const char *)data + now->k, 4);
			continue;
		case BPF_RET | BPF_K:
			return now->k;
		case BPF_JMP | BPF_JEQ | BPF_K:
			is_true = word == now->k;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			is_true = word >= now->k;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			is_true = (word & now->k) != 0;
			break;
		default:
			fail_msg("instruction %u: code %#x", at, now->code);
		}
		at += is_true ? now->jt : now->jf;
	}
	fail_msg("it goes past its end");
	return 0;
}

static uint32_t verdict_of(int number)
{
	const struct seccomp_data data = {.nr = number, .arch = ARCH};
	return verdict(&data);
}

static const struct {
	const char *name;
	int number;
	uint32_t expected;
} calls[] = {
    {"read", SYS_read, ALLOW},
    {"write", SYS_write, ALLOW},
    {"epoll_pwait", SYS_epoll_pwait, ALLOW},
    {"accept4", SYS_accept4, ALLOW},
    {"exit_group", SYS_exit_group, ALLOW},
    {"futex", SYS_futex, ALLOW},
    {"rt_sigreturn", SYS_rt_sigreturn, ALLOW},
    {"openat", SYS_openat, DENY},
    {"openat2", 437, DENY},
    {"dup", SYS_dup, DENY},
    {"dup3", SYS_dup3, DENY},
    {"ioctl", SYS_ioctl, DENY},
    {"fcntl", SYS_fcntl, DENY},
    {"tgkill", SYS_tgkill, DENY},
    {"prctl", SYS_prctl, DENY},
    {"unlinkat", SYS_unlinkat, DENY},
    {"ppoll", SYS_ppoll, DENY},
    {"faccessat", SYS_faccessat, DENY},
    {"clone", SYS_clone, KILL},
    {"clone3", 435, KILL},
    {"execve", SYS_execve, KILL},
    {"execveat", SYS_execveat, KILL},
    {"socket", SYS_socket, KILL},
    {"connect", SYS_connect, KILL},
    {"ptrace", SYS_ptrace, KILL},
    {"kill", SYS_kill, KILL},
    {"mount", SYS_mount, KILL},
    {"chroot", SYS_chroot, KILL},
    {"setns", SYS_setns, KILL},
    {"bpf", SYS_bpf, KILL},
    {"keyctl", SYS_keyctl, KILL},
    {"memfd_create", SYS_memfd_create, KILL},
    {"mprotect", SYS_mprotect, KILL},
    {"setresuid", SYS_setresuid, KILL},
    {"io_uring_setup", 425, KILL},
/* What only older processors have; newer ones have the calls with a directory alone. */
#ifdef SYS_epoll_wait
    {"epoll_wait", SYS_epoll_wait, ALLOW},
#endif
#ifdef SYS_open
    {"open", SYS_open, DENY},
    {"access", SYS_access, DENY},
    {"poll", SYS_poll, DENY},
    {"dup2", SYS_dup2, DENY},
    {"fork", SYS_fork, KILL},
    {"vfork", SYS_vfork, KILL},
#endif
};

static void test_each_call(void **state)
{
	for (size_t i = 0; i < array_length(calls); i++) {
		uint32_t got = verdict_of(calls[i].number);
		if (got != calls[i].expected)
			fail_msg("%s: %#x, not %#x", calls[i].name, got, calls[i].expected);
	}
}

/* What is allowed is a list: of all numbers no more than it has, and none that is not there yet. */
static void test_few_are_allowed(void **state)
{
	uint32_t allowed = 0;
	for (int number = -10; number < 2000; number++)
		allowed += verdict_of(number) == ALLOW;
	assert_in_range(allowed, 20, 30);
	assert_int_equal(verdict_of(1000), DENY);
}

/* The same numbers mean other calls there. */
static void test_other_processors(void **state)
{
	for (int number = 0; number < 500; number++) {
		struct seccomp_data data = {.nr = number, .arch = ARCH_OTHER};
		assert_int_equal(verdict(&data), KILL);
	}
	struct seccomp_data data = {.nr = SYS_read, .arch = EM_RISCV | __AUDIT_ARCH_64BIT};
	assert_int_equal(verdict(&data), KILL);
}

static void test_memory(void **state)
{
	struct seccomp_data data = {.nr = SYS_mmap, .arch = ARCH};
	data.args[2] = PROT_READ | PROT_WRITE;
	data.args[3] = MAP_PRIVATE | MAP_ANONYMOUS;
	assert_int_equal(verdict(&data), ALLOW);
	data.args[3] = MAP_SHARED;
	assert_int_equal(verdict(&data), DENY);
	data.args[2] = PROT_READ | PROT_EXEC;
	data.args[3] = MAP_PRIVATE | MAP_ANONYMOUS;
	assert_int_equal(verdict(&data), KILL);
}

static void test_sendto(void **state)
{
	struct seccomp_data data = {.nr = SYS_sendto, .arch = ARCH};
	assert_int_equal(verdict(&data), ALLOW);
	data.args[4] = 16;
	assert_int_equal(verdict(&data), DENY);
	data.args[4] = UINT64_C(1) << 32;
	assert_int_equal(verdict(&data), DENY);
}

#endif

int main(void)
{
#ifdef ARCH
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_each_call),	     cmocka_unit_test(test_few_are_allowed),
	    cmocka_unit_test(test_other_processors), cmocka_unit_test(test_memory),
	    cmocka_unit_test(test_sendto),
	};
	code_length = sandbox_filter_code(code);
	return cmocka_run_group_tests(tests, NULL, NULL);
#else
	return 77;
#endif
}
