/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directories in which ranks of one worker of a job share memory:
 * /dev/shm/sluice-INSTANCE/w<i>. Without their own they would share nothing, or by chance with
 * those of another worker. Made by the supervisor; removed by it, or by the agent when it was
 * killed. Knows nothing of MPI.
 */
#ifndef SLUICE_JOB_JOBMEMORY_H
#define SLUICE_JOB_JOBMEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct err;

enum {
	JOBMEMORY_PATH_MAX = 96,
	JOBMEMORY_STEP = 16384 /* entries that are removed in one call */
};

/* Makes it with `count` directories, all given to the user. `out` is its path, "" where the machine
 * has no /dev/shm. -errno. */
int jobmemory_make(const char *instance, size_t count, uid_t uid, gid_t gid,
		   char out[JOBMEMORY_PATH_MAX], struct err *err);
/* "w0", "w1", ... in the directory `fd`, and it as well, for the user. -errno. */
int jobmemory_make_places(int fd, size_t count, uid_t uid, gid_t gid, struct err *err);

/* With the files in it: nobody of the job may live. What is no file below "w<i>" stays, and what
 * somebody has mounted there is not entered; not there is fine. */
void jobmemory_remove(const char *instance);
/* The same in steps, for whoever has others to serve. False: there is more. */
bool jobmemory_remove_step(const char *instance);

#endif
