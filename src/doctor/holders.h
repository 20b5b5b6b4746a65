/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes that hold the driver's devices or RDMA adapters open, what memory they may lock,
 * and how large their /dev/shm is. Reads /proc only; a process that ends meanwhile, or that this
 * user may not look at, is left out. The parsers are pure.
 *
 * Facts: proc(5), capabilities(7).
 */
#ifndef SLUICE_DOCTOR_HOLDERS_H
#define SLUICE_DOCTOR_HOLDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rootfs;

enum holders_limits {
	HOLDERS_MAX = 256,	/* that are kept */
	HOLDERS_FDS_MAX = 4096, /* descriptors of one process that are looked at */
	HOLDERS_NAME_MAX = 16,	/* of a process */
	HOLDERS_POD_MAX = 48,
};
#define HOLDERS_UNLIMITED UINT64_MAX
#define HOLDERS_UNKNOWN	  (UINT64_MAX - 1)
#define HOLDERS_IPC_LOCK  (UINT64_C(1) << 14)

struct holder {
	uint32_t pid, uid;
	char name[HOLDERS_NAME_MAX];
	char pod[HOLDERS_POD_MAX]; /* its uid as the kubelet names its cgroup; "": none */
	uint64_t gpus;		   /* a bit for each /dev/nvidia<minor> below 64 */
	bool has_driver;	   /* any node of the driver, a GPU's or not */
	bool has_uvm;		   /* /dev/nvidia-uvm: it does CUDA, and does not only watch */
	bool has_uverbs;
	uint64_t memlock_bytes;	      /* its soft limit; HOLDERS_... */
	uint64_t effective, bounding; /* capabilities; 0 when they are not told */
	uint64_t shm_bytes;	      /* of its /dev/shm; HOLDERS_... */
};

struct holders {
	uint32_t count;
	uint32_t hidden; /* processes of which this user may not see what they hold */
	struct holder holder[HOLDERS_MAX];
};

/* Fills `out`. Processes that are beyond HOLDERS_MAX are left out. */
void holders_scan(const struct rootfs *rootfs, struct holders *out);

/* The soft limit in a line of /proc/PID/limits ("Max locked memory  65536  65536  bytes"). 0 or
 * -EINVAL: it is another line. */
int holders_parse_memlock(const char *text, size_t length, uint64_t *out_bytes);
/* The size of /dev/shm in a line of /proc/PID/mountinfo. -EINVAL: it is another mount.
 * HOLDERS_UNLIMITED: it has none, which is half of the machine's memory. */
int holders_parse_shm(const char *text, size_t length, uint64_t *out_bytes);
/* The uid of the pod in a line of /proc/PID/cgroup. -EINVAL: it names none. */
int holders_parse_pod(const char *text, size_t length, char out[HOLDERS_POD_MAX]);
/* Reads the limit of one process. 0 or -errno. */
int holders_memlock(const struct rootfs *rootfs, uint32_t pid, uint64_t *out_bytes);

#endif
