/* SPDX-License-Identifier: Apache-2.0 */
#include "web/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"

enum { CAPABILITY_MAX = 63 };

/* --- user, capabilities, root ----------------------------------------------------------------- */

/* A directory that has no name any more: nothing can be made in it, and nothing is there. */
static int sandbox_empty_root(void)
{
	static const char *const places[] = {"/run/sluice-web-XXXXXX", "/tmp/sluice-web-XXXXXX",
					     "/dev/shm/sluice-web-XXXXXX"};

	for (size_t i = 0; i < array_length(places); i++) {
		char path[32];
		size_t at = 0;
		for (; places[i][at] != '\0'; at++)
			path[at] = places[i][at];

		path[at] = '\0';
		if (!mkdtemp(path))
			continue;

		int rc = chdir(path) < 0 ? -errno : 0;
		if (rmdir(path) == 0 && rc == 0)
			return chroot(".") < 0 ? -errno : 0;
	}

	/* A file system that cannot be written: what the kernel says of our own descriptors. */
	return chroot("/proc/self/fdinfo") < 0 || chdir("/") < 0 ? -errno : 0;
}

static int sandbox_drop_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{.effective = 0}};
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

/* Whether it may become another user. In a container that was left no capability it may not. */
static bool sandbox_may_become(void)
{
	const uint32_t needed = (1u << CAP_SETUID) | (1u << CAP_SETGID);
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct has[_LINUX_CAPABILITY_U32S_3] = {{.effective = 0}};
	return syscall(SYS_capget, &header, has) == 0 && (has[0].effective & needed) == needed;
}

static int sandbox_become(uint32_t uid, uint32_t gid, struct err *err)
{
	uid_t real, effective, saved;
	int rc = sandbox_empty_root();
	if (rc < 0 && rc != -EPERM && rc != -ENOENT)
		return err_set(err, rc, "cannot change to an empty root directory: %s",
			       err_describe(rc));

	for (int i = 0; i <= CAPABILITY_MAX; i++)
		(void)prctl(PR_CAPBSET_DROP, i, 0, 0, 0); /* those that there are */

	if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
		return err_set(err, -errno, "cannot become user %u and group %u: %s", uid, gid,
			       err_describe(-errno));
	if (getresuid(&real, &effective, &saved) < 0 || real != uid || effective != uid ||
	    saved != uid || (uid != 0 && setuid(0) == 0))
		return err_set(err, -EPERM, "user 0 could not be given up");

	return 0;
}

static int sandbox_limit(int resource, rlim_t limit)
{
	struct rlimit now;
	if (getrlimit((__rlimit_resource_t)resource, &now) < 0)
		return -errno;
	if (now.rlim_max < limit)
		limit = now.rlim_max;
	const struct rlimit wanted = {.rlim_cur = limit, .rlim_max = limit};
	return setrlimit((__rlimit_resource_t)resource, &wanted) < 0 ? -errno : 0;
}

int sandbox_enter(uint32_t uid, uint32_t gid, struct err *err)
{
	int rc = 0;
	/* Without the capabilities for it, root stays root in name, and has no other capability
	 * either: the filter alone keeps it from the files of root, so there has to be one. */
	bool stays = uid != SANDBOX_KEEP && geteuid() == 0 && !sandbox_may_become();
	if (uid != SANDBOX_KEEP && !stays)
		rc = sandbox_become(uid, gid, err);
	if (rc < 0)
		return rc;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_set(err, -errno, "cannot give up new privileges: %s",
			       err_describe(-errno));

	rc = sandbox_drop_capabilities();
	if (rc < 0)
		return err_set(err, rc, "cannot give up capabilities: %s", err_describe(rc));

	/* No core: the token would be in it. A limit of 0 does not keep one from a program that the
	 * kernel pipes it to (core(5)), and changing the user does only where fs.suid_dumpable is
	 * 0, which systemd-coredump changes. */
	if (uid != SANDBOX_KEEP && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_set(err, -errno, "cannot do without cores: %s", err_describe(-errno));
	if (sandbox_limit(RLIMIT_CORE, 0) < 0 || sandbox_limit(RLIMIT_NPROC, 0) < 0 ||
	    sandbox_limit(RLIMIT_NOFILE, SANDBOX_DESCRIPTORS) < 0 ||
	    sandbox_limit(RLIMIT_AS, (rlim_t)SANDBOX_ADDRESS_MB << 20) < 0)
		return err_set(err, -errno, "cannot set limits: %s", err_describe(-errno));

	rc = sandbox_filter(err);
	return rc == -ENOTSUP && !stays ? 0 : rc;
}

/* --- system calls ----------------------------------------------------------------------------- */

#if defined(__x86_64__)
#define FILTER_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define FILTER_ARCH AUDIT_ARCH_AARCH64
#endif

#ifdef FILTER_ARCH

/* What serving takes; the often called ones first. */
static const uint32_t allowed[] = {
#ifdef __NR_epoll_wait
    __NR_epoll_wait,
#endif
    __NR_epoll_pwait,	  __NR_read,	  __NR_sendmsg,	   __NR_recvfrom,      __NR_epoll_ctl,
    __NR_accept4,	  __NR_close,	  __NR_shutdown,   __NR_clock_gettime, __NR_madvise,
    __NR_munmap,	  __NR_mremap,	  __NR_brk,	   __NR_write,	       __NR_gettimeofday,
    __NR_getrandom,	  __NR_getrusage, __NR_futex,	   __NR_rt_sigreturn,  __NR_rt_sigaction,
    __NR_rt_sigprocmask,  __NR_exit,	  __NR_exit_group, __NR_getpid,	       __NR_gettid,
    __NR_restart_syscall,
#ifdef __NR_epoll_pwait2
    __NR_epoll_pwait2,
#endif
};

/* What nobody but an intruder tries. */
static const uint32_t deadly[] = {
#ifdef __NR_fork
    __NR_fork,
    __NR_vfork,
#endif
#ifdef __NR_clone3
    __NR_clone3,
#endif
    __NR_clone,
    __NR_execve,
    __NR_execveat,
    __NR_socket,
    __NR_socketpair,
    __NR_connect,
    __NR_bind,
    __NR_listen,
    __NR_ptrace,
    __NR_kill,
    __NR_tkill,
    __NR_process_vm_readv,
    __NR_process_vm_writev,
    __NR_mount,
    __NR_umount2,
    __NR_chroot,
    __NR_pivot_root,
    __NR_unshare,
    __NR_setns,
    __NR_bpf,
    __NR_init_module,
    __NR_finit_module,
    __NR_kexec_load,
    __NR_keyctl,
    __NR_memfd_create,
    __NR_userfaultfd,
    __NR_perf_event_open,
    __NR_setuid,
    __NR_setresuid,
    __NR_capset,
    __NR_mprotect,
    __NR_personality,
#ifdef __NR_pkey_mprotect
    __NR_pkey_mprotect,
#endif
#ifdef __NR_io_uring_setup
    __NR_io_uring_setup,
#endif
};

enum { FILTER_MAX = 4 + 2 * (array_length(allowed) + array_length(deadly)) + 20 };

struct filter {
	struct sock_filter code[FILTER_MAX];
	uint16_t length;
};

static void add(struct filter *filter, struct sock_filter instruction)
{
	filter->code[filter->length++] = instruction;
}

static void add_load(struct filter *filter, size_t offset)
{
	add(filter, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

static void add_return(struct filter *filter, uint32_t what)
{
	add(filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what));
}

/* If what was loaded is `number` the next instruction counts, else it is skipped. */
static void add_if(struct filter *filter, uint32_t number)
{
	add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1));
}

/* The low half of an argument; both processors are little-endian. */
#define ARGUMENT(n)	 (offsetof(struct seccomp_data, args) + (n) * sizeof(uint64_t))
#define ARGUMENT_HIGH(n) (ARGUMENT(n) + sizeof(uint32_t))

/* Memory, but none that can be executed, and none of a file. */
static void add_mmap(struct filter *filter)
{
	add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_mmap, 0, 7));
	add_load(filter, ARGUMENT(2));
	add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1));
	add_return(filter, SECCOMP_RET_KILL_PROCESS);
	add_load(filter, ARGUMENT(3));
	add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_ANONYMOUS, 0, 1));
	add_return(filter, SECCOMP_RET_ALLOW);
	add_return(filter, SECCOMP_RET_ERRNO | EPERM);
}

/* To whom the connection is, and to nobody else. */
static void add_sendto(struct filter *filter)
{
	add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_sendto, 0, 6));
	add_load(filter, ARGUMENT(4));
	add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3));
	add_load(filter, ARGUMENT_HIGH(4));
	add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1));
	add_return(filter, SECCOMP_RET_ALLOW);
	add_return(filter, SECCOMP_RET_ERRNO | EPERM);
}

static void filter_make(struct filter *filter)
{
	add_load(filter, offsetof(struct seccomp_data, arch));
	add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FILTER_ARCH, 1, 0));
	add_return(filter, SECCOMP_RET_KILL_PROCESS);
	add_load(filter, offsetof(struct seccomp_data, nr));

	for (size_t i = 0; i < array_length(allowed); i++) {
		add_if(filter, allowed[i]);
		add_return(filter, SECCOMP_RET_ALLOW);
	}

	add_mmap(filter);
	add_sendto(filter);

	for (size_t i = 0; i < array_length(deadly); i++) {
		add_if(filter, deadly[i]);
		add_return(filter, SECCOMP_RET_KILL_PROCESS);
	}
#ifdef __x86_64__
	/* The numbers of x32, under which all calls are there a second time. */
	add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1));
	add_return(filter, SECCOMP_RET_KILL_PROCESS);
#endif
	add_return(filter, SECCOMP_RET_ERRNO | EPERM);
}

_Static_assert((int)FILTER_MAX <= (int)SANDBOX_CODE_MAX, "the filter fits");

uint16_t sandbox_filter_code(struct sock_filter *out)
{
	struct filter filter = {.length = 0};
	filter_make(&filter);
	for (uint16_t i = 0; i < filter.length; i++)
		out[i] = filter.code[i];
	return filter.length;
}

int sandbox_filter(struct err *err)
{
	struct filter filter = {.length = 0};
	filter_make(&filter);

	const struct sock_fprog program = {.len = filter.length, .filter = filter.code};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0)
		return err_set(err, -errno, "cannot set the filter of system calls: %s",
			       err_describe(-errno));

	return 0;
}

#else

uint16_t sandbox_filter_code(struct sock_filter *out)
{
	return 0;
}

int sandbox_filter(struct err *err)
{
	return err_set(err, -ENOTSUP, "there is no filter of system calls for this processor");
}

#endif
