/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A long-lived process that does little keeps mapped what its start has needed: a page fault in
 * code maps the sixteen pages around it, and most of SQLite or of the commands is never needed
 * again. Here these mappings are given back, and what is still needed comes back from the page
 * cache at the next touch, for about a microsecond. Nothing is read from the disk for it unless the
 * machine itself has run short of memory.
 *
 * Only read-only parts of the program and of libraries that were loaded when resident_init() was
 * called; never what the loader or anybody else may have written to, and nothing that is loaded
 * later, such as a driver's library. (A debugger's breakpoints are written into code, and are
 * lost.)
 */
#ifndef SLUICE_BASE_RESIDENT_H
#define SLUICE_BASE_RESIDENT_H

#include <stddef.h>
#include <stdint.h>

enum resident_limits {
	RESIDENT_RANGE_MAX = 64, /* two or three of each library; more are left alone */
	RESIDENT_STACK_MAX = 1 << 20,
};

struct resident {
	uint32_t count;
	struct {
		void *at;
		size_t size;
	} range[RESIDENT_RANGE_MAX];
};

/* Once, before other threads and before anything is opened with dlopen(). */
void resident_init(struct resident *resident);

/* What is free in the heap, and the mappings. Any thread, at any time; some tens of microseconds.
 */
void resident_give_back(const struct resident *resident);

/* What calls that have returned have left behind on the stack of the calling thread: one deep call
 * keeps its pages for good otherwise. At most a megabyte; below it nobody has been. */
void resident_give_back_stack(void);

#endif
