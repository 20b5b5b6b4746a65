/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process.h"

#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* A heap for each of the two threads, so that they do not wait for each other, and what is free
 * goes back to the system: a small service stays small after a large answer. */
static void process_tune_memory(void)
{
	(void)mallopt(M_ARENA_MAX, 2);
	(void)mallopt(M_TRIM_THRESHOLD, 128 << 10);
	(void)mallopt(M_MMAP_THRESHOLD, 128 << 10);
}

/* Each job that runs takes some. */
static void process_raise_descriptors(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit); /* else fewer jobs run at a time */
	}
}

void process_prepare(void)
{
	process_tune_memory();
	process_raise_descriptors();
	(void)umask(022);
	(void)signal(SIGPIPE, SIG_IGN);
}
