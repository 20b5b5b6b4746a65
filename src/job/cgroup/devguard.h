/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the processes of a cgroup away from some device nodes, whatever they are called, whoever
 * makes them and whatever a container's runtime allows: a list of what is denied, so that nothing
 * else on the machine breaks. Needs root. Knows nothing of GPUs or jobs.
 *
 * Kernel: Documentation/admin-guide/cgroup-v2.rst ("Device controller"),
 * Documentation/admin-guide/cgroup-v1/devices.rst, include/uapi/linux/bpf.h.
 */
#ifndef SLUICE_JOB_CGROUP_DEVGUARD_H
#define SLUICE_JOB_CGROUP_DEVGUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bpf_insn;
struct cgroup;
struct err;

/* As the kernel's BPF_DEVCG_ACC_. */
enum devguard_access {
	DEVGUARD_MKNOD = 1,
	DEVGUARD_READ = 2,
	DEVGUARD_WRITE = 4,
	DEVGUARD_ALL = 7,
};

enum devguard_limits {
	DEVGUARD_RULES_MAX = 800, /* the kernel took 4096 instructions before 5.2 */
	DEVGUARD_MAJOR_MAX = (1 << 12) - 1,
	DEVGUARD_MINOR_MAX = (1 << 20) - 1,
	DEVGUARD_HEAD = 6, /* instructions of a program before its rules, */
	DEVGUARD_EACH = 5, /* of each rule, */
	DEVGUARD_TAIL = 4, /* and behind them */
	DEVGUARD_PROGRAM_MAX = DEVGUARD_HEAD + DEVGUARD_EACH * DEVGUARD_RULES_MAX + DEVGUARD_TAIL,
	DEVGUARD_V1_MAX = 2048,	  /* minors of one rule for cgroup v1, where each is a line; */
	DEVGUARD_V1_GAP = 512,	  /* of what lies between two rules, and behind the last */
	DEVGUARD_V1_MAJORS = 512, /* that the kernel gives: CHRDEV_MAJOR_MAX, BLKDEV_MAJOR_MAX */
};

struct devguard_rule {
	char type;		     /* 'c' or 'b' */
	uint32_t major, first, last; /* minors, both included */
	uint32_t access;	     /* enum devguard_access: what is denied */
};

/*
 * The program for a cgroup v2: 0 (EPERM) for what a rule denies, 1 for all else. Returns how many
 * instructions it has; 0: too many rules. Pure. `out`: DEVGUARD_PROGRAM_MAX.
 */
size_t devguard_program(const struct devguard_rule *rules, size_t count, struct bpf_insn *out);

/*
 * Puts the rules around the cgroup and all that is below it, beside whatever rules are made there
 * later: those can only take away more. Holds until the cgroup is removed. -EPERM (not root, or
 * BPF is forbidden), -ENOSYS, -EINVAL (the kernel has no such programs), -E2BIG.
 */
int devguard_attach(const struct cgroup *cgroup, const struct devguard_rule *rules, size_t count,
		    struct err *err);

/* The same with a program that was made before (devguard_cache_get()); it fits any cgroup. */
int devguard_attach_made(const struct cgroup *cgroup, int program_fd, struct err *err);

/*
 * Programs that were made before, for a process that makes them for many jobs: the kernel takes a
 * tenth of a millisecond to check one. Used by one thread at a time. Starts as DEVGUARD_CACHE_NONE.
 */
enum { DEVGUARD_CACHE_MAX = 8 };

struct devguard_cache {
	struct devguard_made {
		struct devguard_rule *rules; /* owned */
		size_t count;
		int program_fd; /* owned */
	} made[DEVGUARD_CACHE_MAX];
	size_t used, next; /* the next one goes there */
	bool is_off;	   /* the kernel makes none for us */
};
#define DEVGUARD_CACHE_NONE ((struct devguard_cache){.used = 0})

/* A descriptor of its own (owned) of the program for these rules, or -1: whoever needs it makes it
 * himself, and hears why not. */
int devguard_cache_get(struct devguard_cache *cache, const struct devguard_rule *rules,
		       size_t count);
void devguard_cache_done(struct devguard_cache *cache);

/*
 * The same for a directory of the v1 hierarchy `devices`, which is made. Nobody is in it then. A
 * rule with more minors than DEVGUARD_V1_MAX that are not all of them cannot be written down as
 * what is denied: then all is denied, and what no rule has is allowed, of a major with rules the
 * DEVGUARD_V1_GAP first minors behind each of them. The same in a container, whose own group is
 * such a list. Without `with_mknod` making nodes is left out of what is denied: a container's
 * runtime that allows it for all nodes below, as they do, could not start, and what is made cannot
 * be opened. -errno.
 */
int devguard_attach_v1(const char *directory, const struct devguard_rule *rules, size_t count,
		       bool with_mknod, struct err *err);

#endif
