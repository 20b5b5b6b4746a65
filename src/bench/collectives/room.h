/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory this process may still take before the machine or its control group has none
 * left: for refusing a run before it allocates. Knows nothing of what the memory is for.
 */
#ifndef SLUICE_BENCH_COLLECTIVES_ROOM_H
#define SLUICE_BENCH_COLLECTIVES_ROOM_H

#include <stddef.h>
#include <stdint.h>

enum room_limits { ROOM_LIMIT_MAX = 320 };

struct room {
	uint64_t bytes;		    /* UINT64_MAX: nothing says */
	char limit[ROOM_LIMIT_MAX]; /* who says: "MemAvailable of /proc/meminfo", a control group */
};

/* The least of MemAvailable and, for the control group of this process and those above it,
 * memory.max less what is used of it and could not be given back. Control groups of version 2, and
 * of version 1's memory controller. `root` stands before /proc and /sys ("" otherwise). */
void room_find(const char *root, struct room *out);

/* MemAvailable of the text of /proc/meminfo, bytes; -EBADMSG. Pure. */
int room_parse_available(const char *text, size_t length, uint64_t *out);

#endif
