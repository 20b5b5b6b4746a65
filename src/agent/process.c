/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process.h"

#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

/*
 * One heap for the loop and for the storage thread, which waits for the disk and not for memory,
 * and what is free goes back to the system: a small service stays small after a large answer. Large
 * things, and tables of which little is ever used, lie outside of the heap: there only those of
 * their pages count that were written to. Without a pad, for on it calloc() would clear each page
 * first.
 */
static void process_tune_memory(void)
{
	(void)mallopt(M_ARENA_MAX, 1);
	(void)mallopt(M_TRIM_THRESHOLD, 128 << 10);
	(void)mallopt(M_MMAP_THRESHOLD, 32 << 10);
	(void)mallopt(M_TOP_PAD, 0);
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
